//! How the verdict about one resource came about, rule by rule.

use serde::Serialize;

use super::{Facts, judge};
use crate::finding::Finding;
use crate::fleet::JobId;
use crate::identity::{AccountId, NodeId};
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
    let report = judge(facts);
    let is_asked = |finding: &&Finding| finding.id == id;
    let asked = report.findings.iter().find(is_asked);
    let account = asked.and_then(|finding| finding.resource.account.clone());
    // A finding is explained by what it is about.
    let id = asked.map_or(id.to_owned(), |finding| finding.resource.id.clone());
    let id = id.as_str();
    let inventory = facts.inventory;
    let storage = &inventory.storage;
    let machine = NodeId::new(id)
        .ok()
        .and_then(|id| inventory.instances.get(&id));
    let job = JobId::new(id)
        .ok()
        .and_then(|id| inventory.batch.jobs.get(&id));
    let volume = storage.volumes.get(id);
    let address = storage.addresses.get(id);
    let snapshot = storage.snapshots.get(id);
    let mut commitments = inventory.markets.commitments.iter();
    let commitment = commitments.find(|paid| paid.id == id);
    let kept = facts.state.steps();
    let profiles = gather::profiles(facts, &kept);
    let mut checks = Vec::new();
    if let Some(machine) = machine {
        checks.extend(rules::batch::explain_worker(facts, machine));
        checks.extend(rules::gpu::explain(facts, machine));
        checks.extend(rules::old_generation::explain(facts, machine));
        checks.extend(rules::low_duty::explain(facts, machine));
        checks.extend(rules::off_hours::explain(facts, machine));
        let (nodes, found) = (&report.targets.nodes, &report.findings);
        checks.extend(rules::overprovisioned_node::explain(
            facts, nodes, found, machine,
        ));
        checks.extend(rules::underprovisioned_node::explain(
            facts, &kept, found, machine,
        ));
        checks.extend(rules::metric_sizing::explain(
            facts,
            &profiles.speeds,
            found,
            machine,
        ));
        checks.extend(rules::idle::explain(facts, machine));
    }
    if let Some(job) = job {
        checks.extend(rules::batch::explain(facts, job));
        checks.extend(rules::long_queued::explain(facts, job));
    }
    if let Some(volume) = volume {
        checks.extend(rules::unattached_volume::explain(facts, volume));
        checks.extend(rules::stopped_volume::explain(facts, volume));
        checks.extend(rules::gp2_volume::explain(facts, volume));
    }
    checks.extend(address.map_or_else(Vec::new, |it| rules::idle_address::explain(facts, it)));
    checks.extend(snapshot.map_or_else(Vec::new, |it| rules::old_snapshot::explain(facts, it)));
    checks.extend(commitment.map_or_else(Vec::new, |it| rules::commitment::explain(facts, it)));
    checks.extend(rules::batch::explain_named(facts, id));
    checks.extend(rules::spot::explain(facts, &profiles, id));
    let mut of_step = rules::overprovisioned::explain(facts, &profiles, id);
    of_step.extend(rules::steps::explain(facts, &profiles, id));
    let is_step = !of_step.is_empty();
    checks.extend(of_step);
    let about = |finding: &Finding| {
        let resource = &finding.resource;
        let is_its = AccountId::may_be_one(account.as_ref(), resource.account.as_ref());
        is_its && (resource.id == id || resource.node.as_deref() == Some(id))
    };
    Explanation {
        resource: id.to_owned(),
        what: machine
            .map(|i| format!("{} in {}", i.instance_type, i.region))
            .or_else(|| job.map(|job| format!("Batch job {} in {}", job.name, job.region)))
            .or_else(|| volume.map(|v| format!("{} volume in {}", v.volume_type, v.region)))
            .or_else(|| address.map(|it| format!("address in {}", it.region)))
            .or_else(|| snapshot.map(|s| format!("{} GiB snapshot in {}", s.size_gib, s.region)))
            .or_else(|| commitment.map(|paid| format!("commitment of {}", paid.per_hour)))
            .or_else(|| is_step.then(|| "a step, or a run of one".to_owned()))
            .or_else(|| of_batch(id).filter(|_| !checks.is_empty())),
        checks,
        findings: report.findings.into_iter().filter(about).collect(),
        not_judged: report
            .not_judged
            .into_iter()
            .filter(|n| n.resource == id)
            .collect(),
    }
}

