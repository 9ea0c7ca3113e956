//! Explanation of the result for one resource, rule by rule.

pub mod names;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use ebb_model::advice::node::NodeAdvice;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::current_id;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_model::report::{NotEvaluated, Report};
use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::step::PlacedStep;
use ebb_telemetry::units::HumanDuration;
use serde::{Deserialize, Serialize};

use crate::closed_days::Spend;
use crate::evaluate::evaluate_with;
use crate::facts::Facts;
use crate::metric_sizing;
use crate::rules::batch::long_queued;
use crate::rules::node::{gpu_idle, old_generation, oversized, undersized, underutilized};
use crate::rules::node::{idle, off_hours};
use crate::rules::other_findings::OtherFindings;
use crate::rules::purchasing::{commitment, spot};
use crate::rules::spend::{self, SpendFacts};
use crate::rules::storage::{
    gp2_volume, idle_address, old_snapshot, stopped_volume, unattached_volume,
};
use crate::rules::trace::{Check, Speaks};
use crate::rules::{batch, step};
use crate::step_history::by_step::{Profiles, StepEntry, StepKey};
use crate::step_history::observed_task::ObservedTask;
use crate::unlisted_hosts;

/// Limit on explained resources of one name; the others are counted.
pub const MAX_EXPLAINED: usize = 20;

/// Limit on the resources that a sweep explains.
const MAX_RESOURCES: usize = 2_000;

/// Limit on the jobs, queues and tasks that all explanations of a sweep look at; a few seconds.
const MAX_COMPARISONS: usize = 100_000_000;

/// The questions about a resource and the final result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// Resource ID.
    pub resource: String,
    /// Short description; `None` if the inventory does not contain the resource.
    pub what: Option<String>,
    /// Questions of the rules with several questions, in order.
    pub checks: Vec<Check>,
    /// Findings about the resource.
    pub findings: Vec<Finding>,
    /// Rules that could not evaluate the resource, with reasons.
    #[serde(alias = "not_judged")]
    pub skipped_rules: Vec<NotEvaluated>,
    /// Reason why no rule evaluated the resource; `None` if one did.
    pub not_evaluated: Option<String>,
    /// Other resources of the same name.
    pub others: Vec<Explanation>,
    /// Number of further resources that are left out.
    pub others_left_out: usize,
}

/// Explanations of many resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanations {
    /// By the id of the resource.
    pub by_resource: BTreeMap<String, Explanation>,
    /// Number of resources that a limit left out.
    pub left_out: usize,
}

/// Explains the result for the resource with this id or name, or for the resource of the finding
/// with this id.
pub fn explain(facts: &Facts<'_>, id_or_name: &str) -> Explanation {
    evaluate_with(facts, |known, _| {
        known.explain_named(&current_id(id_or_name))
    })
    .1
}

/// Data for explanations.
pub(crate) struct ExplainInput<'k, 'a> {
    pub(crate) facts: &'k Facts<'a>,
    pub(crate) report: &'k Report,
    /// Costs of pipelines and cost centres.
    pub(crate) spend: &'k Spend,
    pub(crate) kept: &'k [PlacedStep],
    pub(crate) profiles: &'k Profiles<'a>,
    index: OnceCell<Index<'k>>,
}

/// Data by resource, so that the time of an explanation does not depend on the number of machines and tasks.
struct Index<'k> {
    found: OtherFindings<'k>,
    skipped_rules: BTreeMap<&'k str, Vec<&'k NotEvaluated>>,
    /// Advice by node.
    advice: BTreeMap<&'k str, &'k NodeAdvice>,
    /// Tasks by node that show whether the node is too small.
    telling: BTreeMap<&'k NodeId, Vec<&'k PlacedStep>>,
    by_batch: idle::ByBatch<'k>,
    /// Machines of Batch that never joined their cluster.
    strangers: BTreeSet<&'k NodeId>,
    /// The steps by their name and by the ids of their tasks.
    steps_of: BTreeMap<String, BTreeSet<&'k StepKey>>,
}

