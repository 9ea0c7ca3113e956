//! Tests of the time from the last activity of a node to its idle finding, on a simulated clock.
//! Heartbeats, pushes and sweeps have independent phases.

use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::testing::{at, clock, heartbeat, node};
use ebb_telemetry::units::CpuTime;

use crate::testing::{World, instance};

/// Seconds between heartbeats, between pushes of five heartbeats, and between sweeps. The Terraform
/// module sets the interval of sweeps.
const INTERVAL: u64 = 60;

const PUSH: u64 = 300;

const SWEEP: u64 = 600;

/// Phases of a trial, evenly distributed (the R3 sequence, by the root of x^4 = x + 1).
fn phases(trial: u64) -> [u64; 3] {
    const G: f64 = 1.220_744_084_605_759_6;
    let part = |power: i32| (0.5 + trial as f64 / G.powi(power)).fract();
    [(1, INTERVAL), (2, PUSH), (3, SWEEP)]
        .map(|(power, period)| (part(power) * period as f64) as u64)
}

/// Seconds from the last activity to the sweep that reports the node as idle.
fn latency(trial: u64) -> u64 {
    let [into_interval, push, sweep] = phases(trial);
    let mut world = World::with([instance(1)]);
    let last_active = 20 * INTERVAL + into_interval;
    let (mut folded, mut sequence) = (0, 0);
    for sweep_at in (0..).map(|n| sweep + n * SWEEP) {
        // All earlier pushes have arrived.
        let pushed = (sweep_at + PUSH - push) / PUSH * PUSH;
        let pushed = (pushed + push).saturating_sub(PUSH);
        while folded + INTERVAL <= pushed {
            let mut h = heartbeat(clock(folded), clock(folded + INTERVAL));
            h.node = node(1);
            h.sequence = sequence;
            if folded <= last_active {
                h.workload.cpu = Some(CpuTime::from_millis(30_000));
            }
            folded += INTERVAL;
            sequence += 1;
            let placed = ebb_telemetry::arrival::Placed {
                node: node(1),
                end: at(folded),
                heartbeat: h,
            };
            world.state.fold_heartbeat(&placed, &world.policy.activity);
        }
        world.now = at(sweep_at);
        let found = world.evaluate().findings;
        if found.iter().any(|f| f.kind == FindingKind::IdleNode) {
            return sweep_at - last_active;
        }
    }
    unreachable!("sweeps never end")
}

#[test]
fn in_99_of_100_cases_a_verdict_takes_its_threshold_one_push_and_one_sweep_at_most() {
    let mut seconds: Vec<u64> = (0..500).map(latency).collect();
    seconds.sort_unstable();
    let threshold = ebb_model::policy::Policy::default().idle.after_seconds;
    let (least, p99) = (seconds[0], seconds[seconds.len() * 99 / 100 - 1]);
    assert!(least >= threshold, "{least} s is before the threshold");
    assert!(p99 <= threshold + PUSH + SWEEP, "99 of 100 within {p99} s");
}
