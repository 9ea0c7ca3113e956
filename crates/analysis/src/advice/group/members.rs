//! Groups of tasks: by the pipeline that a tag or a launcher names, and by the compute environment
//! of their machine.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::policy::Policy;
use ebb_telemetry::identity::{AccountId, NodeId, Region};

use crate::facts::Facts;
use crate::step_history::by_step::{Profiles, StepHistory};
use crate::step_history::observed_task::ObservedTask;
use crate::workflow_runs;

/// Limit on replayed tasks of a group; the newest are used. The time of a replay grows with the
/// number of tasks and machines.
pub(crate) const MAX_RUNS: usize = 300;

/// A task with the name of its step.
#[derive(Clone, Copy)]
pub(crate) struct GroupRun<'p, 'a> {
    pub(crate) step: &'p str,
    pub(crate) profiled: &'p StepHistory<'a>,
    pub(crate) run: &'p ObservedTask<'a>,
}

/// Tasks of one pipeline or one compute environment.
pub(crate) struct Group<'p, 'a> {
    pub(crate) name: String,
    pub(crate) region: Region,
    /// `None` if the account is unknown.
    pub(crate) account: Option<AccountId>,
    /// The newest tasks, in order of time.
    pub(crate) runs: Vec<GroupRun<'p, 'a>>,
    pub(crate) environment: Option<&'a ComputeEnvironment>,
}

impl Group<'_, '_> {
    /// Total duration of all tasks.
    pub(crate) fn wall(&self) -> Duration {
        let walls = self.runs.iter().map(|run| run.run.wall());
        walls.fold(Duration::ZERO, Duration::saturating_add)
    }
}

type Keyed<'p, 'a> = BTreeMap<(String, Region, Option<AccountId>), Vec<GroupRun<'p, 'a>>>;

/// Groups tasks by pipeline.
pub(crate) fn pipelines<'p, 'a>(policy: &Policy, profiles: &'p Profiles<'a>) -> Vec<Group<'p, 'a>> {
    let mut by_name = Keyed::new();
    for run in each_run(profiles) {
        if let Some(name) = pipeline(run.run, policy) {
            let on = run.run.instance;
            let key = (name, on.region.clone(), on.account.clone());
            by_name.entry(key).or_default().push(run);
        }
    }
    let group = |((name, region, account), runs)| Group {
        name,
        region,
        account,
        runs: newest(runs),
        environment: None,
    };
    by_name.into_iter().map(group).collect()
}

/// Groups tasks by Batch compute environment.
pub(crate) fn environments<'p, 'a>(
    facts: &Facts<'a>,
    profiles: &'p Profiles<'a>,
) -> Vec<Group<'p, 'a>> {
    let by_machine = by_machine(facts);
    let mut by_name: BTreeMap<_, (&ComputeEnvironment, Vec<GroupRun<'_, '_>>)> = BTreeMap::new();
    for run in each_run(profiles) {
        if let Some(environment) = by_machine.get(&run.run.instance.id) {
            let of = run.run.instance.account.as_ref();
            let key = (&environment.name, &environment.region, of);
            let group = by_name.entry(key).or_insert((environment, Vec::new()));
            group.1.push(run);
        }
    }
    let groups = by_name
        .into_iter()
        .map(|((_, _, account), (environment, runs))| Group {
            name: environment.name.clone(),
            region: environment.region.clone(),
            account: account.cloned(),
            runs: newest(runs),
            environment: Some(environment),
        });
    groups.collect()
}

fn each_run<'p, 'a>(profiles: &'p Profiles<'a>) -> impl Iterator<Item = GroupRun<'p, 'a>> {
    let steps = profiles.by_step.iter();
    steps.flat_map(|(key, profiled)| {
        profiled.runs.iter().map(move |run| GroupRun {
            step: &key.name,
            profiled,
            run,
        })
    })
}

fn newest<'p, 'a>(mut runs: Vec<GroupRun<'p, 'a>>) -> Vec<GroupRun<'p, 'a>> {
    runs.sort_by_key(|run| {
        let step = run.run.step;
        (
            step.started_at,
            step.observed_at,
            &step.node,
            &step.usage.id,
        )
    });
    let older = runs.len().saturating_sub(MAX_RUNS);
    runs.split_off(older)
}

/// Returns the pipeline of a task. If the launcher names no pipeline, launcher and key identify the
/// run.
fn pipeline(run: &ObservedTask<'_>, policy: &Policy) -> Option<String> {
    workflow_runs::pipeline(run, policy).or_else(|| {
        let run_name = run.step.usage.detail.run.as_ref()?;
        Some(format!("{} {}", run_name.launcher, run_name.key))
    })
}

/// Maps each machine to the environment of its ECS cluster.
fn by_machine<'a>(facts: &Facts<'a>) -> BTreeMap<&'a NodeId, &'a ComputeEnvironment> {
    let batch = &facts.inventory.batch;
    let by_cluster: BTreeMap<&str, &ComputeEnvironment> = batch
        .environments
        .iter()
        .filter_map(|one| Some((one.cluster_arn.as_deref()?, one)))
        .collect();
    let joined = batch.container_instances.values().filter_map(|instance| {
        let environment = by_cluster.get(instance.cluster_arn.as_str())?;
        Some((&instance.node, *environment))
    });
    joined.collect()
}