impl<'k> Index<'k> {
    fn from_known(known: &ExplainInput<'k, '_>) -> Self {
        let (facts, report) = (known.facts, known.report);
        let mut skipped_rules: BTreeMap<&str, Vec<&NotEvaluated>> = BTreeMap::new();
        for one in &report.not_evaluated {
            skipped_rules.entry(&one.resource).or_default().push(one);
        }
        let mut steps_of: BTreeMap<String, BTreeSet<&StepKey>> = BTreeMap::new();
        for (key, step) in &known.profiles.by_step {
            let ids = step.runs.iter().map(ObservedTask::id);
            for id in ids.chain([key.name.clone()]) {
                steps_of.entry(id).or_default().insert(key);
            }
        }
        let advice = report.targets.nodes.iter();
        let strangers = batch::never_joined::nodes(facts);
        Self {
            found: OtherFindings::new(&report.findings, &report.exempt),
            skipped_rules,
            advice: advice.map(|one| (one.node.as_str(), one)).collect(),
            telling: undersized::telling(facts, known.kept),
            by_batch: idle::ByBatch::from_facts(facts),
            strangers: strangers.map(|machine| &machine.id).collect(),
            steps_of,
        }
    }
}

impl<'k, 'a> ExplainInput<'k, 'a> {
    pub(crate) fn new(
        facts: &'k Facts<'a>,
        (report, spend): (&'k Report, &'k Spend),
        kept: &'k [PlacedStep],
        profiles: &'k Profiles<'a>,
    ) -> Self {
        Self {
            facts,
            report,
            spend,
            kept,
            profiles,
            index: OnceCell::new(),
        }
    }

    /// Explanations of the resources with findings, the greatest saving first, and of the resources
    /// that were not evaluated.
    pub(crate) fn explain_all(&self) -> Explanations {
        let findings = self.report.findings.iter();
        let findings = findings.map(|finding| {
            let resource = &finding.resource;
            (resource.id.as_str(), resource.account.as_ref())
        });
        let not_evaluated = self.report.not_evaluated.iter();
        let not_evaluated = not_evaluated.map(|reason| (reason.resource.as_str(), None));
        let (limit, mut all) = (self.max_resources(), Explanations::default());
        let mut left_out = BTreeSet::new();
        for (id, account) in findings.chain(not_evaluated) {
            if all.by_resource.contains_key(id) {
                continue;
            }
            if all.by_resource.len() >= limit {
                left_out.insert(id);
                continue;
            }
            let explanation = self.explain(id, account);
            all.by_resource.insert(id.to_owned(), explanation);
        }
        all.left_out = left_out.len();
        all
    }

    /// An explanation takes time in proportion to the number of jobs, queues and tasks of AWS Batch and ECS.
    fn max_resources(&self) -> usize {
        let batch = &self.facts.inventory.batch;
        let queues = batch.queues.len() + batch.environments.len();
        let known = batch.jobs.len() + batch.tasks.len() + queues;
        (MAX_COMPARISONS / known.max(1)).clamp(1, MAX_RESOURCES)
    }

    fn explain_named(&self, id_or_name: &str) -> Explanation {
        let findings = &self.report.findings;
        let finding = findings.iter().find(|finding| finding.id == id_or_name);
        let account = finding.and_then(|finding| finding.resource.account.clone());
        let mut ids = match finding {
            // The explanation of a finding is that of its resource.
            Some(finding) => vec![finding.resource.id.clone()],
            None => names::ids(self.facts, self.report, self.profiles, id_or_name),
        };
        let left_out = ids.len().saturating_sub(MAX_EXPLAINED);
        ids.truncate(MAX_EXPLAINED);
        let mut all = ids.iter().map(|id| self.explain(id, account.as_ref()));
        let first = all.next();
        let first = first.unwrap_or_else(|| self.explain(id_or_name, None));
        Explanation {
            others: all.collect(),
            others_left_out: left_out,
            ..first
        }
    }

    fn index(&self) -> &Index<'k> {
        self.index.get_or_init(|| Index::from_known(self))
    }

    /// The steps with this name, and the steps of the task with this id.
    fn steps_of(&self, id: &str) -> impl Iterator<Item = StepEntry<'k, 'a>> {
        let steps = self.index().steps_of.get(id);
        let (keys, profiles) = (steps.into_iter().flatten(), self.profiles);
        let known = keys.filter_map(|key| profiles.by_step.get_key_value(*key));
        known.map(|(key, step)| (key, step.as_ref()))
    }
}

impl ExplainInput<'_, '_> {
    fn explain(&self, id: &str, account: Option<&AccountId>) -> Explanation {
        let checks = self.checks(id);
        let is_its =
            |finding: &&Finding| AccountId::may_be_one(account, finding.resource.account.as_ref());
        let index = self.index();
        let findings = index.found.reported(id).iter().copied();
        let findings: Vec<Finding> = findings.filter(is_its).cloned().collect();
        let skipped_rules = index.skipped_rules.get(id).into_iter().flatten().copied();
        let skipped_rules: Vec<NotEvaluated> = skipped_rules.cloned().collect();
        let is_silent = findings.is_empty() && skipped_rules.is_empty();
        Explanation {
            resource: id.to_owned(),
            what: self.what(id, &checks),
            not_evaluated: is_silent.then(|| self.not_evaluated(id, &checks)).flatten(),
            checks,
            findings,
            skipped_rules,
            others: Vec::new(),
            others_left_out: 0,
        }
    }

