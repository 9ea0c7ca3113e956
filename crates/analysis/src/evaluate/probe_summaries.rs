//! The condition of every probe.

use std::cmp::Reverse;
use std::time::Duration;

use ebb_model::inventory::instance::InstanceState;
use ebb_model::report::probe_problem::{
    GROWN_SPOOL, ProbeProblem, ProbeProblemCounts, WRONG_CLOCK_SECONDS,
};
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_node_state::latest_detail::ProbeHealth;
use ebb_node_state::node_state::Latest;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::probe_version::ProbeVersion;
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::facts::Facts;

/// Limit on probes that a report lists; they take 4 MB.
pub const MAX_PROBES: usize = 10_000;

/// A loss is a problem for so long. The counters of a probe begin with its start, which may be
/// months ago.
const LOSS_COUNTS_FOR: Duration = Duration::from_secs(24 * 3600);

/// The probes of a report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProbeList {
    /// The most urgent problem first, then the most lost data, then by node.
    pub(crate) probes: Vec<ProbeSummary>,
    /// Number of probes beyond the limit.
    pub(crate) left_out: usize,
    /// The problems of all probes.
    pub(crate) problems: ProbeProblemCounts,
}

/// All probes with their problems.
pub(crate) fn probes(facts: &Facts<'_>) -> ProbeList {
    let nodes = facts.state.nodes.iter();
    let mut probes: Vec<ProbeSummary> = nodes
        .filter_map(|(node, state)| Some(probe(facts, node, state.latest.as_ref()?)))
        .collect();
    let mut problems = ProbeProblemCounts::new();
    for problem in probes.iter().flat_map(|probe| &probe.problems) {
        *problems.entry(*problem).or_default() += 1;
    }
    let most_urgent = |probe: &ProbeSummary| {
        let first = probe.problems.first().copied();
        (first.is_none(), first)
    };
    let lost = |probe: &ProbeSummary| probe.events_lost.saturating_add(probe.records_dropped);
    probes.sort_by(|a, b| {
        let key = |probe| (most_urgent(probe), Reverse(lost(probe)));
        key(a).cmp(&key(b)).then_with(|| a.node.cmp(&b.node))
    });
    let left_out = probes.len().saturating_sub(MAX_PROBES);
    probes.truncate(MAX_PROBES);
    ProbeList {
        probes,
        left_out,
        problems,
    }
}

fn probe(facts: &Facts<'_>, node: &NodeId, latest: &Latest) -> ProbeSummary {
    let health = latest.detail().probe;
    let length = u64::try_from(latest.length.as_nanos()).unwrap_or(u64::MAX);
    ProbeSummary {
        node: node.clone(),
        origin: latest.origin,
        mode: mode(latest),
        heard_at: latest.end,
        events_lost: health.events_lost,
        records_dropped: health.records_dropped,
        spool_bytes: health.spool,
        resident_bytes: health.resident,
        cpu_share: Share::from_parts(health.cpu.0, length),
        clock_ahead_seconds: health.clock_ahead_seconds,
        version: health.version,
        problems: problems(facts, node, (latest, &health)),
    }
}

fn mode(latest: &Latest) -> ProbeMode {
    // Only the kernel reports processes between two samples.
    match latest.coverage.short_processes {
        Some(_) => ProbeMode::Ebpf,
        None => ProbeMode::Procfs,
    }
}

/// The problems of a probe, the most urgent first. A condition that is not known is no problem.
fn problems(
    facts: &Facts<'_>,
    node: &NodeId,
    (latest, health): (&Latest, &ProbeHealth),
) -> Vec<ProbeProblem> {
    let mark = facts.memory.probes.get(node);
    let is_recent = |at: &Timestamp| is_within(facts, *at, LOSS_COUNTS_FOR);
    let lost =
        |which: usize| mark.is_some_and(|m| m.lost_at[which].as_ref().is_some_and(is_recent));
    let is_old = || {
        let (own, of_sweep) = (health.version?, ProbeVersion::of_this_program()?);
        Some(own < of_sweep)
    };
    ProbeProblem::ALL
        .into_iter()
        .filter(|problem| match problem {
            ProbeProblem::Silent => is_silent(facts, node, latest),
            ProbeProblem::EventsLost => lost(0),
            ProbeProblem::RecordsLost => lost(1),
            ProbeProblem::SpoolGrows => {
                health.spool > GROWN_SPOOL && mark.is_some_and(|mark| mark.spool_grows)
            }
            ProbeProblem::WrongClock => {
                health.clock_ahead_seconds.unsigned_abs() > WRONG_CLOCK_SECONDS
            }
            ProbeProblem::NoEbpf => mode(latest) == ProbeMode::Procfs,
            ProbeProblem::OldVersion => is_old() == Some(true),
        })
        .collect()
}

