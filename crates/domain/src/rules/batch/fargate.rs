//! What runs on Fargate, where no probe can run: judged on Container Insights where that is
//! switched on, by families of tasks, and else listed as not judged, so that nobody takes
//! silence for a good word.

use std::collections::{BTreeMap, BTreeSet};

use super::super::idle::metrics::{CPU_AND_NETWORK, quiet_for_long};
use super::super::idle::quoted;
use super::{KIND, Questions, Verdict};
use crate::finding::{
    Action, Confidence, Evidence, Finding, FindingKind, IdleNode, Level, Remedy, Resource, Window,
};
use crate::fleet::{Job, TaskFamily};
use crate::heartbeat::Origin;
use crate::identity::Region;
use crate::judge::Facts;
use crate::units::Share;

const REASON: &str = "it runs on Fargate, where no probe can run: what it does is not known";

/// A job that is RUNNING there. What its family does together says nothing of one job.
pub(super) fn judge(_: &Facts<'_>, job: &Job, q: &mut Questions) -> Option<Verdict> {
    q.holds("on which machine does it run?", ("Fargate", ""), None);
    let (id, name) = (job.id.as_str(), Some(job.name.as_str()));
    Some(Verdict::undetermined(KIND, id, name, REASON))
}

/// Tasks of one family, and where they are.
struct Together<'a> {
    region: Option<&'a Region>,
    tasks: u32,
}

/// Tasks of ECS that run there: by their families where Container Insights tells of those,
/// and one by one where it does not, unless they are of Batch jobs, which are told above.
pub(super) fn tasks(facts: &Facts<'_>) -> Vec<Verdict> {
    let batch = &facts.inventory.batch;
    let jobs = batch.jobs.values();
    let of_jobs: BTreeSet<&str> = jobs.filter_map(|job| job.task_arn.as_deref()).collect();
    let mut families: BTreeMap<TaskFamily, Together<'_>> = BTreeMap::new();
    let mut verdicts = Vec::new();
    for (arn, task) in batch
        .tasks
        .iter()
        .filter(|(_, task)| task.runs_on_fargate())
    {
        let family = task.on_fargate();
        match family.filter(|family| batch.insights.contains_key(family)) {
            Some(family) => {
                let region = task.region.as_ref();
                let together = families.entry(family);
                together.or_insert(Together { region, tasks: 0 }).tasks += 1;
            }
            None if of_jobs.contains(arn.as_str()) => {}
            None => {
                let group = task.group.as_deref();
                let why = format!("{REASON}, for its cluster has no Container Insights");
                verdicts.push(Verdict::undetermined(
                    FindingKind::IdleNode,
                    arn,
                    group,
                    why,
                ));
            }
        }
    }
    let judged = families.iter().filter_map(|(family, together)| {
        let series = batch.insights.get(family)?;
        match quiet_for_long(facts, series, (None, CPU_AND_NETWORK)) {
            Ok(Some(quiet)) => found(family, together, quiet),
            Ok(None) => None,
            Err(why) => {
                let (_, name) = family.names();
                let id = family.as_str();
                Some(Verdict::undetermined(
                    FindingKind::IdleNode,
                    id,
                    Some(name),
                    why,
                ))
            }
        }
    });
    verdicts.extend(judged);
    verdicts
}

/// What Fargate costs is on the bill by service alone, so that no dollars are told.
fn found(
    family: &TaskFamily,
    together: &Together<'_>,
    (window, coverage): (Window, Share),
) -> Option<Verdict> {
    let (cluster, name) = family.names();
    let region = together.region?;
    let tasks = match together.tasks {
        1 => "1 task".to_owned(),
        many => format!("{many} tasks"),
    };
    let (of, on) = (quoted(name), quoted(cluster));
    Some(Verdict::Waste(Box::new(Finding {
        id: Finding::id_of(FindingKind::IdleNode, region, family.as_str()),
        kind: FindingKind::IdleNode,
        window,
        coverage: Some(coverage),
        evidence: Evidence::IdleNode(IdleNode::by_metrics(window)),
        confidence: Confidence {
            level: Level::Low,
            reason: format!(
                "on Fargate no probe can run: by Container Insights the busiest of {tasks} rested, \
                 which does not tell a monitoring agent from work"
            ),
        },
        cost: None,
        remedy: Remedy {
            action: Action::ScaleIn,
            advice: format!(
                "Lower the desired count of what keeps {tasks} of {name} on Fargate in cluster \
                 {cluster}, or stop them."
            ),
            command: Some(format!(
                "aws ecs list-tasks --region {region} --cluster {on} --family {of} --launch-type \
                 FARGATE"
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource {
            id: family.as_str().to_owned(),
            name: Some(name.to_owned()),
            region: region.clone(),
            node: None,
            owner: None,
            instance_type: None,
            market: None,
            controller: None,
            origin: Origin::Measured,
        },
    })))
}
