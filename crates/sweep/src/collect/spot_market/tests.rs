//! How often each answer is requested, how long it counts, and the gaps for refusals.

use ebb_cloud::fake::markets::FakeMarkets;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::inventory::spot_market::{SpotScore, SpotWish};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::UsdPerHour;

use super::*;

const HOUR: i64 = 3600;

/// The format of the Spot Instance Advisor's file, with one band that has an upper end and one that
/// has none.
const FILE: &str = r#"{
    "ranges": [{"index": 0, "label": "<5%"}, {"index": 4, "label": ">20%"}],
    "spot_advisor": {"eu-central-1": {"Linux": {
        "m6a.large": {"s": 60, "r": 0}, "c6i.large": {"s": 60, "r": 4}
    }}}
}"#;

fn at(hours: i64) -> Timestamp {
    // Not the epoch itself, which stands for a request that was never made.
    Timestamp::from_second((10_000 + hours) * HOUR).expect("a time")
}

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

fn kind(name: &str) -> InstanceType {
    InstanceType::new(name).expect("a type")
}

fn inventory() -> Inventory {
    let mut inventory = Inventory::default();
    let states = [
        ("i-1", "eu-central-1", InstanceState::Running),
        ("i-2", "us-west-2", InstanceState::Stopped),
    ];
    for (id, place, state) in states {
        let id = NodeId::new(id).expect("a node");
        let one = Instance::new(
            id.clone(),
            region(place),
            kind("m5.large"),
            state,
            Market::Spot,
        );
        inventory.instances.insert(id, one);
    }
    inventory
}

fn source() -> FakeMarkets {
    let home = region("eu-central-1");
    let terms = SpotTerms {
        per_hour: UsdPerHour::from_micros(40_000),
        as_of: None,
        taken_back_ppm: None,
        taken_back_above_ppm: None,
        own: None,
    };
    let names = [
        "m6a.large",
        "c6i.large",
        "r6a.large",
        "m5.large",
        "m1.small",
    ];
    let spot = names.map(|name| (kind(name), terms.clone()));
    let paid = |id: &str, until| Commitment {
        id: id.to_owned(),
        region: Some(home.clone()),
        family: Some("m5".to_owned()),
        per_hour: UsdPerHour::from_micros(60_000),
        until,
        used: None,
    };
    let markets = Markets {
        spot: BTreeMap::from([(home.clone(), spot.into())]),
        commitments: vec![paid("ri-1", Some(at(1_000))), paid("ri-0", Some(at(-1)))],
        ..Markets::default()
    };
    FakeMarkets::new(markets, Advisor::parse(FILE).expect("its form"))
}

#[tokio::test]
async fn what_is_sold_is_known_with_bands_and_reservations_that_last() {
    let (mut sold, mut inventory) = (Sold::default(), inventory());
    sold.refresh(&source(), &mut inventory, (Catalogue::built_in(), at(0)))
        .await;
    let markets = &inventory.markets;
    assert_eq!(markets.spot.len(), 1, "only where something runs");
    let spot = &markets.spot[&region("eu-central-1")];
    let bands: Vec<_> = spot
        .iter()
        .map(|(kind, terms)| {
            let band = (terms.taken_back_ppm, terms.taken_back_above_ppm);
            (kind.as_str(), band)
        })
        .collect();
    let expect = [
        ("c6i.large", (None, Some(200_000))),
        ("m5.large", (None, None)),
        ("m6a.large", (Some(50_000), None)),
        ("r6a.large", (None, None)),
    ];
    assert_eq!(
        bands, expect,
        "m1 and m5 are of an earlier generation, and m5 is in use"
    );
    let ids: Vec<_> = markets.commitments.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["ri-1"]);
    assert!(inventory.gaps.is_empty());
}

#[tokio::test]
async fn prices_are_asked_for_hourly_and_the_rest_daily() {
    let (mut sold, source) = (Sold::default(), source());
    let mut check = async |hours: i64, expect: [usize; 4]| {
        sold.refresh(
            &source,
            &mut inventory(),
            (Catalogue::built_in(), at(hours)),
        )
        .await;
        let request_counts = source.asked();
        let names = ["spot_prices", "zones", "reserved", "interruptions"];
        assert_eq!(
            names.map(|name| request_counts[name]),
            expect,
            "after {hours} h"
        );
    };
    check(0, [1, 1, 1, 1]).await;
    check(0, [1, 1, 1, 1]).await;
    check(1, [2, 1, 1, 1]).await;
    check(24, [3, 2, 2, 2]).await;
}

