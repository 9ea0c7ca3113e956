//! The cost of machines by the names of tasks, as a part of the page of costs.

use axum::response::Response;
use ebb_model::report::Report;
use ebb_model::report::cost_shares::{CostDimension, CostName, CostShares};
use ebb_model::report::cost_table::{CostDimensions, CostRow, CostTable};
use ebb_model::report::workflow_runs::UNASSIGNED;
use ebb_report::cost_text;
use ebb_telemetry::safe_text::one_line;
use serde::Serialize;

use crate::pages::csv_table;
use crate::pages::pager::Link;
use crate::pages::value_text::name;
use crate::pages::view::segment;
use crate::problem::Problem;

/// Costs by chosen names.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CostPanel {
    by: String,
    days: String,
    total: String,
    /// The total, and the part of it that is billed.
    headline: String,
    choices: Vec<Division>,
    csv: String,
    heads: Vec<String>,
    rows: Vec<ShareRow>,
    /// Name, cost and share of the cost that belongs to no task.
    rest: Vec<(String, String, String)>,
    notes: Vec<String>,
}

/// A link to the same costs by other names.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Division {
    label: String,
    href: String,
    is_chosen: bool,
}

/// The cost of the tasks with the same names.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ShareRow {
    /// Each name with the page about it; `None` if there is no such page.
    names: Vec<(String, Option<String>)>,
    tasks: usize,
    /// `?` for tasks on machines without a price.
    cost: String,
    share: String,
    unused: String,
}

impl CostPanel {
    /// `None` if the report has no costs.
    ///
    /// # Errors
    /// If the report cannot be divided by these names.
    pub(crate) fn new(report: &Report, by: &CostDimensions) -> Result<Option<Self>, Problem> {
        let costs = table(&report.costs, by)?;
        let Some((from, to)) = costs.from.as_ref().zip(costs.to.as_ref()) else {
            return Ok(None);
        };
        let slugs: Vec<&str> = costs.by.iter().map(|one| one.slug()).collect();
        let slugs = slugs.join(",");
        let labels: Vec<String> = costs.by.iter().map(ToString::to_string).collect();
        let of_rest = costs.rest.iter().map(|rest| {
            let share = cost_text::share(rest.cost, costs.total);
            (cost_text::rest_name(rest), rest.cost.to_string(), share)
        });
        let link = Link::new("/costs").with("by", Some(&slugs));
        Ok(Some(Self {
            by: labels.join(" and "),
            days: format!("{} to {} (UTC)", one_line(from), one_line(to)),
            total: costs.total.to_string(),
            headline: cost_text::total(&costs),
            choices: choices(&report.costs, &slugs),
            csv: link.with("format", Some("csv")).to_string(),
            heads: labels.iter().map(|label| capitalized(label)).collect(),
            rows: costs
                .rows
                .iter()
                .map(|row| row_of(row, &costs, report))
                .collect(),
            rest: of_rest.collect(),
            notes: cost_text::notes(&costs, "Unused", "Cost"),
        }))
    }
}

fn table(costs: &CostShares, by: &CostDimensions) -> Result<CostTable, Problem> {
    costs.table(by, None).map_err(Problem::from)
}

/// The same costs by day as CSV.
///
/// # Errors
/// If the report cannot be divided by these names.
pub(crate) fn csv(report: &Report, by: &CostDimensions) -> Result<Response, Problem> {
    let table = table(&report.costs, by)?;
    csv_table::file(cost_text::csv(&table, report.origin))
}

fn choices(costs: &CostShares, chosen: &str) -> Vec<Division> {
    let known = CostDimension::ALL.into_iter();
    let known =
        known.filter(|one| *one != CostDimension::CostCentre || costs.cost_centre_tag.is_some());
    let single = known.map(|one| (one.to_string(), one.slug().to_owned()));
    let both = ("pipeline and user".to_owned(), "pipeline,user".to_owned());
    let all = single.chain([both]).map(|(label, by)| Division {
        label,
        is_chosen: by == chosen,
        href: Link::new("/costs").with("by", Some(&by)).to_string(),
    });
    all.collect()
}

fn row_of(row: &CostRow, costs: &CostTable, report: &Report) -> ShareRow {
    let names = costs.by.iter().zip(&row.names).map(|(dimension, one)| {
        let text = name(&cost_text::name(*dimension, one));
        (text, page(*dimension, one, report))
    });
    let amount = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
    ShareRow {
        names: names.collect(),
        tasks: row.tasks + row.tasks_without_price,
        cost: amount(row.cost.map(|usd| usd.to_string())),
        share: amount(row.cost.map(|usd| cost_text::share(usd, costs.total))),
        unused: amount(row.unused.map(|usd| usd.to_string())),
    }
}

/// The page about a name, if the report contains it.
fn page(dimension: CostDimension, name: &CostName, report: &Report) -> Option<String> {
    let has_run = |run: &str| report.runs.runs.iter().any(|known| known.run == run);
    let run_page = |run: &str| has_run(run).then(|| format!("/runs/{}", segment(run)));
    match (dimension, name) {
        (CostDimension::Run, CostName::Name(run)) => run_page(run),
        (CostDimension::Run, CostName::Unknown) => run_page(UNASSIGNED),
        (CostDimension::Pipeline, CostName::Name(pipeline)) => Some(
            Link::new("/runs")
                .with("pipeline", Some(pipeline))
                .to_string(),
        ),
        (CostDimension::Step, CostName::Name(step)) => {
            let is_known = report.steps.iter().any(|known| known.step == *step);
            is_known.then(|| format!("/steps/{}", segment(step)))
        }
        _ => None,
    }
}

fn capitalized(label: &str) -> String {
    let mut chars = label.chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}
