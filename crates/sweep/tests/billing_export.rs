//! From a billing file to prices and days, for a simulated project.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use ebb_cloud::billing_export::BillingExport;
use ebb_cloud::fake::FakeInventory;
use ebb_model::cost::PriceBasis;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market, Provider};
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known as Before, scan};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::Usd;
use jiff::{Timestamp, ToSpan};

const NOW: &str = "2026-09-15T10:00:00Z";

/// A file with one instance, its hourly cost and a disk. The newest row is from this hour.
fn file(newest: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let mut put = |line: &str| writeln!(file, "{line}").expect("written");
    put("service.description,usage_start_time,resource.global_name,cost,currency,credits.amount");
    let newest: Timestamp = newest.parse().expect("a time");
    for hour in 0..20 * 24 {
        let at = newest - hour.hours();
        let name = "//compute.googleapis.com/projects/4/zones/europe-west6-a";
        put(&format!(
            "Compute Engine,{at},{name}/instances/11,0.3333333,USD,-0.1"
        ));
        put(&format!(
            "Compute Engine,{at},{name}/instances/12,0.0000004,USD,"
        ));
        put(&format!("Compute Engine,{at},{name}/disk/7,0.01,USD,"));
        put(&format!("Vertex AI,{at},,0.5,USD,"));
    }
    put("Compute Engine,2026-09-10,,much,USD,");
    file
}

async fn report(newest: &str) -> Report {
    let file = file(newest);
    let export = BillingExport::read(file.path(), &BTreeSet::new()).expect("it is read");
    let region = Region::new("europe-west6").expect("a region");
    let machine = |id: &str| {
        let id = NodeId::new(id).expect("an id");
        let kind = InstanceType::new("n2-standard-8").expect("a type");
        let running = InstanceState::Running;
        let mut machine = Instance::new(id, region.clone(), kind, running, Market::OnDemand);
        machine.launched_at = "2026-08-01T00:00:00Z".parse().ok();
        machine.provider = Provider::Gcp {
            project: "p".to_owned(),
            zone: "europe-west6-a".to_owned(),
        };
        (machine.id.clone(), machine)
    };
    let inventory = Inventory {
        instances: BTreeMap::from([machine("11"), machine("13")]),
        ..Inventory::default()
    };
    let account = Account {
        inventory: &FakeInventory::new(BTreeMap::from([(region.clone(), inventory)])),
        metrics: None,
        bill: Some(&export),
        markets: None,
        prices: None,
        regions: &[],
    };
    let mut policy = Policy::default();
    // Free sources are used whatever the budget.
    policy.metrics.paid_calls_usd_micros_a_day = 0;
    let now = NOW.parse().expect("a time");
    scan(&account, &Before::default(), &policy, now).await
}

#[tokio::test]
async fn net_cost_by_hour_is_the_price_and_every_day_adds_up() {
    let report = report("2026-09-15T09:00:00Z").await;
    let prices: Vec<_> = report
        .nodes
        .iter()
        .map(|node| {
            (
                node.id.as_str(),
                node.per_hour.map(|hour| hour.0.micros()),
                node.basis,
            )
        })
        .collect();
    let bill = Some(PriceBasis::Bill);
    assert_eq!(prices, [("11", Some(233_333), bill), ("13", None, None)]);

    let days: Vec<_> = report
        .ledger
        .iter()
        .map(|day| (day.day.as_str(), day.estimated))
        .collect();
    assert_eq!((days.len(), days[0]), (14, ("2026-09-01", false)));
    assert_eq!(days[12..], [("2026-09-13", false), ("2026-09-14", true)]);
    for day in &report.ledger {
        assert_eq!(day.parts().into_iter().sum::<Usd>(), day.billed, "{day:?}");
        // 24 hours of all four; the second instance is not in the inventory.
        assert_eq!(day.billed.micros(), 17_840_009, "{day:?}");
        assert_eq!(day.elsewhere.micros(), 12_240_010, "{day:?}");
        assert_eq!(day.by_service.values().copied().sum::<Usd>(), day.billed);
    }
    let reasons: Vec<_> = report
        .not_evaluated
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    let vertex =
        "$168.00 in the last 14 days (1 of them estimated); no probe can run on this service";
    assert!(reasons.contains(&vertex), "{reasons:?}");
    let [gap] = &report.gaps[..] else {
        panic!("one bad row: {:?}", report.gaps)
    };
    assert!(gap.scope.ends_with(":1922: cost"), "{gap:?}");
}

#[tokio::test]
async fn days_that_an_old_file_has_in_part_only_are_left_out_and_said() {
    let report = report("2026-09-12T09:00:00Z").await;
    let last = report.ledger.last().expect("days");
    assert_eq!((last.day.as_str(), last.estimated), ("2026-09-10", false));
    let scopes: Vec<_> = report
        .gaps
        .iter()
        .filter(|gap| gap.reason.contains("export more"))
        .map(|gap| gap.scope.rsplit(' ').next().unwrap_or_default())
        .collect();
    assert_eq!(scopes, ["2026-09-11", "2026-09-12"]);
}

#[tokio::test]
async fn a_file_that_is_too_old_is_said() {
    let report = report("2026-08-12T09:00:00Z").await;
    assert!(report.ledger.is_empty());
    let reasons = report.gaps.iter().map(|gap| gap.reason.as_str());
    let reasons: Vec<_> = reasons.collect();
    assert!(
        reasons.contains(&"the file has no row of the last 14 days"),
        "{reasons:?}"
    );
}
