//! Tasks by step.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::self_sizing::SelfSizing;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::step_profile::StepProfile;
use ebb_model::step_profile::tasks::PresentRequest;
use ebb_sizing::core_speed::Speeds;
use ebb_sizing::need::Need;
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::StepKind;

use crate::step_history::observed_task::SeenRun;

/// A step by its runs.
pub(crate) struct Profiled<'a> {
    pub(crate) runs: Vec<SeenRun<'a>>,
    pub(crate) profile: StepProfile,
    pub(crate) need: Need,
    /// What its first attempts ask for.
    pub(crate) present: PresentRequest,
    /// The tool of it that takes its memory from its request.
    pub(crate) self_sizing: Option<SelfSizing>,
    /// Executables that it ran, as far as finished runs tell.
    pub(crate) tools: BTreeSet<String>,
}

impl Profiled<'_> {
    pub(crate) fn newest(&self) -> Option<&SeenRun<'_>> {
        self.runs.iter().max_by_key(|run| run.step.observed_at)
    }

    /// What its first attempts ask for.
    pub(crate) fn requested(&self) -> SizedRequest {
        self.present.request
    }

    /// The tags of its newest run's machine and job, of which the job's hold.
    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        let newest = self.newest();
        let machine = newest.map(|run| run.instance.tags.clone());
        let job = newest.and_then(|run| Some(run.job?.tags.clone()));
        let mut tags = machine.unwrap_or_default();
        tags.extend(job.unwrap_or_default());
        tags
    }

    /// Whether it runs from an image.
    pub(crate) fn in_container(&self) -> bool {
        let in_one = [StepKind::EcsTask, StepKind::Pod, StepKind::Container];
        let kind = self.newest().map(|run| run.step.usage.id.kind);
        kind.is_some_and(|kind| in_one.contains(&kind))
    }
}

/// Whose runs are taken together: two accounts may each have a step of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepKey {
    pub(crate) region: Region,
    pub(crate) name: String,
    /// `None` where that is not told.
    pub(crate) account: Option<AccountId>,
}

/// All steps.
pub(crate) struct Profiles<'a> {
    pub(crate) by_step: BTreeMap<StepKey, Profiled<'a>>,
    pub(crate) speeds: Speeds,
    /// For each commitment, what an hour of the machines that it could pay for lists at.
    pub(crate) demand: Vec<UsdPerHour>,
    /// Executables that were seen on Arm.
    pub(crate) on_arm: BTreeSet<String>,
}
