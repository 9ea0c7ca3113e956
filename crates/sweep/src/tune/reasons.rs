//! Why a step should ask for something else, in the codes of AWS Compute Optimizer,
//! how likely that is to go wrong, and what was taken for granted. Pure.

use std::collections::BTreeSet;

use ebb_domain::finding::Level;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::profile::bound::Binding;
use ebb_domain::units::Share;
use serde::Serialize;

/// Why a request does not fit.
///
/// Source: Compute Optimizer's `findingReasonCodes` of an instance, those that a step
/// can give evidence for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ReasonCode {
    /// It asks for more cores than it keeps busy.
    #[serde(rename = "CPUOverprovisioned")]
    CpuOverprovisioned,
    /// It could keep more cores busy than it asks for.
    #[serde(rename = "CPUUnderprovisioned")]
    CpuUnderprovisioned,
    /// It asks for more memory than it holds.
    MemoryOverprovisioned,
    /// It needs more memory than it asks for.
    MemoryUnderprovisioned,
    /// What its machine sustains to disks holds it up.
    #[serde(rename = "EBSThroughputUnderprovisioned")]
    EbsThroughputUnderprovisioned,
}

impl ReasonCode {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::CpuOverprovisioned,
        Self::CpuUnderprovisioned,
        Self::MemoryOverprovisioned,
        Self::MemoryUnderprovisioned,
        Self::EbsThroughputUnderprovisioned,
    ];

    /// The same for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::CpuOverprovisioned => "more cores than it uses",
            Self::CpuUnderprovisioned => "too few cores",
            Self::MemoryOverprovisioned => "more memory than it holds",
            Self::MemoryUnderprovisioned => "too little memory",
            Self::EbsThroughputUnderprovisioned => "held up by its disk",
        }
    }
}

/// Why, with how much trust.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reasons {
    /// Why the request does not fit; empty where it does.
    pub reason_codes: Vec<ReasonCode>,
    /// From 0, very low, to 4, very high: how likely a run would want more memory than
    /// recommended. `None` while too few runs were seen to tell.
    pub performance_risk: Option<u8>,
    /// How much the advice is to be trusted.
    pub confidence: Level,
    /// What was seen, each in one line.
    pub evidence: Vec<String>,
    /// What was taken for granted, each in one line.
    pub assumed: Vec<String>,
}

impl Reasons {
    /// Of one step.
    pub fn of(step: &StepAdvice) -> Self {
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
            step.bound.by == Some(Binding::Disk),
            Code::EbsThroughputUnderprovisioned,
        ),
    ];
    let held = found.into_iter().filter(|(holds, _)| *holds);
    held.map(|(_, code)| code).collect()
}

/// Compute Optimizer's scale over the chance that a run wants more memory; its bounds
/// are ours. 1 % is what the policy allows by default, so what it allows is low.
pub(super) fn performance_risk(oom_ppm: u32) -> u8 {
    match oom_ppm {
        0..=1_000 => 0,
        1_001..=10_000 => 1,
        10_001..=50_000 => 2,
        50_001..=200_000 => 3,
        _ => 4,
    }
}

/// A chance that could be told rests on as many runs as the policy calls enough.
fn confidence(step: &StepAdvice) -> Level {
    match (step.risk.samples_needed, step.samples) {
        (0, 1..) => Level::High,
        (_, 3..) => Level::Medium,
        _ => Level::Low,
    }
}

fn evidence(step: &StepAdvice) -> Vec<String> {
    let mut all = vec![format!(
        "{} of {} runs tell what it needs; {} failed, {} of them for want of memory",
        step.samples, step.runs, step.failed, step.oom_kills
    )];
    let used = |what: &str, share: Option<Share>| {
        Some(format!(
            "it used at most {} of the {what} asked for",
            share?
        ))
    };
    all.extend(used("cores", step.bound.cores_used));
    all.extend(used("memory", step.bound.memory_used));
    if let Some(by) = step.bound.by {
        let share = match by {
            Binding::Compute => step.bound.computing,
            Binding::Waiting => step.bound.waiting,
            Binding::Disk => step.bound.disk,
            Binding::Network => step.bound.network,
            Binding::Memory => None,
        };
        let for_share = share.map(|share| format!(" for {share} of its time"));
        all.push(format!("{by} binds it{}", for_share.unwrap_or_default()));
    }
    all
}

fn assumed(step: &StepAdvice) -> Vec<String> {
    let mut all = Vec::new();
    if step.should_ask.memory.is_some() && step.risk.oom_ppm.is_none() {
        all.push(match step.risk.samples_needed {
            0 => "the memory asked for now is enough".to_owned(),
            more => format!(
                "the greatest peak with headroom is enough; {more} more runs would tell the chance \
                 of an OOM kill"
            ),
        });
    }
    if step.risk.oom_ppm.is_some() {
        all.push("later runs are like those seen".to_owned());
    }
    if step.bound.by == Some(Binding::Compute) {
        all.push(
            "it computes, and does not wait for memory's bandwidth, which nothing here measures"
                .to_owned(),
        );
    }
    let offers = &step.offers;
    let told = offers
        .best
        .iter()
        .chain(&offers.spot)
        .chain(&offers.elsewhere);
    let told: BTreeSet<_> = told.flat_map(|offer| &offer.assumed).collect();
    all.extend(told.into_iter().map(ToString::to_string));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_domain::units::{Bytes, MilliCores};
    use ebb_workflows::testing::step;

    #[test]
    fn reasons_follow_from_what_is_asked_and_what_should_be() {
        let check = |cores, mib, expect: &[ReasonCode]| {
            let mut step = step("align");
            step.asks.cores = Some(MilliCores::cores(4));
            step.asks.memory = Some(Bytes::mib(1024));
            step.should_ask.cores = cores;
            step.should_ask.memory = mib;
            assert_eq!(Reasons::of(&step).reason_codes, expect);
        };
        use ReasonCode as Code;
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
        few.risk.samples_needed = 15;
        few.samples = 2;
        let reasons = Reasons::of(&few);
        assert_eq!(
            (reasons.performance_risk, reasons.confidence),
            (None, Level::Low)
        );
        assert!(
            reasons.assumed[0].contains("15 more runs"),
            "{:?}",
            reasons.assumed
        );
    }
}
