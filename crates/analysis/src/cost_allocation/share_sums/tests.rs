//! Tests of bounded sums.

use proptest::prelude::*;

use super::*;

fn names(run: usize, pipeline: usize, user: usize) -> TaskNames {
    TaskNames {
        run: (run > 0).then(|| format!("run {run}")),
        pipeline: (pipeline > 0).then(|| format!("pipeline {pipeline}")),
        step: format!("step {}", run % 7),
        user: Some(format!("user {user}")),
        cost_centre: None,
    }
}

/// The cost of each name of a dimension.
fn by_name(shares: &[CostShare], dimension: CostDimension) -> BTreeMap<CostName, Usd> {
    let mut sums: BTreeMap<CostName, Usd> = BTreeMap::new();
    for share in shares {
        let sum = sums.entry(share.names[&dimension].clone()).or_default();
        *sum = *sum + cost(&share.by_day);
    }
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn sums_are_bounded_and_the_sum_of_a_name_is_complete(
        tasks in prop::collection::vec((0..400_usize, 0..80_usize, 0..120_usize, 0..9_000_i64), 1..900),
    ) {
        let mut sums = ShareSums::default();
        let mut all = BTreeMap::new();
        let mut exact: BTreeMap<String, i64> = BTreeMap::new();
        let mut total = 0;
        for (run, pipeline, user, micros) in tasks {
            let next = all.len();
            let at = *all.entry(names(run, pipeline, user)).or_insert(next);
            let share = DayShare {
                tasks: 1,
                used: Usd::from_micros(micros),
                ..DayShare::default()
            };
            sums.add(at, "2026-10-01", share);
            total += micros;
            for name in [format!("run {run}"), format!("pipeline {pipeline}"), format!("user {user}")] {
                *exact.entry(name).or_default() += micros;
            }
        }
        let shares = sums.by(CostDimension::Run, &all);
        prop_assert!(shares.len() <= MAX_SHARES);
        let sum: Usd = shares.iter().map(|share| cost(&share.by_day)).sum();
        prop_assert_eq!(sum.micros(), total);
        for dimension in [CostDimension::Run, CostDimension::Pipeline, CostDimension::User] {
            for (name, usd) in by_name(&shares, dimension) {
                if let Some(name) = name.name() {
                    prop_assert_eq!(usd.micros(), exact[name], "{}", name);
                }
            }
        }
    }
}

#[test]
fn the_most_expensive_names_stay() {
    let mut sums = ShareSums::default();
    let mut all = BTreeMap::new();
    for run in 1..=150 {
        all.insert(names(run, 1, 1), run);
        let share = DayShare {
            tasks: 1,
            used: Usd::from_micros(i64::try_from(run).expect("small")),
            ..DayShare::default()
        };
        sums.add(run, "2026-10-01", share);
    }
    let shares = sums.by(CostDimension::Run, &all);
    assert_eq!(shares.len(), MAX_NAMES + 1);
    let by_run = by_name(&shares, CostDimension::Run);
    assert!(by_run.contains_key(&CostName::Name("run 150".to_owned())));
    assert_eq!(by_run[&CostName::Others].micros(), 50 * 51 / 2);
    let others = shares
        .iter()
        .find(|one| one.names[&CostDimension::Run] == CostName::Others);
    assert_eq!(others.expect("others").by_day["2026-10-01"].tasks, 50);
}
