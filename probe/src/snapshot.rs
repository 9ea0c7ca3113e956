//! Observes one interval and shows it; nothing leaves the machine.

use std::fmt::Write;
use std::time::Duration;

use ebb_telemetry::heartbeat::{GpuUse, Heartbeat, NodeDetail, Usage};
use ebb_telemetry::step::{Namespaces, StepDetail, StepEnd, StepUsage};
use ebb_telemetry::units::CpuTime;
use serde::Serialize;

use crate::cgroup::Hierarchy;
use crate::collector::Collector;
use crate::config::Config;
use crate::connect;
use crate::daemon::report::Report;
use crate::label_rules::Rules;
use crate::node;

/// The result of one interval.
#[derive(Debug, Serialize)]
pub struct Snapshot {
    /// The heartbeat as the daemon would send it.
    pub heartbeat: Heartbeat,
    /// The tasks that ended in the interval.
    pub ended: Vec<StepUsage>,
}

/// Observes one interval, or until `stop`.
pub async fn take(
    config: &Config,
    rules: Rules,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Snapshot> {
    let (scans, period) = config.scans();
    let mut collector = Collector::start(Hierarchy::find()?, rules, period)?;
    let mut sampler = node::MachineSampler::begin()?;
    let mut ended = Vec::new();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    tokio::pin!(stop);
    for _ in 0..scans {
        let stopped = async {
            tokio::select! {
                () = &mut stop => true,
                _ = ticks.tick() => false,
            }
        };
        let stopped = collector.drain_until(stopped).await?;
        ended.extend(collector.scan()?);
        if stopped {
            break;
        }
    }
    ended.extend(collector.last_ended());
    let (interval, events_lost) = collector.close();
    let mut machine = sampler.now();
    machine.probe.events_lost = events_lost;
    let mut report = Report::new(connect::this_run(node::host_name()?)?, Duration::ZERO);
    let (heartbeat, _) = report.heartbeat(interval, machine);
    Ok(Snapshot { heartbeat, ended })
}

/// The interval as a table.
pub fn table(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let result = write_all(&mut out, snapshot);
    debug_assert!(result.is_ok(), "a string takes everything");
    out
}

fn write_all(out: &mut String, snapshot: &Snapshot) -> std::fmt::Result {
    let Heartbeat {
        hardware,
        workload,
        background,
        coverage,
        probe,
        ..
    } = &snapshot.heartbeat;
    let length = snapshot
        .heartbeat
        .end
        .since(snapshot.heartbeat.start)
        .unwrap_or_default();
    writeln!(
        out,
        "{}: {:.1} s on {} cores, {} of memory ({} in use), {} GPUs",
        snapshot.heartbeat.node,
        length.as_secs_f64(),
        hardware.cores,
        hardware.memory,
        or_unknown(snapshot.heartbeat.detail.memory_used),
        or_unknown(hardware.gpus),
    )?;
    writeln!(
        out,
        "\n{:<12}{:>12}{:>12}{:>12}{:>10}",
        "", "CPU", "DISK", "NETWORK", "STARTED"
    )?;
    let rows: [(&str, &Usage); 2] = [("workload", workload), ("background", background)];
    for (name, usage) in rows {
        writeln!(
            out,
            "{name:<12}{:>12}{:>12}{:>12}{:>10}",
            or_unknown(usage.cpu),
            or_unknown(usage.disk),
            or_unknown(usage.network),
            usage.processes_started,
        )?;
    }
    steps(out, &snapshot.heartbeat.steps, &snapshot.ended)?;
    node(out, &snapshot.heartbeat.detail)?;
    writeln!(
        out,
        "\ncoverage: {} of the time, {} of short processes, network {}",
        or_unknown(coverage.cpu),
        or_unknown(coverage.short_processes),
        if coverage.network.is_some() {
            "yes"
        } else {
            "no"
        },
    )?;
    writeln!(
        out,
        "the probe: {} of one core, {} resident, {} events lost",
        percent(probe.cpu, length),
        or_unknown(probe.resident),
        probe.events_lost,
    )
}

/// Further observations of the node, as far as they are known.
fn node(out: &mut String, detail: &NodeDetail) -> std::fmt::Result {
    if let Some(because) = &detail.sampled_because {
        writeln!(
            out,
            "\nprocfs was sampled, because eBPF does not run: {because}"
        )?;
    }
    for gpu in &detail.gpus {
        let GpuUse { number, model, .. } = gpu;
        let (busy, held) = (or_unknown(gpu.busy), or_unknown(gpu.memory_held));
        writeln!(out, "\nGPU {number} ({model}): {busy} busy, {held} held")?;
    }
    if let Some(network) = &detail.network {
        writeln!(
            out,
            "\nTCP: {} of known processes, {} of unknown ones, {} segments retransmitted, {} open connections",
            network.owned,
            network.unowned,
            network.retransmits,
            or_unknown(network.connections),
        )?;
    }
    if let Some(stalls) = &detail.pressure {
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        writeln!(
            out,
            "time stalled: waiting for a core {}, for memory {}, for disks {}",
            seconds(stalls.cpu_some),
            seconds(stalls.memory_some),
            seconds(stalls.disk_some),
        )?;
    }
    Ok(())
}

fn steps(out: &mut String, running: &[StepUsage], ended: &[StepUsage]) -> std::fmt::Result {
    const SHOWN: usize = 20;
    let mut all: Vec<&StepUsage> = running.iter().chain(ended).collect();
    if all.is_empty() {
        return writeln!(out, "\nno steps");
    }
    all.sort_by_key(|step| std::cmp::Reverse(step.cpu));
    writeln!(
        out,
        "\n{:<36}{:>12}{:>8}{:>12}{:>12}{:>11}  STATE",
        "STEP (total since it began)", "CPU", "CORES", "MEMORY", "DISK", "PROCESSES"
    )?;
    for step in all.iter().take(SHOWN) {
        let disk = step
            .disk_read
            .zip(step.disk_written)
            .map(|(r, w)| r.saturating_add(w));
        writeln!(
            out,
            "{:<36}{:>12}{:>8}{:>12}{:>12}{:>11}  {}",
            shortened(step.step_name()),
            step.cpu,
            or_unknown(step.peak_cores),
            or_unknown(step.peak_memory.map(|peak| peak.bytes)),
            or_unknown(disk),
            step.processes,
            state(step.end),
        )?;
    }
    doing(out, &all[..all.len().min(SHOWN)])?;
    match all.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more"),
    }
}

