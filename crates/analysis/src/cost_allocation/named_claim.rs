//! The tasks that pay for a machine, with the names that costs are divided by.

use std::collections::BTreeMap;

use ebb_model::inventory::instance::Instance;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::step::{PlacedStep, StepKind};

use crate::cost_allocation::machine_split::Claim;
use crate::cost_allocation::task_claim;
use crate::facts::Facts;
use crate::run_costs::RunFactors;
use crate::step_history::by_step::Profiles;
use crate::step_history::observed_task::ObservedTask;
use crate::step_history::step_name::find_step_name;
use crate::step_history::{record_request, with_names};
use crate::workflow_runs::batch_family::Families;
use crate::workflow_runs::{label_of, pipeline, run_of};

/// The names of a task. Many tasks have the same names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskNames {
    pub(crate) run: Option<String>,
    pub(crate) pipeline: Option<String>,
    pub(crate) step: String,
    pub(crate) user: Option<String>,
    pub(crate) cost_centre: Option<String>,
}

/// The tasks of one machine, with the index of their names.
#[derive(Debug, Default)]
pub(crate) struct MachineTasks {
    pub(crate) claims: Vec<Claim>,
    pub(crate) names: Vec<usize>,
    /// Whether each task failed.
    pub(crate) failed: Vec<bool>,
}

/// The tasks of all machines.
#[derive(Debug, Default)]
pub(crate) struct NamedClaims {
    pub(crate) names: BTreeMap<TaskNames, usize>,
    /// The tasks with the same names, without their cost.
    pub(crate) task_sums: Vec<RunFactors>,
    pub(crate) by_machine: BTreeMap<NodeId, MachineTasks>,
}

impl NamedClaims {
    /// The tasks of the inventory's machines and of those that are gone.
    pub(crate) fn collect(
        facts: &Facts<'_>,
        (profiles, kept): (&Profiles<'_>, &[PlacedStep]),
        gone: &BTreeMap<NodeId, Instance>,
    ) -> Self {
        let families = Families::from_jobs(facts.inventory.batch.known_jobs());
        let mut all = Self::default();
        for task in profiles.by_step.values().flat_map(|step| &step.runs) {
            all.add(facts, task, &families);
        }
        if !gone.is_empty() {
            with_names(facts, kept, |tasks, context, _| {
                for task in tasks {
                    let Some(instance) = gone.get(&task.step.node) else {
                        continue;
                    };
                    let task = ObservedTask {
                        name: find_step_name(task, context),
                        step: task.step,
                        instance,
                        job: task.job,
                        recorded: task.recorded,
                        record_request: record_request(task, context),
                    };
                    all.add(facts, &task, &families);
                }
            });
        }
        all
    }

    fn add(&mut self, facts: &Facts<'_>, task: &ObservedTask<'_>, families: &Families<'_>) {
        let next = self.names.len();
        let names = names(facts, task, families);
        let names = *self.names.entry(names).or_insert(next);
        let claim = task_claim::claim(facts, task);
        let failed = task.step.usage.end.is_bad();
        let nanos = claim.window.length().as_nanos();
        let read = task.step.usage.disk_read;
        if names == self.task_sums.len() {
            self.task_sums.push(RunFactors::default());
        }
        self.task_sums[names].add(RunFactors {
            tasks: u64::from(!failed),
            task_nanos: if failed { 0 } else { nanos },
            all_nanos: nanos,
            read_bytes: read.map_or(0, |read| read.0.into()),
            unknown_reads: u64::from(read.is_none()),
            ..RunFactors::default()
        });
        let machine = self.by_machine.entry(task.step.node.clone()).or_default();
        machine.claims.push(claim);
        machine.names.push(names);
        machine.failed.push(failed);
    }
}

fn names(facts: &Facts<'_>, task: &ObservedTask<'_>, families: &Families<'_>) -> TaskNames {
    let policy = facts.policy;
    TaskNames {
        run: run_of(task, policy, families).map(|(_, run)| run),
        pipeline: pipeline(task, policy),
        step: task.name().to_owned(),
        user: user(task),
        cost_centre: policy
            .costs
            .cost_centre_tag
            .as_deref()
            .and_then(|tag| cost_centre(task, tag)),
    }
}

/// The user id of a container says nothing about who started it.
fn user(task: &ObservedTask<'_>) -> Option<String> {
    let label = label_of(task.step, "user").map(str::to_owned);
    let in_container = matches!(
        task.step.usage.id.kind,
        StepKind::EcsTask | StepKind::Pod | StepKind::Container
    );
    let id = task.step.usage.detail.user.filter(|_| !in_container);
    label
        .or_else(|| task.owner())
        .or_else(|| id.map(|id| format!("user id {id}")))
}

fn cost_centre(task: &ObservedTask<'_>, tag: &str) -> Option<String> {
    let of_job = task.job.and_then(|job| job.tags.get(tag));
    let value = of_job.or_else(|| task.instance.tags.get(tag));
    value.filter(|value| !value.is_empty()).cloned()
}
