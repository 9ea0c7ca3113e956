//! Folds many heartbeats at once: removes duplicates, and folds new heartbeats into the state and
//! the hourly activity in parallel.

use std::collections::HashMap;

use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_node_state::sequences::Sequences;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_wire::MAX_HEARTBEATS;

/// Removes heartbeats that the state or an earlier row already contains.
pub fn keep_new(fleet: &FleetState, rows: &mut Vec<Placed>) {
    fn run(placed: &Placed) -> (&NodeId, &BootId, &ProbeStart) {
        let h = &placed.heartbeat;
        (&placed.node, &h.boot, &h.probe_start)
    }
    let mut seen = HashMap::<_, Sequences>::with_capacity(rows.len() / MAX_HEARTBEATS);
    let mut is_new = Vec::with_capacity(rows.len());
    for of_one in rows.chunk_by(|a, b| run(a) == run(b)) {
        let Some(first) = of_one.first() else {
            continue;
        };
        let (lives, seen) = (
            fleet.lives(&first.node),
            seen.entry(run(first)).or_default(),
        );
        is_new.extend(of_one.iter().map(|placed| {
            let h = &placed.heartbeat;
            !lives.clone().any(|life| life.accepted_heartbeat(h)) && seen.insert(h.sequence)
        }));
    }
    let mut is_new = is_new.into_iter();
    rows.retain(|_| is_new.next().unwrap_or(false));
}

/// Below this number of heartbeats a thread takes longer to start than the work takes.
const ROWS_A_THREAD: usize = 200;

/// Folds heartbeats into the state and the hourly activity. Both run on separate cores, because
/// neither depends on the other.
pub fn fold_heartbeats(
    rows: &[Placed],
    (fleet, hours): (&mut FleetState, &mut FleetHours),
    activity: &ActivityPolicy,
) {
    if rows.len() < ROWS_A_THREAD {
        hours.fold_heartbeats(rows, activity);
        fleet.fold_heartbeats(rows, activity);
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| hours.fold_heartbeats(rows, activity));
        fleet.fold_heartbeats(rows, activity);
    });
}
