//! Writes hours of nodes to the table `node_hours` of the lake, each part of a day once.

use ebb_ingest::event_log::EventLog;
use ebb_lake::{Appended, Batch, LakeError, Table};
use ebb_model::node_hour::{HourBatch, NodeHourRecord};
use ebb_notify::retry::Failure;
use ebb_telemetry::shard::Shard;

/// Appends the rows as one commit, and remembers its number. The number follows from the day and the
/// nodes, so the table refuses a second commit after a crash.
pub(crate) async fn write(
    event_log: &dyn EventLog,
    hours: Option<(HourBatch, Vec<NodeHourRecord>)>,
    newest: &mut Option<u64>,
) -> Option<Failure> {
    let (batch, rows) = hours?;
    match append(event_log, batch, &rows).await {
        Ok(number) => {
            *newest = number;
            None
        }
        Err(error) => Some(Failure::new("hours of nodes in the lake", &error)),
    }
}

/// The number of the newest commit after it.
async fn append(
    event_log: &dyn EventLog,
    hours: HourBatch,
    rows: &[NodeHourRecord],
) -> Result<Option<u64>, LakeError> {
    let number = hours.number();
    let batch = Batch {
        shard: Shard::ONLY,
        number,
        known: None,
    };
    match event_log.append_node_hours(rows, &batch).await? {
        Appended::Committed(_) => Ok(Some(number)),
        Appended::AlreadyThere(_) => event_log.last_batch(Table::NodeHours, Shard::ONLY).await,
    }
}
