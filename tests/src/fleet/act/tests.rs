//! The state of a simulated node as the rules see it.

use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::activity::ActivityPolicy;
use ebb_telemetry::arrival::{Arrival, Placed};
use ebb_telemetry::identity::BootId;
use jiff::Timestamp;

use super::*;
use crate::fleet::BEAT;

const PAST: Duration = Duration::from_secs(60);

fn node(profile: Profile) -> Node {
    Node {
        instance_id: "i-0abc".into(),
        region: "us-east-1".into(),
        name: "render-01".into(),
        profile,
        quiet_after_seconds: 7,
        vcpus: 4,
        memory_bytes: 16 << 30,
        gpus: 0,
        age_seconds: 50_000,
        steps: Vec::new(),
        finished_steps: Vec::new(),
        credentials: None,
    }
}

fn step(cores: f64) -> Step {
    Step {
        step_id: "0123456789abcdef0123456789abcdef".into(),
        job_id: "job".into(),
        job_name: "call-snps-12".into(),
        requested_memory_bytes: 4 << 30,
        cpu_cores: Some(cores),
        memory_bytes: Some(300 << 20),
        disk_bytes_per_second: Some(0),
        started_age_seconds: 3_600,
        stopped_age_seconds: None,
        exit_code: None,
    }
}

/// The state of the node in a sweep after `past`, and its end in seconds of the generator's clock.
fn state_after(node: &Node, past: Duration) -> NodeState {
    let clock = NodeClock::new(node, PAST);
    let sent = Sent {
        boot: BootId::new("boot").expect("a boot id"),
        clock: clock.boot_at(past),
        wall: at(past),
    };
    let start = ProbeStart::new("start").expect("a probe start");
    let activity = ActivityPolicy {
        tick_seconds: 1,
        ..ActivityPolicy::default()
    };
    let mut state = FleetState::default();
    let parts = (0..).map(|n| clock.part(n)).take_while(|p| p.end <= past);
    for part in parts.filter(|part| !is_lost(node, *part)) {
        let beat = heartbeat(node, clock, part, &sent, &start).expect("a heartbeat");
        let attested = beat.node.clone();
        let arrival = Arrival {
            attested: &attested,
            at: at(past),
            sent: &sent,
        };
        let placed = Placed::new(arrival, beat).expect("it is placed");
        state.fold_heartbeat(&placed, &activity);
    }
    let (_, node_state) = state.nodes.pop_first().expect("one node");
    *node_state
}

fn at(generator: Duration) -> Timestamp {
    let zero = Timestamp::from_second(1_790_000_000).expect("a time");
    zero.checked_add(generator).expect("a time")
}

#[test]
fn only_nodes_that_are_to_be_idle_are_quiet_for_half_a_minute_and_seen_whole() {
    let check = |profile, expect_active_until: Option<u64>, expect_coverage: u32| {
        let state = state_after(&node(profile), PAST);
        let active = state.active_until.map(|until| {
            until
                .duration_since(at(Duration::ZERO))
                .as_secs()
                .unsigned_abs()
        });
        assert_eq!(active, expect_active_until, "{profile:?}");
        let coverage = state
            .seen
            .coverage(at(Duration::ZERO), at(PAST), Duration::from_secs(1));
        assert_eq!(
            coverage.map(Share::ppm),
            Some(expect_coverage),
            "{profile:?}"
        );
    };
    check(Profile::Busy, Some(60), 1_000_000);
    check(Profile::Light, Some(60), 1_000_000);
    check(Profile::Bursty, Some(50), 1_000_000);
    check(Profile::Quiet, Some(8), 1_000_000);
    check(Profile::Gappy, None, 733_333);
}

#[test]
fn a_node_that_is_younger_than_the_play_begins_with_its_launch() {
    let young = Node {
        age_seconds: 31,
        ..node(Profile::Busy)
    };
    let clock = NodeClock::new(&young, PAST);
    assert_eq!(clock.part(0).start, Duration::from_secs(29));
    assert_eq!(clock.boot_at(clock.part(0).start), BootClock::default());
    let first = state_after(&young, PAST).first_seen;
    assert_eq!(first, Some(at(Duration::from_secs(29))));
    assert_eq!(clock.part(3).start, clock.part(2).end);
    assert_eq!(clock.part(3).end - clock.part(3).start, BEAT);
}

#[test]
fn a_step_makes_progress_exactly_when_it_uses_a_core() {
    let check = |cores: f64, expect_quiet: Duration| {
        let worker = Node {
            steps: vec![step(cores)],
            ..node(Profile::Busy)
        };
        let state = state_after(&worker, PAST);
        let id = NodeId::new("i-0abc").expect("a node id");
        let step = state.running(&id).next().expect("one step");
        let quiet = step.observed_at.duration_since(step.last_progress_at);
        assert_eq!(Duration::try_from(quiet).ok(), Some(expect_quiet));
        assert_eq!(step.usage.cpu, cpu(cores, Duration::from_secs(3_600)));
    };
    check(1.9, Duration::ZERO);
    check(0.0, PAST);
}

#[test]
fn a_finished_step_ends_when_the_world_says() {
    let ended = Step {
        stopped_age_seconds: Some(600),
        exit_code: Some(1),
        ..step(2.0)
    };
    let worker = Node {
        finished_steps: vec![ended],
        ..node(Profile::Busy)
    };
    let clock = NodeClock::new(&worker, PAST);
    let sent = Sent {
        boot: BootId::new("boot").expect("a boot id"),
        clock: clock.boot_at(PAST),
        wall: at(PAST),
    };
    let start = ProbeStart::new("start").expect("a probe start");
    let batch = step_batch(&worker, clock, &sent, &start)
        .expect("a batch")
        .expect("steps ended");
    let usage = &batch.steps[0];
    assert_eq!(usage.end, StepEnd::Exited(1));
    let since = |from, to: BootClock| to.since(from).expect("in order").as_secs();
    assert_eq!(since(usage.observed, sent.clock), 600);
    assert_eq!(since(usage.started, usage.observed), 3_000);
    let none = step_batch(&node(Profile::Busy), clock, &sent, &start).expect("no error");
    assert_eq!(none, None);
}
