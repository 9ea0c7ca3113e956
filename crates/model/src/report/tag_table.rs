//! The bill by the values of a cost allocation tag. All rows of a table add up to its total.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use ebb_telemetry::money::Usd;
use serde::Serialize;

use crate::report::bill_day::BilledDayShares;
use crate::report::cost_table::{CostDimensions, CostMonth, CostQueryError};

/// The division of a table of costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CostDivision {
    /// By names of tasks.
    Names(CostDimensions),
    /// By the values of this tag on the bill.
    Tag(String),
}

impl Default for CostDivision {
    fn default() -> Self {
        Self::Names(CostDimensions::default())
    }
}

impl FromStr for CostDivision {
    type Err = CostQueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("tag:") {
            Some(tag) if !tag.is_empty() => Ok(Self::Tag(tag.to_owned())),
            _ => text.parse().map(Self::Names),
        }
    }
}

/// The bill by the values of one tag. Days without a bill are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TagTable {
    /// The tag.
    pub tag: String,
    /// The month; `None` for all days of the report.
    pub month: Option<CostMonth>,
    /// The first day of the table (`YYYY-MM-DD`, UTC); `None` without days.
    pub from: Option<String>,
    /// The last day of the table.
    pub to: Option<String>,
    /// The sum of all rows, which is the bill of these days.
    #[serde(rename = "total_usd")]
    pub total: Usd,
    /// The values, the most expensive first.
    pub rows: Vec<TagRow>,
}

/// The cost of the resources with the same value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TagRow {
    /// The value; `None` for costs without the tag.
    pub value: Option<String>,
    /// The cost.
    #[serde(rename = "cost_usd")]
    pub cost: Usd,
    /// The cost by day.
    #[serde(rename = "by_day_usd")]
    pub by_day: BTreeMap<String, Usd>,
}

/// The bill of some days by the values of a tag.
///
/// # Errors
/// If no day has the tag.
pub fn tag_table(
    ledger: &[BilledDayShares],
    tag: &str,
    month: Option<&CostMonth>,
) -> Result<TagTable, CostQueryError> {
    let known: BTreeSet<&String> = ledger.iter().flat_map(|day| day.by_tag.keys()).collect();
    if !known.iter().any(|one| *one == tag) {
        return Err(CostQueryError::UnknownTag {
            tag: tag.to_owned(),
            known: known.into_iter().cloned().collect(),
        });
    }
    let days = ledger.iter();
    let days = days.filter(|day| month.is_none_or(|month| month.contains(&day.day)));
    let days: Vec<&BilledDayShares> = days.collect();
    let mut sums: BTreeMap<Option<&str>, BTreeMap<String, Usd>> = BTreeMap::new();
    for day in &days {
        let values = day.by_tag.get(tag).into_iter().flatten();
        let values = values.filter(|(value, _)| !value.is_empty());
        let mut without = day.billed;
        for (value, usd) in values {
            without = without - *usd;
            let by_day = sums.entry(Some(value)).or_default();
            by_day.insert(day.day.clone(), *usd);
        }
        if without != Usd::ZERO {
            let by_day = sums.entry(None).or_default();
            by_day.insert(day.day.clone(), without);
        }
    }
    let rows = sums.into_iter().map(|(value, by_day)| TagRow {
        value: value.map(str::to_owned),
        cost: by_day.values().copied().sum(),
        by_day,
    });
    let mut rows: Vec<TagRow> = rows.collect();
    rows.sort_by_cached_key(|row| (row.value.is_none(), Reverse(row.cost), row.value.clone()));
    Ok(TagTable {
        tag: tag.to_owned(),
        month: month.cloned(),
        from: days.first().map(|day| day.day.clone()),
        to: days.last().map(|day| day.day.clone()),
        total: days.iter().map(|day| day.billed).sum(),
        rows,
    })
}
