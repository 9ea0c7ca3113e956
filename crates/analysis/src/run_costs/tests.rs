use ebb_model::report::workflow_runs::JoinedBy;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::testing::at;
use ebb_telemetry::units::CpuTime;
use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

const HOUR: u128 = 3_600_000_000_000;

/// Tasks of an hour that cost a dollar each.
fn factors(tasks: u64) -> RunFactors {
    RunFactors {
        tasks,
        task_nanos: u128::from(tasks) * HOUR,
        used: usd(tasks as f64),
        all_nanos: u128::from(tasks) * HOUR,
        covered_nanos: u128::from(tasks) * HOUR,
        ..RunFactors::default()
    }
}

fn usd(dollars: f64) -> Usd {
    Usd::from_f64(dollars).expect("an amount")
}

fn causes(new: &RunFactors, usual: &RunFactors) -> Vec<String> {
    let causes = find_causes(new, usual);
    let causes = causes
        .iter()
        .map(|cause| format!("{cause} {}", cause.amount));
    causes.collect()
}

#[test]
fn each_cause_is_found_alone() {
    let usual = factors(10);
    let check = |change: fn(&mut RunFactors), expect: &[&str]| {
        let mut new = usual;
        change(&mut new);
        assert_eq!(causes(&new, &usual), expect);
    };
    check(|_| (), &[]);
    check(|new| *new = factors(13), &["more tasks $3.00"]);
    check(|new| *new = factors(7), &["fewer tasks -$3.00"]);
    check(
        |new| (new.task_nanos, new.used) = (13 * HOUR, usd(13.0)),
        &["longer tasks $3.00"],
    );
    check(
        |new| new.used = usd(13.0),
        &["dearer machines or larger parts of them $3.00"],
    );
    check(|new| new.failed = usd(2.0), &["more failed tasks $2.00"]);
    check(|new| new.unused = usd(2.0), &["more unused capacity $2.00"]);
    // Longer on cheaper machines, at the same cost.
    check(
        |new| new.task_nanos = 20 * HOUR,
        &[
            "longer tasks $6.93",
            "cheaper machines or smaller parts of them -$6.93",
        ],
    );
    check(|new| *new = RunFactors::default(), &["fewer tasks -$10.00"]);
}

fn run(number: u32, factors: &mut BTreeMap<String, RunFactors>, of: RunFactors) -> WorkflowRun {
    let name = format!("run-{number}");
    factors.insert(name.clone(), of);
    let from = at(0) + i64::from(number).hours();
    WorkflowRun {
        run: name,
        by: Some(JoinedBy::Label),
        pipeline: Some("tides".to_owned()),
        steps: 1,
        running: 0,
        failed: 0,
        cpu: CpuTime(0),
        from,
        to: from,
        samples: vec!["a".to_owned(), "b".to_owned()],
        samples_left_out: 0,
        origin: Origin::Measured,
        cost_breakdown: None,
    }
}

#[test]
fn a_run_is_compared_with_the_median_of_its_earlier_runs() {
    let mut known = BTreeMap::new();
    let costs = [5, 4, 6, 13];
    let all: Vec<WorkflowRun> = (0..)
        .zip(costs)
        .map(|(number, tasks)| run(number, &mut known, factors(tasks)))
        .collect();
    let check = |change: fn(&mut Vec<WorkflowRun>), expect: Option<(&str, usize, i64)>| {
        let mut all = all.clone();
        change(&mut all);
        let mut runs = Runs {
            runs: all,
            ..Runs::default()
        };
        add_costs(&mut runs, &known);
        let cost = runs.runs[3].cost_breakdown.as_ref().expect("a cost");
        let usual = cost.usual.as_ref();
        let found = usual.map(|usual| {
            let sum: Usd = usual.causes.iter().map(|cause| cause.amount).sum();
            assert_eq!(sum, cost.total - usual.total);
            let percent = cost.percent_of_usual().expect("a cost");
            (usual.run.as_str(), usual.earlier_runs, percent)
        });
        assert_eq!(found, expect);
        assert_eq!(cost.per_sample, Some(usd(6.5)));
        assert!(
            runs.runs[2]
                .cost_breakdown
                .as_ref()
                .expect("a cost")
                .usual
                .is_none()
        );
    };
    check(|_| (), Some(("run-0", 3, 160)));
    check(|runs| runs[0].pipeline = Some("winds".to_owned()), None);
    check(|runs| runs[0].running = 1, None);
    check(|runs| runs[3].running = 1, None);
    check(|runs| runs[3].pipeline = None, None);
}

#[test]
fn a_run_whose_cost_is_known_in_part_has_none() {
    let check = |change: fn(&mut RunFactors), has_cost: bool, per_gb: Option<f64>| {
        let mut of = factors(10);
        change(&mut of);
        let mut known = BTreeMap::new();
        let run = run(1, &mut known, of);
        let mut runs = Runs {
            runs: vec![run],
            ..Runs::default()
        };
        add_costs(&mut runs, &known);
        let cost = runs.runs[0].cost_breakdown.as_ref();
        assert_eq!(cost.is_some(), has_cost);
        assert_eq!(cost.and_then(|cost| cost.per_gb_read), per_gb.map(usd));
    };
    check(|_| (), true, None);
    check(|of| of.covered_nanos = 9 * HOUR, false, None);
    check(|of| of.read_bytes = 5_000_000_000, true, Some(2.0));
    check(|of| (of.read_bytes, of.unknown_reads) = (5, 1), true, None);
}

fn any_factors() -> impl Strategy<Value = RunFactors> {
    let money = |least: i64, most: i64| (least..most).prop_map(Usd::from_micros);
    let amounts = (
        money(-1_000, 1_000_000_000),
        money(0, 1_000_000),
        money(-1_000_000, 1_000_000),
    );
    (0_u64..4, 0_u128..1 << 60, amounts).prop_map(|(tasks, task_nanos, (used, failed, unused))| {
        RunFactors {
            tasks,
            task_nanos,
            used,
            failed,
            unused,
            ..RunFactors::default()
        }
    })
}

proptest! {
    #[test]
    fn the_causes_always_add_up(new in any_factors(), usual in any_factors()) {
        let causes = find_causes(&new, &usual);
        let sum: Usd = causes.iter().map(|cause| cause.amount).sum();
        prop_assert_eq!(sum, new.total() - usual.total());
    }
}
