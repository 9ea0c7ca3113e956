//! The contract: our clients read AWS's own documented examples of each call over the wire. A list
//! names the calls without an example, so that a new one is not overlooked.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use ebb_cloud::aws::{
    AwsInventory, AwsMarkets, AwsPrices, MemberRole, MemberScope, SPOT_ADVISOR, caller, enter,
};
use ebb_cloud::ports::{InventorySource, MarketSource, PriceSource};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_telemetry::identity::Region;
use ebb_tests::simulated::Simulated;
use serde_json::json;

use super::home;

/// Calls that have no documented example in botocore. Their clients are tested with handwritten
/// answers.
const WITHOUT: [&str; 12] = [
    "batch:GetJobQueueSnapshot",
    "ce:GetCostAndUsage",
    "ce:GetCostAndUsageWithResources",
    "ce:GetSavingsPlansUtilizationDetails",
    "compute-optimizer:GetEC2InstanceRecommendations",
    "cost-optimization-hub:ListRecommendations",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeReservedInstances",
    "ec2:GetSpotPlacementScores",
    "monitoring:GetMetricData",
    "monitoring:ListMetrics",
];

pub(crate) fn the_documented_examples_of_each_call_are_understood() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(examples_understood())
}

async fn examples_understood() -> Result<()> {
    let account = Simulated::start("examples.py")?;
    assert_eq!(account.result["without"], json!(WITHOUT));
    let config = home(&account).await?;
    let region = Region::new("us-east-1")?;
    let inventory = AwsInventory::new(&config);
    let markets = AwsMarkets::new(&config, SPOT_ADVISOR);
    for n in 0..account.result["most"].as_u64().context("most")? {
        account.extension("example", &json!({"n": n}))?;
        assert!(inventory.regions().await?.contains(&region));
        is_as_documented(&inventory.gather(&region).await?)?;
        let spot = markets.spot_prices(&region).await?;
        let cents: Vec<_> = spot
            .values()
            .map(|terms| terms.per_hour.0.micros())
            .collect();
        assert_eq!(cents, [80_000]);
        // The example is about a volume, which is not a machine and has no hourly price.
        let prices = AwsPrices::new(&config).on_demand(&region).await?;
        assert!(prices.is_empty(), "{prices:?}");
    }
    account.extension("example", &json!({"n": 0}))?;
    let who = caller(&config).await?;
    assert_eq!(
        who.arn.as_deref(),
        Some("arn:aws:iam::123456789012:user/Alice")
    );
    let role = MemberRole {
        name: "ebb-member".to_owned(),
        external_id: None,
    };
    let entered = enter(&config, &who, &MemberScope::Organization, &role).await;
    let ids: BTreeSet<_> = entered.accounts.iter().map(|(id, _)| id.as_str()).collect();
    let examples = [
        "111111111111",
        "222222222222",
        "333333333333",
        "444444444444",
    ];
    assert!(
        examples.iter().all(|id| ids.contains(id)),
        "{ids:?} {:?}",
        entered.gaps
    );
    Ok(())
}

fn is_as_documented(found: &Inventory) -> Result<()> {
    // An address of EC2-Classic, which AWS has retired, has no allocation id.
    let unread = found
        .gaps
        .iter()
        .filter(|gap| !gap.scope.contains("DescribeAddresses"));
    assert_eq!(unread.count(), 0, "{:#?}", found.gaps);
    let volume = &found.storage.volumes["vol-049df61146c4d7901"];
    assert_eq!(
        (volume.volume_type.as_str(), volume.size_gib),
        ("standard", 8)
    );
    assert_eq!(volume.attached_to[0].as_str(), "i-1234567890abcdef0");
    let images = found
        .storage
        .snapshots
        .values()
        .flat_map(|one| one.images.iter().flatten());
    let images: BTreeSet<_> = images.map(String::as_str).collect();
    assert!(
        images.is_subset(&BTreeSet::from(["ami-5731123e"])),
        "{images:?}"
    );
    assert!(!found.storage.snapshots.is_empty());
    let batch = &found.batch;
    let environment = batch.environments.first().context("an environment")?;
    assert_eq!(
        (
            environment.name.as_str(),
            environment.max_vcpus,
            environment.desired_vcpus
        ),
        ("P2OnDemand", Some(128), Some(48))
    );
    assert_eq!(batch.queues[0].environments, ["C4OnDemand"]);
    let job = batch.jobs.values().next().context("a job")?;
    assert_eq!((job.status, job.exit_code), (JobStatus::Succeeded, Some(0)));
    assert_eq!(job.definition.as_deref(), Some("sleep60"));
    let worker = batch
        .container_instances
        .values()
        .next()
        .context("a worker")?;
    assert_eq!(
        (worker.node.as_str(), worker.agent_connected),
        ("i-807f3249", Some(true))
    );
    let task = batch.tasks.values().next().context("a task")?;
    assert_eq!(task.last_status.as_deref(), Some("RUNNING"));
    Ok(())
}
