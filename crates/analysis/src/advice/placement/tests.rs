//! Tests of offers: basis, limits, markets, regions and commitments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::TypeSpec;
use ebb_catalog::spot_terms;
use ebb_model::advice::offer::{Assumed, Basis, Offered, Reason};
use ebb_model::cost::PriceBasis;
use ebb_model::inventory::spot_market::Markets;
use ebb_model::inventory::{commitments, instance};
use ebb_model::policy::Policy;
use ebb_model::step_profile::Run;
use ebb_sizing::spot_risk::interruptions;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::advice::placement::inputs::Arm;
use crate::hourly_price::Price;
use crate::step_history::learned_speed::learned;
use crate::step_history::tests::{profile, run};

use super::*;

fn kind(name: &str) -> InstanceType {
    InstanceType::new(name).expect("a type")
}

fn home() -> Region {
    Region::new("us-east-1").expect("a region")
}

/// Inputs of offers; each test changes some of them.
struct Case {
    profile: StepProfile,
    policy: Policy,
    markets: Markets,
    tags: BTreeMap<String, String>,
    tools: Vec<String>,
    on_arm: BTreeSet<String>,
    demand: Vec<UsdPerHour>,
    asks: SizedRequest,
    /// Market of its current m5.4xlarge; `None` if the price is unknown.
    bought: Option<instance::Market>,
}

impl Default for Case {
    fn default() -> Self {
        let request = SizedRequest {
            cores: Some(MilliCores::cores(2)),
            memory: Some(Bytes::gib(6)),
        };
        Self {
            profile: profile((0..4).map(|n| run(n * 86_400))),
            policy: Policy::default(),
            markets: Markets::default(),
            tags: BTreeMap::new(),
            tools: Vec::new(),
            on_arm: BTreeSet::new(),
            demand: Vec::new(),
            asks: request,
            bought: None,
        }
    }
}

impl Case {
    fn tagged(key: &str, value: &str) -> Self {
        Self {
            tags: BTreeMap::from([(key.to_owned(), value.to_owned())]),
            ..Self::default()
        }
    }

    fn offers(&self) -> Offers {
        let catalogue = Catalogue::built_in();
        let name = "align".to_owned();
        let placing = Placing {
            catalogue,
            speeds: &learned([(&name, &self.profile)].into_iter(), catalogue),
            policy: &self.policy,
            markets: &self.markets,
            demand: &self.demand,
            on_arm: &self.on_arm,
        };
        let on = kind("m5.4xlarge");
        let paid = self.bought.map(|market| Paid {
            on: &on,
            market,
            price: Price {
                per_hour: UsdPerHour::from_micros(300_000),
                basis: PriceBasis::Bill,
                as_of: None,
                list: None,
                list_as_of: None,
            },
        });
        let about = StepConditions {
            tags: &self.tags,
            arm: Arm {
                tools: &self.tools,
                in_container: false,
            },
            paid,
        };
        let requests = (self.asks, self.asks);
        placing.offers(&self.profile, requests, &home(), &about)
    }

    /// Adds spot prices in its region for some types, in percent of the list price.
    fn with_spot(mut self, types: &[&str], percent: u64, taken_back_ppm: Option<u32>) -> Self {
        let spot = self.markets.spot.entry(home()).or_default();
        for name in types {
            let list = Catalogue::built_in().on_demand(&home(), &kind(name));
            let terms = spot_terms::SpotTerms {
                per_hour: list.expect("it is sold").part(percent, 100),
                as_of: None,
                taken_back_ppm,
                taken_back_above_ppm: None,
                own: None,
            };
            spot.insert(kind(name), terms);
        }
        self
    }
}

fn spec(offer: &Offered) -> &'static TypeSpec {
    let spec = Catalogue::built_in().spec(&offer.instance_type);
    spec.expect("what is offered is known")
}

