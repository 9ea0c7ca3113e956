//! A table from a version that did not have a column.

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::{Field, Fields};
use ebb_cloud::store;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{PlacedStep, StepEnd};

use super::*;
use crate::lake::Commits;
use crate::rows::{ColumnError, Record, RowsError};

use crate::table::sample::{heartbeat, step, step_usage};
use crate::table::{Batched, Table};

/// A task as the first version of the table stored it.
struct Before(PlacedStep);

impl Record for Before {
    type Row = <PlacedStep as Record>::Row;

    fn day(&self) -> i32 {
        self.0.day()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn name_row(row: &Self::Row) -> String {
        PlacedStep::name_row(row)
    }

    fn put(&self) -> Result<Self::Row, ColumnError> {
        self.0.put()
    }

    fn get(row: Self::Row) -> Result<Self, ColumnError> {
        PlacedStep::get(row).map(Self)
    }

    fn fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
        let fields = PlacedStep::fields()?.into_iter();
        Ok(fields.filter(|field| field.name() != "detail").collect())
    }

    fn pack(rows: &[Self]) -> Result<RecordBatch, RowsError> {
        let rows: Vec<_> = rows.iter().map(|row| row.0.clone()).collect();
        let mut batch = PlacedStep::pack(&rows)?;
        let at = batch.schema().index_of("detail")?;
        batch.remove_column(at);
        Ok(batch)
    }
}

fn log(folder: &tempfile::TempDir, table: Table) -> TableLog {
    let url = format!("file://{}", folder.path().display());
    let place = store::open(&url).expect("a folder");
    TableLog::new(table, &place).expect("a table")
}

fn batch(number: u64) -> Batched {
    Batched {
        shard: Shard::ONLY,
        number,
        unknown_from: None,
    }
}

#[tokio::test]
async fn an_earlier_table_gets_the_new_columns_and_keeps_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let steps = log(&folder, Table::Steps);
    let old = step(0, step_usage("old", StepEnd::Exited(0)));
    let new = step(0, step_usage("new", StepEnd::Exited(0)));
    let rows = [Before(old.clone())];
    steps.append(&rows, &batch(1)).await.expect("appends");
    for number in 2..=3 {
        let rows = [new.clone()];
        steps.append(&rows, &batch(number)).await.expect("appends");
    }
    let read = steps
        .since::<PlacedStep>(Commits::after(None), 100)
        .await
        .expect("reads");
    let mut known = old;
    known.usage.detail = StepDetail::default();
    assert_eq!(read.rows, [known, new.clone(), new]);
    // Its creation, the batches, and the columns once.
    assert_eq!(read.newest, Some(4));
    // Rows without values for the new columns can still be appended, and repeats add nothing.
    let again = steps.append(&rows, &batch(3)).await.expect("looks");
    assert_eq!(again, crate::table::Appended::AlreadyThere(4));
}

/// The same columns, also in lists and structs, without columns named `detail`.
fn without_detail(field: &Field) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(of) => DataType::List(without_detail(of)),
        DataType::Struct(of) => {
            let kept = of.iter().filter(|field| field.name() != "detail");
            DataType::Struct(kept.map(|field| without_detail(field)).collect::<Fields>())
        }
        plain => plain.clone(),
    };
    Field::new(field.name(), data_type, field.is_nullable()).into()
}

#[tokio::test]
async fn columns_within_lists_are_added_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let heartbeats = log(&folder, Table::Heartbeats);
    let now = Placed::fields().expect("it has columns");
    let before: Vec<FieldRef> = now.iter().map(|field| without_detail(field)).collect();
    heartbeats.load_or_create(&before).await.expect("a table");
    let rows = [heartbeat(1, 0)];
    heartbeats.append(&rows, &batch(1)).await.expect("appends");
    let read = heartbeats
        .since::<Placed>(Commits::after(None), 100)
        .await
        .expect("reads");
    assert_eq!(read.rows, rows);
}

#[test]
fn only_what_may_be_null_is_added_and_only_at_the_end() {
    let field = |name: &str, null: bool| Field::new(name, DataType::Int64, null);
    let list = |fields: &[Field]| {
        let of = DataType::Struct(fields.to_vec().into());
        DataType::List(Field::new("element", of, true).into())
    };
    let (a, b) = (field("a", false), field("b", true));
    let check = |theirs: &[&Field], ours: &[&Field], expect: bool| {
        let list = |fields: &[&Field]| {
            let fields: Vec<Field> = fields.iter().map(|field| (*field).clone()).collect();
            list(&fields)
        };
        assert_eq!(
            adds_to(&list(theirs), &list(ours)),
            expect,
            "{theirs:?} {ours:?}"
        );
    };
    check(&[&a], &[&a], true);
    check(&[&a], &[&a, &b], true);
    check(&[&a], &[&b, &a], false);
    check(&[&a], &[&a, &field("c", false)], false);
    check(&[&a, &b], &[&a], false);
}
