//! Reads the rows that a query needs, and writes its result.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::{Context, Result, bail, ensure};
use ebb_lake::{Lake, StoredColumn, StoredWindow, Table};
use ebb_report::{csv, plain_table};
use ebb_telemetry::safe_text;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};

use super::database::{Database, QueryResult, quoted};
use crate::args::lake::{
    Condition, LakeCommand, LakeQueryArgs, LakeShowArgs, LakeTable, LakeWindow,
};
use crate::args::{DeploymentArgs, TableFormat};
use crate::deployment::{self, Place, Target};
use crate::output;

/// The most rows that a query reads from one table.
const MAX_ROWS: u64 = 2_000_000;

/// Maximum width of a cell of a table on a terminal.
const CELL: usize = 60;

pub(super) async fn answer(command: &LakeCommand) -> Result<String> {
    match command {
        LakeCommand::Tables { format, at } => tables(*format, &open(at).await?).await,
        LakeCommand::Show(args) => show(args).await,
        LakeCommand::Query(args) => query(args).await,
    }
}

async fn open(args: &DeploymentArgs) -> Result<Lake> {
    open_lake(&deployment::deployment_of(args)?).await
}

/// Opens the lake of a deployment.
pub(crate) async fn open_lake(target: &Target) -> Result<Lake> {
    let url = match &target.place.value {
        Place::Lake(url) => {
            deployment::check_folder(url)?;
            format!("{}/lake", url.trim_end_matches('/'))
        }
        Place::Bucket(bucket) => {
            ensure!(
                target.profile.is_none(),
                "the lake is read with the credentials of the environment, not with a profile\n  \
                 use: eval \"$(aws configure export-credentials --profile NAME --format env)\""
            );
            format!("s3://{bucket}/lake")
        }
        Place::Api(_) => bail!(
            "{} has no rows of the lake\n  give --bucket NAME or --lake URL",
            target.place
        ),
    };
    let lake = Lake::open(&url).await;
    lake.with_context(|| format!("failed to open the {}", target.place))
}

async fn tables(format: TableFormat, lake: &Lake) -> Result<String> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let summary = lake.summary(table).await?;
        let columns = lake.columns(table)?;
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        rows.push(vec![
            table.name().into(),
            summary.rows.into(),
            summary.first_day.into(),
            summary.last_day.into(),
            table.comment().into(),
            names.join(" ").into(),
        ]);
    }
    let columns = [
        "table",
        "rows",
        "first_day",
        "last_day",
        "content",
        "columns",
    ];
    let result = QueryResult {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
        is_cut: false,
    };
    if format != TableFormat::Table {
        return written(&result, format);
    }
    let mut out = String::new();
    for row in &result.rows {
        let text = |at: usize| plain(&row[at]);
        out.push_str(&format!("{}: {}\n", text(0), text(4)));
        let days = match row[2] {
            Value::Null => "no rows".to_owned(),
            _ => format!("{} rows, {} to {}", text(1), text(2), text(3)),
        };
        out.push_str(&format!("  {days}\n"));
        for line in safe_text::wrap(&text(5), 78) {
            out.push_str(&format!("  {line}\n"));
        }
    }
    Ok(out)
}

/// The table and the columns that a statement reads.
struct TableColumns {
    table: Table,
    columns: BTreeSet<String>,
}

async fn show(args: &LakeShowArgs) -> Result<String> {
    let lake = open(&args.window.at).await?;
    let table = table(args.table);
    let stored = lake.columns(table)?;
    let is_known = |name: &String| stored.iter().any(|column| column.name == *name);
    let conditions = args.conditions.iter().map(|condition| &condition.column);
    if let Some(unknown) = args
        .columns
        .iter()
        .chain(conditions)
        .find(|name| !is_known(name))
    {
        bail!("{table} has no column {unknown}\n  `ebb lake tables` lists the columns");
    }
    let shown: Vec<String> = match args.columns.is_empty() {
        true => stored.iter().map(|column| column.name.clone()).collect(),
        false => args.columns.clone(),
    };
    let needed = args
        .conditions
        .iter()
        .map(|condition| condition.column.clone());
    let columns = shown.iter().cloned().chain(needed).collect();
    let wanted = TableColumns { table, columns };
    let sql = select(table, &shown, &args.conditions);
    let values: Vec<String> = args
        .conditions
        .iter()
        .map(|one| one.value.clone())
        .collect();
    let result = run(&lake, &[wanted], &args.window, (&sql, &values, args.limit)).await?;
    note_empty(&result, &args.window)?;
    written(&result, args.window.format)
}

