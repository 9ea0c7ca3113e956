//! Spot candidates: on-demand machines of a Batch environment with short tasks. The saving of spot
//! must exceed the cost of interruptions.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::purchasing::PurchaseOption;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market};
use ebb_model::inventory::spot_market::SpotScore;
use ebb_sizing::spot_risk::{Interruptions, interruptions, least_interruptions};
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::facts::Facts;
use crate::hourly_price::Price;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell;
use crate::step_history::by_step::Profiles;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::SpotCandidate;

/// Minimum observation of one day, because its hours differ.
const LEAST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// A Batch environment. Its name is unique in an account and a region.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Environment {
    region: Region,
    name: String,
    account: Option<AccountId>,
}

impl Environment {
    fn id(&self) -> String {
        format!("environment/{}", self.name)
    }
}

/// On-demand machines of an environment, and the tasks that ran there.
#[derive(Default)]
struct OnDemand<'a> {
    machines: Vec<&'a Instance>,
    runs: Vec<&'a ObservedTask<'a>>,
}

/// Evaluates every Batch environment. No other controller is known to restart interrupted tasks.
pub(crate) fn evaluate(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Vec<Verdict> {
    environments(facts, profiles)
        .iter()
        .filter_map(|(environment, known)| {
            evaluate_environment(facts, environment, known, &mut RuleTrace::unwritten(KIND))
        })
        .collect()
}

/// Adds the spot placement score of AWS for the machines that the advice recommends for each
/// environment. A low score gives low confidence.
pub(crate) fn take_scores(findings: &mut [Finding], environments: &[GroupAdvice]) {
    for finding in findings {
        let Evidence::PurchaseOption(PurchaseOption::OnDemand { score, .. }) =
            &mut finding.evidence
        else {
            continue;
        };
        let resource = &finding.resource;
        let advised = environments.iter().find(|advice| {
            (Some(&advice.name), &advice.region, &advice.account)
                == (resource.name.as_ref(), &resource.region, &resource.account)
        });
        *score = advised.and_then(|advice| advice.spot_score.clone());
        if score.as_ref().is_some_and(SpotScore::is_low) {
            finding.confidence = Confidence {
                level: Level::Low,
                reason: "AWS gives a low spot placement score for this number of machines".into(),
            };
        }
    }
}

/// Questions about the environments with an id.
pub(crate) fn explain(facts: &Facts<'_>, profiles: &Profiles<'_>, id: &str) -> Vec<Check> {
    let Some(name) = id.strip_prefix("environment/") else {
        return Vec::new();
    };
    let mut questions = RuleTrace::from_rule(KIND);
    for (environment, known) in &environments(facts, profiles) {
        if environment.name == name {
            let mut trace = questions.new_list();
            evaluate_environment(facts, environment, known, &mut trace);
            questions.also(trace);
        }
    }
    questions.checks
}

fn environments<'a>(
    facts: &Facts<'a>,
    profiles: &'a Profiles<'a>,
) -> BTreeMap<Environment, OnDemand<'a>> {
    let environment = |instance: &Instance| match facts.controller(instance) {
        Some(Controller::BatchEnvironment(name)) if instance.market == Market::OnDemand => {
            Some(Environment {
                region: instance.region.clone(),
                name,
                account: instance.account.clone(),
            })
        }
        _ => None,
    };
    let mut environments: BTreeMap<Environment, OnDemand<'_>> = BTreeMap::new();
    let running = facts.inventory.instances.values();
    for machine in running.filter(|one| one.state == InstanceState::Running) {
        if let Some(key) = environment(machine) {
            environments.entry(key).or_default().machines.push(machine);
        }
    }
    for run in profiles.by_step.values().flat_map(|step| &step.runs) {
        let Some(key) = environment(run.instance) else {
            continue;
        };
        if let Some(known) = environments.get_mut(&key) {
            known.runs.push(run);
        }
    }
    environments
}

