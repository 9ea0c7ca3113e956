//! The report of one sweep: findings, resources that were not evaluated with the reason, and
//! totals. The renderers decide how a report looks.

pub mod bill_day;
pub mod billed_resources;
pub mod cost_shares;
pub mod cost_table;
pub mod fargate_jobs;
pub mod lake_days;
pub mod node_summary;
pub mod own_cost;
pub mod price_age;
pub mod probe_problem;
pub mod probe_summary;
pub mod run_cost;
pub mod run_costs;
pub mod run_opening;
pub mod selection;
pub mod tag_table;
pub mod task_brief;
pub mod task_detail;
pub mod task_groups;
pub mod timeline;
pub mod unwatched_machine;
pub mod workflow_runs;

use std::collections::{BTreeMap, BTreeSet};

use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::advice::Targets;
use crate::advice::step::StepAdvice;
use crate::cost::PriceBasis;
use crate::finding::Finding;
use crate::finding_history::History;
use crate::inventory::second_opinion::SecondOpinion;
use crate::report::bill_day::BilledDayShares;
use crate::report::billed_resources::Billed;
use crate::report::cost_shares::CostShares;
use crate::report::fargate_jobs::FargateJobs;
use crate::report::node_summary::NodeSummary;
use crate::report::own_cost::OwnCost;
use crate::report::price_age::PriceAge;
use crate::report::probe_problem::ProbeProblemCounts;
use crate::report::probe_summary::ProbeSummary;
use crate::report::selection::Selected;
use crate::report::timeline::Timeline;
use crate::report::unwatched_machine::UnwatchedMachines;
use crate::report::workflow_runs::Runs;
use crate::savings::{SharedCost, Sums};
use crate::visibility_gap::Gap;

/// The report of one sweep. The same input gives the same bytes. In JSON, dollars are decimal
/// strings in fields whose names end with `usd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// When the sweep evaluated the data.
    pub at: Timestamp,
    /// Simulated if any part of the input is simulated.
    pub origin: Origin,
    /// Findings, the greatest saving first, then by id.
    pub findings: Vec<Finding>,
    /// Resources that were not evaluated, by resource.
    #[serde(alias = "not_judged")]
    pub not_evaluated: Vec<NotEvaluated>,
    /// Findings that the policy exempts. They are not stored; `not_evaluated` names their exemption.
    #[serde(skip)]
    pub exempt: Vec<Finding>,
    /// Parts of the inventory or bill that could not be read.
    pub gaps: Vec<Gap>,
    /// Sums over the findings, and counts of the evaluated resources.
    pub totals: Totals,
    /// The present and the recommended request of each step, the greatest saving first, at most
    /// `ebb_analysis::advice::step::MAX_STEPS`.
    #[serde(default)]
    pub steps: Vec<StepAdvice>,
    /// Number of steps beyond those.
    #[serde(default)]
    pub steps_left_out: usize,
    /// Advice for pipelines, compute environments and nodes.
    #[serde(default)]
    pub targets: Targets,
    /// All nodes, the most expensive first, at most
    /// `ebb_analysis::evaluate::node_summaries::MAX_NODES`.
    #[serde(default)]
    pub nodes: Vec<NodeSummary>,
    /// Number of nodes beyond those.
    #[serde(default)]
    pub nodes_left_out: usize,
    /// Activity of nodes by hour.
    #[serde(default)]
    pub timeline: Timeline,
    /// History of the findings from earlier sweeps and decisions.
    #[serde(default)]
    pub history: History,
    /// Each day of the bill by use, the oldest first; empty without a bill.
    #[serde(default)]
    pub ledger: Vec<BilledDayShares>,
    /// The bill of the same days by resource; empty without a bill.
    #[serde(default)]
    pub billed: Billed,
    /// The cost of the same days by run, pipeline, step, user and cost centre. Days that the bill
    /// does not contain yet have the prices of machines.
    #[serde(default)]
    pub costs: CostShares,
    /// The cost of Ebb itself.
    #[serde(default)]
    pub own_cost: OwnCost,
    /// Recommendations of the cloud provider for the same machines, the greatest saving first;
    /// empty if its services are disabled.
    #[serde(default)]
    pub second_opinions: Vec<SecondOpinion>,
    /// The age of prices and interruption bands, for regions that contain a resource of the cloud
    /// provider.
    #[serde(default)]
    pub price_ages: Vec<PriceAge>,
    /// Pipeline runs with their tasks, and the number of unassigned tasks.
    #[serde(default)]
    pub runs: Runs,
    /// The condition of all probes, those with the most urgent problem first, at most
    /// `ebb_analysis::evaluate::probe_summaries::MAX_PROBES`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSummary>,
    /// Number of probes beyond those.
    #[serde(default)]
    pub probes_left_out: usize,
    /// The number of probes with each problem, including those left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub probe_problems: ProbeProblemCounts,
    /// Running machines without a probe.
    #[serde(default)]
    pub unwatched: UnwatchedMachines,
    /// Batch jobs on Fargate, which cannot run a probe.
    #[serde(default)]
    pub fargate: FargateJobs,
    /// The filter, if the report contains only a part of its findings; `None` if it contains all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<Selected>,
    /// Costs that several findings claim. They are needed to count again when findings are set
    /// aside. JSON contains only the result, in [`Cost::counted`](crate::cost::Cost::counted).
    #[serde(skip)]
    pub shared_costs: Vec<SharedCost>,
}