fn select(table: Table, columns: &[String], conditions: &[Condition]) -> String {
    let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let mut sql = format!("SELECT {} FROM {table}", columns.join(", "));
    for (n, condition) in conditions.iter().enumerate() {
        let word = if n == 0 { "WHERE" } else { "AND" };
        sql.push_str(&format!(" {word} {} = ?", quoted(&condition.column)));
    }
    sql
}

async fn query(args: &LakeQueryArgs) -> Result<String> {
    let lake = open(&args.window.at).await?;
    let mut wanted = Vec::new();
    for table in Table::ALL {
        let columns = lake.columns(table)?;
        wanted.extend(needed(&args.sql, table, &columns));
    }
    let result = run(&lake, &wanted, &args.window, (&args.sql, &[], args.limit)).await?;
    written(&result, args.window.format)
}

/// The columns of a table that a query may read, by the names in its text. More than it reads are
/// harmless. `None` without the table.
fn needed(sql: &str, table: Table, columns: &[StoredColumn]) -> Option<TableColumns> {
    let sql = sql.to_lowercase();
    if !sql.contains(table.name()) {
        return None;
    }
    // `COUNT(*)` reads no column; any other asterisk may stand for all. `NATURAL JOIN` compares columns
    // that it does not name.
    let without_space: String = sql.chars().filter(|c| !c.is_whitespace()).collect();
    let has_asterisk = without_space.replace("count(*)", "").contains('*');
    let is_all = has_asterisk || sql.contains("natural");
    let names = columns.iter().map(|column| column.name.clone());
    let names = names.filter(|name| is_all || sql.contains(&name.to_lowercase()));
    let columns = names.collect();
    Some(TableColumns { table, columns })
}

async fn run(
    lake: &Lake,
    wanted: &[TableColumns],
    window: &LakeWindow,
    (sql, values, limit): (&str, &[String], u32),
) -> Result<QueryResult> {
    let (from, to) = days(window, Timestamp::now())?;
    let (from, to) = (from.to_string(), to.to_string());
    let mut tables = Vec::new();
    for table in Table::ALL {
        tables.push((table, lake.columns(table)?));
    }
    let mut database = Database::new(&tables)?;
    for (table, columns) in &tables {
        let Some(wanted) = wanted.iter().find(|wanted| wanted.table == *table) else {
            continue;
        };
        let window = StoredWindow {
            days: (&from, &to),
            columns: Some(&wanted.columns),
            max_rows: MAX_ROWS,
        };
        let mut failed = None;
        let mut load = |row: Map<String, Value>| match database.insert(*table, columns, &row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        let left_out = lake.stored_rows(*table, &window, &mut load).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        if left_out > 0 {
            eprintln!(
                "ebb: {left_out} rows of {table} were not read, the oldest; the limit is {MAX_ROWS} rows"
            );
        }
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    database.query(sql, values, limit)
}

/// The first and last day to read.
fn days(window: &LakeWindow, now: Timestamp) -> Result<(Date, Date)> {
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let to = window.to.unwrap_or(today);
    let from = match window.from {
        Some(from) => from,
        None => to.checked_sub(6.days()).context("--to is too early")?,
    };
    ensure!(from <= to, "--from {from} is later than --to {to}");
    Ok((from, to))
}

/// Without rows, the days may be the wrong ones.
fn note_empty(result: &QueryResult, window: &LakeWindow) -> Result<()> {
    if result.rows.is_empty() {
        let (from, to) = days(window, Timestamp::now())?;
        eprintln!(
            "ebb: no row from {from} to {to}\n  choose other days with --from and --to; `ebb lake \
             tables` shows the days that have rows"
        );
    }
    Ok(())
}

fn table(name: LakeTable) -> Table {
    match name {
        LakeTable::Heartbeats => Table::Heartbeats,
        LakeTable::Steps => Table::Steps,
        LakeTable::Findings => Table::Findings,
        LakeTable::Costs => Table::Costs,
        LakeTable::NodeHours => Table::NodeHours,
    }
}

/// A JSON object has room for one value of each name.
fn check_names(columns: &[String]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match columns.iter().find(|name| !seen.insert(name.as_str())) {
        Some(name) => anyhow::bail!(
            "two columns have the name {name:?}\n  give one another name with AS, or use --format csv"
        ),
        None => Ok(()),
    }
}

fn written(result: &QueryResult, format: TableFormat) -> Result<String> {
    if result.is_cut {
        eprintln!(
            "ebb: more rows exist; the limit is --limit {}",
            result.rows.len()
        );
    }
    Ok(match format {
        TableFormat::Json => {
            check_names(&result.columns)?;
            let rows: Vec<Map<String, Value>> = result
                .rows
                .iter()
                .map(|row| {
                    result
                        .columns
                        .iter()
                        .cloned()
                        .zip(row.iter().cloned())
                        .collect()
                })
                .collect();
            let value = json!({
                "schema": "ebb.rows/1",
                "columns": result.columns,
                "rows": rows,
                "is_cut": result.is_cut,
            });
            output::json(&value)
        }
        TableFormat::Csv => {
            let line = |cells: Vec<String>| cells.join(",") + "\r\n";
            let head = result.columns.iter().map(|name| csv::text(name));
            let mut out = line(head.collect());
            for row in &result.rows {
                let cells = row.iter().map(|value| match value {
                    Value::Null => String::new(),
                    Value::String(text) => csv::text(text),
                    other => other.to_string(),
                });
                out.push_str(&line(cells.collect()));
            }
            out
        }
        TableFormat::Table => {
            let head: Vec<String> = result.columns.iter().map(|name| clipped(name)).collect();
            let head: Vec<&str> = head.iter().map(String::as_str).collect();
            let rows = result.rows.iter();
            let rows = rows.map(|row| row.iter().map(|value| clipped(&plain(value))));
            let lines = plain_table::lines(&head, rows, &[]);
            lines.join("\n") + "\n"
        }
    })
}

/// A cell on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "?".to_owned(),
        Value::String(text) => safe_text::one_line(text),
        other => other.to_string(),
    }
}

