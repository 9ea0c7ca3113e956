//! Guarantees of memory sizing.

use std::time::Duration;

use super::*;

const GIB: f64 = 1_073_741_824.0;

fn run(input_gib: Option<f64>, need_gib: f64) -> Run {
    Run {
        input: input_gib.map(|gib| Bytes((gib * GIB) as u64)),
        peak: Bytes((need_gib * GIB) as u64),
        wall: Duration::from_secs(600),
    }
}

fn history(oom_ppm: u32, runs: impl IntoIterator<Item = Run>) -> MemoryHistory {
    let policy = SizingPolicy {
        oom_ppm,
        ..SizingPolicy::default()
    };
    let mut history = MemoryHistory::new(&policy);
    runs.into_iter().for_each(|run| history.learn(run));
    history
}

/// Pseudo-random numbers between 0 and 1 from a fixed seed.
fn numbers(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    })
}

/// Needs from 2 GiB upwards with an exponential tail.
fn needs(seed: u64) -> impl Iterator<Item = f64> {
    numbers(seed).map(|u| 2.0 - (1.0 - u).max(1e-9).ln() * 0.5)
}

#[test]
fn too_few_runs_are_refused_and_it_says_how_many_more_it_takes() {
    let check = |runs: usize, missing: usize| {
        let history = history(10_000, (0..runs).map(|_| run(None, 1.0)));
        assert_eq!(history.advise(None), Err(TooFewRuns { missing }));
    };
    check(0, 3);
    check(2, 1);
    assert!(history(10_000, [run(None, 1.0); 3]).advise(None).is_ok());
}

#[test]
fn equal_needs_are_asked_for_with_little_on_top() {
    let advice = history(10_000, [run(None, 4.0); 30]).advise(None);
    let first = advice.expect("it is advised").first();
    assert!(
        first >= Bytes::gib(4) && first <= Bytes::mib(4096 + 200),
        "{first}"
    );
}

#[test]
fn the_chance_that_the_policy_allows_is_kept_on_needs_not_seen_before() {
    let (mut failed, mut tasks) = (0, 0);
    for seed in 1..=4 {
        let mut needs = needs(seed);
        let mut history = history(10_000, needs.by_ref().take(40).map(|need| run(None, need)));
        for need in needs.take(110) {
            let advice = history.advise(None).expect("it is advised");
            failed += usize::from(advice.first() < run(None, need).peak);
            tasks += 1;
            history.learn(run(None, need));
        }
    }
    // Three standard deviations above 1 % of 440 are 11.
    assert!(failed <= 11, "{failed} of {tasks} failed");
    assert!(
        failed >= 2,
        "{failed} of {tasks}: far more than needed was asked for"
    );
}

#[test]
fn the_ladder_costs_no_more_than_any_other() {
    let needs: Vec<f64> = needs(7).take(9).collect();
    let history = history(1_000_000, needs.iter().map(|need| run(None, *need)));
    let sample = Sample::from_runs(&history.runs, Shape::Same, None).expect("no input is needed");
    let cost = |rungs: &[f64]| -> f64 {
        let tried = |need: f64| -> f64 {
            let fits = rungs
                .iter()
                .position(|size| *size >= need)
                .expect("the last fits");
            rungs[..=fits].iter().sum()
        };
        sample
            .needs()
            .iter()
            .map(|need| tried(need.0) * need.1)
            .sum()
    };
    let ours: Vec<f64> = Ladder::cheapest(&sample).iter().collect();
    let all: Vec<f64> = sample.needs().iter().map(|need| need.0).collect();
    for chosen in 0..1u32 << (all.len() - 1) {
        let mut rungs: Vec<f64> = (0..all.len() - 1)
            .filter(|i| chosen >> i & 1 == 1)
            .map(|i| all[i])
            .collect();
        rungs.push(all[all.len() - 1]);
        assert!(cost(&ours) <= cost(&rungs) * (1.0 + 1e-12));
    }
}

#[test]
fn an_input_that_explains_the_need_is_used_and_one_that_does_not_is_not() {
    let along = (1..60).map(|i| run(Some(f64::from(i)), f64::from(i) * 2.0));
    let advice = history(10_000, along).advise(run(Some(30.0), 0.0).input);
    let first = advice.expect("it is advised").first().as_gib();
    assert!(
        (60.0..66.0).contains(&first),
        "{first} GiB for a need of 60"
    );

    let mut inputs = numbers(3);
    let apart = needs(4).take(200).map(|need| run(inputs.next(), need));
    let apart = history(10_000, apart);
    let (small, large) = (
        apart.advise(Some(Bytes(1 << 20))),
        apart.advise(Some(Bytes::gib(1))),
    );
    let (small, large) = (
        small.expect("advised").first(),
        large.expect("advised").first(),
    );
    assert!(large.as_gib() < small.as_gib() * 1.6, "{small} and {large}");
}

#[test]
fn inputs_that_are_unknown_leave_the_model_that_needs_none() {
    let mut runs: Vec<Run> = (1..30).map(|i| run(Some(f64::from(i)), 2.0)).collect();
    let known = history(10_000, runs.clone());
    assert_eq!(
        known.advise(None).expect("advised").model.shape,
        Shape::Same
    );
    runs.push(run(None, 2.0));
    let mixed = history(10_000, runs).advise(Some(Bytes::gib(3)));
    assert_eq!(mixed.expect("advised").model.shape, Shape::Same);
}

#[test]
fn after_a_failure_more_is_asked_for_until_it_fits() {
    let advice = history(1_000_000, needs(11).take(100).map(|need| run(None, need)));
    let advice = advice.advise(None).expect("it is advised");
    let mut size = advice.first();
    for _ in 0..40 {
        let next = advice.after(size);
        assert!(next > size);
        size = next;
    }
    assert!(size > Bytes::gib(1 << 10));
}

#[test]
fn twice_the_usage_never_asks_for_less() {
    for seed in 1..20 {
        let first = |times: f64| {
            let runs = needs(seed).take(60).map(|need| run(None, need * times));
            history(10_000, runs).advise(None).expect("advised").first()
        };
        assert!(first(2.0) >= first(1.0));
    }
}

#[test]
fn what_is_remembered_is_bounded_and_comes_back_the_same() {
    let history = history(10_000, needs(2).take(400).map(|need| run(None, need)));
    assert_eq!(history.runs.len(), MAX_RUNS);
    let text = serde_json::to_string(&history).expect("it is written");
    let back: MemoryHistory = serde_json::from_str(&text).expect("it is read");
    assert_eq!(back.advise(None), history.advise(None));
}
