//! Costs by chosen dimensions and month. All rows of a table add up to its total.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::one_line;
use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize};

use crate::policy::costs::RestOfMachine;
use crate::report::cost_shares::{
    CostDay, CostDimension, CostName, CostShare, CostShares, CostSource, DayShare, RestKind,
};

/// A month, such as `2026-10`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CostMonth(String);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CostMonth {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CostMonth".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$"})
    }
}

impl CostMonth {
    /// The first day.
    pub fn first_day(&self) -> Option<Date> {
        format!("{}-01", self.0).parse().ok()
    }

    /// Whether a day (`YYYY-MM-DD`) is in the month.
    pub fn contains(&self, day: &str) -> bool {
        let rest = day.strip_prefix(self.0.as_str());
        rest.is_some_and(|rest| rest.starts_with('-'))
    }
}

impl fmt::Display for CostMonth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for CostMonth {
    type Err = CostQueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_month = text.len() == 7 && format!("{text}-01").parse::<Date>().is_ok();
        match is_month {
            true => Ok(Self(text.to_owned())),
            false => Err(CostQueryError::Month(text.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for CostMonth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed: Result<Self, CostQueryError> = text.parse();
        parsed.map_err(|error| serde::de::Error::custom(error.in_one_line()))
    }
}

/// Dimensions of a table, such as `pipeline,user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostDimensions(Vec<CostDimension>);

impl CostDimensions {
    /// The dimensions, each one once.
    pub fn as_slice(&self) -> &[CostDimension] {
        &self.0
    }
}

impl Default for CostDimensions {
    fn default() -> Self {
        Self(vec![CostDimension::Pipeline])
    }
}

impl FromStr for CostDimensions {
    type Err = CostQueryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut dimensions = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = CostDimension::ALL.into_iter();
            let one = known.into_iter().find(|one| one.slug() == name);
            let one = one.ok_or_else(|| CostQueryError::Dimension(name.to_owned()))?;
            if !dimensions.contains(&one) {
                dimensions.push(one);
            }
        }
        let both = [CostDimension::Run, CostDimension::Step];
        match both.iter().all(|one| dimensions.contains(one)) {
            true => Err(CostQueryError::RunAndStep),
            false => Ok(Self(dimensions)),
        }
    }
}

impl<'de> Deserialize<'de> for CostDimensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed: Result<Self, CostQueryError> = text.parse();
        parsed.map_err(|error| serde::de::Error::custom(error.in_one_line()))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CostDimensions {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CostDimensions".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // Run and step cannot be combined.
        let runs = "(run|pipeline|user|cost_centre)";
        let steps = "(step|pipeline|user|cost_centre)";
        let pattern = format!("^({runs}(,{runs})*|{steps}(,{steps})*)$");
        schemars::json_schema!({"type": "string", "pattern": pattern})
    }
}

/// A table that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostQueryError {
    /// An unknown dimension.
    #[error("costs have no '{0}'\n  choose run, pipeline, step, user or cost_centre")]
    Dimension(String),
    /// A report has no table by both.
    #[error("a report has no costs by run and step together\n  choose one of them")]
    RunAndStep,
    /// Not a month.
    #[error("'{0}' is no month\n  write it as 2026-10")]
    Month(String),
    /// No day of the report has the tag.
    #[error(
        "the report has no costs by the tag '{}'\n  {}",
        one_line(.tag),
        tag_remedy(.known)
    )]
    UnknownTag {
        /// The tag.
        tag: String,
        /// The tags of the report.
        known: Vec<String>,
    },
    /// The policy names no tag.
    #[error(
        "the policy names no tag of cost centres\n  set `cost_centre_tag` in [costs] of the policy"
    )]
    NoCostCentres,
}

fn tag_remedy(known: &[String]) -> String {
    let add = "to `cost_tags` in [metrics] of the policy";
    match known.is_empty() {
        true => format!("add the tag {add}"),
        false => format!("it has {}; add others {add}", one_line(&known.join(", "))),
    }
}

impl CostQueryError {
    /// The error with its remedy on the same line.
    pub fn in_one_line(&self) -> String {
        self.to_string().replace("\n  ", "; ")
    }
}

