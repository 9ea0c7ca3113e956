//! Profiles of steps from facts. Each observed task counts once, under the name that is used to
//! change its request.

pub mod by_step;
pub(crate) mod container_name;
pub mod engine_record;
pub mod learned_speed;
pub mod name_explanation;
pub mod need;
pub mod neighbours;
pub mod nextflow_task;
pub mod observed_task;
pub mod observed_work;
pub mod step_name;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod tests_of_tasks;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ebb_catalog::machine_type::Architecture;
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::job::tasks;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::policy::Policy;
use ebb_model::step_profile::failure::FailureKind;
use ebb_model::step_profile::tasks::AttemptRecord;
use ebb_model::step_profile::{LARGEST_OLDER, MAX_RUNS, Run, RunKey, StepProfile};
use ebb_sizing::cheapest_type::MachineSize;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::{PlacedStep, Requested, StepEnd, StepKind};

use crate::facts::Facts;
use crate::in_turns::first_in_turns;
use crate::step_history::by_step::{Profiles, StepHistory, StepKey, beyond_limit};
use crate::step_history::container_name::NextflowContainers;
use crate::step_history::engine_record::{RecordIndex, SlurmSteps};
use crate::step_history::neighbours::Neighbours;
use crate::step_history::observed_task::ObservedTask;
use crate::step_history::step_name::{KnownProcesses, NameContext, NamedTask, find_step_name};
use crate::workflow_runs;
use crate::workflow_runs::batch_family::Families;

/// Profiles of all steps; `kept` contains the tasks of the state. Sessions and services are not
/// steps of a pipeline.
pub(crate) fn profiles<'a>(facts: &Facts<'a>, kept: &'a [PlacedStep]) -> Profiles<'a> {
    let mut by_name: BTreeMap<StepKey, Vec<ObservedTask<'a>>> = BTreeMap::new();
    let runs = observed_tasks(facts, kept);
    let neighbours = Neighbours::from_runs(&runs);
    let families = Families::from_jobs(facts.inventory.batch.known_jobs());
    for run in runs {
        let key = StepKey {
            region: run.instance.region.clone(),
            name: run.name().to_owned(),
            account: run.instance.account.clone(),
        };
        by_name.entry(key).or_default().push(run);
    }
    let by_step: BTreeMap<_, _> = by_name
        .into_iter()
        .map(|(key, runs)| {
            let mut profile = StepProfile::default();
            profile.extend(chosen(&runs).into_iter().map(|run| {
                let among_others = neighbours.crowded(run, facts.catalogue);
                let key = RunKey::from_step(run.step);
                let attested = attested_size(facts, run);
                let size = attested.or_else(|| facts.measured_size(&run.step.node));
                let profiled = Run {
                    machine_cores: size.map(|size| size.cores),
                    among_others,
                    shares_machine: neighbours.shares(run),
                    record: record(run, &key, facts.policy, &families),
                    ..run.profiled()
                };
                (key, within_machine(profiled, attested))
            }));
            let profiled = profiled(&key.name, runs, profile, facts.policy);
            (key, Box::new(profiled))
        })
        .collect();
    let all = by_step.iter().map(|(key, p)| (&key.name, &p.profile));
    let runs = by_step.values().flat_map(|profiled| &profiled.runs);
    let on_arm = |run: &&ObservedTask<'_>| {
        let spec = facts.catalogue.spec(&run.instance.instance_type);
        spec.is_some_and(|spec| spec.architecture == Architecture::Arm64)
    };
    Profiles {
        on_arm: tools(runs.filter(on_arm)),
        demand: demand(facts),
        speeds: learned_speed::learned(all, facts.catalogue),
        not_evaluated: beyond_limit(&by_step),
        by_step,
    }
}

/// A step with its tasks, from the profile of those that a profile has room for.
fn profiled<'a>(
    name: &str,
    mut runs: Vec<ObservedTask<'a>>,
    profile: StepProfile,
    policy: &Policy,
) -> StepHistory<'a> {
    // Each of 200,000 steps may have a single task.
    runs.shrink_to_fit();
    let tools: Vec<String> = tools(runs.iter()).into_iter().collect();
    let names = tools.iter().map(String::as_str);
    let self_sizing = ebb_sizing::self_sizing::find_self_sizing(name, names);
    let need = need::step_need(&profile, None, self_sizing.as_ref(), policy);
    let newest = runs.iter().max_by_key(|run| run.step.observed_at);
    let need = match newest.map(|run| run.step.usage.id.kind) {
        Some(StepKind::Pod) => need.in_tenths_of_cores(),
        _ => need,
    };
    StepHistory {
        tools,
        runs,
        present: profile.present_request(),
        profile,
        need,
        self_sizing,
    }
}

