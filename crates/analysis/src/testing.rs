//! A small world for the test cases of the rules.

#[cfg(test)]
mod extreme_values;
#[cfg(test)]
mod finding_history;
#[cfg(test)]
mod idle_latency;
#[cfg(test)]
mod late_data;
#[cfg(test)]
mod report_selection;
#[cfg(test)]
pub(crate) mod step_world;

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::inventory::storage::{Snapshot, Volume};
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::sweep_memory::Memory;
use ebb_model::task_record::TaskRecord;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::step::{PlacedStep, Requested, StepUsage};
use ebb_telemetry::testing::{at, clock, heartbeat, node};
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

use crate::evaluate::evaluate;
use crate::facts::Facts;
use crate::rules::node::idle;
use crate::rules::trace::Speaks;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) state: FleetState,
    pub(crate) hours: FleetHours,
    pub(crate) inventory: Inventory,
    pub(crate) metrics: BTreeMap<NodeId, MetricSeries>,
    pub(crate) bill: BTreeMap<NodeId, ResourceCost>,
    pub(crate) billed: Vec<BilledDay>,
    pub(crate) finished: Vec<PlacedStep>,
    pub(crate) records: Vec<TaskRecord>,
    pub(crate) memory: Memory,
    pub(crate) policy: Policy,
}

impl Default for World {
    fn default() -> Self {
        Self {
            now: at(0),
            state: FleetState::default(),
            hours: FleetHours::default(),
            inventory: Inventory::default(),
            metrics: BTreeMap::new(),
            bill: BTreeMap::new(),
            billed: Vec::new(),
            finished: Vec::new(),
            records: Vec::new(),
            memory: Memory::default(),
            policy: Policy::default(),
        }
    }
}

impl World {
    pub(crate) fn with(instances: impl IntoIterator<Item = Instance>) -> Self {
        let mut world = Self::default();
        for instance in instances {
            world
                .inventory
                .instances
                .insert(instance.id.clone(), instance);
        }
        world
    }

    /// Folds one heartbeat for each minute in `from..to` and sets the clock to its end.
    pub(crate) fn watch(
        &mut self,
        n: u8,
        from: u64,
        to: u64,
        change: impl Fn(u64, &mut Heartbeat),
    ) {
        for minute in from..to {
            let mut h = heartbeat(clock(minute * 60), clock(minute * 60 + 60));
            h.node = node(n);
            h.sequence = minute;
            change(minute, &mut h);
            let placed = Placed {
                node: node(n),
                end: at(minute * 60 + 60),
                heartbeat: h,
            };
            self.take(&placed);
        }
        self.now = self.now.max(at(to * 60 + 5));
    }