/// Costs by chosen dimensions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostTable {
    /// The dimensions, in the order of the names of a row.
    pub by: Vec<CostDimension>,
    /// The month; `None` for all days of the report.
    pub month: Option<CostMonth>,
    /// The first day of the report (`YYYY-MM-DD`, UTC); `None` if it has no costs.
    pub report_from: Option<String>,
    /// The last day of the report.
    pub report_to: Option<String>,
    /// The first day of the table; `None` without days.
    pub from: Option<String>,
    /// The last day of the table.
    pub to: Option<String>,
    /// The days of the table that come from the lake. They have no numbers of tasks.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub days_of_lake: BTreeSet<String>,
    /// Whether the cost of tasks contains their unused cost.
    pub rest_of_machines: RestOfMachine,
    /// The sum of all rows.
    #[serde(rename = "total_usd")]
    pub total: Usd,
    /// The part of the total that is billed. The other part is the price of machines on days that
    /// the bill does not contain yet.
    #[serde(rename = "billed_usd")]
    pub billed: Usd,
    /// The part of the total that is only an upper bound: Spot machines at their on-demand price on
    /// days that the bill does not contain yet.
    #[serde(rename = "upper_bound_usd")]
    pub upper_bound: Usd,
    /// The first day that the bill does not contain; `None` if it contains all days.
    pub not_billed_from: Option<String>,
    /// The tasks, the most expensive first.
    pub rows: Vec<CostRow>,
    /// The cost that belongs to no task.
    pub rest: Vec<RestRow>,
    /// The number of machines without a price, summed over days.
    pub machine_days_without_price: usize,
}

/// The cost of the tasks with the same names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostRow {
    /// One name for each dimension of the table.
    pub names: Vec<CostName>,
    /// The number of tasks with a cost.
    pub tasks: usize,
    /// The number of tasks on machines without a price; the cost does not contain them.
    pub tasks_without_price: usize,
    /// The part of the machines that the tasks occupied; `None` if no machine has a price.
    #[serde(rename = "used_usd")]
    pub used: Option<Usd>,
    /// Their part of what no task occupied in the hours in which they ran.
    #[serde(rename = "unused_usd")]
    pub unused: Option<Usd>,
    /// The cost that the tasks pay: the used cost, and the unused cost if the policy spreads it.
    #[serde(rename = "cost_usd")]
    pub cost: Option<Usd>,
    /// The same by day (`YYYY-MM-DD`, UTC).
    pub by_day: BTreeMap<String, DayShare>,
}

/// Cost that belongs to no task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RestRow {
    /// The kind.
    pub kind: RestKind,
    /// The cost centre of the machines, if the table has cost centres; `None` for all other costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_centre: Option<CostName>,
    /// The cost.
    #[serde(rename = "cost_usd")]
    pub cost: Usd,
    /// The cost by day.
    #[serde(rename = "by_day_usd")]
    pub by_day: BTreeMap<String, Usd>,
}

impl CostShares {
    /// The costs by some dimensions, of one month or of all days.
    ///
    /// # Errors
    /// If the policy names no tag of cost centres.
    pub fn table(
        &self,
        by: &CostDimensions,
        month: Option<&CostMonth>,
    ) -> Result<CostTable, CostQueryError> {
        let by = by.as_slice();
        if by.contains(&CostDimension::CostCentre) && self.cost_centre_tag.is_none() {
            return Err(CostQueryError::NoCostCentres);
        }
        let is_in = |day: &str| month.is_none_or(|month| month.contains(day));
        let shares = match by.contains(&CostDimension::Step) {
            true => &self.by_step,
            false => &self.by_run,
        };
        let days: Vec<_> = self.days.iter().filter(|day| is_in(&day.day)).collect();
        let billed = days.iter().filter(|day| day.source == CostSource::Bill);
        let mut priced = days.iter().filter(|day| day.source == CostSource::Prices);
        Ok(CostTable {
            by: by.to_vec(),
            month: month.cloned(),
            report_from: self.days.first().map(|day| day.day.clone()),
            report_to: self.days.last().map(|day| day.day.clone()),
            from: days.first().map(|day| day.day.clone()),
            to: days.last().map(|day| day.day.clone()),
            days_of_lake: BTreeSet::new(),
            rest_of_machines: self.rest,
            total: days.iter().map(|day| day.total).sum(),
            billed: billed.map(|day| day.total).sum(),
            not_billed_from: priced.next().map(|day| day.day.clone()),
            rows: rows(shares, by, self.rest, is_in),
            rest: rest_rows(&days, by.contains(&CostDimension::CostCentre)),
            upper_bound: days.iter().map(|day| day.upper_bound).sum(),
            machine_days_without_price: days.iter().map(|day| day.machines_without_price).sum(),
        })
    }
}