    fn machine(&self, id: &str) -> Option<&Instance> {
        let id = NodeId::new(id).ok()?;
        self.facts.inventory.instances.get(&id)
    }

    fn job(&self, id: &str) -> Option<&Job> {
        let id = JobId::new(id).ok()?;
        self.facts.inventory.batch.jobs.get(&id)
    }

    fn commitment(&self, id: &str) -> Option<&Commitment> {
        let mut commitments = self.facts.inventory.markets.commitments.iter();
        commitments.find(|paid| paid.id == id)
    }

    fn checks(&self, id: &str) -> Vec<Check> {
        let facts = self.facts;
        let storage = &facts.inventory.storage;
        let mut checks = Vec::new();
        if let Some(machine) = self.machine(id) {
            self.ask_of_machine(machine, &mut checks);
        }
        if let Some(job) = self.job(id) {
            checks.extend(batch::explain(facts, job));
            checks.extend(long_queued::explain(facts, job));
        }
        if let Some(volume) = storage.volumes.get(id) {
            checks.extend(unattached_volume::explain(facts, volume));
            checks.extend(stopped_volume::explain(facts, volume));
            checks.extend(gp2_volume::explain(facts, volume));
        }
        if let Some(address) = storage.addresses.get(id) {
            checks.extend(idle_address::explain(facts, address));
        }
        if let Some(snapshot) = storage.snapshots.get(id) {
            checks.extend(old_snapshot::explain(facts, snapshot));
        }
        if let Some(commitment) = self.commitment(id) {
            checks.extend(commitment::explain(facts, commitment));
        }
        checks.extend(batch::explain_named(facts, id));
        checks.extend(spot::explain(facts, self.profiles, id));
        checks.extend(self.of_step(id));
        let spend = self.spend;
        checks.extend(spend::explain(SpendFacts { facts, spend }, id));
        checks
    }

    fn ask_of_machine(&self, machine: &Instance, checks: &mut Vec<Check>) {
        let (facts, index) = (self.facts, self.index());
        let (id, found) = (&machine.id, &index.found);
        let advice = index.advice.get(id.as_str()).copied();
        let steps = index.telling.get(id).map_or(&[][..], Vec::as_slice);
        checks.extend(batch::explain_worker(facts, machine, &index.strangers));
        checks.extend(gpu_idle::explain(facts, machine));
        checks.extend(old_generation::explain(facts, machine));
        checks.extend(underutilized::explain(facts, machine));
        checks.extend(off_hours::explain(facts, machine));
        checks.extend(oversized::explain(facts, advice, found));
        checks.extend(undersized::explain(facts, steps, found, machine));
        checks.extend(metric_sizing::explain(
            facts,
            &self.profiles.speeds,
            found,
            machine,
        ));
        checks.extend(idle::explain(facts, machine, &index.by_batch));
    }

    fn of_step(&self, name: &str) -> Vec<Check> {
        let (facts, profiles) = (self.facts, self.profiles);
        let named = self.steps_of(name).filter(|(key, _)| key.name == name);
        let mut of_step: Vec<Check> = named
            .flat_map(|entry| step::oversized::explain(facts, profiles, entry))
            .collect();
        let known = self.steps_of(name);
        of_step.extend(known.flat_map(|entry| step::explain(facts, entry, name)));
        of_step
    }

    fn what(&self, id: &str, checks: &[Check]) -> Option<String> {
        let storage = &self.facts.inventory.storage;
        let machine = || {
            let machine = self.machine(id)?;
            Some(match machine.instance_type.is_listed() {
                true => format!("{} in {}", machine.instance_type, machine.region),
                false => format!("machine of unknown type in {}", machine.region),
            })
        };
        let job = || {
            let job = self.job(id)?;
            Some(format!("Batch job {} in {}", job.name, job.region))
        };
        let volume = || {
            let volume = storage.volumes.get(id)?;
            Some(format!(
                "{} volume in {}",
                volume.volume_type, volume.region
            ))
        };
        let address = || Some(format!("address in {}", storage.addresses.get(id)?.region));
        let snapshot = || {
            let snapshot = storage.snapshots.get(id)?;
            let (size, region) = (snapshot.size_gib, &snapshot.region);
            Some(format!("{size} GiB snapshot in {region}"))
        };
        let commitment = || {
            let paid = self.commitment(id)?;
            Some(format!("commitment of {}", paid.per_hour))
        };
        let is_step = || self.steps_of(id).any(|(key, _)| key.name == id);
        let step =
            || (is_step() || !self.of_step(id).is_empty()).then(|| "a step or a task".to_owned());
        machine()
            .or_else(job)
            .or_else(volume)
            .or_else(address)
            .or_else(snapshot)
            .or_else(commitment)
            .or_else(step)
            .or_else(|| names::group(self.report, id).map(str::to_owned))
            .or_else(|| names::spender(id, checks).map(str::to_owned))
            .or_else(|| names::beyond_the_inventory(self.report, id).map(str::to_owned))
            .or_else(|| of_batch(id).filter(|_| !checks.is_empty()))
    }

