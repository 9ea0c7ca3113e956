//! 30 days of the tables that people ask by month: costs and hours of nodes.

use std::path::Path;
use std::time::Instant;

use ebb_lake::{Lake, MAX_BATCH_ROWS, Table};
use ebb_model::cost::PriceBasis;
use ebb_model::cost_record::{CostRecord, CostUse};
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::Share;
use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::{batch, compacted, fleet, kept, open, rate};

const DAYS: i64 = 30;
const FIRST: Date = Date::constant(2026, 10, 1);

pub(crate) async fn measure(nodes: u64) {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = kept(&temporary);
    let lake = open(&folder).await;
    println!("{DAYS} days of {nodes} nodes");
    write_costs(&lake, &folder, nodes).await;
    write_hours(&lake, &folder, nodes).await;
    crate::memory();
}

fn days() -> impl Iterator<Item = Date> {
    (0..DAYS).map(|day| FIRST.checked_add(day.days()).expect("a date"))
}

fn noon(day: Date) -> Timestamp {
    let noon = DateTime::from(day).checked_add(12.hours()).expect("a time");
    let noon = noon.to_zoned(jiff::tz::TimeZone::UTC).expect("a time");
    noon.timestamp()
}

/// One cost of a node on a day: a sweep writes at most 10,000 of a day.
fn cost_of(node: u64, day: Date, nodes: u64) -> CostRecord {
    let number = u32::try_from(node).expect("a fleet");
    let seed = fleet::mixed(node << 16 | u64::from(day.day().unsigned_abs()));
    let micros = |of: u64| Usd::from_micros(i64::try_from(of).expect("an amount"));
    let named = |name: &str, of: u64| Some(format!("{name}-{}", node % of));
    let part = [CostUse::Task, CostUse::Unused, CostUse::Idle][(node % 3) as usize];
    let of_tasks = part != CostUse::Idle;
    CostRecord {
        day,
        evaluated_at: noon(day),
        is_closed: true,
        origin: Origin::Simulated,
        billed: micros(nodes * 4_600_000),
        account: AccountId::new("111122223333").ok(),
        resource: Some(fleet::node(number).to_string()),
        pipeline: named("pipeline", 12).filter(|_| of_tasks),
        run: named(&format!("run-{day}"), 60).filter(|_| of_tasks),
        step: named("step", 25).filter(|_| of_tasks),
        user: named("user", 40).filter(|_| of_tasks),
        cost_centre: named("team", 8),
        part,
        combined_rows: 1,
        cost: micros(seed % 4_600_000),
    }
}

async fn write_costs(lake: &Lake, folder: &Path, nodes: u64) {
    let mut number = 0;
    let mut rows = 0;
    let began = Instant::now();
    for day in days() {
        let of_day: Vec<_> = (0..nodes).map(|node| cost_of(node, day, nodes)).collect();
        for part in of_day.chunks(MAX_BATCH_ROWS) {
            number += 1;
            rows += part.len() as u64;
            let appended = lake.append_costs(part, &batch(number)).await;
            appended.expect("appends");
        }
    }
    rate("append costs", rows, began.elapsed());
    compacted(lake, folder, Table::Costs, rows, "cost").await;
}

fn hours_of(node: u64, day: Date) -> impl Iterator<Item = NodeHourRecord> {
    let number = u32::try_from(node).expect("a fleet");
    let midnight = noon(day) - SignedDuration::from_hours(12);
    (0..24).map(move |hour| {
        let seed = fleet::mixed(node << 24 | u64::from(day.day().unsigned_abs()) << 8 | hour);
        // A third of the hours is idle, a third fully used.
        let active = [0, 1_000_000, seed as u32 % 1_000_000][(seed % 3) as usize];
        NodeHourRecord {
            node: fleet::node(number),
            hour: midnight + SignedDuration::from_hours(hour as i64),
            origin: Origin::Simulated,
            account: AccountId::new("111122223333").ok(),
            instance_type: Some("m5.xlarge".to_owned()),
            observed: Share::ALL,
            active: Share::from_ppm(active),
            with_tasks: Share::from_ppm(active),
            price: Some(UsdPerHour(Usd::from_micros(192_000))),
            price_basis: Some(PriceBasis::Bill),
        }
    })
}

async fn write_hours(lake: &Lake, folder: &Path, nodes: u64) {
    let all: Vec<u64> = (0..nodes).collect();
    let mut number = 0;
    let mut rows = 0;
    let began = Instant::now();
    for day in days() {
        for part in all.chunks(MAX_BATCH_ROWS / 24) {
            let part: Vec<_> = part.iter().flat_map(|node| hours_of(*node, day)).collect();
            number += 1;
            rows += part.len() as u64;
            let appended = lake.append_node_hours(&part, &batch(number)).await;
            appended.expect("appends");
        }
    }
    rate("append hours", rows, began.elapsed());
    compacted(lake, folder, Table::NodeHours, rows, "hour of a node").await;
}
