//! Rows and totals from two snapshots. Pure. An amount that cannot be known is `None`.

use std::cmp::Ordering;
use std::time::Duration;

use ebb_telemetry::safe_text;
use ebb_telemetry::step::{StepKind, TaskState};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime};
use ebb_telemetry::watch::{WatchClients, WatchScope, WatchSnapshot, WatchTask};
use serde::Serialize;

/// The state of a node at the later of two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeView {
    pub(crate) node: String,
    pub(crate) scope: WatchScope,
    pub(crate) cores: f64,
    pub(crate) busy_cores: Option<f64>,
    pub(crate) memory_bytes: Bytes,
    pub(crate) memory_used_bytes: Option<Bytes>,
    pub(crate) disk_bytes_per_second: Option<f64>,
    pub(crate) network_bytes_per_second: Option<f64>,
    pub(crate) gpus: Vec<GpuView>,
    pub(crate) tasks: Vec<TaskRow>,
    pub(crate) tasks_left_out: u64,
    pub(crate) sampled_because: Option<String>,
    pub(crate) clients: WatchClients,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GpuView {
    pub(crate) number: u32,
    pub(crate) model: String,
    /// From 0 to 1.
    pub(crate) busy: Option<f64>,
    pub(crate) memory_used_bytes: Option<Bytes>,
}

/// One running task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TaskRow {
    pub(crate) kind: StepKind,
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) user: Option<u32>,
    pub(crate) cores: Option<f64>,
    pub(crate) requested_cores: Option<f64>,
    pub(crate) memory_bytes: Option<Bytes>,
    pub(crate) peak_memory_bytes: Option<Bytes>,
    pub(crate) requested_memory_bytes: Option<Bytes>,
    pub(crate) disk_bytes_per_second: Option<f64>,
    pub(crate) network_bytes_per_second: Option<f64>,
    /// Busy GPUs, on average.
    pub(crate) busy_gpus: Option<f64>,
    /// The share of scans in each state since the earlier snapshot, greatest first.
    pub(crate) states: Vec<StateShare>,
    pub(crate) tools: Vec<ToolRow>,
    pub(crate) processes: u64,
    pub(crate) running_seconds: u64,
    pub(crate) no_progress_seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct StateShare {
    pub(crate) state: TaskState,
    /// From 0 to 1.
    pub(crate) share: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ToolRow {
    pub(crate) name: String,
    pub(crate) cores: Option<f64>,
    pub(crate) cpu_seconds: f64,
    pub(crate) processes: u64,
    pub(crate) peak_memory_bytes: Option<Bytes>,
}

impl TaskRow {
    /// The share of scans in which it did not run; `None` without a scan.
    pub(crate) fn waits(&self) -> Option<f64> {
        let waits = self
            .states
            .iter()
            .filter(|one| one.state != TaskState::Running);
        (!self.states.is_empty()).then(|| waits.map(|one| one.share).sum())
    }
}

/// The order of rows; the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SortKey {
    Cores,
    Memory,
    Disk,
    Network,
    Waits,
}

impl SortKey {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Network => "network",
            Self::Waits => "waits",
        }
    }

    fn value(self, row: &TaskRow) -> Option<f64> {
        match self {
            Self::Cores => row.cores,
            Self::Memory => row.memory_bytes.map(|bytes| bytes.0 as f64),
            Self::Disk => row.disk_bytes_per_second,
            Self::Network => row.network_bytes_per_second,
            Self::Waits => row.waits(),
        }
    }
}

/// The rows whose name or key contains `filter`, in the order of `key`. Unknown values come last.
pub(crate) fn select<'r>(rows: &'r [TaskRow], key: SortKey, filter: &str) -> Vec<&'r TaskRow> {
    let filter = filter.to_lowercase();
    let is_shown = |row: &&TaskRow| {
        row.name.to_lowercase().contains(&filter) || row.key.to_lowercase().contains(&filter)
    };
    let mut shown: Vec<&TaskRow> = rows.iter().filter(is_shown).collect();
    shown.sort_by(|a, b| {
        let order = match (key.value(a), key.value(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        order
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.key.cmp(&b.key))
    });
    shown
}

