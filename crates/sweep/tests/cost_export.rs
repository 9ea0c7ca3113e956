//! From exports of the bill to costs. Each day adds up to its bill, to the millionth of a dollar.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};

use ebb_cloud::cost_export::CostExport;
use ebb_cloud::fake::FakeInventory;
use ebb_model::cost::PriceBasis;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_model::report::cost_table::CostDimensions;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known as Before, scan};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::Usd;
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;

const NOW: &str = "2026-09-15T12:00:00Z";

const MACHINE: &str = "i-0123456789abcdef0";

const HEAD: &str = "line_item_usage_start_date,line_item_usage_end_date,line_item_line_item_type,\
                    line_item_product_code,line_item_currency_code,line_item_unblended_cost,\
                    reservation_effective_cost,savings_plan_savings_plan_effective_cost,\
                    line_item_resource_id,line_item_usage_type";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// A row of an export: its hour before [`NOW`], and its cost in units of 10^-10 dollars.
#[derive(Debug, Clone)]
struct Line {
    hour: i64,
    kind: &'static str,
    product: &'static str,
    resource: &'static str,
    cost: i64,
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let kinds = [
        "Usage",
        "DiscountedUsage",
        "SavingsPlanCoveredUsage",
        "Credit",
        "Tax",
        "Fee",
    ];
    let line = (
        0_i64..20 * 24,
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(vec!["AmazonEC2", "AmazonS3", "AWSLambda"]),
        prop::sample::select(vec![
            MACHINE,
            "i-0fedcba9876543210",
            "vol-0123456789abcdef0",
            "",
        ]),
        -10_000_000_000_i64..100_000_000_000,
    );
    let line = line.prop_map(|(hour, kind, product, resource, cost)| Line {
        hour,
        kind,
        product,
        resource,
        cost,
    });
    prop::collection::vec(line, 1..120)
}

fn start(line: &Line) -> Timestamp {
    let hour: Timestamp = "2026-09-15T11:00:00Z".parse().expect("a time");
    hour - line.hour.hours()
}

fn written(lines: &[Line]) -> String {
    let mut text = format!("{HEAD}\n");
    // Usage of today, so that the day before is whole.
    let today = Line {
        hour: 0,
        kind: "Usage",
        product: "AmazonS3",
        resource: "",
        cost: 0,
    };
    for line in lines.iter().chain([&today]) {
        let sign = if line.cost < 0 { "-" } else { "" };
        let cost = line.cost.unsigned_abs();
        let cost = format!(
            "{sign}{}.{:010}",
            cost / 10_000_000_000,
            cost % 10_000_000_000
        );
        let [plain, reserved, plan] = match line.kind {
            "DiscountedUsage" => ["0", &cost, ""],
            "SavingsPlanCoveredUsage" => ["99", "", &cost],
            _ => [&cost, "", ""],
        };
        let (from, to) = (start(line), start(line) + 1.hour());
        let Line {
            kind,
            product,
            resource,
            ..
        } = line;
        let row =
            format!("{from},{to},{kind},{product},USD,{plain},{reserved},{plan},{resource},Box");
        writeln!(text, "{row}").expect("written");
    }
    text
}

async fn report(text: &str) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    // Three files of two months, as an export of several files.
    let mut lines = text.lines();
    let head = lines.next().expect("a head");
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (at, line) in lines.enumerate() {
        let name = format!("data/BILLING_PERIOD={}/ebb-{}.csv", &line[..7], at % 3);
        let file = files.entry(name).or_insert_with(|| format!("{head}\n"));
        writeln!(file, "{line}").expect("written");
    }
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(&path, text).expect("written");
        let file = File::open(&path).expect("it opens");
        file.set_modified(now().into()).expect("set");
    }
    let place = folder.path().to_str().expect("text");
    let export = CostExport::open(place, &BTreeSet::new()).expect("it opens");
    let region = Region::new("eu-west-1").expect("a region");
    let id = NodeId::new(MACHINE).expect("an id");
    let kind = InstanceType::new("m5.large").expect("a type");
    let running = InstanceState::Running;
    let mut machine = Instance::new(id, region.clone(), kind, running, Market::OnDemand);
    machine.launched_at = "2026-08-01T00:00:00Z".parse().ok();
    let inventory = Inventory {
        instances: BTreeMap::from([(machine.id.clone(), machine)]),
        ..Inventory::default()
    };
    let account = Account {
        inventory: &FakeInventory::new(BTreeMap::from([(region, inventory)])),
        metrics: None,
        bill: Some(&export),
        markets: None,
        prices: None,
        regions: &[],
    };
    scan(&account, &Before::default(), &Policy::default(), now()).await
}

