//! What is done with many heartbeats at once: what is not new is left out, and the rest
//! is folded into state and hours side by side.

use std::collections::HashSet;

use ebb_domain::heartbeat::Placed;
use ebb_domain::hours::FleetHours;
use ebb_domain::policy::ActivityPolicy;
use ebb_domain::state::FleetState;

/// Leaves those heartbeats that neither the state nor an earlier one of these has.
pub fn keep_new(fleet: &FleetState, rows: &mut Vec<Placed>) {
    let mut seen = HashSet::with_capacity(rows.len());
    let mut is_new = Vec::with_capacity(rows.len());
    for of_one in rows.chunk_by(|a, b| a.node == b.node) {
        let Some(first) = of_one.first() else {
            continue;
        };
        let lives = fleet.lives(&first.node);
        is_new.extend(of_one.iter().map(|placed| {
            let h = &placed.heartbeat;
            let key = (&placed.node, &h.boot, &h.probe_start, h.sequence);
            !lives.clone().any(|life| life.accepted_heartbeat(h)) && seen.insert(key)
        }));
    }
    drop(seen);
    let mut is_new = is_new.into_iter();
    rows.retain(|_| is_new.next().unwrap_or(false));
}

/// Folds heartbeats into state and hours, each on a core of its own: neither asks for
/// the other.
pub fn fold_heartbeats(
    rows: &[Placed],
    (fleet, hours): (&mut FleetState, &mut FleetHours),
    activity: &ActivityPolicy,
) {
    std::thread::scope(|scope| {
        scope.spawn(|| hours.fold_heartbeats(rows, activity));
        fleet.fold_heartbeats(rows, activity);
    });
}
