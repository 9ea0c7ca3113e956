//! Code that the rules about steps share.

use std::cmp::Reverse;
use std::time::Duration;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::confidence::Confidence;
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::causes::{Causes, Tool, Tools, Waiter};
use ebb_model::finding::evidence::step::{Deviation, StepTrouble, Trouble};
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::{StepEnd, TaskState, ToolUsage};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, Share};
use jiff::Timestamp;

use crate::facts::Facts;
use crate::hourly_price::Price;
use crate::rules::remedy::open_shell;
use crate::rules::step::earlier_runs::Past;
use crate::rules::step::expected_end::{
    EndEvidence, ExpectedEnd, expected_end, is_scheduled, work,
};
use crate::rules::step::run_coverage::{NOT_KNOWN, coverage};
use crate::rules::step::{busy_neighbour, deviation, earlier_runs};
use crate::rules::trace::RuleTrace;
use crate::rules::verdict::Verdict;
use crate::step_history::by_step::StepHistory;
use crate::step_history::observed_task::ObservedTask;
use crate::step_history::step_name::StepName;
use crate::{coverage, shell};

/// A step with all its tasks.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a str,
    pub(crate) profiled: &'a StepHistory<'a>,
    pub(crate) past: Past,
}

/// A running task with its step.
pub(crate) struct UnderWay<'a> {
    pub(crate) step: Step<'a>,
    pub(crate) run: &'a ObservedTask<'a>,
}

impl<'a> Step<'a> {
    /// Earlier successful tasks, which form the history.
    pub(crate) fn history(&self) -> impl Iterator<Item = &'a ObservedTask<'a>> {
        earlier_runs::well_ended(self.profiled)
    }

    /// Whether a task of the step should end.
    pub(crate) fn expected_end(&self, facts: &Facts<'_>, run: &ObservedTask<'_>) -> ExpectedEnd {
        expected_end(&EndEvidence {
            kind: run.step.usage.id.kind,
            is_scheduled: is_scheduled(run),
            ended: self.past.runs,
            least: facts.policy.step.history_runs,
            presence: self.past.presence,
            earlier_work: self.past.work,
            own_work: work(run),
        })
    }

    /// A finding about the whole step from its tasks; `None` without tasks.
    pub(crate) fn make_finding(
        &self,
        facts: &Facts<'_>,
        runs: Vec<&'a ObservedTask<'a>>,
        wrong: Wrong,
    ) -> Option<Verdict> {
        let newest = *runs.iter().max_by_key(|run| run.step.observed_at)?;
        self.make_finding_about(facts, newest, runs, wrong)
    }

    /// The same, with the task `run` as the example.
    pub(crate) fn make_finding_about(
        &self,
        facts: &Facts<'_>,
        run: &'a ObservedTask<'a>,
        runs: Vec<&'a ObservedTask<'a>>,
        mut wrong: Wrong,
    ) -> Option<Verdict> {
        let coverage = coverage(facts, &runs);
        if coverage.is_none() {
            wrong.confidence.reason += NOT_KNOWN;
        }
        let names = || runs.iter().map(|run| &run.name);
        wrong.confidence.reason += names().map(StepName::note).max().unwrap_or("");
        wrong.advice += names().map(StepName::advice).max().unwrap_or("");
        let about = ProblemSubject {
            id: self.name.to_owned(),
            account: run.instance.account.as_ref(),
            run,
            coverage,
            window: Window {
                from: runs.iter().map(|run| watched_from(facts, run)).min()?,
                to: runs.iter().map(|run| run.step.observed_at).max()?,
            },
            runs,
        };
        Some(make_finding(facts, self, about, wrong))
    }
}

