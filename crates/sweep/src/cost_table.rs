//! Writes days of the bill to the table `costs` of the lake, each evaluation once.

use ebb_ingest::event_log::Truth;
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
    truth: &dyn Truth,
    mut rows: Vec<CostRecord>,
    written: &mut WrittenCosts,
) -> Option<Failure> {
    if rows.is_empty() {
        return None;
    }
    let result = append(truth, &mut rows, written).await;
    Some(Failure::of("costs in the lake", &result.err()?))
}

async fn append(
    truth: &dyn Truth,
    rows: &mut Vec<CostRecord>,
    written: &mut WrittenCosts,
) -> Result<(), LakeError> {
    let newest = truth.last_batch(Table::Costs, Shard::ONLY).await?;
    if newest != written.batch {
        let days = rows.iter().map(|row| row.day);
        if let (Some(from), Some(to)) = (days.clone().min(), days.max()) {
            let stored = truth.costs_between(from, to).await?;
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
    truth.append_costs(rows, &batch).await?;
    written.batch = Some(number);
    written.add(rows);
    Ok(())
}
