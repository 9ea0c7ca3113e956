//! A step in the state of its node. The state contains a hundred thousand steps, of which few are
//! ever read. Each step is therefore packed, which needs much less memory, and stored in the packed
//! form.

use std::borrow::Cow;
use std::cmp::Ordering;

use ebb_telemetry::arrival::Placed;
use ebb_telemetry::identity::{BootId, NodeId, ProbeStart};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::resource_usage::StepDetail;
use ebb_telemetry::step::{
    PeakMemory, PlacedStep, Requested, StepEnd, StepId, StepKind, StepUsage, ToolUsage,
};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::packed_bytes;

/// Initial capacity in bytes. Most steps need less, and packing frees the rest.
const EXPECTED_BYTES: usize = 512;

/// Number of servers that a finding about a waiting task names.
const MAX_PEERS: usize = 2;

/// The newest record of a step, with only the busiest of its executables. The node is the key of
/// this state in the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptStep {
    pub(crate) names: Names,
    pub(crate) observed: BootClock,
    #[serde(with = "ebb_telemetry::time::nanos")]
    pub(crate) observed_at: Timestamp,
    /// [`Packed`], its [`StepId`] first.
    #[serde(
        serialize_with = "packed_bytes::serialize",
        deserialize_with = "packed_bytes::deserialize::<Packed<StepId, String, StepDetail>, _>"
    )]
    packed: Box<[u8]>,
}

/// The probe run that observed a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) boot: BootId,
    pub(crate) probe_start: ProbeStart,
}

/// The packed part of a step: its usage without `observed`, and with one executable.
type Packed<Id, Name, Detail> = (
    Id,
    Name,
    (Ago, StepEnd, u64, CpuTime, Option<PeakMemory>),
    (Option<Bytes>, Option<Bytes>, Requested),
    (Option<MilliCores>, Ago, Detail),
    BatchOrigin,
    Option<Busiest<Name>>,
);

/// The executable with the most CPU time: its name, its number of processes and their CPU time.
type Busiest<Name> = (Name, u64, CpuTime);

/// Nanoseconds from a clock value to `observed`; wraps around for a later clock value. A running
/// step made progress just before, and zero needs one byte.
type Ago = u64;

/// The sequence number of the batch, the origin, and two differences in nanoseconds. The
/// differences show by how much start and last progress are longer before `observed_at` than their
/// clocks indicate; usually zero.
type BatchOrigin = (u64, Origin, i128, i128);

impl KeptStep {
    /// A running step from a heartbeat; `None` if one of its times is outside the range of a
    /// timestamp.
    pub(crate) fn running(names: Names, placed: &Placed, usage: &StepUsage) -> Option<Self> {
        let h = &placed.heartbeat;
        let times = [usage.started, usage.last_progress].map(|clock| placed.place(clock));
        let [started_at, last_progress_at] = times;
        let observed_at = placed.place(usage.observed)?;
        let times = (started_at?, observed_at, last_progress_at?);
        Self::pack(names, usage, (h.sequence, h.origin), times)
    }

    /// A step from an uploaded object.
    pub(crate) fn ended(step: &PlacedStep) -> Option<Self> {
        let names = Names {
            boot: step.boot.clone(),
            probe_start: step.probe_start.clone(),
        };
        let times = (step.started_at, step.observed_at, step.last_progress_at);
        Self::pack(names, &step.usage, (step.sequence, step.origin), times)
    }

    fn pack(
        names: Names,
        usage: &StepUsage,
        (sequence, origin): (u64, Origin),
        (started_at, observed_at, last_progress_at): (Timestamp, Timestamp, Timestamp),
    ) -> Option<Self> {
        let u = usage;
        let detail = kept_detail(u);
        let beyond = |at: Timestamp, clock: BootClock| {
            let ago = observed_at.as_nanosecond() - at.as_nanosecond();
            ago - clocks_apart(clock, u.observed)
        };
        let ago = |clock: BootClock| u.observed.as_nanos().wrapping_sub(clock.as_nanos());
        let all: Packed<&StepId, &str, &StepDetail> = (
            &u.id,
            &u.name,
            (ago(u.started), u.end, u.processes, u.cpu, u.peak_memory),
            (u.disk_read, u.disk_written, u.requested),
            (u.peak_cores, ago(u.last_progress), &detail),
            (
                sequence,
                origin,
                beyond(started_at, u.started),
                beyond(last_progress_at, u.last_progress),
            ),
            u.busiest_tool()
                .map(|tool| (tool.name.as_str(), tool.processes, tool.cpu)),
        );
        let packed = postcard::to_extend(&all, Vec::with_capacity(EXPECTED_BYTES)).ok()?;
        Some(Self {
            names,
            observed: usage.observed,
            observed_at,
            packed: packed.into_boxed_slice(),
        })
    }

    /// The step of `node`; `None` cannot occur for data that this module packed.
    pub(crate) fn unpack(&self, node: &NodeId) -> Option<PlacedStep> {
        let (usage, (sequence, origin, started_beyond, progress_beyond)) = self.usage()?;
        let observed_ns = self.observed_at.as_nanosecond();
        let placed = |beyond: i128, clock| {
            let ago = beyond.checked_add(clocks_apart(clock, self.observed))?;
            Timestamp::from_nanosecond(observed_ns.checked_sub(ago)?).ok()
        };
        let Names { boot, probe_start } = self.names.clone();
        Some(PlacedStep {
            node: node.clone(),
            boot,
            probe_start,
            sequence,
            origin,
            started_at: placed(started_beyond, usage.started)?,
            observed_at: self.observed_at,
            last_progress_at: placed(progress_beyond, usage.last_progress)?,
            usage,
        })
    }