/// The size of the machine of a task by the inventory. `None` if its type is unknown, or if the task
/// began before the last start of the machine, which may have had another type then.
fn attested_size(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Option<MachineSize> {
    let launched_at = run.instance.launched_at?;
    let spec = facts.catalogue.spec(&run.instance.instance_type)?;
    (run.step.started_at >= launched_at).then(|| MachineSize::from_spec(spec))
}

/// The task with at most the cores and the memory of its machine. A node that reports more for its
/// own tasks would change the advice for those of other nodes.
fn within_machine(mut run: Run, size: Option<MachineSize>) -> Run {
    let Some(size) = size else {
        return run;
    };
    run.peak_cores = run.peak_cores.map(|cores| cores.min(size.cores));
    let most = size.cores.over(run.wall);
    run.cpu = run.cpu.map(|cpu| cpu.min(most));
    if let Some(peak) = &mut run.peak_memory {
        peak.bytes = peak.bytes.min(size.memory);
    }
    run
}

/// The pipeline run and the sample of a task; `None` if the run is unknown.
fn record(
    task: &ObservedTask<'_>,
    key: &RunKey,
    policy: &Policy,
    families: &Families<'_>,
) -> Option<Box<AttemptRecord>> {
    let (_, pipeline_run) = workflow_runs::run_of(task, policy, families)?;
    let names = task.recorded.names().unwrap_or_default();
    // All attempts of a task have the same name in the engine.
    let of_engine = names.attempt.zip(names.name);
    let of_tag = || {
        let job = task.job?;
        Some((nextflow_task::attempt_of(job)?, job.name.as_str()))
    };
    let of_engine = of_engine
        .filter(|(attempt, _)| *attempt > 0)
        .or_else(of_tag);
    let of_probe = || format!("{} {}", key.seen_on, key.step.key);
    Some(Box::new(AttemptRecord {
        pipeline_run,
        task: of_engine.map_or_else(of_probe, |(_, name)| name.to_owned()),
        sample: workflow_runs::sample_of(task, policy).map(str::to_owned),
        attempt: of_engine.map_or(1, |(attempt, _)| attempt),
        failure: FailureKind::of_end(task.end()),
        ..AttemptRecord::default()
    }))
}

/// The tasks that a profile has room for: the newest of each node in turn, and of the other tasks
/// those with the largest peaks of each node in turn. A node therefore has at most half of the places
/// while other nodes have tasks for the rest.
fn chosen<'r, 'a>(runs: &'r [ObservedTask<'a>]) -> Vec<&'r ObservedTask<'a>> {
    if runs.len() <= MAX_RUNS {
        return runs.iter().collect();
    }
    let mut by_node: BTreeMap<&NodeId, Vec<&ObservedTask<'a>>> = BTreeMap::new();
    for run in runs {
        by_node.entry(&run.step.node).or_default().push(run);
    }
    // The turn of a task is the number of newer tasks on its node.
    let mut turns = Vec::with_capacity(runs.len());
    for mut of_node in by_node.into_values() {
        of_node.sort_by_key(|run| Reverse(run.step.observed_at));
        turns.extend(of_node.into_iter().enumerate());
    }
    turns.sort_by_key(|(turn, run)| (*turn, Reverse(run.step.observed_at)));
    let mut older = turns.split_off(MAX_RUNS - LARGEST_OLDER);
    older.sort_by_key(|(_, run)| Reverse(run.step.usage.peak_memory.map(|peak| peak.bytes)));
    let older = older.into_iter();
    let older = older.map(|(_, run)| (Some(run.step.node.clone()), run));
    let older = first_in_turns(older, 1, LARGEST_OLDER);
    let newest = turns.into_iter().map(|(_, run)| run);
    newest
        .chain(older.into_iter().map(|(_, run)| run))
        .collect()
}

/// For each commitment, the hourly list price of the running machines without spot that it can
/// cover.
pub(crate) fn demand(facts: &Facts<'_>) -> Vec<UsdPerHour> {
    let running = || {
        let all = facts.inventory.instances.values();
        all.filter(|one| one.state == InstanceState::Running && one.market != Market::Spot)
    };
    let commitments = facts.inventory.markets.commitments.iter();
    let sum = commitments.map(|paid| {
        let paid_for = running().filter(|one| paid.pays_for(&one.region, &one.instance_type));
        let list = |one: &Instance| facts.catalogue.on_demand(&one.region, &one.instance_type);
        UsdPerHour(paid_for.filter_map(list).map(|price| price.0).sum())
    });
    sum.collect()
}

