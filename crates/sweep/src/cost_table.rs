//! Writes days of the bill to the table `costs` of the lake, each evaluation once.

use ebb_ingest::event_log::EventLog;
use ebb_lake::{Batch, LakeError, Table};
use ebb_model::cost_record::{CostRecord, WrittenCosts, WrittenDay};
use ebb_notify::retry::Failure;
use ebb_telemetry::shard::Shard;

/// Appends the days that are due as one commit, and remembers them. After a failure the next sweep
/// tries again.
///
/// A sweep may end after its commit and before it stores what it wrote. Then the number of the newest
/// batch is another one than the stored one, and the days are read from the table.
pub(crate) async fn write(
    event_log: &dyn EventLog,
    mut rows: Vec<CostRecord>,
    written: &mut WrittenCosts,
) -> Option<Failure> {
    if rows.is_empty() {
        return None;
    }
    let result = append(event_log, &mut rows, written).await;
    Some(Failure::new("costs in the lake", &result.err()?))
}

async fn append(
    event_log: &dyn EventLog,
    rows: &mut Vec<CostRecord>,
    written: &mut WrittenCosts,
) -> Result<(), LakeError> {
    let newest = event_log.last_batch(Table::Costs, Shard::ONLY).await?;
    if newest != written.batch {
        let days = rows.iter().map(|row| row.day);
        if let (Some(from), Some(to)) = (days.clone().min(), days.max()) {
            let stored = event_log.costs_between(from, to).await?;
            written.add(&stored.rows);
        }
        written.batch = newest;
        rows.retain(|row| {
            let now = WrittenDay {
                billed: row.billed,
                is_closed: row.is_closed,
            };
            written.is_due(row.day, now)
        });
    }
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let number = u64::try_from(first.evaluated_at.as_millisecond()).unwrap_or_default();
    let batch = Batch {
        shard: Shard::ONLY,
        number,
        known: None,
    };
    event_log.append_costs(rows, &batch).await?;
    written.batch = Some(number);
    written.add(rows);
    Ok(())
}
