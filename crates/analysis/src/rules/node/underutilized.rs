//! Underutilized node: it works only for a few minutes of the day, or uses a tenth of its cores all
//! week. The node is in use, so it is never idle. A schedule or a smaller type suits its users.

use std::time::Duration;

use ebb_model::advice::node::NodeAdvice;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::{Evidence, UnderutilizedNode};
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Instance, InstanceState};
use ebb_node_state::node_state::{Latest, NodeState};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{HumanDuration, Share};

use crate::activity_history::ActivityHistory;
use crate::facts::Facts;
use crate::rules::node::{idle, oversized, recurring_idle, weekly_pattern};
use crate::rules::remedy::show;
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

const KIND: FindingKind = FindingKind::UnderutilizedNode;

/// A whole day, so that night and day have their true weight.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Evaluates every running instance without an idle finding.
pub fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let instances = facts.inventory.instances.values();
    instances
        .filter_map(|instance| ProbedNode::find(facts, instance))
        .filter_map(|node| evaluate_node(facts, node, &mut RuleTrace::unwritten(KIND)))
        .collect()
}

/// Adds the type that fits the work of a node with few busy cores, and its saving. The advice on
/// nodes provides the type, which also requires observed memory.
pub(crate) fn take_offers(facts: &Facts<'_>, findings: &mut [Finding], nodes: &[NodeAdvice]) {
    let small = findings.iter_mut().filter(|finding| {
        finding.kind == KIND && finding.cost.is_none() && finding.resource.controller.is_none()
    });
    for finding in small {
        let id = finding.resource.id.as_str();
        let advice = nodes.iter().find(|one| one.node == id);
        let instance = NodeId::new(id).ok();
        let instance = instance.and_then(|id| facts.inventory.instances.get(&id));
        let best = advice.zip(instance).and_then(|(advice, instance)| {
            let best = oversized::best(facts, advice, instance, finding.window);
            best.map(|(offer, cost)| (&instance.instance_type, offer, cost))
        });
        if let Some((kind, offer, cost)) = best {
            finding.cost = Some(cost);
            finding.remedy.advice = format!(
                "Change from {kind} to {}, which fits the observed work.",
                offer.instance_type
            );
            finding.confidence.reason += "; the memory of its tasks was observed";
        }
    }
}

/// Questions about one machine with a probe.
pub(crate) fn explain(facts: &Facts<'_>, instance: &Instance) -> Vec<Check> {
    RuleTrace::written(KIND, |q| {
        ProbedNode::find(facts, instance).and_then(|node| evaluate_node(facts, node, q))
    })
}

/// A running instance with a probe.
#[derive(Clone, Copy)]
struct ProbedNode<'a> {
    instance: &'a Instance,
    state: &'a NodeState,
    latest: &'a Latest,
}

impl<'a> ProbedNode<'a> {
    /// `None` if the instance does not run, or no probe sent a heartbeat from it.
    fn find(facts: &Facts<'a>, instance: &'a Instance) -> Option<Self> {
        let state = facts.state.nodes.get(&instance.id)?;
        let latest = state.latest.as_ref()?;
        (instance.state == InstanceState::Running).then_some(Self {
            instance,
            state,
            latest,
        })
    }
}

/// The activity of a node in the last day.
struct LastDay {
    window: Window,
    coverage: Share,
    /// Share of the observed time in which the node was active.
    duty: Share,
}

fn evaluate_node(facts: &Facts<'_>, node: ProbedNode<'_>, q: &mut RuleTrace) -> Option<Verdict> {
    let day = last_day(facts, node, q)?;
    let low = Share::from_ppm(facts.policy.idle.underutilized_ppm);
    let small = match day.duty >= low {
        true => Some(small_all_week(facts, node)),
        false => None,
    };
    let is_little = q.holds(
        "How active was the node in the last day?",
        (
            day.duty.compared_with(low),
            format_args!(
                "below {low}, or at most {} of its cores in 95 % of the hours of a week",
                Share::from_ppm(facts.policy.hours.low_p95_ppm)
            ),
        ),
        small.as_ref().is_none_or(Option::is_some),
    );
    if !is_little {
        return None;
    }
    let finding = match small {
        Some(small) => small?,
        None => make_finding(facts, node, &day),
    };
    // This check is last, because it reads the history of 14 days.
    let history = ActivityHistory::from_probe(facts, node.instance, node.state)?;
    let meant = other_cause(facts, node, &history);
    q.holds(
        "Does another finding cover this resource?",
        (meant.unwrap_or("no"), "no"),
        meant.is_none(),
    )
    .then(|| Verdict::Waste(Box::new(finding)))
}

