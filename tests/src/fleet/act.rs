//! The data of a node's probe in one interval: pure, so the same input always gives the same data.

use std::time::Duration;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{IdentityError, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{
    MemorySource, PeakMemory, Requested, StepBatch, StepEnd, StepId, StepKind, StepUsage,
    ToolEvents, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};

use super::clock::{NodeClock, Part};
use crate::world::{Node, Profile, Step};

/// The load of a workload in each second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    cores: f64,
    disk_bytes: f64,
    network_bytes: f64,
}

impl Load {
    const NONE: Self = Self {
        cores: 0.0,
        disk_bytes: 0.0,
        // Time service and instance metadata: far below all floors.
        network_bytes: 300.0,
    };

    fn usage(self, length: Duration) -> Usage {
        let seconds = length.as_secs_f64();
        Usage {
            cpu: Some(cpu(self.cores, length)),
            disk: Some(Bytes(whole(self.disk_bytes * seconds))),
            network: Some(Bytes(whole(self.network_bytes * seconds))),
            gpu: None,
            processes_started: u64::from(self.cores > 0.0),
        }
    }
}

/// The heartbeat of one interval.
///
/// # Errors
/// If the node's name is not valid.
pub fn heartbeat(
    node: &Node,
    clock: NodeClock,
    part: Part,
    sent: &Sent,
    probe_start: &ProbeStart,
) -> Result<Heartbeat, IdentityError> {
    let (start, end) = (clock.boot_at(part.start), clock.boot_at(part.end));
    let length = part.end - part.start;
    let ago = sent.clock.since(end).unwrap_or_default();
    let steps = node.steps.iter();
    Ok(Heartbeat {
        node: NodeId::new(node.instance_id.clone())?,
        boot: sent.boot.clone(),
        probe_start: probe_start.clone(),
        sequence: part.number,
        start,
        end,
        wall_at_end: sent.wall.checked_sub(ago).unwrap_or(sent.wall),
        origin: Origin::Simulated,
        coverage: coverage(),
        hardware: Hardware {
            cores: MilliCores::cores(node.vcpus),
            memory: Bytes(node.memory_bytes),
            gpus: Some(node.gpus),
        },
        workload: load(node, part).usage(length),
        // Time service, log writing, an agent or two: half a per cent of a core.
        background: Load {
            cores: 0.005,
            disk_bytes: 200.0,
            network_bytes: 0.0,
        }
        .usage(length),
        typed_ago: None,
        detail: Default::default(),
        steps: steps.map(|step| running(step, clock, end)).collect(),
        probe: ProbeCost {
            cpu: CpuTime::from_millis(1),
            resident: Some(Bytes::mib(9)),
            ..ProbeCost::default()
        },
    })
}

/// Whether a heartbeat is lost: one in four of a node with gaps.
pub fn is_lost(node: &Node, part: Part) -> bool {
    node.profile == Profile::Gappy && part.number % 4 == 1
}

/// The tasks that ended before the generator's start; `None` if there are none.
///
/// # Errors
/// If the node's name is not valid.
pub fn step_batch(
    node: &Node,
    clock: NodeClock,
    sent: &Sent,
    probe_start: &ProbeStart,
) -> Result<Option<StepBatch>, IdentityError> {
    if node.finished_steps.is_empty() {
        return Ok(None);
    }
    let steps = node.finished_steps.iter();
    Ok(Some(StepBatch {
        node: NodeId::new(node.instance_id.clone())?,
        boot: sent.boot.clone(),
        probe_start: probe_start.clone(),
        sequence: 0,
        origin: Origin::Simulated,
        steps: steps.map(|step| finished(step, clock)).collect(),
    }))
}

/// All signals except GPUs, which would require a vendor library.
fn coverage() -> Coverage {
    let all = Some(Share::ALL);
    Coverage {
        cpu: all,
        memory: all,
        disk: all,
        network: all,
        gpu: None,
        short_processes: all,
    }
}

fn load(node: &Node, part: Part) -> Load {
    if !node.steps.is_empty() {
        return of_steps(&node.steps);
    }
    let cores = node.vcpus as f64;
    let busy = Load {
        cores: cores * (0.55 + 0.3 * varied(&node.instance_id, part.number)),
        disk_bytes: 2e6,
        network_bytes: 1e6,
    };
    match node.profile {
        Profile::Busy => busy,
        Profile::Quiet if part.start.as_secs() < node.quiet_after_seconds => busy,
        // Above the floors, and far below what an average of a machine shows.
        Profile::Light => Load {
            cores: 0.05,
            disk_bytes: 2e4,
            network_bytes: 5e3,
        },
        Profile::Bursty if part.number.is_multiple_of(8) => busy,
        _ => Load::NONE,
    }
}

