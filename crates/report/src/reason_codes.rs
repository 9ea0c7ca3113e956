//! Reasons to change the request of a step, in the codes of AWS Compute Optimizer. The module also
//! contains the risk of the change and its assumptions. It performs no I/O.

use std::collections::BTreeSet;

use ebb_model::advice::bottleneck::Binding;
use ebb_model::advice::step::StepAdvice;
use ebb_model::confidence::Level;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;
use serde::Serialize;

/// Reason why a request does not fit.
///
/// Source: `findingReasonCodes` of an instance in Compute Optimizer, limited to the codes for which
/// a step has evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ReasonCode {
    /// The step requests more cores than it keeps busy.
    #[serde(rename = "CPUOverprovisioned")]
    CpuOverprovisioned,
    /// The step could keep more cores busy than it requests.
    #[serde(rename = "CPUUnderprovisioned")]
    CpuUnderprovisioned,
    /// The step requests more memory than it uses.
    MemoryOverprovisioned,
    /// The step needs more memory than it requests.
    MemoryUnderprovisioned,
    /// The disk throughput of the machine limits the step.
    #[serde(rename = "EBSThroughputUnderprovisioned")]
    EbsThroughputUnderprovisioned,
}

impl ReasonCode {
    /// All reason codes.
    pub const ALL: [Self; 5] = [
        Self::CpuOverprovisioned,
        Self::CpuUnderprovisioned,
        Self::MemoryOverprovisioned,
        Self::MemoryUnderprovisioned,
        Self::EbsThroughputUnderprovisioned,
    ];

    /// The reason as text.
    pub const fn words(self) -> &'static str {
        match self {
            Self::CpuOverprovisioned => "requests more cores than it uses",
            Self::CpuUnderprovisioned => "requests too few cores",
            Self::MemoryOverprovisioned => "requests more memory than it uses",
            Self::MemoryUnderprovisioned => "requests too little memory",
            Self::EbsThroughputUnderprovisioned => "limited by disk throughput",
        }
    }
}

/// Reasons with their confidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reasons {
    /// Reasons why the request does not fit; empty if it does.
    pub reason_codes: Vec<ReasonCode>,
    /// Chance that a task needs more memory than recommended, from 0 (very low) to 4 (very high).
    /// `None` if too few tasks were observed.
    pub performance_risk: Option<u8>,
    /// Confidence in the advice.
    pub confidence: Level,
    /// Observations, each in one line.
    pub evidence: Vec<String>,
    /// Assumptions, each in one line.
    pub assumed: Vec<String>,
}

impl Reasons {
    /// Reasons for one step.
    pub fn from_step(step: &StepAdvice) -> Self {
        Self {
            reason_codes: codes(step),
            performance_risk: step.risk.oom_ppm.map(performance_risk),
            confidence: confidence(step),
            evidence: evidence(step),
            assumed: assumed(step),
        }
    }
}

fn codes(step: &StepAdvice) -> Vec<ReasonCode> {
    use ReasonCode as Code;
    let cores = step.asks.cores.zip(step.should_ask.cores);
    let memory = step.asks.memory.zip(step.should_ask.memory);
    let found = [
        (
            cores.is_some_and(|(now, then)| then < now),
            Code::CpuOverprovisioned,
        ),
        (
            cores.is_some_and(|(now, then)| then > now),
            Code::CpuUnderprovisioned,
        ),
        (
            memory.is_some_and(|(now, then)| then < now),
            Code::MemoryOverprovisioned,
        ),
        (
            memory.is_some_and(|(now, then)| then > now),
            Code::MemoryUnderprovisioned,
        ),
        (
            step.bound.by == Some(Binding::Disk)
                && step.bound.disk > step.bound.doing.get(&TaskState::Disk).copied(),
            Code::EbsThroughputUnderprovisioned,
        ),
    ];
    let held = found.into_iter().filter(|(holds, _)| *holds);
    held.map(|(_, code)| code).collect()
}

/// Scale of Compute Optimizer for the chance that a task needs more memory; the limits are those of
/// Ebb. The default of the policy allows 1 %, so this chance counts as low.
pub(crate) fn performance_risk(oom_ppm: u32) -> u8 {
    match oom_ppm {
        0..=1_000 => 0,
        1_001..=10_000 => 1,
        10_001..=50_000 => 2,
        50_001..=200_000 => 3,
        _ => 4,
    }
}

/// Confidence in the estimate of memory, from its number of independent tasks. Reports of earlier
/// releases contain only the number of missing tasks.
fn confidence(step: &StepAdvice) -> Level {
    match (step.risk.basis, step.risk.samples_needed) {
        (Some(basis), _) => basis.confidence(),
        (None, 0) if step.samples > 0 && step.risk.oom_ppm.is_some() => Level::High,
        (None, _) if step.samples >= 3 => Level::Medium,
        (None, _) => Level::Low,
    }
}

