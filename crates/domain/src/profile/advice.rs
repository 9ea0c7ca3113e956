//! What is told of one step: what it asks for and should ask for, the risk of that,
//! what binds it and where it would run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::bound::Boundness;
use super::gather::{Profiled, Profiles, StepKey};
use super::place::{self, Offers};
use super::{Run, StepProfile};
use crate::catalogue::Catalogue;
use crate::finding::Finding;
use crate::finding::FindingKind::OverprovisionedStep;
use crate::heartbeat::Origin;
use crate::identity::{AccountId, InstanceType, Region};
use crate::judge::Facts;
use crate::policy::Policy;
use crate::sizing::{Need, Risk, SizedInput, SizedRequest};
use crate::step::StepKind;
use crate::units::{Bytes, Usd};

/// Steps that a report tells of: 20 MB of it, which whoever serves them holds at once.
pub const MAX_STEPS: usize = 10_000;

/// Steps that offers are looked for beside those with findings: a few milliseconds
/// each.
const MAX_PLACED: usize = 1_000;

/// What is told of one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepAdvice {
    /// Its job definition, job or script name.
    pub step: String,
    /// Where it runs; `None` when unknown.
    pub region: Option<Region>,
    /// In whose account; `None` where that is not told.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// What kind of thing its newest run was.
    pub kind: StepKind,
    /// Whom to ask; `None` when no tag tells.
    pub owner: Option<String>,
    /// Simulated as soon as one of its runs is.
    pub origin: Origin,
    /// When its newest run was seen last.
    pub last_seen: Timestamp,
    /// Runs kept, of which at most [`super::MAX_RUNS`] are.
    pub runs: u32,
    /// Of those, runs that tell what it needs.
    pub samples: u32,
    /// Runs that ended badly.
    pub failed: u32,
    /// Of those, killed for want of memory.
    pub oom_kills: u32,
    /// How long its runs that tell took on average; `None` where there is none.
    pub mean_wall: Option<Duration>,
    /// Machine types that it ran on, sorted.
    pub machines: Vec<InstanceType>,
    /// What its newest run asked for.
    pub asks: SizedRequest,
    /// What to ask for; more than now where it needs more.
    pub should_ask: SizedRequest,
    /// How that memory may fail.
    pub risk: Risk,
    /// Memory by the bytes that a run reads; empty where those explain nothing.
    #[serde(default)]
    pub by_input: Vec<SizedInput>,
    /// What to ask for on Fargate, whose pairs of vCPU and memory are fixed; `None`
    /// where its needs are unknown or nothing there is as large.
    #[serde(default)]
    pub on_fargate: Option<SizedRequest>,
    /// What binds it and where it is underused.
    pub bound: Boundness,
    /// Where it would run; empty where that was not looked for.
    #[serde(default)]
    pub offers: Offers,
    /// What the change saves a month; `None` where none is known.
    pub saving_a_month: Option<Usd>,
    /// The finding about it.
    pub finding: Option<String>,
}

impl StepAdvice {
    /// From a profile alone; `None` for one without runs. Owner, offers and money
    /// are left open.
    pub fn of(
        step: &str,
        kind: StepKind,
        (profile, need): (&StepProfile, &Need),
        (policy, catalogue): (&Policy, &Catalogue),
    ) -> Option<Self> {
        let runs = profile.by_time();
        let newest = *runs.last()?;
        let telling: Vec<&Run> = runs.iter().copied().filter(|r| r.tells(policy)).collect();
        let many = u32::try_from(telling.len()).unwrap_or(u32::MAX);
        let all: Duration = telling.iter().map(|run| run.wall).sum();
        let mut machines: Vec<_> = runs.iter().filter_map(|r| r.machine.clone()).collect();
        machines.sort();
        machines.dedup();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let asks = SizedRequest::from(newest.requested);
        let (should_ask, risk) = should_ask(asks, need, profile.oom_kills());
        Some(Self {
            step: step.to_owned(),
            region: None,
            account: None,
            kind,
            owner: None,
            origin: runs.iter().map(|run| run.origin).max()?,
            last_seen: newest.observed_at,
            runs: count(runs.len()),
            samples: many,
            failed: count(profile.failed()),
            oom_kills: count(profile.oom_kills()),
            mean_wall: all.checked_div(many),
            machines,
            asks,
            should_ask,
            risk,
            by_input: need.by_input.clone(),
            on_fargate: need.on_fargate,
            bound: Boundness::of(profile, policy, catalogue),
            offers: Offers::default(),
            saving_a_month: None,
            finding: None,
        })
    }
}

