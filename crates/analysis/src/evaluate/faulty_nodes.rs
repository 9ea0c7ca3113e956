//! An evaluation that goes on without the nodes whose data stop it.
//!
//! Data of a node that meets an error in the evaluation is stored, so it would stop the reports of all nodes
//! in each sweep. A search finds such nodes and leaves them out; the report names them. Two nodes that stop the
//! evaluation only together, as with a sum that overflows, are both left out.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebb_model::report::NotEvaluated;
use ebb_model::visibility_gap::{ALL_REGIONS, Gap};
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::identity::NodeId;

use crate::facts::Facts;
use crate::rules::verdict::Verdict;

/// Limit on the searches. Each takes as many evaluations as the number of nodes has binary digits, twice.
const MAX_SEARCHES: usize = 8;

/// Calls `evaluate` on the facts. If it panics, calls it without the nodes whose data make it panic.
///
/// `evaluate` must change nothing but its result, because a call that panics is repeated.
///
/// # Panics
/// With the panic of `evaluate`, if it panics without nodes, too, or because of many nodes.
pub fn evaluate_without_faulty_nodes<T>(
    facts: &Facts<'_>,
    evaluate: impl Fn(&Facts<'_>) -> T,
) -> T {
    let first = match caught(|| evaluate(facts)) {
        Ok(result) => return result,
        Err(panicked) => panicked,
    };
    let mut search = Search::new(facts, evaluate);
    if search.try_nodes(&[]).is_err() {
        resume_unwind(first);
    }
    for _ in 0..MAX_SEARCHES {
        if !search.leave_out_faulty() {
            break;
        }
        if let Ok(result) = search.try_nodes(&search.nodes) {
            return result;
        }
    }
    resume_unwind(first)
}

type Panicked = Box<dyn Any + Send>;

fn caught<T>(evaluate: impl FnOnce() -> T) -> Result<T, Panicked> {
    // The facts are only read, and the result of a panic is dropped.
    catch_unwind(AssertUnwindSafe(evaluate))
}

struct Search<'a, F> {
    facts: &'a Facts<'a>,
    evaluate: F,
    /// The nodes that are not left out, in order.
    nodes: Vec<NodeId>,
    left_out: Vec<NodeId>,
}

impl<'a, T, F: Fn(&Facts<'_>) -> T> Search<'a, F> {
    fn new(facts: &'a Facts<'a>, evaluate: F) -> Self {
        let of_state = facts.state.node_ids().chain(facts.hours.nodes.keys());
        let finished = facts.finished.iter().map(|step| &step.node);
        let all: BTreeSet<&NodeId> = of_state
            .chain(finished)
            .chain(facts.metrics.keys())
            .collect();
        Self {
            facts,
            evaluate,
            nodes: all.into_iter().cloned().collect(),
            left_out: Vec::new(),
        }
    }

    /// Evaluates the data of these nodes, which are in order, and of no other.
    fn try_nodes(&self, nodes: &[NodeId]) -> Result<T, Panicked> {
        let is_in = |node: &NodeId| nodes.binary_search(node).is_ok();
        let state: FleetState = self.facts.state.of_nodes(is_in);
        let hours: FleetHours = self.facts.hours.of_nodes(is_in);
        let finished = self.facts.finished.iter().filter(|step| is_in(&step.node));
        let finished: Vec<_> = finished.cloned().collect();
        let metrics = self.facts.metrics.iter().filter(|(node, _)| is_in(node));
        let metrics = metrics.map(|(node, series)| (node.clone(), series.clone()));
        let metrics = metrics.collect();
        let facts = Facts {
            state: &state,
            hours: &hours,
            finished: &finished,
            metrics: &metrics,
            left_out: &self.left_out,
            ..*self.facts
        };
        caught(|| (self.evaluate)(&facts))
    }

    /// Leaves out the node, or the two nodes, with which the first nodes begin to panic. False if they do not
    /// panic.
    fn leave_out_faulty(&mut self) -> bool {
        let numbers: Vec<usize> = (0..self.nodes.len()).collect();
        let passes = |from: usize, to: usize| self.try_nodes(&self.nodes[from..=to]).is_ok();
        let last = numbers.partition_point(|&to| passes(0, to));
        if last == numbers.len() {
            return false;
        }
        let first_passing = numbers[..=last].partition_point(|&from| !passes(from, last));
        let first = first_passing.saturating_sub(1);
        self.left_out.push(self.nodes.remove(last));
        if first < last {
            self.left_out.push(self.nodes.remove(first));
        }
        true
    }
}

