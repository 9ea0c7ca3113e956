//! The history of findings from sweep to sweep: new, ongoing, grown, set aside by a decision,
//! resolved or reopened, and the saving of resolved findings. The functions are pure: the input is
//! the stored history and the present report, the output is the new history.

pub mod ending;
pub mod known_finding;
pub mod trend;

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::cost::PriceBasis;
use crate::decision::{Assignee, Decision, Decisions, Verb};
use crate::finding::Finding;
use crate::finding_history::ending::Ending;
use crate::finding_history::known_finding::{ChangedType, Life, Price, Resolution};
use crate::finding_history::trend::Past;
use crate::finding_kind::{self, FindingKind};
use crate::inventory::Inventory;
use crate::report::{NotEvaluated, Report};
use crate::savings;
use crate::visibility_gap::Gap;

/// Days for which resolved findings are reported and recognised when they return.
const RESOLVED_KEPT_DAYS: i64 = 30;

/// Maximum number of known findings, including resolved ones. The maximum equals the number of
/// nodes in a large shard.
const MAX_LIVES: usize = 100_000;

/// Maximum number of resolved findings in a report; the sums contain the others too.
const MAX_RESOLVED: usize = 500;

/// The stage of a finding in its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Found for the first time.
    New,
    /// Resolved before, and found again.
    Reopened,
    /// A decision suppressed it before, and no longer does.
    Due,
    /// Its waste per hour or its saving is more than 10 % above that at the last change, or its
    /// price became known.
    Grown,
    /// Found before.
    Ongoing,
    /// A decision suppresses it until some day.
    Snoozed,
    /// A decision suppresses it.
    Dismissed,
}

impl Stage {
    /// The text of the stage.
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Reopened => "reopened",
            Self::Due => "due again",
            Self::Grown => "grew",
            Self::Ongoing => "ongoing",
            Self::Snoozed => "snoozed",
            Self::Dismissed => "dismissed",
        }
    }
}

/// The stage and first sighting of a finding in a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standing {
    /// The stage.
    pub stage: Stage,
    /// When a sweep first found it.
    pub first_seen: Timestamp,
}

/// A finding that a decision sets aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetAside {
    /// The finding.
    pub finding: Finding,
    /// The decision that is in effect.
    pub decision: Decision,
}

/// A finding that no longer exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The id of the finding.
    #[serde(deserialize_with = "finding_kind::read_id")]
    pub id: String,
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The id of the resource.
    pub resource: String,
    /// The name; `None` when it has none.
    pub name: Option<String>,
    /// The owner; `None` when no tag named one.
    pub owner: Option<String>,
    /// The region.
    pub region: String,
    /// Whether it was measured or made by a generator.
    pub origin: Origin,
    /// When a sweep first found it.
    pub first_seen: Timestamp,
    /// The first sweep that evaluated the resource and did not find it.
    pub resolved_at: Timestamp,
    /// How it ended, as far as the inventory shows.
    pub ending: Ending,
    /// The saving; `None` if it is not known that costs went down.
    pub saved: Option<Saved>,
}

/// The saving of a resolved finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saved {
    /// The saving in a month, as of the last sweep that found it.
    #[serde(rename = "a_month_usd", alias = "a_month")]
    pub a_month: Usd,
    /// The source of that price.
    pub basis: PriceBasis,
    /// The saving since the finding was resolved, for as long as it stayed resolved.
    #[serde(rename = "so_far_usd", alias = "so_far")]
    pub so_far: Usd,
}

/// History of the findings in a report. Empty for a scan, which has neither earlier sweeps nor
/// decisions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct History {
    /// The stage of each finding, by its id.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub life: BTreeMap<String, Standing>,
    /// The assignee of each finding that has one, by its id.
    #[serde(
        deserialize_with = "finding_kind::read_by_id",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub assigned: BTreeMap<String, Assignee>,
    /// Findings that decisions set aside; the list of findings and the sums do not contain them.
    pub set_aside: Vec<SetAside>,
    /// Findings that were resolved in the last 30 days, the newest first.
    pub resolved: Vec<Resolved>,
    /// Number of resolved findings that are not listed.
    pub resolved_left_out: usize,
    /// The saving so far of all resolved findings with a known saving.
    #[serde(rename = "saved_so_far_usd", alias = "saved_so_far")]
    pub saved_so_far: Usd,
    /// The sums of earlier reports, the oldest first.
    pub trend: Vec<Past>,
}