#[tokio::test]
async fn a_refusal_is_said_and_what_was_told_before_holds_for_a_time() {
    let (mut sold, source) = (Sold::default(), source());
    sold.refresh(&source, &mut inventory(), (Catalogue::built_in(), at(0)))
        .await;
    source.refuse();
    let mut check = async |hours: i64, spot: usize, commitments: usize, gaps: usize| {
        let mut inventory = inventory();
        sold.refresh(&source, &mut inventory, (Catalogue::built_in(), at(hours)))
            .await;
        let markets = &inventory.markets;
        assert_eq!(markets.spot.len(), spot, "after {hours} h");
        assert_eq!(markets.commitments.len(), commitments, "after {hours} h");
        assert_eq!(inventory.gaps.len(), gaps, "{:?}", inventory.gaps);
        inventory.gaps
    };
    let gaps = check(2, 1, 1, 1).await;
    assert_eq!(gaps[0].scope, "eu-central-1: spot prices");
    assert!(
        gaps[0].reason.contains("; last response at 19"),
        "{}",
        gaps[0].reason
    );
    check(25, 0, 1, 4).await;
    check(10 * 24, 0, 0, 4).await;
}

fn wish(types: [&str; 3], machines: u32) -> SpotWish {
    SpotWish {
        region: region("eu-central-1"),
        types: types.map(kind).into(),
        machines,
    }
}

const OFFERED: [&str; 3] = ["c6i.large", "m6a.large", "r6a.large"];

#[tokio::test]
async fn what_is_offered_on_spot_is_scored_now_and_then_and_refusals_are_said() {
    let scored = SpotScore {
        wish: wish(OFFERED, 4),
        score: 7,
        at: at(0),
    };
    let markets = Markets {
        scores: vec![scored.clone()],
        ..Markets::default()
    };
    let source = FakeMarkets::new(markets, Advisor::default());
    let mut scores = Scores::default();
    scores.refresh(&source, at(0)).await;
    assert_eq!(source.asked().get("spot_score"), None, "nothing is offered");
    let mut check = async |hours: i64, requests: usize, current: usize| {
        scores.want([wish(OFFERED, 4)].into_iter(), at(hours));
        scores.refresh(&source, at(hours)).await;
        assert_eq!(source.asked()["spot_score"], requests, "after {hours} h");
        assert_eq!(
            scores.current_scores(at(hours)).count(),
            current,
            "after {hours} h"
        );
        scores.gaps().collect::<Vec<_>>()
    };
    assert_eq!(check(0, 1, 1).await, []);
    assert_eq!(check(5, 1, 1).await, []);
    assert_eq!(check(6, 2, 1).await, []);
    source.refuse();
    let gaps = check(12, 3, 1).await;
    assert_eq!(gaps[0].scope, "eu-central-1: spot placement scores");
    check(13, 4, 1).await;
    check(18, 5, 0).await;
}

#[tokio::test]
async fn few_new_questions_are_asked_within_a_day_and_likely_ones_not_anew() {
    let source = FakeMarkets::new(Markets::default(), Advisor::default());
    let mut scores = Scores::default();
    let mut check = async |hours: i64, offered: Vec<SpotWish>, requests: usize, gaps: usize| {
        scores.want(offered.into_iter(), at(hours));
        scores.refresh(&source, at(hours)).await;
        let made = source.asked().get("spot_score").copied();
        assert_eq!(made, Some(requests), "after {hours} h");
        assert_eq!(scores.gaps().count(), gaps, "after {hours} h");
    };
    let machines =
        |numbers: std::ops::Range<u32>| numbers.map(|n| wish(OFFERED, n)).collect::<Vec<_>>();
    // The five with the greatest saving of seven.
    check(0, machines(1..8), 5, 0).await;
    // Others wait for another day, even if the earlier ones are no longer recommended.
    check(1, machines(11..13), 5, 1).await;
    // The same number of machines of mostly the same types is not a new question.
    let mut alike = wish(OFFERED, 1);
    alike.types.insert(kind("m5.large"));
    check(2, vec![alike], 5, 0).await;
    check(25, machines(11..13), 7, 0).await;
}