/// What of Batch or ECS is neither a job nor a machine.
fn of_batch(id: &str) -> Option<String> {
    match id.split_once('/')? {
        ("environment", _) => Some("a Batch environment".to_owned()),
        ("queue", _) => Some("a Batch queue".to_owned()),
        (head, _) if head.starts_with("arn:") => Some("tasks on Fargate".to_owned()),
        _ => Some("a container".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingKind;
    use crate::fleet::{Commitment, InstanceState, JobQueue, JobStatus, Task, Volume};
    use crate::identity::InstanceType;
    use crate::rules::testing::{World, asked, days_ago, instance, region, step, volume};
    use crate::state::testing::{at, node};
    use crate::units::{CpuTime, UsdPerHour};

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
    fn what_is_stored_or_paid_for_is_explained_up_to_the_question_that_decides() {
        let check = |id: &str, change: &dyn Fn(&mut World), expect: (FindingKind, &str, Speaks)| {
            let mut old = instance(1);
            old.instance_type = InstanceType::new("m4.xlarge").expect("a type");
            let mut world = World::with([old]);
            world.now = days_ago(0);
            change(&mut world);
            let explained = explain(&world.facts(), id);
            assert!(explained.what.is_some(), "{id} is known");
            let of_rule = |check: &&Check| check.rule == expect.0;
            let last = explained.checks.iter().rfind(of_rule);
            let last = last.expect("the rule was asked");
            assert_eq!((last.question, last.speaks), (expect.1, expect.2), "{id}");
            let found = explained.findings.iter().find(|f| f.kind == expect.0);
            assert_eq!(found.is_some(), expect.2 == Speaks::ForWaste, "{id}");
            if let Some(found) = found {
                let by_finding = explain(&world.facts(), &found.id);
                assert_eq!(by_finding, explained, "by the finding as by the resource");
            }
        };
        let put = |world: &mut World, volume: Volume| {
            let volumes = &mut world.inventory.storage.volumes;
            volumes.insert(volume.id.clone(), volume);
        };
        use FindingKind as Kind;
        let saved = "what would be saved a month?";
        let alone = (Kind::UnattachedVolume, saved, Speaks::ForWaste);
        check("vol-1", &move |w| put(w, volume(30, "gp3", 500)), alone);
        let young = (Kind::UnattachedVolume, "how old is it?", Speaks::Against);
        check("vol-1", &move |w| put(w, volume(1, "gp3", 500)), young);
        let attached = |volume_type| Volume {
            attached_to: vec![node(1)],
            ..volume(30, volume_type, 500)
        };
        let old_type = (Kind::OldVolumeType, saved, Speaks::ForWaste);
        check("vol-1", &move |w| put(w, attached("gp2")), old_type);
        let other = (Kind::OldVolumeType, "of which type is it?", Speaks::Against);
        check("vol-1", &move |w| put(w, attached("gp3")), other);
        fn stop(world: &mut World) {
            let machine = world.inventory.instances.get_mut(&node(1));
            let machine = machine.expect("it is there");
            machine.state = InstanceState::Stopped;
            machine.state_since = Some(days_ago(30));
        }
        let stopped = move |w: &mut World| {
            put(w, attached("gp3"));
            stop(w);
        };
        let of_stopped = (Kind::StoppedMachinesVolume, saved, Speaks::ForWaste);
        check("vol-1", &stopped, of_stopped);
        let older = (Kind::OldGeneration, saved, Speaks::ForWaste);
        check(node(1).as_str(), &|_| {}, older);
        let still = (
            Kind::OldGeneration,
            "does it run, on demand?",
            Speaks::Against,
        );
        check(node(1).as_str(), &stop, still);
        let commit = |world: &mut World, family: Option<&str>| {
            world.inventory.markets.commitments.push(Commitment {
                id: "ri-1".into(),
                region: Some(region()),
                family: family.map(str::to_owned),
                per_hour: UsdPerHour::from_micros(500_000),
                until: None,
                used: None,
            });
        };
        let unused = "could all of its region be read?";
        let unused = (Kind::UnusedCommitment, unused, Speaks::ForWaste);
        check("ri-1", &move |w| commit(w, Some("c5")), unused);
        let listed = "is all listed that it may pay for?";
        let listed = (Kind::UnusedCommitment, listed, Speaks::Unknown);
        check("ri-1", &move |w| commit(w, None), listed);
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
        world.memory.disconnected_since.insert(node(1), world.now);
        assert_eq!(first(&world), ("has ECS lost its agent?", Speaks::ForWaste));
        assert_eq!(explain(&world.facts(), "i-other").what, None);
    }

    #[test]
    fn what_has_neither_a_jobs_nor_a_machines_id_is_asked_rule_by_rule_too() {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, asked(1, 1));
        world.watch(1, 0, 60, |minute, h| {
            h.steps = vec![step(minute * 60 + 60, |_| ())];
        });
        let queue = JobQueue {
            status: Some("INVALID".into()),
            ..JobQueue::new("q", region())
        };
        world.inventory.batch.queues.push(queue);
        let check = |world: &World, id: &str, what: &str, expect: (&str, Speaks)| {
            let asked = explain(&world.facts(), id);
            // The rules about steps ask of a container too.
            let first = asked.checks[0].rule;
            let last = asked.checks.iter().rfind(|check| check.rule == first);
            let last = last.expect("it was asked");
            assert_eq!((last.value.as_str(), last.speaks), expect, "{id}");
            assert!(asked.what.is_some_and(|said| said.starts_with(what)));
        };
        let invalid = ("INVALID", Speaks::ForWaste);
        check(&world, "queue/q", "a Batch queue", invalid);
        let asked = explain(&world.facts(), "environment/env");
        assert_eq!(asked.checks[0].value, "VALID");
        assert_eq!(asked.what.as_deref(), Some("a Batch environment"));
        let container = format!("{}/{:032x}", node(1), 1);
        let what = "a ";
        world.job().stopped_at = Some(at(1_205));
        check(&world, &container, what, ("40 min", Speaks::ForWaste));
        world.job().stopped_at = None;
        check(&world, &container, what, ("yes", Speaks::Against));
        world.inventory.batch.jobs.clear();
        let unread = "not all of what it knows could be read";
        check(&world, &container, what, (unread, Speaks::Unknown));
        let (arn, task) = (
            "arn:aws:ecs:us-east-1:1:task/c/2",
            Task {
                cluster_arn: Some("arn:aws:ecs:us-east-1:1:cluster/c".into()),
                family: Some("web".into()),
                launch_type: Some("FARGATE".into()),
                last_status: Some("RUNNING".into()),
                ..Task::default()
            },
        );
        world.inventory.batch.tasks.insert(arn.into(), task);
        check(&world, &container, what, ("0", Speaks::Unknown));
        check(&world, arn, "tasks on Fargate", ("no", Speaks::Unknown));
    }
}
