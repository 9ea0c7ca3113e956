//! Unused commitment: the bill shows unused hours of a Savings Plan, or the commitment costs more
//! than its machines at the on-demand price.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::purchasing::PurchaseOption;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::commitments::{Commitment, CommitmentUse};
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::UnusedCommitment;

/// A machine that stopped less than a day ago may start again in the morning.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Evaluates every commitment.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let commitments = facts.inventory.markets.commitments.iter();
    commitments
        .filter_map(|paid| evaluate_commitment(facts, paid, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Questions about one commitment.
pub(crate) fn explain(facts: &Facts<'_>, paid: &Commitment) -> Vec<Check> {
    RuleTrace::written(KIND, |q| evaluate_commitment(facts, paid, q))
}

fn evaluate_commitment(facts: &Facts<'_>, paid: &Commitment, q: &mut RuleTrace) -> Option<Verdict> {
    let until = paid
        .until
        .map(|until| until.strftime("%Y-%m-%d").to_string());
    if !q.holds(
        "When does the commitment end?",
        (until.as_deref().unwrap_or("unknown"), "in the future"),
        paid.until.is_none_or(|until| until > facts.now),
    ) {
        return None;
    }
    match &paid.used {
        Some(usage) => by_bill(facts, paid, usage, q),
        None => by_machines(facts, paid, q),
    }
}

/// The bill contains everything that a Savings Plan covers, including Fargate and Lambda.
fn by_bill(
    facts: &Facts<'_>,
    paid: &Commitment,
    usage: &CommitmentUse,
    q: &mut RuleTrace,
) -> Option<Verdict> {
    let unused = UsdPerHour(paid.per_hour.0 - usage.per_hour.0);
    let least = facts.policy.overprovisioned.min_saving();
    if !q.holds(
        "How much of it is unused per month, according to the bill?",
        (unused.a_month(), format_args!("at least {least}")),
        unused.a_month() >= least,
    ) {
        return None;
    }
    let window = Window {
        from: usage.from,
        to: usage.to,
    };
    let waste = Unused {
        per_hour: unused,
        window,
        evidence: PurchaseOption::UnusedPlan {
            committed: paid.per_hour,
            used: usage.per_hour,
        },
        confidence: Confidence {
            level: Level::High,
            reason: format!(
                "Cost Explorer reports the usage over {}",
                HumanDuration(window.length())
            ),
        },
        advice: format!(
            "Move more work to machines that this Savings Plan covers. It cannot be sold or \
             cancelled, so commit to less when it ends{}.",
            ends(paid)
        ),
        console: "savings-plans/utilization",
    };
    Some(make_finding(paid, waste))
}

fn by_machines(facts: &Facts<'_>, paid: &Commitment, q: &mut RuleTrace) -> Option<Verdict> {
    let used = used(facts, paid);
    let unused = used.map(|used| UsdPerHour(paid.per_hour.0 - used).a_month());
    let least = facts.policy.overprovisioned.min_saving();
    let shown = unused.map_or("unknown".to_owned(), |unused| unused.to_string());
    let is_unused = q.holds(
        "How much more per month does it cost than its machines on demand?",
        (shown, format_args!("at least {least}")),
        unused.map(|unused| unused >= least),
    );
    let undetermined = |reason: &str| Some(Verdict::undetermined(KIND, &paid.id, None, reason));
    let Some(used) = used else {
        return undetermined("the on-demand price of one of its machines is unknown");
    };
    if !is_unused {
        return None;
    }
    let (Some(region), Some(family)) = (&paid.region, &paid.family) else {
        let why = "the commitment may also cover Fargate and Lambda usage, which is not in the \
                   inventory";
        q.holds(
            "Does the inventory contain everything that it may cover?",
            (why, ""),
            None,
        );
        return undetermined(why);
    };
    let mut unread = facts.inventory.gaps.iter();
    // Machines of any account may use the commitment up.
    let all_read = !unread.any(|gap| gap.may_hide_from(None, region.as_str(), &MACHINES));
    if !q.holds(
        "Could all resources of its region be read?",
        (if all_read { "yes" } else { "no" }, "yes"),
        all_read.then_some(true),
    ) {
        return undetermined("not all resources of its region could be read");
    }
    let used = UsdPerHour(used);
    let waste = Unused {
        per_hour: UsdPerHour(paid.per_hour.0 - used.0),
        // Each sweep observes only the current machines, so the window has no length.
        window: Window {
            from: facts.now,
            to: facts.now,
        },
        evidence: PurchaseOption::Unused {
            paid: paid.per_hour,
            used,
        },
        confidence: Confidence {
            level: Level::Low,
            reason: "based on machines that run now or were stopped within a day; terminated \
                     machines are not included"
                .into(),
        },
        advice: format!(
            "Move work to {family} in {region}, sell the rest of a standard Reserved Instance, or \
             let the commitment end{}.",
            ends(paid)
        ),
        console: "ri/utilization",
    };
    Some(make_finding(paid, waste))
}

/// The call that lists machines.
const MACHINES: [&str; 1] = ["ec2:DescribeInstances"];

fn ends(paid: &Commitment) -> String {
    let until = paid.until.map(|until| until.strftime("%Y-%m-%d"));
    until
        .map(|until| format!(" on {until}"))
        .unwrap_or_default()
}

/// Hourly list price of the machines that it covers, less the part that other reservations of the
/// same machines take. A reservation takes at least its own price, because it costs less than the
/// list price. `None` if one machine has no known price.
fn used(facts: &Facts<'_>, paid: &Commitment) -> Option<Usd> {
    let list = list_price_of_covered(facts, paid)?;
    let pays_for_same = |other: &&Commitment| {
        let is_earlier = other.id < paid.id && other.used.is_none();
        let lasts = other.until.is_none_or(|until| until > facts.now);
        is_earlier && lasts && (&other.region, &other.family) == (&paid.region, &paid.family)
    };
    let all = facts.inventory.markets.commitments.iter();
    let others = all
        .filter(pays_for_same)
        .fold(Usd::ZERO, |sum, other| sum + other.per_hour.0);
    Some(std::cmp::max(list - others, Usd::ZERO))
}

fn list_price_of_covered(facts: &Facts<'_>, paid: &Commitment) -> Option<Usd> {
    let mut used = Usd::ZERO;
    let machines = facts.inventory.instances.values();
    for machine in machines.filter(|machine| runs(facts, machine)) {
        if paid.pays_for(&machine.region, &machine.instance_type) {
            let list = facts
                .catalogue
                .on_demand(&machine.region, &machine.instance_type);
            used = used + list?.0;
        }
    }
    Some(used)
}

/// Whether a machine uses a commitment, or did less than a day ago.
fn runs(facts: &Facts<'_>, machine: &Instance) -> bool {
    let stopped = machine.stopped_since();
    let ago = stopped.map(|since| facts.now.duration_since(since));
    let lately = ago
        .and_then(|ago| Duration::try_from(ago).ok())
        .is_some_and(|ago| ago < A_DAY);
    machine.market != Market::Spot && (machine.state == InstanceState::Running || lately)
}

/// Unused part of a commitment, with its evidence.
struct Unused {
    per_hour: UsdPerHour,
    window: Window,
    evidence: PurchaseOption,
    confidence: Confidence,
    advice: String,
    /// Page of the console that shows the commitment.
    console: &'static str,
}

fn make_finding(paid: &Commitment, unused: Unused) -> Verdict {
    // A commitment for all regions is reported in the region of the bill.
    let region = paid.region.clone().unwrap_or_else(Region::global);
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, &region, &paid.id),
        kind: KIND,
        window: unused.window,
        coverage: None,
        evidence: Evidence::PurchaseOption(unused.evidence),
        confidence: unused.confidence,
        cost: Some(Cost {
            per_hour: unused.per_hour,
            basis: PriceBasis::Bill,
            list_per_hour: None,
            spent: unused.per_hour.over(unused.window.length()),
            saving_a_month: unused.per_hour.a_month(),
            counted: None,
            price_as_of: None,
            list_as_of: None,
        }),
        remedy: Remedy {
            action: Action::Reconfigure,
            advice: unused.advice,
            command: Some(format!(
                "https://console.aws.amazon.com/costmanagement/home#/{}",
                unused.console
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            tags: Default::default(),
            id: paid.id.clone(),
            name: None,
            region,
            account: None,
            node: None,
            owner: None,
            instance_type: None,
            market: Some(Market::Reserved),
            controller: None,
            origin: Origin::Measured,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance, region};
    use ebb_telemetry::testing::{at, node};

    #[test]
    fn a_commitment_is_unused_when_its_machines_would_cost_less_on_demand() {
        let check =
            |name: &str, change: fn(&mut World, &mut Commitment), expect: Result<i64, &str>| {
                let mut world = World::with([instance(1)]);
                world.now = at(10 * 86_400);
                let mut paid = Commitment {
                    id: "ri-1".into(),
                    region: Some(region()),
                    family: Some("m5".into()),
                    per_hour: UsdPerHour::from_micros(500_000),
                    until: None,
                    used: None,
                };
                change(&mut world, &mut paid);
                world.inventory.markets.commitments.push(paid);
                let report = world.evaluate();
                let found = report.findings.iter().find(|f| f.kind == KIND);
                let why = report.not_evaluated.iter().find(|n| n.resource == "ri-1");
                let outcome = found.map(|f| f.cost.as_ref().expect("a cost").per_hour.0.micros());
                let outcome = outcome.ok_or(why.map_or("well", |why| why.reason.as_str()));
                assert_eq!(outcome, expect, "{name}");
            };
        fn stopped(w: &mut World, hours: u64) {
            let machine = w.inventory.instances.get_mut(&node(1));
            let machine = machine.expect("it is there");
            machine.state = InstanceState::Stopped;
            machine.state_since = Some(at(10 * 86_400 - hours * 3600));
        }
        // The machine is an m5.xlarge at 0.192 USD.
        check("more than one", |_, _| {}, Ok(308_000));
        check(
            "as much",
            |_, c| c.per_hour = UsdPerHour::from_micros(192_000),
            Err("well"),
        );
        check("ended", |_, c| c.until = Some(at(1)), Err("well"));
        check(
            "another family",
            |_, c| c.family = Some("c5".into()),
            Ok(500_000),
        );
        let night = |w: &mut World, _: &mut Commitment| stopped(w, 12);
        check("stopped for the night", night, Ok(308_000));
        let long = |w: &mut World, _: &mut Commitment| stopped(w, 48);
        check("stopped for long", long, Ok(500_000));
        let all = "the commitment may also cover Fargate and Lambda usage, which is not in the \
                   inventory";
        check("any family", |_, c| c.family = None, Err(all));
    }

    #[test]
    fn a_plan_is_unused_as_far_as_the_bill_says() {
        let check = |used: i64, expect: Option<&str>| {
            let mut world = World::with([instance(1)]);
            world.now = at(10 * 86_400);
            world.inventory.markets.commitments.push(Commitment {
                id: "plan-1".into(),
                region: None,
                family: None,
                per_hour: UsdPerHour::from_micros(500_000),
                until: Some(at(100 * 86_400)),
                used: Some(CommitmentUse {
                    per_hour: UsdPerHour::from_micros(used),
                    from: at(3 * 86_400),
                    to: at(10 * 86_400),
                }),
            });
            let report = world.evaluate();
            let found = report.findings.iter().find(|f| f.kind == KIND);
            let outcome = found.map(|f| {
                let cost = f.cost.as_ref().expect("a cost");
                format!(
                    "{}; {} in {}; {}",
                    f.evidence, cost.spent, f.resource.region, f.confidence.level
                )
            });
            assert_eq!(outcome.as_deref(), expect, "{used}");
            assert!(report.not_evaluated.iter().all(|n| n.resource != "plan-1"));
        };
        let text =
            "the commitment is $0.5000/h, but only $0.2000/h of it is used; $50.40 in global; high";
        check(200_000, Some(text));
        check(499_500, None);
        check(500_000, None);
    }
}
