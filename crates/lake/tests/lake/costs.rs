//! Costs come back whole.

use ebb_lake::Appended;
use ebb_model::cost_record::{CostRecord, CostUse};
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use jiff::civil::date;

use crate::local::{batch, lake};
use crate::sample::{EVENING_NS, at};

fn row(day: i8, part: CostUse) -> CostRecord {
    CostRecord {
        day: date(2026, 11, day),
        evaluated_at: at(EVENING_NS),
        is_closed: true,
        origin: Origin::Simulated,
        billed: Usd::from_micros(11),
        account: AccountId::new("111122223333").ok(),
        resource: Some("i-1".to_owned()),
        pipeline: Some("rnaseq".to_owned()),
        run: None,
        step: Some("align".to_owned()),
        user: Some("ana".to_owned()),
        cost_centre: None,
        part,
        combined_rows: 1,
        cost: Usd::from_micros(-3),
    }
}

#[tokio::test]
async fn costs_of_some_days_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let empty = lake
        .costs_between(date(2026, 11, 1), date(2026, 11, 30))
        .await;
    assert!(
        empty.expect("reads").rows.is_empty(),
        "there is no table yet"
    );
    let rows = [
        row(1, CostUse::Task),
        row(1, CostUse::Unused),
        row(2, CostUse::FailedTask),
    ];
    let appended = lake.append_costs(&rows, &batch(1)).await.expect("appends");
    assert_eq!(appended, Appended::Committed(1));
    let again = lake.append_costs(&rows, &batch(1)).await.expect("answers");
    assert_eq!(again, Appended::AlreadyThere(1));
    let first = lake
        .costs_between(date(2026, 11, 1), date(2026, 11, 1))
        .await;
    assert_eq!(first.expect("reads").rows, rows[..2]);
    let second = lake
        .costs_between(date(2026, 11, 2), date(2026, 11, 9))
        .await;
    assert_eq!(second.expect("reads").rows, rows[2..]);
}
