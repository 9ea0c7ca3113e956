//! Measures the duration of an inventory. The accounts and regions are in memory, behind the same
//! port as AWS, and each call takes a fixed time. Calls are counted page by page, as the real
//! adapter makes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ebb_cloud::accounts::{Accounts, Member};
use ebb_cloud::ports::{
    BillSource, CloudResult, InventorySource, METRICS_PER_NODE, MetricsSource, NodeMetrics,
    period_seconds,
};
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::JobQueue;
use ebb_model::inventory::batch::container_instances::ContainerInstance;
use ebb_model::inventory::batch::job::{Job, JobId, JobStatus};
use ebb_model::inventory::batch::task::{Task, TaskFamily};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::inventory::storage::Volume;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_model::policy::metrics::MetricsPolicy;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_sweep::collect::account::Account;
use ebb_sweep::collect::inventory;
use ebb_sweep::collect::metered_calls::Paid;
use ebb_sweep::collect::metered_calls::budget::Wanted;
use ebb_telemetry::identity::{AccountId, InstanceType, NodeId, Region};
use ebb_telemetry::money::Usd;
use ebb_telemetry::units::Share;
use jiff::{SignedDuration, Timestamp};

const ACCOUNTS: u64 = 30;
const REGIONS: [&str; 5] = [
    "us-east-1",
    "eu-central-1",
    "us-west-2",
    "eu-west-1",
    "ap-southeast-2",
];
const INSTANCES: u64 = 100_000;
const JOBS: u64 = 50_000;

/// Duration of one call, measured by the caller.
const CALL: Duration = Duration::from_millis(100);

/// Page sizes of the real calls in `crates/cloud/src/aws/inventory`.
const INSTANCES_A_PAGE: u64 = 1_000;
const JOBS_A_PAGE: u64 = 100;
const TASKS_A_PAGE: u64 = 100;
const GROUPS_A_BILL_PAGE: u64 = 5_000;
/// Same value as in `cloud::aws::bill`.
const DAYS_AT_ONCE: u64 = 4;
const QUERIES_A_CALL: u64 = 500;
const METRIC_CALLS_AT_ONCE: u64 = 8;

const GOAL: Duration = Duration::from_secs(60);
const GOAL_BYTES: u64 = 1_500_000_000;

/// One account with an equal share of everything in each region.
struct Made {
    number: u64,
    calls: Arc<AtomicU64>,
    metrics: AtomicU64,
    pages: AtomicU64,
}

impl Made {
    async fn call(&self, times: u64) {
        self.calls.fetch_add(times, Ordering::Relaxed);
        // Pages are read one after the other.
        let whole = u32::try_from(times).unwrap_or(u32::MAX);
        tokio::time::sleep(CALL * whole).await;
    }
}

fn of_one_place(all: u64) -> u64 {
    all / ACCOUNTS / REGIONS.len() as u64
}

fn node(account: u64, region: &Region, n: u64) -> NodeId {
    let place = REGIONS.iter().position(|name| *name == region.as_str());
    let place = place.unwrap_or_default() as u64;
    NodeId::new(format!("i-{account:04x}{place:02x}{n:011x}")).expect("a node")
}

#[async_trait]
impl InventorySource for Made {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        self.call(1).await;
        Ok(REGIONS
            .iter()
            .filter_map(|name| Region::new(*name).ok())
            .collect())
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let (nodes, jobs) = (of_one_place(INSTANCES), of_one_place(JOBS));
        let pages = |all: u64, page: u64| all.div_ceil(page).max(1);
        // Instances, volumes, addresses, snapshots and environments, side by side; then
        // jobs of each state, their descriptions, the queue's front, workers and tasks.
        self.calls
            .fetch_add(pages(nodes, INSTANCES_A_PAGE) + 4, Ordering::Relaxed);
        self.call(pages(nodes, INSTANCES_A_PAGE)).await;
        let listed = 6 + pages(jobs, JOBS_A_PAGE);
        let concurrent = 2 * pages(nodes, TASKS_A_PAGE) + 2 * pages(jobs, TASKS_A_PAGE) + 1;
        self.calls.fetch_add(concurrent, Ordering::Relaxed);
        self.call(listed + pages(jobs, JOBS_A_PAGE)).await;
        Ok(made(self.number, region, nodes, jobs))
    }

    fn not_entered(&self) -> Vec<Gap> {
        Vec::new()
    }
}