/// Whether a result is about a node that is left out: without its data, it could be wrong.
pub(crate) fn is_about_left_out(facts: &Facts<'_>, verdict: &Verdict) -> bool {
    let is_left_out = |id: &str| facts.left_out.iter().any(|node| node.as_str() == id);
    match verdict {
        Verdict::NotEvaluated(one) => is_left_out(&one.resource),
        Verdict::Waste(finding) => {
            let node = finding.resource.node.as_deref();
            is_left_out(&finding.resource.id) || node.is_some_and(is_left_out)
        }
    }
}

const REASON: &str = "its data stops the evaluation because of an error in Ebb";

/// The nodes that are left out, as resources that were not evaluated.
pub(crate) fn left_out_reasons(facts: &Facts<'_>) -> impl Iterator<Item = NotEvaluated> {
    facts.left_out.iter().map(|node| NotEvaluated {
        resource: node.to_string(),
        name: facts
            .instance(node)
            .and_then(|instance| instance.name().map(str::to_owned)),
        rule: "all rules".to_owned(),
        reason: REASON.to_owned(),
    })
}

/// The gap of the nodes that are left out. It may hide any finding about steps, so that none is resolved.
pub(crate) fn gap(facts: &Facts<'_>) -> Option<Gap> {
    let nodes: Vec<&str> = facts.left_out.iter().map(NodeId::as_str).collect();
    (!nodes.is_empty()).then(|| {
        Gap::new(
            format!("{ALL_REGIONS}: evaluation"),
            format!(
                "an error in Ebb stopped the evaluation with the data of these nodes, so they are left out: {}; \
                 please report it with the log of this sweep",
                nodes.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::evaluate;
    use crate::testing::{World, instance};
    use ebb_telemetry::testing::node;

    fn world(nodes: u8) -> World {
        let mut world = World::with((1..=nodes).map(instance));
        for n in 1..=nodes {
            world.watch(n, 0, 20, |_, _| ());
        }
        world
    }

    /// The nodes that are left out if these panic, each by itself or, as a pair, only together.
    fn left_out(alone: &[u8], pair: Option<[u8; 2]>) -> Vec<String> {
        let world = world(12);
        let facts = world.facts();
        let has = |facts: &Facts<'_>, n: u8| facts.state.nodes.contains_key(&node(n));
        let report = evaluate_without_faulty_nodes(&facts, |facts| {
            let has_pair = pair.is_some_and(|pair| pair.iter().all(|n| has(facts, *n)));
            if has_pair || alone.iter().any(|n| has(facts, *n)) {
                resume_unwind(Box::new("an error in Ebb"));
            }
            evaluate(facts)
        });
        let about = |id: &str| report.findings.iter().any(|f| f.resource.id == id);
        let all = report
            .not_evaluated
            .iter()
            .filter(|one| one.reason == REASON);
        let all: Vec<String> = all.map(|one| one.resource.clone()).collect();
        assert!(!all.iter().any(|id| about(id)), "{:?}", report.findings);
        let gaps = report
            .gaps
            .iter()
            .filter(|gap| gap.scope.ends_with("evaluation"));
        assert_eq!(gaps.count(), usize::from(!all.is_empty()));
        all
    }

    #[test]
    fn a_node_whose_data_panics_is_left_out_and_named() {
        let ids =
            |nodes: &[u8]| -> Vec<String> { nodes.iter().map(|n| node(*n).to_string()).collect() };
        assert_eq!(left_out(&[], None), ids(&[]));
        assert_eq!(left_out(&[1], None), ids(&[1]));
        assert_eq!(left_out(&[12], None), ids(&[12]));
        assert_eq!(left_out(&[3, 4, 9], None), ids(&[3, 4, 9]));
        assert_eq!(left_out(&[], Some([2, 11])), ids(&[2, 11]));
        assert_eq!(left_out(&[5], Some([6, 7])), ids(&[5, 6, 7]));
    }

    #[test]
    fn a_panic_without_nodes_is_not_hidden() {
        let world = world(3);
        let facts = world.facts();
        let panicked = caught(|| {
            evaluate_without_faulty_nodes(&facts, |_| -> () { resume_unwind(Box::new("always")) });
        });
        let word = panicked.expect_err("it panics").downcast::<&str>();
        assert_eq!(*word.expect("a text"), "always");
    }
}