/// The states of each task at the samples, most frequent first; no output if they are unknown.
fn doing(out: &mut String, steps: &[&StepUsage]) -> std::fmt::Result {
    let mut head = "\nSTATES AT THE SAMPLES\n";
    for step in steps.iter().filter(|step| !step.detail.states.is_empty()) {
        let mut states: Vec<_> = step.detail.states.iter().collect();
        states.sort_by_key(|(_, sampled)| std::cmp::Reverse(sampled.samples));
        let words: Vec<String> = states
            .iter()
            .map(|(state, sampled)| format!("{state} {}", sampled.samples))
            .collect();
        write!(
            out,
            "{head}{:<36}{}",
            shortened(step.step_name()),
            words.join(", ")
        )?;
        let part = |name: &str, cpu: Option<CpuTime>| {
            cpu.map_or_else(String::new, |cpu| format!("; {name} {cpu}"))
        };
        let StepDetail {
            user_cpu,
            system_cpu,
            namespaces,
            ..
        } = &step.detail;
        writeln!(
            out,
            "{}{}{}",
            part("user", *user_cpu),
            part("system", *system_cpu),
            namespaces.map_or_else(String::new, apart)
        )?;
        head = "";
    }
    Ok(())
}

/// The namespaces that differ from the node's; empty if there are none.
fn apart(namespaces: Namespaces) -> String {
    let kinds: Vec<String> = namespaces.kinds().map(|kind| kind.to_string()).collect();
    match kinds.join(", ") {
        none if none.is_empty() => none,
        kinds => format!("; own namespaces: {kinds}"),
    }
}

/// Names are external input: control characters could move the cursor of a terminal.
fn shortened(name: &str) -> String {
    const WIDTH: usize = 34;
    let plain = |c: char| if c.is_control() { '?' } else { c };
    name.chars().map(plain).take(WIDTH).collect()
}

fn state(end: StepEnd) -> String {
    match end {
        StepEnd::Running => "running".into(),
        StepEnd::Exited(status) => format!("exit {status}"),
        StepEnd::Signalled(signal) => format!("signal {signal}"),
        StepEnd::OutOfMemory => "out of memory".into(),
        StepEnd::Unknown => "ended".into(),
    }
}

fn or_unknown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "unknown".into(), |value| value.to_string())
}

fn percent(cpu: CpuTime, length: Duration) -> String {
    if length.is_zero() {
        return "unknown".into();
    }
    format!("{:.2} %", 100.0 * cpu.as_secs_f64() / length.as_secs_f64())
}

#[cfg(test)]
mod tests;
