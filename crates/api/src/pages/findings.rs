//! The list of findings with filters.

use std::collections::BTreeSet;

use axum::response::Response;
use ebb_model::finding::Finding;
use ebb_model::finding_history::Stage;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_report::page::money::{bounded, headline};
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::origin::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Query, passes};
use crate::pages::csv_table;
use crate::pages::pager::{Link, Pager, given};
use crate::pages::value_text::name;
use crate::pages::view::{Sheet, View};
use crate::problem::Problem;

/// Most owners, regions and accounts that a filter offers.
const MAX_CHOICES: usize = 200;

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindingFilter {
    kind: Option<String>,
    owner: Option<String>,
    region: Option<String>,
    account: Option<String>,
    q: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

/// One finding as a row.
#[derive(Serialize)]
pub(crate) struct FindingRow {
    id: String,
    kind: String,
    slug: &'static str,
    title: String,
    owner: Option<String>,
    region: String,
    /// `None` without a known price.
    saving: Option<String>,
    /// Whether the kind has a saving.
    is_waste: bool,
    /// The text in place of the saving.
    without_saving: &'static str,
    stage: Option<&'static str>,
    confidence: String,
    evidence: String,
    simulated: bool,
}

impl FindingRow {
    pub(crate) fn from_finding(finding: &Finding, report: &Report) -> Self {
        let resource = &finding.resource;
        let standing = report.history.life.get(&finding.id);
        let changed = standing.filter(|standing| standing.stage != Stage::Ongoing);
        let cost = finding.cost.as_ref();
        Self {
            id: finding.id.clone(),
            kind: finding.label(),
            slug: finding.kind.slug(),
            title: name(resource.name.as_ref().unwrap_or(&resource.id)),
            owner: resource.owner.as_deref().map(name),
            region: resource.region.to_string(),
            saving: cost.map(|cost| bounded(cost.saving_a_month, cost.basis.is_bound())),
            is_waste: finding.kind.is_waste(),
            without_saving: finding.kind.without_saving(),
            stage: changed.map(|standing| standing.stage.word()),
            confidence: finding.confidence.level.to_string(),
            evidence: name(&finding.evidence.to_string()),
            simulated: resource.origin == Origin::Simulated,
        }
    }
}

#[derive(Serialize)]
struct Findings {
    headline: String,
    rows: Vec<FindingRow>,
    pager: Pager,
    kinds: Vec<Choice>,
    owners: Vec<Choice>,
    regions: Vec<Choice>,
    accounts: Vec<Choice>,
    q: String,
    is_filtered: bool,
    /// Number of findings that a decision sets aside.
    set_aside: Vec<AsideRow>,
}

/// A finding that a decision sets aside.
#[derive(Serialize)]
struct AsideRow {
    id: String,
    kind: String,
    title: String,
    decision: Option<String>,
}

/// An entry of a filter.
#[derive(Serialize)]
pub(crate) struct Choice {
    value: String,
    text: String,
    chosen: bool,
}

/// The entries of a filter. A chosen value that no row has is an entry, too.
pub(crate) fn choices<'a>(
    values: impl Iterator<Item = &'a str>,
    chosen: Option<&String>,
) -> Vec<Choice> {
    let mut all: BTreeSet<&str> = values.collect();
    while all.len() > MAX_CHOICES {
        all.pop_last();
    }
    all.extend(chosen.map(String::as_str));
    all.into_iter()
        .map(|value| Choice {
            value: value.to_owned(),
            text: name(value),
            chosen: chosen.is_some_and(|chosen| chosen == value),
        })
        .collect()
}

impl FindingFilter {
    fn kind(&self) -> Result<Option<FindingKind>, Problem> {
        let Some(slug) = given(self.kind.as_ref()) else {
            return Ok(None);
        };
        let mut kinds = FindingKind::ALL.iter();
        let kind = kinds.find(|kind| kind.slug() == slug).copied();
        let unknown = || Problem::Query(format!("there is no kind of finding '{slug}'."));
        kind.map(Some).ok_or_else(unknown)
    }

    fn is_wanted(&self, finding: &Finding, kind: Option<FindingKind>) -> bool {
        let resource = &finding.resource;
        let account = resource.account.as_ref().map(AccountId::as_str);
        kind.is_none_or(|kind| kind == finding.kind)
            && passes(given(self.owner.as_ref()), resource.owner.as_deref())
            && passes(given(self.region.as_ref()), Some(resource.region.as_str()))
            && passes(given(self.account.as_ref()), account)
            && given(self.q.as_ref()).is_none_or(|text| contains(finding, text))
    }

