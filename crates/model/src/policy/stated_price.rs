//! Prices of machines without a list price, such as on-premises hosts.

use ebb_telemetry::money::UsdPerHour;
use serde::{Deserialize, Serialize};

use crate::policy::error::PolicyError;
use crate::policy::ids;

/// More than the price of any machine.
const MAX_USD_MICROS_PER_HOUR: u64 = 1_000_000_000_000;

/// Price of an hour of some machines. It replaces the list price. A billed price has priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StatedPrice {
    /// Id or name of the machine. A `*` at the end matches any text.
    pub node: String,
    /// Price of an hour in millionths of a dollar.
    pub usd_micros_per_hour: u64,
    /// The place where it is stated.
    #[serde(skip)]
    pub source: StatedIn,
}

/// Where a price is stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatedIn {
    /// In the policy file.
    #[default]
    Policy,
    /// On the command line, with `--price-per-hour`.
    CommandLine,
}

impl StatedPrice {
    /// The price of all machines, from the command line.
    pub fn of_all(price: UsdPerHour) -> Self {
        Self {
            source: StatedIn::CommandLine,
            node: "*".to_owned(),
            usd_micros_per_hour: u64::try_from(price.0.micros()).unwrap_or(0),
        }
    }

    /// The price.
    pub fn per_hour(&self) -> UsdPerHour {
        UsdPerHour::from_micros(i64::try_from(self.usd_micros_per_hour).unwrap_or(i64::MAX))
    }

    /// Whether the price applies to the machine with this id and name.
    pub fn covers(&self, id: &str, name: Option<&str>) -> bool {
        let is_meant = |known: &str| ids::means(&self.node, known);
        is_meant(id) || name.is_some_and(is_meant)
    }

    pub(crate) fn check(&self, index: usize) -> Result<(), PolicyError> {
        let problem = if self.node.is_empty() {
            "it has no node; \"*\" means all"
        } else if ids::has_inner_star(&self.node) {
            "a * is allowed only at the end"
        } else if self.usd_micros_per_hour == 0 {
            "usd_micros_per_hour must be greater than 0"
        } else if self.usd_micros_per_hour > MAX_USD_MICROS_PER_HOUR {
            "usd_micros_per_hour must be at most 1000000000000, a million dollars"
        } else {
            return Ok(());
        };
        Err(PolicyError::Price {
            index,
            node: self.node.clone(),
            problem,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn it_covers_ids_and_names_whole_or_by_their_beginning() {
        let check = |node: &str, id: &str, name: Option<&str>, expect: bool| {
            let stated = StatedPrice {
                node: node.to_owned(),
                usd_micros_per_hour: 1,
                source: StatedIn::Policy,
            };
            assert_eq!(stated.covers(id, name), expect, "{node} {id} {name:?}");
        };
        check("rack3-*", "rack3-07", None, true);
        check("rack3-*", "rack2-07", None, false);
        check("rack3", "rack3-07", None, false);
        check("build", "4711", Some("build"), true);
        check("*", "anything", None, true);
    }

    #[test]
    fn a_price_that_cannot_be_meant_is_refused() {
        let check = |node: &str, micros: u64, expect: &str| {
            let text = format!("[[prices]]\nnode = \"{node}\"\nusd_micros_per_hour = {micros}\n");
            let error = Policy::parse(&text).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("", 1, "it has no node");
        check("a*b", 1, "only at the end");
        check("a", 0, "the price of a: usd_micros_per_hour must");
        check("a", i64::MAX as u64, "usd_micros_per_hour must be at most");
    }
}
