//! Findings about machines that a commitment or a capacity reservation pays for, used or not. Their
//! saving is no cash until it ends, unless other machines use the commitment up.

use std::collections::BTreeSet;

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::Market;
use ebb_telemetry::money::{Usd, UsdPerHour};

use crate::facts::Facts;
use crate::step_history::demand;

/// Source: EC2 user guide, "Capacity Reservation pricing and billing".
const RESERVED: &str = "Its capacity reservation is billed, used or not. The change saves nothing \
                        before you cancel or reduce the reservation, unless other work uses it.";

/// A commitment and the list price of the machines that it can cover, without the savings of
/// earlier findings.
struct CoveredCommitment<'a> {
    paid: &'a Commitment,
    left: Usd,
}

impl CoveredCommitment<'_> {
    /// Whether other machines certainly use the commitment up without this amount.
    fn is_used_up_without(&self, taken: Usd) -> bool {
        self.left - taken >= self.paid.pays_for_at_most().0
    }
}

/// Removes the saving from findings whose machine a commitment continues to cover. The most
/// expensive finding is first and has priority; the order stays the same.
pub(crate) fn hold_back(facts: &Facts<'_>, findings: &mut [Finding]) {
    let commitments = facts.inventory.markets.commitments.iter();
    let lasts = |paid: &Commitment| paid.until.is_none_or(|until| until > facts.now);
    let mut held: Vec<CoveredCommitment<'_>> = commitments
        .zip(demand(facts))
        .filter(|(paid, _)| lasts(paid))
        .map(|(paid, demand)| CoveredCommitment {
            paid,
            left: demand.0,
        })
        .collect();
    // Two findings about one machine save its price once.
    let mut spared = BTreeSet::new();
    for finding in findings {
        if finding.resource.market == Some(Market::Reserved) && !is_about_purchasing(finding.kind) {
            tell(finding, RESERVED);
        }
        let Some(taken) = taken(facts, finding) else {
            continue;
        };
        let resource = &finding.resource;
        let Some(kind) = &resource.instance_type else {
            continue;
        };
        let those = held.iter_mut();
        let mut those: Vec<_> = those
            .filter(|held| held.paid.pays_for(&resource.region, kind))
            .collect();
        let machine = resource.node.as_ref().unwrap_or(&resource.id);
        let taken = match spared.contains(machine) {
            true => UsdPerHour::default(),
            false => taken,
        };
        let unused = those
            .iter()
            .find(|held| !held.is_used_up_without(taken.0))
            .map(|held| words(held.paid, kind.as_str()));
        match unused {
            Some(words) => tell(finding, &words),
            None => {
                for held in &mut those {
                    held.left = held.left - taken.0;
                    spared.insert(machine.clone());
                }
            }
        }
    }
}

/// List price per hour that the remedy removes from the use of a commitment while the machine runs.
/// `None` if no commitment can cover the resource.
fn taken(facts: &Facts<'_>, finding: &Finding) -> Option<UsdPerHour> {
    let cost = finding.cost.as_ref()?;
    let resource = &finding.resource;
    if is_about_purchasing(finding.kind) || resource.market != Some(Market::OnDemand) {
        return None;
    }
    let kind = resource.instance_type.as_ref()?;
    let whole = facts.catalogue.on_demand(&resource.region, kind);
    let is_whole = matches!(
        finding.kind,
        FindingKind::IdleNode | FindingKind::OffHoursNode
    );
    let part = cost.list_per_hour.unwrap_or(cost.per_hour);
    Some(whole.filter(|_| is_whole).unwrap_or(part))
}

/// Whether the rule itself compares prices with commitments.
fn is_about_purchasing(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::SpotCandidate | FindingKind::UnusedCommitment
    )
}

fn words(paid: &Commitment, kind: &str) -> String {
    let end = paid
        .until
        .map(|until| format!(" until {}", until.strftime("%Y-%m-%d")));
    let end = end.unwrap_or_default();
    format!(
        "Commitment {} is billed for {kind}{end}, used or not. The change saves nothing before \
         the commitment ends, unless other work uses it.",
        paid.id
    )
}

