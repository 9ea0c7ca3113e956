//! The saving of all findings together. Several findings may claim the same dollars: an idle
//! node, a step that asked for too much on it, and a spot candidate that includes it. Each
//! finding keeps its own saving; the totals count each dollar once.
//!
//! The savings on one machine are composed, not added: a machine that is off half of the
//! time (50 % saved) and costs 40 % less on spot saves 70 %, not 90 %.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::time::Window;
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::finding::Finding;

/// Sums of money over findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sums {
    /// The waste per hour.
    #[serde(rename = "per_hour_usd")]
    pub per_hour: UsdPerHour,
    /// Wasted so far.
    #[serde(rename = "spent_usd")]
    pub spent: Usd,
    /// The saving in a month.
    #[serde(rename = "saving_a_month_usd")]
    pub saving_a_month: Usd,
}

impl Sums {
    /// Adds the part of a cost that the totals contain.
    pub fn add(&mut self, part: &Self) {
        self.per_hour = UsdPerHour(self.per_hour.0 + part.per_hour.0);
        self.spent = self.spent + part.spent;
        self.saving_a_month = self.saving_a_month + part.saving_a_month;
    }
}

/// The part of a finding's cost that the totals contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counted {
    /// The amounts.
    #[serde(flatten)]
    pub sums: Sums,
    /// The finding that counts most of the remaining part; `None` without a remaining part, or if
    /// the resource costs less than the saving of the finding.
    #[serde(default)]
    pub rest_counted_by: Option<String>,
}

/// How a finding reduces the cost of a machine. Different levers are composed. Of several findings
/// with the same lever only the largest counts, except for [`Lever::Use`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lever {
    /// The machine runs for less time.
    Time,
    /// The work needs a smaller share of the machine. The shares of several steps add up.
    Use,
    /// The machine becomes a cheaper type.
    Type,
    /// The machine gets a cheaper purchase option.
    Purchase,
}

impl Lever {
    const ALL: [Self; 4] = [Self::Time, Self::Use, Self::Type, Self::Purchase];
}

/// The claim of one finding on the cost of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The id of the finding.
    pub finding: String,
    /// How the finding reduces the cost.
    pub lever: Lever,
    /// The part of the finding's amounts that is about this resource, in parts per million.
    pub part_ppm: u32,
}

impl Claim {
    /// The part of an amount that is about this resource. The part is rounded down, so that the sum
    /// of all parts never exceeds the amount.
    pub fn part_of(&self, amount: Usd) -> Usd {
        let micros = i128::from(amount.micros()) * i128::from(self.part_ppm) / 1_000_000;
        Usd::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

/// A resource whose cost several findings claim, or of which one finding claims more than the cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedCost {
    /// The price per hour.
    pub per_hour: UsdPerHour,
    /// The cost in a month.
    pub a_month: Usd,
    /// The claims.
    pub claims: Vec<Claim>,
}

/// Decides which part of each finding's cost the totals contain. The order of findings and
/// of shared costs does not matter.
pub fn count_once(findings: &mut [Finding], shared: &[SharedCost]) {
    let places: BTreeMap<String, usize> = findings
        .iter()
        .enumerate()
        .map(|(place, finding)| (finding.id.clone(), place))
        .collect();
    for cost in findings.iter_mut().filter_map(|f| f.cost.as_mut()) {
        cost.counted = Some(Counted {
            sums: cost.whole(),
            rest_counted_by: None,
        });
    }
    for pool in shared {
        let mut present: Vec<(&Claim, usize)> = pool
            .claims
            .iter()
            .filter_map(|claim| Some((claim, *places.get(&claim.finding)?)))
            .filter(|(_, place)| findings[*place].cost.is_some())
            .collect();
        present.sort_by(|(a, _), (b, _)| (a.lever, &a.finding).cmp(&(b.lever, &b.finding)));
        count_pool(findings, pool, &present);
    }
}

/// One claim on a resource, with its amounts before and after counting shared dollars once.
struct Claimed<'a> {
    claim: &'a Claim,
    place: usize,
    window: Window,
    whole: Sums,
    counted: Sums,
}

