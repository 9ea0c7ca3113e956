//! A database of SQLite in memory, with rows of the lake. A query can only read, and only this
//! memory: it opens no file.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_lake::{ColumnKind, StoredColumn, StoredRow, Table};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use serde_json::Value as Json;

/// Time limit of a query.
const LONGEST: Duration = Duration::from_secs(60);

/// The most bytes of the tables. Queries that need more are for Athena or DuckDB.
const MAX_BYTES: i64 = 2 << 30;

/// Instructions of SQLite between two readings of the clock: some milliseconds.
const OPERATIONS: i32 = 100_000;

/// The result of a query.
#[derive(Debug, PartialEq)]
pub(super) struct QueryResult {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Json>>,
    /// Whether the limit left rows out.
    pub(super) is_cut: bool,
}

/// Rows of the lake.
pub(super) struct Database {
    connection: Connection,
}

impl Database {
    /// A database with empty tables.
    pub(super) fn new(tables: &[(Table, Vec<StoredColumn>)]) -> Result<Self> {
        let connection = Connection::open_in_memory().context("failed to open SQLite")?;
        // No other file can be attached, and no extension is loaded: the feature is not compiled in.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.pragma_update(None, "page_size", 4096)?;
        connection.pragma_update(None, "max_page_count", MAX_BYTES / 4096)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        for (table, columns) in tables {
            let columns = columns.iter().map(|column| {
                let kind = match column.kind {
                    ColumnKind::Integer => "INTEGER",
                    ColumnKind::Real => "REAL",
                    ColumnKind::Text | ColumnKind::Nested => "TEXT",
                };
                format!("{} {kind}", quoted(&column.name))
            });
            let columns: Vec<String> = columns.collect();
            let create = format!("CREATE TABLE {table} ({})", columns.join(", "));
            connection
                .execute(&create, [])
                .with_context(|| format!("failed to create the table {table}"))?;
        }
        Ok(Self { connection })
    }

    /// Adds a row; columns that the row lacks are null.
    pub(super) fn insert(
        &self,
        table: Table,
        columns: &[StoredColumn],
        row: &StoredRow,
    ) -> Result<()> {
        let marks = vec!["?"; columns.len()].join(",");
        let insert = format!("INSERT INTO {table} VALUES ({marks})");
        let mut insert = self.connection.prepare_cached(&insert)?;
        let cells = columns.iter().map(|column| Cell(row.get(&column.name)));
        insert.execute(params_from_iter(cells)).with_context(|| {
            format!(
                "failed to load a row of {table}; at most {} GiB fit\n  give fewer days or columns, \
                 or use Athena or DuckDB",
                MAX_BYTES >> 30
            )
        })?;
        Ok(())
    }

    /// Runs one statement that reads, with values for its question marks.
    pub(super) fn query(
        &mut self,
        sql: &str,
        values: &[String],
        limit: usize,
    ) -> Result<QueryResult> {
        let end = Instant::now() + LONGEST;
        let is_late = move || Instant::now() > end;
        self.connection
            .progress_handler(OPERATIONS, Some(is_late))?;
        let mut statement = self.connection.prepare(sql).context("invalid query")?;
        ensure!(
            statement.readonly() && statement.column_count() > 0,
            "the query must only read: SELECT or WITH"
        );
        let names = statement.column_names();
        let columns: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        let mut is_cut = false;
        loop {
            let row = match found.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(_) if Instant::now() > end => {
                    bail!("the query did not end within {} s", LONGEST.as_secs())
                }
                Err(error) => return Err(error).context("the query failed"),
            };
            if rows.len() == limit {
                is_cut = true;
                break;
            }
            let cells = (0..columns.len()).map(|at| Ok(json(row.get_ref(at)?)));
            rows.push(cells.collect::<Result<Vec<Json>, rusqlite::Error>>()?);
        }
        Ok(QueryResult {
            columns,
            rows,
            is_cut,
        })
    }
}

/// A name as an identifier of SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A stored value as one of SQLite; lists and structs are JSON text.
struct Cell<'a>(Option<&'a Json>);

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            None | Some(Json::Null) => ToSqlOutput::Owned(Value::Null),
            Some(Json::Bool(is)) => ToSqlOutput::Owned(Value::Integer(i64::from(*is))),
            Some(Json::Number(number)) => ToSqlOutput::Owned(match number.as_i64() {
                Some(whole) => Value::Integer(whole),
                None => number.as_f64().map_or(Value::Null, Value::Real),
            }),
            Some(Json::String(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Some(nested) => ToSqlOutput::Owned(Value::Text(nested.to_string())),
        })
    }
}

fn json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(whole) => whole.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn database() -> Database {
        let column = |name: &str, kind| StoredColumn {
            name: name.to_owned(),
            kind,
        };
        let columns = vec![
            column("node", ColumnKind::Text),
            column("cpu_ns", ColumnKind::Integer),
            column("tools", ColumnKind::Nested),
        ];
        let database = Database::new(&[(Table::Steps, columns.clone())]).expect("it opens");
        let rows = [
            json!({"node": "a", "cpu_ns": 3, "tools": [{"name": "bwa"}]}),
            json!({"node": "b'; DROP TABLE steps; --", "cpu_ns": 4}),
            json!({"node": "a", "cpu_ns": null}),
        ];
        for row in rows {
            let Json::Object(row) = row else {
                panic!("an object")
            };
            let loaded = database.insert(Table::Steps, &columns, &row);
            loaded.expect("it is loaded");
        }
        database
    }

    #[test]
    fn sums_nested_values_and_unknown_ones_are_answered() {
        let mut database = database();
        let mut check = |sql: &str, expect: Json| {
            let got = database.query(sql, &[], 10).expect(sql);
            assert_eq!(json!(got.rows), expect, "{sql}");
        };
        check(
            "SELECT node, SUM(cpu_ns) FROM steps WHERE node = 'a' GROUP BY node",
            json!([["a", 3]]),
        );
        check("SELECT COUNT(*), COUNT(cpu_ns) FROM steps", json!([[3, 2]]));
        check(
            "SELECT json_extract(tools, '$[0].name') FROM steps WHERE tools IS NOT NULL",
            json!([["bwa"]]),
        );
        let got = database.query(
            "SELECT node FROM steps WHERE cpu_ns = ?",
            &["4".to_owned()],
            1,
        );
        let got = got.expect("a value is compared by the type of its column");
        assert_eq!(got.rows.len(), 1);
        let cut = database
            .query("SELECT node FROM steps", &[], 2)
            .expect("rows");
        assert!(cut.is_cut && cut.rows.len() == 2);
    }

    #[test]
    fn a_query_only_reads_and_only_this_memory() {
        let mut database = database();
        let mut check = |sql: &str, expect: &str| {
            let error = database.query(sql, &[], 10).expect_err(sql);
            assert!(format!("{error:#}").contains(expect), "{sql}: {error:#}");
        };
        check("DROP TABLE steps", "must only read");
        check("DELETE FROM steps", "must only read");
        check("SELECT x FROM steps", "no such column: x");
        check("SELECT * FROM runs", "no such table: runs");
        check("SELECT 1; SELECT 2", "");
        check("", "");
        check("SELECT load_extension('x')", "");
        check("ATTACH '/nowhere/x' AS x", "");
        check("VACUUM INTO '/nowhere/x'", "");
    }
}
