//! Heartbeats and finished tasks of the account's probes, placed and folded like those of real
//! probes.

use std::iter;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_model::policy::Policy;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::arrival::{Arrival, Placed, Sent};
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::stable_hash::stable_hash;
use ebb_telemetry::step::resource_usage::{RunName, Sampled, SchedulerLabels, StepDetail};
use ebb_telemetry::step::{
    MemorySource, PeakMemory, PlacedStep, Requested, StepEnd, StepId, StepKind, StepUsage,
    ToolEvents, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};

use super::account::{Account, Node, ProbeSpec, RunSpec, StepSpec, milli};

const INTERVAL: Duration = Duration::from_secs(60);

/// Interval between two samples of a task's state.
const SAMPLED_EACH: Duration = Duration::from_secs(10);

/// Time from the end of an interval to its arrival.
const ON_THE_WAY: Duration = Duration::from_secs(2);

/// The heartbeats until so many minutes before the time of the account.
pub(super) fn folded(
    account: &Account,
    (policy, until): (&Policy, u64),
) -> Result<(FleetState, FleetHours)> {
    let (mut state, mut hours) = (FleetState::default(), FleetHours::default());
    for node in &account.nodes {
        let Some(probe) = &node.probe else { continue };
        for back in (until..probe.watched).rev() {
            let missed = probe.missed_every.is_some_and(|n| back.is_multiple_of(n));
            if !missed {
                let placed = heartbeat(account, node, probe, back)?;
                state.fold_heartbeat(&placed, &policy.activity);
                hours.fold_heartbeat(&placed, &policy.activity);
            }
        }
    }
    Ok((state, hours))
}

/// The heartbeat of the minute that ended `back` minutes ago.
fn heartbeat(account: &Account, node: &Node, probe: &ProbeSpec, back: u64) -> Result<Placed> {
    let end = clock(node, back)?;
    let start = clock(node, back + 1)?;
    let active = probe.active.is_some_and(|until| back >= until);
    let MilliCores(busy) = milli(if active { probe.busy } else { 0.0 });
    let (boot, probe_start) = run_of(node)?;
    let sent = Sent {
        boot: boot.clone(),
        clock: later(end, ON_THE_WAY),
        wall: account.ago(back)?,
    };
    let arrival = Arrival {
        attested: &node.id,
        at: account.ago(back)?,
        sent: &sent,
    };
    let heartbeat = Heartbeat {
        node: node.id.clone(),
        boot,
        probe_start,
        sequence: probe.watched - back,
        start,
        end,
        wall_at_end: account.ago(back)?,
        origin: Origin::Simulated,
        coverage: coverage(probe),
        hardware: Hardware {
            cores: MilliCores::cores(8),
            memory: Bytes::gib(32),
            gpus: Some(probe.gpus),
        },
        workload: usage(CpuTime::from_millis(busy * INTERVAL.as_secs())),
        background: usage(CpuTime::from_millis(900)),
        typed_ago: None,
        detail: Default::default(),
        steps: steps(account, node, probe, back)?,
        probe: ProbeCost::default(),
    };
    Ok(Placed::new(arrival, heartbeat)?)
}

fn coverage(probe: &ProbeSpec) -> Coverage {
    let all = Some(Share::ALL);
    Coverage {
        cpu: all,
        memory: all,
        disk: all,
        network: all,
        gpu: all.filter(|_| probe.gpus > 0),
        short_processes: all,
    }
}

fn usage(cpu: CpuTime) -> Usage {
    Usage {
        cpu: Some(cpu),
        disk: Some(Bytes(0)),
        network: Some(Bytes(0)),
        gpu: None,
        processes_started: 0,
    }
}

fn steps(account: &Account, node: &Node, probe: &ProbeSpec, back: u64) -> Result<Vec<StepUsage>> {
    let mut steps = Vec::new();
    if let Some(open) = &probe.open {
        let mut step = step(open.kind, &open.key, &open.name);
        step.started = clock(node, probe.watched)?;
        step.last_progress = step.started;
        step.observed = clock(node, back)?;
        steps.push(step);
    }
    for job in &account.jobs {
        let (Some(run), Some(task)) = (&job.run, &job.task) else {
            continue;
        };
        if job.node.as_ref() == Some(&node.id) && back < run.started {
            // A probe knows the task of ECS, and the sweep assigns it to its job.
            let mut step = step(StepKind::EcsTask, task, task);
            step.requested = job.request.into();
            running(&mut step, node, run, back)?;
            steps.push(step);
        }
    }
    Ok(steps)
}

fn running(step: &mut StepUsage, node: &Node, run: &RunSpec, back: u64) -> Result<()> {
    let progress = back.max(run.progress);
    let worked = run.started.saturating_sub(progress);
    let all = run.started.saturating_sub(run.progress).max(1);
    step.started = clock(node, run.started)?;
    step.observed = clock(node, back)?;
    step.last_progress = clock(node, progress)?;
    step.processes = run.processes;
    step.cpu = CpuTime::from_millis(run.cpu_seconds * 1000 * worked / all);
    step.peak_cores = Some(milli(run.peak_cores));
    step.peak_memory = Some(peak(run.peak_mib));
    // A task loads its reference at its start, and then keeps it.
    step.detail.memory_now = step.peak_memory.map(|peak| peak.bytes);
    step.tools = tools(&run.tools, step);
    Ok(())
}

pub(super) fn finished(account: &Account) -> Result<Vec<PlacedStep>> {
    let mut steps = Vec::new();
    for spec in &account.steps {
        let of_it = |node: &&Node| node.id == spec.node;
        let node = account.nodes.iter().find(of_it);
        let node = node.with_context(|| format!("{} is on no node", spec.name))?;
        for run in 0..spec.runs {
            steps.push(finished_run(account, spec, node, run)?);
        }
    }
    Ok(steps)
}

