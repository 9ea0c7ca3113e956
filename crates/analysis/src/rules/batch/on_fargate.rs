//! Tasks on Fargate, where no probe can run. With Container Insights the rule evaluates families of
//! tasks. All other tasks are listed as not evaluated, so that a missing finding is not a good
//! result.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::IdleNode;
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::batch::task::{Task, TaskFamily};
use ebb_telemetry::identity::Region;
use ebb_telemetry::units::HumanDuration;

use crate::facts::Facts;
use crate::metric_activity::{CPU_AND_NETWORK, MetricActivity};
use crate::rules::batch::context::KIND;
use crate::rules::node::idle::by_metrics::{IdleTime, Outcome, idle_time};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;
use crate::shell::option;

/// An idle family has the same kind of finding as an idle machine.
const IDLE: FindingKind = FindingKind::IdleNode;

const REASON: &str = "no probe can run on Fargate";

/// Reports a RUNNING job on Fargate as not evaluated. If its task is the only one of its family,
/// Container Insights covers the job. Then [`tasks`] evaluates the family.
pub(crate) fn evaluate(facts: &Facts<'_>, job: &Job, q: &mut RuleTrace) -> Option<Verdict> {
    q.holds(
        "On which machine does the job run?",
        ("Fargate, where no probe can run", ""),
        None,
    );
    let why = why_not(facts, job)?;
    let (id, name) = (job.id.as_str(), Some(job.name.as_str()));
    Some(Verdict::undetermined(KIND, id, name, why))
}

/// Reason why a RUNNING job is not evaluated; `None` if its family is evaluated.
pub(crate) fn why_not(facts: &Facts<'_>, job: &Job) -> Option<String> {
    let batch = &facts.inventory.batch;
    let own = batch.task_of(job);
    let family = own.and_then(Task::on_fargate);
    let Some(own) = own.filter(|_| family.is_some_and(|f| batch.insights.contains_key(&f))) else {
        return Some(format!(
            "{REASON}, and Container Insights has no data about its task"
        ));
    };
    let is_of_family = |task: &&Task| {
        let same = (&task.family, &task.cluster_arn) == (&own.family, &own.cluster_arn);
        same && task.runs_on_fargate()
    };
    match batch.tasks.values().filter(is_of_family).count() {
        0 | 1 => None,
        many => Some(format!(
            "{REASON}, and Container Insights reports only the busiest of the {many} tasks of its \
             family"
        )),
    }
}

/// Tasks of one family, and their region.
struct Together<'a> {
    region: Option<&'a Region>,
    tasks: u32,
}

/// Evaluates ECS tasks on Fargate by family, if Container Insights covers the family. Other tasks
/// are reported one by one, except those of Batch jobs, which [`evaluate`] reports.
pub(crate) fn tasks(facts: &Facts<'_>) -> Vec<Verdict> {
    let families = families(facts);
    let verdicts = families
        .iter()
        .filter_map(|family| evaluate_family(facts, family, &mut RuleTrace::unwritten(IDLE)));
    let alone = alone(facts).map(|(arn, task)| {
        let why = format!("{REASON}, and Container Insights is not enabled on its cluster");
        Verdict::undetermined(IDLE, arn, task.group.as_deref(), why)
    });
    alone.chain(verdicts).collect()
}

/// Questions about the family or task with an id.
pub(crate) fn explain(facts: &Facts<'_>, id: &str) -> Vec<Check> {
    let families = families(facts);
    let of_id = families.iter().filter(|(family, _)| family.as_str() == id);
    let checks =
        of_id.flat_map(|family| RuleTrace::written(IDLE, |q| evaluate_family(facts, family, q)));
    let is_alone = alone(facts).any(|(arn, _)| arn == id);
    let of_task =
        is_alone.then(|| RuleTrace::written(IDLE, |q| q.holds(HAS_INSIGHTS, ("no", ""), None)));
    checks.chain(of_task.into_iter().flatten()).collect()
}

/// First question about tasks.
const HAS_INSIGHTS: &str = "Does Container Insights cover its task family?";

