//! Tests of the table with hostile names.

use ebb_model::advice::sized_request::{ChanceRange, EstimateBasis, Risk, SizedRequest};
use ebb_model::advice::step::TimeLimit;
use ebb_model::step_profile::failure::{FailureCount, FailureKind};
use ebb_model::step_profile::tasks::{PresentRequest, RequestBasis, RequestCount};
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::units::{Bytes, MilliCores};
use ebb_workflows::testing::{HOSTILE, offers, step};

use super::*;

#[test]
fn the_table_shows_request_advice_and_risk() {
    let mut few = step("fastqc");
    few.risk = Risk {
        samples_needed: 15,
        oom_between: Some(ChanceRange {
            from_ppm: 0,
            to_ppm: 450_000,
        }),
        ..Risk::default()
    };
    few.samples = 5;
    few.saving_a_month = None;
    let mut killed = step("sort");
    let request = |gib| SizedRequest {
        cores: None,
        memory: Some(Bytes::gib(gib)),
    };
    killed.asks = request(8);
    killed.should_ask = request(12);
    killed.present = PresentRequest {
        request: request(8),
        basis: RequestBasis::Most,
        least: request(8),
        counts: vec![
            RequestCount {
                request: request(8),
                tasks: 30,
                out_of_memory: 10,
            },
            RequestCount {
                request: request(16),
                tasks: 1,
                out_of_memory: 0,
            },
        ],
    };
    killed.failures = vec![FailureCount {
        kind: FailureKind::OutOfMemory,
        exit_status: Some(137),
        attempts: 10,
        ignored: 0,
        retried: 10,
        lost_seconds: 9_000,
    }];
    killed.risk.oom_ppm = None;
    killed.risk.oom_between = Some(ChanceRange {
        from_ppm: 0,
        to_ppm: 83_000,
    });
    killed.risk.basis = Some(EstimateBasis {
        tasks: 31,
        samples: 31,
        runs: 4,
        effective_tasks_millis: 12_000,
    });
    insta::assert_snapshot!(table(&[step("align"), few, killed], None));
}

const fn used(used: u64, requested: u64) -> Option<MemoryUse> {
    let (used, requested) = (Bytes::gib(used), Bytes::gib(requested));
    Some(MemoryUse { used, requested })
}

#[test]
fn tasks_that_use_all_they_request_are_said() {
    let check = |change: fn(&mut StepAdvice), expect: &str| {
        let mut full = step("align");
        full.should_ask = full.asks;
        full.mean_cores = None;
        change(&mut full);
        let text = table(&[full], None);
        assert!(text.contains(expect), "{text}");
    };
    check(
        |step| {
            step.asks.cores = Some(MilliCores::cores(4));
            step.should_ask = step.asks;
            step.mean_cores = Some(MilliCores::cores(12));
        },
        "used 12 cores on average and requested 4: request as many, or limit its threads",
    );
    check(
        |step| step.fullest = used(8, 8),
        "a larger input may run out of memory",
    );
    check(
        |step| step.fullest = used(9, 8),
        "used 9.0 GiB of memory, more than it requested (8.0 GiB)",
    );
    check(
        |step| {
            let count = |gib, out_of_memory| RequestCount {
                request: SizedRequest {
                    cores: None,
                    memory: Some(Bytes::gib(gib)),
                },
                tasks: 6,
                out_of_memory,
            };
            step.present.basis = RequestBasis::Median;
            step.present.counts = vec![count(4, 6), count(8, 0)];
        },
        "first attempts that ran out of memory: 6 of 6 with 4.0 GiB",
    );
}

#[test]
fn a_changed_time_limit_is_part_of_the_advice() {
    let mut limited = step("align");
    limited.time_limit = Some(TimeLimit {
        asks: Duration::from_secs(8 * 3_600),
        should_ask: Duration::from_secs(3 * 3_600),
    });
    let text = table(&[limited], None);
    assert!(text.contains("GiB, time limit 3 h"), "{text}");
}

#[test]
fn the_observed_duration_is_apart_from_the_estimate_on_the_same_type() {
    let mut align = step("align");
    align.machines = vec!["m5.4xlarge".parse().expect("a type")];
    align.mean_wall = Some(Duration::from_secs(14 * 60));
    align.offers.now = offers(&["m5.4xlarge"]).best.into_iter().next();
    let text = table(&[align], None);
    assert!(
        text.contains("today     m5.4xlarge, 14 min on average\n"),
        "{text}"
    );
    assert!(
        text.contains("an estimate with the recommended request and"),
        "{text}"
    );
}

#[test]
fn a_step_that_computes_on_few_of_its_cores_needs_no_more() {
    let mut few = step("align");
    few.asks.cores = Some(MilliCores::cores(16));
    few.bound.by = Some(Binding::Compute);
    few.bound.cores_used = Some(Share::from_ppm(150_000));
    assert!(table(&[few.clone()], None).contains("limited by compute"));
    few.bound.underused = vec![RequestedResource::Cores];
    let text = table(&[few], None);
    assert!(text.contains("CPU-bound on at most 2.4 cores"), "{text}");
}

#[test]
fn a_wide_range_of_the_risk_has_its_number_of_tasks() {
    let mut wide = step("align");
    wide.risk.oom_ppm = None;
    wide.risk.oom_between = Some(ChanceRange {
        from_ppm: 0,
        to_ppm: 390_000,
    });
    wide.risk.basis = Some(EstimateBasis {
        tasks: 22,
        samples: 22,
        runs: 1,
        effective_tasks_millis: 4_000,
    });
    assert!(table(&[wide], None).contains("0 to 39 %, 22 tasks"));
}

#[test]
fn a_saving_that_is_only_a_bound_is_shown_as_a_bound() {
    let mut bounded = step("align");
    bounded.saving_at_most_a_month = bounded.saving_a_month.take();
    assert!(table(&[bounded], None).contains("at most $12.00"));
}

#[test]
fn a_narrow_terminal_cuts_names_only() {
    let wide = table(&[step(&"long".repeat(40))], None);
    let narrow = table(&[step(&"long".repeat(40))], Some(80));
    let longest = |text: &str| text.lines().map(|l| l.chars().count()).max();
    assert!(longest(&narrow) < longest(&wide));
    assert!(narrow.contains("longlong  ") && narrow.contains("$12.00"));
    assert!(longest(&narrow) <= Some(80), "{narrow}");
    assert!(table(&[], None).contains("A scan of an account reads no probe data."));
}

#[test]
fn names_move_no_cursor_in_the_table() {
    let shown = table(&[step(HOSTILE)], None);
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    assert!(
        shown.lines().skip(2).all(|line| line.starts_with("  ")),
        "{shown}"
    );
}

#[test]
fn steps_of_one_name_are_told_apart_by_where_they_run() {
    let mut more = step("star");
    more.account = AccountId::new("000000000001").ok();
    let all = [step("star"), more];
    let shown = table(&all, None);
    assert!(shown.contains("us-east-1, account 000000000001"), "{shown}");
    assert!(!table(&all[..1], None).contains("where"));
}

#[test]
fn spot_offers_are_shown_in_a_line_of_their_own() {
    let mut step = step("align");
    step.offers.spot = offers(&["c6a.large", "c6i.large", "m6a.large"]).best;
    let shown = table(&[step], None);
    assert!(shown.contains("  on spot   c6a.large $"), "{shown}");
}