/// The view at `now`. Without an earlier snapshot of the node, rates are unknown.
pub(crate) fn view(before: Option<&WatchSnapshot>, now: &WatchSnapshot) -> NodeView {
    let before = before.filter(|before| before.node == now.node && before.at_ns < now.at_ns);
    let wall = before.and_then(|before| now.at_ns.since(before.at_ns));
    let rate = |now: Option<Bytes>, before: Option<Bytes>| per_second(now?.0, before?.0, wall?);
    let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let (new, old) = (&now.totals, before.map(|before| &before.totals));
    let cpu = |cpu: Option<CpuTime>| cpu.map(|cpu| Bytes(cpu.0));
    let tasks = now.tasks.iter().map(|task| {
        let earlier = before.and_then(|before| before.tasks.iter().find(|one| one.id == task.id));
        let since = before.zip(wall).map(|(before, wall)| Since {
            at: before.at_ns,
            task: earlier,
            wall,
        });
        row(task, since, now.at_ns)
    });
    NodeView {
        node: safe_text::one_line(now.node.as_str()),
        scope: now.scope,
        cores: new.milli_cores.0 as f64 / 1e3,
        busy_cores: rate(cpu(new.cpu_ns), old.and_then(|old| cpu(old.cpu_ns))).map(|ns| ns / 1e9),
        memory_bytes: new.memory_bytes,
        memory_used_bytes: new.memory_used_bytes,
        disk_bytes_per_second: both(
            rate(new.disk_read_bytes, old.and_then(|old| old.disk_read_bytes)),
            rate(
                new.disk_written_bytes,
                old.and_then(|old| old.disk_written_bytes),
            ),
        ),
        network_bytes_per_second: both(
            rate(
                new.network_received_bytes,
                old.and_then(|old| old.network_received_bytes),
            ),
            rate(
                new.network_sent_bytes,
                old.and_then(|old| old.network_sent_bytes),
            ),
        ),
        gpus: (new.gpus.iter())
            .map(|gpu| GpuView {
                number: gpu.number,
                model: safe_text::one_line(&gpu.model),
                busy: gpu.busy_ppm.map(|share| share.as_f64()),
                memory_used_bytes: gpu.memory_used_bytes,
            })
            .collect(),
        tasks: tasks.collect(),
        tasks_left_out: now.tasks_left_out,
        sampled_because: now.sampled_because.as_deref().map(safe_text::one_line),
        clients: now.clients,
    }
}

/// A counter that decreased is unknown.
fn per_second(now: u64, before: u64, wall: Duration) -> Option<f64> {
    Some(now.checked_sub(before)? as f64 / wall.as_secs_f64())
}

/// The earlier snapshot, from the view of one task.
#[derive(Clone, Copy)]
struct Since<'s> {
    at: BootClock,
    task: Option<&'s WatchTask>,
    wall: Duration,
}

impl Since<'_> {
    /// The earlier total. A task that started since began at zero; one that was only left out of the
    /// earlier snapshot is unknown.
    fn earlier(self, now: &WatchTask, of: impl Fn(&WatchTask) -> Option<u64>) -> Option<u64> {
        match self.task {
            Some(task) => of(task),
            None => (now.started_ns >= self.at).then_some(0),
        }
    }

    fn rate(self, now: &WatchTask, of: impl Fn(&WatchTask) -> Option<u64>) -> Option<f64> {
        per_second(of(now)?, self.earlier(now, &of)?, self.wall)
    }
}

fn row(task: &WatchTask, since: Option<Since<'_>>, at: BootClock) -> TaskRow {
    let rate = |of: fn(&WatchTask) -> Option<u64>| since.and_then(|since| since.rate(task, of));
    let age = |from: BootClock| at.since(from).unwrap_or_default().as_secs();
    TaskRow {
        kind: task.id.kind,
        key: safe_text::one_line(&task.id.key),
        name: safe_text::one_line(&task.name),
        user: task.user,
        cores: rate(|task| Some(task.cpu_ns.0)).map(|ns| ns / 1e9),
        requested_cores: task.requested_milli_cores.map(|cores| cores.0 as f64 / 1e3),
        memory_bytes: task.memory_bytes,
        peak_memory_bytes: task.peak_memory_bytes,
        requested_memory_bytes: task.requested_memory_bytes,
        disk_bytes_per_second: rate(|task| {
            Some(
                task.disk_read_bytes?
                    .saturating_add(task.disk_written_bytes?)
                    .0,
            )
        }),
        network_bytes_per_second: rate(|task| {
            Some(
                task.network_received_bytes?
                    .saturating_add(task.network_sent_bytes?)
                    .0,
            )
        }),
        busy_gpus: task
            .gpu
            .and_then(|_| rate(|task| task.gpu?.busy_ns))
            .map(|ns| ns / 1e9),
        states: since.map(|since| states(task, since)).unwrap_or_default(),
        tools: tools(task, since),
        processes: task.processes,
        running_seconds: age(task.started_ns),
        no_progress_seconds: age(task.last_progress_ns),
    }
}

fn states(task: &WatchTask, since: Since<'_>) -> Vec<StateShare> {
    let samples = |state: TaskState| {
        let of = |task: &WatchTask| Some(task.state_samples.get(&state).copied().unwrap_or(0));
        of(task)?.checked_sub(since.earlier(task, of)?)
    };
    let counts: Vec<(TaskState, u64)> = (task.state_samples.keys())
        .filter_map(|state| Some((*state, samples(*state)?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let all = counts
        .iter()
        .fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let mut shares: Vec<StateShare> = counts
        .into_iter()
        .map(|(state, count)| StateShare {
            state,
            share: count as f64 / all as f64,
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

fn tools(task: &WatchTask, since: Option<Since<'_>>) -> Vec<ToolRow> {
    let tools = task.tools.iter().map(|tool| {
        let cpu = |task: &WatchTask| {
            let one = task.tools.iter().find(|one| one.name == tool.name)?;
            Some(one.cpu_ns.0)
        };
        ToolRow {
            name: safe_text::one_line(&tool.name),
            cores: since
                .and_then(|since| since.rate(task, cpu))
                .map(|ns| ns / 1e9),
            cpu_seconds: tool.cpu_ns.as_secs_f64(),
            processes: tool.processes,
            peak_memory_bytes: tool.peak_memory_bytes,
        }
    });
    tools.collect()
}