#[test]
fn offers_are_told_with_what_their_time_rests_on() {
    let mut newer = run(500_000);
    newer.machine = Some(kind("c6i.2xlarge"));
    let case = Case {
        profile: profile([run(0), newer]),
        ..Case::default()
    };
    let offers = case.offers();
    assert_eq!(offers.best.len(), 3);
    assert!(offers.best.is_sorted_by_key(|offer| offer.usd_a_run));
    for offer in &offers.best {
        let family = offer.instance_type.as_str().split('.').next();
        let expect = match family {
            Some("c6i" | "m5") => Basis::Observed,
            _ => Basis::Published,
        };
        assert_eq!(offer.basis, expect, "{offer:?}");
        assert_eq!(
            offer.assumed.contains(&Assumed::PublishedSpeed),
            expect == Basis::Published
        );
        assert!(offer.wall > Duration::ZERO && offer.per_hour.0.micros() > 0);
        assert!(offer.samples > 0 && !offer.reasons.is_empty(), "{offer:?}");
    }
    assert!(offers.left_out["architecture"] > 0 && offers.left_out["memory"] > 0);
    let now = offers.now.expect("the catalogue has the machine");
    assert_eq!(
        (now.instance_type, now.basis),
        (kind("c6i.2xlarge"), Basis::Observed)
    );
    assert_eq!(now.saves_a_run, Some(Usd::ZERO));
}

#[test]
fn without_a_request_or_runs_that_tell_nothing_is_offered() {
    let check = |case: Case| assert_eq!(case.offers(), Offers::default());
    let unknown = SizedRequest {
        cores: None,
        memory: None,
    };
    check(Case {
        asks: unknown,
        ..Case::default()
    });
    let mut elsewhere = run(0);
    elsewhere.machine = None;
    check(Case {
        profile: profile([elsewhere]),
        ..Case::default()
    });
    let mut unmeasured = run(0);
    unmeasured.cpu = None;
    check(Case {
        profile: profile([unmeasured]),
        ..Case::default()
    });
}

#[test]
fn what_tags_and_policy_say_is_never_broken() {
    let check = |case: Case, holds: fn(&TypeSpec) -> bool, code: &str| {
        let offers = case.offers();
        let all = offers.best.iter().chain(&offers.try_next);
        for offer in all {
            assert!(holds(spec(offer)), "{code}: {offer:?}");
        }
        assert!(offers.left_out[code] > 0, "{:?}", offers.left_out);
    };
    check(
        Case::tagged("ebb:licence", "vendor"),
        |spec| spec.name.as_str() == "m5.4xlarge",
        "licence",
    );
    check(
        Case::tagged("ebb:local-disk-gib", "200"),
        |spec| spec.local_disk >= Some(Bytes::gib(200)),
        "local_disk",
    );
    check(
        Case::tagged("ebb:network-mbps", "5000"),
        |spec| spec.network_baseline_mbps >= Some(5_000),
        "network",
    );
    check(
        Case::tagged("ebb:ebs-mbps", "5000"),
        |spec| spec.ebs_baseline_mbps >= Some(5_000),
        "ebs",
    );
    let mut families = Case::default();
    families.policy.placement.families = BTreeSet::from(["m6i".to_owned()]);
    check(
        families,
        |spec| spec.name.as_str().starts_with("m6i."),
        "policy",
    );
    let mut zones = Case::default();
    zones.policy.placement.zones = BTreeSet::from(["us-east-1a".to_owned()]);
    let sold = |zone: &str| BTreeSet::from([zone.to_owned()]);
    let by_type = [("m7i.xlarge", "us-east-1a"), ("m6i.xlarge", "us-east-1b")];
    let by_type = by_type.map(|(name, zone)| (kind(name), sold(zone)));
    zones.markets.zones.insert(home(), BTreeMap::from(by_type));
    check(zones, |spec| spec.name.as_str() == "m7i.xlarge", "zone");
    // A step may need the GPU of a machine on which it ran.
    let mut gpu = run(0);
    gpu.machine = Some(kind("g4dn.xlarge"));
    let offers = Case {
        profile: profile([gpu]),
        ..Case::default()
    }
    .offers();
    assert!(offers.best.iter().all(|offer| {
        spec(offer)
            .gpus
            .as_ref()
            .is_some_and(|gpus| gpus.name == "T4")
    }));
}