fn clipped(text: &str) -> String {
    match text.chars().count() <= CELL {
        true => safe_text::one_line(text),
        false => {
            let short: String = text.chars().take(CELL - 1).collect();
            safe_text::one_line(&short) + "…"
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_lake::ColumnKind;

    use super::*;

    #[test]
    fn a_query_reads_the_columns_that_it_names_or_compares() {
        let columns: Vec<StoredColumn> = ["node", "cpu_ns", "detail"]
            .map(|name| StoredColumn {
                name: name.to_owned(),
                kind: ColumnKind::Text,
            })
            .to_vec();
        let check = |sql: &str, expect: Option<&[&str]>| {
            let found = needed(sql, Table::Steps, &columns);
            let found: Option<Vec<String>> =
                found.map(|wanted| wanted.columns.into_iter().collect());
            let found: Option<Vec<&str>> = found
                .as_ref()
                .map(|names| names.iter().map(String::as_str).collect());
            assert_eq!(found.as_deref(), expect, "{sql}");
        };
        check("SELECT NODE FROM Steps", Some(&["node"]));
        check("SELECT COUNT( * ) FROM steps", Some(&[]));
        check("SELECT * FROM steps", Some(&["cpu_ns", "detail", "node"]));
        check(
            "SELECT 2 * cpu_ns FROM steps",
            Some(&["cpu_ns", "detail", "node"]),
        );
        check(
            "SELECT COUNT(*) FROM heartbeats Natural Join steps",
            Some(&["cpu_ns", "detail", "node"]),
        );
        check("SELECT node FROM heartbeats", None);
    }

    #[test]
    fn a_week_is_read_unless_days_are_given() {
        let now: Timestamp = "2026-11-25T08:00:00Z".parse().expect("a time");
        let date = |text: &str| text.parse::<Date>().expect("a date");
        let check = |from: Option<&str>, to: Option<&str>, expect: Option<(&str, &str)>| {
            let window = LakeWindow {
                from: from.map(date),
                to: to.map(date),
                format: TableFormat::Table,
                at: DeploymentArgs::default(),
            };
            let expect = expect.map(|(from, to)| (date(from), date(to)));
            assert_eq!(days(&window, now).ok(), expect);
        };
        check(None, None, Some(("2026-11-19", "2026-11-25")));
        check(None, Some("2026-03-03"), Some(("2026-02-25", "2026-03-03")));
        check(Some("2026-11-01"), None, Some(("2026-11-01", "2026-11-25")));
        check(Some("2026-11-26"), None, None);
    }
}
