//! Shows running tasks to users of this machine, over a local socket that nothing is read from. The
//! kernel names the user of each connection: root and the user of the probe see all tasks, any other
//! user sees the own ones. Without a connection, the socket costs nothing.

mod socket;
mod totals;

use std::time::Duration;

use ebb_telemetry::heartbeat::Hardware;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::safe_text;
use ebb_telemetry::step::StepUsage;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::watch::{
    MAX_LINE_BYTES, MAX_TASKS, SCHEMA, WatchClients, WatchScope, WatchSnapshot, WatchTask,
    WatchTaskGpu, WatchTool, WatchTotals,
};

use crate::push::fit::keep_most_relevant;

pub use socket::{WatchRequest, WatchSocket};
pub(crate) use totals::read_totals;

/// A scan for a client is at least this long after the previous scan. It is a little less than the
/// time between two snapshots.
pub(crate) const MIN_SCAN_GAP: Duration = Duration::from_millis(950);

/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 128;

/// The collected data for a snapshot.
#[derive(Debug)]
pub struct WatchFacts {
    /// The time of the scan.
    pub at: BootClock,
    /// All running tasks of the scope.
    pub running: Vec<StepUsage>,
    /// Totals of the node, without its hardware.
    pub totals: WatchTotals,
    /// Why procfs is sampled.
    pub sampled_because: Option<String>,
}

/// The tasks that the user with this id may see; `own` is the id of the probe's user.
pub fn scope_of(user: u32, own: u32) -> WatchScope {
    match user == 0 || user == own {
        true => WatchScope::All,
        false => WatchScope::Own,
    }
}

/// Whether a user may see a task whose first process has the id `of_task`. A task of an unknown user
/// is nobody's own.
pub fn may_see(scope: WatchScope, user: u32, of_task: Option<u32>) -> bool {
    scope == WatchScope::All || of_task == Some(user)
}

/// The snapshot for a scope.
pub fn snapshot(
    node: NodeId,
    scope: WatchScope,
    hardware: Hardware,
    clients: WatchClients,
    facts: WatchFacts,
) -> WatchSnapshot {
    let mut running = facts.running;
    let all = running.len();
    keep_most_relevant(&mut running, MAX_TASKS);
    WatchSnapshot {
        schema: SCHEMA.to_owned(),
        node,
        scope,
        at_ns: facts.at,
        totals: WatchTotals {
            milli_cores: hardware.cores,
            memory_bytes: hardware.memory,
            ..facts.totals
        },
        tasks: running.iter().map(task).collect(),
        tasks_left_out: (all - running.len()) as u64,
        sampled_because: facts.sampled_because,
        clients,
    }
}

fn name(text: &str) -> String {
    safe_text::clean(text, MAX_NAME_BYTES).into_owned()
}

/// Each field is named, so that one that the configuration enables is never among them.
fn task(step: &StepUsage) -> WatchTask {
    let detail = &step.detail;
    let mut id = step.id.clone();
    id.key = name(&id.key);
    WatchTask {
        id,
        name: name(step.step_name()),
        user: detail.user,
        started_ns: step.started,
        last_progress_ns: step.last_progress,
        processes: step.processes,
        cpu_ns: step.cpu,
        requested_milli_cores: step.requested.cores,
        memory_bytes: detail.memory_now,
        peak_memory_bytes: step.peak_memory.map(|peak| peak.bytes),
        requested_memory_bytes: step.requested.memory,
        disk_read_bytes: step.disk_read,
        disk_written_bytes: step.disk_written,
        network_received_bytes: detail.network.map(|network| network.received),
        network_sent_bytes: detail.network.map(|network| network.sent),
        state_samples: (detail.states.iter())
            .map(|(state, sampled)| (*state, sampled.samples))
            .collect(),
        gpu: detail.gpu.map(|gpu| WatchTaskGpu {
            devices: gpu.devices,
            busy_ns: gpu
                .busy
                .map(|busy| u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX)),
            peak_memory_bytes: gpu.peak_memory,
        }),
        tools: (step.tools.iter())
            .map(|tool| WatchTool {
                name: name(&tool.name),
                processes: tool.processes,
                cpu_ns: tool.cpu,
                peak_memory_bytes: tool.peak_memory,
            })
            .collect(),
    }
}