#[expect(clippy::too_many_lines, reason = "one value with all its fields")]
fn made(account: u64, region: &Region, nodes: u64, jobs: u64) -> Inventory {
    let mut inventory = Inventory::default();
    let kind = InstanceType::new("m5.xlarge").expect("a type");
    for n in 0..nodes {
        let id = node(account, region, n);
        let volume = format!("vol-{}", &id.as_str()[2..]);
        let mut instance = Instance::new(
            id.clone(),
            region.clone(),
            kind.clone(),
            InstanceState::Running,
            Market::OnDemand,
        );
        let tags = [
            "Name",
            "Owner",
            "Project",
            "CostCentre",
            "aws:autoscaling:groupName",
        ];
        instance.tags = tags
            .map(|key| (key.to_owned(), format!("{key} of {n}")))
            .into();
        instance.image = Some("ami-0123456789abcdef0".to_owned());
        inventory.storage.volumes.insert(
            volume.clone(),
            Volume {
                account: None,
                id: volume,
                region: region.clone(),
                volume_type: "gp3".to_owned(),
                size_gib: 100,
                created_at: Some(Timestamp::UNIX_EPOCH),
                attached_to: vec![id.clone()],
                tags: BTreeMap::new(),
            },
        );
        let arn = format!("arn:aws:ecs:{region}:{account:012}:container-instance/c/{n:032x}");
        let worker = ContainerInstance::new(id.clone(), "arn:aws:ecs:cluster/c", region.clone());
        inventory.batch.container_instances.insert(arn, worker);
        inventory.instances.insert(id, instance);
    }
    inventory
        .batch
        .queues
        .push(JobQueue::new("q", region.clone()));
    for n in 0..jobs {
        let id = JobId::new(format!("{account:08x}-{}-{n:012x}", region.as_str())).expect("an id");
        let mut job = Job::new(
            id.clone(),
            format!("align-{n}"),
            "q",
            region.clone(),
            JobStatus::Running,
        );
        let task = format!("arn:aws:ecs:{region}:{account:012}:task/c/{n:032x}");
        job.created_at = Some(Timestamp::UNIX_EPOCH);
        job.tags = BTreeMap::from([("Owner".to_owned(), format!("team-{}", n % 9))]);
        job.task_arn = Some(task.clone());
        inventory.batch.tasks.insert(task, Task::default());
        inventory.batch.jobs.insert(id, job);
    }
    inventory
}

#[async_trait]
impl MetricsSource for Made {
    async fn utilization(
        &self,
        _: &Region,
        nodes: &NodeMetrics,
        from: Timestamp,
        to: Timestamp,
    ) -> CloudResult<BTreeMap<NodeId, MetricSeries>> {
        let asked = nodes.len() as u64 * METRICS_PER_NODE;
        self.metrics.fetch_add(asked, Ordering::Relaxed);
        let calls = asked.div_ceil(QUERIES_A_CALL);
        let turns = calls.div_ceil(METRIC_CALLS_AT_ONCE);
        self.calls.fetch_add(calls - turns, Ordering::Relaxed);
        self.call(turns).await;
        Ok(nodes
            .keys()
            .map(|node| (node.clone(), series(from, to)))
            .collect())
    }

    fn metrics_requested(&self) -> u64 {
        self.metrics.load(Ordering::Relaxed)
    }

    async fn list_supplementary(
        &self,
        _region: &Region,
        _nodes: &[NodeId],
    ) -> CloudResult<NodeMetrics> {
        Ok(NodeMetrics::new())
    }

