//! The report of one sweep: findings, what was not judged and why, and totals.
//! How it looks is the renderers' business.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, PriceBasis};
use crate::fleet::Gap;
use crate::heartbeat::Origin;
use crate::judge::NodeSummary;
use crate::life::History;
use crate::profile::advice::StepAdvice;
use crate::timeline::Timeline;
use crate::units::{Usd, UsdPerHour};

/// The report of one sweep. The same facts give the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// `ebb.report/1.0`.
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
    /// most [`crate::profile::advice::MAX_STEPS`].
    #[serde(default)]
    pub steps: Vec<StepAdvice>,
    /// Steps beyond those.
    #[serde(default)]
    pub steps_left_out: usize,
    /// Every node, wasteful or not, the dearest first, at most
    /// [`crate::judge::MAX_NODES`].
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
}

impl Report {
    /// The schema line that [`Report::schema`] holds.
    pub const SCHEMA: &'static str = "ebb.report/1.0";

    /// The findings of some owners, with their sums; what was not judged, not seen and
    /// is advised on steps is not theirs.
    #[must_use]
    pub fn part(&self, is_theirs: impl Fn(Option<&str>) -> bool) -> Self {
        let findings = self.findings.iter();
        let theirs = findings.filter(|finding| is_theirs(finding.resource.owner.as_deref()));
        let findings: Vec<Finding> = theirs.cloned().collect();
        let mut totals = self.totals.clone();
        totals.sum_up(&findings);
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
            nodes: Vec::new(),
            nodes_left_out: 0,
            timeline: Timeline::default(),
            history: History {
                life: self.history.life.clone(),
                ..History::default()
            },
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
    /// What is wasted an hour now.
    pub waste_per_hour: UsdPerHour,
    /// What was wasted so far.
    pub spent: Usd,
    /// What mending all of it saves a month.
    pub saving_a_month: Usd,
    /// Findings whose price is not known, and so not in the sums.
    pub without_price: usize,
    /// Where the prices in the sums come from.
    pub price_bases: Vec<PriceBasis>,
}

impl Totals {
    /// Takes over the sums over `findings`; the counts of what was looked at stay.
    pub(crate) fn sum_up(&mut self, findings: &[Finding]) {
        let costs = || findings.iter().filter_map(|finding| finding.cost.as_ref());
        self.waste_per_hour = UsdPerHour(costs().map(|cost| cost.per_hour.0).sum());
        self.spent = costs().map(|cost| cost.spent).sum();
        self.saving_a_month = costs().map(|cost| cost.saving_a_month).sum();
        self.without_price = findings.iter().filter(|f| f.cost.is_none()).count();
        let bases: BTreeSet<PriceBasis> = costs().map(|cost| cost.basis).collect();
        self.price_bases = bases.into_iter().collect();
    }
}
