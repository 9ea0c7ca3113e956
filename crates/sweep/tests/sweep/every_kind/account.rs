//! The account: machines, Batch, storage, metrics and commitments.

use std::collections::BTreeMap;

use ebb_catalog::spot_advisor::{Advisor, Band};
use ebb_catalog::spot_terms::SpotTerms;
use ebb_cloud::fake::{FakeBill, FakeInventory, FakeMarkets, FakeMetrics};
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::inventory::batch::{ComputeEnvironment, JobQueue};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState, Market};
use ebb_model::inventory::spot_market::Markets;
use ebb_model::inventory::storage::{Address, Snapshot, Volume};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_telemetry::identity::{InstanceType, NodeId};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::step::Requested;
use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_telemetry::units::{Bytes, MilliCores, Share};
use jiff::{SignedDuration, Timestamp};

use crate::every_kind::fleet::{self, at};
use crate::every_kind::{HOURS, tasks};
use crate::sample::{self, region};
use crate::world::World;

pub(crate) const COMMITMENT: &str = "ri-0unused";
pub(crate) const UNATTACHED: &str = "vol-0unattached";
const OF_STOPPED: &str = "vol-0stopped";
pub(crate) const GP2: &str = "vol-0gp2";
pub(crate) const SNAPSHOT: &str = "snap-0old";
pub(crate) const ADDRESS: &str = "eipalloc-0idle";

/// The machine of the Batch environment.
pub(crate) const WORKER: u32 = 10;

/// The machine of a pipeline.
pub(crate) const PAID: u32 = 14;

pub(crate) const PIPELINE: &str = "rnaseq";

const METERED: u32 = 11;
const SMALL: u32 = 12;
const STOPPED: u32 = 13;
const CLUSTER: &str = "arn:aws:ecs:eu-central-1:111122223333:cluster/align";
const ON_WORKER: &str = "arn:aws:ecs:eu-central-1:111122223333:container-instance/align/1";

/// Fills the account of a world.
pub(crate) fn fill(world: &mut World) {
    let mut inventory = Inventory::default();
    for instance in machines() {
        inventory.instances.insert(instance.id.clone(), instance);
    }
    fill_batch(&mut inventory);
    fill_storage(&mut inventory);
    world.inventory = FakeInventory::new(BTreeMap::from([(region(), inventory)]));
    world.metrics = FakeMetrics::new(BTreeMap::from([
        (sample::node(METERED), series(|_| 70_000)),
        (
            sample::node(SMALL),
            series(|hour| if hour % 3 == 0 { 980_000 } else { 600_000 }),
        ),
    ]));
    world.markets = Some(markets());
}

fn ago(hours: i64) -> Timestamp {
    at(HOURS)
        .checked_sub(SignedDuration::from_hours(hours))
        .expect("a time")
}

fn instance(number: u32, name: &str, instance_type: &str) -> Instance {
    Instance {
        launched_at: Some(ago(i64::try_from(HOURS).expect("weeks") + 1)),
        tags: BTreeMap::from([("Name".to_owned(), name.to_owned())]),
        ..Instance::new(
            sample::node(number),
            region(),
            InstanceType::new(instance_type).expect("a type"),
            InstanceState::Running,
            Market::OnDemand,
        )
    }
}

fn machines() -> Vec<Instance> {
    let nodes = fleet::nodes();
    let with_probe = nodes
        .iter()
        .map(|node| instance(node.number, node.name, node.instance_type));
    let mut machines: Vec<Instance> = with_probe.collect();
    for machine in &mut machines {
        if machine.id == sample::node(WORKER) {
            machine.controller = Some(Controller::BatchEnvironment("align".to_owned()));
        }
        if machine.id == sample::node(PAID) {
            let tag = (PIPELINE_TAG.to_owned(), PIPELINE.to_owned());
            machine.tags.extend([tag]);
        }
    }
    machines.push(instance(METERED, "metered", "m5.xlarge"));
    machines.push(instance(SMALL, "small", "m5.xlarge"));
    machines.push(Instance {
        state: InstanceState::Stopped,
        state_since: Some(ago(30 * 24)),
        launched_at: Some(ago(60 * 24)),
        ..instance(STOPPED, "stopped", "m5.xlarge")
    });
    machines
}

/// The bill of the pipeline's machine, which is five times as high on the newest closed day.
pub(crate) fn bill() -> FakeBill {
    let day = |n: u64| at(n * 24).strftime("%Y-%m-%d").to_string();
    let usd = |n: u64| Usd::from_micros(if n == 12 { 300_000_000 } else { 60_000_000 });
    let by_day = (0..14).map(|n| (day(n), usd(n))).collect();
    let total = |n: u64| BilledDay {
        day: day(n),
        total: usd(n),
        of_machines: Some(usd(n)),
        estimated: n == 13,
        ..BilledDay::default()
    };
    let of_machine = BTreeMap::from([(sample::node(PAID), ResourceCost { by_day })]);
    FakeBill::new(Ok(of_machine)).with_days((0..14).map(total).collect())
}

/// Points of five minutes with this CPU usage, in parts per million.
fn series(cpu: fn(u64) -> u32) -> MetricSeries {
    let points = (1..=HOURS * 12).map(|n| MetricPoint {
        cpu_max: Some(Share::from_ppm(cpu(n / 12))),
        network_bytes: Some(50_000_000),
        disk_bytes: Some(80_000_000),
        ..MetricPoint::new(
            at(0)
                .checked_add(SignedDuration::from_mins(
                    i64::try_from(n * 5).expect("weeks"),
                ))
                .expect("a time"),
            300,
        )
    });
    points.collect()
}