    async fn of_tasks(
        &self,
        _region: &Region,
        _families: &BTreeSet<TaskFamily>,
        _from: Timestamp,
        _to: Timestamp,
    ) -> CloudResult<BTreeMap<TaskFamily, MetricSeries>> {
        Ok(BTreeMap::new())
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn least_pages(&self) -> u64 {
        0
    }
}

fn series(from: Timestamp, to: Timestamp) -> MetricSeries {
    let period = period_seconds(from, to);
    let points = (to.as_second() - from.as_second()) / i64::from(period);
    let point = |n: i64| MetricPoint {
        cpu_max: Share::from_parts(1, 100),
        network_bytes: Some(1_000),
        disk_bytes: Some(0),
        ..MetricPoint::new(
            to - SignedDuration::from_secs(i64::from(period) * n),
            period,
        )
    };
    (0..points).rev().map(point).collect()
}

#[async_trait]
impl BillSource for Made {
    async fn by_resource(&self, _: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        let pages = (INSTANCES * 14).div_ceil(GROUPS_A_BILL_PAGE);
        self.pages.fetch_add(1 + pages, Ordering::Relaxed);
        // After the first page, days are requested at the same time.
        self.call(1 + pages.div_ceil(DAYS_AT_ONCE)).await;
        let days = (1..=14).map(|day| (format!("2026-03-{day:02}"), Usd::from_micros(4_608_000)));
        let cost = ResourceCost {
            by_day: days.collect(),
        };
        let regions = REGIONS.iter().filter_map(|name| Region::new(*name).ok());
        let places = regions.flat_map(|region| (0..ACCOUNTS).map(move |n| (n, region.clone())));
        let nodes = places.flat_map(|(account, region)| {
            (0..of_one_place(INSTANCES)).map(move |n| node(account, &region, n))
        });
        Ok(nodes.map(|node| (node, cost.clone())).collect())
    }

    fn requests(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    async fn by_day(&self, _to: Timestamp, _tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        Ok(Vec::new())
    }

    async fn plans(&self, _to: Timestamp) -> CloudResult<Vec<Commitment>> {
        Ok(Vec::new())
    }

    fn least_plan_requests(&self) -> u64 {
        1
    }

    fn take_gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    fn is_charged_for(&self) -> bool {
        true
    }

    fn gaps(&self, _to: Timestamp) -> Vec<Gap> {
        Vec::new()
    }
}

fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

async fn measure() -> (Duration, usize, usize, u64, u64, u64) {
    let calls = Arc::new(AtomicU64::new(0));
    let members = (0..ACCOUNTS).map(|number| {
        let made = Arc::new(Made {
            number,
            calls: Arc::clone(&calls),
            metrics: AtomicU64::new(0),
            pages: AtomicU64::new(0),
        });
        Member {
            id: AccountId::new(format!("{number:012}")).expect("an account"),
            inventory: made.clone(),
            metrics: Some(made.clone()),
            bill: Some(made),
            markets: None,
        }
    });
    let all = Accounts::new(members.collect(), Vec::new());
    let account = Account {
        inventory: &all,
        metrics: Some(&all),
        bill: Some(&all),
        markets: None,
        prices: None,
        regions: &[],
    };
    let begun = Instant::now();
    let inventory = inventory::inventory(&account).await;
    let policy = MetricsPolicy {
        // The bill of so many machines costs more than the default budget of one dollar.
        paid_calls_usd_micros_a_day: 20_000_000,
        ..MetricsPolicy::default()
    };
    let wanted = Wanted {
        inventory: &inventory,
        fleet: &FleetState::default(),
        policy: &policy,
        now: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365),
    };
    let mut paid = Paid::default();
    let gaps = paid.refresh(&account, &wanted).await;
    assert!(gaps.is_empty(), "{gaps:?}");
    (
        begun.elapsed(),
        inventory.instances.len(),
        inventory.batch.jobs.len(),
        calls.load(Ordering::Relaxed),
        all.metrics_requested(),
        all.requests(),
    )
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let (took, instances, jobs, calls, metrics, pages) = runtime.block_on(measure());
    let dollars = |micros: u64| Usd::from_micros(i64::try_from(micros).unwrap_or(i64::MAX));
    let peak = peak_bytes().unwrap_or_default();
    println!(
        "{instances} instances and {jobs} jobs of {ACCOUNTS} accounts in {} regions",
        REGIONS.len()
    );
    println!(
        "made in memory; each call answers after {} ms",
        CALL.as_millis()
    );
    println!(
        "gathered with metrics and bill in {:.1} s (goal {} s)",
        took.as_secs_f64(),
        GOAL.as_secs()
    );
    println!(
        "peak memory {} MB (goal {} MB)",
        peak / 1_000_000,
        GOAL_BYTES / 1_000_000
    );
    println!("{calls} API calls, of which charged:");
    println!(
        "  {metrics} metrics of CloudWatch: {}",
        dollars(metrics * 10)
    );
    println!(
        "  {pages} pages of Cost Explorer: {}",
        dollars(pages * 10_000)
    );
    let well = took <= GOAL && peak <= GOAL_BYTES;
    println!(
        "{}",
        if well {
            "within both goals"
        } else {
            "BEYOND a goal"
        }
    );
    std::process::exit(i32::from(!well));
}
