//! When and in which order lists are requested, and the gaps for refusals and timeouts.

use ebb_cloud::fake::markets::FakePrices;
use ebb_model::inventory::batch::ComputeEnvironment;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::UsdPerHour;

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + hours * 3600).expect("a time")
}

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

fn kind(name: &str) -> InstanceType {
    InstanceType::new(name).expect("a type")
}

fn running(machines: &[(&str, &str)]) -> Inventory {
    let mut inventory = Inventory::default();
    for (number, (place, name)) in machines.iter().enumerate() {
        let id = NodeId::new(format!("i-{number}")).expect("a node");
        let state = InstanceState::Running;
        let market = Market::OnDemand;
        let one = Instance::new(id.clone(), region(place), kind(name), state, market);
        inventory.instances.insert(id, one);
    }
    inventory
}

fn like_m5(name: &str) -> TypeSpec {
    let m5 = Catalogue::built_in().spec(&kind("m5.large"));
    TypeSpec {
        name: kind(name),
        ..m5.expect("it is known").clone()
    }
}

/// A source with the same list in each of these regions.
fn source(regions: &[&str]) -> FakePrices {
    let price = UsdPerHour::from_micros(99_000);
    let listed = BTreeMap::from([(kind("m5.large"), price), (kind("x99.large"), price)]);
    let regions = regions.iter().map(|name| (region(name), listed.clone()));
    let types = ["x99.large", "x99.xlarge", "z8.large"].map(like_m5);
    FakePrices::new(regions.collect()).with_types(types.into())
}

fn scopes(gaps: &[Gap]) -> Vec<&str> {
    gaps.iter().map(|gap| gap.scope.as_str()).collect()
}

#[tokio::test]
async fn a_single_scan_asks_only_for_what_is_lacking() {
    let machines = [
        ("eu-west-1", "x99.large"),
        ("us-east-1", "m5.large"),
        ("eu-west-3", "x99.large"),
    ];
    let (source, mut listed) = (source(&["eu-west-1", "us-east-1"]), Listed::default());
    let (inventory, built_in) = (running(&machines), Catalogue::built_in());
    let scan = (Renew::MISSING, at(0));
    let (refreshed, gaps) = listed.refresh(&source, built_in, &inventory, scan).await;
    assert_eq!(
        scopes(&gaps),
        ["eu-west-3: list prices", "eu-west-3: machine types"]
    );
    let regions: Vec<&Region> = refreshed.regions.keys().collect();
    assert_eq!(regions, [&region("eu-west-1")]);
    let catalogue = built_in.with(&refreshed);
    let price = catalogue.on_demand(&region("eu-west-1"), &kind("x99.large"));
    assert_eq!(price, Some(UsdPerHour::from_micros(99_000)));
    assert!(catalogue.spec(&kind("x99.large")).is_some());
    assert!(
        catalogue.spec(&kind("x99.xlarge")).is_none(),
        "nobody asked"
    );
}

#[tokio::test]
async fn old_lists_are_asked_for_in_turns_by_the_week_and_what_refuses_by_the_hour() {
    let names = [
        "ap-south-1",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "us-east-1",
    ];
    let machines = names.map(|name| (name, "m5.large"));
    let (source, mut listed) = (source(&names[1..]), Listed::default());
    let (inventory, mut kept) = (running(&machines), Refreshed::default());
    let mut check = async |hours: i64, expect: &[&str], gaps: usize| {
        let catalogue = Catalogue::built_in().with(&kept);
        let sweep = (Renew::old(SOON), at(hours));
        let (refreshed, missing) = listed.refresh(&source, &catalogue, &inventory, sweep).await;
        kept.absorb(refreshed);
        let requests = source.take_asked();
        let regions: Vec<&str> = requests
            .iter()
            .filter_map(|one| one.split(' ').next())
            .collect();
        assert_eq!(
            (regions, missing.len()),
            (expect.to_vec(), gaps),
            "after {hours} h"
        );
    };
    check(0, &names[..4], 1).await;
    check(0, &names[4..], 1).await;
    check(0, &[], 1).await;
    check(1, &names[..1], 1).await;
    check(7 * 24 - 1, &names[..1], 1).await;
    check(7 * 24, &names[..4], 1).await;
}

#[tokio::test]
async fn types_that_batch_may_start_are_asked_about_and_those_nobody_knows_are_named() {
    let mut inventory = running(&[("eu-west-1", "y1.large")]);
    let mut environment = ComputeEnvironment::new("nightly", region("eu-west-1"));
    let may = [
        "optimal",
        "default_x86_64",
        "m5",
        "x99",
        "z8.large",
        "m5.xlarge",
    ];
    environment.instance_types = may.map(str::to_owned).into();
    inventory.batch.environments.push(environment);
    let (source, mut listed) = (source(&["eu-west-1"]), Listed::default());
    let now = (Renew::old(SOON), at(0));
    let (refreshed, gaps) = listed
        .refresh(&source, Catalogue::built_in(), &inventory, now)
        .await;
    let types: Vec<&str> = refreshed.types.keys().map(InstanceType::as_str).collect();
    assert_eq!(types, ["x99.large", "x99.xlarge", "z8.large"]);
    assert_eq!(scopes(&gaps), ["eu-west-1: machine types"]);
    assert!(
        gaps[0].reason.contains("does not describe y1.large"),
        "{}",
        gaps[0].reason
    );
    source.take_asked();
    let catalogue = Catalogue::built_in().with(&refreshed);
    let (_, gaps) = listed.refresh(&source, &catalogue, &inventory, now).await;
    assert_eq!(source.take_asked(), Vec::<String>::new());
    assert_eq!(gaps.len(), 1, "it is said until it is known");
}

/// Never answers.
struct Silent;

#[async_trait::async_trait]
impl PriceSource for Silent {
    async fn on_demand(&self, _: &Region) -> CloudResult<BTreeMap<InstanceType, UsdPerHour>> {
        future::pending().await
    }

    async fn fargate(&self, _: &Region) -> CloudResult<FargatePrices> {
        future::pending().await
    }

    async fn storage(&self, _: &Region) -> CloudResult<StoragePrices> {
        future::pending().await
    }

    async fn types(&self, _: &Region, _: Option<&BTreeSet<String>>) -> CloudResult<Vec<TypeSpec>> {
        future::pending().await
    }
}

#[tokio::test]
async fn a_list_that_does_not_come_in_time_is_a_gap_and_delays_nothing() {
    let inventory = running(&[("eu-west-1", "x99.large")]);
    let now = (Renew::old(Duration::from_millis(20)), at(0));
    let mut listed = Listed::default();
    let refresh = listed.refresh(&Silent, Catalogue::built_in(), &inventory, now);
    let (refreshed, gaps) = refresh.await;
    assert!(refreshed.is_empty());
    assert_eq!(
        scopes(&gaps),
        ["eu-west-1: list prices", "eu-west-1: machine types"]
    );
    assert!(
        gaps.iter()
            .all(|gap| gap.reason.contains("timed out after"))
    );
}
