//! Nodes, and the recommendation for one node.

use ebb_model::advice::node::{MAX_NODES, NodeAdvice};
use ebb_model::inventory::instance::InstanceState;
use ebb_model::report::node_summary::NodeSummary;
use ebb_telemetry::identity::Region;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::{Answer, Head, OfReport, PageOfReport, Paged, owner_totals};
use crate::extract::{Name, Newest, Page, Query, is_owned_by, passes};
use crate::problem::Problem;

/// Filters of nodes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeQuery {
    #[serde(flatten)]
    page: Page,
    /// Only in this region
    region: Option<String>,
    /// Only in this state
    state: Option<InstanceState>,
    /// Only of this machine type
    instance_type: Option<String>,
    /// Only of this owner; `-` means without an owner
    owner: Option<String>,
}

impl NodeQuery {
    fn is_wanted(&self, node: &NodeSummary) -> bool {
        let region = node.region.as_ref().map(Region::as_str);
        let instance_type = node.instance_type.as_ref().map(|name| name.as_str());
        passes(self.region.as_ref(), region)
            && is_owned_by(self.owner.as_ref(), node.owner.as_deref())
            && passes(self.instance_type.as_ref(), instance_type)
            && self.state.is_none_or(|state| node.state == Some(state))
    }
}

/// Lists nodes.
pub(crate) async fn nodes(
    Query(query): Query<NodeQuery>,
    newest: Newest,
) -> Result<Answer<PageOfReport<'static, &'static NodeSummary>>, Problem> {
    let report = &newest.report;
    let wanted = report.nodes.iter().filter(|node| query.is_wanted(node));
    let part = Paged::cut(&query.page, wanted.collect(), |node| node.id.clone())?;
    let totals = owner_totals(report, query.owner.as_ref());
    let head = Head::new("ebb.nodes/2", report).with_totals(totals);
    Answer::json(&OfReport { head, part }, &newest.version)
}

/// A node's id
#[derive(Deserialize, JsonSchema)]
pub(crate) struct NodeName(#[schemars(length(min = 1))] String);

/// The region of a node.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeScope {
    /// Only in this region
    region: Option<String>,
}

/// The recommendation for one node.
pub(crate) async fn node(
    Name(NodeName(name)): Name<NodeName>,
    Query(place): Query<NodeScope>,
    newest: Newest,
) -> Result<Answer<OfReport<'static, &'static NodeAdvice>>, Problem> {
    let report = &newest.report;
    let is_wanted = |node: &&NodeAdvice| {
        node.node == name && passes(place.region.as_ref(), Some(node.region.as_str()))
    };
    let mut nodes = report.targets.nodes.iter();
    let part = nodes.find(is_wanted).ok_or_else(|| Problem::Target {
        what: "node",
        detail: format!(
            "There is no recommendation for node '{name}'. The report contains recommendations for the \
             {MAX_NODES} most expensive running nodes with a probe. /v1/nodes lists all nodes."
        ),
    })?;
    let head = Head::new("ebb.node/2", report).without_origin();
    Answer::json(&OfReport { head, part }, &newest.version)
}