impl UnderWay<'_> {
    /// Id of the Batch job; without a job, the node and the id of the task.
    pub(crate) fn id(&self) -> String {
        self.run.id()
    }

    /// Whether the task should end. Sessions and services run for as long as they are needed, and
    /// pods, containers and process trees may be services.
    pub(crate) fn expected_end(&self, facts: &Facts<'_>) -> ExpectedEnd {
        self.step.expected_end(facts, self.run)
    }

    /// Time for which the probe observed the task. A long task may have started before the probe,
    /// and this part is not evaluated.
    pub(crate) fn watched(&self, facts: &Facts<'_>) -> Duration {
        let observed_for = self
            .run
            .step
            .observed_at
            .duration_since(watched_from(facts, self.run));
        let wall = self.run.wall();
        wall.min(Duration::try_from(observed_for).unwrap_or_default())
    }

    /// Asks whether the task [should end](Self::expected_end).
    pub(crate) fn ends(&self, facts: &Facts<'_>, q: &mut RuleTrace) -> bool {
        let expected = self.expected_end(facts);
        q.holds(
            "Should the task end?",
            (expected.words(), ""),
            expected.holds(),
        )
    }

    /// A finding about the task since its first observation.
    pub(crate) fn make_finding(&self, facts: &Facts<'_>, wrong: Wrong) -> Verdict {
        self.make_finding_since(facts, watched_from(facts, self.run), wrong)
    }

    /// A finding about the task since `from`, or since its first observation if that is later.
    pub(crate) fn make_finding_since(
        &self,
        facts: &Facts<'_>,
        from: Timestamp,
        wrong: Wrong,
    ) -> Verdict {
        let from = from.max(watched_from(facts, self.run));
        let to = self.run.step.observed_at;
        let node = &self.run.step.node;
        let state = facts.state.nodes.get(node);
        let observation =
            state.map(|state| coverage::observed(facts, node, state, Window { from, to }));
        let about = ProblemSubject {
            coverage: observation.map(|(_, share)| share),
            id: self.id(),
            account: None,
            run: self.run,
            runs: vec![self.run],
            window: Window { from, to },
        };
        make_finding(facts, &self.step, about, wrong)
    }
}

/// First observation of a task: its start, or the first heartbeat of its node if that is later.
pub(crate) fn watched_from(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Timestamp {
    let node = facts.state.nodes.get(&run.step.node);
    let came = node.and_then(|node| node.first_seen);
    came.map_or(run.step.started_at, |came| came.max(run.step.started_at))
}

/// The problem of a step or a task.
pub(crate) struct Wrong {
    pub(crate) kind: FindingKind,
    pub(crate) trouble: Trouble,
    pub(crate) causes: Option<Causes>,
    pub(crate) confidence: Confidence,
    /// Lost time of the machine.
    pub(crate) lost: Duration,
    pub(crate) action: Action,
    pub(crate) advice: String,
}

impl Wrong {
    /// Differences to earlier tasks, if the problem is a comparison with them.
    fn deviations(
        &self,
        facts: &Facts<'_>,
        step: &Step<'_>,
        run: &ObservedTask<'_>,
    ) -> Vec<Deviation> {
        let compares = matches!(
            self.trouble,
            Trouble::Slow { .. } | Trouble::WasSlow { .. } | Trouble::Waiting { .. }
        );
        if !compares {
            return Vec::new();
        }
        let earlier = step
            .history()
            .filter(|one| one.step.observed_at < run.step.observed_at);
        let earlier: Vec<&ObservedTask<'_>> = earlier.collect();
        deviation::find_deviations(facts, run, &earlier)
    }
}

/// Subject of a finding.
struct ProblemSubject<'a> {
    id: String,
    /// Account, if the id is only a name.
    account: Option<&'a AccountId>,
    /// The task of the finding, or the newest task.
    run: &'a ObservedTask<'a>,
    /// All tasks that show the problem.
    runs: Vec<&'a ObservedTask<'a>>,
    window: Window,
    /// Coverage of the node in the window.
    coverage: Option<Share>,
}

fn make_finding(
    facts: &Facts<'_>,
    step: &Step<'_>,
    about: ProblemSubject<'_>,
    it: Wrong,
) -> Verdict {
    let (run, instance, id) = (about.run, about.run.instance, about.id);
    let window = about.window;
    Verdict::Waste(Box::new(Finding {
        id: Finding::id_in(it.kind, about.account, &instance.region, &id),
        kind: it.kind,
        window,
        coverage: about.coverage,
        evidence: Evidence::Step(StepTrouble {
            step: step.name.to_owned(),
            tools: greatest_tools(step, run, &it.trouble, it.causes),
            deviations: it.deviations(facts, step, run),
            neighbour: match run.step.usage.end {
                StepEnd::Running => busy_neighbour::find_neighbour(facts, run, it.causes),
                _ => None,
            },
            waiter: match it.trouble.is_of_memory() {
                true => None,
                false => Waiter::from_detail(&run.step.usage.detail, it.causes),
            },
            trouble: it.trouble,
            causes: it.causes,
        }),
        confidence: it.confidence,
        cost: price(facts, run).map(|price| lost(price, it.lost, window)),
        remedy: remedy(run, it.action, it.advice),
        recommendation: None,
        steps: about
            .runs
            .iter()
            .map(|run| run.link(step.name))
            .take(Finding::MAX_STEPS)
            .collect(),
        resource: Resource {
            tags: Default::default(),
            id,
            name: Some(
                run.job
                    .map_or(step.name, |job| job.name.as_str())
                    .to_owned(),
            ),
            region: instance.region.clone(),
            account: instance.account.clone(),
            node: Some(instance.id.to_string()),
            owner: run.owner(),
            instance_type: instance.listed_type(),
            market: instance.billed_market(),
            controller: facts.controller(instance),
            origin: run.step.origin,
        },
    }))
}

