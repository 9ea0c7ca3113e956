//! Search for a text in the names of findings, nodes, steps and runs.

use axum::response::{IntoResponse, Response};
use ebb_model::report::run_costs::RunCosts;
use ebb_report::step_advice;
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::extract::Query;
use crate::pages::csv_table;
use crate::pages::findings::FindingRow;
use crate::pages::nodes::NodeRow;
use crate::pages::pager::Link;
use crate::pages::runs::RunRow;
use crate::pages::steps::StepRow;
use crate::pages::view::{Sheet, View, segment};
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
    /// `csv` or `json`: all results.
    format: Option<String>,
}

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultForm {
    Page,
    Csv,
    Json,
}

impl ResultForm {
    fn parse(format: Option<&str>) -> Result<Self, Problem> {
        match format {
            None => Ok(Self::Page),
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some(_) => Err(Problem::Query("format is csv or json.".to_owned())),
        }
    }
}

/// One result.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Hit {
    /// `finding`, `node`, `step` or `run`.
    sort: &'static str,
    id: String,
    name: Option<String>,
    region: Option<String>,
    account: Option<String>,
    /// The path of its page.
    page: String,
}

/// All results as JSON.
#[derive(Serialize)]
struct HitList<'a> {
    schema: &'static str,
    at: Timestamp,
    origin: Origin,
    q: &'a str,
    total: usize,
    items: Vec<Hit>,
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
    fn find<I>(path: &str, text: &str, all: impl Iterator<Item = I>, row: impl Fn(I) -> T) -> Self {
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

/// All results for a text, in the order of the page.
fn hits(text: &str, view: &View) -> Vec<Hit> {
    let report = &view.report;
    let page = |folder: &str, id: &str| format!("/{folder}/{}", segment(id));
    let found = view.findings();
    let found = found.filter(|one| findings::contains(one, text));
    let found = found.map(|one| Hit {
        sort: "finding",
        id: one.id.clone(),
        name: one.resource.name.clone(),
        region: Some(one.resource.region.to_string()),
        account: one.resource.account.as_ref().map(ToString::to_string),
        page: page("findings", &one.id),
    });
    let all = report.nodes.iter().filter(|one| nodes::contains(one, text));
    let nodes = all.map(|one| Hit {
        sort: "node",
        id: one.id.clone(),
        name: one.name.clone(),
        region: one.region.as_ref().map(ToString::to_string),
        account: None,
        page: page("nodes", &one.id),
    });
    let steps = step_advice::steps(report);
    let all = steps.iter();
    let all = all.filter(|one| findings::is_in_any(text, [&*one.step].into_iter()));
    let steps = all.map(|one| Hit {
        sort: "step",
        id: one.step.clone(),
        name: None,
        region: one.region.as_ref().map(ToString::to_string),
        account: one.account.as_ref().map(ToString::to_string),
        page: page("steps", &one.step),
    });
    let all = report.runs.runs.iter();
    let runs = all.filter(|one| runs::contains(one, text)).map(|one| Hit {
        sort: "run",
        id: one.run.clone(),
        name: None,
        region: None,
        account: None,
        page: page("runs", &one.run),
    });
    found.chain(nodes).chain(steps).chain(runs).collect()
}

fn csv(hits: Vec<Hit>) -> Result<Response, Problem> {
    let columns = ["sort", "id", "name", "region", "account", "page"];
    let rows = hits.into_iter().map(|one| {
        [
            Some(one.sort.to_owned()),
            Some(one.id),
            one.name,
            one.region,
            one.account,
            Some(one.page),
        ]
    });
    csv_table::table(columns, rows)
}

fn json(text: &str, hits: Vec<Hit>, view: &View) -> Result<Response, Problem> {
    let list = HitList {
        schema: "ebb.search/1",
        at: view.report.at,
        origin: view.report.origin,
        q: text,
        total: hits.len(),
        items: hits,
    };
    Ok(Answer::json(&list, &view.version)?.into_response())
}

/// The results for a text.
pub(crate) async fn search(
    Query(SearchText { q, format }): Query<SearchText>,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let text = q.trim();
    let form = ResultForm::parse(format.as_deref())?;
    if form != ResultForm::Page {
        let hits = match text {
            "" => Vec::new(),
            text => hits(text, &view),
        };
        return match form {
            ResultForm::Csv => csv(hits),
            _ => json(text, hits, &view),
        };
    }
    let is_text = !text.is_empty();
    let steps = step_advice::steps(report);
    let is_step = |name: &str| findings::is_in_any(text, [name].into_iter());
    let found = view.findings();
    let found = found.filter(|one| is_text && findings::contains(one, text));
    let found = SearchHits::find("/findings", text, found, |one| {
        FindingRow::from_finding(one, report)
    });
    let all = report.nodes.iter();
    let all = all.filter(|one| is_text && nodes::contains(one, text));
    let nodes = SearchHits::find("/nodes", text, all, NodeRow::from);
    let all = steps.iter().filter(|one| is_text && is_step(&one.step));
    let steps = SearchHits::find("/steps", text, all, StepRow::from);
    let all = report.runs.runs.iter();
    let all = all.filter(|one| is_text && runs::contains(one, text));
    let costs = RunCosts::new(&report.costs);
    let runs = SearchHits::find("/runs", text, all, |run| RunRow::from_run(run, &costs));
    let link = |format: &str| {
        let link = Link::new("/search").with("q", Some(text));
        link.with("format", Some(format)).to_string()
    };
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
        json: is_text.then(|| link("json")),
        csv: is_text.then(|| link("csv")),
        content,
    }))
}
