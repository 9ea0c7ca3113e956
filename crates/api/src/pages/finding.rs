//! One finding: what is wrong, the evidence, what to do, and the decision about it.

use axum::extract::State;
use axum::response::Response;
use ebb_cloud::documents::decisions;
use ebb_model::decision::{Decision, Verb};
use ebb_model::finding::Finding;
use ebb_model::finding_kind::current_id;
use ebb_report::page::card::Card;
use ebb_report::zone::Zone;
use serde::{Deserialize, Serialize};

use crate::extract::{Moment, Name, Query, Shared};
use crate::openapi::NoParameters;
use crate::pages::value_text::{When, name};
use crate::pages::view::{Sheet, View, segment};
use crate::problem::Problem;

/// The id of a finding.
#[derive(Deserialize)]
pub(crate) struct FindingPath(String);

#[derive(Serialize)]
struct FindingPage {
    id: String,
    /// The start of the paths that decide about it.
    action: String,
    card: Card,
    first_seen: Option<When>,
    window: [When; 2],
    /// The page of its node, and its name.
    node: Option<String>,
    steps: Vec<TaskLink>,
    tags: Vec<(String, String)>,
    decision: Option<DecisionWords>,
    /// Whether the decisions could be read.
    is_decision_known: bool,
    /// Whether the finding is no longer in the list.
    is_aside: bool,
}

/// A task of the finding.
#[derive(Serialize)]
struct TaskLink {
    step: String,
    node: String,
    key: String,
}

/// A decision as text.
#[derive(Serialize)]
struct DecisionWords {
    verb: &'static str,
    by: String,
    reason: String,
    at: When,
    until: Option<When>,
}

impl From<&Decision> for DecisionWords {
    fn from(decision: &Decision) -> Self {
        Self {
            verb: match decision.verb {
                Verb::Dismiss => "Dismissed",
                Verb::Snooze => "Snoozed",
            },
            by: name(&decision.by),
            reason: name(&decision.reason),
            at: decision.at.into(),
            until: decision.until.map(When::from),
        }
    }
}

/// One finding.
pub(crate) async fn finding(
    Name(FindingPath(id)): Name<FindingPath>,
    Query(NoParameters {}): Query<NoParameters>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let id = current_id(&id).into_owned();
    let report = &view.report;
    let aside = report.history.set_aside.iter().map(|aside| &aside.finding);
    let mut known = report.findings.iter().chain(aside);
    let finding = known.find(|known| known.id == id);
    let finding = finding.ok_or_else(|| Problem::Target {
        what: "finding",
        detail: format!("The newest report has no finding '{id}'. /findings lists all findings."),
    })?;
    let decisions = decisions::load(&*store.objects).await;
    if let Err(error) = &decisions {
        tracing::warn!(%error, "failed to read the decisions");
    }
    let decision = decisions.as_ref().ok().and_then(|all| {
        let decision = all.findings.get(&id)?;
        decision.holds_at(moment.at).then(|| decision.into())
    });
    let content = FindingPage::from_finding(finding, &view, decision, decisions.is_ok());
    let title = format!("{}: {}", content.card.kind, content.card.title);
    Ok(view.render(Sheet {
        template: "finding.html",
        title,
        section: "findings",
        json: Some(format!("/v1/findings/{}", segment(&finding.id))),
        csv: None,
        content,
    }))
}

impl FindingPage {
    fn from_finding(
        finding: &Finding,
        view: &View,
        decision: Option<DecisionWords>,
        is_decision_known: bool,
    ) -> Self {
        let report = &view.report;
        let greatest = report.findings.iter().map(Finding::saving_or_zero).max();
        let resource = &finding.resource;
        let is_node = |id: &String| report.nodes.iter().any(|node| node.id == *id);
        let node = resource
            .node
            .iter()
            .chain([&resource.id])
            .find(|id| is_node(id));
        let standing = report.history.life.get(&finding.id);
        let task = |step: &ebb_model::finding::StepLink| TaskLink {
            step: step.name.clone(),
            node: step.node.clone(),
            key: name(&step.id.key),
        };
        Self {
            id: finding.id.clone(),
            action: format!("/findings/{}", segment(&finding.id)),
            card: Card::from_finding(finding, report, greatest.unwrap_or_default(), &Zone::utc()),
            first_seen: standing.map(|standing| standing.first_seen.into()),
            window: [finding.window.from.into(), finding.window.to.into()],
            node: node.cloned(),
            steps: finding.steps.iter().map(task).collect(),
            tags: (resource.tags.iter())
                .map(|(key, value)| (name(key), name(value)))
                .collect(),
            is_aside: decision.is_some() || view.set_aside.contains(&finding.id),
            decision,
            is_decision_known,
        }
    }
}