    fn usage(&self) -> Option<(StepUsage, BatchOrigin)> {
        let all: Packed<StepId, String, StepDetail> = postcard::from_bytes(&self.packed).ok()?;
        let (id, name, begin, disk, (peak_cores, progress_ago, detail), origin, busiest) = all;
        let (started_ago, end, processes, cpu, peak_memory) = begin;
        let before = |ago| BootClock::from_nanos(self.observed.as_nanos().wrapping_sub(ago));
        let (disk_read, disk_written, requested) = disk;
        let usage = StepUsage {
            id,
            name,
            started: before(started_ago),
            observed: self.observed,
            end,
            processes,
            cpu,
            peak_memory,
            disk_read,
            disk_written,
            requested,
            peak_cores,
            last_progress: before(progress_ago),
            tools: busiest.into_iter().map(tool_of).collect(),
            detail,
        };
        Some((usage, origin))
    }

    /// The key of a step within its node.
    pub(crate) fn key(&self) -> (&BootId, Option<(StepKind, &str)>) {
        let id = postcard::take_from_bytes(&self.packed);
        (&self.names.boot, id.ok().map(|(id, _)| id))
    }

    /// Totals only grow, so that the record with the latest observation replaces the others; an end
    /// counts as observed a little later. The other fields only make the order total.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        let order = self.observed.cmp(&other.observed);
        let (earlier, later) = match order {
            Ordering::Greater => (other.observed, self.observed),
            _ => (self.observed, other.observed),
        };
        if later.since(earlier) > Some(StepUsage::END_IS_LATER) {
            return order.is_lt();
        }
        let rest = |step: &Self| {
            let (usage, (sequence, ..)) = step.usage()?;
            Some((usage.order(), usage.end, usage, step.observed_at, sequence))
        };
        rest(self) < rest(other)
    }
}

/// Fields that are not stored are unknown.
fn tool_of((name, processes, cpu): Busiest<String>) -> ToolUsage {
    ToolUsage {
        name,
        processes,
        cpu,
        peak_memory: None,
        disk: None,
        events: None,
    }
}

/// Nanoseconds from `clock` to `observed`.
fn clocks_apart(clock: BootClock, observed: BootClock) -> i128 {
    i128::from(observed.as_nanos()) - i128::from(clock.as_nanos())
}

/// The details that the evaluation reads. Only the lake contains arguments and files, which are
/// large, and connections of ended tasks.
fn kept_detail(usage: &StepUsage) -> Cow<'_, StepDetail> {
    let detail = &usage.detail;
    let open = detail.network_peers.iter();
    let open = open.filter(|peer| usage.end == StepEnd::Running && peer.connections > 0);
    let open = open.take(MAX_PEERS).copied().collect();
    if detail.opt_in_detail.is_none() && detail.network_peers == open {
        return Cow::Borrowed(detail);
    }
    Cow::Owned(StepDetail {
        opt_in_detail: None,
        network_peers: open,
        ..detail.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_telemetry::testing::placed_step;

    #[test]
    fn of_its_executables_a_step_keeps_the_busiest() {
        let mut step = placed_step(3, 70);
        let tools = [("sh", 4, 2), ("bwa", 1, 70), ("samtools", 1, 60)];
        let whole = |(name, processes, cpu): (&str, u64, u64)| ToolUsage {
            peak_memory: Some(Bytes(7)),
            ..tool_of((name.to_owned(), processes, CpuTime(cpu)))
        };
        step.usage.tools = tools.map(whole).into();
        let kept = KeptStep::ended(&step).expect("it packs");
        let kept = kept.unpack(&step.node).expect("it was packed");
        assert_eq!(kept.usage.tools, [tool_of(("bwa".into(), 1, CpuTime(70)))]);
    }

    #[test]
    fn what_is_packed_is_unpacked_as_it_was() {
        let check = |change: fn(&mut PlacedStep)| {
            let mut step = placed_step(3, 70);
            change(&mut step);
            let kept = KeptStep::ended(&step).expect("it packs");
            assert_eq!(kept.unpack(&step.node).as_ref(), Some(&step));
            let id = (step.usage.id.kind, step.usage.id.key.as_str());
            assert_eq!(kept.key(), (&step.boot, Some(id)));
            let stored = postcard::to_allocvec(&kept).expect("it is written");
            assert_eq!(postcard::from_bytes(&stored).as_ref(), Ok(&kept));
            let cut = KeptStep {
                packed: kept.packed[..kept.packed.len() / 2].into(),
                ..kept
            };
            let stored = postcard::to_allocvec(&cut).expect("it is written");
            assert!(postcard::from_bytes::<KeptStep>(&stored).is_err());
        };
        check(|_| {});
        check(|step| step.usage.tools = vec![tool_of(("bwa".into(), 3, CpuTime(9)))]);
        check(|step| step.usage.name = "é".repeat(128));
        check(|step| step.started_at = Timestamp::MIN);
        check(|step| step.last_progress_at = Timestamp::MAX);
        check(|step| step.usage.last_progress = BootClock::from_nanos(u64::MAX));
        check(|step| {
            let detail = &mut step.usage.detail;
            detail.run_queue = Some(std::time::Duration::MAX);
            detail
                .parallelism
                .add(std::time::Duration::from_secs(1), CpuTime(9));
        });
    }
}