    fn link(&self, path: &str) -> Link {
        Link::new(path)
            .with("kind", self.kind.as_deref())
            .with("owner", self.owner.as_deref())
            .with("region", self.region.as_deref())
            .with("account", self.account.as_deref())
    }
}

/// Whether a text is in the names of a finding.
pub(crate) fn contains(finding: &Finding, text: &str) -> bool {
    let resource = &finding.resource;
    let texts = [
        Some(&finding.id),
        Some(&resource.id),
        resource.name.as_ref(),
        resource.node.as_ref(),
        resource.owner.as_ref(),
    ];
    is_in_any(text, texts.into_iter().flatten().map(String::as_str))
}

/// Whether a text is in one of these, in any letter case.
pub(crate) fn is_in_any<'a>(text: &str, mut all: impl Iterator<Item = &'a str>) -> bool {
    let text = text.to_lowercase();
    all.any(|one| one.to_lowercase().contains(&text))
}

/// The list of findings.
pub(crate) async fn findings(
    Query(filter): Query<FindingFilter>,
    view: View,
) -> Result<Response, Problem> {
    let kind = filter.kind()?;
    let report = &view.report;
    let wanted: Vec<&Finding> = view
        .findings()
        .filter(|finding| filter.is_wanted(finding, kind))
        .collect();
    let totals = report.totals.of_part(wanted.iter().copied());
    if csv_table::is_wanted(filter.format.as_ref())? {
        let part = Report {
            findings: wanted.into_iter().cloned().collect(),
            ..report.part(|_| false)
        };
        return csv_table::file(ebb_report::csv::csv(&part));
    }
    let headline = headline(&totals, wanted.iter().copied());
    let link = filter.link("/findings").with("q", filter.q.as_deref());
    let (rows, pager) = Pager::cut(wanted, ("page", filter.page), &link);
    let resources = || report.findings.iter().map(|finding| &finding.resource);
    let accounts = resources().filter_map(|resource| resource.account.as_ref());
    let content = Findings {
        headline,
        rows: rows
            .into_iter()
            .map(|finding| FindingRow::from_finding(finding, report))
            .collect(),
        pager,
        kinds: kinds(report, kind),
        owners: choices(
            resources().filter_map(|resource| resource.owner.as_deref()),
            given(filter.owner.as_ref()),
        ),
        regions: choices(
            resources().map(|resource| resource.region.as_str()),
            given(filter.region.as_ref()),
        ),
        accounts: choices(
            accounts.map(AccountId::as_str),
            given(filter.account.as_ref()),
        ),
        is_filtered: link.to_string() != "/findings",
        q: filter.q.clone().unwrap_or_default(),
        set_aside: set_aside(&view),
    };
    Ok(view.render(Sheet {
        template: "findings.html",
        title: "Findings".to_owned(),
        section: "findings",
        json: Some(filter.link("/v1/findings").to_string()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

fn kinds(report: &Report, chosen: Option<FindingKind>) -> Vec<Choice> {
    let mut kinds: BTreeSet<FindingKind> =
        report.findings.iter().map(|finding| finding.kind).collect();
    kinds.extend(chosen);
    kinds
        .into_iter()
        .map(|kind| Choice {
            value: kind.slug().to_owned(),
            text: kind.to_string(),
            chosen: chosen == Some(kind),
        })
        .collect()
}

/// The findings that decisions set aside: those of the report, and those of newer decisions.
fn set_aside(view: &View) -> Vec<AsideRow> {
    let row = |finding: &Finding, decision| AsideRow {
        id: finding.id.clone(),
        kind: finding.label(),
        title: name(
            finding
                .resource
                .name
                .as_ref()
                .unwrap_or(&finding.resource.id),
        ),
        decision,
    };
    let newer = view.report.findings.iter();
    let newer = newer.filter(|finding| view.set_aside.contains(&finding.id));
    let older = view.report.history.set_aside.iter().map(|aside| {
        let decision = &aside.decision;
        let text = format!("{}: {}", name(&decision.by), name(&decision.reason));
        row(&aside.finding, Some(text))
    });
    let all = newer.map(|finding| row(finding, None)).chain(older);
    all.take(crate::pages::pager::ROWS).collect()
}
