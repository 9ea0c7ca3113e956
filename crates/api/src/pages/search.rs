//! Search for a text in the names of findings, nodes, steps and runs.

use axum::response::Response;
use ebb_report::step_advice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::Query;
use crate::pages::findings::FindingRow;
use crate::pages::nodes::NodeRow;
use crate::pages::pager::Link;
use crate::pages::runs::RunRow;
use crate::pages::steps::StepRow;
use crate::pages::view::{Sheet, View};
use crate::pages::{findings, nodes, runs};
use crate::problem::Problem;

/// Most results of each sort.
const MAX_RESULTS: usize = 25;

/// The text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchText {
    #[serde(default)]
    q: String,
}

#[derive(Serialize)]
struct Results {
    q: String,
    total: usize,
    findings: SearchHits<FindingRow>,
    nodes: SearchHits<NodeRow>,
    steps: SearchHits<StepRow>,
    runs: SearchHits<RunRow>,
}

/// The results of one sort.
#[derive(Serialize)]
struct SearchHits<T> {
    rows: Vec<T>,
    /// Number of results, also of those that are not shown.
    total: usize,
    /// The list with the same filter.
    link: String,
}

impl<T> SearchHits<T> {
    fn of<I>(path: &str, text: &str, all: impl Iterator<Item = I>, row: impl Fn(I) -> T) -> Self {
        let (mut rows, mut total) = (Vec::new(), 0);
        for one in all {
            total += 1;
            if rows.len() < MAX_RESULTS {
                rows.push(row(one));
            }
        }
        Self {
            rows,
            total,
            link: Link::new(path).with("q", Some(text)).to_string(),
        }
    }
}

/// The results for a text.
pub(crate) async fn search(
    Query(SearchText { q }): Query<SearchText>,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let text = q.trim();
    let is_text = !text.is_empty();
    let steps = step_advice::steps(report);
    let is_step = |name: &str| findings::is_in_any(text, [name].into_iter());
    let found = view.findings();
    let found = found.filter(|one| is_text && findings::contains(one, text));
    let found = SearchHits::of("/findings", text, found, |one| FindingRow::of(one, report));
    let all = report.nodes.iter();
    let all = all.filter(|one| is_text && nodes::contains(one, text));
    let nodes = SearchHits::of("/nodes", text, all, NodeRow::from);
    let all = steps.iter().filter(|one| is_text && is_step(&one.step));
    let steps = SearchHits::of("/steps", text, all, StepRow::from);
    let all = report.runs.runs.iter();
    let all = all.filter(|one| is_text && runs::contains(one, text));
    let runs = SearchHits::of("/runs", text, all, RunRow::from);
    let content = Results {
        total: found.total + nodes.total + steps.total + runs.total,
        findings: found,
        nodes,
        steps,
        runs,
        q: text.to_owned(),
    };
    Ok(view.render(Sheet {
        template: "search.html",
        title: "Search".to_owned(),
        section: "search",
        json: None,
        csv: None,
        content,
    }))
}
