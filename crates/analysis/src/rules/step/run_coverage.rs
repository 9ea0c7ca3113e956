//! Coverage of the tasks of a step.

use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;

use crate::coverage;
use crate::facts::Facts;
use crate::step_history::observed_task::ObservedTask;

/// Coverage of the nodes of all tasks while the tasks ran.
pub(crate) fn coverage(facts: &Facts<'_>, runs: &[&ObservedTask<'_>]) -> Option<Share> {
    let window = |run: &ObservedTask<'_>| Window {
        from: run.step.started_at,
        to: run.step.observed_at,
    };
    let windows = runs.iter().map(|run| (&run.step.node, window(run)));
    coverage::of_runs(facts, windows)
}

/// Reason why a finding about ended tasks has no coverage.
pub(crate) const NOT_KNOWN: &str =
    "; the coverage of some tasks is unknown, but each task has its own totals";

#[cfg(test)]
mod tests {
    use crate::testing::step_world::{ended, no_run, verdict};
    use crate::testing::{World, instance};
    use ebb_model::finding_kind::FindingKind;
    use ebb_telemetry::step::StepEnd;
    use ebb_telemetry::units::Share;

    #[test]
    fn a_finding_about_runs_that_ended_tells_how_much_of_their_time_was_seen() {
        let check = |name: &str, mut world: World, expect: Option<u32>| {
            ended(&mut world, 1, 30, |s| s.end = StepEnd::OutOfMemory);
            let found = verdict(&world, FindingKind::OutOfMemoryStep).expect("it was killed");
            assert_eq!(found.coverage.map(Share::ppm), expect, "{name}");
            let is_unknown = found.confidence.reason.contains("unknown");
            assert_eq!(is_unknown, expect.is_none(), "{name}");
        };
        let watched = |minutes: &[std::ops::Range<u64>]| {
            let mut world = World::with([instance(1)]);
            for minutes in minutes {
                world.watch(1, minutes.start, minutes.end, |_, _| {});
            }
            world
        };
        check("all of it", no_run(), Some(1_000_000));
        check(
            "a third is missing",
            watched(&[0..10, 20..60]),
            Some(666_666),
        );
        // Data older than a day has slots of five minutes.
        let day = 24 * 60;
        check("yesterday", watched(&[0..5, 15..day + 15]), Some(800_000));
        check("its node is unknown", World::with([instance(1)]), None);
    }
}