/// Executables of successful tasks; the executable of a failed task may not exist on that
/// architecture.
fn tools<'r, 'a: 'r>(runs: impl Iterator<Item = &'r ObservedTask<'a>>) -> BTreeSet<String> {
    let well = runs.filter(|run| !run.step.usage.end.is_bad());
    let tools = well.flat_map(|run| &run.step.usage.tools);
    tools.map(|tool| tool.name.clone()).collect()
}

/// The newest record of every task, from the lake and the state. Slurm runs a requeued job again
/// under its id, so such an id can have several tasks.
fn newest_tasks<'a>(facts: &Facts<'a>, kept: &'a [PlacedStep]) -> Vec<&'a PlacedStep> {
    let mut newest: BTreeMap<_, Vec<&PlacedStep>> = BTreeMap::new();
    for step in facts.finished.iter().chain(kept) {
        if matches!(step.usage.id.kind, StepKind::Session | StepKind::Service) {
            continue;
        }
        let of_id = newest
            .entry((&step.node, &step.boot, &step.usage.id))
            .or_default();
        match of_id
            .iter_mut()
            .find(|known| !is_other_attempt(known, step))
        {
            Some(known) if step.usage.order() > known.usage.order() => *known = step,
            Some(_) => {}
            None => of_id.push(step),
        }
    }
    newest.into_values().flatten().collect()
}

/// Whether one of two records with the same id is of a task that ended before the other began.
fn is_other_attempt(a: &PlacedStep, b: &PlacedStep) -> bool {
    let ended_before = |one: &PlacedStep, other: &PlacedStep| {
        one.usage.end != StepEnd::Running && one.usage.observed < other.usage.started
    };
    a.usage.id.kind == StepKind::SlurmJob && (ended_before(a, b) || ended_before(b, a))
}

/// Collects all tasks with what is known of all of them, and calls `use_names`.
pub(crate) fn with_names<'a, T>(
    facts: &Facts<'a>,
    kept: &'a [PlacedStep],
    use_names: impl FnOnce(&[NamedTask<'a>], &NameContext<'_, 'a>, &RecordIndex<'a>) -> T,
) -> T {
    let batch = &facts.inventory.batch;
    let newest = newest_tasks(facts, kept);
    let processes = KnownProcesses::from_jobs(batch.known_jobs(), facts.records);
    let records = RecordIndex::from_records(facts.records);
    let slurm_steps = SlurmSteps::from_tasks(newest.iter().copied());
    let nextflow_containers = NextflowContainers::from_tasks(newest.iter().copied());
    let context = NameContext {
        policy: facts.policy,
        processes: &processes,
        slurm_steps: &slurm_steps,
        nextflow_containers: &nextflow_containers,
    };
    let jobs: BTreeMap<&str, &Job> = batch.known_jobs().flat_map(tasks).collect();
    let named = newest.into_iter().map(|step| {
        let job = match step.usage.id.kind {
            StepKind::EcsTask => jobs.get(step.usage.id.key.as_str()).copied(),
            _ => None,
        };
        NamedTask {
            step,
            job,
            recorded: records.find((step, job), &processes),
        }
    });
    let named: Vec<_> = named.collect();
    use_names(&named, &context, &records)
}

/// The request of a task in a record of its engine or Slurm job. Empty if another task did a part of the
/// work of the job.
pub(crate) fn record_request(task: &NamedTask<'_>, context: &NameContext<'_, '_>) -> Requested {
    let is_part = task.step.usage.id.kind == StepKind::SlurmJob
        && context.slurm_steps.suffix(task.step).is_some();
    let names = task.recorded.names().filter(|_| !is_part);
    names.map_or_else(Requested::default, |names| names.requested)
}

/// Every task on a known machine.
fn observed_tasks<'a>(facts: &Facts<'a>, kept: &'a [PlacedStep]) -> Vec<ObservedTask<'a>> {
    with_names(facts, kept, |tasks, context, _| {
        let observed_tasks = tasks.iter().filter_map(|task| {
            Some(ObservedTask {
                name: find_step_name(task, context),
                step: task.step,
                instance: facts.inventory.instances.get(&task.step.node)?,
                job: task.job,
                recorded: task.recorded,
                record_request: record_request(task, context),
            })
        });
        observed_tasks.collect()
    })
}
