//! Stalled step: a task outside Batch makes no progress on a node where other tasks work. The
//! finding shows the state in which the task waits. The rule about Batch covers Batch jobs, and the
//! idle rule covers idle nodes.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_node_state::node_state::NodeState;
use ebb_telemetry::step::resource_usage::TaskState;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::StalledStep;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let run = it.run;
    let causes = Causes::since_progress(&run.step.usage.detail.states, run.quiet());
    if !makes_no_progress(facts, it, causes, q) {
        return None;
    }
    let state = facts.state.nodes.get(&run.step.node)?;
    let window = Window {
        from: run.step.last_progress_at,
        to: run.step.observed_at,
    };
    let tick = facts.policy.activity.tick();
    let coverage = state.seen.coverage(window.from, window.to, tick);
    let coverage = coverage.unwrap_or(Share::NONE);
    let enough = facts.policy.idle.min_coverage();
    let rests = is_idle(facts, state);
    let goes_on = q.holds(
        "Are other tasks on its node active?",
        (
            if rests {
                "no: the idle node rule applies"
            } else {
                "yes"
            },
            "",
        ),
        !rests,
    ) && q.holds(
        "Which share of that time did the probe observe?",
        (
            coverage.compared_with(enough),
            format_args!("at least {enough}"),
        ),
        (coverage >= enough).then_some(true),
    );
    if !goes_on {
        return None;
    }
    Some(it.make_finding_since(
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
                reason: format!("the probe observed all processes for {coverage} of that time"),
            },
            lost: window.length(),
            action: Action::Investigate,
            advice: advice(causes),
        },
    ))
}

/// Whether a task hangs for longer than the policy allows.
fn makes_no_progress(
    facts: &Facts<'_>,
    it: &UnderWay<'_>,
    causes: Option<Causes>,
    q: &mut RuleTrace,
) -> bool {
    // An idle server does not wait in these states.
    let hangs_in = |causes: Causes| {
        matches!(
            causes.main.state,
            TaskState::Disk | TaskState::RemoteFileSystem | TaskState::PageFault | TaskState::Lock
        )
    };
    let should_end = it.expected_end(facts).holds() == Some(true);
    let hangs = should_end || causes.is_some_and(hangs_in);
    let patience = facts.policy.step.stalled();
    let quiet = it.run.quiet();
    q.holds(
        "Should the task end, or does it wait for a file system, page faults or a lock?",
        (if hangs { "yes" } else { "no" }, ""),
        hangs,
    ) && q.holds(
        "How long was it without CPU usage, I/O and new processes?",
        (
            HumanDuration(quiet),
            format_args!("at least {}", HumanDuration(patience)),
        ),
        quiet >= patience,
    )
}

/// Whether nothing was active on a node for as long as the idle rule requires.
fn is_idle(facts: &Facts<'_>, state: &NodeState) -> bool {
    state.active_until.is_none_or(|until| {
        let latest = state.latest.as_ref();
        let quiet = latest.map(|latest| latest.end.duration_since(until));
        quiet.is_none_or(|quiet| quiet >= facts.policy.idle.after().try_into().unwrap_or(quiet))
    })
}

/// Advice for the state in which the task waits.
pub(crate) fn advice(causes: Option<Causes>) -> String {
    let hint = match causes.map(|causes| causes.main.state) {
        Some(TaskState::Network) => {
            "Check the server that the task waits for. Set a timeout for its transfers."
        }
        Some(TaskState::RemoteFileSystem) => {
            "Check the file server or bucket that is mounted on its node, and the connection to \
             it."
        }
        Some(TaskState::Disk | TaskState::PageFault) => {
            "Check the throughput and burst balance of its volume, and the memory left for the \
             page cache."
        }
        Some(TaskState::Lock) => {
            "Find the holder of the lock: one of its own threads, or another process with a file \
             lock."
        }
        Some(TaskState::Pipe) => "Check the process at the other end of its pipe.",
        Some(TaskState::Timer) => "The task sleeps. Check its retry loop.",
        Some(TaskState::Child) => "Check its child process, which does not end.",
        _ => "Check what the task waits for.",
    };
    format!("{hint} If it does not recover, terminate it to free its resources.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::requested;
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
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{kind:?} {on:?}");
        };
        let waits =
            "no CPU usage, I/O or new process for 40 min: 40 min waiting for network (240 samples)";
        check(StepKind::NextflowTask, TaskState::Network, 40, Some(waits));
        check(StepKind::NextflowTask, TaskState::Network, 20, None);
        // No state of the other 16 minutes is known.
        let least = "no CPU usage, I/O or new process for 58 min: at least 42 min waiting for \
                     network (252 samples)";
        check(StepKind::NextflowTask, TaskState::Network, 58, Some(least));
        // A server waits for requests; an idle process does not wait for a disk.
        check(StepKind::Container, TaskState::Poll, 40, None);
        let disk =
            "no CPU usage, I/O or new process for 40 min: 40 min waiting for disk (240 samples)";
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
        assert!(finding.evidence.to_string().contains("task align"));
    }

    #[test]
    fn what_it_costs_is_its_part_of_the_machine_while_it_hung() {
        let world = run_of(StepKind::SlurmJob, 60, |s| {
            s.requested = requested(1, 3);
            s.last_progress = clock(0);
        });
        let cost = verdict(&world, KIND).and_then(|f| f.cost).expect("a price");
        // One core of the four of an m5.xlarge at 0.192 USD, for an hour.
        assert_eq!(cost.spent.micros(), 48_000);
        let a_month = cost.saving_a_month.micros();
        assert!((48_000 * 30..48_000 * 31).contains(&a_month), "{a_month}");
    }
}
