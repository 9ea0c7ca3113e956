//! Two accounts in five regions over the real SDKs. One region refuses, one throttles, and one does
//! not answer. All answers come in small pages, and one machine disappears meanwhile.

#[path = "accounts/examples.rs"]
mod examples;
#[path = "accounts/markets.rs"]
mod markets;
#[path = "accounts/metrics.rs"]
mod metrics;
#[path = "accounts/money.rs"]
mod money;
#[path = "accounts/plans.rs"]
mod plans;
#[path = "accounts/prices.rs"]
mod prices;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use ebb_cloud::accounts::{Accounts, Member};
use ebb_cloud::aws::{
    AwsConfig, AwsInventory, AwsMarkets, Keys, MemberRole, MemberScope, caller, enter,
};
use ebb_cloud::permissions::PERMISSIONS;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::batch::queue_time::WaitCause;
use ebb_model::policy::Policy;
use ebb_sweep::collect::account::Account;
use ebb_sweep::collect::inventory;
use ebb_sweep::scan;
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::money::Usd;
use ebb_test_support::{run, tests};
use ebb_tests::simulated::Simulated;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The time limit of a call; the hanging region takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Paged calls, all of whose pages must have been read.
const PAGED: [&str; 14] = [
    "GetProducts",
    "DescribeSpotPriceHistory",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeVolumes",
    "DescribeSnapshots",
    "DescribeImages",
    "DescribeComputeEnvironments",
    "DescribeJobQueues",
    "ListJobs",
    "ListContainerInstances",
    "ListTasks",
    "ListAccounts",
];

async fn home(account: &Simulated) -> Result<AwsConfig> {
    let region = Region::new("us-east-1")?;
    let keys = Keys {
        access_key_id: "test".to_owned(),
        secret_access_key: "test".to_owned(),
        session_token: None,
    };
    let home = AwsConfig::load(Some(&region)).await;
    let home = home
        .with_endpoint(account.text("moto"))
        .with_credentials(keys);
    Ok(home.with_patience(PATIENCE))
}

async fn accounts(account: &Simulated) -> Result<Accounts> {
    let home = home(account).await?;
    let role = MemberRole {
        name: account.text("role").to_owned(),
        external_id: None,
    };
    let who = caller(&home).await?;
    let entered = enter(&home, &who, &MemberScope::Organization, &role).await;
    let advisor = format!("{}/spot-advisor-data.json", account.text("moto"));
    let members = entered.accounts.into_iter().map(|(id, config)| Member {
        id,
        inventory: Arc::new(AwsInventory::new(&config)),
        metrics: None,
        bill: None,
        markets: Some(Arc::new(AwsMarkets::new(&config, &advisor))),
    });
    Ok(Accounts::new(members.collect(), entered.gaps))
}

async fn gathered(account: &Simulated, all: &Accounts) -> Result<Inventory> {
    let names = account.result["regions"].as_array().context("regions")?;
    let regions = names.iter().filter_map(Value::as_str).map(Region::new);
    let regions = regions.collect::<Result<Vec<_>, _>>()?;
    let swept_account = Account {
        inventory: all,
        metrics: None,
        bill: None,
        markets: None,
        prices: None,
        regions: &regions,
    };
    Ok(inventory::inventory(&swept_account).await)
}

/// The number of instances of the second account by region.
fn of_the_second(account: &Simulated, found: &Inventory) -> Result<BTreeMap<String, usize>> {
    let second = AccountId::new(account.text("second"))?;
    let mut count = BTreeMap::new();
    for instance in found.instances.values() {
        if instance.account.as_ref() == Some(&second) {
            *count.entry(instance.region.to_string()).or_default() += 1;
        }
    }
    Ok(count)
}

fn what_refuses_throttles_or_hangs_is_said_and_the_rest_is_whole() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(refused_and_whole())
}

