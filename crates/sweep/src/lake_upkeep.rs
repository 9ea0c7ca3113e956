//! The upkeep of the lake at the end of a sweep, as far as time allows.

use ebb_ingest::deadline::Deadline;
use ebb_ingest::event_log::EventLog;
use ebb_lake::{Cleanup, Table, Upkeep, UpkeepCounts};
use ebb_model::policy::lake::LakePolicy;
use ebb_notify::retry::Failure;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The result for all tables.
pub(crate) struct UpkeepResult {
    pub(crate) counts: UpkeepCounts,
    /// Tables that failed. The others are kept small nevertheless.
    pub(crate) failures: Vec<Failure>,
}

/// Keeps all tables small. `previous` is the time of the sweep before.
pub(crate) async fn keep_up(
    event_log: &dyn EventLog,
    policy: &LakePolicy,
    previous: Option<Timestamp>,
    (deadline, now): (&Deadline, &(dyn Fn() -> Timestamp + Send + Sync)),
) -> UpkeepResult {
    let start = now();
    let until = deadline.upkeep_until(start);
    let is_over = || now() >= until;
    let is_cleanup_due = is_first_of_day(previous, start);
    let mut result = UpkeepResult {
        counts: UpkeepCounts::default(),
        failures: Vec::new(),
    };
    for table in Table::ALL {
        // They get a few commits a day, so once a day is enough.
        let is_small = matches!(table, Table::Costs | Table::NodeHours);
        if is_small && !is_cleanup_due {
            continue;
        }
        let upkeep = Upkeep {
            now: start,
            cleanup: is_cleanup_due.then(|| Cleanup {
                keep_days: keep_days(policy, table),
                unreferenced: policy.unreferenced(),
            }),
            is_over: &is_over,
        };
        match event_log.keep_up(table, &upkeep).await {
            Ok(counts) => result.counts.add(counts),
            Err(error) => result
                .failures
                .push(Failure::new("upkeep of the lake", &error)),
        }
    }
    result
}

fn keep_days(policy: &LakePolicy, table: Table) -> Option<u32> {
    match table {
        Table::Heartbeats => policy.keep_heartbeats(),
        Table::Steps => policy.keep_steps(),
        Table::Findings => policy.keep_findings(),
        Table::Costs => policy.keep_costs(),
        Table::NodeHours => policy.keep_node_hours(),
    }
}

/// Whether no sweep of this UTC day was before.
pub(crate) fn is_first_of_day(previous: Option<Timestamp>, now: Timestamp) -> bool {
    let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    previous.is_none_or(|previous| day(previous) != day(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleanup_is_due_once_a_day() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let check = |previous: Option<&str>, now, expect| {
            assert_eq!(is_first_of_day(previous.map(at), at(now)), expect, "{now}");
        };
        check(None, "2026-11-20T12:00:00Z", true);
        check(Some("2026-11-20T23:55:00Z"), "2026-11-21T00:05:00Z", true);
        check(Some("2026-11-20T00:05:00Z"), "2026-11-20T23:55:00Z", false);
    }
}
