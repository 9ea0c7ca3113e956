//! The parts of the simulated account's bill add up to its total, to the cent.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use ebb_cloud::aws::{AwsBill, AwsInventory};
use ebb_cloud::ports::BillSource;
use ebb_model::policy::Policy;
use ebb_model::report::{NotEvaluated, Report};
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::{Known, scan};
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::Usd;
use ebb_tests::simulated::Simulated;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde_json::json;

use super::home;

/// The daily cost of other services in the bill: three services, a cost without a service, and the
/// storage of Ebb itself.
const OTHER_SERVICES: i64 = 3_141_593 + 800_000 + 1_250_000 + 70_000 + 21_000;

const A_CENT: i64 = 10_000;

async fn scanned(account: &Simulated) -> Result<Report> {
    let config = home(account).await?;
    let names = account.result["world"]["regions"]
        .as_array()
        .context("regions")?;
    let regions = names
        .iter()
        .filter_map(|name| Region::new(name.as_str()?).ok());
    let regions: Vec<Region> = regions.collect();
    let swept_account = Account {
        inventory: &AwsInventory::new(&config),
        metrics: None,
        bill: Some(&AwsBill::new(&config)),
        markets: None,
        prices: None,
        regions: &regions,
    };
    let mut policy = Policy::default();
    policy.metrics.cost_tags.insert("Project".to_owned());
    Ok(scan(&swept_account, &Known::default(), &policy, Timestamp::now()).await)
}

/// The total of each day from the bill's own sum.
fn billed(account: &Simulated) -> Result<BTreeMap<String, (Usd, bool)>> {
    let days = account.result["billed"].as_array().context("days")?;
    let day = |entry: &serde_json::Value| {
        let usd = Usd::parse(entry["usd"].as_str()?)?;
        Some((
            entry["day"].as_str()?.to_owned(),
            (usd, entry["estimated"].as_bool()?),
        ))
    };
    days.iter()
        .map(|entry| day(entry).context("a day"))
        .collect()
}

pub(crate) async fn adds_up(account: &Simulated) -> Result<()> {
    account.extension("faults", &json!({"faults": []}))?;
    let report = scanned(account).await?;
    let billed = billed(account)?;
    assert_eq!(report.ledger.len(), billed.len());
    let mut closed = 0;
    for day in &report.ledger {
        let (usd, estimated) = billed[&day.day];
        let near = |a: Usd, b: i64| (a.micros() - b).abs() < A_CENT / 2;
        assert!(near(day.billed, usd.micros()), "{day:?} was billed {usd}");
        assert_eq!(day.parts().into_iter().sum::<Usd>(), day.billed, "{day:?}");
        assert_eq!(day.estimated, estimated, "{}", day.day);
        assert!(near(day.elsewhere, OTHER_SERVICES), "{day:?}");
        assert!(near(day.rounding, 0), "{day:?}");
        assert_eq!(day.by_service.values().copied().sum::<Usd>(), day.billed);
        let by_project = day.by_tag["Project"].values().copied().sum::<Usd>();
        assert!(near(by_project, day.billed.micros()), "{day:?}");
        closed += usize::from(!day.estimated);
    }
    assert!(closed > 7, "{closed} closed days");
    let named = |one: &&NotEvaluated| one.resource == "Amazon SageMaker";
    let sagemaker = report.not_evaluated.iter().find(named);
    let reason = &sagemaker.context("no probe can run there")?.reason;
    assert!(reason.starts_with("$17.50 in the last 14 days"), "{reason}");
    Ok(())
}

/// Without resource-level data the report explains how to enable it, and the totals of days are
/// known.
pub(crate) async fn without_the_opt_in(account: &Simulated) -> Result<()> {
    let refused = json!({"kind": "refuse", "action": "GetCostAndUsageWithResources"});
    account.extension("faults", &json!({"faults": [refused]}))?;
    let report = scanned(account).await?;
    let gap = report
        .gaps
        .iter()
        .find(|gap| gap.scope == "bill by resource");
    let reason = &gap.context("a gap")?.reason;
    assert!(reason.contains("enable Resource-level data"), "{reason}");
    assert!(!report.ledger.is_empty());
    for day in &report.ledger {
        assert_eq!(day.unallocated(), day.billed, "{day:?}");
    }
    Ok(())
}

/// If one day has more than a page (500 rows here), days are requested one by one, and no cost
/// counts twice. A credit does not change the price of a machine.
pub(crate) async fn of_many_machines_is_read_day_by_day(account: &Simulated) -> Result<()> {
    account.extension("faults", &json!({"faults": []}))?;
    let (days, machines) = (14_u64, 501_u64);
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let days_back = (1..=14).filter_map(|back| today.checked_sub(back.days()).ok());
    let rows = days_back.flat_map(|day| {
        let row = move |n| {
            json!({
                "date": day.to_string(), "resourceId": format!("i-{n:017}"),
                "region": "us-east-1", "usd": 0.25,
            })
        };
        let mut credit = row(0);
        credit["usd"] = json!(-0.2);
        credit["recordType"] = json!("Credit");
        (0..machines).map(row).chain([credit])
    });
    let rows: Vec<_> = rows.collect();
    account.extension("ce/resource-costs", &json!({"costs": rows}))?;
    let bill = AwsBill::new(&home(account).await?);
    let costs = bill.by_resource(Timestamp::now()).await?;
    let of_a_day = Usd::from_micros(250_000);
    let whole = costs.iter().filter(|(node, cost)| {
        let all = cost.by_day.values().all(|usd| *usd == of_a_day);
        node.as_str().starts_with("i-0000000") && cost.by_day.len() as u64 == days && all
    });
    assert_eq!(whole.count() as u64, machines);
    assert_eq!(bill.requests(), 1 + 2 * days);
    Ok(())
}
