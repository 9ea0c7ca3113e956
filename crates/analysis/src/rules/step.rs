//! The rules about steps: the tasks that they evaluate, their order and the form of their findings.
//! At most one rule reports a task or step, the most urgent first. Otherwise the same hours would
//! count twice.

pub mod busy_neighbour;
pub mod context;
pub mod deviation;
pub mod earlier_runs;
pub mod expected_end;
pub mod memory_pressure;
pub mod out_of_memory;
pub mod oversized;
pub mod retry_storm;
pub mod run_coverage;
pub mod slow;
pub mod slow_ended;
pub mod spinning;
pub mod stalled;
pub mod starved;
pub mod undersized;
pub mod waiting;

use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::{Job, JobStatus};
use ebb_telemetry::step::StepEnd;

use crate::facts::Facts;
use crate::rules::step::context::{Step, UnderWay};
use crate::rules::step::earlier_runs::Past;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::step_history::by_step::{Profiles, StepEntry};

type StepRule<S> = (
    FindingKind,
    fn(&Facts<'_>, &S, &mut RuleTrace) -> Option<Verdict>,
);

/// Rules about all tasks of one step, the most urgent first.
fn of_steps<'s>() -> [StepRule<Step<'s>>; 4] {
    [
        (FindingKind::OutOfMemoryStep, out_of_memory::evaluate),
        (FindingKind::RetryStorm, retry_storm::evaluate),
        (FindingKind::UnderprovisionedStep, undersized::evaluate),
        (FindingKind::SlowStep, slow_ended::evaluate),
    ]
}

/// Rules about one running task, the most urgent first.
fn of_runs<'s>() -> [StepRule<UnderWay<'s>>; 6] {
    [
        (FindingKind::MemoryPressure, memory_pressure::evaluate),
        (FindingKind::StalledStep, stalled::evaluate),
        (FindingKind::StarvedStep, starved::evaluate),
        (FindingKind::SpinningStep, spinning::evaluate),
        (FindingKind::SlowStep, slow::evaluate),
        (FindingKind::WaitingStep, waiting::evaluate),
    ]
}

/// Evaluates every step of a pipeline.
pub(crate) fn evaluate(facts: &Facts<'_>, profiles: &Profiles<'_>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for entry in profiles.evaluated() {
        let step = with_past(facts, entry);
        verdicts.extend(first(facts, &step, &of_steps()));
        for run in under_way(facts, &step) {
            verdicts.extend(first(facts, &run, &of_runs()));
        }
    }
    verdicts
}

/// Questions of all rules about this step if it has this name, and about its task with this id.
pub(crate) fn explain<'a>(facts: &Facts<'_>, entry: StepEntry<'a, 'a>, id: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    let step = with_past(facts, entry);
    if step.name == id {
        checks.extend(
            of_steps()
                .iter()
                .flat_map(|rule| checks_of(facts, &step, rule)),
        );
    }
    for run in under_way(facts, &step).filter(|run| run.id() == id) {
        checks.extend(
            of_runs()
                .iter()
                .flat_map(|rule| checks_of(facts, &run, rule)),
        );
    }
    checks
}

fn with_past<'a>(facts: &Facts<'_>, (key, profiled): StepEntry<'a, 'a>) -> Step<'a> {
    Step {
        name: &key.name,
        profiled,
        past: Past::find(facts, profiled),
    }
}

fn first<S>(facts: &Facts<'_>, subject: &S, rules: &[StepRule<S>]) -> Option<Verdict> {
    let mut verdicts = rules
        .iter()
        .filter_map(|(kind, evaluate)| evaluate(facts, subject, &mut RuleTrace::unwritten(*kind)));
    verdicts.next()
}

fn checks_of<S>(facts: &Facts<'_>, subject: &S, (kind, evaluate): &StepRule<S>) -> Vec<Check> {
    RuleTrace::written(*kind, |q| evaluate(facts, subject, q))
}

/// Tasks that a fresh heartbeat shows as running. A job without progress is left out, because the
/// rule about Batch reports it.
fn under_way<'a>(facts: &Facts<'_>, step: &Step<'a>) -> impl Iterator<Item = UnderWay<'a>> {
    let fresh = facts.now.checked_sub(facts.policy.idle.after()).ok();
    let patience = facts.policy.batch.no_progress();
    let step = *step;
    let listed = &facts.inventory.batch.jobs;
    let runs = step.profiled.runs.iter().filter(move |run| {
        let is_running =
            |job: &Job| job.status == JobStatus::Running && listed.contains_key(&job.id);
        let is_batchs = run.job.is_some_and(is_running);
        run.step.usage.end == StepEnd::Running
            && Some(run.step.observed_at) >= fresh
            && !(is_batchs && run.quiet() >= patience)
    });
    runs.map(move |run| UnderWay { step, run })
}