/// The run with number `run`, counted back from the latest. Runs differ a little; the latest used
/// the most.
fn finished_run(account: &Account, spec: &StepSpec, node: &Node, run: u64) -> Result<PlacedStep> {
    let ended = spec.ended + run * spec.every;
    let (boot, probe_start) = run_of(node)?;
    let key = container_id(&spec.name, run);
    let mut usage = step(StepKind::Container, &key, &key);
    // The label that `ebb init --engine nextflow` adds to each container.
    usage.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
        trace_id: None,
        labels: [("step".to_owned(), spec.name.clone())].into(),
    }));
    let MilliCores(peak_cores) = milli(spec.peak_cores);
    usage.started = clock(node, ended + spec.minutes)?;
    usage.observed = clock(node, ended)?;
    usage.last_progress = usage.observed;
    usage.end = StepEnd::Exited(0);
    usage.processes = 12;
    usage.cpu = CpuTime::from_millis(peak_cores * spec.minutes * 60 * 2 / 3);
    usage.requested = spec.request.into();
    usage.peak_cores = Some(MilliCores(peak_cores - run * 37 % 300));
    usage.peak_memory = Some(peak(spec.peak_mib - run * 53 % 200));
    usage.tools = tools(&spec.tools, &usage);
    let wall = INTERVAL * u32::try_from(spec.minutes)?;
    let doing = spec.doing.iter().map(|(state, percent)| {
        let time = wall.mul_f64(*percent as f64 / 100.0);
        let samples = time.as_secs() / SAMPLED_EACH.as_secs();
        (*state, Sampled { samples, time })
    });
    usage.detail.states = doing.collect();
    usage.detail.run = spec
        .launched
        .map(|minutes| Box::new(launched(node, ended / minutes)));
    Ok(PlacedStep {
        node: node.id.clone(),
        boot,
        probe_start,
        sequence: run,
        origin: Origin::Simulated,
        started_at: account.ago(ended + spec.minutes)?,
        observed_at: account.ago(ended)?,
        last_progress_at: account.ago(ended)?,
        usage,
    })
}

/// The first 12 digits of a container id, as a probe shows a container without a name. They differ
/// between tasks.
fn container_id(name: &str, run: u64) -> String {
    let bytes = name.bytes().chain(run.to_le_bytes());
    format!("{:012x}", stable_hash(bytes) >> 16)
}

/// The use of a task by its executables, which start one after the other and then work together.
/// Each one uses a third of the CPU time of the one before.
fn tools(names: &[String], usage: &StepUsage) -> Vec<ToolUsage> {
    let wall = usage.observed.since(usage.started).unwrap_or_default();
    let is_running = usage.end == StepEnd::Running;
    let mut left = usage.cpu.0;
    let mut tools = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let is_last = number + 1 == names.len();
        let cpu = if is_last { left } else { left * 2 / 3 };
        left -= cpu;
        let started_after = Duration::from_secs(2) * u32::try_from(number).unwrap_or(u32::MAX);
        tools.push(ToolUsage {
            name: name.clone(),
            processes: 1,
            cpu: CpuTime(cpu),
            peak_memory: (number == 0)
                .then(|| usage.peak_memory.map(|peak| peak.bytes))
                .flatten(),
            disk: None,
            events: Some(ToolEvents {
                started_after,
                ended_after: (!is_running).then_some(wall),
                failed: 0,
                oom_kills: 0,
            }),
        });
    }
    tools
}

/// The Nextflow run on a node at this time, counted back from the latest.
fn launched(node: &Node, back: u64) -> RunName {
    RunName {
        launcher: "nextflow".to_owned(),
        key: format!("run-{back}"),
        pipeline: node.pipeline.clone(),
    }
}

fn step(kind: StepKind, key: &str, name: &str) -> StepUsage {
    StepUsage {
        id: StepId {
            kind,
            key: key.to_owned(),
        },
        name: name.to_owned(),
        started: BootClock::default(),
        observed: BootClock::default(),
        end: StepEnd::Running,
        processes: 1,
        cpu: CpuTime::default(),
        peak_memory: None,
        disk_read: None,
        disk_written: None,
        requested: Requested::default(),
        peak_cores: None,
        last_progress: BootClock::default(),
        tools: Vec::new(),
        detail: StepDetail::default(),
    }
}

fn peak(mib: u64) -> PeakMemory {
    PeakMemory {
        bytes: Bytes::mib(mib),
        source: MemorySource::CgroupSampled,
    }
}

fn run_of(node: &Node) -> Result<(BootId, ProbeStart)> {
    // The form of a boot id of Linux, from the digits of the instance id.
    let digits = node.id.as_str().chars().filter(char::is_ascii_hexdigit);
    let mut boot = String::new();
    for (at, digit) in digits.chain(iter::repeat('0')).take(32).enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            boot.push('-');
        }
        boot.push(digit);
    }
    let boot = BootId::new(boot)?;
    let probe_start = ProbeStart::new(format!("start-on-{}", node.id))?;
    Ok((boot, probe_start))
}

/// The node's boot-time clock `back` minutes ago; it booted when it was launched.
fn clock(node: &Node, back: u64) -> Result<BootClock> {
    let since_boot = (node.age_hours * 60).checked_sub(back);
    let minutes = since_boot.with_context(|| format!("{} is not that old", node.id))?;
    Ok(later(
        BootClock::default(),
        INTERVAL * u32::try_from(minutes)?,
    ))
}

fn later(clock: BootClock, by: Duration) -> BootClock {
    let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    BootClock::from_nanos(clock.as_nanos().saturating_add(by_ns))
}
