//! Allocation of the cost of a machine to its tasks.

use serde::{Deserialize, Serialize};

/// Allocation of the cost of machines to the tasks on them. The method is that of AWS split cost
/// allocation data for ECS and EKS.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CostsPolicy {
    /// The part of its machine that a task occupies: `greater`, the greater of the request and the use, for
    /// cores and for memory, as AWS does; `reserved`, the request; `used`, the use. If one of them
    /// is unknown, the other counts.
    pub method: AllocationMethod,
    /// The cost of a machine that its tasks do not occupy: `apart` shows it next to the tasks;
    /// `spread` adds it to the tasks that ran in the same hour, in proportion to what they occupy.
    pub rest: RestOfMachine,
    /// Tag that names the cost centre of a task, such as `CostCenter`. A tag of the job has
    /// priority over a tag of the machine. Without it, there are no costs by cost centre.
    pub cost_centre_tag: Option<String>,
    /// Folder or bucket with exports of the bill, such as `s3://bills/cur/ebb` or `/srv/bills`: AWS Cost
    /// and Usage Report 2.0 or FOCUS 1.x, as CSV or Parquet. The bill then comes from the newest
    /// finished export of each month, and not from Cost Explorer.
    pub export: Option<String>,
}

/// The part of its machine that a task occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AllocationMethod {
    /// The greater of the request and the use.
    #[default]
    Greater,
    /// The request.
    Reserved,
    /// The use.
    Used,
}

/// Where the unoccupied part of a machine is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestOfMachine {
    /// Next to the tasks.
    #[default]
    Apart,
    /// In the cost of the tasks.
    Spread,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn the_allocation_is_read_from_a_file_and_other_values_are_refused() {
        let text = "[costs]\nmethod = \"used\"\nrest = \"spread\"\ncost_centre_tag = \"Team\"\nexport = \"/srv/bills\"\n";
        let expect = CostsPolicy {
            method: AllocationMethod::Used,
            rest: RestOfMachine::Spread,
            cost_centre_tag: Some("Team".to_owned()),
            export: Some("/srv/bills".to_owned()),
        };
        assert_eq!(Policy::parse(text).expect("valid").costs, expect);
        for wrong in ["method = \"most\"", "rest = \"gone\"", "share = 1"] {
            let error = Policy::parse(&format!("[costs]\n{wrong}\n"));
            let error = error.expect_err(wrong).to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
