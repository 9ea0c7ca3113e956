//! How long the tables of the lake store their rows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::error::PolicyError;

/// The least number of days of a table. A sweep reads the tasks of 14 days, and a state that is
/// rebuilt needs the rows of four weeks.
const MIN_DAYS: u32 = 30;

/// How long the tables of the lake store their rows. The unit is a UTC day: rows of earlier days are
/// removed together. 0 keeps the rows of a table forever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LakePolicy {
    /// Days of `heartbeats`: 0, or at least 30. The default is 90 days, because this table is by far
    /// the largest.
    pub heartbeats_days: u32,
    /// Days of `steps`: 0, or at least 30. The default is 400 days, so that a month can be compared
    /// with the same month of the last year.
    pub steps_days: u32,
    /// Days of `findings`: 0, or at least 30. The default is 400 days, as for `steps`.
    pub findings_days: u32,
    /// Days of `costs`: 0, or at least 30. The default is 800 days, so that a year can be compared
    /// with the last one.
    pub costs_days: u32,
    /// Days of `node_hours`: 0, or at least 30. The default is 400 days, as for `steps`.
    pub node_hours_days: u32,
    /// Days after which a file that is not part of a table any more is deleted. Until then, queries
    /// that have begun and earlier versions of a table still read it. The default is 7 days, as in
    /// other programs with Delta tables.
    pub unreferenced_days: u32,
}

impl Default for LakePolicy {
    fn default() -> Self {
        Self {
            heartbeats_days: 90,
            steps_days: 400,
            findings_days: 400,
            costs_days: 800,
            node_hours_days: 400,
            unreferenced_days: 7,
        }
    }
}

impl LakePolicy {
    /// See [`Self::heartbeats_days`]; `None` keeps them forever.
    pub fn keep_heartbeats(&self) -> Option<u32> {
        limit(self.heartbeats_days)
    }

    /// See [`Self::steps_days`]; `None` keeps them forever.
    pub fn keep_steps(&self) -> Option<u32> {
        limit(self.steps_days)
    }

    /// See [`Self::findings_days`]; `None` keeps them forever.
    pub fn keep_findings(&self) -> Option<u32> {
        limit(self.findings_days)
    }

    /// See [`Self::costs_days`]; `None` keeps them forever.
    pub fn keep_costs(&self) -> Option<u32> {
        limit(self.costs_days)
    }

    /// See [`Self::node_hours_days`]; `None` keeps them forever.
    pub fn keep_node_hours(&self) -> Option<u32> {
        limit(self.node_hours_days)
    }

    /// See [`Self::unreferenced_days`].
    pub fn unreferenced(&self) -> Duration {
        Duration::from_secs(u64::from(self.unreferenced_days) * 86_400)
    }

    /// Refuses days that are too few for a sweep.
    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        let tables = [
            ("heartbeats_days", self.heartbeats_days),
            ("steps_days", self.steps_days),
            ("findings_days", self.findings_days),
            ("costs_days", self.costs_days),
            ("node_hours_days", self.node_hours_days),
        ];
        for (key, days) in tables {
            if (1..MIN_DAYS).contains(&days) {
                return Err(PolicyError::Value {
                    key: format!("lake.{key}"),
                    value: days.into(),
                    problem: "must be at least 30, or 0 to keep rows forever",
                });
            }
        }
        Ok(())
    }
}

fn limit(days: u32) -> Option<u32> {
    (days > 0).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn days_are_read_from_a_file_and_too_few_are_refused() {
        let days = |text: &str| {
            let policy = Policy::parse(&format!("[lake]\n{text}\n"));
            policy.map(|policy| policy.lake).map_err(|e| e.to_string())
        };
        let lake = days("heartbeats_days = 30\nsteps_days = 0").expect("valid");
        assert_eq!(lake.keep_heartbeats(), Some(30));
        assert_eq!(lake.keep_steps(), None);
        assert_eq!(lake.keep_findings(), Some(400));
        assert_eq!(lake.keep_costs(), Some(800));
        assert_eq!(lake.unreferenced(), Duration::from_secs(604_800));
        let check = |text: &str, expect: &str| {
            let error = days(text).expect_err(text);
            assert!(error.contains(expect), "{error}");
        };
        check("heartbeats_days = 29", "lake.heartbeats_days is 29");
        check("steps_days = 1", "or 0 to keep rows forever");
        check("findings_days = -1", "line 2");
        check("unreferenced_days = 0", "must be between 1 and 365");
        check("steps_days = 100000", "lake.steps_days is 100000");
        check("costs = 3", "unknown field");
    }
}
