//! How the verdict about one resource came about, rule by rule.

use serde::Serialize;

use super::{Facts, judge};
use crate::finding::Finding;
use crate::fleet::JobId;
use crate::identity::NodeId;
use crate::profile::gather;
use crate::report::NotJudged;
use crate::rules;
pub use crate::rules::{Check, Speaks};

/// What was asked about a resource, and what was said in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Its id.
    pub resource: String,
    /// What it is, in a few words; `None` when the inventory does not know it.
    pub what: Option<String>,
    /// The questions of the rules that ask several, in order.
    pub checks: Vec<Check>,
    /// What was found about it.
    pub findings: Vec<Finding>,
    /// What was not judged about it, and why.
    pub not_judged: Vec<NotJudged>,
}

/// Explains what was said, or not said, about the resource with this id.
pub fn explain(facts: &Facts<'_>, id: &str) -> Explanation {
    let inventory = facts.inventory;
    let machine = NodeId::new(id)
        .ok()
        .and_then(|id| inventory.instances.get(&id));
    let job = JobId::new(id)
        .ok()
        .and_then(|id| inventory.batch.jobs.get(&id));
    let volume = inventory.storage.volumes.get(id);
    let mut checks = Vec::new();
    if let Some(machine) = machine {
        checks.extend(rules::batch::explain_worker(facts, machine));
        checks.extend(rules::gpu::explain(facts, machine));
        checks.extend(rules::off_hours::explain(facts, machine));
        checks.extend(rules::idle::explain(facts, machine));
    }
    if let Some(job) = job {
        checks.extend(rules::batch::explain(facts, job));
        checks.extend(rules::long_queued::explain(facts, job));
    }
    let of_step = rules::steps::explain(facts, &gather::profiles(facts), id);
    let is_step = !of_step.is_empty();
    checks.extend(of_step);
    let report = judge(facts);
    let about = |finding: &Finding| {
        let resource = &finding.resource;
        finding.id == id || resource.id == id || resource.node.as_deref() == Some(id)
    };
    Explanation {
        resource: id.to_owned(),
        what: machine
            .map(|i| format!("{} in {}", i.instance_type, i.region))
            .or_else(|| job.map(|job| format!("Batch job {} in {}", job.name, job.region)))
            .or_else(|| volume.map(|v| format!("{} volume in {}", v.volume_type, v.region)))
            .or_else(|| is_step.then(|| "a step, or a run of one".to_owned())),
        checks,
        findings: report.findings.into_iter().filter(about).collect(),
        not_judged: report
            .not_judged
            .into_iter()
            .filter(|n| n.resource == id)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::JobStatus;
    use crate::rules::testing::{World, asked, instance};
    use crate::state::testing::node;
    use crate::units::CpuTime;

    /// The last question, its answer, and what it speaks for.
    fn last(world: &World, id: &str) -> (String, Speaks) {
        let explained = explain(&world.facts(), id);
        let check = explained.checks.last().expect("a question was asked");
        (check.value.clone(), check.speaks)
    }

    #[test]
    fn the_last_question_is_the_one_that_decides() {
        let check = |minutes: u64, busy: bool, value: &str, speaks: Speaks| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, minutes, |_, h| {
                if busy {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
            });
            let id = node(1).to_string();
            assert_eq!(last(&world, &id), (value.to_owned(), speaks));
            let is_waste = !explain(&world.facts(), &id).findings.is_empty();
            assert_eq!(is_waste, speaks == Speaks::ForWaste);
        };
        check(60, false, "100 %", Speaks::ForWaste);
        check(60, true, "0 s", Speaks::Against);
        check(10, false, "10 min", Speaks::Unknown);
    }

    #[test]
    fn what_no_probe_or_inventory_knows_is_said() {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Running, asked(1, 1));
        let (value, speaks) = last(&world, "job-1");
        assert_eq!((value.as_str(), speaks), ("never", Speaks::Unknown));
        let (value, speaks) = last(&world, node(1).as_str());
        assert_eq!(
            (value.as_str(), speaks),
            ("yes: the Batch rule judges it", Speaks::Against)
        );
        world.inventory.batch.jobs.clear();
        let (value, speaks) = last(&world, node(1).as_str());
        assert_eq!((value.as_str(), speaks), ("0 points", Speaks::Unknown));
        let first = |world: &World| {
            let asked = explain(&world.facts(), node(1).as_str()).checks;
            (asked[0].question, asked[0].speaks)
        };
        assert_eq!(first(&world), ("has ECS lost its agent?", Speaks::Against));
        world.disconnected_since.insert(node(1), world.now);
        assert_eq!(first(&world), ("has ECS lost its agent?", Speaks::ForWaste));
        assert_eq!(explain(&world.facts(), "i-other").what, None);
    }
}
