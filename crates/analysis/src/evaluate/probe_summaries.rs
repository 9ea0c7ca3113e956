//! The condition of every probe.

use std::cmp::Reverse;

use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_node_state::node_state::Latest;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::Share;

use crate::facts::Facts;

/// Limit on probes that a report lists; they take 4 MB.
pub const MAX_PROBES: usize = 10_000;

/// All probes, those with the most lost data first, then by node, and the number of probes left
/// out.
pub(crate) fn probes(facts: &Facts<'_>) -> (Vec<ProbeSummary>, usize) {
    let nodes = facts.state.nodes.iter();
    let mut probes: Vec<ProbeSummary> = nodes
        .filter_map(|(node, state)| Some(probe(node, state.latest.as_ref()?)))
        .collect();
    let lost = |probe: &ProbeSummary| probe.events_lost.saturating_add(probe.records_dropped);
    probes.sort_by(|a, b| (Reverse(lost(a)), &a.node).cmp(&(Reverse(lost(b)), &b.node)));
    let left_out = probes.len().saturating_sub(MAX_PROBES);
    probes.truncate(MAX_PROBES);
    (probes, left_out)
}

fn probe(node: &NodeId, latest: &Latest) -> ProbeSummary {
    let health = &latest.probe;
    let length = u64::try_from(latest.length.as_nanos()).unwrap_or(u64::MAX);
    ProbeSummary {
        node: node.clone(),
        origin: latest.origin,
        // Only the kernel reports processes between two samples.
        mode: match latest.coverage.short_processes {
            Some(_) => ProbeMode::Ebpf,
            None => ProbeMode::Procfs,
        },
        heard_at: latest.end,
        events_lost: health.events_lost,
        records_dropped: health.records_dropped,
        spool_bytes: health.spool,
        resident_bytes: health.resident,
        cpu_share: Share::of(health.cpu.0, length),
        clock_ahead_seconds: health.clock_ahead_seconds,
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::testing::node;
    use ebb_telemetry::units::{Bytes, CpuTime};
    use jiff::SignedDuration;

    use super::*;
    use crate::testing::World;

    #[test]
    fn probes_with_losses_come_first_and_each_shows_its_last_heartbeat() {
        let mut world = World::default();
        world.watch(1, 0, 2, |_, h| h.coverage.short_processes = None);
        world.watch(2, 0, 2, |minute, h| {
            h.coverage.short_processes = h.coverage.cpu;
            h.probe.cpu = CpuTime(600_000_000);
            h.probe.resident = Some(Bytes::mib(20));
            h.probe.events_lost = minute;
            h.probe.spool_depth = Bytes(7);
            let ends = ebb_telemetry::testing::at(minute * 60 + 60);
            h.wall_at_end = ends + SignedDuration::from_secs(90);
        });
        let report = world.judge();
        let [losing, other] = &report.probes[..] else {
            panic!("{:?}", report.probes)
        };
        assert_eq!((&losing.node, losing.mode), (&node(2), ProbeMode::Ebpf));
        assert_eq!((losing.events_lost, losing.spool_bytes), (1, Bytes(7)));
        assert_eq!(losing.resident_bytes, Some(Bytes::mib(20)));
        assert_eq!(losing.cpu_share, Share::of(1, 100));
        assert_eq!(losing.clock_ahead_seconds, 90);
        assert_eq!((&other.node, other.mode), (&node(1), ProbeMode::Procfs));
        assert_eq!((other.resident_bytes, report.probes_left_out), (None, 0));
    }
}
