//! The list of nodes.

use axum::response::Response;
use ebb_model::cost::PriceBasis;
use ebb_model::report::node_summary::NodeSummary;
use ebb_report::csv::slug;
use ebb_report::page::money::bounded;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::safe_text::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Query, passes};
use crate::pages::csv_table;
use crate::pages::findings::{Choice, choices, is_in_any};
use crate::pages::pager::{Link, Pager, given};
use crate::pages::value_text::{When, name};
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFilter {
    region: Option<String>,
    owner: Option<String>,
    instance_type: Option<String>,
    q: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

/// The price of a node, which can be only an upper bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodePrice {
    per_hour: UsdPerHour,
    basis: Option<PriceBasis>,
}

impl NodePrice {
    /// `None` when no price is known.
    pub(crate) fn from_node(node: &NodeSummary) -> Option<Self> {
        let basis = node.basis;
        node.per_hour.map(|per_hour| Self { per_hour, basis })
    }

    /// The cost of so many hours.
    pub(crate) fn cost(self, hours: usize) -> String {
        bounded(self.per_hour.part(hours as u64, 1).0, self.is_bound())
    }

    fn is_bound(self) -> bool {
        self.basis.is_some_and(PriceBasis::is_bound)
    }
}

/// One node as a row.
#[derive(Serialize)]
pub(crate) struct NodeRow {
    pub(crate) id: String,
    pub(crate) name: String,
    instance_type: Option<String>,
    market: Option<String>,
    state: Option<String>,
    region: Option<String>,
    owner: Option<String>,
    heard_at: Option<When>,
    per_hour: Option<String>,
    findings: usize,
}

impl From<&NodeSummary> for NodeRow {
    fn from(node: &NodeSummary) -> Self {
        Self {
            id: node.id.clone(),
            name: name(node.name.as_ref().unwrap_or(&node.id)),
            instance_type: node.instance_type.as_ref().map(ToString::to_string),
            market: node.market.map(|market| market.to_string()),
            state: node.state.map(|state| state.to_string()),
            region: node.region.as_ref().map(ToString::to_string),
            owner: node.owner.as_deref().map(name),
            heard_at: node.heard_at.map(When::from),
            per_hour: NodePrice::from_node(node)
                .map(|price| bounded(price.per_hour, price.is_bound())),
            findings: node.findings.len(),
        }
    }
}

#[derive(Serialize)]
struct Nodes {
    headline: String,
    rows: Vec<NodeRow>,
    pager: Pager,
    regions: Vec<Choice>,
    owners: Vec<Choice>,
    types: Vec<Choice>,
    q: String,
    is_filtered: bool,
    left_out: usize,
}

impl NodeFilter {
    fn is_wanted(&self, node: &NodeSummary) -> bool {
        let region = node.region.as_ref().map(Region::as_str);
        let instance_type = node.instance_type.as_ref().map(|one| one.as_str());
        passes(given(self.region.as_ref()), region)
            && passes(given(self.owner.as_ref()), node.owner.as_deref())
            && passes(given(self.instance_type.as_ref()), instance_type)
            && given(self.q.as_ref()).is_none_or(|text| contains(node, text))
    }

    fn link(&self, path: &str) -> Link {
        Link::new(path)
            .with("region", self.region.as_deref())
            .with("owner", self.owner.as_deref())
            .with("instance_type", self.instance_type.as_deref())
    }
}

/// Whether a text is in the names of a node.
pub(crate) fn contains(node: &NodeSummary, text: &str) -> bool {
    let texts = [Some(&node.id), node.name.as_ref(), node.owner.as_ref()];
    is_in_any(text, texts.into_iter().flatten().map(String::as_str))
}

/// The list of nodes.
pub(crate) async fn nodes(
    Query(filter): Query<NodeFilter>,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let wanted = report.nodes.iter().filter(|node| filter.is_wanted(node));
    let wanted: Vec<&NodeSummary> = wanted.collect();
    if csv_table::is_wanted(filter.format.as_ref())? {
        return csv(&wanted);
    }
    let link = filter.link("/nodes").with("q", filter.q.as_deref());
    let headline = counted(wanted.len(), "node", "nodes");
    let (rows, pager) = Pager::cut(wanted, ("page", filter.page), &link);
    let all = || report.nodes.iter();
    let content = Nodes {
        headline,
        rows: rows.into_iter().map(NodeRow::from).collect(),
        pager,
        regions: choices(
            all().filter_map(|node| node.region.as_ref().map(Region::as_str)),
            given(filter.region.as_ref()),
        ),
        owners: choices(
            all().filter_map(|node| node.owner.as_deref()),
            given(filter.owner.as_ref()),
        ),
        types: choices(
            all().filter_map(|node| node.instance_type.as_ref().map(|one| one.as_str())),
            given(filter.instance_type.as_ref()),
        ),
        is_filtered: link.to_string() != "/nodes",
        q: filter.q.clone().unwrap_or_default(),
        left_out: report.nodes_left_out,
    };
    Ok(view.render(Sheet {
        template: "nodes.html",
        title: "Nodes".to_owned(),
        section: "nodes",
        json: Some(filter.link("/v1/nodes").to_string()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

fn csv(nodes: &[&NodeSummary]) -> Result<Response, Problem> {
    let columns = [
        "node",
        "name",
        "region",
        "instance_type",
        "market",
        "state",
        "owner",
        "heard_at",
        "per_hour_usd",
        "price_basis",
        "findings",
    ];
    let rows = nodes.iter().map(|node| {
        [
            Some(node.id.clone()),
            node.name.clone(),
            node.region.as_ref().map(ToString::to_string),
            node.instance_type.as_ref().map(ToString::to_string),
            node.market.map(|market| market.to_string()),
            node.state.map(|state| state.to_string()),
            node.owner.clone(),
            node.heard_at.map(|at| at.to_string()),
            node.per_hour.map(|usd| usd.0.to_rounded(6)),
            node.basis.as_ref().map(slug),
            Some(node.findings.join(" ")),
        ]
    });
    csv_table::table(columns, rows)
}
