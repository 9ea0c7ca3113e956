//! Why a resource has a finding, or none. A sweep stores the explanations.

use axum::extract::State;
use ebb_model::finding_kind::current_id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::{Answer, Head, OfReport};
use crate::extract::{Moment, Name, Newest, Query, Shared};
use crate::openapi::NoParameters;
use crate::problem::Problem;

/// The id of a resource or finding
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ExplainParameter(#[schemars(length(min = 1))] String);

/// The explanation of one resource.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct StoredExplanation<'a> {
    /// The questions of each rule with their answers, the findings, and the reasons why rules did
    /// not evaluate the resource; as JSON of `ebb explain`.
    explanation: &'a Map<String, Value>,
}

/// The explanation of a resource, or of the resource of a finding.
pub(crate) async fn explain(
    Name(ExplainParameter(name)): Name<ExplainParameter>,
    Query(NoParameters {}): Query<NoParameters>,
    State(store): Shared,
    moment: Moment,
    newest: Newest,
) -> Result<Answer<OfReport<'static, StoredExplanation<'static>>>, Problem> {
    let id = current_id(&name);
    let mut findings = newest.report.findings.iter();
    let finding = findings.find(|finding| finding.id == id);
    let resource = finding.map_or(&*name, |finding| &finding.resource.id);
    let Some(explanation) = store.explanation(resource, moment.now).await? else {
        let index = store.detail_index(moment.now).await?;
        let left_out = index.map_or(0, |index| index.explanations_left_out);
        return Err(missing(&name, left_out));
    };
    let part = StoredExplanation {
        explanation: &explanation,
    };
    let head = Head::new("ebb.explanation/1", &newest.report);
    Answer::json(&OfReport { head, part }, &newest.version)
}

fn missing(name: &str, left_out: usize) -> Problem {
    let left_out = match left_out {
        0 => String::new(),
        count => format!(" A limit left out {count} of them."),
    };
    Problem::Target {
        what: "explanation",
        detail: format!(
            "No explanation of '{name}' is stored. A sweep stores explanations of resources with a \
             finding and of resources that it did not evaluate.{left_out} For other resources, run \
             `ebb explain NAME --lake URL`. On AWS, run `ebb scan --explain NAME`."
        ),
    }
}