#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
async fn refused_and_whole() -> Result<()> {
    let account = Simulated::start("accounts.py")?;
    let second = account.text("second");
    let faults = json!({"pages": 2, "faults": [
        {"kind": "refuse", "region": "eu-west-1", "account": second},
        {"kind": "throttle", "region": "us-west-2", "service": "ec2", "times": 2},
        {"kind": "hang", "region": "ap-southeast-2", "account": second, "seconds": 60},
        {"kind": "vanish", "service": "ecs"},
    ]});
    account.extension("faults", &faults)?;
    let first = &account.result["instances"]["us-east-1"][0];
    let advised = first.as_str().context("an instance")?;
    account.extension("advisers", &advice(second, advised))?;
    let all = accounts(&account).await?;
    let found = gathered(&account, &all).await?;
    markets::are_known(&account, &all, &found).await?;
    prices::are_renewed(&account).await?;

    let whole = ["eu-central-1", "us-east-1", "us-west-2"].map(|name| (name.to_owned(), 3));
    assert_eq!(of_the_second(&account, &found)?, BTreeMap::from(whole));
    let gaps: Vec<String> = found
        .gaps
        .iter()
        .map(|g| format!("{}: {}", g.scope, g.reason))
        .collect();
    let about = |region: &str, words: &str| {
        let scope = format!("account {second} {region}: inventory");
        let is_reported = gaps
            .iter()
            .any(|gap| gap.starts_with(&scope) && gap.contains(words));
        assert!(is_reported, "{scope} .. {words} in {gaps:#?}");
    };
    about("eu-west-1", "UnauthorizedOperation");
    about("ap-southeast-2", "timed out");
    assert_eq!(gaps.len(), 2, "{gaps:#?}");

    let calls = account.extension("calls", &json!({}))?;
    let calls = calls.as_array().context("calls")?;
    let text = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let paged: BTreeSet<String> = calls
        .iter()
        .filter(|call| !call["token"].is_null())
        .map(|call| text(call, "action"))
        .collect();
    for action in PAGED {
        assert!(
            paged.contains(action),
            "{action} was not seen to page: {paged:?}"
        );
    }
    for call in calls {
        let action = format!("{}:{}", text(call, "service"), text(call, "action"));
        let listed = PERMISSIONS
            .iter()
            .any(|permission| permission.action == action);
        assert!(listed, "{action} is not on the list of permissions");
    }
    let about = found
        .opinions
        .iter()
        .filter(|opinion| opinion.resource == advised);
    let savings: Vec<_> = about.map(|opinion| opinion.saving_a_month).collect();
    assert!(
        savings.contains(&Some(Usd::from_micros(9_500_000))),
        "{savings:?}"
    );
    assert!(savings.contains(&None), "the Hub told none: {savings:?}");
    joined(&account, &found)?;
    metrics::of_agents_are_found(&account).await?;
    metrics::of_tasks_are_found(&account).await?;
    one_that_vanishes_is_no_waste(&account, &all, &found).await?;
    plans::are_read(&account).await?;
    money::adds_up(&account).await?;
    money::without_the_opt_in(&account).await?;
    money::of_many_machines_is_read_day_by_day(&account).await
}

/// ECS still lists a machine that EC2 no longer knows. The report does not contain it as a machine,
/// and its task does not count as successful.
async fn one_that_vanishes_is_no_waste(
    account: &Simulated,
    all: &Accounts,
    found: &Inventory,
) -> Result<()> {
    let batch = &found.batch;
    let running = batch
        .jobs
        .values()
        .filter(|job| job.status == JobStatus::Running);
    let mut placed = running.filter_map(|job| Some((job, batch.node_of(job)?)));
    let (job, gone) = placed.next().context("a job that runs")?;
    let faults = json!({"faults": [{"kind": "vanish", "service": "ec2", "resource": gone}]});
    account.extension("faults", &faults)?;
    let swept_account = Account {
        inventory: all,
        metrics: None,
        bill: None,
        markets: None,
        prices: None,
        regions: std::slice::from_ref(&job.region),
    };
    let known = scan::Known::default();
    let report = scan::scan(&swept_account, &known, &Policy::default(), Timestamp::now()).await;
    assert!(!report.nodes.is_empty(), "the others are seen");
    assert!(report.nodes.iter().all(|node| node.id != gone.as_str()));
    assert!(
        report
            .findings
            .iter()
            .all(|f| f.resource.id != gone.as_str())
    );
    let is_listed = report
        .not_evaluated
        .iter()
        .any(|one| one.resource == job.id.as_str());
    assert!(
        is_listed,
        "the job on it is not evaluated: {:#?}",
        report.not_evaluated
    );
    Ok(())
}