fn tell(finding: &mut Finding, words: &str) {
    if let Some(cost) = &mut finding.cost {
        cost.saving_a_month = Usd::ZERO;
    }
    let advice = &mut finding.remedy.advice;
    advice.push(' ');
    advice.push_str(words);
    if let Some(recommendation) = &mut finding.recommendation {
        recommendation.assumptions.push(words.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, days_ago, instance, region, volume};
    use ebb_telemetry::testing::node;
    use ebb_telemetry::units::CpuTime;

    /// `idle` idle nodes, then `busy` busy nodes at 0.192 USD an hour, and a reservation.
    fn world(idle: u8, busy: u8, micros: i64) -> World {
        let mut world = World::with((1..=idle + busy).map(instance));
        for n in 1..=idle + busy {
            world.watch(n, 0, 60, |_, h| {
                if n > idle {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
            });
        }
        world.inventory.markets.commitments.push(Commitment {
            id: "ri-1".into(),
            region: Some(region()),
            family: Some("m5".into()),
            per_hour: UsdPerHour::from_micros(micros),
            until: Some("2027-03-01T00:00:00Z".parse().expect("a time")),
            used: None,
        });
        world
    }

    #[test]
    fn a_machine_in_reserved_capacity_saves_nothing_by_itself() {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 60, |_, _| ());
        for machine in world.inventory.instances.values_mut() {
            machine.market = Market::Reserved;
        }
        let idle = world.verdict().expect("it is idle");
        let cost = idle.cost.expect("it has a price");
        assert_eq!(cost.saving_a_month, Usd::ZERO);
        assert!(cost.per_hour > UsdPerHour::default());
        assert!(idle.remedy.advice.ends_with("unless other work uses it."));
    }

    #[test]
    fn what_a_commitment_goes_on_paying_for_saves_nothing() {
        let check = |name: &str, world: World, saving: usize, held_back: usize| {
            let report = world.evaluate();
            let idle = report.findings.iter();
            let idle: Vec<_> = idle.filter(|f| f.kind == FindingKind::IdleNode).collect();
            let names_commitment =
                |f: &&&Finding| f.remedy.advice.contains("Commitment ri-1 is billed");
            let saves = |f: &&&Finding| f.saving_or_zero() > Usd::ZERO;
            let counts = (
                idle.iter().filter(saves).count(),
                idle.iter().filter(names_commitment).count(),
            );
            assert_eq!(counts, (saving, held_back), "{name}");
            let sum: Usd = report.findings.iter().map(Finding::saving_or_zero).sum();
            let totals = &report.totals;
            let total = totals.saving_a_month + totals.at_most.saving_a_month;
            assert_eq!(total, sum, "{name}");
            for finding in idle {
                let cost = finding.cost.as_ref().expect("a price is known");
                assert!(
                    cost.per_hour > UsdPerHour::default(),
                    "its hours are still paid"
                );
            }
        };
        check("all that it pays for is idle", world(1, 0, 100_000), 0, 1);
        // At a discount of 72 % it covers machines of 0.357 USD; two other machines cost more.
        check("others use it up", world(1, 2, 100_000), 1, 0);
        check("one other may not", world(1, 1, 100_000), 0, 1);
        // At 0.15 USD it covers 0.536 USD: three of four machines use it up, two do not.
        check("what several spare adds up", world(2, 2, 150_000), 1, 1);
        let mut ended = world(1, 0, 100_000);
        ended.inventory.markets.commitments[0].until = Some(days_ago(1));
        check("it has ended", ended, 1, 0);
        let mut other = world(1, 0, 100_000);
        other.inventory.markets.commitments[0].family = Some("c5".into());
        check("it is of another family", other, 1, 0);
        let mut any = world(1, 0, 100_000);
        any.inventory.markets.commitments[0].family = None;
        any.inventory.markets.commitments[0].region = None;
        check("it is of any family, anywhere", any, 0, 1);
        // The other machines use the reservation up, but not the Savings Plan.
        let mut both = world(1, 2, 100_000);
        let mut plan = both.inventory.markets.commitments[0].clone();
        (plan.id, plan.family, plan.region) = ("ri-1".to_owned(), None, None);
        plan.per_hour = UsdPerHour::from_micros(400_000);
        both.inventory.markets.commitments.push(plan);
        check("a plan pays for the rest", both, 0, 1);
        let mut spot = world(1, 0, 100_000);
        let machine = spot.inventory.instances.get_mut(&node(1));
        machine.expect("it is there").market = Market::Spot;
        check("spot is not paid by it", spot, 1, 0);
    }

    #[test]
    fn it_is_said_until_when_and_what_is_no_machine_saves_as_before() {
        let mut world = world(1, 0, 100_000);
        let alone = volume(30, "gp3", 500);
        world
            .inventory
            .storage
            .volumes
            .insert("vol-1".into(), alone);
        let report = world.evaluate();
        let of = |kind| report.findings.iter().find(|f| f.kind == kind);
        let idle = of(FindingKind::IdleNode).expect("it is idle");
        let words = "Commitment ri-1 is billed for m5.xlarge until 2027-03-01, used or not. The \
                     change saves nothing before the commitment ends, unless other work uses it.";
        assert!(
            idle.remedy.advice.ends_with(words),
            "{}",
            idle.remedy.advice
        );
        let alone = of(FindingKind::UnattachedVolume).expect("it is alone");
        assert!(alone.saving_or_zero() > Usd::ZERO);
    }
}
