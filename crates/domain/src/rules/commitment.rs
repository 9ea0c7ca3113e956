//! Commitment unused: more is paid for a family than its machines would cost on demand.

use std::time::Duration;

use super::{Check, Questions, Verdict};
use crate::finding::{
    Action, Bought, Confidence, Cost, Evidence, Finding, FindingKind, Level, PriceBasis, Remedy,
    Resource, Window,
};
use crate::fleet::{Commitment, Instance, InstanceState, Market};
use crate::heartbeat::Origin;
use crate::identity::Region;
use crate::judge::Facts;
use crate::units::{Usd, UsdPerHour};

const KIND: FindingKind = FindingKind::UnusedCommitment;

/// What was stopped later than this may be back in the morning.
const A_DAY: Duration = Duration::from_secs(24 * 3600);

/// Judges every commitment.
pub fn judge(facts: &Facts<'_>) -> Vec<Verdict> {
    let commitments = facts.inventory.markets.commitments.iter();
    commitments
        .filter_map(|paid| judge_one(facts, paid, &mut Questions::unwritten(KIND)))
        .collect()
}

/// The questions about one commitment.
pub(crate) fn explain(facts: &Facts<'_>, paid: &Commitment) -> Vec<Check> {
    Questions::written(KIND, |q| judge_one(facts, paid, q))
}

fn judge_one(facts: &Facts<'_>, paid: &Commitment, q: &mut Questions) -> Option<Verdict> {
    let until = paid
        .until
        .map(|until| until.strftime("%Y-%m-%d").to_string());
    if !q.holds(
        "until when does it last?",
        (until.as_deref().unwrap_or("not told"), "beyond now"),
        paid.until.is_none_or(|until| until > facts.now),
    ) {
        return None;
    }
    let used = used(facts, paid);
    let unused = used.map(|used| UsdPerHour(paid.per_hour.0 - used).a_month());
    let least = facts.policy.overprovisioned.min_saving();
    let shown = unused.map_or("not known".to_owned(), |unused| unused.to_string());
    let is_unused = q.holds(
        "what is paid a month beyond what its machines would cost on demand?",
        (shown, format_args!("at least {least}")),
        unused.map(|unused| unused >= least),
    );
    let undetermined = |reason: &str| Some(Verdict::undetermined(KIND, &paid.id, None, reason));
    let Some(used) = used else {
        return undetermined("what one of its machines costs on demand is not known");
    };
    if !is_unused {
        return None;
    }
    let (Some(region), Some(family)) = (&paid.region, &paid.family) else {
        let why = "it may pay for Fargate and Lambda too, which are not listed";
        q.holds("is all listed that it may pay for?", (why, ""), None);
        return undetermined(why);
    };
    let mut unread = facts.inventory.gaps.iter();
    let all_read = !unread.any(|gap| gap.scope.starts_with(region.as_str()));
    if !q.holds(
        "could all of its region be read?",
        (if all_read { "yes" } else { "no" }, "yes"),
        all_read.then_some(true),
    ) {
        return undetermined("not all of its region could be read");
    }
    let unused = UsdPerHour(paid.per_hour.0 - used);
    Some(found(
        facts,
        paid,
        (region, family),
        (unused, UsdPerHour(used)),
    ))
}

/// What an hour of its machines lists at; `None` where one has no known price.
fn used(facts: &Facts<'_>, paid: &Commitment) -> Option<Usd> {
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

/// True for what draws on a commitment, or did a day ago.
fn runs(facts: &Facts<'_>, machine: &Instance) -> bool {
    let stopped = facts.inventory.storage.stopped_since.get(&machine.id);
    let ago = stopped.map(|since| facts.now.duration_since(*since));
    let lately = ago
        .and_then(|ago| Duration::try_from(ago).ok())
        .is_some_and(|ago| ago < A_DAY);
    machine.market != Market::Spot && (machine.state == InstanceState::Running || lately)
}

fn found(
    facts: &Facts<'_>,
    paid: &Commitment,
    (region, family): (&Region, &str),
    (unused, used): (UsdPerHour, UsdPerHour),
) -> Verdict {
    // What is there is seen at each sweep, and not what was there before.
    let window = Window {
        from: facts.now,
        to: facts.now,
    };
    let end = paid
        .until
        .map(|until| format!(" on {}", until.strftime("%Y-%m-%d")));
    let advice = format!(
        "Move work onto {family} in {region}, sell what is left of a standard reservation, or let \
         it end{}.",
        end.unwrap_or_default()
    );
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(KIND, region, &paid.id),
        kind: KIND,
        window,
        coverage: None,
        evidence: Evidence::Bought(Bought::Unused {
            paid: paid.per_hour,
            used,
        }),
        confidence: Confidence {
            level: Level::Low,
            reason: "by the machines that run now or were stopped within a day; those that ended \
                     are not listed"
                .into(),
        },
        cost: Some(Cost {
            per_hour: unused,
            basis: PriceBasis::Bill,
            list_per_hour: None,
            spent: unused.over(window.length()),
            saving_a_month: unused.a_month(),
        }),
        remedy: Remedy {
            action: Action::Reconfigure,
            advice,
            command: Some(
                "https://console.aws.amazon.com/costmanagement/home#/ri/utilization".to_owned(),
            ),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            id: paid.id.clone(),
            name: None,
            region: region.clone(),
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
    use crate::rules::testing::{World, instance, region};
    use crate::state::testing::{at, node};

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
                };
                change(&mut world, &mut paid);
                world.inventory.markets.commitments.push(paid);
                let report = world.judge();
                let found = report.findings.iter().find(|f| f.kind == KIND);
                let why = report.not_judged.iter().find(|n| n.resource == "ri-1");
                let said = found.map(|f| f.cost.as_ref().expect("a cost").per_hour.0.micros());
                let said = said.ok_or(why.map_or("well", |why| why.reason.as_str()));
                assert_eq!(said, expect, "{name}");
            };
        fn stopped(w: &mut World, hours: u64) {
            let machine = w.inventory.instances.get_mut(&node(1));
            machine.expect("it is there").state = InstanceState::Stopped;
            let since = at(10 * 86_400 - hours * 3600);
            w.inventory.storage.stopped_since.insert(node(1), since);
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
        let all = "it may pay for Fargate and Lambda too, which are not listed";
        check("any family", |_, c| c.family = None, Err(all));
    }
}