fn evaluate_environment(
    facts: &Facts<'_>,
    environment: &Environment,
    known: &OnDemand<'_>,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let may_be = facts.policy.placement.spot;
    let allowed = if may_be { "yes" } else { "no" };
    if !q.holds("Does the policy allow spot?", (allowed, "yes"), may_be) {
        return None;
    }
    let tasks = enough_tasks(facts, known, q)?;
    let sums = match sum_up(facts, known, tasks) {
        Ok(sums) => sums,
        Err(reason) => {
            q.holds(
                "What do its machines cost as spot instances?",
                (&reason, ""),
                None,
            );
            let name = Some(environment.name.as_str());
            let id = environment.id();
            return Some(Verdict::undetermined(KIND, &id, name, reason));
        }
    };
    let saved = UsdPerHour(sums.now.0 - sums.spot.0);
    let least = facts.policy.overprovisioned.min_saving();
    if !q.holds(
        "How much would spot instances save per month, with interruptions included?",
        (saved.a_month(), format_args!("at least {least}")),
        saved.a_month() >= least,
    ) {
        return None;
    }
    let price = Price {
        per_hour: saved,
        list: sums.list.map(|list| UsdPerHour(list.0 - sums.spot.0)),
        ..facts.price_of(known.machines.first()?)?
    };
    let cost = price.wasted_over(tasks.window);
    let found = make_finding(environment, known, tasks, &sums, cost)?;
    Some(Verdict::Waste(Box::new(found)))
}

/// The observed tasks of an environment.
#[derive(Clone, Copy)]
struct ObservedTasks {
    /// Number of tasks that ended.
    ended: u32,
    window: Window,
    longest: Duration,
}

/// The observed tasks, if they are enough for an evaluation.
fn enough_tasks(
    facts: &Facts<'_>,
    known: &OnDemand<'_>,
    q: &mut RuleTrace,
) -> Option<ObservedTasks> {
    let has_ended = |run: &&&ObservedTask<'_>| run.step.usage.end != StepEnd::Running;
    let ended = known.runs.iter().filter(has_ended).count();
    let ended = u32::try_from(ended).unwrap_or(u32::MAX);
    let least = facts.policy.sizing.confident_samples;
    let window = Window {
        from: known.runs.iter().map(|run| run.step.started_at).min()?,
        to: known.runs.iter().map(|run| run.step.observed_at).max()?,
    };
    let is_enough = q.holds(
        "How many tasks ended on its on-demand machines?",
        (ended, format_args!("at least {least}")),
        (ended >= least).then_some(true),
    ) && q.holds(
        "Over what time were these tasks observed?",
        (
            HumanDuration(window.length()),
            format_args!("at least {}", HumanDuration(LEAST_WINDOW)),
        ),
        (window.length() >= LEAST_WINDOW).then_some(true),
    );
    let longest = known.runs.iter().map(|run| run.wall()).max()?;
    is_enough.then_some(ObservedTasks {
        ended,
        window,
        longest,
    })
}

fn make_finding(
    environment: &Environment,
    known: &OnDemand<'_>,
    tasks: ObservedTasks,
    sums: &Sums,
    cost: Cost,
) -> Option<Finding> {
    let Environment {
        region,
        name,
        account,
    } = environment;
    let origins = known.runs.iter().map(|run| run.step.origin);
    Some(Finding {
        id: Finding::id_in(KIND, account.as_ref(), region, &environment.id()),
        kind: KIND,
        window: tasks.window,
        coverage: None,
        evidence: Evidence::PurchaseOption(PurchaseOption::OnDemand {
            machines: u32::try_from(known.machines.len()).unwrap_or(u32::MAX),
            now: sums.now,
            spot: sums.spot,
            runs: tasks.ended,
            longest: tasks.longest,
            interrupted: sums.interrupted?,
            interrupted_at_least: sums.is_least,
            // The score of the recommended machines is added later.
            score: None,
        }),
        confidence: match sums.is_least {
            false => Confidence {
                level: Level::Medium,
                reason: "based on observed tasks, present spot prices and interruption rates; \
                         jobs must be able to restart"
                    .into(),
            },
            true => Confidence {
                level: Level::Low,
                reason: "the highest interruption band has no upper end, so the saving may be \
                         smaller; jobs must be able to restart"
                    .into(),
            },
        },
        cost: Some(cost),
        remedy: remedy(region, name),
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            account: account.clone(),
            owner: known.machines.first()?.owner().map(str::to_owned),
            market: Some(Market::OnDemand),
            controller: Some(Controller::BatchEnvironment(name.clone())),
            origin: origins.max().unwrap_or(Origin::Measured),
            ..Resource::named(environment.id(), name, region)
        },
    })
}