/// The recommendations of AWS's two advisers for one machine.
fn advice(account: &str, instance: &str) -> Value {
    let saving = json!({"estimatedMonthlySavings": {"currency": "USD", "value": 9.5}});
    let best = json!({"instanceType": "t3.medium", "rank": 1, "savingsOpportunity": saving});
    json!({
        "optimizer": [{
            "instanceArn": format!("arn:aws:ec2:us-east-1:{account}:instance/{instance}"),
            "finding": "OVER_PROVISIONED",
            "recommendationOptions": [best],
        }],
        "hub": [{"resourceId": instance, "region": "us-east-1", "actionType": "Rightsize"}],
    })
}

/// Job, task, container instance and machine are assigned to each other; the deleted worker is not
/// included.
fn joined(account: &Simulated, found: &Inventory) -> Result<()> {
    let batch = &found.batch;
    let lost = 1;
    let workers = account.result["world"]["nodes"]
        .as_array()
        .context("nodes")?;
    let with_steps = workers
        .iter()
        .filter(|node| node["steps"].as_array().is_some_and(|s| !s.is_empty()));
    assert!(batch.container_instances.len() + lost >= with_steps.count());
    let mut joined = 0;
    for job in batch.jobs.values() {
        let (Some(task), Some(node)) = (batch.task_of(job), batch.node_of(job)) else {
            continue;
        };
        assert!(found.instances.contains_key(node));
        assert_eq!(task.container_instance_arn, job.container_instance_arn);
        joined += 1;
        let time = batch.queue_time(job);
        assert!(
            time.created_at.is_some() && time.starting_at.is_some(),
            "{time:?}"
        );
    }
    assert!(joined > 0, "no job was joined to its machine");
    let blocked = batch.jobs.values().map(|job| batch.queue_time(job).cause);
    let blocked = blocked.filter(|cause| matches!(cause, Some(WaitCause::Blocked { .. })));
    assert!(blocked.count() > 0, "the blocked jobs say why");
    let fronts = batch.queues.iter().filter_map(|queue| queue.front.as_ref());
    assert!(
        fronts.map(Vec::len).sum::<usize>() > 0,
        "the queue tells who stands at its front"
    );
    let both = ["home", "second"].map(|whose| AccountId::new(account.text(whose)).ok());
    let queues = batch.queues.iter().filter(|one| one.name == "other");
    let environments = batch.environments.iter().filter(|one| one.name == "other");
    let queues: BTreeSet<_> = queues.map(|one| one.account.clone()).collect();
    let environments: BTreeSet<_> = environments.map(|one| one.account.clone()).collect();
    assert_eq!(queues, BTreeSet::from(both.clone()));
    assert_eq!(environments, BTreeSet::from(both));
    assert!(!found.storage.snapshots.is_empty());
    assert!(
        found
            .storage
            .snapshots
            .values()
            .all(|snapshot| snapshot.images.is_some())
    );
    Ok(())
}

fn main() -> ExitCode {
    run(tests![
        what_refuses_throttles_or_hangs_is_said_and_the_rest_is_whole,
        examples::the_documented_examples_of_each_call_are_understood
    ])
}
