//! What was seen of a step's runs: how much of their time, and what they were made of.

use std::cmp::Reverse;

use super::Step;
use crate::finding::{Tool, Tools, Trouble, Window};
use crate::judge::Facts;
use crate::profile::gather::SeenRun;
use crate::rules::observed;
use crate::step::{StepEnd, ToolUsage};
use crate::units::Share;

/// How much was seen of the nodes of runs while they lasted.
pub(in crate::rules) fn coverage(facts: &Facts<'_>, runs: &[&SeenRun<'_>]) -> Option<Share> {
    let window = |run: &SeenRun<'_>| Window {
        from: run.step.started_at,
        to: run.step.observed_at,
    };
    let windows = runs.iter().map(|run| (&run.step.node, window(run)));
    observed::of_runs(facts, windows)
}

/// Why a finding about runs that ended tells no coverage.
pub(in crate::rules) const NOT_KNOWN: &str =
    "; how much of their time was seen is not known of all of them, but each tells its own sums";

/// The executables that held the most memory, where that is the trouble, or else used the
/// most CPU. Of a run that goes on the state keeps the one of the most CPU; where that says
/// nothing, those of the newest run that ended stand in.
pub(super) fn greatest_tools(
    step: &Step<'_>,
    run: &SeenRun<'_>,
    trouble: &Trouble,
) -> Option<Tools> {
    let known = |run: &&SeenRun<'_>| {
        let usage = &run.step.usage;
        let is_over = usage.end != StepEnd::Running;
        !usage.tools.is_empty() && (is_over || !trouble.is_of_memory())
    };
    let newest = || {
        let others = step.profiled.runs.iter().filter(known);
        others.max_by_key(|run| run.step.observed_at)
    };
    let its_own = Some(run).filter(known);
    let of = its_own.or_else(newest)?;
    let held = |tool: &ToolUsage| tool.peak_memory.filter(|_| trouble.is_of_memory());
    let mut tools: Vec<&ToolUsage> = of.step.usage.tools.iter().collect();
    tools.sort_by_key(|tool| Reverse((held(tool), tool.cpu)));
    let mut tools = tools.into_iter().map(|tool| Tool {
        name: tool.name.clone(),
        cpu: tool.cpu,
        held: held(tool),
    });
    Some(Tools {
        main: tools.next()?,
        runner_up: tools.next(),
        of_an_earlier_run: its_own.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ended, no_run, verdict};
    use crate::finding::FindingKind;
    use crate::rules::testing::{World, instance};
    use crate::step::StepEnd;
    use crate::units::Share;

    #[test]
    fn a_finding_about_runs_that_ended_tells_how_much_of_their_time_was_seen() {
        let check = |name: &str, mut world: World, expect: Option<u32>| {
            ended(&mut world, 1, 30, |s| s.end = StepEnd::OutOfMemory);
            let found = verdict(&world, FindingKind::OutOfMemoryStep).expect("it was killed");
            assert_eq!(found.coverage.map(Share::ppm), expect, "{name}");
            let is_said = found.confidence.reason.contains("not known");
            assert_eq!(is_said, expect.is_none(), "{name}");
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
        // Of what is older than a day the hours tell, by five minutes.
        let day = 24 * 60;
        check("yesterday", watched(&[0..5, 15..day + 15]), Some(800_000));
        check("its node is not known", World::with([instance(1)]), None);
    }
}