/// The last day, if the probe observed it.
fn last_day(facts: &Facts<'_>, node: ProbedNode<'_>, q: &mut RuleTrace) -> Option<LastDay> {
    let ProbedNode {
        instance,
        state,
        latest,
    } = node;
    let policy = &facts.policy.idle;
    let window = Window {
        from: latest.end.checked_sub(DAY).ok()?,
        to: latest.end,
    };
    let first = state.first_seen.max(instance.launched_at)?;
    // A node that was never active is idle, which another rule reports.
    state.active_until?;
    let is_fresh = facts.now.duration_since(latest.end) <= policy.after().try_into().ok()?;
    let watched: Duration = latest.end.duration_since(first).try_into().ok()?;
    let is_known = q.holds(
        "How long has the probe observed the node, up to now?",
        (
            HumanDuration(watched),
            format_args!("at least {}", HumanDuration(DAY)),
        ),
        (first <= window.from && is_fresh).then_some(true),
    );
    if !is_known || idle::sees_all(facts, instance, latest, q).is_err() {
        return None;
    }
    let tick = facts.policy.activity.tick();
    let coverage = state.seen.coverage(window.from, window.to, tick)?;
    let duty = state.active.coverage(window.from, window.to, tick)?;
    let least = policy.min_coverage();
    let is_covered = q.holds(
        "Which share of the last day did the probe observe?",
        (
            coverage.compared_with(least),
            format_args!("at least {least}"),
        ),
        (coverage >= least).then_some(true),
    );
    is_covered.then_some(LastDay {
        window,
        coverage,
        duty,
    })
}

/// Why another rule covers the node; `None` if no other does.
fn other_cause(
    facts: &Facts<'_>,
    node: ProbedNode<'_>,
    history: &ActivityHistory<'_>,
) -> Option<&'static str> {
    let (instance, after) = (node.instance, facts.policy.idle.after());
    let quiet_for = |until| Duration::try_from(node.latest.end.duration_since(until)).ok();
    let quiet_for = node.state.active_until.and_then(quiet_for);
    if idle::standby_tag(facts, instance).is_some()
        || weekly_pattern::find_pattern(facts, instance, history).is_some()
    {
        return Some("yes: standby tag or weekly schedule");
    }
    let is_idle = quiet_for.is_some_and(|quiet| quiet >= after)
        && recurring_idle::find_idle_pattern(facts, instance, history).is_none();
    is_idle.then_some("yes: idle node")
}

/// A whole week, so that days and nights have their true weight.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Evaluates the 95th percentile of CPU use in the hours of a week against all cores. The busiest
/// interval of each hour counts, so that averages hide no burst. A machine with GPUs is excluded,
/// because its purpose is the GPUs.
fn small_all_week(facts: &Facts<'_>, node: ProbedNode<'_>) -> Option<Finding> {
    let (instance, latest) = (node.instance, node.latest);
    if idle::gpus(facts, instance, latest) != Some(0) {
        return None;
    }
    let week_ago = latest.end.checked_sub(WEEK).ok()?;
    let window = Window {
        from: week_ago.max(instance.launched_at?),
        to: latest.end,
    };
    let hours = facts.hours.nodes.get(&instance.id)?.hours();
    let within = hours.filter(|(begin, _)| *begin >= window.from && *begin < window.to);
    let mut peaks: Vec<Share> = within.filter_map(|(_, hour)| hour.peak_cpu()).collect();
    peaks.sort_unstable();
    let many = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let coverage = Share::from_parts(many(peaks.len()), WEEK.as_secs() / 3600)?;
    let p95 = *peaks.get((peaks.len() * 95).div_ceil(100).checked_sub(1)?)?;
    let bound = Share::from_ppm(facts.policy.hours.low_p95_ppm);
    if coverage < facts.policy.idle.min_coverage() || p95 > bound {
        return None;
    }
    let evidence = UnderutilizedNode {
        watched: window.length(),
        active: window.length(),
        p95_cpu: Some(p95),
    };
    let controller = facts.controller(instance);
    let kind = instance.instance_type.as_str();
    Some(Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage: Some(coverage),
        evidence: Evidence::UnderutilizedNode(evidence),
        confidence: Confidence {
            level: Level::Medium,
            reason: format!(
                "the probe observed {coverage} of the hours of a week; memory may require the \
                 present size"
            ),
        },
        // The cost of a smaller type depends on the memory that the node needs.
        cost: None,
        remedy: Remedy {
            action: Action::Rightsize,
            advice: match &controller {
                Some(controller) => {
                    format!("Configure {controller} to launch a smaller type than {kind}.")
                }
                None => format!("Change to a smaller type than {kind}, or to a burstable type."),
            },
            command: Some(format!(
                "aws ec2 describe-instance-types --region {} --instance-types {kind}",
                instance.region
            )),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, latest.origin),
    })
}

