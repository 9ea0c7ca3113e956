//! Findings that claim the cost of the same machine or volume, and this cost.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::cost::PriceBasis;
use ebb_model::finding::Finding;
use ebb_model::finding::evidence::{Evidence, UnderutilizedNode};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market};
use ebb_model::savings::{Claim, Lever, SharedCost};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::{Usd, UsdPerHour};

use crate::coverage;
use crate::facts::Facts;
use crate::rules::storage::storage_cost;
use crate::step_history::by_step::{Profiles, StepKey};

/// Claims of all findings and their cost.
#[derive(Default)]
pub(crate) struct Costs {
    /// Resources that findings claim more than once, or for more than their cost.
    pub(crate) shared: Vec<SharedCost>,
    /// Cost in a month of all running machines and all other resources of findings.
    pub(crate) a_month: Usd,
    /// The same cost for resources whose price is only an upper bound.
    pub(crate) at_most_a_month: Usd,
}

/// Cost of one resource.
struct Priced {
    per_hour: UsdPerHour,
    a_month: Usd,
    is_bound: bool,
}

/// Parts per million in the whole cost of a finding.
const WHOLE_PPM: u32 = 1_000_000;

/// Finds the claims of all findings on running machines and volumes.
pub(crate) fn costs(facts: &Facts<'_>, profiles: &Profiles<'_>, findings: &[Finding]) -> Costs {
    let priced = priced(facts);
    let environments = environments(facts, &priced);
    let mut claims: BTreeMap<String, Vec<Claim>> = BTreeMap::new();
    let (mut a_month, mut at_most_a_month) = (Usd::ZERO, Usd::ZERO);
    for one in priced.values() {
        match one.is_bound {
            true => at_most_a_month = at_most_a_month + one.a_month,
            false => a_month = a_month + one.a_month,
        }
    }
    for finding in findings {
        let Some(cost) = &finding.cost else { continue };
        let mut unclaimed = cost.saving_a_month;
        for (resource, claim) in claims_of(facts, profiles, finding, &environments) {
            if !priced.contains_key(&resource) {
                continue;
            }
            unclaimed = unclaimed - claim.part_of(cost.saving_a_month);
            claims.entry(resource).or_default().push(claim);
        }
        // A claim that covers no running machine is a cost of its own.
        match cost.basis.is_bound() {
            true => at_most_a_month = at_most_a_month + unclaimed,
            false => a_month = a_month + unclaimed,
        }
    }
    let by_id: BTreeMap<&str, &Finding> = findings.iter().map(|f| (f.id.as_str(), f)).collect();
    let is_shared = |priced: &Priced, claims: &[Claim]| {
        let saving = |claim: &Claim| {
            let cost = by_id
                .get(claim.finding.as_str())
                .and_then(|f| f.cost.as_ref());
            cost.map_or(Usd::ZERO, |cost| claim.part_of(cost.saving_a_month))
        };
        claims.len() > 1 || claims.iter().any(|claim| saving(claim) > priced.a_month)
    };
    let shared = claims.into_iter().filter_map(|(resource, claims)| {
        let priced = priced.get(&resource)?;
        is_shared(priced, &claims).then_some(SharedCost {
            per_hour: priced.per_hour,
            a_month: priced.a_month,
            claims,
        })
    });
    Costs {
        shared: shared.collect(),
        a_month,
        at_most_a_month,
    }
}

/// Cost of running machines and of volumes.
fn priced(facts: &Facts<'_>) -> BTreeMap<String, Priced> {
    let closed = closed_days(facts);
    let running = facts.inventory.instances.values();
    let running = running.filter(|one| one.state == InstanceState::Running);
    let machines = running.filter_map(|machine| {
        let price = facts.price_of(machine)?;
        let billed = billed_a_month(facts, machine, &closed);
        let billed = billed.filter(|_| price.basis == PriceBasis::Bill);
        let whole = price.per_hour.a_month();
        // A difference from rounding does not justify less than the hourly price.
        let is_less = |billed: &Usd| billed.part(100, 99) < whole;
        Some((
            machine.id.to_string(),
            Priced {
                per_hour: price.per_hour,
                a_month: billed.filter(is_less).unwrap_or(whole),
                is_bound: price.basis.is_bound(),
            },
        ))
    });
    let volumes = facts
        .inventory
        .storage
        .volumes
        .values()
        .filter_map(|volume| {
            let a_month = storage_cost::a_month(facts, volume)?;
            let per_hour = UsdPerHour(a_month).part(1, UsdPerHour::HOURS_A_MONTH);
            Some((
                volume.id.clone(),
                Priced {
                    per_hour,
                    a_month,
                    is_bound: false,
                },
            ))
        });
    machines.chain(volumes).collect()
}

/// Complete days with a bill for any machine.
fn closed_days<'a>(facts: &Facts<'a>) -> BTreeSet<&'a str> {
    // AWS completes a day of the bill about one day after its end.
    const DAY: Duration = Duration::from_secs(86_400);
    let is_closed = |day: &&str| {
        let end = coverage::of_day(day).and_then(|day| day.to.checked_add(DAY).ok());
        end.is_some_and(|closed| closed <= facts.now)
    };
    let days = facts.bill.values().flat_map(|cost| cost.by_day.keys());
    days.map(String::as_str).filter(is_closed).collect()
}

