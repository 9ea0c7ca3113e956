//! Tests which read calls of a scan AWS allows. The calls are separate from the evaluation of their
//! answers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use ebb_cloud::aws::{AwsBill, AwsInventory, AwsMarkets, AwsMetrics, AwsPrices, SPOT_ADVISOR};
use ebb_cloud::permissions::{Adapter, PERMISSIONS};
use ebb_cloud::ports::{
    BillSource, CloudResult, InventorySource, MarketSource, MetricsSource, PriceSource,
};
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::Refused;
use ebb_report::remediation::{COST_OPT_IN, statement};
use ebb_telemetry::identity::{NodeId, Region};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};

use super::check::{Check, Problem};
use crate::args::AccountArgs;
use crate::aws_credentials;

/// Regions that are checked at the same time.
const REGIONS_AT_ONCE: usize = 4;

/// Used in a region without an instance: the call needs the same permission.
const NO_INSTANCE: &str = "i-00000000000000000";

/// The type that is requested in each region; a region without it returns an empty answer, not a
/// refusal.
const ONE_TYPE: &str = "m5.large";

pub(super) async fn checks(args: &AccountArgs) -> Result<Vec<Check>> {
    let (config, who) =
        match aws_credentials::connect(args.region.first(), args.profile.as_deref()).await {
            Ok(connected) => connected,
            Err(error) => {
                let problem = Problem::from(error);
                let missing = Check::missing("credentials", problem.cause);
                return Ok(vec![
                    missing.with_remedy(problem.remedy.unwrap_or_default()),
                ]);
            }
        };
    let identity = who.arn.unwrap_or(who.user_id);
    let mut checks = vec![Check::ok("credentials", identity)];
    let mut answers = Answers::default();
    let inventory = AwsInventory::new(&config);
    let regions = match args.region.is_empty() {
        true => inventory.regions().await,
        false => Ok(args.region.clone()),
    };
    checks.push(enabled(args, &regions));
    let metrics = AwsMetrics::new(&config);
    let regions = regions.unwrap_or_else(|_| config.region().into_iter().collect());
    let markets = AwsMarkets::new(&config, SPOT_ADVISOR);
    let prices = AwsPrices::new(&config);
    let (inventory, metrics, markets, prices) = (&inventory, &metrics, &markets, &prices);
    let calls = regions.into_iter().map(|region| async move {
        let found = inventory.gather(&region).await;
        let measured = try_metrics(metrics, &region, found.as_ref().ok()).await;
        let sold = try_markets(markets, &region).await;
        let listed = try_prices(prices, &region).await;
        (
            region,
            found,
            measured.into_iter().chain(sold).chain(listed),
        )
    });
    let mut calls = stream::iter(calls).buffered(REGIONS_AT_ONCE);
    while let Some((region, found, tried)) = calls.next().await {
        answers.inventory(&region, &found);
        for (action, refusal) in tried {
            answers.add_answer(action, &region, refusal);
        }
    }
    checks.extend(answers.checks());
    checks.extend(match args.no_bill {
        true => [BILL, DAYS, PLANS].map(|action| Check::not_checked(action, "--no-bill")),
        false => bill_checks(&AwsBill::new(&config)).await,
    });
    Ok(checks)
}

async fn bill_checks(source: &AwsBill) -> [Check; 3] {
    let now = Timestamp::now();
    let (by_resource, days, plans) = futures::join!(
        source.by_resource(now),
        source.by_day(now, &[]),
        source.plans(now)
    );
    [
        bill(&by_resource),
        paid(DAYS, "days with a bill", days.map(|days| days.len())),
        paid(PLANS, "Savings Plans", plans.map(|plans| plans.len())),
    ]
}

const BILL: &str = "ce:GetCostAndUsageWithResources";
const DAYS: &str = "ce:GetCostAndUsage";
const PLANS: &str = "ce:GetSavingsPlansUtilizationDetails";
const SCORES: &str = "ec2:GetSpotPlacementScores";
const SCORES_WHY: &str = "not tried, because AWS limits these calls per day and sweeps need them";
const REGIONS: &str = "ec2:DescribeRegions";

