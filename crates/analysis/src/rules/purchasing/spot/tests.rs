//! Test cases: prices, interruptions, tasks and commitments.

use crate::explain;
use ebb_catalog::spot_terms::SpotTerms;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::commitments::Commitment;
use ebb_model::inventory::spot_market::SpotWish;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::step::PlacedStep;
use ebb_telemetry::testing::{at, clock, placed_step, usage};

use crate::rules::trace::Speaks;
use crate::testing::{World, instance, region, requested};

use super::*;

/// An environment with one on-demand machine at 0.192 USD. `runs` tasks of `minutes` minutes ended
/// on this machine within two days.
fn world(runs: u64, minutes: u64, spot_micros: i64, taken_back_ppm: u32) -> World {
    let mut world = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(1, 1));
    world.now = at(2 * 86_400);
    for n in 1..=runs {
        let end = n * 2 * 86_400 / runs;
        let mut usage = usage(n, clock(end));
        usage.started = clock(end.saturating_sub(minutes * 60));
        usage.end = StepEnd::Exited(0);
        usage.id.key = format!("{n:032x}");
        world.finished.push(PlacedStep {
            sequence: n,
            started_at: at(end.saturating_sub(minutes * 60)),
            observed_at: at(end),
            usage,
            ..placed_step(1, 0)
        });
    }
    let terms = SpotTerms {
        per_hour: UsdPerHour::from_micros(spot_micros),
        as_of: None,
        taken_back_ppm: Some(taken_back_ppm),
        taken_back_above_ppm: None,
        own: None,
    };
    let types = world.inventory.markets.spot.entry(region()).or_default();
    types.insert(instance(1).instance_type, terms);
    world
}

fn find_saving(world: &World) -> Result<i64, String> {
    let report = world.evaluate();
    let found = report.findings.iter().find(|f| f.kind == KIND);
    let why = report.not_evaluated.iter().find(|n| n.rule == KIND.slug());
    let explained = explain::explain(&world.facts(), "environment/env").checks;
    let last = explained.iter().rfind(|check| check.rule == KIND);
    let explained = last.is_some_and(|last| last.speaks == Speaks::ForWaste);
    assert_eq!(explained, found.is_some(), "it is explained: {last:?}");
    found
        .map(|f| f.cost.as_ref().expect("a cost").per_hour.0.micros())
        .ok_or_else(|| why.map_or("well".to_owned(), |why| why.reason.clone()))
}

#[test]
fn spot_carries_what_runs_for_shorter_than_it_is_taken_back() {
    let check = |world: World, expect: Result<i64, &str>| {
        let got = find_saving(&world);
        match (&got, expect) {
            (Ok(got), Ok(want)) => assert!((got - want).abs() < 500, "{got} of {want}"),
            _ => assert_eq!(got.as_ref().map_err(String::as_str).copied(), expect),
        }
    };
    // A task of one hour is rarely interrupted: 0.192 less 0.07.
    check(world(30, 60, 70_000, 100_000), Ok(122_000));
    // At the on-demand price spot saves nothing.
    check(world(30, 60, 192_000, 100_000), Err("well"));
    check(world(19, 60, 70_000, 100_000), Err("well"));
    let mut unpriced = world(30, 60, 70_000, 100_000);
    unpriced.inventory.markets.spot.clear();
    let kind = instance(1).instance_type;
    let unknown = format!("the spot price of {kind} in us-east-1 is unknown");
    check(unpriced, Err(&unknown));
    let mut paid = world(30, 60, 70_000, 100_000);
    paid.inventory.markets.commitments.push(Commitment {
        id: "ri-1".into(),
        region: None,
        family: None,
        per_hour: UsdPerHour::from_micros(100_000),
        until: None,
        used: None,
    });
    let committed = format!("a commitment covers {kind} and would still be billed");
    check(paid, Err(&committed));
    let mut alone = world(30, 60, 70_000, 100_000);
    alone.inventory.batch.environments.clear();
    check(alone, Err("well"));
    let mut refused = world(30, 60, 70_000, 100_000);
    refused.policy.placement.spot = false;
    check(refused, Err("well"));
}