/// All known findings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lives {
    /// By the id of the finding.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub known: BTreeMap<String, Life>,
    /// Number of findings that exceeded the maximum, over all sweeps.
    pub left_out: u64,
}

impl Lives {
    /// Updates the history with a new report. Findings that decisions set aside move from the
    /// report's findings and sums to its history.
    pub fn advance(
        &mut self,
        report: &mut Report,
        (inventory, catalogue): (&Inventory, &Catalogue),
        decisions: &Decisions,
    ) {
        let now = report.at;
        let mut history = History::default();
        let mut findings = Vec::with_capacity(report.findings.len());
        for mut finding in std::mem::take(&mut report.findings) {
            let decision = decisions.holding(&finding.id, now);
            let standing = self.meet(&finding, decision, inventory, now);
            let life = self.known.get(&finding.id);
            if let Some(since) = life.and_then(|life| life.since) {
                finding.extend_to_first_sweep(since);
            }
            if let Some(observed) = life.and_then(|life| life.observed) {
                finding.extend_to_observed(observed);
            }
            history.life.insert(finding.id.clone(), standing);
            if let Some(assignee) = decisions.assignees.get(&finding.id) {
                history
                    .assigned
                    .insert(finding.id.clone(), assignee.clone());
            }
            match decision {
                None => findings.push(finding),
                Some(decision) => history.set_aside.push(SetAside {
                    finding,
                    decision: decision.clone(),
                }),
            }
        }
        report.findings = findings;
        savings::count_once(&mut report.findings, &report.shared_costs);
        report.totals.sum_up(&report.findings);
        self.resolve(&history, report, (inventory, catalogue));
        self.forget(inventory, now);
        history.take_resolved(self, now);
        report.history = history;
    }

    /// Updates the history of one finding and returns its stage.
    fn meet(
        &mut self,
        finding: &Finding,
        decision: Option<&Decision>,
        inventory: &Inventory,
        now: Timestamp,
    ) -> Standing {
        self.take_over(finding);
        let price = Price::from_finding(finding);
        let aside = decision.is_some();
        let Some(life) = self.known.get_mut(&finding.id) else {
            match self.known.len() < MAX_LIVES {
                true => {
                    let mut life = Life::new(finding, inventory, now);
                    life.set_aside = aside;
                    self.known.insert(finding.id.clone(), life);
                }
                false => self.left_out += 1,
            }
            return Standing {
                stage: stage_of(decision).unwrap_or(Stage::New),
                first_seen: now,
            };
        };
        let was_aside = std::mem::replace(&mut life.set_aside, aside);
        let back = life.resolved.take().is_some();
        if back {
            life.since = Some(now);
        }
        let grew = life.price_at_stage.grew_to(&price);
        let stage = match stage_of(decision) {
            Some(aside) => aside,
            None if back => Stage::Reopened,
            None if was_aside => Stage::Due,
            None if grew => Stage::Grown,
            None => Stage::Ongoing,
        };
        if stage != Stage::Ongoing {
            life.price_at_stage = price;
        }
        life.see(finding, inventory, now);
        Standing {
            stage,
            first_seen: life.first_seen,
        }
    }

    /// Continues a history that an earlier release stored under an id without the account, under
    /// the id with the account. Otherwise the finding would count as resolved, perhaps with a
    /// saving, although nothing ended.
    fn take_over(&mut self, finding: &Finding) {
        let resource = &finding.resource;
        let before = Finding::id_of(finding.kind, &resource.region, &resource.id);
        let is_its =
            |life: &Life| AccountId::may_be_one(life.account.as_ref(), resource.account.as_ref());
        if self.known.contains_key(&finding.id) || !self.known.get(&before).is_some_and(is_its) {
            return;
        }
        if let Some(life) = self.known.remove(&before) {
            self.known.insert(finding.id.clone(), life);
        }
    }