fn families<'a>(facts: &Facts<'a>) -> BTreeMap<TaskFamily, Together<'a>> {
    let batch = &facts.inventory.batch;
    let mut families: BTreeMap<TaskFamily, Together<'_>> = BTreeMap::new();
    for task in batch.tasks.values() {
        let family = task.on_fargate();
        if let Some(family) = family.filter(|family| batch.insights.contains_key(family)) {
            let region = task.region.as_ref();
            let together = families.entry(family);
            together.or_insert(Together { region, tasks: 0 }).tasks += 1;
        }
    }
    families
}

/// Tasks without Container Insights, by ARN.
fn alone<'a>(facts: &Facts<'a>) -> impl Iterator<Item = (&'a str, &'a Task)> {
    let batch = &facts.inventory.batch;
    let jobs = batch.jobs.values();
    let of_jobs: BTreeSet<&str> = jobs.filter_map(|job| job.task_arn.as_deref()).collect();
    let tasks = batch.tasks.iter().filter(move |(arn, task)| {
        let family = task.on_fargate();
        let has_insights = family.is_some_and(|family| batch.insights.contains_key(&family));
        task.runs_on_fargate() && !has_insights && !of_jobs.contains(arn.as_str())
    });
    tasks.map(|(arn, task)| (arn.as_str(), task))
}

fn evaluate_family(
    facts: &Facts<'_>,
    (family, together): (&TaskFamily, &Together<'_>),
    q: &mut RuleTrace,
) -> Option<Verdict> {
    q.holds(HAS_INSIGHTS, ("yes", ""), true);
    let series = facts.inventory.batch.insights.get(family)?;
    let cpu_floor = facts.policy.metrics.cpu_floor();
    let activity = MetricActivity::from_series(facts, series, CPU_AND_NETWORK, cpu_floor)?;
    let outcome = idle_time(facts, &activity, None);
    let (shown, holds) = match &outcome {
        Outcome::Idle(idle) => (HumanDuration(idle.window.length()).to_string(), Some(true)),
        Outcome::InUse(why) => (why.clone(), Some(false)),
        Outcome::Unknown(why) => (why.clone(), None),
    };
    let after = HumanDuration(facts.policy.metrics.idle_after());
    q.holds(
        "How long has the busiest task been idle?",
        (shown, format_args!("at least {after}")),
        holds,
    );
    match outcome {
        Outcome::Idle(idle) => make_finding(family, together, &idle),
        Outcome::InUse(_) => None,
        Outcome::Unknown(why) => {
            let (_, name) = family.names();
            let id = family.as_str();
            Some(Verdict::undetermined(IDLE, id, Some(name), why))
        }
    }
}

/// The bill shows the cost of Fargate only for the whole service, so the finding has no cost.
fn make_finding(family: &TaskFamily, together: &Together<'_>, idle: &IdleTime) -> Option<Verdict> {
    let never_active = (!idle.worked_before).then_some(idle.shown);
    let (cluster, name) = family.names();
    let region = together.region?;
    let tasks = match together.tasks {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    let (of, on) = (option("--family", name), option("--cluster", cluster));
    Some(Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(IDLE, region, family.as_str()),
        kind: IDLE,
        window: idle.window,
        coverage: Some(idle.coverage),
        evidence: Evidence::IdleNode(IdleNode::by_metrics(idle.window, never_active)),
        confidence: Confidence {
            level: Level::Low,
            reason: format!(
                "no probe can run on Fargate; Container Insights shows no activity in the busiest \
                 of {tasks}, but cannot distinguish a monitoring agent from work"
            ),
        },
        cost: None,
        remedy: Remedy {
            action: Action::ScaleIn,
            advice: format!(
                "Reduce the desired count of the ECS service that runs {tasks} of {name} on \
                 Fargate in cluster {cluster}, or stop the tasks."
            ),
            command: Some(format!(
                "aws ecs list-tasks --region {region} {on} {of} --launch-type FARGATE"
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::named(family.as_str().to_owned(), name, region),
    })))
}