    /// Reason why no rule evaluated the resource; `None` if one did, or if nothing is known about
    /// the resource.
    fn not_evaluated(&self, id: &str, checks: &[Check]) -> Option<String> {
        let machine = self.machine(id);
        if machine.is_some_and(|machine| machine.state != InstanceState::Running) {
            return Some(
                "the instance is not running, and rules evaluate running instances".to_owned(),
            );
        }
        let mut on_fargate = self.report.fargate.jobs.iter();
        let on_fargate = on_fargate.find(|job| job.id.as_str() == id);
        if let Some(why) = on_fargate.and_then(|job| job.not_evaluated.clone()) {
            return Some(why);
        }
        let has_ended = |job: &Job| matches!(job.status, JobStatus::Succeeded | JobStatus::Failed);
        if self.job(id).is_some_and(has_ended) {
            return Some(
                "the job has ended, and rules evaluate waiting and running jobs".to_owned(),
            );
        }
        if checks.is_empty() {
            return self.why_no_rule(id);
        }
        // The last question of each rule decides.
        let ends = checks.iter().enumerate().filter(|(n, check)| {
            let next = checks.get(n + 1);
            next.is_none_or(|next| next.rule != check.rule)
        });
        let mut ends = ends.map(|(_, check)| check).peekable();
        let first = *ends.peek()?;
        ends.all(|check| check.speaks == Speaks::Unknown)
            .then(|| format!("{} {}", first.question, first.value))
    }

    fn why_no_rule(&self, id: &str) -> Option<String> {
        if names::group(self.report, id).is_some() {
            return Some(names::WHY_NO_GROUP.to_owned());
        }
        let node = self.report.nodes.iter().find(|node| node.id == id);
        if let Some(heard_at) = node.and_then(|node| node.heard_at)
            && unlisted_hosts::has_left(id, heard_at, self.facts.now)
        {
            let ago = self.facts.now.duration_since(heard_at).unsigned_abs();
            return Some(format!(
                "its probe sent the last heartbeat {} ago, and a host counts as removed after {}; \
                 if it runs, check its probe",
                HumanDuration(ago),
                HumanDuration(unlisted_hosts::LEFT_AFTER)
            ));
        }
        if names::beyond_the_inventory(self.report, id).is_some() {
            return Some("the resource is not in the inventory".to_owned());
        }
        self.profiles
            .by_step
            .keys()
            .any(|key| key.name == id)
            .then(|| "no task of the step shows its demand".to_owned())
    }
}

