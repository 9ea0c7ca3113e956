//! Similar findings about different resources, reported together: "70 idle nodes".

use std::collections::BTreeMap;

use ebb_model::cost::PriceBasis;
use ebb_telemetry::money::{Usd, grouped};

use crate::page::card::Card;
use crate::page::money::{bounded, wasted};

/// Minimum number of similar findings for a group.
const LEAST: usize = 3;

/// One finding, or several similar findings.
#[derive(Debug)]
pub struct Alike<'a> {
    cards: Vec<&'a Card>,
}

/// Common values of the findings in a group.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Common<'a> {
    kind: &'a str,
    owner: Option<&'a str>,
    region: &'a str,
    account: Option<&'a str>,
    machine: Option<&'a str>,
    controller: Option<&'a str>,
    action: &'a str,
    confidence: &'a str,
    basis: Option<PriceBasis>,
    change: Option<&'a str>,
    simulated: Option<&'a str>,
    period: Option<&'a str>,
    advice: String,
}

impl<'a> Alike<'a> {
    /// Groups similar findings; the greatest saving is first.
    pub fn from_cards(cards: impl IntoIterator<Item = &'a Card>) -> Vec<Self> {
        let mut order: Vec<Self> = Vec::new();
        let mut places: BTreeMap<Common<'a>, usize> = BTreeMap::new();
        for card in cards {
            if card.instead.is_some() {
                order.push(Self { cards: vec![card] });
                continue;
            }
            let place = *places.entry(common(card)).or_insert(order.len());
            match order.get_mut(place) {
                Some(alike) => alike.cards.push(card),
                None => order.push(Self { cards: vec![card] }),
            }
        }
        let mut all: Vec<Self> = Vec::with_capacity(order.len());
        for alike in order {
            match alike.cards.len() < LEAST {
                true => all.extend(
                    alike
                        .cards
                        .into_iter()
                        .map(|card| Self { cards: vec![card] }),
                ),
                false => all.push(alike),
            }
        }
        // A stable sort: findings with equal savings keep the order of the report.
        all.sort_by_key(|alike| std::cmp::Reverse(alike.sum(|card| card.saving())));
        all
    }

    /// The first finding, which represents the others.
    pub fn first(&self) -> &'a Card {
        self.cards[0]
    }

    /// Number of findings.
    pub fn count(&self) -> usize {
        self.cards.len()
    }

    /// Title of several findings, such as `70 idle nodes`; `None` for one finding.
    pub fn title(&self) -> Option<String> {
        (self.count() > 1).then(|| {
            let many = grouped(self.count() as u64);
            format!("{many} {}", self.first().kind_of.plural())
        })
    }

    /// Name of the resource, or the title of several.
    pub fn resource(&self) -> String {
        self.title().unwrap_or_else(|| self.first().resource())
    }

    /// Saving in a month; `None` without a price.
    pub fn saving(&self) -> Option<String> {
        let sum = self.sum(|card| card.saving())?;
        Some(bounded(sum, self.is_bound()))
    }

    /// Time of the saving, such as "a month".
    pub fn period(&self) -> &str {
        self.first().cost.as_ref().map_or("", |cost| &cost.period)
    }

    /// Whether the saving is of a shorter time than a month.
    pub fn is_short(&self) -> bool {
        self.first().is_short
    }

    /// Waste so far; `None` without a price.
    pub fn spent(&self) -> Option<String> {
        let sum = self.sum(|card| card.spent())?;
        Some(wasted(sum, (self.is_bound(), self.is_longer())))
    }

    /// Whether the waste of one of the findings began before its observed time.
    pub fn is_longer(&self) -> bool {
        self.cards.iter().any(|card| card.is_longer)
    }

    /// Whether the amounts are upper bounds.
    pub fn is_bound(&self) -> bool {
        self.first()
            .cost
            .as_ref()
            .is_some_and(|cost| cost.basis.is_bound())
    }

    /// Names of the resources, at most `most` of them.
    pub fn names(&self, most: usize) -> String {
        let named = self.cards.iter().take(most);
        let mut names: Vec<String> = named.map(|card| card.resource()).collect();
        let more = self.count().saturating_sub(most);
        if more > 0 {
            names.push(format!("and {} more", grouped(more as u64)));
        }
        names.join(", ")
    }

    fn sum(&self, of: impl Fn(&Card) -> Option<Usd>) -> Option<Usd> {
        let amounts = self.cards.iter().filter_map(|card| of(card));
        amounts.reduce(|a, b| a + b)
    }
}

fn common(card: &Card) -> Common<'_> {
    let mut advice = card.advice.clone();
    // Removes the name of the resource, so that it makes no difference.
    let own = [card.id.as_ref(), Some(&card.title), card.node.as_ref()];
    for name in own.into_iter().flatten().filter(|name| name.len() > 3) {
        advice = advice.replace(name.as_str(), "…");
    }
    Common {
        kind: card.slug,
        owner: card.owner.as_deref(),
        region: &card.region,
        account: card.account.as_deref(),
        machine: card.machine.as_deref(),
        controller: card.controller.as_deref(),
        action: &card.action,
        confidence: &card.confidence,
        basis: card.cost.as_ref().map(|cost| cost.basis),
        change: card.change,
        simulated: card.simulated,
        period: card.cost.as_ref().map(|cost| &*cost.period),
        advice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    use crate::page::Page;
    use crate::zone::Zone;

    fn titles(report: &ebb_model::report::Report) -> Vec<(String, Option<String>)> {
        let page = Page::from_report(report, &Zone::utc());
        let all = Alike::from_cards(&page.cards);
        all.iter()
            .map(|one| (one.resource(), one.saving()))
            .collect()
    }

    #[test]
    fn findings_that_differ_in_their_resource_alone_are_told_together() {
        let mut report = testing::many(70);
        for finding in &mut report.findings {
            finding.resource.owner = Some("ana".into());
            finding.cost.clone_from(&testing::small().findings[0].cost);
        }
        assert_eq!(
            titles(&report),
            [("70 idle nodes".to_owned(), Some("$61,933.20".to_owned()))]
        );
        report.findings[0].resource.owner = Some("ben".into());
        report.findings[1].cost = None;
        let shown = titles(&report);
        assert_eq!((shown.len(), shown[0].0.as_str()), (3, "68 idle nodes"));
        report.findings.truncate(4);
        assert_eq!(titles(&report).len(), 4, "two of a kind stay apart");
    }

    #[test]
    fn names_are_bounded() {
        let mut report = testing::many(9);
        for finding in &mut report.findings {
            finding.resource.owner = None;
            finding.cost.clone_from(&testing::small().findings[0].cost);
        }
        let page = Page::from_report(&report, &Zone::utc());
        let all = Alike::from_cards(&page.cards);
        let names = all[0].names(2);
        assert!(names.ends_with(", and 7 more"), "{names}");
    }
}