fn job(name: &str, definition: &str, status: JobStatus, created: Timestamp) -> Job {
    let id = JobId::new(format!("job-{name}")).expect("an id");
    Job {
        definition: Some(definition.to_owned()),
        created_at: Some(created),
        requested: Requested {
            cores: Some(MilliCores::cores(2)),
            memory: Some(Bytes::gib(4)),
        },
        ..Job::new(id, name, "genomics", region(), status)
    }
}

fn minutes_after(begin: Timestamp, minutes: i64) -> Option<Timestamp> {
    begin.checked_add(SignedDuration::from_mins(minutes)).ok()
}

fn fill_batch(inventory: &mut Inventory) {
    let batch = &mut inventory.batch;
    batch.environments.push(ComputeEnvironment {
        status: Some("VALID".to_owned()),
        enabled: Some(true),
        cluster_arn: Some(CLUSTER.to_owned()),
        min_vcpus: Some(0),
        desired_vcpus: Some(4),
        max_vcpus: Some(256),
        instance_types: vec!["c5".to_owned()],
        ..ComputeEnvironment::new("align", region())
    });
    batch.queues.push(JobQueue {
        status: Some("VALID".to_owned()),
        enabled: Some(true),
        environments: vec!["align".to_owned()],
        ..JobQueue::new("genomics", region())
    });
    batch.container_instances.insert(
        ON_WORKER.to_owned(),
        ContainerInstance {
            agent_connected: Some(true),
            running_tasks: Some(1),
            ..ContainerInstance::new(sample::node(WORKER), CLUSTER, region())
        },
    );
    let mut jobs = vec![
        Job {
            started_at: minutes_after(ago(0), -30),
            container_instance_arn: Some(ON_WORKER.to_owned()),
            task_arn: Some(format!(
                "arn:aws:ecs:eu-central-1:111122223333:task/align/{}",
                tasks::batch_task(0)
            )),
            ..job("align-31", "align", JobStatus::Running, ago(1))
        },
        Job {
            status_reason: Some(
                "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - no instance type is large enough"
                    .to_owned(),
            ),
            ..job("genotype-1", "genotype", JobStatus::Runnable, ago(5))
        },
        job("call-6", "call", JobStatus::Runnable, ago(3)),
    ];
    jobs.extend((1..6).map(|n| Job {
        started_at: minutes_after(ago(6), 2 + n),
        stopped_at: minutes_after(ago(6), 20),
        ..job(&format!("call-{n}"), "call", JobStatus::Succeeded, ago(6))
    }));
    batch
        .jobs
        .extend(jobs.into_iter().map(|job| (job.id.clone(), job)));
}

fn volume(id: &str, volume_type: &str, attached_to: &[NodeId]) -> Volume {
    Volume {
        id: id.to_owned(),
        account: None,
        region: region(),
        volume_type: volume_type.to_owned(),
        size_gib: 500,
        created_at: Some(ago(60 * 24)),
        attached_to: attached_to.to_vec(),
        tags: BTreeMap::new(),
    }
}

fn fill_storage(inventory: &mut Inventory) {
    let storage = &mut inventory.storage;
    for volume in [
        volume(UNATTACHED, "gp3", &[]),
        volume(OF_STOPPED, "gp3", &[sample::node(STOPPED)]),
        volume(GP2, "gp2", &[sample::node(4)]),
    ] {
        storage.volumes.insert(volume.id.clone(), volume);
    }
    let snapshot = Snapshot {
        id: SNAPSHOT.to_owned(),
        account: None,
        region: region(),
        volume: Some("vol-0gone".to_owned()),
        size_gib: 500,
        stored_bytes: None,
        created_at: Some(ago(200 * 24)),
        images: Some(Vec::new()),
        archived: false,
        tags: BTreeMap::new(),
    };
    storage.snapshots.insert(snapshot.id.clone(), snapshot);
    let address = Address {
        id: ADDRESS.to_owned(),
        region: region(),
        account: None,
        public_ip: Some("203.0.113.7".to_owned()),
        association: None,
        tags: BTreeMap::new(),
    };
    storage.addresses.insert(address.id.clone(), address);
}

fn markets() -> FakeMarkets {
    let kind = || InstanceType::new("c5.xlarge").expect("a type");
    let terms = SpotTerms {
        per_hour: UsdPerHour::from_micros(60_000),
        as_of: Some(at(HOURS)),
        taken_back_ppm: None,
        taken_back_above_ppm: None,
        own: None,
    };
    let markets = Markets {
        spot: BTreeMap::from([(region(), BTreeMap::from([(kind(), terms)]))]),
        commitments: vec![Commitment {
            id: COMMITMENT.to_owned(),
            region: Some(region()),
            family: Some("r5".to_owned()),
            per_hour: UsdPerHour::from_micros(400_000),
            until: Some(at(HOURS * 20)),
            used: None,
        }],
        ..Markets::default()
    };
    let band = Band {
        from_ppm: 0,
        to_ppm: Some(50_000),
        saving_percent: 60,
    };
    let advisor = Advisor {
        bands: BTreeMap::from([(region(), BTreeMap::from([(kind(), band)]))]),
        unread: 0,
    };
    FakeMarkets::new(markets, advisor)
}