fn evidence(step: &StepAdvice) -> Vec<String> {
    let mut all = vec![format!(
        "the advice is based on {} of {} attempts; {} failed, {} of them out of memory",
        step.samples, step.runs, step.failed, step.oom_kills
    )];
    all.extend(crate::step_table::first_attempts(&step.present));
    let used = |what: &str, share: Option<Share>| {
        Some(format!(
            "it used at most {} of the {what} requested",
            share?
        ))
    };
    all.extend(used("cores", step.bound.cores_used));
    let exceeded = crate::step_table::exceeded_memory(step);
    all.extend(exceeded.or_else(|| used("memory", step.bound.memory_used)));
    if let Some(by) = step.bound.by {
        let share = match by {
            Binding::Compute => step.bound.computing,
            Binding::Waiting => step.bound.waiting,
            Binding::Disk => step.bound.disk,
            Binding::Network => step.bound.network,
            Binding::BusyCores => step.bound.doing.get(&TaskState::Runnable).copied(),
            Binding::Memory => None,
        };
        let for_share = share.map(|share| format!(" for {share} of its time"));
        all.push(format!("{by} limits it{}", for_share.unwrap_or_default()));
    }
    all
}

fn assumed(step: &StepAdvice) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(basis) = step.risk.basis.filter(|_| step.should_ask.memory.is_some()) {
        all.push(match basis.runs {
            0 | 1 => "the difference between runs is a typical one, because only one run is known"
                .to_owned(),
            runs => format!("later runs differ no more than these {runs} runs"),
        });
    }
    if step.slowdown_ppm.is_some() {
        all.push("fewer cores change neither the CPU time nor the memory use".to_owned());
    }
    if let Some(tool) = step
        .self_sizing
        .as_ref()
        .filter(|_| step.should_ask.memory.is_some())
    {
        all.push(format!(
            "{} sets its memory from the request ({}), so its peak counts as 80 % of its need",
            tool.tool, tool.option
        ));
    }
    if step.kind == StepKind::NextflowTask && step.usage.is_some() {
        all.push(
            "the peak in the trace excludes files in memory (tmpfs, page cache) and files that \
             Nextflow stages in the same container"
                .to_owned(),
        );
    }
    if step.bound.by == Some(Binding::Compute) {
        all.push("the step is CPU-bound; memory bandwidth is not measured".to_owned());
    }
    let offers = &step.offers;
    let all_offers = offers
        .best
        .iter()
        .chain(&offers.spot)
        .chain(&offers.elsewhere);
    let assumptions: BTreeSet<_> = all_offers.flat_map(|offer| &offer.assumed).collect();
    all.extend(assumptions.into_iter().map(ToString::to_string));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_model::advice::sized_request::EstimateBasis;
    use ebb_telemetry::units::{Bytes, MilliCores};
    use ebb_workflows::testing::step;

    #[test]
    fn reasons_follow_from_what_is_asked_and_what_should_be() {
        let check = |cores, mib, expect: &[ReasonCode]| {
            let mut step = step("align");
            step.asks.cores = Some(MilliCores::cores(4));
            step.asks.memory = Some(Bytes::mib(1024));
            step.should_ask.cores = cores;
            step.should_ask.memory = mib;
            assert_eq!(Reasons::from_step(&step).reason_codes, expect);
        };
        use crate::reason_codes::ReasonCode as Code;
        let cores = |n| Some(MilliCores::cores(n));
        let mib = |n| Some(Bytes::mib(n));
        check(cores(4), mib(1024), &[]);
        check(None, None, &[]);
        check(
            cores(1),
            mib(512),
            &[Code::CpuOverprovisioned, Code::MemoryOverprovisioned],
        );
        check(
            cores(8),
            mib(2048),
            &[Code::CpuUnderprovisioned, Code::MemoryUnderprovisioned],
        );
    }

    #[test]
    fn a_risk_grows_with_the_chance_and_is_unknown_without_one() {
        for (ppm, expect) in [(0, 0), (1_000, 0), (10_000, 1), (10_001, 2), (200_001, 4)] {
            assert_eq!(performance_risk(ppm), expect, "{ppm}");
        }
        let mut few = step("align");
        few.risk.oom_ppm = None;
        few.risk.samples_needed = 18;
        few.samples = 2;
        let reasons = Reasons::from_step(&few);
        assert_eq!(
            (reasons.performance_risk, reasons.confidence),
            (None, Level::Low)
        );
    }

    #[test]
    fn confidence_follows_from_independent_tasks() {
        let check = |tasks: u32, runs: u32, effective: u32, expect: Level| {
            let mut one = step("align");
            one.risk.basis = Some(EstimateBasis {
                tasks,
                samples: tasks,
                runs,
                effective_tasks_millis: effective * 1_000,
            });
            assert_eq!(
                Reasons::from_step(&one).confidence,
                expect,
                "{tasks} {runs}"
            );
        };
        check(21, 1, 1, Level::Low);
        check(300, 1, 5, Level::Medium);
        check(8, 1, 3, Level::Medium);
        check(40, 5, 16, Level::High);
        check(19, 19, 19, Level::Medium);
    }
}