/// Describes an id of Batch or ECS that is neither a job nor a machine.
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
    use crate::testing::{World, days_ago, instance, region, requested, step, volume};
    use ebb_model::finding_kind::FindingKind;
    use ebb_model::inventory::batch::JobQueue;
    use ebb_model::inventory::batch::job::JobStatus;
    use ebb_model::inventory::batch::task::Task;
    use ebb_model::inventory::commitments::Commitment;
    use ebb_model::inventory::instance::InstanceState;
    use ebb_model::inventory::storage::Volume;
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::UsdPerHour;
    use ebb_telemetry::testing::{at, node};
    use ebb_telemetry::units::CpuTime;

    /// Answer to the last question, and the result that this answer supports.
    fn last(world: &World, id: &str) -> (String, Speaks) {
        let explained = explain(&world.facts(), id);
        let check = explained.checks.last().expect("a question was put");
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
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
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
            let last = last.expect("a check of the rule");
            assert_eq!((&*last.question, last.speaks), (expect.1, expect.2), "{id}");
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
        use ebb_model::finding_kind::FindingKind as Kind;
        let saved = "What is the saving per month?";
        let alone = (Kind::UnattachedVolume, saved, Speaks::ForWaste);
        check("vol-1", &move |w| put(w, volume(30, "gp3", 500)), alone);
        let young = (
            Kind::UnattachedVolume,
            "How old is the volume?",
            Speaks::Against,
        );
        check("vol-1", &move |w| put(w, volume(1, "gp3", 500)), young);
        let attached = |volume_type| Volume {
            attached_to: vec![node(1)],
            ..volume(30, volume_type, 500)
        };
        let old_type = (Kind::OldVolumeType, saved, Speaks::ForWaste);
        check("vol-1", &move |w| put(w, attached("gp2")), old_type);
        let other = (
            Kind::OldVolumeType,
            "What is the volume type?",
            Speaks::Against,
        );
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
            "Is it a running on-demand instance?",
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
        let unused = "Could all resources of its region be read?";
        let unused = (Kind::UnusedCommitment, unused, Speaks::ForWaste);
        check("ri-1", &move |w| commit(w, Some("c5")), unused);
        let listed = "Does the inventory contain everything that it may cover?";
        let listed = (Kind::UnusedCommitment, listed, Speaks::Unknown);
        check("ri-1", &move |w| commit(w, None), listed);
    }

    #[test]
    fn what_no_probe_or_inventory_knows_is_said() {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Running, requested(1, 1));
        let (value, speaks) = last(&world, "job-1");
        assert_eq!((value.as_str(), speaks), ("never", Speaks::Unknown));
        let (value, speaks) = last(&world, node(1).as_str());
        assert_eq!(
            (value.as_str(), speaks),
            ("yes: the stuck Batch job rule applies", Speaks::Against)
        );
        world.inventory.batch.jobs.clear();
        let (value, speaks) = last(&world, node(1).as_str());
        assert_eq!((value.as_str(), speaks), ("0 points", Speaks::Unknown));
        let first = |world: &World| {
            let checks = explain(&world.facts(), node(1).as_str()).checks;
            (checks[0].question.clone(), checks[0].speaks)
        };
        assert_eq!(
            first(&world),
            ("Is its ECS agent disconnected?".into(), Speaks::Against)
        );
        world.memory.disconnected_since.insert(node(1), world.now);
        assert_eq!(
            first(&world),
            ("Is its ECS agent disconnected?".into(), Speaks::ForWaste)
        );
        assert_eq!(explain(&world.facts(), "i-other").what, None);
    }

    #[test]
    fn what_has_neither_a_jobs_nor_a_machines_id_is_asked_rule_by_rule_too() {
        let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(1, 1));
        world.watch(1, 0, 60, |minute, h| {
            h.steps = vec![step(minute * 60 + 60, |_| ())];
        });
        let queue = JobQueue {
            status: Some("INVALID".into()),
            ..JobQueue::new("q", region())
        };
        world.inventory.batch.queues.push(queue);
        let check = |world: &World, id: &str, what: &str, expect: (&str, Speaks)| {
            let explanation = explain(&world.facts(), id);
            // The rules about steps ask questions about a container too.
            let first = explanation.checks[0].rule;
            let last = explanation.checks.iter().rfind(|check| check.rule == first);
            let last = last.expect("a check");
            assert_eq!((last.value.as_str(), last.speaks), expect, "{id}");
            assert!(
                explanation
                    .what
                    .is_some_and(|description| description.starts_with(what))
            );
        };
        let invalid = ("INVALID", Speaks::ForWaste);
        check(&world, "queue/q", "a Batch queue", invalid);
        let explanation = explain(&world.facts(), "environment/env");
        assert_eq!(explanation.checks[0].value, "VALID");
        assert_eq!(explanation.what.as_deref(), Some("a Batch environment"));
        let container = format!("{}/{:032x}", node(1), 1);
        let what = "a ";
        world.job().stopped_at = Some(at(1_205));
        check(&world, &container, what, ("40 min", Speaks::ForWaste));
        world.job().stopped_at = None;
        check(&world, &container, what, ("yes", Speaks::Against));
        world.inventory.batch.jobs.clear();
        let unread = "unknown: not all ECS tasks could be read";
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

    #[test]
    fn every_resource_of_a_report_is_explained_as_if_asked_alone() {
        let mut world = World::with([instance(1), instance(2)]);
        world.watch(1, 0, 600, |_, _| ());
        let facts = world.facts();
        let (report, details) = crate::evaluate::evaluate_in_detail(&facts);
        let all = details.explanations.by_resource;
        assert!(!report.findings.is_empty() && !report.not_evaluated.is_empty());
        for finding in &report.findings {
            assert_eq!(all[&finding.resource.id], explain(&facts, &finding.id));
        }
        for reason in &report.not_evaluated {
            assert_eq!(all[&reason.resource], explain(&facts, &reason.resource));
        }
        assert_eq!(details.explanations.left_out, 0);
    }
}