/// The exact sums by day in units of 10^-10 dollars, rounded half away from zero.
fn exact(lines: &[Line]) -> BTreeMap<String, Usd> {
    let mut days: BTreeMap<String, i64> = BTreeMap::new();
    for line in lines {
        let day = start(line).strftime("%Y-%m-%d").to_string();
        *days.entry(day).or_default() += line.cost;
    }
    let rounded = |sum: i64| (sum + sum.signum() * 5_000) / 10_000;
    let days = days
        .into_iter()
        .map(|(day, sum)| (day, Usd::from_micros(rounded(sum))));
    days.filter(|(day, _)| ("2026-09-01".."2026-09-15").contains(&day.as_str()))
        .collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_day_adds_up_to_its_bill(lines in lines()) {
        let report = block_on(report(&written(&lines)));
        prop_assert!(!report.gaps.iter().any(|gap| gap.scope.contains("ebb-")), "{:?}", report.gaps);
        let exact = exact(&lines);
        let billed: BTreeMap<_, _> =
            report.ledger.iter().map(|day| (day.day.clone(), day.billed)).collect();
        prop_assert_eq!(&billed, &exact);
        for day in &report.ledger {
            prop_assert_eq!(day.parts().into_iter().sum::<Usd>(), day.billed);
            prop_assert_eq!(day.by_service.values().copied().sum::<Usd>(), day.billed);
            prop_assert_eq!(day.rounding, Usd::ZERO);
        }
        let table = report.costs.table(&CostDimensions::default(), None).expect("by pipeline");
        prop_assert_eq!(table.billed, exact.values().copied().sum::<Usd>());
        let rows = table.rows.iter().filter_map(|row| row.cost).sum::<Usd>();
        let rest = table.rest.iter().map(|row| row.cost).sum::<Usd>();
        prop_assert_eq!(rows + rest, table.total);
    }
}

#[test]
fn the_billed_cost_of_a_machine_is_its_price() {
    let hours = (0..20 * 24).map(|hour| Line {
        hour,
        kind: "SavingsPlanCoveredUsage",
        product: "AmazonEC2",
        resource: MACHINE,
        cost: 250_000_000,
    });
    let report = block_on(report(&written(&hours.collect::<Vec<_>>())));
    let node = &report.nodes[0];
    assert_eq!(node.per_hour.map(|hour| hour.0.micros()), Some(25_000));
    assert_eq!(node.basis, Some(PriceBasis::Bill));
    let last = report.ledger.last().expect("days");
    assert_eq!((last.day.as_str(), last.estimated), ("2026-09-14", true));
    assert_eq!(last.billed, Usd::from_micros(600_000));
}

#[test]
fn invalid_rows_are_gaps_of_the_report() {
    let line = Line {
        hour: 48,
        kind: "Usage",
        product: "AmazonEC2",
        resource: MACHINE,
        cost: 10_000_000_000,
    };
    let text = written(&[line.clone(), line]).replacen(",USD,", ",CHF,", 1);
    let report = block_on(report(&text));
    let gap = report
        .gaps
        .iter()
        .find(|gap| gap.reason.contains("not in US dollars"));
    assert!(
        gap.is_some_and(|gap| gap.reason.contains("CHF 1)")),
        "{:?}",
        report.gaps
    );
    assert_eq!(report.ledger[0].billed, Usd::from_micros(1_000_000));
}
