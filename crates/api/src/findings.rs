//! Findings as the report has them, and as recommendations with their reasons.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ebb_model::advice::step::StepAdvice;
use ebb_model::confidence::Confidence;
use ebb_model::cost::Cost;
use ebb_model::decision::{Assignee, Decision};
use ebb_model::finding::{Finding, Recommendation, Resource};
use ebb_model::finding_history::{Resolved, Stage};
use ebb_model::finding_kind::{FindingKind, current_id};
use ebb_model::report::{Report, Totals};
use ebb_report::optimization_hub::Hub;
use ebb_report::reason_codes::Reasons;
use ebb_report::step_advice;
use ebb_telemetry::identity::AccountId;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Head, OfReport, PageOfReport, Paged};
use crate::extract::{Name, Newest, Page, Query, SetAsideFindings, is_owned_by, passes};
use crate::openapi::NoParameters;
use crate::problem::Problem;
use crate::store::SetAside;

/// Filters of findings.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindingQuery {
    #[serde(flatten)]
    page: Page,
    /// Only in this region
    region: Option<String>,
    /// Only in this account
    account: Option<String>,
    /// Only of this kind
    kind: Option<FindingKind>,
    /// Only of this owner; `-` means without an owner
    owner: Option<String>,
}

impl FindingQuery {
    /// The findings that pass the filters and are not set aside, with their totals: those of the
    /// report if the list is complete.
    fn select<'a>(
        &self,
        report: &'a Report,
        set_aside: &SetAside,
    ) -> (Vec<&'a Finding>, Cow<'a, Totals>) {
        let wanted: Vec<&Finding> = (report.findings.iter())
            .filter(|finding| !set_aside.contains(&finding.id) && self.is_wanted(finding))
            .collect();
        let is_set_aside = |finding: &Finding| set_aside.contains(&finding.id);
        let is_whole = !self.has_filter() && !report.findings.iter().any(is_set_aside);
        let totals = match is_whole {
            true => Cow::Borrowed(&report.totals),
            false => Cow::Owned(report.totals.of_part(wanted.iter().copied())),
        };
        (wanted, totals)
    }

    fn has_filter(&self) -> bool {
        let texts = [&self.region, &self.account, &self.owner];
        self.kind.is_some() || texts.into_iter().any(Option::is_some)
    }

    fn is_wanted(&self, finding: &Finding) -> bool {
        let resource = &finding.resource;
        let account = resource.account.as_ref().map(AccountId::as_str);
        passes(self.region.as_ref(), Some(resource.region.as_str()))
            && passes(self.account.as_ref(), account)
            && is_owned_by(self.owner.as_ref(), resource.owner.as_deref())
            && self.kind.is_none_or(|kind| kind == finding.kind)
    }
}

/// A finding with its assignee.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedFinding<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    /// The person who takes care of it, as of the newest sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<&'a Assignee>,
}

/// Lists findings. Findings that a decision sets aside are left out, also if the decision is newer
/// than the report.
pub(crate) async fn findings(
    Query(query): Query<FindingQuery>,
    newest: Newest,
    SetAsideFindings(set_aside): SetAsideFindings,
) -> Result<Answer<PageOfReport<'static, ListedFinding<'static>>>, Problem> {
    let report = &newest.report;
    let (wanted, totals) = query.select(report, &set_aside);
    let head = Head::new("ebb.findings/2", report).with_totals(totals);
    let paged = Paged::cut(&query.page, wanted, |finding| finding.id.clone())?;
    let assigned = &report.history.assigned;
    let part = paged.map(|finding| ListedFinding {
        finding,
        assignee: assigned.get(&finding.id),
    });
    Answer::json(
        &OfReport { head, part },
        &with_decisions(&newest.version, &set_aside),
    )
}

/// Lists the same findings as recommendations.
pub(crate) async fn recommendations(
    Query(query): Query<FindingQuery>,
    newest: Newest,
    SetAsideFindings(set_aside): SetAsideFindings,
) -> Result<Answer<PageOfReport<'static, Advice<'static>>>, Problem> {
    let report = &newest.report;
    let (wanted, totals) = query.select(report, &set_aside);
    let head = Head::new("ebb.recommendations/2", report).with_totals(totals);
    let steps = step_advice::steps(report);
    let by_finding: HashMap<&str, &StepAdvice> = (steps.iter())
        .filter_map(|step| Some((step.finding.as_deref()?, step)))
        .collect();
    let paged = Paged::cut(&query.page, wanted, |finding| finding.id.clone())?;
    let part = paged.map(|finding| {
        let step = by_finding.get(finding.id.as_str()).copied();
        Advice::new(finding, report.at, step)
    });
    Answer::json(
        &OfReport { head, part },
        &with_decisions(&newest.version, &set_aside),
    )
}

