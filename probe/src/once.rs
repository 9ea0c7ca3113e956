//! One interval for the eyes of whoever asks; nothing leaves the machine.

use std::fmt::Write;
use std::time::Duration;

use ebb_domain::heartbeat::{Heartbeat, NodeDetail, Usage};
use ebb_domain::step::{StepDetail, StepEnd, StepUsage};
use ebb_domain::units::CpuTime;
use serde::Serialize;

use crate::cgroup::Hierarchy;
use crate::collector::Collector;
use crate::config::Config;
use crate::connect;
use crate::daemon::report::Report;
use crate::node::{self, Machine};
use crate::rules::Rules;

/// What one interval was.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// As it would have been sent.
    pub heartbeat: Heartbeat,
    /// The steps that ended in it.
    pub ended: Vec<StepUsage>,
}

/// Watches one interval, or up to `stop`.
pub async fn watch(
    config: &Config,
    rules: Rules,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Seen> {
    let (passes, period) = config.passes();
    let mut collector = Collector::start(Hierarchy::find()?, rules, period)?;
    let mut cost_until = node::own_cpu();
    let mut ended = Vec::new();
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
    tokio::pin!(stop);
    for _ in 0..passes {
        let stopped = async {
            tokio::select! {
                () = &mut stop => true,
                _ = ticks.tick() => false,
            }
        };
        let stopped = collector.drain_until(stopped).await?;
        ended.extend(collector.pass()?);
        if stopped {
            break;
        }
    }
    ended.extend(collector.last_ended());
    let (interval, events_lost) = collector.close()?;
    let mut machine = Machine::now(&mut cost_until)?;
    machine.probe.events_lost = events_lost;
    let mut report = Report::new(connect::this_run(node::host_name()?)?, Duration::ZERO);
    let (heartbeat, _) = report.heartbeat(interval, machine);
    Ok(Seen { heartbeat, ended })
}

/// The interval as a table.
pub fn table(seen: &Seen) -> String {
    let mut out = String::new();
    let told = write_all(&mut out, seen);
    debug_assert!(told.is_ok(), "a string takes everything");
    out
}

fn write_all(out: &mut String, seen: &Seen) -> std::fmt::Result {
    let Heartbeat {
        hardware,
        workload,
        background,
        coverage,
        probe,
        ..
    } = &seen.heartbeat;
    let length = seen
        .heartbeat
        .end
        .since(seen.heartbeat.start)
        .unwrap_or_default();
    writeln!(
        out,
        "{}: {:.1} s on {} cores, {} of memory, {} GPUs",
        seen.heartbeat.node,
        length.as_secs_f64(),
        hardware.cores,
        hardware.memory,
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
    steps(out, &seen.heartbeat.steps, &seen.ended)?;
    node(out, &seen.heartbeat.detail)?;
    writeln!(
        out,
        "\nseen: {} of the time, {} of short processes, network {}",
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

/// What else is known of the node; nothing where it is not.
fn node(out: &mut String, detail: &NodeDetail) -> std::fmt::Result {
    if let Some(network) = &detail.network {
        writeln!(
            out,
            "\nTCP: {} of processes, {} of none that is known, {} segments sent again, {} open connections",
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
            "waited for a core {}, for memory {}, for disks {}",
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
            shortened(&step.name),
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

/// What each step was seen doing, the most first; nothing where that is unknown.
fn doing(out: &mut String, steps: &[&StepUsage]) -> std::fmt::Result {
    let mut head = "\nSEEN AT THE SAMPLES\n";
    for step in steps.iter().filter(|step| !step.detail.states.is_empty()) {
        let mut states: Vec<_> = step.detail.states.iter().collect();
        states.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.samples));
        let words: Vec<String> = states
            .iter()
            .map(|(state, seen)| format!("{state} {}", seen.samples))
            .collect();
        write!(
            out,
            "{head}{:<36}{}",
            shortened(&step.name),
            words.join(", ")
        )?;
        let part = |name: &str, cpu: Option<CpuTime>| {
            cpu.map_or_else(String::new, |cpu| format!("; {name} {cpu}"))
        };
        let StepDetail {
            user_cpu,
            system_cpu,
            ..
        } = &step.detail;
        writeln!(
            out,
            "{}{}",
            part("user", *user_cpu),
            part("system", *system_cpu)
        )?;
        head = "";
    }
    Ok(())
}

/// Names come from outside: nothing in them may move a terminal's cursor.
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
mod tests {
    use ebb_domain::heartbeat::{BootClock, Coverage, Hardware, Origin, ProbeCost};
    use ebb_domain::identity::{BootId, NodeId, ProbeStart};
    use ebb_domain::step::{Requested, Sampled, StepId, StepKind, TaskState};
    use ebb_domain::units::{Bytes, MilliCores, Share};

    use super::*;

    fn step(name: &str, cpu_ms: u64, end: StepEnd) -> StepUsage {
        StepUsage {
            id: StepId {
                kind: StepKind::Tree,
                key: name.into(),
            },
            name: name.into(),
            started: BootClock::default(),
            observed: BootClock::default(),
            end,
            processes: 3,
            cpu: CpuTime::from_millis(cpu_ms),
            peak_memory: None,
            disk_read: Some(Bytes::mib(1)),
            disk_written: Some(Bytes::mib(2)),
            requested: Requested::default(),
            peak_cores: Some(MilliCores(500)),
            last_progress: BootClock::default(),
            tools: Vec::new(),
            detail: StepDetail::default(),
        }
    }

    fn seen(steps: Vec<StepUsage>, ended: Vec<StepUsage>) -> Seen {
        let heartbeat = Heartbeat {
            node: NodeId::new("host").expect("valid"),
            boot: BootId::new("boot").expect("valid"),
            probe_start: ProbeStart::new("run").expect("valid"),
            sequence: 0,
            start: BootClock::default(),
            end: BootClock::from_nanos(10_000_000_000),
            wall_at_end: jiff::Timestamp::UNIX_EPOCH,
            origin: Origin::Measured,
            coverage: Coverage {
                cpu: Some(Share::ALL),
                memory: None,
                disk: None,
                network: None,
                gpu: None,
                short_processes: Some(Share::from_ppm(500_000)),
            },
            hardware: Hardware {
                cores: MilliCores::cores(2),
                memory: Bytes::gib(4),
                gpus: None,
            },
            workload: Usage {
                cpu: Some(CpuTime::from_millis(2_500)),
                ..Usage::default()
            },
            background: Usage::default(),
            typed_ago: None,
            detail: Default::default(),
            steps,
            probe: ProbeCost {
                cpu: CpuTime::from_millis(10),
                ..ProbeCost::default()
            },
        };
        Seen { heartbeat, ended }
    }

    #[test]
    fn a_table_says_what_was_seen_and_what_is_unknown() {
        let busy = step("busy", 2_000, StepEnd::Exited(3));
        let cunning = step("cunning\u{1b}[2J", 500, StepEnd::Running);
        let shown = table(&seen(vec![cunning], vec![busy]));
        let lines: Vec<&str> = shown.lines().collect();
        let check = |starts: &str, words: &[&str]| {
            let line = lines.iter().find(|line| line.starts_with(starts));
            let line = line.unwrap_or_else(|| panic!("no {starts}: {shown}"));
            assert_eq!(line.split_whitespace().collect::<Vec<_>>(), words);
        };
        check(
            "workload",
            &["workload", "2.50", "s", "unknown", "unknown", "0"],
        );
        check(
            "busy",
            &[
                "busy", "2.00", "s", "0.5", "unknown", "3.0", "MiB", "3", "exit", "3",
            ],
        );
        assert!(shown.contains("cunning?[2J "), "{shown}");
        assert!(
            shown.contains("2 cores, 4.0 GiB of memory, unknown GPUs"),
            "{shown}"
        );
        assert!(
            shown.contains("50 % of short processes, network no"),
            "{shown}"
        );
        assert!(shown.contains("the probe: 0.10 % of one core"), "{shown}");
        assert!(!shown.contains("SEEN AT THE SAMPLES"), "{shown}");
        // The busiest first.
        let place = |name: &str| shown.find(name);
        assert!(place("busy") < place("cunning"));
    }

    #[test]
    fn what_a_step_waited_for_is_told_the_most_first() {
        let mut stuck = step("stuck", 10, StepEnd::Running);
        let seen_at = |samples| Sampled {
            samples,
            time: Duration::from_secs(samples),
        };
        stuck.detail.states = [
            (TaskState::Running, seen_at(1)),
            (TaskState::Network, seen_at(9)),
        ]
        .into();
        stuck.detail.user_cpu = Some(CpuTime::from_millis(10));
        let shown = table(&seen(vec![stuck], vec![]));
        let expect = "waiting for network 9, running 1; user 0.01 s\n";
        assert!(shown.contains(expect), "{shown}");
    }

    #[test]
    fn no_step_and_many_are_said() {
        assert!(table(&seen(vec![], vec![])).contains("\nno steps\n"));
        let many = (0..25).map(|n| step("x", n, StepEnd::Unknown)).collect();
        assert!(table(&seen(vec![], many)).contains("\nand 5 more\n"));
    }
}