    /// Resolves findings that the sweep evaluated again without finding them. Findings that it
    /// could not evaluate stay open.
    fn resolve(
        &mut self,
        found: &History,
        report: &Report,
        (inventory, catalogue): (&Inventory, &Catalogue),
    ) {
        for (id, life) in &mut self.known {
            let ending = life.ending(inventory);
            let changed = (ending == Ending::StillThere)
                .then(|| life.changed_type(inventory, catalogue))
                .flatten();
            if let Some(resolution) = &mut life.resolved {
                match changed {
                    // The machine was stopped to change its type.
                    Some(changed) if resolution.ending == Ending::Stopped => {
                        resolution.changed(changed);
                    }
                    _ if ending == Ending::StillThere => resolution.paid_again(report.at),
                    _ => {}
                }
            } else if !found.life.contains_key(id)
                && life.is_in_scope(inventory)
                && was_evaluated(life, report, (ending, changed))
            {
                let mut resolution = Resolution::new(life.kind, ending, report.at);
                if let Some(changed) = changed {
                    resolution.changed(changed);
                }
                life.resolved = Some(resolution);
            }
        }
    }

    /// Forgets findings that were resolved long ago, and those that no sweep evaluates any more.
    fn forget(&mut self, inventory: &Inventory, now: Timestamp) {
        let kept = SignedDuration::from_hours(24 * RESOLVED_KEPT_DAYS);
        let oldest = now.saturating_sub(kept).unwrap_or(Timestamp::MIN);
        self.known.retain(|_, life| match &life.resolved {
            Some(resolved) => resolved.at >= oldest,
            None => life.last_seen >= oldest || life.is_in_scope(inventory),
        });
    }
}

impl History {
    fn take_resolved(&mut self, lives: &Lives, now: Timestamp) {
        let mut resolved: Vec<Resolved> = lives
            .known
            .iter()
            .filter_map(|(id, life)| life.as_resolved(id, now))
            .collect();
        resolved.sort_by(|a, b| (b.resolved_at, &a.id).cmp(&(a.resolved_at, &b.id)));
        let saved = resolved.iter().filter_map(|one| one.saved);
        self.saved_so_far = saved.map(|saved| saved.so_far).sum();
        self.resolved_left_out = resolved.len().saturating_sub(MAX_RESOLVED);
        resolved.truncate(MAX_RESOLVED);
        self.resolved = resolved;
    }

    /// Number of findings at a stage.
    pub fn at_stage(&self, stage: Stage) -> usize {
        self.life.values().filter(|one| one.stage == stage).count()
    }

    /// Number of findings that the sweep at `now` resolved.
    pub fn resolved_at(&self, now: Timestamp) -> usize {
        let fresh = self.resolved.iter().filter(|one| one.resolved_at == now);
        fresh.count()
    }
}

fn stage_of(decision: Option<&Decision>) -> Option<Stage> {
    decision.map(|decision| match decision.verb {
        Verb::Dismiss => Stage::Dismissed,
        Verb::Snooze => Stage::Snoozed,
    })
}

/// Whether the sweep could have found the finding again. A call that failed matters if it lists the
/// resource. If the inventory does not show that the resource ended, the calls for the resources
/// that use it matter too.
fn was_evaluated(
    life: &Life,
    report: &Report,
    (ending, changed): (Ending, Option<ChangedType>),
) -> bool {
    // If the policy exempts one kind of finding on a resource, the other kinds were still evaluated.
    let is_of_another_kind = |one: &NotEvaluated| {
        let mut exempt = report.exempt.iter();
        one.rule != life.kind.slug()
            && exempt.any(|it| it.resource.id == one.resource && it.kind.slug() == one.rule)
    };
    let hides = |one: &NotEvaluated| one.resource == life.resource && !is_of_another_kind(one);
    let (account, region) = (life.account.as_ref(), life.region.as_str());
    let is_hidden = |gap: &Gap| match life.kind {
        _ if ending.is_over() || changed.is_some() => {
            gap.may_hide_from(account, region, life.thing.listed_by())
        }
        // These kinds compare prices of the market and list commitments.
        FindingKind::SpotCandidate | FindingKind::UnusedCommitment => gap.may_hide(account, region),
        _ => gap.may_hide_from(account, region, life.thing.evaluated_by()),
    };
    !report.not_evaluated.iter().any(hides) && !report.gaps.iter().any(is_hidden)
}
