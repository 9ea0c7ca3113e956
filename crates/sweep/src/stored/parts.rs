//! Folds on all cores: each core folds a part by itself, and the parts are merged,
//! which comes to the same because states form semilattices.

use ebb_domain::heartbeat::Placed;
use ebb_domain::hours::FleetHours;
use ebb_domain::policy::ActivityPolicy;
use ebb_domain::state::FleetState;

/// Fewer heartbeats than this are folded sooner than a thread starts.
const ROWS_A_THREAD: usize = 1_000;

/// Folds heartbeats into state and hours.
pub fn fold_heartbeats(
    rows: &[Placed],
    (fleet, hours): (&mut FleetState, &mut FleetHours),
    activity: &ActivityPolicy,
) {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    let each = rows.len().div_ceil(cores).max(ROWS_A_THREAD);
    let fold = |part: &[Placed]| {
        let (mut fleet, mut hours) = (FleetState::default(), FleetHours::default());
        for placed in part {
            fleet.fold_heartbeat(placed, activity);
            hours.fold_heartbeat(placed, activity);
        }
        (fleet, hours)
    };
    std::thread::scope(|scope| {
        let mut parts = rows.chunks(each);
        let first = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| (part, scope.spawn(move || fold(part))))
            .collect();
        let mut merge = |(theirs, their_hours)| {
            *fleet = std::mem::take(fleet).merge(theirs);
            *hours = std::mem::take(hours).merge(their_hours);
        };
        merge(fold(first));
        for (part, other) in others {
            // What panics on another thread would on this one, where it is told.
            merge(other.join().unwrap_or_else(|_| fold(part)));
        }
    });
}