fn enabled(args: &AccountArgs, regions: &CloudResult<Vec<Region>>) -> Check {
    match regions {
        Ok(_) if !args.region.is_empty() => {
            Check::not_checked(REGIONS, "regions are given by --region")
        }
        Ok(all) => Check::ok(REGIONS, format!("{} enabled regions", all.len())),
        Err(error) => Check::missing(REGIONS, error.to_string()).with_remedy(statement(REGIONS)),
    }
}

async fn try_metrics(
    metrics: &AwsMetrics,
    region: &Region,
    found: Option<&Inventory>,
) -> [Tried; 2] {
    let some = found.and_then(|inventory| inventory.instances.keys().next().cloned());
    let node = some.or_else(|| NodeId::new(NO_INSTANCE).ok());
    let to = Timestamp::now();
    let from = to
        .saturating_sub(SignedDuration::from_mins(15))
        .unwrap_or(to);
    let nodes: Vec<NodeId> = node.into_iter().collect();
    let alone = nodes.iter().map(|node| (node.clone(), Vec::new()));
    let alone = alone.collect();
    let (metric_list, utilization) = futures::join!(
        metrics.list_supplementary(region, &nodes),
        metrics.utilization(region, &alone, from, to),
    );
    [
        (
            "cloudwatch:GetMetricData",
            utilization.err().map(Refused::from),
        ),
        (
            "cloudwatch:ListMetrics",
            metric_list.err().map(Refused::from),
        ),
    ]
}

