//! The table `costs` of the lake has each evaluation of a day once, also after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_cloud::failing::{Fault, Moment, Then};
use ebb_cloud::fake::FakeBill;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::cost_record::CostRecord;
use ebb_telemetry::money::Usd;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::sample;
use crate::world::World;

/// Closed days before the clock of a world, which begins on 2026-11-18, and an open one.
const DAYS: [(&str, bool); 3] = [
    ("2026-11-14", false),
    ("2026-11-15", false),
    ("2026-11-17", true),
];

fn bill(micros: i64) -> FakeBill {
    let usd = Usd::from_micros(micros);
    let days = DAYS.into_iter();
    let by_day = days.clone().map(|(day, _)| (day.to_owned(), usd));
    let by_day = by_day.collect();
    let of_machine = BTreeMap::from([(sample::node(1), ResourceCost { by_day })]);
    let totals = days.map(|(day, estimated)| BilledDay {
        day: day.to_owned(),
        total: usd + usd,
        of_machines: Some(usd),
        estimated,
        ..BilledDay::default()
    });
    FakeBill::new(Ok(of_machine)).with_days(totals.collect())
}

fn filled(micros: i64) -> World {
    let mut world = World::new();
    world.fill();
    world.bill = Some(bill(micros));
    world
}

/// The sums of the rows by day and evaluation.
async fn evaluations(world: &World) -> BTreeMap<(Date, Timestamp), i64> {
    let (from, to) = (Date::constant(2026, 11, 1), Date::constant(2026, 11, 30));
    let window = world.lake().await.costs_between(from, to).await;
    let rows: Vec<CostRecord> = window.expect("it is read").rows;
    let mut sums = BTreeMap::new();
    for row in rows {
        *sums.entry((row.day, row.evaluated_at)).or_default() += row.cost.micros();
    }
    sums
}

#[tokio::test]
async fn a_day_of_the_bill_is_written_once_and_again_when_its_bill_changes() {
    let mut world = filled(7);
    for _ in 0..3 {
        world
            .sweep(&Fault::never())
            .await
            .expect("nothing fails it");
        world.clock.advance(Duration::from_secs(600));
    }
    let first = evaluations(&world).await;
    let days: BTreeSet<Date> = first.keys().map(|(day, _)| *day).collect();
    assert_eq!((first.len(), days.len()), (3, 3), "{first:?}");
    assert!(first.values().all(|sum| *sum == 14), "{first:?}");
    world.bill = Some(bill(8));
    // The bill is read twice a day.
    world.clock.advance(Duration::from_secs(13 * 3600));
    world
        .sweep(&Fault::never())
        .await
        .expect("nothing fails it");
    let both = evaluations(&world).await;
    assert_eq!(both.len(), 6, "{both:?}");
    assert_eq!(both.values().filter(|sum| **sum == 16).count(), 3);
}

#[tokio::test]
async fn a_crash_after_the_commit_writes_no_day_twice() {
    let whole = Fault::never();
    filled(7).sweep(&whole).await.expect("nothing fails it");
    let calls = whole.calls();
    let append = calls.iter().position(|call| *call == "lake.append_costs");
    let append = append.expect("the costs are written");
    // The calls around the commit, and the last ones, which store what was written. A crash before a
    // call is one after the call before it.
    let around = append.saturating_sub(2)..append + 3;
    for call in around.chain(calls.len() - 3..calls.len()) {
        let world = filled(7);
        let crash = Fault::at(call, Moment::After, Then::StaysDead);
        let _ = world.sweep(&crash).await;
        world.clock.advance(Duration::from_secs(600));
        world.queue.make_visible();
        world
            .sweep(&Fault::never())
            .await
            .expect("nothing fails it");
        let found = evaluations(&world).await;
        assert_eq!(found.len(), 3, "call {call}: {found:?}");
        assert!(found.values().all(|sum| *sum == 14));
    }
}
