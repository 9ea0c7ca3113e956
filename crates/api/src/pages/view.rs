//! Renders pages: the frame that all pages share, and their templates.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::response::{Html, IntoResponse, Response};
use ebb_model::finding::Finding;
use ebb_model::report::{Report, Totals};
use ebb_report::html::code;
use ebb_report::page::SIMULATED_MEANS;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text;
use http::header::{CACHE_CONTROL, ETAG};
use http::request::Parts;
use minijinja::value::Serde;
use minijinja::{Environment, Value, escape_formatter};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use crate::extract::{Newest, SetAsideFindings};
use crate::findings::with_decisions;
use crate::pages::assets;
use crate::pages::value_text::When;
use crate::store::{SetAside, Store};

/// The newest report with the decisions about its findings.
pub(crate) struct View {
    pub(crate) report: Arc<Report>,
    pub(crate) set_aside: Arc<SetAside>,
    /// Changes with the report and with decisions.
    pub(crate) version: String,
    /// How often an open page asks for the version.
    refresh: Duration,
}

impl FromRequestParts<Arc<Store>> for View {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, store: &Arc<Store>) -> Result<Self, Response> {
        let newest = Newest::from_request_parts(parts, store).await?;
        let SetAsideFindings(set_aside) =
            SetAsideFindings::from_request_parts(parts, store).await?;
        Ok(Self {
            version: with_decisions(&newest.version, &set_aside),
            report: newest.report,
            set_aside,
            refresh: store.refresh,
        })
    }
}

/// A page without its frame.
pub(crate) struct Sheet<T> {
    /// The template.
    pub(crate) template: &'static str,
    /// The title of the browser window.
    pub(crate) title: String,
    /// The entry of the navigation.
    pub(crate) section: &'static str,
    /// The address of the same data as JSON; `None` if the API has none.
    pub(crate) json: Option<String>,
    /// The address of the same data as CSV; `None` for a page without a list.
    pub(crate) csv: Option<String>,
    pub(crate) content: T,
}

/// A page with its frame.
#[derive(Serialize)]
struct Frame<'a, T> {
    title: &'a str,
    section: &'a str,
    script: &'static str,
    style: &'static str,
    json: Option<String>,
    csv: Option<String>,
    /// `None` for a page that does not show a report.
    version: Option<&'a str>,
    /// How often the page asks for the version.
    poll_seconds: Option<u64>,
    at: Option<When>,
    simulated: Option<&'static str>,
    page: T,
}

impl View {
    /// The findings that no decision sets aside, by id.
    pub(crate) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.report.findings.iter();
        findings.filter(|finding| !self.set_aside.contains(&finding.id))
    }

    /// These findings by id.
    pub(crate) fn findings_by_id(&self) -> HashMap<&str, &Finding> {
        let findings = self.findings();
        findings
            .map(|finding| (finding.id.as_str(), finding))
            .collect()
    }

    /// The totals of the findings that no decision sets aside.
    pub(crate) fn totals(&self) -> Cow<'_, Totals> {
        let report = &self.report;
        match self.findings().count() == report.findings.len() {
            true => Cow::Borrowed(&report.totals),
            false => Cow::Owned(report.totals.of_part(self.findings())),
        }
    }

    /// The page as an answer.
    pub(crate) fn render<T: Serialize>(&self, sheet: Sheet<T>) -> Response {
        let [script, style] = assets::names();
        let simulated = self.report.origin == Origin::Simulated;
        html(
            sheet.template,
            &Frame {
                title: &sheet.title,
                section: sheet.section,
                script,
                style,
                json: sheet.json.map(|path| for_browsers(&path)),
                csv: sheet.csv,
                version: Some(&self.version),
                poll_seconds: Some(self.refresh.as_secs()),
                at: Some(When::from(self.report.at)),
                simulated: simulated.then_some(SIMULATED_MEANS),
                page: sheet.content,
            },
        )
    }
}

/// The path of the same answer that a browser with a cookie may read.
fn for_browsers(path: &str) -> String {
    match path.strip_prefix("/v1/") {
        Some(rest) => format!("/data/{rest}"),
        None => path.to_owned(),
    }
}

/// A page about a problem.
pub(crate) fn problem(title: &str, detail: &str) -> Response {
    #[derive(Serialize)]
    struct Content<'a> {
        detail: &'a str,
    }
    let [script, style] = assets::names();
    html(
        "problem.html",
        &Frame {
            title,
            section: "",
            script,
            style,
            json: None,
            csv: None,
            version: None,
            poll_seconds: None,
            at: None,
            simulated: None,
            page: Content { detail },
        },
    )
}

/// The text with the hash of its content; a browser asks each time whether it changed.
fn html(template: &str, frame: &impl Serialize) -> Response {
    let text = fill(template, frame);
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let headers = [
        (CACHE_CONTROL, "private, no-cache".to_owned()),
        (ETAG, format!("\"{:016x}\"", hasher.finish())),
    ];
    (headers, Html(text)).into_response()
}

const TEMPLATES: [(&str, &str); 16] = [
    ("costs.html", include_str!("templates/costs.html")),
    ("finding.html", include_str!("templates/finding.html")),
    ("findings.html", include_str!("templates/findings.html")),
    ("frame.html", include_str!("templates/frame.html")),
    ("node.html", include_str!("templates/node.html")),
    ("nodes.html", include_str!("templates/nodes.html")),
    ("overview.html", include_str!("templates/overview.html")),
    ("parts.html", include_str!("templates/parts.html")),
    ("probes.html", include_str!("templates/probes.html")),
    ("problem.html", include_str!("templates/problem.html")),
    ("run.html", include_str!("templates/run.html")),
    ("runs.html", include_str!("templates/runs.html")),
    ("search.html", include_str!("templates/search.html")),
    ("step.html", include_str!("templates/step.html")),
    ("steps.html", include_str!("templates/steps.html")),
    ("task_table.html", include_str!("templates/task_table.html")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.add_filter("code", code);
    environment.add_filter("segment", segment);
    environment.set_formatter(|out, state, value| escape_formatter(out, state, &harmless(value)));
    for (name, source) in TEMPLATES {
        environment
            .add_template(name, source)
            .expect("the templates are compiled in and tested");
    }
    environment
});

/// The same value without characters that control a terminal or change the writing direction: a page
/// may be copied into one, and names come from tags that anyone may have written.
fn harmless(value: &Value) -> Cow<'_, Value> {
    match value.as_str().map(safe_text::lines) {
        None | Some(Cow::Borrowed(_)) => Cow::Borrowed(value),
        Some(Cow::Owned(text)) if value.is_safe() => Cow::Owned(Value::from_safe_string(text)),
        Some(Cow::Owned(text)) => Cow::Owned(Value::from(text)),
    }
}

fn fill(template: &str, frame: &impl Serialize) -> String {
    ENVIRONMENT
        .get_template(template)
        .and_then(|found| found.render(Serde(frame)))
        .expect("a page has every field that its template names")
}

/// Text as one segment of a path or as a value in a query.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