#[test]
fn arm_is_offered_on_evidence_and_else_what_is_in_the_way_is_named() {
    let check = |tools: &[&str], on_arm: &[&str], tag: bool, arm: bool, way: &[&str]| {
        let names = |all: &[&str]| -> Vec<String> { all.iter().map(ToString::to_string).collect() };
        let mut case = Case {
            tools: names(tools),
            on_arm: names(on_arm).into_iter().collect(),
            ..Case::default()
        };
        if tag {
            case.tags.insert("ebb:arm64".to_owned(), "true".to_owned());
        }
        let offers = case.offers();
        let is_arm = |offer: &Offered| {
            spec(offer).architecture == ebb_catalog::machine_type::Architecture::Arm64
        };
        assert_eq!(offers.best.iter().any(is_arm), arm, "{tools:?} {on_arm:?}");
        assert_eq!(offers.in_the_way_of_arm, way, "{tools:?} {on_arm:?}");
    };
    check(&["bwa", "samtools"], &["bwa", "samtools"], false, true, &[]);
    check(
        &["bwa", "bcl2fastq"],
        &["bwa"],
        false,
        false,
        &["bcl2fastq"],
    );
    check(&["bcl2fastq"], &[], true, true, &[]);
    check(&[], &["bwa"], false, false, &[]);
}

const SPOT: [&str; 4] = ["m7i.large", "r7i.large", "m7a.large", "r7a.large"];

#[test]
fn spot_is_told_with_its_risk_and_never_for_fewer_than_three_types() {
    let check = |types: &[&str], percent: u64, ppm: Option<u32>, expect: usize| {
        let offers = Case::default().with_spot(types, percent, ppm).offers();
        assert_eq!(offers.spot.len(), expect, "{types:?}");
        for offer in &offers.spot {
            let risk = offer.spot.as_ref().expect("spot has a risk");
            assert!(risk.interrupted.ppm() > 0 && risk.break_even.is_some());
            assert!(offer.usd_a_run < offers.best[0].usd_a_run);
            assert!(offer.assumed.contains(&Assumed::RestartsFromBegin));
        }
        let unknown = offers.left_out.get("interruptions_unknown").copied();
        assert_eq!(unknown, ppm.is_none().then_some(types.len() as u32));
    };
    check(&SPOT, 25, Some(150_000), 4);
    check(&SPOT[..2], 40, Some(150_000), 0);
    check(&SPOT, 40, None, 0);
    check(&SPOT, 100, Some(150_000), 0);
    let kept = Case::tagged("ebb:checkpoint-minutes", "5").with_spot(&SPOT, 25, Some(150_000));
    for offer in &kept.offers().spot {
        assert!(offer.assumed.contains(&Assumed::GoesOnFromCheckpoint));
        assert!(!offer.assumed.contains(&Assumed::RestartsFromBegin));
        assert_eq!(offer.spot.as_ref().expect("a risk").break_even, None);
    }
    let mut never = Case::default().with_spot(&SPOT, 40, Some(150_000));
    never.policy.placement.spot = false;
    assert!(never.offers().spot.is_empty());
}

#[test]
fn a_step_on_spot_stays_there() {
    let check = |bought: Option<instance::Market>, percent: u64, expect: instance::Market| {
        let mut case = Case::default().with_spot(&SPOT, percent, Some(150_000));
        case.bought = bought;
        let offers = case.offers();
        assert!(!offers.best.is_empty());
        let markets: Vec<_> = offers.offered().iter().map(|one| one.market).collect();
        assert!(markets.len() >= 3, "{markets:?}");
        assert!(
            markets.iter().all(|market| *market == expect),
            "{markets:?}"
        );
    };
    let (spot, on_demand) = (instance::Market::Spot, instance::Market::OnDemand);
    check(None, 25, spot);
    check(Some(on_demand), 25, spot);
    check(Some(on_demand), 100, on_demand);
    check(Some(spot), 25, spot);
    check(Some(spot), 100, spot);
    // With only two spot types no spot offer exists, and the step still stays on spot.
    let mut few = Case::default().with_spot(&SPOT[..2], 25, Some(150_000));
    few.bought = Some(spot);
    assert!(few.offers().offered().is_empty());
}

#[test]
fn the_accounts_own_interruptions_count() {
    let terms = |own| spot_terms::SpotTerms {
        per_hour: UsdPerHour::from_micros(1),
        as_of: None,
        taken_back_ppm: None,
        taken_back_above_ppm: None,
        own,
    };
    let own = |count, machine_hours| spot_terms::OwnInterruptions {
        count,
        machine_hours,
    };
    let chance = |own| Some(interruptions(&terms(own))?.chance_within(730.0));
    assert_eq!(chance(None), None);
    assert_eq!(chance(Some(own(0, 0))), None);
    let few = chance(Some(own(0, 10_000))).expect("it was watched");
    let many = chance(Some(own(50, 10_000))).expect("it was watched");
    assert!(few > 0.0 && few < 0.1 && many > 0.9, "{few} {many}");
}