fn of_steps(steps: &[Step]) -> Load {
    let used = |step: &Step| (step.cpu_cores, step.disk_bytes_per_second);
    steps.iter().map(used).fold(Load::NONE, |sum, step| Load {
        cores: sum.cores + step.0.unwrap_or(0.0),
        disk_bytes: sum.disk_bytes + step.1.unwrap_or(0) as f64,
        ..sum
    })
}

fn running(step: &Step, clock: NodeClock, now: BootClock) -> StepUsage {
    let usage = usage(step, clock, now, StepEnd::Running);
    if step.cpu_cores.is_some_and(|cores| cores > 0.0) {
        return usage;
    }
    // It worked until the generator's start and then stopped.
    StepUsage {
        last_progress: clock.boot_at(Duration::ZERO).max(usage.started),
        ..usage
    }
}

fn finished(step: &Step, clock: NodeClock) -> StepUsage {
    let age = Duration::from_secs(step.stopped_age_seconds.unwrap_or(0));
    let end = step.exit_code.map_or(StepEnd::Unknown, StepEnd::Exited);
    usage(step, clock, clock.boot_before_start(age), end)
}

fn usage(step: &Step, clock: NodeClock, observed: BootClock, end: StepEnd) -> StepUsage {
    let started = clock.boot_before_start(Duration::from_secs(step.started_age_seconds));
    let wall = observed.since(started).unwrap_or_default();
    let cores = step.cpu_cores.unwrap_or(0.0);
    let disk = step
        .disk_bytes_per_second
        .map(|rate| whole(rate as f64 * wall.as_secs_f64()));
    let held = step.memory_bytes.map(Bytes);
    StepUsage {
        id: StepId {
            kind: StepKind::EcsTask,
            key: step.step_id.clone(),
        },
        name: step.step_id.clone(),
        started,
        observed,
        end,
        processes: 4,
        cpu: cpu(cores, wall),
        peak_memory: held.map(|bytes| PeakMemory {
            bytes,
            source: MemorySource::CgroupSampled,
        }),
        disk_read: disk.map(|bytes| Bytes(bytes / 2)),
        disk_written: disk.map(|bytes| Bytes(bytes - bytes / 2)),
        // ECS limits memory; vCPUs are only shares.
        requested: Requested {
            cores: None,
            memory: Some(Bytes(step.requested_memory_bytes)),
        },
        peak_cores: Some(MilliCores(whole(cores * 1000.0))),
        last_progress: observed,
        tools: vec![ToolUsage {
            name: executable(&step.job_name).to_owned(),
            processes: 4,
            cpu: cpu(cores, wall),
            peak_memory: held,
            disk: disk.map(Bytes),
            events: Some(ToolEvents {
                started_after: Duration::ZERO,
                ended_after: (end != StepEnd::Running).then_some(wall),
                failed: u64::from(!matches!(end, StepEnd::Running | StepEnd::Exited(0))),
                oom_kills: u64::from(end == StepEnd::OutOfMemory),
            }),
        }],
        detail: StepDetail::default(),
    }
}

/// The executable that a job such as `call-snps-12` runs.
fn executable(job: &str) -> &str {
    match job.rsplit_once('-').map_or(job, |(step, _)| step) {
        "bwa-mem" => "bwa",
        "call-snps" => "bcftools",
        "quantify" => "salmon",
        "sort-bam" => "samtools",
        "star-align" => "STAR",
        "trim-reads" => "fastp",
        // Such as `fastqc`, which runs the program of the same name.
        step => step,
    }
}

fn cpu(cores: f64, wall: Duration) -> CpuTime {
    CpuTime(whole(cores * wall.as_secs_f64() * 1e9))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "loads are small and never negative, and `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// A value from 0 to 1, by FNV-1a of name and number, so that nodes differ.
fn varied(name: &str, number: u64) -> f64 {
    let bytes = name.bytes().chain(number.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 40) as f64 / (1_u64 << 24) as f64
}

#[cfg(test)]
mod tests;
