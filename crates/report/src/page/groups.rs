//! Findings by owner and price basis, and resources that were not evaluated by reason.

use std::collections::BTreeMap;

use ebb_model::cost::PriceBasis;
use ebb_model::finding::Finding;
use ebb_model::report::{NotEvaluated, Report};
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use jiff::Timestamp;
use serde::Serialize;

use crate::page::card::thousandths;
use crate::page::money::{age, bounded, sum};
use crate::page::wording::LINE_CHARS;

/// Number of owners with a name; the others are summed up.
const OWNERS: usize = 8;

/// Maximum length of a name in a list, in characters.
const NAME_CHARS: usize = 80;

/// Limit on groups. Reasons may contain numbers, and then each reason is a group.
const GROUPS: usize = 60;

/// Number of named resources in a group; the others are counted.
const NAMED: usize = 12;

/// Saving of the findings of one owner.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// Name of the owner.
    pub owner: String,
    /// Number of findings.
    pub findings: String,
    /// Saving in a month.
    pub saving: String,
    /// Share of the greatest saving in thousandths.
    pub bar: i64,
}

/// Resources that were not evaluated for one reason.
#[derive(Debug, Serialize)]
pub struct Group {
    /// Reason.
    pub reason: String,
    /// Rule.
    pub rule: String,
    /// Number of resources.
    pub count: usize,
    /// Names of some of the resources.
    pub named: Vec<String>,
    /// Number of further resources; `None` if all are named.
    pub more: Option<usize>,
}

/// Totals for the findings of one owner.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    findings: usize,
    /// Number of findings with a price.
    priced: usize,
    /// Number of findings of kinds that have a saving.
    waste: usize,
    known: Usd,
    at_most: Usd,
}

impl Sum {
    fn add(&mut self, finding: &Finding) {
        self.findings += 1;
        self.waste += usize::from(finding.kind.is_waste());
        let Some(cost) = &finding.cost else { return };
        self.priced += 1;
        let saving = cost.in_totals().saving_a_month;
        match cost.basis.is_bound() {
            true => self.at_most = self.at_most + saving,
            false => self.known = self.known + saving,
        }
    }

    fn join(self, other: &Self) -> Self {
        Self {
            findings: self.findings + other.findings,
            priced: self.priced + other.priced,
            waste: self.waste + other.waste,
            known: self.known + other.known,
            at_most: self.at_most + other.at_most,
        }
    }

    /// `None` without a price.
    fn saving(&self) -> Option<Usd> {
        (self.priced > 0).then(|| self.known + self.at_most)
    }
}

/// Saving by owner; the amounts add up to the total.
pub fn owners(findings: &[Finding]) -> Vec<Bar> {
    let mut by_owner: BTreeMap<Option<&str>, Sum> = BTreeMap::new();
    for finding in findings {
        let owner = finding.resource.owner.as_deref();
        by_owner.entry(owner).or_default().add(finding);
    }
    let mut sums: Vec<(String, Sum)> = by_owner
        .into_iter()
        .map(|(owner, sum)| (owner.map_or("no owner".to_owned(), short), sum))
        .collect();
    sums.sort_by(|a, b| (b.1.saving(), &a.0).cmp(&(a.1.saving(), &b.0)));
    if sums.len() > OWNERS {
        let rest = sums.split_off(OWNERS - 1);
        let sum = rest
            .iter()
            .fold(Sum::default(), |all, (_, sum)| all.join(sum));
        sums.push((counted(rest.len(), "other", "others"), sum));
    }
    let greatest = sums.iter().filter_map(|(_, sum)| sum.saving()).max();
    sums.into_iter()
        .map(|(owner, one)| Bar {
            owner,
            findings: counted(one.findings, "finding", "findings"),
            saving: match (one.priced, one.waste) {
                (0, 0) => "no saving estimated".to_owned(),
                (0, _) => "price not known".to_owned(),
                _ => sum(one.known, one.at_most),
            },
            bar: thousandths(
                one.saving().unwrap_or_default(),
                greatest.unwrap_or_default(),
            ),
        })
        .collect()
}

/// Sources and dates of the prices, each with its saving and number of findings; `None` without
/// findings. The amounts add up to the total.
pub fn basis(report: &Report) -> Option<String> {
    let mut sums: BTreeMap<PriceBasis, (usize, Usd, Option<Timestamp>)> = BTreeMap::new();
    let costs = report.findings.iter().filter_map(|f| f.cost.as_ref());
    for cost in costs {
        let first = (0, Usd::ZERO, cost.price_as_of);
        let (findings, saving, oldest) = sums.entry(cost.basis).or_insert(first);
        *findings += 1;
        *saving = *saving + cost.in_totals().saving_a_month;
        // A price without a date counts as the oldest.
        *oldest = (*oldest).min(cost.price_as_of);
    }
    let parts: Vec<_> = sums
        .iter()
        .map(|(basis, (n, saving, oldest))| {
            let findings = counted(*n, "finding", "findings");
            let saving = bounded(*saving, basis.is_bound());
            let age = match basis.is_of_the_list() {
                true => format!(" {}", age(*oldest, report.at)),
                false => String::new(),
            };
            format!("{basis}{age} for {saving} in {findings}")
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

pub fn not_evaluated(not_evaluated: &[NotEvaluated]) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, &str), Vec<&NotEvaluated>> = BTreeMap::new();
    for one in not_evaluated {
        groups
            .entry((&one.rule, &one.reason))
            .or_default()
            .push(one);
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|((rule, reason), of_it)| Group {
            reason: one_line(&clip(reason, LINE_CHARS)),
            rule: one_line(rule),
            count: of_it.len(),
            named: of_it.iter().take(NAMED).map(|one| named(one)).collect(),
            more: of_it.len().checked_sub(NAMED).filter(|more| *more > 0),
        })
        .collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    if groups.len() > GROUPS {
        let rest = groups.split_off(GROUPS - 1);
        groups.push(Group {
            reason: counted(rest.len(), "other reason", "other reasons"),
            rule: "several rules".to_owned(),
            count: rest.iter().map(|group| group.count).sum(),
            named: Vec::new(),
            more: None,
        });
    }
    groups
}

fn named(one: &NotEvaluated) -> String {
    let name = one.name.as_ref().unwrap_or(&one.resource);
    short(name)
}

fn short(name: &str) -> String {
    one_line(&clip(name, NAME_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn an_owner_without_a_known_price_has_no_sum() {
        let mut findings = testing::small().findings;
        for finding in &mut findings {
            let owner = finding.cost.as_ref().map_or("dana", |_| "ana");
            finding.resource.owner = Some(owner.to_owned());
        }
        let bars = owners(&findings);
        let check = |n: usize, owner: &str, saving: &str, findings: &str| {
            let bar: &Bar = &bars[n];
            let texts = (&*bar.owner, &*bar.saving, &*bar.findings);
            assert_eq!(texts, (owner, saving, findings));
        };
        check(0, "ana", "$884.76 and at most $280.32 more", "2 findings");
        check(1, "dana", "price not known", "1 finding");
    }

    #[test]
    fn many_owners_are_summed_up() {
        let bars = owners(&testing::many(40).findings);
        assert_eq!(bars.len(), OWNERS);
        let last = bars.last().expect("some");
        assert_eq!(
            (&*last.owner, &*last.findings),
            ("33 others", "33 findings")
        );
    }
}