#[test]
fn another_region_is_offered_where_its_price_pays_for_moving_the_data() {
    let elsewhere = |megabytes: u64, regions: &[&str]| {
        let mut case = Case::default();
        // Oregon and Ohio cost as much as Virginia; Ireland costs more.
        case.policy.placement.moved_megabytes_a_run = megabytes;
        case.policy.placement.regions = regions.iter().map(|r| (*r).to_owned()).collect();
        case.markets.spot = BTreeMap::new();
        case.offers()
    };
    assert!(
        elsewhere(0, &[]).elsewhere.is_empty(),
        "what it moves is unknown"
    );
    let offers = elsewhere(1, &[]);
    for offer in &offers.elsewhere {
        assert!(offer.usd_a_run < offers.best[0].usd_a_run);
        assert!(offer.moving_usd_a_run > Usd::ZERO && offer.region != home());
        assert!(offer.reasons.contains(&Reason::OtherRegion));
    }
    assert!(elsewhere(10_000_000, &[]).elsewhere.is_empty());
    let only = elsewhere(1, &["eu-west-1"]);
    assert!(
        only.elsewhere
            .iter()
            .all(|o| o.region.as_str() == "eu-west-1")
    );
    assert!(offers.left_out["transfer_unknown"] > 0);
}

#[test]
fn a_move_that_leaves_a_commitment_unused_saves_nothing() {
    let offers = |family: Option<&str>, demand: i64| {
        let mut case = Case {
            demand: vec![UsdPerHour::from_micros(demand)],
            ..Case::default()
        };
        if let Some(family) = family {
            case.markets.commitments.push(commitments::Commitment {
                id: "plan".to_owned(),
                region: Some(home()),
                family: (!family.is_empty()).then(|| family.to_owned()),
                per_hour: UsdPerHour::from_micros(768_000),
                until: None,
                used: None,
            });
        }
        case.offers()
    };
    let saved = |offers: &Offers| offers.best[0].saves_a_run.expect("both are known");
    assert!(saved(&offers(None, 0)) > Usd::ZERO);
    // A plan for all families covers the step on the new type too.
    assert_eq!(saved(&offers(Some(""), 0)), Usd::ZERO);
    // Other machines use the plan up: their demand exceeds it at the greatest discount.
    assert!(saved(&offers(Some(""), 3_600_000)) > Usd::ZERO);
    assert!(saved(&offers(Some("m5"), 3_600_000)) > Usd::ZERO);
    assert_eq!(saved(&offers(Some(""), 3_500_000)), Usd::ZERO);
    let held = offers(Some("m5"), 0);
    for offer in &held.best {
        let moves = !offer.instance_type.as_str().starts_with("m5.");
        assert_eq!(offer.reasons.contains(&Reason::LeavesCommitment), moves);
        assert!(!moves || offer.saves_a_run < Some(Usd::ZERO), "{offer:?}");
    }
}

#[test]
fn a_trial_is_named_where_a_month_pays_for_it() {
    let trial = |every_seconds: u64| {
        let case = Case {
            profile: profile((0..4).map(|n| run(n * every_seconds))),
            ..Case::default()
        };
        case.offers().try_next
    };
    let often = trial(1_200).expect("it runs often");
    assert_ne!(often.basis, Basis::Observed);
    assert!(often.saves_a_run > Some(Usd::ZERO));
    assert_eq!(trial(20 * 86_400), None, "pennies");
}

#[test]
fn the_same_facts_give_the_same_bytes() {
    let json = || {
        let case = Case::default().with_spot(&SPOT, 40, Some(150_000));
        serde_json::to_string(&case.offers()).expect("it has a form")
    };
    assert_eq!(json(), json());
}

#[test]
fn a_task_on_a_shared_machine_costs_its_part_of_it() {
    let now = |shares: bool| {
        let runs = (0..4).map(|n| Run {
            shares_machine: Some(shares),
            ..run(n * 86_400)
        });
        let case = Case {
            profile: profile(runs),
            ..Case::default()
        };
        case.offers().now.expect("its machine is known")
    };
    let (alone, shared) = (now(false), now(true));
    // 2 of 16 vCPUs, and less of the memory.
    assert_eq!(shared.usd_a_run, alone.usd_a_run.part(1, 8));
    assert!(shared.assumed.contains(&Assumed::RequestShare));
    assert!(!alone.assumed.contains(&Assumed::RequestShare));
}
