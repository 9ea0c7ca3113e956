//! Adds missing columns to a table that an earlier version of this program created. No column is
//! removed or changed, so that every reader of the table still works.

use deltalake_core::DeltaTable;
use deltalake_core::arrow::datatypes::{DataType, FieldRef, Schema};
use deltalake_core::kernel::StructType;
use deltalake_core::kernel::engine::arrow_conversion::{TryIntoArrow, TryIntoKernel};

use super::append::ATTEMPTS;
use super::{TableError, TableLog};

impl TableLog {
    /// The same table with all of `fields`: the writer silently drops columns that the table lacks.
    pub(super) async fn with_columns(
        &self,
        mut table: DeltaTable,
        fields: &[FieldRef],
    ) -> Result<DeltaTable, TableError> {
        for _ in 0..ATTEMPTS {
            if has_all(&table, fields)? {
                return Ok(table);
            }
            let ours: StructType = (&Schema::new(fields.to_vec())).try_into_kernel()?;
            let fields: Vec<_> = ours.fields().cloned().collect();
            let added = table.add_columns().with_fields(fields).await;
            // Another writer may have added them first; a second load shows whether it did.
            table = match (added, self.load().await?) {
                (_, Some(table)) => table,
                (Err(source), None) => return Err(TableError::delta("add columns")(source)),
                (Ok(table), None) => table,
            };
        }
        Err(TableError::Contended { attempts: ATTEMPTS })
    }
}

/// Whether a table has all columns. Fails if the table differs in more than missing columns.
fn has_all(table: &DeltaTable, fields: &[FieldRef]) -> Result<bool, TableError> {
    let snapshot = table
        .snapshot()
        .map_err(TableError::delta("read the schema"))?;
    let stored: Schema = snapshot.schema().as_ref().try_into_arrow()?;
    let mut all = true;
    for ours in fields {
        let may_be = match stored.field_with_name(ours.name()) {
            Ok(theirs) => {
                all &= theirs.data_type() == ours.data_type();
                adds_to(theirs.data_type(), ours.data_type())
            }
            Err(_) => {
                all = false;
                ours.is_nullable()
            }
        };
        if !may_be {
            return Err(TableError::OtherSchema {
                column: ours.name().clone(),
            });
        }
    }
    Ok(all)
}

/// Whether `ours` is `theirs` plus nullable columns at the end of its structs.
fn adds_to(theirs: &DataType, ours: &DataType) -> bool {
    match (theirs, ours) {
        (DataType::List(theirs), DataType::List(ours)) => {
            adds_to(theirs.data_type(), ours.data_type())
        }
        (DataType::Struct(theirs), DataType::Struct(ours)) => {
            let known = theirs.iter().zip(ours.iter()).all(|(theirs, ours)| {
                theirs.name() == ours.name() && adds_to(theirs.data_type(), ours.data_type())
            });
            let more = ours.iter().skip(theirs.len());
            known && ours.len() >= theirs.len() && more.into_iter().all(|f| f.is_nullable())
        }
        (theirs, ours) => theirs == ours,
    }
}

#[cfg(test)]
mod tests;
