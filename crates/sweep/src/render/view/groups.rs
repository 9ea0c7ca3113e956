//! Findings by owner and price basis, and what was not judged by reason.

use std::collections::BTreeMap;

use ebb_domain::finding::{Finding, PriceBasis};
use ebb_domain::report::NotJudged;
use ebb_domain::units::Usd;
use serde::Serialize;

use super::LINE_CHARS;
use super::card::thousandths;
use crate::render::text::{clip, counted, one_line};

/// Owners shown by name; the rest are summed up.
const OWNERS: usize = 8;

/// The longest name in a list.
const NAME_CHARS: usize = 80;

/// Groups told; reasons may hold numbers, and then each is its own.
const GROUPS: usize = 60;

/// Resources named in a group; the rest are counted.
const NAMED: usize = 12;

/// What one owner's findings would save.
#[derive(Debug, Serialize)]
pub(in crate::render) struct Bar {
    /// Whose.
    pub(in crate::render) owner: String,
    /// How many.
    pub(in crate::render) findings: String,
    /// Saving a month.
    pub(in crate::render) saving: String,
    /// Its share of the greatest, in thousandths.
    pub(in crate::render) bar: i64,
}

/// Resources that were not judged for one reason.
#[derive(Debug, Serialize)]
pub(in crate::render) struct Group {
    /// Why.
    pub(in crate::render) reason: String,
    /// The rule.
    pub(in crate::render) rule: String,
    /// How many.
    pub(in crate::render) count: usize,
    /// Some of them.
    pub(in crate::render) named: Vec<String>,
    /// How many more there are.
    pub(in crate::render) more: Option<usize>,
}

/// Findings of one owner: how many, and their saving where a price is known.
type Sum = (usize, Option<Usd>);

fn add((n, saving): Sum, (more, other): Sum) -> Sum {
    let both = [saving, other].into_iter().flatten();
    (n + more, both.reduce(|a, b| a + b))
}

pub(super) fn owners(findings: &[Finding]) -> Vec<Bar> {
    let mut by_owner: BTreeMap<Option<&str>, Sum> = BTreeMap::new();
    for finding in findings {
        let saving = finding.cost.as_ref().map(|cost| cost.saving_a_month);
        let sum = by_owner
            .entry(finding.resource.owner.as_deref())
            .or_default();
        *sum = add(*sum, (1, saving));
    }
    let mut sums: Vec<(String, Sum)> = by_owner
        .into_iter()
        .map(|(owner, sum)| (owner.map_or("no owner".to_owned(), short), sum))
        .collect();
    sums.sort_by(|a, b| (b.1.1, &a.0).cmp(&(a.1.1, &b.0)));
    if sums.len() > OWNERS {
        let rest = sums.split_off(OWNERS - 1);
        let sum = rest
            .iter()
            .fold(Sum::default(), |all, (_, sum)| add(all, *sum));
        sums.push((counted(rest.len(), "other", "others"), sum));
    }
    let greatest = sums.iter().filter_map(|(_, sum)| sum.1).max();
    sums.into_iter()
        .map(|(owner, (n, saving))| Bar {
            owner,
            findings: counted(n, "finding", "findings"),
            saving: saving.map_or("price not known".to_owned(), |usd| usd.to_string()),
            bar: thousandths(saving.unwrap_or_default(), greatest.unwrap_or_default()),
        })
        .collect()
}

/// Where the prices come from, with the saving and the findings that each stands
/// for; `None` without any.
pub(super) fn basis(findings: &[Finding]) -> Option<String> {
    let mut sums: BTreeMap<PriceBasis, (usize, Usd)> = BTreeMap::new();
    for cost in findings.iter().filter_map(|finding| finding.cost.as_ref()) {
        let sum = sums.entry(cost.basis).or_default();
        *sum = (sum.0 + 1, sum.1 + cost.saving_a_month);
    }
    let parts: Vec<_> = sums
        .iter()
        .map(|(basis, (n, saving))| {
            let findings = counted(*n, "finding", "findings");
            format!("{basis}, {saving} in {findings}")
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

pub(super) fn not_judged(not_judged: &[NotJudged]) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, &str), Vec<&NotJudged>> = BTreeMap::new();
    for one in not_judged {
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

fn named(one: &NotJudged) -> String {
    let name = one.name.as_ref().unwrap_or(&one.resource);
    short(name)
}

fn short(name: &str) -> String {
    one_line(&clip(name, NAME_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn an_owner_without_a_known_price_has_no_sum() {
        let mut findings = sample::small().findings;
        for finding in &mut findings {
            let owner = finding.cost.as_ref().map_or("dana", |_| "ana");
            finding.resource.owner = Some(owner.to_owned());
        }
        let bars = owners(&findings);
        let check = |n: usize, owner: &str, saving: &str, findings: &str| {
            let bar: &Bar = &bars[n];
            let told = (&*bar.owner, &*bar.saving, &*bar.findings);
            assert_eq!(told, (owner, saving, findings));
        };
        check(0, "ana", "$1,165.08", "2 findings");
        check(1, "dana", "price not known", "1 finding");
    }

    #[test]
    fn many_owners_are_summed_up() {
        let bars = owners(&sample::many(40).findings);
        assert_eq!(bars.len(), OWNERS);
        let last = bars.last().expect("some");
        assert_eq!(
            (&*last.owner, &*last.findings),
            ("33 others", "33 findings")
        );
    }
}
