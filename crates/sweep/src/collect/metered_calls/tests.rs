//! Which metered calls are made, and what they may cost.

use std::sync::LazyLock;

use ebb_cloud::fake::account::{FakeBill, FakeInventory, FakeMetrics};
use ebb_cloud::ports::CloudError;
use ebb_cloud::ports::metrics::{Stream, Tells};
use ebb_model::inventory::Inventory;
use ebb_model::inventory::batch::task::{Task, TaskFamily};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::metric_series::MetricPoint;
use ebb_model::report::own_cost::OwnCost;
use ebb_node_state::fleet_state::FleetState;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;

use super::*;

static NOTHING: LazyLock<FakeInventory> = LazyLock::new(FakeInventory::default);

/// An account that has only metered sources.
fn account<'a>(metrics: Option<&'a FakeMetrics>, bill: Option<&'a FakeBill>) -> Account<'a> {
    Account {
        inventory: &*NOTHING,
        metrics: metrics.map(|metrics| metrics as _),
        bill: bill.map(|bill| bill as _),
        markets: None,
        prices: None,
        regions: &[],
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a small number")
}

fn node(number: u32) -> NodeId {
    NodeId::new(format!("i-{number}")).expect("a name")
}

fn inventory(nodes: u32) -> Inventory {
    let mut inventory = Inventory::default();
    for number in 0..nodes {
        let region = Region::new("eu-central-1").expect("a region");
        let kind = InstanceType::new("m5.large").expect("a type");
        let running = InstanceState::Running;
        let instance = Instance::new(node(number), region, kind, running, Market::OnDemand);
        inventory.instances.insert(node(number), instance);
    }
    inventory
}

fn series() -> MetricSeries {
    [MetricPoint::new(at(0), 300)].into_iter().collect()
}

/// Refreshes at each of these seconds under a budget in micro-dollars. Returns how many metrics
/// were requested after each refresh, and the scopes of the gaps.
async fn refreshed(
    nodes: u32,
    budget: i64,
    bill: Option<&FakeBill>,
    seconds: &[i64],
) -> Vec<(u64, Vec<String>)> {
    let metrics = FakeMetrics::new(BTreeMap::from([(node(0), series())]));
    let account = account(Some(&metrics), bill);
    let policy = MetricsPolicy {
        paid_calls_usd_micros_a_day: budget,
        history_days: 0,
        ..MetricsPolicy::default()
    };
    let (inventory, mut paid) = (inventory(nodes), Paid::default());
    let mut refreshes = Vec::new();
    for second in seconds {
        let wanted = Wanted {
            inventory: &inventory,
            fleet: &FleetState::default(),
            policy: &policy,
            now: at(*second),
        };
        let gaps = paid.refresh(&account, &wanted).await;
        let scopes = gaps.into_iter().map(|gap| gap.scope).collect();
        refreshes.push((metrics.metrics_requested(), scopes));
    }
    refreshes
}

const HOUR: i64 = 3600;

const DAY: i64 = 24 * HOUR;

#[tokio::test]
async fn metrics_are_asked_for_once_an_hour_and_within_the_budget() {
    let check = async |nodes, budget, seconds: &[i64], expect: &[(u64, &str)]| {
        let refreshes = refreshed(nodes, budget, None, seconds).await;
        let got: Vec<(u64, String)> = refreshes
            .into_iter()
            .map(|(n, g)| (n, g.join(", ")))
            .collect();
        let expect: Vec<_> = expect.iter().map(|(n, g)| (*n, (*g).to_owned())).collect();
        assert_eq!(got, expect, "{nodes} nodes for {budget}");
    };
    let each = METRICS_PER_NODE;
    let hourly = [0, HOUR - 1, HOUR];
    check(
        2,
        1_000_000,
        &hourly,
        &[(1 + 2 * each, ""), (1 + 2 * each, ""), (2 + 4 * each, "")],
    )
    .await;
    // The budget pays for three nodes a day, and a day later for three more.
    let three = 10 * (1 + 3 * i64::try_from(each).expect("a small number"));
    let short = "metrics of 2 nodes";
    check(
        5,
        three,
        &[0, 60, DAY],
        &[
            (1 + 3 * each, short),
            (1 + 3 * each, short),
            (2 + 6 * each, short),
        ],
    )
    .await;
    check(1, 0, &[0], &[(0, "metrics of 1 nodes")]).await;
}

/// The requests of one free bill after another at these seconds, and whether each refresh has the
/// gap of the bill.
async fn free(versions: &[(i64, BillVersion)]) -> Vec<(u64, bool)> {
    let mut paid = Paid::default();
    let mut refreshes = Vec::new();
    for (second, version) in versions {
        let bill = FakeBill::new(Ok(BTreeMap::new())).with_version(version.clone());
        let wanted = Wanted {
            inventory: &Inventory::default(),
            fleet: &FleetState::default(),
            policy: &MetricsPolicy::default(),
            now: at(*second),
        };
        let gaps = paid.refresh(&account(None, Some(&bill)), &wanted).await;
        let has_gap = gaps.iter().any(|gap| gap.reason == "an invalid row");
        // One request for Savings Plans, which are free of the version.
        let plans = u64::from(*second == 0 || *second >= DAY);
        refreshes.push((bill.requests() - plans, has_gap));
    }
    refreshes
}

#[tokio::test]
async fn a_free_bill_is_read_again_when_it_has_changed_or_the_day_has() {
    let is = |version: &str| BillVersion::Is(version.to_owned());
    let refreshes = free(&[(0, is("a")), (60, is("a")), (120, is("b")), (DAY, is("b"))]).await;
    assert_eq!(refreshes, [(3, true), (0, true), (3, true), (3, true)]);
    let unfinished = BillVersion::Unfinished;
    let refreshes = free(&[(0, unfinished.clone()), (60, is("a")), (120, unfinished)]).await;
    assert_eq!(refreshes, [(3, true), (3, true), (0, true)]);
    let refreshes = free(&[(0, BillVersion::Unknown), (60, BillVersion::Unknown)]).await;
    assert_eq!(refreshes, [(3, true), (3, true)]);
}

#[tokio::test]
async fn supplementary_metrics_are_requested_and_paid_for() {
    let stream = Stream {
        tells: Tells::Memory,
        dimensions: vec![("InstanceId".to_owned(), "i-1".to_owned())],
    };
    let metrics = FakeMetrics::new(BTreeMap::from([(node(0), series())]));
    let metrics = metrics.with_supplementary(BTreeMap::from([(node(1), vec![stream; 3])]));
    let account = account(Some(&metrics), None);
    let policy = MetricsPolicy {
        // One page of the list, seven metrics of the first node and ten of the second.
        paid_calls_usd_micros_a_day: 180,
        history_days: 0,
        ..MetricsPolicy::default()
    };
    let (inventory, mut paid) = (inventory(3), Paid::default());
    let wanted = Wanted {
        inventory: &inventory,
        fleet: &FleetState::default(),
        policy: &policy,
        now: at(0),
    };
    let gaps = paid.refresh(&account, &wanted).await;
    let scopes: Vec<_> = gaps.iter().map(|gap| gap.scope.as_str()).collect();
    assert_eq!(scopes, ["metrics of 1 nodes"]);
    assert_eq!(metrics.metrics_requested(), 1 + 7 + 10);
    assert_eq!(paid.spent, Usd::from_micros(180));
}

#[tokio::test]
async fn a_bill_that_is_refused_or_too_dear_is_a_gap() {
    let denied = FakeBill::new(Err(CloudError::Denied {
        operation: "ce:GetCostAndUsageWithResources".to_owned(),
        message: "no".to_owned(),
    }));
    let refreshes = refreshed(0, 1_000_000, Some(&denied), &[0]).await;
    assert_eq!(refreshes, [(0, vec!["bill by resource".to_owned()])]);
    let both = vec!["bill by resource".to_owned(), "Savings Plans".to_owned()];
    let none = FakeBill::new(Ok(BTreeMap::new()));
    let broke = refreshed(0, 9_999, Some(&none), &[0]).await;
    assert_eq!(broke, [(0, both)]);
    let spent = refreshed(0, 19_999, Some(&FakeBill::new(Ok(BTreeMap::new()))), &[0]).await;
    assert_eq!(spent, [(0, vec!["bill by resource".to_owned()])]);
}

#[tokio::test]
async fn an_open_day_is_replaced_when_its_bill_closes_and_every_request_is_paid_for() {
    let billed_days = |micros, estimated| {
        vec![BilledDay {
            day: "2026-03-01".to_owned(),
            total: Usd::from_micros(micros),
            estimated,
            ..BilledDay::default()
        }]
    };
    let mut paid = Paid::default();
    let policy = MetricsPolicy {
        cost_tags: BTreeSet::from(["Project".to_owned()]),
        ..MetricsPolicy::default()
    };
    let ask = async |paid: &mut Paid, second: i64, days: Vec<BilledDay>| {
        let bill = FakeBill::new(Ok(BTreeMap::new())).with_days(days);
        let account = account(None, Some(&bill));
        let wanted = Wanted {
            inventory: &Inventory::default(),
            fleet: &FleetState::default(),
            policy: &policy,
            now: at(second),
        };
        paid.refresh(&account, &wanted).await
    };
    assert!(ask(&mut paid, 0, billed_days(5, true)).await.is_empty());
    assert!(paid.days()[0].estimated);
    // Costs by resource, by service, by tag and by the tag of Ebb, and Savings Plans: one cent each.
    assert_eq!(paid.spent, Usd::from_micros(50_000));
    // The bill is stored until Cost Explorer may have newer data.
    ask(&mut paid, 11 * HOUR, billed_days(6, false)).await;
    assert!(paid.days()[0].estimated);
    ask(&mut paid, 12 * HOUR, billed_days(6, false)).await;
    assert_eq!(paid.days(), billed_days(6, false));
    assert_eq!(paid.spent, Usd::from_micros(80_000));
    // Without a bill source the stored bill no longer counts.
    let nobody = account(None, None);
    let wanted = Wanted {
        inventory: &Inventory::default(),
        fleet: &FleetState::default(),
        policy: &policy,
        now: at(7 * HOUR),
    };
    paid.refresh(&nobody, &wanted).await;
    assert!(paid.days().is_empty());
}

/// The gaps after a refresh, the first billed day, the number of machines with costs, and whether
/// anything was requested.
async fn ask_bill(
    paid: &mut Paid,
    hour: i64,
    bill: FakeBill,
) -> (String, Option<i64>, usize, bool) {
    let wanted = Wanted {
        inventory: &Inventory::default(),
        fleet: &FleetState::default(),
        policy: &MetricsPolicy::default(),
        now: at(hour * HOUR),
    };
    let gaps = paid.refresh(&account(None, Some(&bill)), &wanted).await;
    let scopes: Vec<String> = gaps.into_iter().map(|gap| gap.scope).collect();
    let total = paid.days().first().map(|day| day.total.micros());
    let machines = paid.costs().len();
    (scopes.join(" and "), total, machines, bill.requests() > 0)
}

fn throttled() -> CloudError {
    CloudError::Failed {
        operation: "ce:GetCostAndUsage".to_owned(),
        message: "Rate exceeded".to_owned(),
    }
}

/// The bill of one machine and one day.
fn bill_of_day(micros: i64) -> FakeBill {
    let costs = BTreeMap::from([(node(1), ResourceCost::default())]);
    FakeBill::new(Ok(costs)).with_days(vec![BilledDay {
        day: "2026-03-01".to_owned(),
        total: Usd::from_micros(micros),
        ..BilledDay::default()
    }])
}

/// The same, with a refusal of the costs by resource.
fn without_resources(error: CloudError) -> FakeBill {
    let day = BilledDay {
        total: Usd::from_micros(6),
        ..BilledDay::default()
    };
    FakeBill::new(Err(error)).with_days(vec![day])
}

#[tokio::test]
async fn a_failed_request_keeps_the_last_bill_and_is_repeated_after_two_hours() {
    let mut paid = Paid::default();
    let mut check =
        async |hour: i64, bill: FakeBill, gaps: &str, micros: i64, is_requested: bool| {
            let found = ask_bill(&mut paid, hour, bill).await;
            let expect = (gaps.to_owned(), Some(micros), 1, is_requested);
            assert_eq!(found, expect, "hour {hour}");
        };
    check(0, bill_of_day(5), "", 5, true).await;
    let failing = bill_of_day(6).with_answer_by_day(Err(throttled()));
    let gap = "bill by service, newest data";
    check(12, failing, gap, 5, true).await;
    check(13, bill_of_day(6), gap, 5, false).await;
    let gap = "bill by resource, newest data";
    check(14, without_resources(throttled()), gap, 5, true).await;
    check(16, bill_of_day(6), "", 6, true).await;
    check(17, bill_of_day(7), "", 6, false).await;
}

#[tokio::test]
async fn a_refusal_that_lasts_replaces_the_bill() {
    let denied = CloudError::Denied {
        operation: "ce:GetCostAndUsageWithResources".to_owned(),
        message: "no".to_owned(),
    };
    let mut paid = Paid::default();
    ask_bill(&mut paid, 0, bill_of_day(5)).await;
    let found = ask_bill(&mut paid, 12, without_resources(denied)).await;
    let refused = |is_requested| (BY_RESOURCE.to_owned(), Some(6), 0, is_requested);
    assert_eq!(found, refused(true), "a missing permission");
    let mut paid = Paid::default();
    ask_bill(&mut paid, 0, bill_of_day(5)).await;
    let found = ask_bill(&mut paid, 47, without_resources(throttled())).await;
    assert_eq!((found.1, found.2), (Some(5), 1), "for two days");
    let found = ask_bill(&mut paid, 49, without_resources(throttled())).await;
    assert_eq!(found, refused(true), "longer");
    // The same failure is then requested as often as a bill.
    let found = ask_bill(&mut paid, 52, without_resources(throttled())).await;
    assert_eq!(found, refused(false));
    let found = ask_bill(&mut paid, 61, without_resources(throttled())).await;
    assert_eq!(found, refused(true));
}

#[tokio::test]
async fn plans_are_asked_for_once_a_day_and_stay_known_when_refused() {
    let plan = |until: i64| Commitment {
        id: format!("plan-{until}"),
        region: None,
        family: None,
        per_hour: UsdPerHour::from_micros(1_000_000),
        until: Some(at(until)),
        used: None,
    };
    let denied = || CloudError::Denied {
        operation: "ce:GetSavingsPlansUtilizationDetails".to_owned(),
        message: "no".to_owned(),
    };
    let mut paid = Paid::default();
    let ask = async |paid: &mut Paid, second: i64, plans: Result<Vec<Commitment>, CloudError>| {
        let bill = FakeBill::new(Ok(BTreeMap::new())).with_plans(plans);
        let account = account(None, Some(&bill));
        let wanted = Wanted {
            inventory: &Inventory::default(),
            fleet: &FleetState::default(),
            policy: &MetricsPolicy::default(),
            now: at(second),
        };
        let gaps = paid.refresh(&account, &wanted).await;
        let ids = paid.plans(at(second)).map(|plan| plan.id.clone());
        let reasons = gaps.into_iter().map(|gap| gap.reason).collect::<String>();
        (ids.collect::<Vec<_>>().join(", "), reasons)
    };
    let both = vec![plan(HOUR), plan(9 * DAY)];
    let first = ask(&mut paid, 0, Ok(both)).await;
    assert_eq!(first, ("plan-3600, plan-777600".to_owned(), String::new()));
    let kept = ("plan-777600".to_owned(), String::new());
    assert_eq!(ask(&mut paid, DAY - 1, Err(denied())).await, kept);
    let (ids, why) = ask(&mut paid, DAY, Err(denied())).await;
    assert_eq!(ids, "plan-777600");
    assert!(
        why.contains("ce:GetSavingsPlansUtilizationDetails was denied"),
        "{why}"
    );
}

#[tokio::test]
async fn families_of_tasks_are_asked_about_as_often_as_nodes_and_within_the_budget() {
    let cluster = "arn:aws:ecs:eu-central-1:111122223333:cluster/web";
    let family = TaskFamily::new(cluster, "api");
    let task = Task {
        region: Some(Region::new("eu-central-1").expect("a region")),
        cluster_arn: Some(cluster.to_owned()),
        family: Some("api".to_owned()),
        launch_type: Some("FARGATE".to_owned()),
        last_status: Some("RUNNING".to_owned()),
        ..Task::default()
    };
    let mut inventory = Inventory::default();
    inventory.batch.tasks.insert("t".to_owned(), task);
    let check = async |budget: i64, expect: &[(i64, u64)], gaps: usize| {
        let insights = BTreeMap::from([(family.clone(), series())]);
        let metrics = FakeMetrics::default().with_insights(insights);
        let account = account(Some(&metrics), None);
        let policy = MetricsPolicy {
            paid_calls_usd_micros_a_day: budget,
            history_days: 0,
            ..MetricsPolicy::default()
        };
        let mut paid = Paid::default();
        for (second, requested) in expect {
            let wanted = Wanted {
                inventory: &inventory,
                fleet: &FleetState::default(),
                policy: &policy,
                now: at(*second),
            };
            assert_eq!(paid.refresh(&account, &wanted).await.len(), gaps);
            assert_eq!(metrics.metrics_requested(), *requested, "after {second} s");
            assert_eq!(paid.insights().len(), usize::from(*requested > 0));
        }
    };
    check(1_000, &[(0, 7), (3_599, 7), (3_600, 14)], 0).await;
    // Seven metrics at ten micro-dollars each.
    check(69, &[(0, 0)], 1).await;
}

/// Thirty days of points of five minutes.
fn month() -> MetricSeries {
    let points = (1..=30 * DAY / 300).map(|n| MetricPoint {
        network_bytes: Some(1),
        ..MetricPoint::new(at(n * 300), 300)
    });
    points.collect()
}

#[tokio::test]
async fn a_fortnight_by_the_hour_is_requested_once_and_kept() {
    let metrics = FakeMetrics::new(BTreeMap::from([(node(0), month())]));
    let account = account(Some(&metrics), None);
    let (inventory, policy) = (inventory(1), MetricsPolicy::default());
    let mut paid = Paid::default();
    let refresh = async |paid: &mut Paid, second: i64| {
        let wanted = Wanted {
            inventory: &inventory,
            fleet: &FleetState::default(),
            policy: &policy,
            now: at(second),
        };
        let gaps = paid.refresh(&account, &wanted).await;
        assert!(gaps.is_empty(), "{gaps:?}");
        metrics.metrics_requested()
    };
    let check = |paid: &Paid, now: i64| {
        let series = &paid.series()[&node(0)];
        let length = i64::try_from(series.length().as_secs()).expect("a small number");
        assert!(length >= 14 * DAY, "{length} s");
        assert!(series.points().len() < 14 * 24 + 14 * 12, "by the hour");
        let seconds = series.points().map(|point| i64::from(point.period_seconds));
        assert_eq!(
            seconds.sum::<i64>(),
            length,
            "without a gap, and nothing twice"
        );
        let bytes = series.points().filter_map(|point| point.network_bytes);
        assert_eq!(bytes.sum::<u64>(), length.unsigned_abs() / 300);
        let newest = series.points().next_back().expect("it has some");
        assert_eq!((newest.end, newest.period_seconds), (at(now), 300));
    };
    let each = METRICS_PER_NODE;
    let begin = 15 * DAY + 1_800;
    assert_eq!(refresh(&mut paid, begin).await, 1 + 2 * each);
    check(&paid, begin);
    let mut requested = 1 + 2 * each;
    for hour in 1..40 {
        requested += 1 + each;
        assert_eq!(refresh(&mut paid, begin + hour * HOUR).await, requested);
        check(&paid, begin + hour * HOUR);
    }
    // Nothing was requested for two days. The missing hours are requested with the days before.
    let later = begin + 90 * HOUR;
    assert_eq!(refresh(&mut paid, later).await, requested + 1 + 2 * each);
    check(&paid, later);
}

#[tokio::test]
async fn where_the_budget_ends_the_newest_metrics_come_first_and_the_rest_is_a_gap() {
    let series = BTreeMap::from([(node(0), month()), (node(1), month())]);
    let metrics = FakeMetrics::new(series);
    let account = account(Some(&metrics), None);
    let inventory = inventory(2);
    let policy = MetricsPolicy {
        // One page, both nodes, and the days before of one node.
        paid_calls_usd_micros_a_day: 220,
        ..MetricsPolicy::default()
    };
    let mut paid = Paid::default();
    let refresh = async |paid: &mut Paid, second: i64| {
        let wanted = Wanted {
            inventory: &inventory,
            fleet: &FleetState::default(),
            policy: &policy,
            now: at(second),
        };
        let gaps = paid.refresh(&account, &wanted).await;
        let scopes: Vec<String> = gaps.into_iter().map(|gap| gap.scope).collect();
        let lengths = paid
            .series()
            .values()
            .map(|s| s.length().as_secs() / 86_400);
        (scopes, lengths.collect::<Vec<_>>())
    };
    let short = vec!["metrics of 14 days of 1 nodes".to_owned()];
    let evening = 16 * DAY - 2 * HOUR;
    assert_eq!(refresh(&mut paid, evening).await, (short, vec![14, 0]));
    // The next day has a budget of its own.
    let morning = refresh(&mut paid, 16 * DAY + 2 * HOUR).await;
    assert_eq!(morning, (Vec::new(), vec![14, 14]));
}

#[tokio::test]
async fn what_ebb_costs_is_on_the_bill_once_a_day_and_every_charged_request_counts() {
    let day = |day: &str, ebb: i64| BilledDay {
        day: day.to_owned(),
        by_tag: [(
            "application".to_owned(),
            [
                ("ebb".to_owned(), Usd::from_micros(ebb)),
                (String::new(), Usd::from_micros(9)),
            ]
            .into(),
        )]
        .into(),
        ..BilledDay::default()
    };
    let policy = MetricsPolicy::default();
    let mut paid = Paid::default();
    let ask = async |paid: &mut Paid, second: i64, days: Option<Vec<BilledDay>>| {
        let bill = days.map(|days| FakeBill::new(Ok(BTreeMap::new())).with_days(days));
        let account = account(None, bill.as_ref());
        let wanted = Wanted {
            inventory: &Inventory::default(),
            fleet: &FleetState::default(),
            policy: &policy,
            now: at(second),
        };
        paid.refresh(&account, &wanted).await;
        let cost = paid.own_cost();
        let micros = |usd: Option<Usd>| usd.map(Usd::micros);
        (
            micros(cost.resources_a_month),
            micros(cost.requests_a_month),
        )
    };
    let none = vec![BilledDay::default()];
    assert_eq!(paid.own_cost(), OwnCost::default());
    // Four cents on the first day.
    assert_eq!(ask(&mut paid, 0, Some(none)).await, (None, Some(1_217_600)));
    let days = vec![day("1970-01-01", 100_000), day("1970-01-02", 300_000)];
    // The cost of Ebb is requested again only after a day.
    assert_eq!(ask(&mut paid, 13 * HOUR, Some(days.clone())).await.0, None);
    let found = ask(&mut paid, 30 * HOUR, Some(days.clone())).await;
    assert_eq!(found, (Some(6_088_000), Some(1_826_400)));
    assert!(paid.days().iter().all(|day| day.by_tag.is_empty()));
    assert_eq!(ask(&mut paid, 31 * HOUR, None).await, (None, None));
}
