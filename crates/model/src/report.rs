//! The report of one sweep: findings, what was not judged and why, and totals.
//! How it looks is the renderers' business.

pub mod bill_day;
pub mod billed_resources;
pub mod fargate_jobs;
pub mod node_summary;
pub mod price_age;
pub mod selection;
pub mod timeline;
pub mod workflow_runs;

use std::collections::BTreeSet;

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
use crate::report::bill_day::LedgerDay;
use crate::report::billed_resources::Billed;
use crate::report::fargate_jobs::FargateJobs;
use crate::report::node_summary::NodeSummary;
use crate::report::price_age::PriceAge;
use crate::report::selection::Selected;
use crate::report::timeline::Timeline;
use crate::report::workflow_runs::Runs;
use crate::savings::{SharedCost, Sums};
use crate::visibility_gap::Gap;

/// The report of one sweep. The same facts give the same bytes. JSON has dollars as decimal
/// strings in fields whose names end with `usd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// When the sweep judged.
    pub at: Timestamp,
    /// Simulated as soon as any of its input is.
    pub origin: Origin,
    /// Findings, the greatest saving first, then by id.
    pub findings: Vec<Finding>,
    /// What was not judged, by resource.
    pub not_judged: Vec<NotJudged>,
    /// What could not be seen at all.
    pub gaps: Vec<Gap>,
    /// Sums over the findings and counts of what was looked at.
    pub totals: Totals,
    /// What each step asks for and should ask for, the greatest saving first, at
    /// most [`ebb_analysis::advice::step::MAX_STEPS`].
    #[serde(default)]
    pub steps: Vec<StepAdvice>,
    /// Steps beyond those.
    #[serde(default)]
    pub steps_left_out: usize,
    /// What is advised for pipelines, compute environments and nodes.
    #[serde(default)]
    pub targets: Targets,
    /// Every node, wasteful or not, the dearest first, at most
    /// [`ebb_analysis::evaluate::node_summaries::MAX_NODES`].
    #[serde(default)]
    pub nodes: Vec<NodeSummary>,
    /// Nodes beyond those.
    #[serde(default)]
    pub nodes_left_out: usize,
    /// When nodes were at work.
    #[serde(default)]
    pub timeline: Timeline,
    /// What earlier sweeps and people's decisions add.
    #[serde(default)]
    pub history: History,
    /// Where each day of the bill went, the oldest first; nothing without a bill.
    #[serde(default)]
    pub ledger: Vec<LedgerDay>,
    /// The bill of the same days by resource; nothing without one.
    #[serde(default)]
    pub billed: Billed,
    /// What the cloud's own advisers say of the same machines, the greatest saving
    /// first; nothing where they are not switched on.
    #[serde(default)]
    pub second_opinions: Vec<SecondOpinion>,
    /// Of when the prices and interruption bands are that it goes by, in the regions where
    /// something of the cloud's is.
    #[serde(default)]
    pub price_ages: Vec<PriceAge>,
    /// Of which runs the steps are, and how many are of none that is known.
    #[serde(default)]
    pub runs: Runs,
    /// Batch jobs on Fargate, where no probe can run.
    #[serde(default)]
    pub fargate: FargateJobs,
    /// That it has some of its findings only; `None` where it has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<Selected>,
    /// Costs that several findings claim: for counting again when findings are set aside. JSON
    /// has the result alone, in [`Cost::counted`](crate::cost::Cost::counted).
    #[serde(skip)]
    pub shared_costs: Vec<SharedCost>,
}

impl Report {
    /// The schema line that [`Report::schema`] holds.
    pub const SCHEMA: &'static str = "ebb.report/2";

    /// The findings of some owners, with their sums; what was not judged, not seen and
    /// is advised on steps is not theirs.
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
            not_judged: Vec::new(),
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
                ..History::default()
            },
            ledger: Vec::new(),
            billed: Billed::default(),
            second_opinions: Vec::new(),
            price_ages: Vec::new(),
            runs: Runs::default(),
            fargate: FargateJobs::default(),
            selected: None,
            shared_costs: Vec::new(),
        }
    }
}

/// A resource that a rule did not judge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NotJudged {
    /// The instance or job id.
    pub resource: String,
    /// Its name; `None` when it has none.
    pub name: Option<String>,
    /// The rule that did not judge it.
    pub rule: String,
    /// Why.
    pub reason: String,
}

/// Sums and counts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Instances that run.
    pub running_instances: usize,
    /// Of those, with a probe whose heartbeats arrived.
    pub with_probe: usize,
    /// Of those without, judged on metrics of the cloud.
    pub on_metrics: usize,
    /// Jobs seen.
    pub jobs: usize,
    /// What is wasted an hour now. Dollars that several findings claim count once in this and
    /// the following sums; amounts of which only an upper bound is known are in `at_most`.
    #[serde(rename = "waste_per_hour_usd", alias = "waste_per_hour")]
    pub waste_per_hour: UsdPerHour,
    /// What was wasted so far.
    #[serde(rename = "spent_usd", alias = "spent")]
    pub spent: Usd,
    /// What fixing all of it saves a month.
    #[serde(rename = "saving_a_month_usd", alias = "saving_a_month")]
    pub saving_a_month: Usd,
    /// The same of findings that are priced by an upper bound, such as spot machines at the
    /// on-demand price.
    #[serde(default)]
    pub at_most: Sums,
    /// What a month costs of all machines that run, all volumes, and what else findings are
    /// about; `None` for a part of a report.
    #[serde(rename = "cost_a_month_usd", default)]
    pub cost_a_month: Option<Usd>,
    /// The same of what is priced by an upper bound.
    #[serde(rename = "cost_at_most_a_month_usd", default)]
    pub cost_at_most_a_month: Option<Usd>,
    /// Findings whose price is not known, and so not in the sums.
    pub without_price: usize,
    /// Where the prices in the sums come from.
    pub price_bases: Vec<PriceBasis>,
}

impl Totals {
    /// The same of some of the findings; the counts of what was looked at stay.
    #[must_use]
    pub fn of_part<'a>(&self, findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut totals = Self {
            cost_a_month: None,
            cost_at_most_a_month: None,
            ..self.clone()
        };
        totals.sum_up(findings);
        totals
    }

    /// Takes over the sums over `findings`; the counts of what was looked at stay.
    pub fn sum_up<'a>(&mut self, findings: impl IntoIterator<Item = &'a Finding>) {
        let (mut known, mut at_most) = (Sums::default(), Sums::default());
        let mut bases = BTreeSet::new();
        self.without_price = 0;
        for finding in findings {
            let Some(cost) = &finding.cost else {
                self.without_price += 1;
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