    /// Folds one heartbeat and sets the clock after its end.
    pub(crate) fn take(&mut self, placed: &Placed) {
        self.state.fold_heartbeat(placed, &self.policy.activity);
        self.hours.fold_heartbeat(placed, &self.policy.activity);
        let after = placed.end.checked_add(std::time::Duration::from_secs(5));
        self.now = self.now.max(after.expect("a time of this century"));
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            now: self.now,
            state: &self.state,
            hours: &self.hours,
            inventory: &self.inventory,
            metrics: &self.metrics,
            bill: &self.bill,
            billed: &self.billed,
            finished: &self.finished,
            left_out: &[],
            records: &self.records,
            memory: &self.memory,
            policy: &self.policy,
            catalogue: Catalogue::built_in(),
        }
    }

    /// The report, with checks that every finding of every test case must pass.
    pub(crate) fn evaluate(&self) -> Report {
        let report = evaluate(&self.facts());
        for finding in &report.findings {
            let resource = &finding.resource;
            let mut machines = self.inventory.instances.values();
            if let Some(machine) = machines.find(|i| i.id.as_str() == resource.id) {
                let launched = machine.launched_at.unwrap_or(finding.window.from);
                assert!(
                    finding.window.from >= launched,
                    "longer than it lived: {finding:?}"
                );
                let command = finding.remedy.command.as_deref().unwrap_or_default();
                let stops =
                    command.contains("stop-instances") || command.contains("terminate-instances");
                assert!(resource.controller.is_none() || !stops, "{finding:?}");
            }
            let of_step = matches!(
                finding.evidence,
                ebb_model::finding::evidence::Evidence::Step(_)
            );
            let node = resource.node.as_deref().and_then(|id| NodeId::new(id).ok());
            let state = node.and_then(|id| self.state.nodes.get(&id));
            let first = state.filter(|_| of_step).and_then(|node| node.first_seen);
            assert!(
                Some(finding.window.from) >= first,
                "longer than it was watched: {finding:?}"
            );
            // A host outside the clouds has no console and no command.
            let is_in_a_cloud = resource.region.as_str() != "on-premises";
            let command = &finding.remedy.command;
            assert!(
                command.is_some() || !is_in_a_cloud,
                "nowhere to begin: {finding:?}"
            );
            assert!(!finding.confidence.reason.is_empty());
        }
        for machine in self.inventory.instances.values() {
            self.is_explained(machine, &report);
        }
        report
    }

    /// The last answer about a machine matches its result.
    fn is_explained(&self, machine: &Instance, report: &Report) {
        let kind = FindingKind::IdleNode;
        let facts = self.facts();
        let checks = idle::explain(&facts, machine, &idle::ByBatch::from_facts(&facts));
        let speaks = checks.last().map(|check| check.speaks);
        let id = machine.id.as_str();
        let mut found = report.findings.iter().filter(|found| found.kind == kind);
        let is_found = found.any(|finding| finding.resource.id == id);
        let not_evaluated = report.not_evaluated.iter();
        let mut not_evaluated = not_evaluated.filter(|not| not.rule == kind.slug());
        let is_left_open = not_evaluated.any(|not| not.resource == id);
        let expect = match speaks {
            // An exempt finding is also not evaluated.
            Some(Speaks::ForWaste) => is_found || is_left_open,
            Some(Speaks::Unknown) => is_left_open && !is_found,
            _ => !is_found && !is_left_open,
        };
        assert!(
            expect,
            "the result differs from its explanation: {checks:?}"
        );
    }

    /// The only finding, or the text of the other result.
    pub(crate) fn verdict(&self) -> Result<Finding, String> {
        let report = self.evaluate();
        match (report.findings.as_slice(), report.not_evaluated.as_slice()) {
            ([one], _) => Ok(one.clone()),
            ([], []) => Err("well".into()),
            ([], [why, ..]) => Err(why.reason.clone()),
            (many, _) => Err(format!("{} findings", many.len())),
        }
    }

    /// Adds a Batch environment, a worker for each instance and one job on node 1.
    pub(crate) fn with_job(mut self, status: JobStatus, requested: Requested) -> Self {
        let batch = &mut self.inventory.batch;
        let cluster = "arn:aws:ecs:us-east-1:1:cluster/b".to_owned();
        batch.environments.push(ComputeEnvironment {
            status: Some("VALID".into()),
            cluster_arn: Some(cluster.clone()),
            min_vcpus: Some(0),
            ..ComputeEnvironment::new("env", region())
        });
        for id in self.inventory.instances.keys() {
            batch.container_instances.insert(
                format!("arn:{id}"),
                ContainerInstance {
                    agent_connected: Some(true),
                    running_tasks: Some(1),
                    ..ContainerInstance::new(id.clone(), &cluster, region())
                },
            );
        }
        let id = JobId::new("job-1").expect("a job id");
        batch.jobs.insert(
            id.clone(),
            Job {
                definition: Some("align-def".into()),
                created_at: Some(at(0)),
                started_at: Some(at(0)),
                container_instance_arn: Some(format!("arn:{}", node(1))),
                task_arn: Some(format!("arn:aws:ecs:us-east-1:1:task/b/{:032x}", 1)),
                requested,
                ..Job::new(id, "align", "q", region(), status)
            },
        );
        self
    }

    pub(crate) fn job(&mut self) -> &mut Job {
        self.inventory
            .batch
            .jobs
            .values_mut()
            .next()
            .expect("with_job put one there")
    }
}

pub(crate) fn region() -> Region {
    Region::new("us-east-1").expect("a region")
}

/// A running on-demand m5.xlarge, launched 14 days before the zero of the clock.
pub(crate) fn instance(n: u8) -> Instance {
    let launched = at(0).checked_sub(std::time::Duration::from_secs(14 * 86_400));
    let kind = InstanceType::new("m5.xlarge").expect("a type");
    let running = InstanceState::Running;
    Instance {
        launched_at: launched.ok(),
        tags: BTreeMap::from([("Owner".to_owned(), "ada".to_owned())]),
        ..Instance::new(node(n), region(), kind, running, Market::OnDemand)
    }
}

pub(crate) fn requested(cores: u64, gib: u64) -> Requested {
    Requested {
        cores: Some(MilliCores::cores(cores)),
        memory: Some(Bytes::gib(gib)),
    }
}

/// The task of the job that [`World::with_job`] adds.
pub(crate) fn step(observed_s: u64, change: impl Fn(&mut StepUsage)) -> StepUsage {
    let mut usage = ebb_telemetry::testing::usage(1, clock(observed_s));
    change(&mut usage);
    usage
}

pub(crate) fn days_ago(days: u64) -> Timestamp {
    let span = std::time::Duration::from_secs(days * 86_400);
    at(0).checked_sub(span).expect("a time of this century")
}

/// An unattached volume in us-east-1.
pub(crate) fn volume(days_old: u64, volume_type: &str, size_gib: u64) -> Volume {
    Volume {
        id: "vol-1".into(),
        account: None,
        region: region(),
        volume_type: volume_type.into(),
        size_gib,
        created_at: Some(days_ago(days_old)),
        attached_to: Vec::new(),
        tags: BTreeMap::new(),
    }
}

/// A snapshot in us-east-1 whose volume no longer exists.
pub(crate) fn old_snapshot(days_old: u64) -> Snapshot {
    Snapshot {
        id: "snap-1".into(),
        account: None,
        region: region(),
        volume: Some("vol-gone".into()),
        size_gib: 100,
        stored_bytes: None,
        created_at: Some(days_ago(days_old)),
        images: Some(Vec::new()),
        archived: false,
        tags: BTreeMap::new(),
    }
}
