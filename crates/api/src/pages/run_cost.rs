//! The cost of a run: the cost that the report allocates to it, as on the page of costs. Without one,
//! an estimate: for each task the share of its node that its request occupies, at the present price
//! of the node.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::report::Report;
use ebb_model::report::node_summary::NodeSummary;
use ebb_model::report::run_costs::{AllocatedCost, RunCosts};
use ebb_model::report::run_opening::NodeUse;
use ebb_sizing::cheapest_type::MachineSize;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::one_line;
use ebb_telemetry::units::{Bytes, MilliCores};
use serde::Serialize;

/// The cost of a run.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunCost {
    /// The same as by run on the page of costs.
    Allocated(AllocatedRunCost),
    /// The report allocates none to the run.
    Estimate(CostEstimate),
}

impl RunCost {
    /// The cost of a run whose tasks use nodes like this.
    pub(crate) fn new<'a>(
        (run, node_use): (&str, impl FnOnce() -> Cow<'a, [NodeUse]>),
        report: &Report,
        catalogue: &Catalogue,
    ) -> Self {
        let costs = RunCosts::new(&report.costs);
        match costs.of_name(run, &report.runs) {
            Some(cost) => Self::Allocated(AllocatedRunCost::from_cost(&cost, report)),
            None => Self::Estimate(CostEstimate::from_node_use(
                &node_use(),
                &report.nodes,
                catalogue,
            )),
        }
    }
}

/// The cost that the report allocates to a run.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AllocatedRunCost {
    /// `None` if no machine of its tasks has a price.
    cost: Option<String>,
    /// The first day of the costs.
    since: Option<String>,
    tasks_without_price: usize,
}

impl AllocatedRunCost {
    fn from_cost(cost: &AllocatedCost, report: &Report) -> Self {
        Self {
            cost: cost.cost.map(|usd| usd.to_string()),
            since: (report.costs.days.first()).map(|first| one_line(&first.day)),
            tasks_without_price: cost.tasks_without_price,
        }
    }
}

/// The cost of the tasks with a known price and request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CostEstimate {
    /// `None` if no task has a known cost.
    cost: Option<String>,
    /// Number of tasks in the cost.
    priced: usize,
    /// Number of tasks without a known price or request, or on a node with GPUs, because the number
    /// of GPUs of a task is unknown.
    unpriced: usize,
}

impl CostEstimate {
    fn from_node_use(node_use: &[NodeUse], nodes: &[NodeSummary], catalogue: &Catalogue) -> Self {
        let nodes: HashMap<&str, &NodeSummary> =
            nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let (mut sum, mut priced, mut unpriced) = (Usd::ZERO, 0_usize, 0_usize);
        for one in node_use {
            let node = nodes.get(one.node.as_str());
            match node.and_then(|node| cost(one, node, catalogue)) {
                Some(cost) => {
                    sum = sum + cost;
                    priced = priced.saturating_add(one.tasks);
                }
                None => unpriced = unpriced.saturating_add(one.tasks),
            }
        }
        Self {
            cost: (priced > 0).then(|| sum.to_string()),
            priced,
            unpriced,
        }
    }
}

fn cost(one: &NodeUse, node: &NodeSummary, catalogue: &Catalogue) -> Option<Usd> {
    let per_hour = node.per_hour?;
    let spec = catalogue.spec(node.instance_type.as_ref()?)?;
    if spec.gpu_count() > 0 {
        return None;
    }
    let request = SizedRequest {
        cores: one.requested_cores.and_then(milli_cores),
        memory: one.requested_memory_bytes.map(Bytes),
    };
    let share = MachineSize::from_spec(spec).share_of_price(per_hour, request, 0)?;
    let time = Duration::try_from_secs_f64(one.seconds).ok()?;
    Some(share.over(time))
}

fn milli_cores(cores: f64) -> Option<MilliCores> {
    // `as` saturates.
    (cores > 0.0).then(|| MilliCores((cores * 1000.0).round() as u64))
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::UsdPerHour;

    use ebb_model::report::task_brief::BriefList;

    use super::*;
    use crate::pages::tests::{node_summary, task_list};

    fn node(id: &str, instance_type: Option<&str>, micros: Option<i64>) -> NodeSummary {
        let mut node = node_summary(id);
        node.instance_type =
            instance_type.map(|text| InstanceType::new(text).expect("a machine type"));
        node.per_hour = micros.map(UsdPerHour::from_micros);
        node
    }

    #[test]
    fn a_run_costs_its_shares_of_nodes_and_unknown_costs_are_counted() {
        let mut tasks = BriefList::from(&task_list()).tasks;
        // 39 minutes with half of the cores of a machine.
        tasks[0].requested_cores = Some(2.0);
        tasks[0].requested_memory_bytes = None;
        let check = |nodes: &[NodeSummary], cost: Option<&str>, priced: usize| {
            let node_use = NodeUse::from_tasks(&tasks);
            let found = CostEstimate::from_node_use(&node_use, nodes, Catalogue::built_in());
            let expect = CostEstimate {
                cost: cost.map(str::to_owned),
                priced,
                unpriced: 3 - priced,
            };
            assert_eq!(found, expect);
        };
        check(&[], None, 0);
        check(&[node("i-0aaa", Some("m5.xlarge"), None)], None, 0);
        check(&[node("i-0aaa", None, Some(2_000_000))], None, 0);
        check(
            &[node("i-0aaa", Some("p3.2xlarge"), Some(2_000_000))],
            None,
            0,
        );
        let known = node("i-0aaa", Some("m5.xlarge"), Some(2_000_000));
        check(&[known], Some("$0.65"), 1);
    }
}