/// Price of the part of the machine that a task requests, or of its peak use without a request.
fn price(facts: &Facts<'_>, run: &ObservedTask<'_>) -> Option<Price> {
    let whole = facts.price_of(run.instance)?;
    let (requested, used) = (run.requested(), &run.step.usage);
    let request = SizedRequest {
        cores: requested.cores.or(used.peak_cores),
        memory: requested.memory.or(used.peak_memory.map(|peak| peak.bytes)),
    };
    let part = run.part_of(facts, whole.per_hour, request)?;
    Some(whole.scaled(part, whole.per_hour))
}

/// Minimum window of a day; otherwise one lost hour would be extrapolated to a month of lost hours.
const LEAST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// Cost of the lost time, and of a month with the same share of lost time as the window.
fn lost(price: Price, time: Duration, window: Window) -> Cost {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let of = millis(window.length().max(LEAST_WINDOW));
    // A task may have lost time before the probe came. No more than the whole window counts.
    let part = |whole: UsdPerHour| whole.part(millis(time).min(of), of);
    let per_hour = part(price.per_hour);
    Cost {
        per_hour,
        basis: price.basis,
        list_per_hour: price.list.map(part),
        spent: price.per_hour.over(time),
        saving_a_month: per_hour.a_month(),
        counted: None,
        price_as_of: price.as_of,
        list_as_of: price.list_as_of,
    }
}

/// The advice with a command that shows the task, if it is a Batch job.
fn remedy(run: &ObservedTask<'_>, action: Action, advice: String) -> Remedy {
    let region = &run.instance.region;
    Remedy {
        action,
        advice,
        command: Some(match run.job {
            Some(job) => {
                let jobs = shell::option("--jobs", job.id.as_str());
                format!("aws batch describe-jobs --region {region} {jobs}")
            }
            None => open_shell(run.instance),
        }),
    }
}

/// How executables are ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Memory,
    Disk,
    Cpu,
}

/// The largest executables: by memory for a memory problem, by disk bytes for a wait for disk, and
/// otherwise by CPU time.
pub(crate) fn greatest_tools(
    step: &Step<'_>,
    run: &ObservedTask<'_>,
    trouble: &Trouble,
    causes: Option<Causes>,
) -> Option<Tools> {
    let by = |order| greatest_by(order, step, run);
    match causes.map(|causes| causes.main.state) {
        _ if trouble.is_of_memory() => by(Order::Memory),
        Some(TaskState::Disk) => by(Order::Disk).or_else(|| by(Order::Cpu)),
        _ => by(Order::Cpu),
    }
}

/// The largest executables of a task, or of the newest other task of its step if the values of this
/// one are unknown. For a running task the state contains only the executable with the most CPU time.
fn greatest_by(order: Order, step: &Step<'_>, run: &ObservedTask<'_>) -> Option<Tools> {
    let value = |tool: &ToolUsage| match order {
        Order::Memory => tool.peak_memory,
        Order::Disk => tool.disk,
        Order::Cpu => None,
    };
    let is_known = |run: &&ObservedTask<'_>| {
        let usage = &run.step.usage;
        match order {
            Order::Memory => !usage.tools.is_empty() && usage.end != StepEnd::Running,
            Order::Disk => usage.tools.iter().any(|tool| tool.disk > Some(Bytes(0))),
            Order::Cpu => !usage.tools.is_empty(),
        }
    };
    let newest = || {
        let others = step.profiled.runs.iter().filter(is_known);
        others.max_by_key(|run| run.step.observed_at)
    };
    let of = Some(run).filter(is_known).or_else(newest)?;
    let mut tools: Vec<&ToolUsage> = of.step.usage.tools.iter().collect();
    tools.sort_by_key(|tool| Reverse((value(tool), tool.cpu)));
    let mut tools = tools.into_iter().map(|tool| Tool {
        name: tool.name.clone(),
        cpu: tool.cpu,
        held: value(tool).filter(|_| order == Order::Memory),
        disk: value(tool).filter(|_| order == Order::Disk),
    });
    Some(Tools {
        main: tools.next()?,
        runner_up: tools.next(),
        of_an_earlier_run: !std::ptr::eq(of, run),
    })
}