/// What to ask for, and the risk of it. Headroom on few runs is no reason to ask for
/// more than has been enough.
pub(crate) fn should_ask(
    asks: SizedRequest,
    need: &Need,
    oom_kills: usize,
) -> (SizedRequest, Risk) {
    let is_guess = need.risk.samples_needed > 0 && oom_kills == 0;
    let (memory, risk) = match (asks.memory, need.memory) {
        // What is enough with less is enough with more, so the chance told still bounds it.
        (Some(now), Some(needed)) if needed <= now && !is_worth_it(now, needed) => {
            let mut risk = need.risk.clone();
            risk.attempts.retain(|size| *size > now);
            (Some(now), risk)
        }
        (Some(now), Some(needed)) if !(is_guess && needed > now) => {
            (Some(needed), need.risk.clone())
        }
        (None, Some(needed)) => (Some(needed), need.risk.clone()),
        (now, _) => {
            let samples_needed = need.risk.samples_needed;
            let risk = Risk {
                samples_needed,
                ..Risk::default()
            };
            (now, risk)
        }
    };
    let cores = need.cores.or(asks.cores);
    (SizedRequest { cores, memory }, risk)
}

/// Whether asking for less is worth a change of somebody's configuration: a tenth is
/// lost in how machines are cut up among steps anyway.
fn is_worth_it(now: Bytes, needed: Bytes) -> bool {
    now.0.saturating_sub(needed.0) >= now.0 / 10
}

/// All steps, those with the greatest saving first, then by name and region; and how
/// many more there are than a report tells of.
pub(crate) fn steps(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    findings: &[Finding],
) -> (Vec<StepAdvice>, usize) {
    let placed = placed(profiles);
    let mut of_step: BTreeMap<&str, &Finding> = BTreeMap::new();
    for finding in findings.iter().filter(|f| f.kind == OverprovisionedStep) {
        of_step.entry(&finding.id).or_insert(finding);
    }
    let all = profiles.by_step.iter();
    let mut steps: Vec<StepAdvice> = all
        .filter_map(|(key, profiled)| {
            let mut advice = told(facts, key, profiled, &of_step)?;
            if advice.offers == Offers::default() && placed.contains(key) {
                let step = (&key.region, profiled);
                advice.offers = place::offers(facts, profiles, step, advice.should_ask);
            }
            Some(advice)
        })
        .collect();
    steps.sort_by(|a, b| {
        let order = |s: &StepAdvice| (s.step.clone(), s.region.clone(), s.account.clone());
        (b.saving_a_month.cmp(&a.saving_a_month)).then_with(|| order(a).cmp(&order(b)))
    });
    let left_out = steps.len().saturating_sub(MAX_STEPS);
    steps.truncate(MAX_STEPS);
    (steps, left_out)
}

/// The steps that machines were busy with longest.
fn placed<'p>(profiles: &'p Profiles<'_>) -> BTreeSet<&'p StepKey> {
    let wall = |profiled: &Profiled<'_>| -> Duration {
        let walls = profiled.runs.iter().map(|run| run.wall());
        walls.fold(Duration::ZERO, Duration::saturating_add)
    };
    let all = profiles.by_step.iter();
    let mut all: Vec<_> = all.map(|(key, profiled)| (wall(profiled), key)).collect();
    all.sort_by(|a, b| b.cmp(a));
    all.into_iter()
        .take(MAX_PLACED)
        .map(|(_, key)| key)
        .collect()
}

fn told(
    facts: &Facts<'_>,
    key: &StepKey,
    profiled: &Profiled<'_>,
    of_step: &BTreeMap<&str, &Finding>,
) -> Option<StepAdvice> {
    let newest = profiled.newest()?;
    let kind = newest.step.usage.id.kind;
    let known = (&profiled.profile, &profiled.need);
    let mut advice = StepAdvice::of(&key.name, kind, known, (facts.policy, facts.catalogue))?;
    let account = key.account.as_ref();
    let id = Finding::id_in(OverprovisionedStep, account, &key.region, &key.name);
    let finding = of_step.get(id.as_str());
    advice.region = Some(key.region.clone());
    advice.account = key.account.clone();
    advice.owner = newest.owner();
    if let Some(finding) = finding {
        advice.finding = Some(id);
        advice.saving_a_month = finding.cost.as_ref().map(|cost| cost.saving_a_month);
        if let Some(recommendation) = &finding.recommendation {
            advice.offers = recommendation.offers.clone();
        }
    }
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_for_less_than_a_tenth_is_not_asked_for() {
        let check = |now: u64, needed: u64, expect: u64, attempts: &[u64]| {
            let asks = SizedRequest {
                cores: None,
                memory: Some(Bytes::mib(now)),
            };
            let need = Need {
                memory: Some(Bytes::mib(needed)),
                risk: Risk {
                    oom_ppm: Some(5_000),
                    attempts: vec![Bytes::mib(1_000), Bytes::mib(2_000)],
                    samples_needed: 0,
                    ..Risk::default()
                },
                ..Need::default()
            };
            let (told, risk) = should_ask(asks, &need, 0);
            assert_eq!(told.memory, Some(Bytes::mib(expect)), "{now} {needed}");
            let sizes: Vec<Bytes> = attempts.iter().map(|mib| Bytes::mib(*mib)).collect();
            assert_eq!((risk.oom_ppm, risk.attempts), (Some(5_000), sizes));
        };
        check(1_000, 950, 1_000, &[2_000]);
        check(1_000, 1_000, 1_000, &[2_000]);
        check(1_000, 900, 900, &[1_000, 2_000]);
        check(900, 950, 950, &[1_000, 2_000]);
    }
}