/// The line of a snapshot. If it would be too long, the least relevant tasks are left out and
/// counted.
pub fn line(mut snapshot: WatchSnapshot) -> serde_json::Result<String> {
    loop {
        let mut line = serde_json::to_string(&snapshot)?;
        line.push('\n');
        if line.len() <= MAX_LINE_BYTES || snapshot.tasks.is_empty() {
            return Ok(line);
        }
        let kept = snapshot.tasks.len() / 2;
        snapshot.tasks_left_out += (snapshot.tasks.len() - kept) as u64;
        snapshot.tasks.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::step::{
        OptInDetail, Requested, SchedulerLabels, StepDetail, StepEnd, StepId, StepKind,
    };
    use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};

    use super::*;

    fn step(key: &str, cpu: u64) -> StepUsage {
        StepUsage {
            id: StepId {
                kind: StepKind::Tree,
                key: key.to_owned(),
            },
            name: format!("\u{1b}[2J{key}"),
            started: BootClock::from_nanos(1),
            observed: BootClock::from_nanos(2),
            end: StepEnd::Running,
            processes: 1,
            cpu: CpuTime(cpu),
            peak_memory: None,
            disk_read: None,
            disk_written: None,
            requested: Requested::default(),
            peak_cores: None,
            last_progress: BootClock::from_nanos(2),
            tools: Vec::new(),
            detail: StepDetail::default(),
        }
    }

    fn snapshot_of(running: Vec<StepUsage>) -> WatchSnapshot {
        let facts = WatchFacts {
            at: BootClock::from_nanos(9),
            running,
            totals: WatchTotals::default(),
            sampled_because: None,
        };
        let hardware = Hardware {
            cores: MilliCores::cores(2),
            memory: Bytes::gib(1),
            gpus: None,
        };
        let node = NodeId::new("host").expect("valid");
        snapshot(
            node,
            WatchScope::All,
            hardware,
            WatchClients::default(),
            facts,
        )
    }

    #[test]
    fn only_root_and_the_probe_see_tasks_of_others() {
        let check = |user: u32, task: Option<u32>, expect: bool| {
            let scope = scope_of(user, 990);
            assert_eq!(may_see(scope, user, task), expect, "{user} {task:?}");
        };
        check(0, Some(1000), true);
        check(0, None, true);
        check(990, Some(1000), true);
        check(1000, Some(1000), true);
        check(1000, Some(1001), false);
        check(1000, Some(0), false);
        check(1000, None, false);
    }

    #[test]
    fn a_snapshot_is_bounded_and_counts_what_it_leaves_out() {
        let many = (0..250).map(|n| step(&n.to_string(), n)).collect();
        let snapshot = snapshot_of(many);
        assert_eq!((snapshot.tasks.len(), snapshot.tasks_left_out), (200, 50));
        assert!(snapshot.tasks.iter().all(|task| task.cpu_ns.0 >= 50));
        let mut vast = snapshot;
        vast.tasks[0].name = "n".repeat(MAX_LINE_BYTES);
        vast.tasks[150].name = "n".repeat(MAX_LINE_BYTES);
        let line = line(vast).expect("JSON");
        assert!(line.len() <= MAX_LINE_BYTES && line.ends_with("}\n"));
        let back: WatchSnapshot = serde_json::from_str(&line).expect("JSON");
        assert_eq!(back.tasks.len() as u64 + back.tasks_left_out, 250);
    }

    #[test]
    fn arguments_files_and_labels_are_not_shown() {
        let mut step = step("a", 1);
        step.detail.opt_in_detail = Some(Box::new(OptInDetail {
            arguments: vec!["--password=canary".to_owned()],
            files: [("/canary".to_owned(), 1)].into(),
            files_left_out: 0,
        }));
        step.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
            trace_id: Some("canary".to_owned()),
            labels: [("sample".to_owned(), "canary".to_owned())].into(),
        }));
        let line = line(snapshot_of(vec![step])).expect("JSON");
        assert!(!line.contains("canary"), "{line}");
        assert!(
            !line.contains('\u{1b}') && !line.contains("\\u001b"),
            "{line}"
        );
    }
}
