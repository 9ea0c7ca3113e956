//! Costs by run, pipeline, step, user and cost centre.

use ebb_model::report::cost_table::{CostDimensions, CostMonth, CostQueryError, CostTable};
use ebb_model::report::own_cost::OwnCost;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::extract::{Newest, Query};
use crate::problem::Problem;

/// The division of costs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostQuery {
    /// Names that divide the costs, with commas: run, pipeline, step, user, cost_centre. The default
    /// is pipeline. Run and step cannot be combined
    by: Option<CostDimensions>,
    /// Only days of this month, such as 2026-10
    month: Option<CostMonth>,
}

/// Costs by chosen names. All rows add up to the total.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Costs")]
pub(crate) struct CostAnswer {
    /// The name and version of the format.
    schema: &'static str,
    /// The time of the evaluation.
    at: Timestamp,
    /// Simulated if any input is simulated.
    origin: Origin,
    costs: CostTable,
    /// The missing parts of the bill.
    bill_gaps: Vec<Gap>,
    /// The cost of Ebb itself, for any month.
    own_cost: OwnCost,
}

impl From<CostQueryError> for Problem {
    fn from(error: CostQueryError) -> Self {
        let detail = error.in_one_line();
        match error {
            CostQueryError::NoCostCentres => Self::Target {
                what: "cost-centre",
                detail,
            },
            _ => Self::Query(detail),
        }
    }
}

/// Divides the costs.
pub(crate) async fn costs(
    Query(query): Query<CostQuery>,
    newest: Newest,
) -> Result<Answer<CostAnswer>, Problem> {
    let by = query.by.unwrap_or_default();
    let table = newest.report.costs.table(&by, query.month.as_ref());
    let costs = table.map_err(Problem::from)?;
    let answer = CostAnswer {
        schema: "ebb.costs/1",
        at: newest.report.at,
        origin: newest.report.origin,
        costs,
        bill_gaps: newest.report.bill_gaps().into_iter().cloned().collect(),
        own_cost: newest.report.own_cost.clone(),
    };
    Answer::json(&answer, &newest.version)
}