fn make_finding(facts: &Facts<'_>, node: ProbedNode<'_>, day: &LastDay) -> Finding {
    let (instance, latest) = (node.instance, node.latest);
    let LastDay {
        window,
        coverage,
        duty,
    } = *day;
    let quiet = Share::from_ppm(1_000_000 - duty.ppm());
    let part = |price: UsdPerHour| price.part(quiet.ppm().into(), 1_000_000);
    let controller = facts.controller(instance);
    let cost = facts.price_of(instance).map(|price| {
        let whole = price.wasted_over(window);
        let per_hour = part(whole.per_hour);
        Cost {
            per_hour,
            list_per_hour: whole.list_per_hour.map(part),
            spent: per_hour.over(window.length()),
            saving_a_month: per_hour.a_month(),
            ..whole
        }
    });
    Finding {
        id: Finding::id_of(KIND, &instance.region, instance.id.as_str()),
        kind: KIND,
        window,
        coverage: Some(coverage),
        evidence: Evidence::UnderutilizedNode(UnderutilizedNode {
            watched: window.length(),
            active: window.length() * duty.ppm() / 1_000_000,
            p95_cpu: None,
        }),
        confidence: Confidence {
            level: Level::Medium,
            reason: format!("the probe observed {coverage} of one day; other days may differ"),
        },
        cost,
        remedy: Remedy {
            action: Action::Reconfigure,
            advice: match &controller {
                Some(controller) => {
                    format!("Configure {controller} with a schedule or a smaller type.")
                }
                None => {
                    "Run the node only when it is needed, change to a smaller type, or run its \
                     work as a Batch job or Lambda function."
                        .into()
                }
            },
            command: show(instance),
        },
        recommendation: None,
        steps: Vec::new(),
        resource: Resource::of_instance(instance, controller, latest.origin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, instance};
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::step::{MemorySource, PeakMemory};
    use ebb_telemetry::units::{Bytes, CpuTime};

    #[test]
    fn a_node_is_underutilized_when_it_works_for_few_minutes_of_a_whole_day() {
        let check = |minutes: u64, works: fn(u64) -> bool, expect: Option<FindingKind>| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, minutes, |minute, h| {
                if works(minute) {
                    h.workload.cpu = Some(CpuTime::from_millis(30_000));
                }
                h.coverage.disk = h.coverage.cpu;
            });
            let found = world.verdict().ok().map(|finding| finding.kind);
            assert_eq!(found, expect, "{minutes} minutes");
        };
        // One minute in 30 is 3.3 %, one in 15 is 6.7 %.
        check(1_450, |m| m % 29 == 0, Some(KIND));
        check(1_450, |m| m % 15 == 0, None);
        check(1_430, |m| m % 29 == 0, None);
        check(1_450, |m| m < 20, Some(FindingKind::IdleNode));
    }

    #[test]
    fn a_node_that_never_uses_a_tenth_of_its_cores_in_a_week_is_underutilized() {
        let check = |name: &str, minutes: u64, cpu_ms: fn(u64) -> u64, expect: Option<&str>| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, minutes, |minute, h| {
                h.workload.cpu = Some(CpuTime::from_millis(cpu_ms(minute)));
            });
            let found = world
                .evaluate()
                .findings
                .into_iter()
                .find(|f| f.kind == KIND);
            let evidence = found.map(|finding| finding.evidence.to_string());
            assert_eq!(evidence.as_deref(), expect, "{name}");
        };
        let week = 7 * 24 * 60 + 60;
        // On four cores, 12 s a minute are 5 %, 120 s half.
        let small = "used at most 10 % of its cores in 95 % of the hours of the last 7 d 0 h";
        check("a twentieth", week, |_| 12_000, Some(small));
        let nightly = |m: u64| if m % 1_440 < 40 { 120_000 } else { 12_000 };
        check(
            "and half of them in one hour a day",
            week,
            nightly,
            Some(small),
        );
        let often = |m: u64| if m % 480 < 60 { 120_000 } else { 12_000 };
        check("and half of them in three hours a day", week, often, None);
        check("a twentieth for two days", 2 * 24 * 60, |_| 12_000, None);
    }

    #[test]
    fn a_node_of_few_busy_cores_is_told_which_type_holds_it_once_its_memory_was_seen() {
        let check = |gib: Option<u64>, expect: (bool, &str)| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, 7 * 24 * 60 + 60, |_, h| {
                h.workload.cpu = Some(CpuTime::from_millis(12_000));
            });
            let mut step = ebb_telemetry::testing::placed_step(1, 0);
            step.usage.peak_memory = gib.map(|gib| PeakMemory {
                bytes: Bytes::gib(gib),
                source: MemorySource::CgroupSampled,
            });
            world.finished.push(step);
            let found = world
                .evaluate()
                .findings
                .into_iter()
                .find(|f| f.kind == KIND);
            let found = found.expect("it is underutilized");
            let outcome = (found.cost.is_some(), found.remedy.advice.as_str());
            assert_eq!(outcome, expect, "{gib:?}");
        };
        let any = "Change to a smaller type than m5.xlarge, or to a burstable type.";
        check(None, (false, any));
        // A type with as much memory as now holds it.
        let same_memory = "Change from m5.xlarge to r6a.large, which fits the observed work.";
        check(Some(15), (true, same_memory));
        let best = "Change from m5.xlarge to c6a.large, which fits the observed work.";
        check(Some(1), (true, best));
    }

    #[test]
    fn a_machine_with_gpus_is_not_held_to_its_cores_nor_judged_where_they_are_not_seen() {
        let check = |works: fn(u64) -> bool, gpu: Option<Share>, expect: Option<FindingKind>| {
            let mut world = World::with([instance(1)]);
            world.watch(1, 0, 7 * 24 * 60 + 60, |minute, h| {
                let cpu = if works(minute) { 12_000 } else { 0 };
                h.workload.cpu = Some(CpuTime::from_millis(cpu));
                h.hardware.gpus = Some(1);
                h.coverage.gpu = gpu.map(|_| Share::ALL);
                h.workload.gpu = gpu;
            });
            let kinds = [KIND, FindingKind::IdleGpu];
            let found = world.evaluate().findings.into_iter();
            let found = found.map(|f| f.kind).find(|kind| kinds.contains(kind));
            assert_eq!(found, expect, "{gpu:?}");
        };
        check(|_| true, Some(Share::ALL), None);
        check(|_| true, Some(Share::NONE), Some(FindingKind::IdleGpu));
        check(|_| true, None, None);
        check(|m| m % 29 == 0, None, None);
        check(|m| m % 29 == 0, Some(Share::NONE), Some(KIND));
    }

    #[test]
    fn what_is_saved_is_the_time_in_which_nothing_works() {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 1_450, |minute, h| {
            if minute.is_multiple_of(29) {
                h.workload.cpu = Some(CpuTime::from_millis(30_000));
            }
        });
        let finding = world.verdict().expect("it is underutilized");
        let whole = UsdPerHour::from_micros(192_000).a_month();
        let saving = finding.saving_or_zero();
        assert!(saving < whole, "{saving}");
        assert!(
            saving > Usd::from_micros(whole.micros() / 100 * 95),
            "{saving}"
        );
    }
}