/// Billed cost of a machine in a month, including the hours in which it was stopped. `None` if its
/// bill covers less than a week.
fn billed_a_month(facts: &Facts<'_>, machine: &Instance, closed: &BTreeSet<&str>) -> Option<Usd> {
    const WEEK: usize = 7;
    let by_day = &facts.bill.get(&machine.id)?.by_day;
    let first = by_day.keys().next()?.as_str();
    // The first day may contain only a few hours.
    let days: Vec<&str> = closed.iter().copied().filter(|day| *day > first).collect();
    let cost = |day: &&str| by_day.get(*day).copied().unwrap_or_default();
    let sum: Usd = days.iter().map(cost).sum();
    let hours = u128::try_from(days.len()).ok()? * 24;
    (days.len() >= WEEK).then(|| sum.part(UsdPerHour::HOURS_A_MONTH.into(), hours))
}

/// On-demand machines of Batch environments, each with its price.
type Environments = BTreeMap<String, Vec<(String, UsdPerHour)>>;

fn environments(facts: &Facts<'_>, priced: &BTreeMap<String, Priced>) -> Environments {
    let mut environments = Environments::new();
    let machines = facts.inventory.instances.values();
    for machine in machines.filter(|machine| machine.market == Market::OnDemand) {
        let Some(Controller::BatchEnvironment(name)) = facts.controller(machine) else {
            continue;
        };
        let Some(priced) = priced.get(machine.id.as_str()) else {
            continue;
        };
        let key = environment_key(machine.region.as_str(), &name, machine.account.as_ref());
        let machines = environments.entry(key).or_default();
        machines.push((machine.id.to_string(), priced.per_hour));
    }
    environments
}

fn environment_key(region: &str, name: &str, account: Option<&impl ToString>) -> String {
    let account = account.map(ToString::to_string);
    format!("{}/{region}/{name}", account.unwrap_or_default())
}

/// Claims of a finding, by the id of the resource.
fn claims_of(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    finding: &Finding,
    environments: &Environments,
) -> Vec<(String, Claim)> {
    let resource = &finding.resource;
    let claim = |lever, part_ppm| Claim {
        finding: finding.id.clone(),
        lever,
        part_ppm,
    };
    let whole = |id: &str, lever| vec![(id.to_owned(), claim(lever, WHOLE_PPM))];
    match finding.kind {
        FindingKind::SpotCandidate => {
            let name = resource.name.as_deref().unwrap_or_default();
            let account = resource.account.as_ref();
            let key = environment_key(resource.region.as_str(), name, account);
            let machines = environments.get(&key).map_or(&[][..], Vec::as_slice);
            let prices = machines
                .iter()
                .map(|(id, price)| (id.clone(), price.0.micros()));
            let parts = parts(prices.collect());
            let parts = parts.into_iter();
            parts
                .map(|(id, ppm)| (id, claim(Lever::Purchase, ppm)))
                .collect()
        }
        FindingKind::OverprovisionedStep => {
            let parts = parts(time_by_node(profiles, finding)).into_iter();
            parts
                .map(|(id, ppm)| (id, claim(Lever::Use, ppm)))
                .collect()
        }
        FindingKind::UnusedCommitment => Vec::new(),
        FindingKind::OldVolumeType => whole(&resource.id, Lever::Type),
        FindingKind::UnattachedVolume | FindingKind::StoppedMachinesVolume => {
            whole(&resource.id, Lever::Time)
        }
        kind if is_machine(facts, &resource.id) => whole(&resource.id, lever(kind, finding)),
        _ => match &resource.node {
            Some(node) => whole(node, Lever::Use),
            None => Vec::new(),
        },
    }
}

fn is_machine(facts: &Facts<'_>, id: &str) -> bool {
    let id = NodeId::new(id).ok();
    id.is_some_and(|id| facts.inventory.instances.contains_key(&id))
}

/// How a finding about a whole machine lowers the cost of this machine.
fn lever(kind: FindingKind, finding: &Finding) -> Lever {
    let by_cores = matches!(
        finding.evidence,
        Evidence::UnderutilizedNode(UnderutilizedNode {
            p95_cpu: Some(_),
            ..
        })
    );
    match kind {
        FindingKind::IdleNode | FindingKind::StuckBatchJob | FindingKind::OffHoursNode => {
            Lever::Time
        }
        FindingKind::UnderutilizedNode if !by_cores => Lever::Time,
        _ => Lever::Type,
    }
}

/// Total time of the tasks of a step on each node in milliseconds, terminated nodes included.
fn time_by_node(profiles: &Profiles<'_>, finding: &Finding) -> Vec<(String, i64)> {
    let resource = &finding.resource;
    let key = StepKey {
        region: resource.region.clone(),
        name: resource.id.clone(),
        account: resource.account.clone(),
    };
    let runs = profiles
        .by_step
        .get(&key)
        .map_or(&[][..], |step| &step.runs);
    let mut by_node: BTreeMap<&str, i64> = BTreeMap::new();
    for run in runs {
        let millis = i64::try_from(run.wall().as_millis()).unwrap_or(i64::MAX);
        let time = by_node.entry(run.step.node.as_str()).or_default();
        *time = time.saturating_add(millis);
    }
    let by_node = by_node.into_iter();
    by_node
        .map(|(node, time)| (node.to_owned(), time))
        .collect()
}

/// Weights as parts of their sum in parts per million, rounded down.
fn parts(weights: Vec<(String, i64)>) -> Vec<(String, u32)> {
    let sum: i128 = weights.iter().map(|(_, weight)| i128::from(*weight)).sum();
    if sum <= 0 {
        return Vec::new();
    }
    let part = |weight: i64| {
        let ppm = i128::from(weight) * i128::from(WHOLE_PPM) / sum;
        u32::try_from(ppm).unwrap_or(0)
    };
    let weights = weights.into_iter();
    weights.map(|(id, weight)| (id, part(weight))).collect()
}
