use ebb_model::step_profile::tasks::{PresentRequest, RequestBasis};
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::Bytes;

use crate::step_history::tests::{profile, run};

use super::*;

/// An attempt of a task in a pipeline run; it requests `gib` GiB and ends with `failure`.
fn attempt(run_name: &str, task: u32, number: u32, gib: u64, failure: Option<FailureKind>) -> Run {
    let mut attempt = run(u64::from(task) * 10 + u64::from(number));
    attempt.requested.memory = Some(Bytes::gib(gib));
    attempt.end = match failure {
        None => StepEnd::Exited(0),
        Some(kind) if kind.is_out_of_memory() => StepEnd::OutOfMemory,
        Some(_) => StepEnd::Exited(1),
    };
    attempt.record = Some(Box::new(AttemptRecord {
        pipeline_run: run_name.to_owned(),
        task: task.to_string(),
        attempt: number,
        failure,
        ..AttemptRecord::default()
    }));
    attempt
}

fn request(gib: u64) -> Option<Bytes> {
    Some(Bytes::gib(gib))
}

#[test]
fn the_present_request_is_that_of_first_attempts_of_the_newest_run() {
    let check = |attempts: Vec<Run>, gib: u64, basis: RequestBasis, tasks: u32| {
        let present = profile(attempts).present_request();
        assert_eq!(
            (present.request.memory, present.basis),
            (request(gib), basis)
        );
        assert_eq!(present.tasks(), tasks);
    };
    let well = |run_name: &str, task, gib| attempt(run_name, task, 1, gib, None);
    // An older task requests less, and a retry more.
    let killed = Some(FailureKind::OutOfMemory);
    check(
        vec![
            well("a", 1, 4),
            attempt("b", 2, 1, 8, killed),
            attempt("b", 2, 2, 16, None),
            well("b", 3, 8),
        ],
        8,
        RequestBasis::Same,
        2,
    );
    let mut most: Vec<Run> = (0..19).map(|task| well("a", task, 8)).collect();
    most.push(well("a", 19, 64));
    check(most, 8, RequestBasis::Most, 19);
    let differ = [4, 8, 8, 64].into_iter();
    let differ = (0_u32..)
        .zip(differ)
        .map(|(task, gib)| well("a", task, gib));
    check(differ.collect(), 8, RequestBasis::Median, 4);
    assert_eq!(profile([]).present_request(), PresentRequest::default());
}

#[test]
fn a_task_counts_once_with_what_it_needed_in_the_end() {
    let policy = Policy::default();
    let killed = Some(FailureKind::OutOfMemory);
    let check = |attempts: Vec<Run>, expect: &[Option<u64>]| {
        let samples = profile(attempts).samples(&policy);
        let peaks = samples
            .iter()
            .map(|s| s.peak_memory.map(|peak| peak.bytes.0 >> 20));
        assert_eq!(peaks.collect::<Vec<_>>(), expect);
    };
    // The peak of `run` is 4,000 MiB.
    check(vec![attempt("a", 1, 1, 8, None)], &[Some(4_000)]);
    check(
        vec![attempt("a", 1, 1, 2, killed), attempt("a", 1, 2, 8, None)],
        &[Some(4_000)],
    );
    // The killed attempt held more than the final peak, so the need is at least that.
    check(
        vec![attempt("a", 1, 1, 8, killed), attempt("a", 1, 2, 16, None)],
        &[Some(12_288)],
    );
    check(
        vec![attempt("a", 1, 1, 8, killed), attempt("a", 1, 2, 9, None)],
        &[Some(9_216)],
    );
    check(vec![attempt("a", 1, 1, 8, killed)], &[Some(12_288)]);
    check(vec![attempt("a", 1, 1, 8, Some(FailureKind::Error))], &[]);
}

#[test]
fn failures_are_added_up_by_kind_and_time_lost() {
    let attempts = vec![
        attempt("a", 1, 1, 8, Some(FailureKind::OutOfMemory)),
        attempt("a", 2, 1, 8, Some(FailureKind::OutOfMemory)),
        attempt("a", 3, 1, 8, Some(FailureKind::MachineLost)),
        attempt("a", 4, 1, 8, None),
    ];
    let failures = profile(attempts).failures();
    let shown: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["2 out of memory", "1 machine lost (exit 1)"]);
    assert_eq!(failures[0].lost_seconds, 2_000);
}
