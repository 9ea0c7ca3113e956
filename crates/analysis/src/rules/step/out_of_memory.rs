//! Out of memory: the kernel killed tasks of a step, which were restarted or lost.

use ebb_model::confidence::{Confidence, Level};
use ebb_model::finding::Action;
use ebb_model::finding::evidence::step::Trouble;
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::step::StepEnd;
use ebb_telemetry::units::{Bytes, HumanDuration};

use crate::facts::Facts;
use crate::rules::remedy::larger;
use crate::rules::step::context::{Step, Wrong};
use crate::rules::step::earlier_runs::many;
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::observed_task::ObservedTask;

const KIND: FindingKind = FindingKind::OutOfMemoryStep;

pub(crate) fn evaluate(facts: &Facts<'_>, step: &Step<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let within = facts.policy.step.failed_within();
    let from = facts.now.checked_sub(within).ok()?;
    let is_recent = |run: &&ObservedTask<'_>| run.step.observed_at >= from;
    let recent: Vec<&ObservedTask<'_>> = step.profiled.runs.iter().filter(is_recent).collect();
    let killed = |run: &&&ObservedTask<'_>| run.end() == StepEnd::OutOfMemory;
    let kills: Vec<&ObservedTask<'_>> = recent.iter().filter(killed).copied().collect();
    let newest = kills.iter().max_by_key(|run| run.step.observed_at).copied();
    // A later successful task with more memory shows that the problem is fixed.
    let healed = newest.is_some_and(|newest| {
        let before = allowed(facts, newest);
        step.history().any(|run| {
            let is_later = run.step.observed_at > newest.step.observed_at;
            is_later && before.is_some() && allowed(facts, run) > before
        })
    });
    let goes_on = q.holds(
        "How many of its tasks were OOM-killed?",
        (
            kills.len(),
            format_args!("at least 1 within {}", HumanDuration(within)),
        ),
        newest.is_some(),
    ) && q.holds(
        "Has a later task with more memory succeeded?",
        (if healed { "yes" } else { "no" }, ""),
        !healed,
    );
    let newest = newest.filter(|_| goes_on)?;
    let limit = newest.requested().memory;
    let peaks = kills.iter().filter_map(|run| run.step.usage.peak_memory);
    let peak = peaks.max_by_key(|peak| peak.bytes);
    let advice = advice(facts, step, newest, peak.map(|peak| peak.bytes));
    let wrong = Wrong {
        kind: KIND,
        trouble: Trouble::OutOfMemory {
            kills: many(kills.len()),
            runs: many(recent.len()),
            limit,
            peak,
        },
        causes: None,
        confidence: Confidence {
            level: Level::High,
            reason: "the kernel reported the OOM kill".into(),
        },
        lost: kills.iter().map(|run| run.wall()).sum(),
        action: Action::Reconfigure,
        advice,
    };
    step.make_finding(facts, kills, wrong)
}

/// Advice for the newest killed task, with the highest observed peak of all killed ones.
fn advice(
    facts: &Facts<'_>,
    step: &Step<'_>,
    newest: &ObservedTask<'_>,
    peak: Option<Bytes>,
) -> String {
    let Some(limit) = newest.requested().memory else {
        return without_limit(facts, newest, peak);
    };
    if newest.profiled().was_killed_below_limit() {
        return "Its peak is less than half of its limit. So another limit was reached: that of a container \
                inside the task, or the memory of the machine. Check these before you request more."
            .to_owned();
    }
    match step.profiled.need.memory.filter(|need| *need > limit) {
        Some(need) if peak.is_some_and(|peak| peak >= need) => {
            format!("Request {need} of memory, which is the observed need.")
        }
        Some(need) => format!(
            "Request {need} of memory. This is an estimate: the task was killed before it showed its need."
        ),
        None => "Request more memory. Start with 50 % more.".to_owned(),
    }
}

