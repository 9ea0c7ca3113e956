//! Code that the rules about volumes and addresses share: list prices and the form of a finding.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::storage_prices::StoragePrices;
use ebb_model::confidence::Confidence;
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::evidence::{Evidence, Unused};
use ebb_model::finding::{Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{name_of, owner_of};
use ebb_model::inventory::storage::Volume;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::labelled;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::HumanDuration;
use jiff::Timestamp;

use crate::facts::Facts;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

/// List price of a volume in a month; `None` if unknown.
pub(crate) fn a_month(facts: &Facts<'_>, volume: &Volume) -> Option<Usd> {
    let a_gib = |prices: &StoragePrices| prices.volumes.get(&volume.volume_type).copied();
    of_gib(
        facts.catalogue.storage(&volume.region, a_gib),
        volume.size_gib,
    )
}

pub(crate) fn of_gib(a_gib: Option<Usd>, size_gib: u64) -> Option<Usd> {
    let size = i64::try_from(size_gib).ok()?;
    a_gib?.micros().checked_mul(size).map(Usd::from_micros)
}

/// Cost from the list price of a month, per hour and for `window`. `as_of` is the date of the
/// price; `None` if unknown.
fn cost(a_month: Usd, window: Window, as_of: Option<Timestamp>) -> Cost {
    let per_hour = UsdPerHour(a_month).part(1, UsdPerHour::HOURS_A_MONTH);
    Cost {
        per_hour,
        basis: PriceBasis::ListPrice,
        list_per_hour: Some(per_hour),
        spent: per_hour.over(window.length()),
        saving_a_month: a_month,
        counted: None,
        price_as_of: as_of,
        list_as_of: as_of,
    }
}

/// Parts of a finding about storage.
pub(crate) struct StorageWaste<'a> {
    pub(crate) kind: FindingKind,
    pub(crate) id: &'a str,
    pub(crate) region: &'a Region,
    pub(crate) tags: &'a BTreeMap<String, String>,
    pub(crate) node: Option<String>,
    pub(crate) since: Timestamp,
    pub(crate) evidence: Unused,
    pub(crate) confidence: Confidence,
    pub(crate) saving_a_month: Option<Usd>,
    pub(crate) remedy: Remedy,
}

pub(crate) fn make_finding(facts: &Facts<'_>, it: StorageWaste<'_>) -> Verdict {
    let window = Window {
        from: it.since,
        to: facts.now,
    };
    let mut confidence = it.confidence;
    let is_old =
        it.kind != FindingKind::IdleAddress && !facts.catalogue.has_refreshed_storage(it.region);
    if it.saving_a_month.is_some() && is_old {
        let reason = confidence.reason;
        confidence.reason = format!("{reason}; the list price is approximate");
    }
    // A built-in price has no date.
    let as_of = facts.catalogue.storage_refreshed_at(it.region);
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(it.kind, it.region, it.id),
        kind: it.kind,
        resource: Resource {
            tags: BTreeMap::new(),
            id: it.id.to_owned(),
            name: name_of(it.tags).map(str::to_owned),
            region: it.region.clone(),
            account: None,
            node: it.node,
            owner: owner_of(it.tags).map(str::to_owned),
            instance_type: None,
            market: None,
            controller: None,
            origin: labelled(it.tags),
        },
        window,
        coverage: None,
        evidence: Evidence::Unused(it.evidence),
        confidence,
        cost: it.saving_a_month.map(|saving| cost(saving, window, as_of)),
        remedy: it.remedy,
        recommendation: None,
        steps: Vec::new(),
    }))
}

/// Start of the unused time, if it is at least `bound` ago.
pub(crate) fn long_since(
    facts: &Facts<'_>,
    since: Option<Timestamp>,
    bound: Duration,
    (q, question): (&mut RuleTrace, &'static str),
) -> Option<Timestamp> {
    let age = since.map(|since| facts.now.duration_since(since));
    let age = age.and_then(|age| Duration::try_from(age).ok());
    let shown = age.map_or("unknown".to_owned(), |age| HumanDuration(age).to_string());
    let at_least = format_args!("at least {}", HumanDuration(bound)).to_string();
    let is_long = q.holds(question, (shown, at_least), age.map(|age| age >= bound));
    since.filter(|_| is_long)
}

/// False if the saving is known to be too small for a finding.
pub(crate) fn is_worth_it(facts: &Facts<'_>, saving: Option<Usd>, q: &mut RuleTrace) -> bool {
    let least = facts.policy.storage.min_saving();
    let shown = saving.map_or("unknown".to_owned(), |saving| saving.to_string());
    q.holds(
        "What is the saving per month?",
        (shown, format_args!("at least {least}")),
        saving.is_none_or(|saving| saving >= least),
    )
}

/// Creation date in words.
pub(crate) fn made(at: Timestamp) -> String {
    format!("of {}", at.strftime("%Y-%m-%d"))
}

/// Size and type of a volume in words.
pub(crate) fn described(volume: &Volume) -> String {
    format!("{} GiB {}", volume.size_gib, volume.volume_type)
}
