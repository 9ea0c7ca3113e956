//! Budgets of pipelines and cost centres.

use std::collections::BTreeSet;

use ebb_telemetry::money::Usd;
use serde::{Deserialize, Serialize};

use crate::policy::costs::CostsPolicy;
use crate::policy::error::PolicyError;
use crate::report::cost_shares::CostDimension;
use crate::spend_history::SpendSubject;

/// Maximum number of budgets; the costs of each are stored for some weeks.
const MAX_BUDGETS: usize = 200;

/// The amount that a pipeline or a cost centre may cost in a month of UTC days. Exactly one of
/// `pipeline` and `cost_centre` is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Name of the pipeline, as `ebb costs --by pipeline` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// Name of the cost centre: a value of the tag `costs.cost_centre_tag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_centre: Option<String>,
    /// The amount in whole US dollars.
    pub usd_a_month: u32,
    /// Owner of the findings of this budget. Without it, the owner is the user of most of the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl Budget {
    /// The pipeline or cost centre; `None` if not exactly one of them is set.
    pub fn subject(&self) -> Option<SpendSubject> {
        let (dimension, name) = match (&self.pipeline, &self.cost_centre) {
            (Some(name), None) => (CostDimension::Pipeline, name),
            (None, Some(name)) => (CostDimension::CostCentre, name),
            _ => return None,
        };
        Some(SpendSubject {
            dimension,
            name: name.clone(),
        })
    }

    /// The amount.
    pub fn amount(&self) -> Usd {
        Usd::from_micros(i64::from(self.usd_a_month) * 1_000_000)
    }

    pub(crate) fn check_all(budgets: &[Self], costs: &CostsPolicy) -> Result<(), PolicyError> {
        if budgets.len() > MAX_BUDGETS {
            return Err(PolicyError::Value {
                key: "budgets".to_owned(),
                value: i64::try_from(budgets.len()).unwrap_or(i64::MAX),
                problem: "at most 200 budgets are allowed",
            });
        }
        let mut known = BTreeSet::new();
        for (index, budget) in budgets.iter().enumerate() {
            let subject = budget.subject();
            let has_tag = costs.cost_centre_tag.is_some();
            let is_second = subject
                .as_ref()
                .is_some_and(|subject| !known.insert(subject.clone()));
            let problem = match &subject {
                None => "set one of pipeline and cost_centre",
                Some(subject) if subject.name.trim().is_empty() => "the name is empty",
                Some(_) if budget.usd_a_month == 0 => "usd_a_month must be greater than 0",
                Some(subject) if subject.dimension == CostDimension::CostCentre && !has_tag => {
                    "set cost_centre_tag in [costs], or there are no cost centres"
                }
                Some(_) if is_second => "it has two budgets",
                Some(_) => continue,
            };
            return Err(PolicyError::Budget {
                index,
                subject: subject.map_or_else(
                    || "an entry without pipeline and cost_centre, or with both".to_owned(),
                    |one| one.to_string(),
                ),
                problem,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn a_budget_names_one_pipeline_or_cost_centre_and_an_amount() {
        let check = |body: &str, expect: Result<&str, &str>| {
            let tag = "[costs]\ncost_centre_tag = \"CostCenter\"\n";
            let policy = Policy::parse(&format!("{tag}{body}"));
            match (policy, expect) {
                (Ok(policy), Ok(expect)) => {
                    let budget = policy.budgets.last().expect("a budget");
                    let subject = budget.subject().expect("a subject");
                    assert_eq!(format!("{subject}: {}", budget.amount()), expect);
                }
                (Err(error), Err(expect)) => {
                    assert!(error.to_string().contains(expect), "{error}");
                }
                (got, expect) => panic!("{body}: {got:?}, not {expect:?}"),
            }
        };
        let one = "[[budgets]]\npipeline = \"rnaseq\"\nusd_a_month = 500\n";
        let two = "[[budgets]]\ncost_centre = \"lab\"\nusd_a_month = 20\nowner = \"ana\"\n";
        check(one, Ok("pipeline rnaseq: $500.00"));
        check(two, Ok("cost centre lab: $20.00"));
        check(&format!("{one}{two}"), Ok("cost centre lab: $20.00"));
        check(
            &format!("{one}{one}"),
            Err("pipeline rnaseq: it has two budgets"),
        );
        check("[[budgets]]\nusd_a_month = 1\n", Err("set one of pipeline"));
        let both = "[[budgets]]\npipeline = \"a\"\ncost_centre = \"b\"\nusd_a_month = 1\n";
        check(both, Err("set one of pipeline"));
        let none = "[[budgets]]\npipeline = \"a\"\nusd_a_month = 0\n";
        check(none, Err("must be greater than 0"));
        check(
            "[[budgets]]\npipeline = \" \"\nusd_a_month = 1\n",
            Err("the name is empty"),
        );
        check(
            "[[budgets]]\npipeline = \"a\"\nusd_a_month = -1\n",
            Err("line 5"),
        );
        check("[[budgets]]\npipeline = \"a\"\n", Err("usd_a_month"));
        let many = "[[budgets]]\npipeline = \"a\"\nusd_a_month = 1\n".repeat(201);
        check(&many, Err("at most 200 budgets"));
    }

    #[test]
    fn a_budget_of_a_cost_centre_needs_the_tag_of_cost_centres() {
        let error = Policy::parse("[[budgets]]\ncost_centre = \"lab\"\nusd_a_month = 20\n");
        let error = error.expect_err("there is no tag").to_string();
        assert!(error.contains("set cost_centre_tag"), "{error}");
    }
}