/// The memory that a task could use: its limit, or all of its machine. `None` if both are unknown.
fn allowed(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Option<Bytes> {
    let limit = run.requested().memory;
    limit.or_else(|| memory_of_machine(facts, run))
}

fn memory_of_machine(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Option<Bytes> {
    let spec = facts.catalogue.spec(&run.instance.instance_type);
    let by_probe = || facts.measured_size(&run.step.node).map(|size| size.memory);
    spec.map(|spec| spec.memory).or_else(by_probe)
}

/// Advice for a task without a memory limit of its own, with the observed peak. If the peak is less
/// than half of the machine, the limit may be that of a cgroup above the task.
fn without_limit(facts: &Facts<'_>, run: &ObservedTask<'_>, peak: Option<Bytes>) -> String {
    let instance = run.instance;
    let spec = facts.catalogue.spec(&instance.instance_type);
    let kind = match instance.instance_type.is_listed() {
        true => instance.instance_type.as_str(),
        false => "its machine",
    };
    let memory = memory_of_machine(facts, run);
    let Some(memory) = memory else {
        return "The task itself had no memory limit. Check the limit of the container or service in \
                which it ran, and the other tasks on the machine."
            .to_owned();
    };
    if peak.is_some_and(|peak| peak.0 < memory.0 / 2) {
        return format!(
            "The task itself had no memory limit, and its peak is less than half of the memory of \
             {kind}. Check the limit of the container or service in which it ran, and the other \
             tasks on the machine."
        );
    }
    let larger = spec.and_then(|spec| {
        let half_more = Bytes(spec.memory.0.saturating_add(spec.memory.0 / 2));
        larger(facts, instance, spec, (spec.vcpus, half_more))
    });
    let such = larger.map_or_else(String::new, |larger| {
        format!(", such as {}", larger.instance_type)
    });
    format!(
        "The task had no memory limit and used most of the memory of {kind}. Run less work on the \
         same machine, or use a type with at least 50 % more memory{such}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::requested;
    use crate::testing::step_world::{ended, gib, no_run, peak as of_mib, verdict};
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::step::MemorySource;

    #[test]
    fn a_killed_run_is_told_until_one_with_more_memory_ends_well() {
        let check = |ends: &[(StepEnd, u64)], expect: Option<&str>| {
            let mut world = no_run();
            for (n, (end, limit)) in (1..).zip(ends) {
                ended(&mut world, n, 30, |s| {
                    s.end = *end;
                    s.requested.memory = Some(gib(*limit));
                });
            }
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{ends:?}");
        };
        let well = StepEnd::Exited(0);
        let killed = StepEnd::OutOfMemory;
        let text = |kills, runs| {
            format!(
                "{kills} of {runs} tasks were OOM-killed, with a memory limit of 4.0 GiB and an \
                 observed peak of 1.0 GiB (most CPU: bwa with 20 min of CPU)"
            )
        };
        check(&[(well, 4), (killed, 4)], Some(&text(1, 2)));
        check(&[(killed, 4), (well, 4), (killed, 4)], Some(&text(2, 3)));
        // The same request was enough by luck or with smaller input.
        check(&[(killed, 4), (well, 4)], Some(&text(1, 2)));
        check(&[(killed, 4), (well, 8)], None);
        check(&[(StepEnd::Exited(137), 4)], None);
    }

    #[test]
    fn a_kill_without_a_limit_is_fixed_by_more_memory_than_the_machine_had() {
        let check = |limit: u64, is_reported: bool| {
            let mut world = no_run();
            for (n, end, limit) in [
                (1, StepEnd::OutOfMemory, None),
                (2, StepEnd::Exited(0), Some(gib(limit))),
            ] {
                ended(&mut world, n, 30, |s| {
                    s.end = end;
                    s.requested.memory = limit;
                });
            }
            assert_eq!(verdict(&world, KIND).is_some(), is_reported, "{limit} GiB");
        };
        // The machine has 16 GiB.
        check(4, true);
        check(20, false);
    }

    #[test]
    fn the_tool_that_held_the_most_memory_is_named_though_another_computed_more() {
        let check = |peak_memory: Option<u64>, expect: &str| {
            let mut world = no_run();
            ended(&mut world, 1, 30, |s| {
                s.end = StepEnd::OutOfMemory;
                let mut sort = s.tools[0].clone();
                sort.name = "sort".to_owned();
                sort.cpu = ebb_telemetry::units::CpuTime(0);
                sort.peak_memory = peak_memory.map(gib);
                s.tools.push(sort);
            });
            let evidence = verdict(&world, KIND).map(|finding| finding.evidence.to_string());
            assert!(
                evidence.is_some_and(|text| text.ends_with(expect)),
                "{expect}"
            );
        };
        check(
            Some(3),
            "(largest process: sort with 3.0 GiB, then bwa with 20 min of CPU)",
        );
        check(
            None,
            "(most CPU: bwa with 20 min of CPU, then sort with 0.00 s of CPU)",
        );
    }

    #[test]
    fn on_premises_the_probe_says_how_much_memory_the_machine_has() {
        let mut world = no_run();
        ended(&mut world, 1, 30, |s| {
            s.end = StepEnd::OutOfMemory;
            s.requested.memory = None;
            s.peak_memory = Some(of_mib(156, MemorySource::CgroupSampled));
        });
        for machine in world.inventory.instances.values_mut() {
            machine.instance_type = InstanceType::unlisted();
        }
        world.watch(1, 0, 60, |_, _| ());
        let advice = verdict(&world, KIND).map(|finding| finding.remedy.advice);
        let advice = advice.expect("it was killed");
        assert!(
            advice.contains("less than half of the memory of its machine"),
            "{advice}"
        );
    }

    #[test]
    fn where_no_limit_was_set_a_larger_machine_is_advised_if_it_was_full() {
        let check = |limit: Option<u64>, peak: u64, expect: &str| {
            let mut world = no_run();
            ended(&mut world, 1, 30, |s| {
                s.end = StepEnd::OutOfMemory;
                s.requested.memory = limit.map(gib);
                s.peak_memory = Some(of_mib(peak << 10, MemorySource::CgroupSampled));
            });
            let advice = verdict(&world, KIND).map(|finding| finding.remedy.advice);
            assert_eq!(advice.as_deref(), Some(expect));
        };
        check(
            Some(4),
            3,
            "Request 7.2 GiB of memory. This is an estimate: the task was killed before it showed its need.",
        );
        check(
            Some(4),
            1,
            "Its peak is less than half of its limit. So another limit was reached: that of a container inside \
             the task, or the memory of the machine. Check these before you request more.",
        );
        check(
            None,
            15,
            "The task had no memory limit and used most of the memory of m5.xlarge. Run less work \
             on the same machine, or use a type with at least 50 % more memory, such as r6a.xlarge.",
        );
        check(
            None,
            7,
            "The task itself had no memory limit, and its peak is less than half of the memory of \
             m5.xlarge. Check the limit of the container or service in which it ran, and the other \
             tasks on the machine.",
        );
    }

    #[test]
    fn a_kill_of_days_ago_is_not_told_and_what_is_lost_are_the_killed_runs() {
        let mut world = no_run();
        ended(&mut world, 1, 30, |s| {
            s.requested = requested(1, 3);
            s.end = StepEnd::OutOfMemory;
        });
        let cost = verdict(&world, KIND).and_then(|f| f.cost).expect("a price");
        assert_eq!(cost.spent.micros(), 24_000);
        world.now = world
            .now
            .checked_add(std::time::Duration::from_secs(90_000))
            .expect("a time");
        assert_eq!(verdict(&world, KIND), None);
    }
}
