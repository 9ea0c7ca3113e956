//! Waiting step: a task waits most of its time for disk, pages or network. The share is compared
//! with earlier tasks or, without them, with a fixed limit.

use std::time::Duration;

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::causes::Causes;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::facts::Facts;
use crate::rules::step::context::{UnderWay, Wrong};
use crate::rules::step::earlier_runs::waits;
use crate::rules::step::stalled::advice;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::WaitingStep;

pub(crate) fn evaluate(facts: &Facts<'_>, it: &UnderWay<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let (run, policy) = (it.run, &facts.policy.step);
    let watched = it.watched(facts);
    let part = waits(run);
    let usual = it.step.past.waits;
    let bound = match usual {
        Some(usual) => Share::from_ppm(usual.ppm().saturating_add(policy.waiting_more_ppm)),
        None => Share::from_ppm(policy.waiting_ppm),
    };
    // If the usual share is 100 %, no larger share exists.
    let is_unusual = part.map(|part| part >= bound && usual != Some(Share::ALL));
    let shown = part.map_or_else(|| "unknown".to_owned(), |part| part.to_string());
    let goes_on = it.ends(facts, q)
        && q.holds(
            "How long was the task observed?",
            (
                HumanDuration(watched),
                format_args!("at least {}", HumanDuration(policy.min_run())),
            ),
            watched >= policy.min_run(),
        )
        && q.holds(
            "Which share of its time did the task wait for disk, page faults or network?",
            (shown, format_args!("at least {bound}")),
            is_unusual,
        );
    let part = part.filter(|_| goes_on)?;
    let causes = Causes::of_waiting(&run.step.usage.detail.states);
    let beyond = part.as_f64() - usual.map_or(0.0, Share::as_f64);
    let lost = Duration::from_secs_f64(watched.as_secs_f64() * beyond.max(0.0));
    Some(it.make_finding(
        facts,
        Wrong {
            kind: KIND,
            trouble: Trouble::Waiting { part, usual },
            causes,
            confidence: match usual {
                Some(_) => Confidence {
                    level: Level::High,
                    reason: "earlier tasks of this step waited less".into(),
                },
                None => Confidence {
                    level: Level::Low,
                    reason: "there are no earlier tasks to compare with".into(),
                },
            },
            lost,
            action: Action::Investigate,
            advice: advice(causes),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, run_of, states, verdict};
    use ebb_telemetry::step::resource_usage::{TaskState, WaitingTool};
    use ebb_telemetry::step::{NetworkPeer, PeerScope, StepKind};
    use ebb_telemetry::units::Bytes;

    #[test]
    fn a_step_waits_when_it_waits_far_more_than_it_used_to() {
        let check = |waits_min: u64, usual_min: &[u64], expect: Option<&str>| {
            let mix = |waits: u64| {
                states(&[
                    (TaskState::Network, waits * 6, waits),
                    (TaskState::Running, (60 - waits) * 6, 60 - waits),
                ])
            };
            let mut world = run_of(StepKind::NextflowTask, 60, |s| {
                s.detail.states = mix(waits_min)
            });
            for (n, usual) in (1..).zip(usual_min) {
                ended(&mut world, n, 60, |s| s.detail.states = mix(*usual));
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{waits_min} {usual_min:?}");
        };
        let waits = "waiting for 83 % of its time: 50 min waiting for network (300 samples)";
        check(50, &[], Some(waits));
        check(40, &[], None);
        check(
            40,
            &[6, 6, 6, 6, 6],
            Some(
                "waiting for 67 % of its time, compared with 10 % in earlier tasks: 40 min waiting \
                 for network (240 samples); most CPU in an earlier task: bwa with 20 min of CPU",
            ),
        );
        check(50, &[48, 48, 48, 48, 48], None);
        check(
            50,
            &[6, 6, 6, 6],
            Some(&format!(
                "{waits}; most CPU in an earlier task: bwa with 20 min of CPU"
            )),
        );
    }

    #[test]
    fn the_executable_that_waits_is_named_instead_of_the_one_that_computes() {
        let check = |state: TaskState, expect: &str| {
            let world = run_of(StepKind::NextflowTask, 60, |s| {
                s.detail.states =
                    states(&[(TaskState::Network, 300, 50), (TaskState::Running, 60, 10)]);
                s.detail.waiting_tools = vec![WaitingTool {
                    state,
                    tool: "aws".to_owned(),
                    samples: 290,
                }];
            });
            let evidence = verdict(&world, KIND)
                .expect("it waits")
                .evidence
                .to_string();
            assert_eq!(
                evidence,
                format!(
                    "waiting for 83 % of its time: 50 min waiting for network (300 samples){expect}"
                )
            );
        };
        check(TaskState::Network, "; aws in 290 of 300 samples");
        check(TaskState::Disk, "");
    }

    #[test]
    fn two_kinds_of_open_connections_are_named_when_it_waits_for_the_network() {
        let check = |state: TaskState, expect: &str| {
            let world = run_of(StepKind::NextflowTask, 60, |s| {
                s.detail.states = states(&[(state, 300, 50), (TaskState::Running, 60, 10)]);
                s.detail.waiting_tools = vec![WaitingTool {
                    state,
                    tool: "aws".to_owned(),
                    samples: 290,
                }];
                let peers = [
                    (Some(443), PeerScope::Public, false, 2),
                    (Some(5_432), PeerScope::Private, true, 1),
                    (None, PeerScope::Private, false, 1),
                    (Some(80), PeerScope::LinkLocal, false, 0),
                ];
                let peers = peers.map(|(port, scope, is_server, connections)| NetworkPeer {
                    port,
                    scope,
                    is_server,
                    received: Bytes(0),
                    sent: Bytes(0),
                    connections,
                });
                s.detail.network_peers = peers.into();
            });
            let found = verdict(&world, KIND).expect("it waits");
            let evidence = found.evidence.to_string();
            assert!(evidence.ends_with(expect), "{evidence}");
        };
        check(
            TaskState::Network,
            "; aws in 290 of 300 samples; connections: 2 to port 443 (HTTPS) at public addresses, \
             1 from clients of port 5432 (PostgreSQL) at private addresses",
        );
        check(TaskState::Disk, "; aws in 290 of 300 samples");
    }
}