#[test]
fn a_machine_counts_for_as_long_as_it_was_there() {
    let check = |launched: Option<u64>, expect: Result<i64, &str>| {
        let mut world = world(30, 60, 70_000, 100_000);
        let mut second = instance(2);
        second.launched_at = launched.map(at);
        second.controller = Some(Controller::BatchEnvironment("env".to_owned()));
        world.inventory.instances.insert(second.id.clone(), second);
        let got = find_saving(&world);
        match (&got, expect) {
            (Ok(got), Ok(want)) => assert!((got - want).abs() < 2_000, "{got} of {want}"),
            _ => assert_eq!(got.as_ref().map_err(String::as_str).copied(), expect),
        }
    };
    check(Some(0), Ok(2 * 122_000));
    check(Some(36 * 3600), Ok(122_000 + 122_000 / 4));
    check(Some(3 * 86_400), Ok(122_000));
    check(None, Ok(122_000));
}

#[test]
fn long_runs_that_are_often_interrupted_stay_on_demand() {
    let mut hard = world(30, 60, 150_000, 990_000);
    // A task of 40 hours, a quarter of which would start again.
    let longest = &mut hard.finished[29];
    longest.usage.started = clock(8 * 3600);
    longest.started_at = at(8 * 3600);
    let got = find_saving(&hard).expect("there is something left");
    assert!(got < 192_000 - 150_000 - 10_000, "{got}");
}

#[test]
fn a_finding_carries_the_score_of_what_its_environment_is_advised_and_a_low_one_is_minded() {
    let world = world(30, 60, 70_000, 100_000);
    let report = world.evaluate();
    let advice = report.targets.environments.first();
    let check = |given: Option<u8>, level: Level| {
        let mut findings = report.findings.clone();
        let mut advice = advice.expect("the environment's").clone();
        let types = ["c6i.large", "m6i.large", "r6i.large"];
        let types = types.map(|name| InstanceType::new(name).expect("a type"));
        advice.spot_score = given.map(|score| SpotScore {
            wish: SpotWish::new(&region(), types.into_iter(), 5).expect("three types"),
            score,
            at: at(0),
        });
        take_scores(&mut findings, &[advice]);
        let found = findings.iter().find(|f| f.kind == KIND);
        let found = found.expect("spot would carry it");
        assert_eq!(found.confidence.level, level);
        found.evidence.to_string()
    };
    let evidence = check(Some(2), Level::Low);
    let words = "; AWS gives 8 machines of c6i.large, m6i.large, r6i.large a spot placement score of 2 \
                 of 10 (2026-09-21 14:14 UTC), which is low";
    assert!(evidence.ends_with(words), "{evidence}");
    assert!(check(Some(8), Level::Medium).contains("8 of 10"));
    assert!(!check(None, Level::Medium).contains("AWS gives"));
}

#[test]
fn the_highest_band_is_evaluated_with_its_lower_end_and_says_so() {
    let check = |spot_micros: i64, expect: Option<&str>| {
        let mut world = world(30, 60, spot_micros, 0);
        for terms in world
            .inventory
            .markets
            .spot
            .values_mut()
            .flat_map(|types| types.values_mut())
        {
            terms.taken_back_ppm = None;
            terms.taken_back_above_ppm = Some(200_000);
        }
        assert_eq!(find_saving(&world).is_ok(), expect.is_some());
        let report = world.evaluate();
        assert!(
            !report
                .not_evaluated
                .iter()
                .any(|not| not.rule == KIND.slug())
        );
        let found = report.findings.iter().find(|finding| finding.kind == KIND);
        let found = found.map(|finding| (finding.evidence.to_string(), finding.confidence.level));
        let expect = expect.map(|text| (text.to_owned(), Level::Low));
        assert_eq!(found, expect);
    };
    check(
        70_000,
        Some(
            "1 on-demand machines cost $0.1920/h on average, and at least $0.0700/h on spot \
             including repeated work; the longest of 30 tasks took 60 min, and more than 0 % of \
             such tasks are interrupted",
        ),
    );
    check(192_000, None);
}