/// The id of a finding
#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindingParameter(#[schemars(length(min = 1))] String);

/// One finding with its history.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct FindingHistory<'a> {
    /// The finding as of the newest sweep; `None` if it is resolved.
    finding: Option<&'a Finding>,
    /// Its stage, such as new or grown; `None` without earlier sweeps, and if it is resolved.
    stage: Option<Stage>,
    /// When a sweep first found it; `None` without earlier sweeps.
    first_seen: Option<Timestamp>,
    /// The person who takes care of it.
    assignee: Option<&'a Assignee>,
    /// The decision that sets it aside, as of the newest sweep.
    decision: Option<&'a Decision>,
    /// Whether a decision sets it aside now, also if that is newer than the report.
    is_set_aside: bool,
    /// How it was resolved; `None` if it still exists.
    resolved: Option<&'a Resolved>,
}

/// One finding of the report, or one that was set aside or resolved in the last 30 days.
pub(crate) async fn finding(
    Name(FindingParameter(requested_id)): Name<FindingParameter>,
    Query(NoParameters {}): Query<NoParameters>,
    newest: Newest,
    SetAsideFindings(set_aside): SetAsideFindings,
) -> Result<Answer<OfReport<'static, FindingHistory<'static>>>, Problem> {
    let (report, id) = (&newest.report, current_id(&requested_id));
    let history = &report.history;
    let reported = report.findings.iter().find(|finding| finding.id == id);
    let aside = history.set_aside.iter().find(|one| one.finding.id == id);
    let resolved = history.resolved.iter().find(|one| one.id == id);
    let finding = reported.or(aside.map(|one| &one.finding));
    if finding.is_none() && resolved.is_none() {
        return Err(Problem::Finding(requested_id));
    }
    let standing = history.life.get(&*id).filter(|_| finding.is_some());
    let part = FindingHistory {
        finding,
        stage: standing.map(|standing| standing.stage),
        first_seen: (standing.map(|standing| standing.first_seen))
            .or(resolved.map(|one| one.first_seen)),
        assignee: history.assigned.get(&*id),
        decision: aside.map(|one| &one.decision),
        is_set_aside: set_aside.contains(&*id),
        resolved: resolved.filter(|_| finding.is_none()),
    };
    let head = Head::new("ebb.finding/1", report);
    Answer::json(
        &OfReport { head, part },
        &with_decisions(&newest.version, &set_aside),
    )
}

/// Answers about findings change with the report and with decisions.
pub(crate) fn with_decisions(of_report: &str, set_aside: &SetAside) -> String {
    if set_aside.is_empty() {
        return of_report.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    set_aside.hash(&mut hasher);
    format!("{}-{:016x}", of_report.trim_matches('"'), hasher.finish())
}

/// A finding as a recommendation with its reasons.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FindingAdvice")]
pub(crate) struct Advice<'a> {
    #[serde(flatten)]
    hub: Hub,
    /// The id of the finding.
    finding: &'a str,
    kind: FindingKind,
    resource: &'a Resource,
    /// The evidence in one line.
    evidence: String,
    confidence: &'a Confidence,
    cost: Option<&'a Cost>,
    advice: &'a str,
    /// The recommended request and machine; `None` if the remedy is another.
    recommendation: Option<&'a Recommendation>,
    /// The reasons, if it is about a step.
    reasons: Option<Reasons>,
}

impl<'a> Advice<'a> {
    pub(crate) fn new(finding: &'a Finding, at: Timestamp, step: Option<&StepAdvice>) -> Self {
        Self {
            hub: Hub::from_finding(finding, at),
            finding: &finding.id,
            kind: finding.kind,
            resource: &finding.resource,
            evidence: finding.evidence.to_string(),
            confidence: &finding.confidence,
            cost: finding.cost.as_ref(),
            advice: &finding.remedy.advice,
            recommendation: finding.recommendation.as_ref(),
            reasons: step.map(Reasons::from_step),
        }
    }
}