impl CostDay {
    /// The cost that belongs to no task, by kind and by the cost centre of the machines. `None` is the
    /// cost without a cost centre.
    pub fn rest_by_kind_and_centre(
        &self,
    ) -> impl Iterator<Item = (RestKind, Option<&CostName>, Usd)> {
        let centres = self.rest_by_centre.iter().flat_map(|centre| {
            let rest = centre.rest.iter();
            rest.map(|(kind, usd)| (*kind, Some(&centre.name), *usd))
        });
        let mut others = self.rest.clone();
        for (kind, _, usd) in centres.clone() {
            let other = others.entry(kind).or_default();
            *other = *other - usd;
        }
        let others = others.into_iter().map(|(kind, usd)| (kind, None, usd));
        let all = others.chain(centres);
        all.filter(|(_, _, usd)| *usd != Usd::ZERO)
    }
}

/// The rest of some days, by the cost centre of the machines if a table has cost centres.
fn rest_rows(days: &[&CostDay], has_centres: bool) -> Vec<RestRow> {
    let mut sums: BTreeMap<(RestKind, Option<CostName>), BTreeMap<String, Usd>> = BTreeMap::new();
    for day in days {
        for (kind, centre, usd) in day.rest_by_kind_and_centre() {
            let centre = centre.filter(|_| has_centres).cloned();
            let by_day = sums.entry((kind, centre)).or_default();
            let sum = by_day.entry(day.day.clone()).or_default();
            *sum = *sum + usd;
        }
    }
    let rows = sums
        .into_iter()
        .map(|((kind, cost_centre), by_day)| RestRow {
            kind,
            cost_centre,
            cost: by_day.values().copied().sum(),
            by_day,
        });
    rows.collect()
}

/// The rows: names first, the most expensive first; then unknown names and others.
fn rows(
    shares: &[CostShare],
    by: &[CostDimension],
    rest: RestOfMachine,
    is_in: impl Fn(&str) -> bool,
) -> Vec<CostRow> {
    let mut sums: BTreeMap<Vec<&CostName>, BTreeMap<&str, DayShare>> = BTreeMap::new();
    for share in shares {
        let name = |one| share.names.get(one).unwrap_or(&CostName::Unknown);
        let days = sums.entry(by.iter().map(name).collect()).or_default();
        for (day, cost) in share.by_day.iter().filter(|(day, _)| is_in(day)) {
            days.entry(day).or_default().add(*cost);
        }
    }
    sums.retain(|_, days| !days.is_empty());
    let mut rows: Vec<CostRow> = sums
        .into_iter()
        .map(|(names, days)| {
            let mut sum = DayShare::default();
            days.values().for_each(|day| sum.add(*day));
            let known = |usd| (!sum.is_unknown()).then_some(usd);
            let by_day = days.into_iter().map(|(day, one)| (day.to_owned(), one));
            CostRow {
                names: names.into_iter().cloned().collect(),
                tasks: sum.tasks,
                tasks_without_price: sum.tasks_without_price,
                used: known(sum.used),
                unused: known(sum.unused),
                cost: known(sum.cost(rest)),
                by_day: by_day.collect(),
            }
        })
        .collect();
    rows.sort_by_cached_key(|row| {
        let is_others = row.names.contains(&CostName::Others);
        (is_others, Reverse(row.cost), row.names.clone())
    });
    rows
}