/// Part of a window in which a machine existed; 0 if unknown. A machine that Batch started an hour
/// ago is no saving for a month.
fn there(machine: &Instance, window: Window) -> Share {
    let lived = machine.launched_at.map(|launched| Window {
        from: launched.max(window.from),
        to: window.to.max(launched),
    });
    let seconds = |window: Window| window.length().as_secs();
    let share = lived.and_then(|lived| Share::from_parts(seconds(lived), seconds(window)));
    share.unwrap_or(Share::NONE)
}

/// Average cost of all machines of an environment in the window.
#[derive(Default)]
struct Sums {
    now: UsdPerHour,
    spot: UsdPerHour,
    list: Option<UsdPerHour>,
    interrupted: Option<Share>,
    /// Whether the rate of a machine is only the lower end of the highest band.
    is_least: bool,
}

/// The terms of one machine on spot.
struct OnSpot {
    /// The present price.
    now: Price,
    /// The price on spot, with repeated work.
    spot: UsdPerHour,
    often: Interruptions,
    /// Whether `often` is only a lower bound.
    is_least: bool,
}

impl Sums {
    /// Adds a machine; `share` is the part of the window in which it existed, and `chance` the
    /// chance that the longest task is interrupted.
    fn add(&mut self, machine: &OnSpot, share: Share, chance: f64) {
        let part = |price: UsdPerHour| price.part(share.ppm().into(), 1_000_000);
        let price = Price {
            list: machine.now.list.map(part),
            per_hour: part(machine.now.per_hour),
            ..machine.now
        };
        let spot = part(machine.spot);
        self.is_least |= machine.is_least;
        let is_first = self.now == UsdPerHour::default();
        let list = self.list.or_else(|| is_first.then(UsdPerHour::default));
        self.list = list
            .zip(price.list)
            .map(|(sum, one)| UsdPerHour(sum.0 + one.0));
        self.now = UsdPerHour(self.now.0 + price.per_hour.0);
        self.spot = UsdPerHour(self.spot.0 + spot.0);
        let chance = Share::from_ppm((chance * 1e6) as u32);
        self.interrupted = self.interrupted.max(Some(chance));
    }
}

/// Sums up the machines of an environment. The error is the reason why a price is unknown.
fn sum_up(facts: &Facts<'_>, known: &OnDemand<'_>, tasks: ObservedTasks) -> Result<Sums, String> {
    let mut sums = Sums::default();
    for machine in &known.machines {
        let on_spot = on_spot(facts, machine, tasks.longest)?;
        let chance = on_spot.often.chance_within(hours(tasks.longest));
        sums.add(&on_spot, there(machine, tasks.window), chance);
    }
    Ok(sums)
}

/// Current and spot price of a machine, if each task takes as long as the longest. The error is the
/// reason why a price is unknown.
fn on_spot(facts: &Facts<'_>, machine: &Instance, longest: Duration) -> Result<OnSpot, String> {
    let (region, kind) = (&machine.region, &machine.instance_type);
    let markets = &facts.inventory.markets;
    if markets
        .commitments
        .iter()
        .any(|paid| paid.pays_for(region, kind))
    {
        return Err(format!(
            "a commitment covers {kind} and would still be billed"
        ));
    }
    let price = facts.price_of(machine);
    let price = price.ok_or_else(|| format!("the price of {kind} in {region} is unknown"))?;
    let terms = markets.spot.get(region).and_then(|types| types.get(kind));
    let terms = terms.ok_or_else(|| format!("the spot price of {kind} in {region} is unknown"))?;
    let least = least_interruptions(terms);
    let often = least.or_else(|| interruptions(terms));
    let often = often.ok_or_else(|| format!("the spot interruption rate of {kind} is unknown"))?;
    let again = often.hours_to_end(hours(longest)) / hours(longest).max(f64::MIN_POSITIVE);
    let ppm = (again.clamp(1.0, 1e6) * 1e6) as u64;
    Ok(OnSpot {
        now: price,
        spot: terms.per_hour.part(ppm, 1_000_000),
        often,
        is_least: least.is_some(),
    })
}

fn hours(time: Duration) -> f64 {
    time.as_secs_f64() / 3600.0
}

fn remedy(region: &Region, name: &str) -> Remedy {
    Remedy {
        action: Action::Reconfigure,
        advice: format!(
            "Create a spot compute environment with several instance types, and place it before \
             {name} in the job queue. Give the job definitions a retry strategy."
        ),
        command: Some(format!(
            "aws batch describe-compute-environments --region {region} {}",
            shell::option("--compute-environments", name)
        )),
    }
}