fn count_pool(findings: &mut [Finding], pool: &SharedCost, present: &[(&Claim, usize)]) {
    let mut all: Vec<Claimed<'_>> = Vec::with_capacity(present.len());
    for (claim, place) in present {
        let finding = &findings[*place];
        let Some(cost) = &finding.cost else { continue };
        let whole = Sums {
            per_hour: UsdPerHour(claim.part_of(cost.per_hour.0)),
            spent: claim.part_of(cost.spent),
            saving_a_month: claim.part_of(cost.saving_a_month),
        };
        all.push(Claimed {
            claim,
            place: *place,
            window: finding.window,
            whole,
            counted: Sums::default(),
        });
    }
    let amounts = |of: fn(&Sums) -> Usd| -> Vec<(Lever, Usd)> {
        let each = all.iter();
        each.map(|one| (one.claim.lever, of(&one.whole))).collect()
    };
    let saving = compose(pool.a_month, &amounts(|sums| sums.saving_a_month));
    let per_hour = compose(pool.per_hour.0, &amounts(|sums| sums.per_hour.0));
    let mut unspent = pool.per_hour.over(union(all.iter().map(|one| one.window)));
    for (n, one) in all.iter_mut().enumerate() {
        let spent = one.whole.spent.min(unspent);
        unspent = unspent - spent;
        one.counted = Sums {
            per_hour: UsdPerHour(per_hour[n]),
            spent,
            saving_a_month: saving[n],
        };
    }
    for one in &all {
        let mut others = all.iter().filter(|other| other.place != one.place);
        let largest = others.next().map(|first| {
            let greater = |a: &'_ Claimed<'_>, b: &Claimed<'_>| {
                a.counted.saving_a_month >= b.counted.saving_a_month
            };
            others.fold(first, |a, b| if greater(a, b) { a } else { b })
        });
        let is_less = one.counted.saving_a_month < one.whole.saving_a_month;
        let by = largest.filter(|other| is_less && other.counted.saving_a_month > Usd::ZERO);
        let by = by.map(|other| other.claim.finding.clone());
        take_out(&mut findings[one.place], &one.whole, &one.counted, by);
    }
}

/// Removes the uncounted amounts from the part of a finding that the totals contain.
fn take_out(finding: &mut Finding, whole: &Sums, counted: &Sums, by: Option<String>) {
    let Some(in_totals) = finding.cost.as_mut().and_then(|cost| cost.counted.as_mut()) else {
        return;
    };
    let sums = &mut in_totals.sums;
    let less = |now: Usd, whole: Usd, counted: Usd| (now - (whole - counted)).max(Usd::ZERO);
    sums.per_hour = UsdPerHour(less(sums.per_hour.0, whole.per_hour.0, counted.per_hour.0));
    sums.spent = less(sums.spent, whole.spent, counted.spent);
    let (all, now) = (whole.saving_a_month, counted.saving_a_month);
    sums.saving_a_month = less(sums.saving_a_month, all, now);
    if in_totals.rest_counted_by.is_none() {
        in_totals.rest_counted_by = by;
    }
}

/// The saving of each claim on a cost, so that no dollar counts twice. The levers apply one after
/// the other, each to the remaining cost. The sum is at most the cost. The claims must be sorted.
fn compose(cost: Usd, claims: &[(Lever, Usd)]) -> Vec<Usd> {
    let mut counted = vec![Usd::ZERO; claims.len()];
    let mut left = i128::from(cost.micros().max(0));
    let whole = left;
    if whole == 0 {
        return counted;
    }
    for lever in Lever::ALL {
        let mut of_lever: Vec<usize> = (0..claims.len())
            .filter(|n| claims[*n].0 == lever && claims[*n].1 > Usd::ZERO)
            .collect();
        if lever != Lever::Use {
            // The first of the largest.
            of_lever.sort_by_key(|n| std::cmp::Reverse(claims[*n].1));
            of_lever.truncate(1);
        }
        let amount = |n: &usize| i128::from(claims[*n].1.micros());
        let sum: i128 = of_lever.iter().map(amount).sum();
        let saved = left * sum.min(whole) / whole;
        for n in &of_lever {
            let part = saved * amount(n) / sum;
            counted[*n] = Usd::from_micros(i64::try_from(part).unwrap_or(i64::MAX));
        }
        left -= saved;
    }
    counted
}

/// The total length of the windows; overlapping time counts once.
fn union(windows: impl Iterator<Item = Window>) -> std::time::Duration {
    let mut windows: Vec<Window> = windows.filter(|one| one.from < one.to).collect();
    windows.sort_unstable();
    let mut merged: Vec<Window> = Vec::with_capacity(windows.len());
    for window in windows {
        match merged.last_mut() {
            Some(last) if window.from <= last.to => last.to = last.to.max(window.to),
            _ => merged.push(window),
        }
    }
    merged.iter().map(Window::length).sum()
}

impl Cost {
    /// All amounts of the cost.
    pub fn whole(&self) -> Sums {
        Sums {
            per_hour: self.per_hour,
            spent: self.spent,
            saving_a_month: self.saving_a_month,
        }
    }

    /// The part that the totals contain.
    pub fn in_totals(&self) -> Sums {
        let counted = self.counted.as_ref();
        counted.map_or_else(|| self.whole(), |counted| counted.sums)
    }
}