/// Whether the machine runs, as far as is known, and for longer than the probe may be silent. No
/// other source knows of a host without a cloud, so it counts also if it is switched off.
fn is_silent(facts: &Facts<'_>, node: &NodeId, latest: &Latest) -> bool {
    let patience = facts.policy.idle.after();
    let instance = facts.inventory.instances.get(node);
    instance.is_some_and(|instance| {
        let started = instance.launched_at.unwrap_or(latest.end).max(latest.end);
        instance.state == InstanceState::Running && !is_within(facts, started, patience)
    })
}

/// Whether a time was at most so long ago, or is in the future.
fn is_within(facts: &Facts<'_>, at: Timestamp, time: Duration) -> bool {
    match Duration::try_from(facts.now.duration_since(at)) {
        Ok(since) => since <= time,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::instance::{Instance, Provider};
    use ebb_telemetry::heartbeat::Heartbeat;
    use ebb_telemetry::testing::{at, node};
    use ebb_telemetry::units::{Bytes, CpuTime};
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::{World, instance};

    #[test]
    fn probes_with_problems_come_first_and_each_shows_its_last_heartbeat() {
        let mut world = World::default();
        world.watch(1, 0, 2, |_, h| h.coverage.short_processes = None);
        world.watch(2, 0, 2, |minute, h| {
            h.coverage.short_processes = h.coverage.cpu;
            h.probe.cpu = CpuTime(600_000_000);
            h.probe.resident = Some(Bytes::mib(20));
            h.probe.events_lost = minute;
            h.probe.spool_depth = Bytes(7);
            let ends = at(minute * 60 + 60);
            h.wall_at_end = ends + SignedDuration::from_secs(90);
        });
        let report = world.evaluate();
        let [losing, other] = &report.probes[..] else {
            panic!("{:?}", report.probes)
        };
        assert_eq!((&losing.node, losing.mode), (&node(2), ProbeMode::Ebpf));
        assert_eq!((losing.events_lost, losing.spool_bytes), (1, Bytes(7)));
        assert_eq!(losing.resident_bytes, Some(Bytes::mib(20)));
        assert_eq!(losing.cpu_share, Share::from_parts(1, 100));
        assert_eq!(losing.clock_ahead_seconds, 90);
        assert_eq!((&other.node, other.mode), (&node(1), ProbeMode::Procfs));
        assert_eq!((other.resident_bytes, report.probes_left_out), (None, 0));
    }

    /// The problems of node 1, in a world that a sweep evaluates now.
    fn problems_now(world: &mut World) -> Vec<ProbeProblem> {
        world.memory = crate::sweep_memory::next_memory(&world.facts());
        let report = world.evaluate();
        let first = report.probes.iter().find(|probe| probe.node == node(1));
        let problems = first.expect("it was heard").problems.clone();
        for problem in &problems {
            assert_eq!(report.probe_problems.get(problem), Some(&1), "{problem:?}");
        }
        assert_eq!(report.probe_problems.len(), problems.len());
        problems
    }

    fn watch(world: &mut World, minutes: std::ops::Range<u64>, lost: u64, spool: Bytes) {
        world.watch(1, minutes.start, minutes.end, |minute, h| {
            h.wall_at_end = at(minute * 60 + 60);
            h.coverage.short_processes = h.coverage.cpu;
            h.probe.events_lost = lost;
            h.probe.spool_depth = spool;
        });
    }

    #[test]
    fn a_loss_counts_for_a_day_after_it_and_not_since_the_start_of_the_probe() {
        let mut world = World::default();
        watch(&mut world, 0..2, 0, Bytes(0));
        assert_eq!(problems_now(&mut world), []);
        watch(&mut world, 2..4, 7, Bytes(0));
        assert_eq!(problems_now(&mut world), [ProbeProblem::EventsLost]);
        let day = 24 * 60;
        watch(&mut world, day..day + 1, 7, Bytes(0));
        assert_eq!(problems_now(&mut world), [ProbeProblem::EventsLost]);
        watch(&mut world, day + 10..day + 12, 7, Bytes(0));
        assert_eq!(problems_now(&mut world), []);
        // The probe started again and lost fewer events than before.
        watch(&mut world, day + 12..day + 14, 3, Bytes(0));
        assert_eq!(problems_now(&mut world), [ProbeProblem::EventsLost]);
    }

    #[test]
    fn a_spool_is_a_problem_while_it_is_large_and_grows() {
        let mut world = World::default();
        watch(&mut world, 0..2, 0, Bytes::mib(2));
        assert_eq!(problems_now(&mut world), [], "one sweep sees no growth");
        watch(&mut world, 2..4, 0, Bytes::mib(3));
        assert_eq!(problems_now(&mut world), [ProbeProblem::SpoolGrows]);
        assert_eq!(
            problems_now(&mut world),
            [ProbeProblem::SpoolGrows],
            "a sweep without a new heartbeat knows nothing new"
        );
        watch(&mut world, 4..6, 0, Bytes::mib(1));
        assert_eq!(problems_now(&mut world), []);
        watch(&mut world, 6..8, 0, Bytes(1 << 19));
        watch(&mut world, 8..9, 0, Bytes::mib(1));
        assert_eq!(problems_now(&mut world), [], "a small spool may grow");
        assert!(world.memory.probes.is_empty(), "nothing to remember");
    }

    #[test]
    fn a_probe_is_silent_if_its_machine_runs_or_may_run() {
        let check = |change: fn(&mut Instance), minutes: u64, expect: &[ProbeProblem]| {
            let mut instance = instance(1);
            change(&mut instance);
            let mut world = World::with([instance]);
            watch(&mut world, 0..2, 0, Bytes(0));
            world.now = at(minutes * 60);
            assert_eq!(problems_now(&mut world), expect, "{minutes}");
        };
        let idle = World::default().policy.idle.after().as_secs() / 60;
        let silent = [ProbeProblem::Silent];
        check(|_| (), idle, &[]);
        check(|_| (), idle + 10, &silent);
        check(|i| i.state = InstanceState::Stopped, idle + 10, &[]);
        check(|i| i.provider = Provider::Own, idle + 10, &silent);
        // It was started again a moment ago.
        check(|i| i.launched_at = Some(at(60 * 60)), idle + 10, &[]);
    }

    #[test]
    fn clocks_versions_and_the_way_of_observing_are_checked() {
        let check = |change: fn(&mut Heartbeat), expect: &[ProbeProblem]| {
            let mut world = World::default();
            world.watch(1, 0, 2, |minute, h| {
                h.coverage.short_processes = h.coverage.cpu;
                h.wall_at_end = at(minute * 60 + 60);
                h.detail.version = ProbeVersion::of_this_program();
                change(h);
            });
            assert_eq!(problems_now(&mut world), expect);
        };
        check(|_| (), &[]);
        check(
            |h| h.coverage.short_processes = None,
            &[ProbeProblem::NoEbpf],
        );
        check(
            |h| h.wall_at_end += SignedDuration::from_secs(61),
            &[ProbeProblem::WrongClock],
        );
        check(|h| h.wall_at_end += SignedDuration::from_secs(60), &[]);
        let old = |h: &mut Heartbeat| h.detail.version = "0.0.1".parse().ok();
        check(old, &[ProbeProblem::OldVersion]);
        check(|h| h.detail.version = None, &[]);
        check(|h| h.detail.version = "65535.0.0".parse().ok(), &[]);
    }
}