impl Report {
    /// The value of [`Report::schema`].
    pub const SCHEMA: &'static str = "ebb.report/2";

    /// The missing parts of the bill.
    pub fn bill_gaps(&self) -> Vec<&Gap> {
        self.gaps.iter().filter(|gap| gap.is_of_bill()).collect()
    }

    /// The part of the report for some owners: their findings with the sums. The part has no gaps,
    /// no steps and no resources that were not evaluated.
    #[must_use]
    pub fn part(&self, is_theirs: impl Fn(Option<&str>) -> bool) -> Self {
        let findings = self.findings.iter();
        let theirs = findings.filter(|finding| is_theirs(finding.resource.owner.as_deref()));
        let findings: Vec<Finding> = theirs.cloned().collect();
        let totals = self.totals.of_part(&findings);
        Self {
            schema: self.schema.clone(),
            at: self.at,
            origin: self.origin,
            findings,
            not_evaluated: Vec::new(),
            exempt: Vec::new(),
            gaps: Vec::new(),
            totals,
            steps: Vec::new(),
            steps_left_out: 0,
            targets: Targets::default(),
            nodes: Vec::new(),
            nodes_left_out: 0,
            timeline: Timeline::default(),
            history: History {
                life: self.history.life.clone(),
                assigned: self.history.assigned.clone(),
                ..History::default()
            },
            ledger: Vec::new(),
            billed: Billed::default(),
            costs: CostShares::default(),
            own_cost: OwnCost::default(),
            second_opinions: Vec::new(),
            price_ages: Vec::new(),
            runs: Runs::default(),
            probes: Vec::new(),
            probes_left_out: 0,
            probe_problems: ProbeProblemCounts::new(),
            unwatched: UnwatchedMachines::default(),
            fargate: FargateJobs::default(),
            selected: None,
            shared_costs: Vec::new(),
        }
    }
}

/// A resource that a rule did not evaluate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotEvaluated {
    /// The instance or job id.
    pub resource: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The rule.
    pub rule: String,
    /// The reason.
    pub reason: String,
}

/// Sums over findings, and counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Number of running instances.
    pub running_instances: usize,
    /// Number of running instances with a probe whose heartbeats arrived.
    pub with_probe: usize,
    /// Number of running instances without a probe that were evaluated from cloud metrics.
    pub on_metrics: usize,
    /// Number of jobs.
    pub jobs: usize,
    /// The present waste per hour. This and the following sums count dollars only once that several
    /// findings claim. Amounts with only an upper bound are in `at_most`.
    #[serde(rename = "waste_per_hour_usd", alias = "waste_per_hour")]
    pub waste_per_hour: UsdPerHour,
    /// Wasted so far.
    #[serde(rename = "spent_usd", alias = "spent")]
    pub spent: Usd,
    /// The saving in a month if everything is fixed.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// The same sums for findings that are priced by an upper bound, such as spot machines at the
    /// on-demand price.
    #[serde(default)]
    pub at_most: Sums,
    /// The cost in a month of all running machines, all volumes, and other resources of findings.
    /// `None` for a part of a report.
    #[serde(rename = "cost_a_month_usd", default)]
    pub cost_a_month: Option<Usd>,
    /// The same cost for resources that are priced by an upper bound.
    #[serde(rename = "cost_at_most_a_month_usd", default)]
    pub cost_at_most_a_month: Option<Usd>,
    /// Number of running machines without a known price; the cost in a month does not contain them.
    #[serde(default)]
    pub machines_without_price: usize,
    /// Number of findings of waste without a known price; the sums do not contain them.
    pub without_price: usize,
    /// The sources of the prices in the sums.
    pub price_bases: Vec<PriceBasis>,
}

impl Report {
    /// Number of findings of kinds that have a saving.
    pub fn waste_findings(&self) -> usize {
        let kinds = self.findings.iter().map(|finding| finding.kind);
        kinds.filter(|kind| kind.is_waste()).count()
    }
}

impl Totals {
    /// Totals with the sums of some findings; the counts stay.
    #[must_use]
    pub fn of_part<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut totals = Self {
            cost_a_month: None,
            cost_at_most_a_month: None,
            machines_without_price: 0,
            ..self.clone()
        };
        totals.sum_up(findings);
        totals
    }

    /// Replaces the sums by those of `findings`; the counts stay.
    pub fn sum_up<'a>(&mut self, findings: impl IntoIterator<Item = &'a Finding>) {
        let (mut known, mut at_most) = (Sums::default(), Sums::default());
        let mut bases = BTreeSet::new();
        self.without_price = 0;
        for finding in findings {
            let Some(cost) = &finding.cost else {
                self.without_price += usize::from(finding.kind.is_waste());
                continue;
            };
            bases.insert(cost.basis);
            match cost.basis.is_bound() {
                true => at_most.add(&cost.in_totals()),
                false => known.add(&cost.in_totals()),
            }
        }
        self.waste_per_hour = known.per_hour;
        self.spent = known.spent;
        self.saving_a_month = known.saving_a_month;
        self.at_most = at_most;
        self.price_bases = bases.into_iter().collect();
    }
}
