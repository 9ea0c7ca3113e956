//! One node: its activity by hour, idle times with their price, its tasks and its findings.

use axum::extract::State;
use axum::response::Response;
use ebb_model::advice::node::NodeAdvice;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::report::timeline::NodeHours;
use ebb_report::page::hours;
use ebb_report::page::hours::HoursRow;
use ebb_telemetry::safe_text::one_line;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Moment, Name, Query, Shared};
use crate::pages::csv_table;
use crate::pages::findings::FindingRow;
use crate::pages::nodes::{NodePrice, NodeRow};
use crate::pages::pager::Link;
use crate::pages::tasks;
use crate::pages::tasks::TaskTable;
use crate::pages::value_text::{When, name};
use crate::pages::view::{Sheet, View, segment};
use crate::problem::Problem;

/// Most listed idle times; the longest are listed.
const MAX_IDLE: usize = 12;

/// The id of a node.
#[derive(Deserialize)]
pub(crate) struct NodePath(String);

/// The part of a list of tasks.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownTasks {
    page: Option<usize>,
    format: Option<String>,
}

#[derive(Serialize)]
struct NodePage {
    id: String,
    node: Option<NodeRow>,
    controller: Option<String>,
    basis: Option<String>,
    advice: Option<AdviceWords>,
    hours: Option<HoursRow>,
    idle: Vec<IdleTime>,
    /// `None` if no hour was observed.
    idle_hours: Option<usize>,
    idle_cost: Option<String>,
    findings: Vec<FindingRow>,
    tasks: TaskTable,
}

/// The cheapest type that fits.
#[derive(Serialize)]
struct AdviceWords {
    used: [Option<String>; 2],
    needs: [Option<String>; 2],
    offers: Vec<[String; 3]>,
    saving: Option<String>,
    refused: Option<String>,
    assumed: Vec<String>,
}

/// Consecutive hours without activity.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct IdleTime {
    from: When,
    hours: usize,
    /// `None` without a known price.
    cost: Option<String>,
}

