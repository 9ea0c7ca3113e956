//! The bill by day, divided by use, and by resource.

use std::collections::BTreeMap;

use axum::response::Response;
use ebb_model::report::bill_day::BilledDayShares;
use ebb_model::report::billed_resources::BilledResource;
use ebb_model::report::cost_table::CostDimensions;
use ebb_report::cost_text;
use ebb_report::page::bill;
use ebb_report::page::bill::Bars;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::one_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::Query;
use crate::pages::cost_shares::{self, CostPanel};
use crate::pages::csv_table;
use crate::pages::pager::{Link, Pager};
use crate::pages::value_text::name;
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Most services with a name; the cheapest are left out.
const MAX_SERVICES: usize = 15;

/// The part of the list of resources.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CostPart {
    page: Option<usize>,
    format: Option<String>,
    /// Names that divide the costs; with `format`, the CSV contains these costs.
    by: Option<CostDimensions>,
}

#[derive(Serialize)]
struct Costs {
    /// A sentence for each missing part of the bill.
    gaps: Vec<String>,
    shares: Option<CostPanel>,
    lines: Vec<String>,
    bars: Option<Bars>,
    days: Vec<DayRow>,
    services: Vec<(String, String)>,
    services_left_out: usize,
    resources: Vec<ResourceRow>,
    pager: Pager,
    left_out: usize,
}

/// One day of the bill.
#[derive(Serialize)]
struct DayRow {
    day: String,
    estimated: bool,
    billed: String,
    parts: Vec<String>,
}

/// One resource of the bill.
#[derive(Serialize)]
struct ResourceRow {
    id: String,
    name: String,
    is_node: bool,
    instance_type: Option<String>,
    region: Option<String>,
    owner: Option<String>,
    days: usize,
    billed: String,
    per_hour: Option<String>,
}

/// The bill.
pub(crate) async fn costs(Query(part): Query<CostPart>, view: View) -> Result<Response, Problem> {
    let report = &view.report;
    if csv_table::is_wanted(part.format.as_ref())? {
        return match &part.by {
            Some(by) => cost_shares::csv(report, by),
            None => csv(&report.ledger),
        };
    }
    let shares = CostPanel::new(report, &part.by.unwrap_or_default())?;
    let billed = report.billed.resources.iter().collect();
    let link = Link::new("/costs");
    let (resources, pager) = Pager::cut(billed, ("page", part.page), &link);
    let is_node = |id: &str| report.nodes.iter().any(|node| node.id == id);
    let (services, services_left_out) = services(&report.ledger);
    let content = Costs {
        gaps: cost_text::gap_lines(&report.bill_gaps()),
        shares,
        lines: bill::lines(&report.ledger),
        bars: bill::bars(&report.ledger),
        days: report.ledger.iter().rev().map(DayRow::from).collect(),
        services,
        services_left_out,
        resources: resources
            .into_iter()
            .map(|one| ResourceRow::from_billed(one, is_node(&one.id)))
            .collect(),
        pager,
        left_out: report.billed.left_out,
    };
    Ok(view.render(Sheet {
        template: "costs.html",
        title: "Costs".to_owned(),
        section: "costs",
        json: Some("/v1/report".to_owned()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

impl From<&BilledDayShares> for DayRow {
    fn from(day: &BilledDayShares) -> Self {
        Self {
            day: one_line(&day.day),
            estimated: day.estimated,
            billed: day.billed.to_string(),
            parts: day.parts().iter().map(ToString::to_string).collect(),
        }
    }
}

impl ResourceRow {
    fn from_billed(one: &BilledResource, is_node: bool) -> Self {
        Self {
            id: one.id.clone(),
            name: name(one.name.as_ref().unwrap_or(&one.id)),
            is_node,
            instance_type: one.instance_type.as_ref().map(ToString::to_string),
            region: one.region.as_ref().map(ToString::to_string),
            owner: one.owner.as_deref().map(name),
            days: one.by_day.len(),
            billed: one.by_day.values().copied().sum::<Usd>().to_string(),
            per_hour: one.per_hour.map(|usd| usd.to_string()),
        }
    }
}

/// The cost of all days by service, the most expensive first, and the number of other services.
fn services(days: &[BilledDayShares]) -> (Vec<(String, String)>, usize) {
    let mut sums: BTreeMap<&str, Usd> = BTreeMap::new();
    for (service, usd) in days.iter().flat_map(|day| &day.by_service) {
        let sum = sums.entry(service).or_default();
        *sum = *sum + *usd;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(service, usd)| (std::cmp::Reverse(*usd), *service));
    let left_out = sums.len().saturating_sub(MAX_SERVICES);
    let shown = sums.into_iter().take(MAX_SERVICES);
    let shown = shown.map(|(service, usd)| (name(service), usd.to_string()));
    (shown.collect(), left_out)
}

fn csv(days: &[BilledDayShares]) -> Result<Response, Problem> {
    let columns = [
        "day",
        "estimated",
        "billed_usd",
        "tasks_usd",
        "other_work_usd",
        "findings_usd",
        "idle_usd",
        "unallocated_usd",
    ];
    let rows = days.iter().map(|day| {
        let [tasks, other, findings, idle, unallocated] =
            day.parts().map(|usd| Some(usd.to_rounded(6)));
        [
            Some(day.day.clone()),
            Some(day.estimated.to_string()),
            Some(day.billed.to_rounded(6)),
            tasks,
            other,
            findings,
            idle,
            unallocated,
        ]
    });
    csv_table::table(columns, rows)
}