/// An action, and why it was refused; `None` if it was allowed.
type Tried = (&'static str, Option<Refused>);

async fn try_markets(markets: &AwsMarkets, region: &Region) -> [Tried; 3] {
    let (spot, zones, reserved) = futures::join!(
        markets.spot_prices(region),
        markets.zones(region),
        markets.reserved(region),
    );
    [
        (
            "ec2:DescribeSpotPriceHistory",
            spot.err().map(Refused::from),
        ),
        (
            "ec2:DescribeInstanceTypeOfferings",
            zones.err().map(Refused::from),
        ),
        (
            "ec2:DescribeReservedInstances",
            reserved.err().map(Refused::from),
        ),
    ]
}

/// Requests the Fargate prices, which are few, and the specs of one type.
async fn try_prices(prices: &AwsPrices, region: &Region) -> [Tried; 2] {
    let one = BTreeSet::from([ONE_TYPE.to_owned()]);
    let (listed, types) = futures::join!(prices.fargate(region), prices.types(region, Some(&one)));
    [
        ("pricing:GetProducts", listed.err().map(Refused::from)),
        ("ec2:DescribeInstanceTypes", types.err().map(Refused::from)),
    ]
}

fn bill(answer: &CloudResult<BTreeMap<NodeId, ebb_model::bill::ResourceCost>>) -> Check {
    match answer {
        Ok(costs) if costs.is_empty() => {
            let detail = "allowed, but no cost by resource yet; list prices are used";
            Check::not_checked(BILL, detail).with_remedy(COST_OPT_IN)
        }
        Ok(costs) => Check::ok(BILL, format!("{} resources with a cost", costs.len())),
        Err(error) => {
            let both = format!("{}   and {COST_OPT_IN}", statement(BILL));
            Check::missing(BILL, format!("{error}; list prices are used")).with_remedy(both)
        }
    }
}

fn paid(action: &'static str, what: &str, answer: CloudResult<usize>) -> Check {
    match answer {
        Ok(many) => Check::ok(action, format!("{many} {what}")),
        Err(error) => Check::missing(action, error.to_string()).with_remedy(statement(action)),
    }
}

/// The results of each action by region.
#[derive(Debug, Default)]
struct Answers {
    allowed: BTreeMap<String, BTreeSet<Region>>,
    refused: BTreeMap<String, BTreeMap<Region, Refused>>,
}

impl Answers {
    fn add_answer(&mut self, action: &str, region: &Region, refusal: Option<Refused>) {
        let action = action.to_owned();
        match refusal {
            None => {
                _ = self
                    .allowed
                    .entry(action)
                    .or_default()
                    .insert(region.clone())
            }
            Some(why) => {
                let refused = self.refused.entry(action).or_default();
                refused.insert(region.clone(), why);
            }
        }
    }

    /// A call is made only if the one before it returned something.
    fn inventory(&mut self, region: &Region, answer: &CloudResult<Inventory>) {
        let found = match answer {
            Ok(found) => found,
            Err(error) => {
                let why = Refused::from(error.clone());
                for action in [
                    "ec2:DescribeInstances",
                    "ec2:DescribeVolumes",
                    "ec2:DescribeAddresses",
                    "ec2:DescribeSnapshots",
                    "batch:DescribeComputeEnvironments",
                    "batch:DescribeJobQueues",
                    "ecs:ListClusters",
                ] {
                    self.add_answer(action, region, Some(why.clone()));
                }
                return;
            }
        };
        let refused = |action: &str| {
            let scope = format!("{region}: {action}");
            let gap = found.gaps.iter().find(|gap| gap.scope == scope)?;
            Some(Refused {
                reason: gap.reason.clone(),
                denied: gap.denied.clone(),
            })
        };
        let batch = &found.batch;
        let clusters = batch.environments.iter().any(|e| e.cluster_arn.is_some());
        let fronts = batch.queues.iter().any(|queue| queue.front.is_some());
        let made = [
            ("ec2:DescribeInstances", true),
            ("ec2:DescribeVolumes", true),
            ("ec2:DescribeAddresses", true),
            ("ec2:DescribeSnapshots", true),
            ("ec2:DescribeImages", !found.storage.snapshots.is_empty()),
            ("batch:DescribeComputeEnvironments", true),
            ("batch:DescribeJobQueues", true),
            ("ecs:ListClusters", true),
            ("batch:ListJobs", !batch.queues.is_empty()),
            ("batch:DescribeJobs", !batch.jobs.is_empty()),
            ("batch:GetJobQueueSnapshot", fronts),
            ("ecs:ListTasks", clusters),
            ("ecs:DescribeTasks", !batch.tasks.is_empty()),
            ("ecs:ListContainerInstances", clusters),
            (
                "ecs:DescribeContainerInstances",
                !batch.container_instances.is_empty(),
            ),
        ];
        for (action, was_made) in made {
            let refusal = refused(action);
            if was_made || refusal.is_some() {
                self.add_answer(action, region, refusal);
            }
        }
    }

    fn checks(&self) -> Vec<Check> {
        let wanted = |adapter| {
            matches!(
                adapter,
                Adapter::Inventory | Adapter::Metrics | Adapter::Prices
            )
        };
        let actions = PERMISSIONS
            .iter()
            .filter(|p| wanted(p.adapter) && p.action != REGIONS);
        actions
            .map(|permission| self.check(permission.action))
            .collect()
    }

    fn check(&self, action: &str) -> Check {
        let allowed = self.allowed.get(action).map_or(0, BTreeSet::len);
        let Some(refused) = self.refused.get(action) else {
            return match allowed {
                0 if action == SCORES => Check::not_checked(action, SCORES_WHY),
                0 => Check::not_checked(action, "no resource of this kind"),
                1 => Check::ok(action, "in 1 region"),
                n => Check::ok(action, format!("in {n} regions")),
            };
        };
        let why = refused.values().next().map_or("", |why| &why.reason);
        let detail = format!("in {}: {why}", named(refused.keys()));
        let remedy = match refused.values().any(|why| why.denied.is_some()) {
            true => statement(action),
            false => {
                "run it again; if it fails again, check the network between this machine and AWS"
                    .to_owned()
            }
        };
        Check::missing(action, detail).with_remedy(remedy)
    }
}

/// The first few regions by name, and the number of the others.
fn named<'a>(mut regions: impl ExactSizeIterator<Item = &'a Region>) -> String {
    const NAMED: usize = 3;
    let names: Vec<&str> = regions.by_ref().take(NAMED).map(Region::as_str).collect();
    match regions.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more regions", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use ebb_cloud::ports::CloudError;
    use ebb_model::inventory::batch::JobQueue;
    use ebb_model::visibility_gap::Gap;

    use super::super::check::State;
    use super::*;

    fn region(name: &str) -> Region {
        Region::new(name).expect("a region")
    }

    fn state_of(checks: &[Check], action: &str) -> (State, String) {
        let found = checks.iter().find(|check| check.name == action);
        let check = found.expect(action);
        (check.state, check.detail.clone())
    }

    #[test]
    fn a_permission_is_judged_by_the_calls_that_were_made() {
        let (a, b) = (region("eu-west-1"), region("us-east-1"));
        let mut open = Inventory::default();
        open.batch.queues.push(JobQueue::new("q", a.clone()));
        let denying = Inventory {
            gaps: vec![Gap {
                denied: Some("batch:DescribeJobQueues".to_owned()),
                scope: "us-east-1: batch:DescribeJobQueues".to_owned(),
                reason: "denied: AccessDenied: no".to_owned(),
            }],
            ..Inventory::default()
        };
        let mut answers = Answers::default();
        answers.inventory(&a, &Ok(open));
        answers.inventory(&b, &Ok(denying));
        let checks = answers.checks();
        let check = |action: &str, state: State, detail: &str| {
            assert_eq!(state_of(&checks, action), (state, detail.to_owned()));
        };
        check("ec2:DescribeInstances", State::Ok, "in 2 regions");
        let refused = "in us-east-1: denied: AccessDenied: no";
        check("batch:DescribeJobQueues", State::Missing, refused);
        check("batch:ListJobs", State::Ok, "in 1 region");
        let nothing = "no resource of this kind";
        check("batch:DescribeJobs", State::NotChecked, nothing);
        check("ec2:DescribeSnapshots", State::Ok, "in 2 regions");
        check("ec2:DescribeImages", State::NotChecked, nothing);
        check(SCORES, State::NotChecked, SCORES_WHY);
        check("ec2:DescribeInstanceTypes", State::NotChecked, nothing);
        check("cloudwatch:GetMetricData", State::NotChecked, nothing);
        let remedy = checks.iter().find_map(|check| check.remedy.as_deref());
        assert!(remedy.is_some_and(|line| line.contains("\"batch:DescribeJobQueues\"")));
    }

    #[test]
    fn a_call_that_is_paid_for_is_told_with_what_it_answered_or_lacks() {
        let check = paid(PLANS, "Savings Plans", Ok(0));
        assert_eq!(
            (check.state, check.detail.as_str()),
            (State::Ok, "0 Savings Plans")
        );
        let denied = CloudError::Denied {
            operation: PLANS.to_owned(),
            message: "no".to_owned(),
        };
        let check = paid(PLANS, "Savings Plans", Err(denied));
        assert_eq!(check.state, State::Missing);
        assert!(check.remedy.is_some_and(|line| line.contains(PLANS)));
    }

    #[test]
    fn a_region_that_does_not_answer_is_named() {
        let mut answers = Answers::default();
        let error = CloudError::Failed {
            operation: "ec2:DescribeInstances".to_owned(),
            message: "timeout".to_owned(),
        };
        for name in ["a-1", "b-1", "c-1", "d-1", "e-1"] {
            answers.inventory(&region(name), &Err(error.clone()));
        }
        let (state, detail) = state_of(&answers.checks(), "ec2:DescribeInstances");
        assert_eq!(state, State::Missing);
        assert!(
            detail.starts_with("in a-1, b-1, c-1 and 2 more regions: "),
            "{detail}"
        );
    }
}
