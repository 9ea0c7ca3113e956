//! Whether a task is there to end. A service runs for as long as it is needed, so its length is no
//! fault, and it waits for requests without a fault.

use ebb_telemetry::step::StepKind;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::step_history::observed_task::ObservedTask;

/// If tasks of a step ran for at least this share of the time, they are restarts of a service: the
/// next one starts when one ends. Jobs one after the other look the same and are not evaluated.
const ALWAYS_THERE: Share = Share::from_ppm(900_000);

/// A task that computes or uses a disk in half of its time does not wait for requests.
const WORKS: Share = Share::from_ppm(500_000);

/// Evidence that a task should end, or should not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndEvidence {
    pub(crate) kind: StepKind,
    /// Whether Batch, an engine or another scheduler started it.
    pub(crate) is_scheduled: bool,
    /// Number of earlier tasks of its step that ended without a failure.
    pub(crate) ended: u32,
    /// Number of such tasks that make a history.
    pub(crate) least: u32,
    /// Share of the time of the earlier tasks in which at least one of them ran; `None` without
    /// earlier tasks.
    pub(crate) presence: Option<Share>,
    /// Median share of their time in which the earlier tasks worked; `None` if too few report it.
    pub(crate) earlier_work: Option<Share>,
    /// The same share of the task itself; `None` if it is not reported.
    pub(crate) own_work: Option<Share>,
}

/// The result with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedEnd {
    Yes(&'static str),
    No(&'static str),
    Unknown(&'static str),
}

impl ExpectedEnd {
    /// `None` if it is unknown.
    pub(crate) fn holds(self) -> Option<bool> {
        match self {
            Self::Yes(_) => Some(true),
            Self::No(_) => Some(false),
            Self::Unknown(_) => None,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        let (Self::Yes(words) | Self::No(words) | Self::Unknown(words)) = self;
        words
    }
}

/// Decides whether a task is there to end.
pub(crate) fn expected_end(it: &EndEvidence) -> ExpectedEnd {
    use ExpectedEnd::{No, Unknown, Yes};
    match it.kind {
        StepKind::SlurmJob | StepKind::NextflowTask | StepKind::SnakemakeJob => {
            return Yes("yes: a scheduler or an engine started it");
        }
        StepKind::Session => return No("no: it is a login session"),
        StepKind::Service => return No("no: it is a systemd service"),
        StepKind::EcsTask | StepKind::Pod | StepKind::Container | StepKind::Tree => {}
    }
    if it.is_scheduled {
        return Yes("yes: a scheduler or an engine started it");
    }
    if it.ended < it.least {
        return Unknown("unknown: too few earlier tasks ended");
    }
    let waits = |work: Option<Share>| work.is_some_and(|work| work < WORKS);
    match (it.presence, it.earlier_work, it.own_work) {
        (Some(presence), _, _) if presence >= ALWAYS_THERE => {
            No("no: some task of its step always runs, as with a service")
        }
        (_, earlier, own) if waits(earlier) || waits(own) => {
            No("no: it waits most of its time, as a service does")
        }
        (Some(_), Some(_), Some(_)) => Yes("yes: earlier tasks worked and ended"),
        _ => Unknown("unknown: the states of its tasks are not reported"),
    }
}

/// Whether Batch, an engine or another scheduler started a task.
pub(crate) fn is_scheduled(run: &ObservedTask<'_>) -> bool {
    let usage = &run.step.usage;
    // The process tree of an engine itself also belongs to a run.
    let in_run = usage.detail.run.is_some() && usage.id.kind != StepKind::Tree;
    run.job.is_some()
        || run.recorded.names().is_some()
        || usage.detail.scheduler_labels.is_some()
        || in_run
}

/// Share of the sampled time in which a task computed, waited for a core or used a file system; `None`
/// without samples. In all other states a server may wait for requests.
pub(crate) fn work(run: &ObservedTask<'_>) -> Option<Share> {
    run.share_of_states(|state| {
        matches!(
            state,
            TaskState::Running
                | TaskState::Runnable
                | TaskState::PageFault
                | TaskState::Disk
                | TaskState::RemoteFileSystem
        )
    })
}

/// Share of the time from the first start to the last end in which some task ran; `None` without
/// tasks or time.
pub(crate) fn presence<'a>(runs: impl Iterator<Item = &'a ObservedTask<'a>>) -> Option<Share> {
    let mut spans: Vec<(Timestamp, Timestamp)> = runs
        .map(|run| (run.step.started_at, run.step.observed_at))
        .collect();
    spans.sort_unstable();
    let (first, _) = *spans.first()?;
    let mut until = first;
    let mut present = jiff::SignedDuration::ZERO;
    for (from, to) in spans {
        let from = from.max(until);
        if to > from {
            present += to.duration_since(from);
            until = to;
        }
    }
    let millis = |time: jiff::SignedDuration| u64::try_from(time.as_millis()).ok();
    Share::from_parts(millis(present)?, millis(until.duration_since(first))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_each_kind_should_end_or_not() {
        let check = |kind: StepKind, change: fn(&mut EndEvidence), expect: Option<bool>| {
            // A container whose earlier tasks computed, with gaps between them.
            let mut it = EndEvidence {
                kind,
                is_scheduled: false,
                ended: 5,
                least: 5,
                presence: Some(Share::from_ppm(400_000)),
                earlier_work: Some(Share::from_ppm(900_000)),
                own_work: Some(Share::from_ppm(800_000)),
            };
            change(&mut it);
            assert_eq!(expected_end(&it).holds(), expect, "{it:?}");
        };
        use StepKind::{Container, EcsTask, Pod, Tree};
        for kind in [
            StepKind::SlurmJob,
            StepKind::NextflowTask,
            StepKind::SnakemakeJob,
        ] {
            check(kind, |it| it.ended = 0, Some(true));
        }
        for kind in [StepKind::Session, StepKind::Service] {
            check(kind, |it| it.is_scheduled = true, Some(false));
        }
        for kind in [EcsTask, Pod, Container, Tree] {
            check(kind, |_| (), Some(true));
            // A job of Batch or of an engine needs no history.
            let first = |it: &mut EndEvidence| {
                (it.is_scheduled, it.ended, it.presence) = (true, 0, None);
            };
            check(kind, first, Some(true));
            check(kind, |it| it.ended = 4, None);
            // A service that is restarted: the next one starts at once.
            check(
                kind,
                |it| it.presence = Some(Share::from_ppm(990_000)),
                Some(false),
            );
            // A server that is stopped at night waits for requests in the daytime.
            check(
                kind,
                |it| it.earlier_work = Some(Share::from_ppm(20_000)),
                Some(false),
            );
            // A server under the name of jobs.
            check(
                kind,
                |it| it.own_work = Some(Share::from_ppm(20_000)),
                Some(false),
            );
            check(kind, |it| it.own_work = None, None);
            check(kind, |it| it.earlier_work = None, None);
        }
    }
}