/// One node.
pub(crate) async fn node(
    Name(NodePath(id)): Name<NodePath>,
    Query(part): Query<ShownTasks>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let summary = report.nodes.iter().find(|node| node.id == id);
    let mut all_hours = report.timeline.nodes.iter();
    let of_node = all_hours.find(|hours| hours.node.as_str() == id);
    let list = tasks::of_node(&store, &id, moment).await?;
    if summary.is_none() && of_node.is_none() && list.is_none() {
        return Err(Problem::Target {
            what: "node",
            detail: format!("The newest report has no node '{id}'. /nodes lists all nodes."),
        });
    }
    if csv_table::is_wanted(part.format.as_ref())? {
        return tasks::csv(list.as_ref(), report.at);
    }
    let link = Link::new(format!("/nodes/{}", segment(&id)));
    let title = summary.and_then(|node| node.name.as_deref()).unwrap_or(&id);
    let title = format!("Node {}", name(title));
    let tasks = TaskTable::from_list(list.as_ref(), report.at, (part.page, &link));
    let content = NodePage::new(&id, summary, of_node, (&view, tasks));
    Ok(view.render(Sheet {
        template: "node.html",
        title,
        section: "nodes",
        json: Some(format!("/v1{link}/activity")),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

impl NodePage {
    fn new(
        id: &str,
        summary: Option<&NodeSummary>,
        of_node: Option<&NodeHours>,
        (view, tasks): (&View, TaskTable),
    ) -> Self {
        let report = &view.report;
        let price = summary.and_then(NodePrice::from_node);
        let hours = of_node.map_or(&[][..], |hours| &hours.hours);
        let from = report.timeline.from.unwrap_or(report.at);
        let observed = hours.iter().any(Option::is_some);
        let idle_hours = observed.then(|| hours.iter().filter(|hour| **hour == Some(0)).count());
        let by_id = view.findings_by_id();
        let findings = summary.map_or(&[][..], |node| &node.findings);
        let findings = findings.iter().filter_map(|id| by_id.get(id.as_str()));
        let mut advice = report.targets.nodes.iter();
        Self {
            id: id.to_owned(),
            node: summary.map(NodeRow::from),
            controller: (summary.and_then(|node| node.controller.as_ref()))
                .map(|controller| one_line(&controller.to_string())),
            basis: (summary.and_then(|node| node.basis)).map(|basis| basis.to_string()),
            advice: advice.find(|node| node.node == id).map(AdviceWords::from),
            hours: of_node.map(|of_node| hours::row(of_node, from)),
            idle: idle_times(hours, from, price),
            idle_hours,
            idle_cost: (price.zip(idle_hours)).map(|(price, hours)| price.cost(hours)),
            findings: findings
                .map(|finding| FindingRow::from_finding(finding, report))
                .collect(),
            tasks,
        }
    }
}

/// Consecutive hours that were observed without activity, the longest first.
fn idle_times(hours: &[Option<u8>], from: Timestamp, price: Option<NodePrice>) -> Vec<IdleTime> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (at, _) in hours
        .iter()
        .enumerate()
        .filter(|(_, hour)| **hour == Some(0))
    {
        match spans.last_mut() {
            Some((begin, length)) if *begin + *length == at => *length += 1,
            _ => spans.push((at, 1)),
        }
    }
    spans.sort_by_key(|(begin, length)| (std::cmp::Reverse(*length), *begin));
    let idle = |(begin, length): (usize, usize)| {
        let after = SignedDuration::from_hours(i64::try_from(begin).unwrap_or_default());
        IdleTime {
            from: from.saturating_add(after).unwrap_or(from).into(),
            hours: length,
            cost: price.map(|price| price.cost(length)),
        }
    };
    spans.into_iter().take(MAX_IDLE).map(idle).collect()
}

impl From<&NodeAdvice> for AdviceWords {
    fn from(advice: &NodeAdvice) -> Self {
        let used = |used: &ebb_model::advice::node::Used| {
            let cores = used.cores.map(|cores| format!("{cores} cores"));
            [cores, used.memory.map(|memory| memory.to_string())]
        };
        let offers = advice.offers.iter().map(|offer| {
            let saving = offer.saves_an_hour.map(|usd| usd.to_string());
            [
                offer.instance_type.to_string(),
                offer.per_hour.to_string(),
                saving.unwrap_or_else(|| "not known".to_owned()),
            ]
        });
        Self {
            used: used(&advice.used),
            needs: used(&advice.needs),
            offers: offers.collect(),
            saving: advice.saving_a_month.map(|usd| usd.to_string()),
            refused: advice.refused.as_deref().map(one_line),
            assumed: advice.assumed.iter().map(|line| one_line(line)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::cost::PriceBasis;
    use ebb_telemetry::identity::NodeId;
    use ebb_telemetry::money::UsdPerHour;

    use super::*;
    use crate::pages::tests::{node_summary, page};

    #[test]
    fn idle_hours_in_a_row_are_one_time_and_unobserved_hours_are_not_idle() {
        let from = Timestamp::UNIX_EPOCH;
        let hours = [Some(0), None, Some(0), Some(0), Some(7), Some(0)];
        let mut node = node_summary("i-0aaa");
        node.per_hour = Some(UsdPerHour::from_micros(500_000));
        let times = idle_times(&hours, from, NodePrice::from_node(&node));
        let shown: Vec<_> = times
            .iter()
            .map(|time| (time.hours, time.cost.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [(2, Some("$1.00")), (1, Some("$0.50")), (1, Some("$0.50"))]
        );
        assert_eq!(times[0].from, (from + SignedDuration::from_hours(2)).into());
        assert_eq!(idle_times(&hours, from, None)[0].cost, None);
        assert!(idle_times(&[None, Some(3)], from, None).is_empty());
    }

    #[tokio::test]
    async fn the_price_of_a_spot_node_without_a_spot_price_is_an_upper_bound() {
        let mut node = node_summary("i-0aaa");
        node.per_hour = Some(UsdPerHour::from_micros(768_000));
        let check = async |basis: PriceBasis, price: &str, idle: &str, row: &str| {
            let mut report = ebb_report::testing::empty();
            let basis = Some(basis);
            report.nodes = vec![NodeSummary {
                basis,
                ..node.clone()
            }];
            report.timeline.nodes = vec![NodeHours {
                node: NodeId::new("i-0aaa").expect("an id"),
                name: None,
                hours: vec![Some(0); 2],
            }];
            let list = page(&report, "/nodes").await;
            assert!(list.contains(&format!(">{price}<")), "{list}");
            let of_node = page(&report, "/nodes/i-0aaa").await;
            for expect in [format!(">{price}<"), format!(">{idle} at this price<")] {
                assert!(of_node.contains(&expect), "{expect}: {of_node}");
            }
            let csv = page(&report, "/nodes?format=csv").await;
            assert!(csv.contains("per_hour_usd,price_basis,findings"), "{csv}");
            assert!(csv.contains(row), "{csv}");
        };
        check(
            PriceBasis::ListPriceAsUpperBound,
            "at most $0.7680&#x2f;h",
            "at most $1.54",
            "0.768000,list_price_as_upper_bound,",
        )
        .await;
        check(
            PriceBasis::SpotPrice,
            "$0.7680&#x2f;h",
            "$1.54",
            "0.768000,spot_price,",
        )
        .await;
    }
}
