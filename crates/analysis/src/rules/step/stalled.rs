//! Stalled step: a task outside Batch makes no progress on a node where other tasks work. The
//! finding shows the state in which the task waits. The rule about Batch covers Batch jobs, and the
//! idle rule covers idle nodes.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Share, HumanDuration};

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::StalledStep;

pub(crate) fn judge(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let run = it.run;
    let causes = Causes::of_waiting(&run.step.usage.detail.states);
    // An idle server does not wait in these states.
    let on_disk = |causes: &Causes| {
        matches!(
            causes.main.state,
            TaskState::Disk | TaskState::PageFault | TaskState::Lock
        )
    };
    let hangs = it.is_there_to_end() || causes.as_ref().is_some_and(on_disk);
    let patience = facts.policy.step.stalled();
    let rests_itself = q.holds(
        "is it there to end, or does it hang in disk, pages or a lock?",
        (if hangs { "yes" } else { "no" }, ""),
        hangs,
    ) && q.holds(
        "for how long did it use no CPU, move no byte and start nothing?",
        (HumanDuration(run.quiet()), HumanDuration(patience)),
        run.quiet() >= patience,
    );
    if !rests_itself {
        return None;
    }
    let state = facts.state.nodes.get(&run.step.node)?;
    let rests = state.active_until.is_none_or(|until| {
        let quiet = state
            .latest
            .as_ref()
            .map(|latest| latest.end.duration_since(until));
        quiet.is_none_or(|quiet| quiet >= facts.policy.idle.after().try_into().unwrap_or(quiet))
    });
    let window = Window {
        from: run.step.last_progress_at,
        to: run.step.observed_at,
    };
    let tick = facts.policy.activity.tick();
    let seen = state.seen.coverage(window.from, window.to, tick);
    let (seen, enough) = (
        seen.unwrap_or(Share::NONE),
        facts.policy.idle.min_coverage(),
    );
    let goes_on = q.holds(
        "do others on its node work?",
        (
            if rests {
                "no: the idle rule judges it"
            } else {
                "yes"
            },
            "",
        ),
        !rests,
    ) && q.holds(
        "how much of that time was seen?",
        (seen.compared_with(enough), enough),
        (seen >= enough).then_some(true),
    );
    if !goes_on {
        return None;
    }
    Some(it.found_since(
        facts,
        window.from,
        Wrong {
            kind: KIND,
            trouble: Trouble::Stalled {
                stalled_for: window.length(),
            },
            causes,
            confidence: Confidence {
                level: Level::High,
                reason: format!("a probe saw {seen} of that time, process by process"),
            },
            lost: window.length(),
            action: Action::Investigate,
            advice: advice(causes),
        },
    ))
}

/// Advice for the state in which the task waits.
pub(crate) fn advice(causes: Option<Causes>) -> String {
    let look = match causes.map(|causes| causes.main.state) {
        Some(TaskState::Network) => {
            "Look at the server or file share that it waits for; give its transfers a time-out."
        }
        Some(TaskState::Disk | TaskState::PageFault) => {
            "Look at its volume's throughput and burst balance, and at the memory left for caches."
        }
        Some(TaskState::Lock) => {
            "Look at who holds the lock: a thread of its own or a file's lock."
        }
        Some(TaskState::Pipe) => "Look at the process at the other end of its pipe.",
        Some(TaskState::Timer) => "It sleeps by itself: look at its retry loop.",
        Some(TaskState::Child) => "Look at its child, which does not end.",
        _ => "Look at what it waits for.",
    };
    format!("{look} If nothing answers, end it so that its place is freed.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asked;
    use crate::testing::step_world::{run_for, run_of, states, verdict};
    use ebb_telemetry::step::StepKind;
    use ebb_telemetry::testing::clock;

    #[test]
    fn a_step_that_does_nothing_while_its_node_works_is_stalled_and_says_for_what_it_waits() {
        let check = |kind: StepKind, on: TaskState, quiet_minutes: u64, expect: Option<&str>| {
            let world = run_of(kind, 60, |s| {
                s.last_progress = clock(3_600 - quiet_minutes * 60);
                s.detail.states = states(&[(on, 252, 42), (TaskState::Running, 100, 17)]);
            });
            let said = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(said.as_deref(), expect, "{kind:?} {on:?}");
        };
        let waits = "no CPU, no byte and no new process for 40 min: 42 min waiting for network, \
                     from 252 samples";
        check(StepKind::NextflowTask, TaskState::Network, 40, Some(waits));
        check(StepKind::NextflowTask, TaskState::Network, 20, None);
        // A server waits for requests; an idle process does not wait for a disk.
        check(StepKind::Container, TaskState::Poll, 40, None);
        let disk = "no CPU, no byte and no new process for 40 min: 42 min waiting for disk, from \
                    252 samples";
        check(StepKind::Container, TaskState::Disk, 40, Some(disk));
    }

    #[test]
    fn where_the_whole_node_rests_the_idle_rule_speaks_and_names_the_step() {
        let mut world = run_for(60, |_| {});
        world.state = Default::default();
        world.inventory.batch = Default::default();
        world.watch(1, 0, 60, |minute, h| {
            let mut step = crate::testing::step_world::usage(StepKind::SlurmJob, minute * 60 + 60);
            step.last_progress = clock(60);
            h.steps = vec![step];
        });
        let finding = world.verdict().expect("it is idle");
        assert_eq!(finding.kind, FindingKind::IdleNode);
        assert!(finding.evidence.to_string().contains("step align"));
    }

    #[test]
    fn what_it_costs_is_its_part_of_the_machine_while_it_hung() {
        let world = run_of(StepKind::SlurmJob, 60, |s| {
            s.requested = asked(1, 3);
            s.last_progress = clock(0);
        });
        let cost = verdict(&world, KIND).and_then(|f| f.cost).expect("a price");
        // One core of the four of an m5.xlarge at 0.192 USD, for an hour.
        assert_eq!(cost.spent.micros(), 48_000);
        let a_month = cost.saving_a_month.micros();
        assert!((48_000 * 30..48_000 * 31).contains(&a_month), "{a_month}");
    }
}
