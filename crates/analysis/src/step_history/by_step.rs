//! Tasks by step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::step_profile::StepProfile;
use ebb_model::step_profile::tasks::PresentRequest;
use ebb_model::visibility_gap::Gap;
use ebb_sizing::core_speed::Speeds;
use ebb_sizing::need::Need;
use ebb_telemetry::identity::{AccountId, NodeId, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::step::StepKind;

use crate::step_history::observed_task::ObservedTask;

/// Limit on the steps of one node that the rules evaluate, if no other node has tasks of these steps. Each
/// may have a finding of several kilobytes, and a node chooses the names of its steps.
const MAX_STEPS_OF_A_NODE: usize = 300;

/// A step with its tasks.
pub(crate) struct StepHistory<'a> {
    pub(crate) runs: Vec<ObservedTask<'a>>,
    pub(crate) profile: StepProfile,
    pub(crate) need: Need,
    /// Request of its first attempts.
    pub(crate) present: PresentRequest,
    /// The tool of the step that derives its memory from the request.
    pub(crate) self_sizing: Option<SelfSizing>,
    /// Executables of its finished tasks, in alphabetical order.
    pub(crate) tools: Vec<String>,
}

impl StepHistory<'_> {
    pub(crate) fn newest(&self) -> Option<&ObservedTask<'_>> {
        self.runs.iter().max_by_key(|run| run.step.observed_at)
    }

    /// Total run time of its tasks.
    pub(crate) fn wall(&self) -> Duration {
        let walls = self.runs.iter().map(ObservedTask::wall);
        walls.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The node of all its tasks; `None` if there are several.
    pub(crate) fn only_node(&self) -> Option<NodeId> {
        let mut nodes = self.runs.iter().map(|run| &run.step.node);
        let first = nodes.next()?;
        nodes.all(|node| node == first).then(|| first.clone())
    }

    /// Request of its first attempts.
    pub(crate) fn requested(&self) -> SizedRequest {
        self.present.request
    }

    /// Tags of the machine and the job of its newest task; a tag of the job has priority.
    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        let newest = self.newest();
        let machine = newest.map(|run| run.instance.tags.clone());
        let job = newest.and_then(|run| Some(run.job?.tags.clone()));
        let mut tags = machine.unwrap_or_default();
        tags.extend(job.unwrap_or_default());
        tags
    }

    /// Whether the newest task runs from a container image.
    pub(crate) fn in_container(&self) -> bool {
        let in_one = [StepKind::EcsTask, StepKind::Pod, StepKind::Container];
        let kind = self.newest().map(|run| run.step.usage.id.kind);
        kind.is_some_and(|kind| in_one.contains(&kind))
    }
}

/// Key of a step. It contains the account, because two accounts may use the same step name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepKey {
    pub(crate) region: Region,
    pub(crate) name: String,
    /// `None` if unknown.
    pub(crate) account: Option<AccountId>,
}

/// All steps.
pub(crate) struct Profiles<'a> {
    /// Boxed, because a map reserves room for eleven values.
    pub(crate) by_step: BTreeMap<StepKey, Box<StepHistory<'a>>>,
    pub(crate) speeds: Speeds,
    /// For each commitment, the hourly list price of all machines that it could cover.
    pub(crate) demand: Vec<UsdPerHour>,
    /// Executables that were observed on Arm.
    pub(crate) on_arm: BTreeSet<String>,
    /// Steps that the rules do not evaluate, because their only node has more than
    /// [`MAX_STEPS_OF_A_NODE`].
    pub(crate) not_evaluated: BTreeSet<StepKey>,
}

/// The key of a step, and its tasks.
pub(crate) type StepEntry<'p, 'a> = (&'p StepKey, &'p StepHistory<'a>);

impl<'a> Profiles<'a> {
    /// The steps that the rules evaluate.
    pub(crate) fn evaluated(&self) -> impl Iterator<Item = StepEntry<'_, 'a>> {
        let all = self.by_step.iter();
        all.filter(|(key, _)| !self.not_evaluated.contains(key))
            .map(|(key, profiled)| (key, profiled.as_ref()))
    }

    /// A gap for the steps that the rules do not evaluate.
    pub(crate) fn gap(&self) -> Option<Gap> {
        let first = self.not_evaluated.first()?;
        let node = self.by_step.get(first)?.only_node()?;
        let steps = counted(self.not_evaluated.len(), "step is", "steps are");
        Some(Gap::new(
            "steps",
            format!(
                "{steps} not evaluated, such as on {node}: the limit is {MAX_STEPS_OF_A_NODE} steps \
                 that only one node has, those with the longest total run time"
            ),
        ))
    }
}

/// The steps beyond the limit of their only node. Those with the longest total run time are within it.
pub(crate) fn beyond_limit(by_step: &BTreeMap<StepKey, Box<StepHistory<'_>>>) -> BTreeSet<StepKey> {
    let mut of_nodes: BTreeMap<NodeId, Vec<(Duration, &StepKey)>> = BTreeMap::new();
    for (key, profiled) in by_step {
        if let Some(node) = profiled.only_node() {
            of_nodes
                .entry(node)
                .or_default()
                .push((profiled.wall(), key));
        }
    }
    let beyond = of_nodes.into_values().flat_map(|mut steps| {
        steps.sort_by(|(a_wall, a), (b_wall, b)| b_wall.cmp(a_wall).then_with(|| a.cmp(b)));
        steps.into_iter().skip(MAX_STEPS_OF_A_NODE)
    });
    beyond.map(|(_, key)| key.clone()).collect()
}
