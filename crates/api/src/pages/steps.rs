//! The list of steps: requests next to use.

use axum::response::Response;
use ebb_model::advice::step::StepAdvice;
use ebb_report::page::card::request;
use ebb_report::page::money::sum;
use ebb_report::step_advice;
use ebb_telemetry::identity::{AccountId, Region};
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::units::{HumanDuration, Share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Query, passes};
use crate::pages::csv_table;
use crate::pages::findings::{Choice, choices, is_in_any};
use crate::pages::pager::{Link, Pager, given};
use crate::pages::value_text::name;
use crate::pages::view::{Sheet, View, segment};
use crate::problem::Problem;
use crate::steps::is_in;

/// Filters of the list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepFilter {
    region: Option<String>,
    account: Option<String>,
    owner: Option<String>,
    q: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

/// One step as a row.
#[derive(Serialize)]
pub(crate) struct StepRow {
    pub(crate) name: String,
    pub(crate) link: String,
    region: Option<String>,
    account: Option<String>,
    owner: Option<String>,
    tasks: u32,
    failed: u32,
    oom_kills: u32,
    mean: Option<String>,
    asks: String,
    should_ask: String,
    cores_used: Option<String>,
    cores_bar: Option<u32>,
    memory_used: Option<String>,
    memory_bar: Option<u32>,
    limited_by: Option<String>,
    saving: Option<String>,
    finding: Option<String>,
}

impl From<&StepAdvice> for StepRow {
    fn from(step: &StepAdvice) -> Self {
        let bar = |share: Share| (share.as_f64() * 1000.0).clamp(0.0, 1000.0) as u32;
        let bound = &step.bound;
        Self {
            name: name(&step.step),
            link: link_to(step).to_string(),
            region: step.region.as_ref().map(ToString::to_string),
            account: step.account.as_ref().map(ToString::to_string),
            owner: step.owner.as_deref().map(name),
            tasks: step.runs,
            failed: step.failed,
            oom_kills: step.oom_kills,
            mean: step.mean_wall.map(|wall| HumanDuration(wall).to_string()),
            asks: request(step.asks),
            should_ask: request(step.should_ask),
            cores_used: bound.cores_used.map(|share| share.to_string()),
            cores_bar: bound.cores_used.map(bar),
            memory_used: bound.memory_used.map(|share| share.to_string()),
            memory_bar: bound.memory_used.map(bar),
            limited_by: bound.by.map(|by| by.to_string()),
            saving: saving(step),
            finding: step.finding.clone(),
        }
    }
}

/// The saving in a month; `None` when unknown.
pub(crate) fn saving(step: &StepAdvice) -> Option<String> {
    match (step.saving_a_month, step.saving_at_most_a_month) {
        (None, None) => None,
        (known, bound) => Some(sum(known.unwrap_or_default(), bound.unwrap_or_default())),
    }
}

/// The page of a step. Its region and account make the name unique.
pub(crate) fn link_to(step: &StepAdvice) -> Link {
    Link::new(format!("/steps/{}", segment(&step.step)))
        .with("region", step.region.as_ref().map(Region::as_str))
        .with("account", step.account.as_ref().map(AccountId::as_str))
}

#[derive(Serialize)]
struct Steps {
    headline: String,
    rows: Vec<StepRow>,
    pager: Pager,
    regions: Vec<Choice>,
    accounts: Vec<Choice>,
    owners: Vec<Choice>,
    q: String,
    is_filtered: bool,
    left_out: usize,
}

impl StepFilter {
    fn is_wanted(&self, step: &StepAdvice) -> bool {
        let (region, account) = (given(self.region.as_ref()), given(self.account.as_ref()));
        is_in(step, region, account)
            && passes(given(self.owner.as_ref()), step.owner.as_deref())
            && given(self.q.as_ref())
                .is_none_or(|text| is_in_any(text, [step.step.as_str()].into_iter()))
    }

    fn link(&self, path: &str) -> Link {
        Link::new(path)
            .with("region", self.region.as_deref())
            .with("account", self.account.as_deref())
            .with("owner", self.owner.as_deref())
    }
}

/// The list of steps.
pub(crate) async fn steps(
    Query(filter): Query<StepFilter>,
    view: View,
) -> Result<Response, Problem> {
    let report = &view.report;
    let all = step_advice::steps(report);
    let wanted: Vec<&StepAdvice> = all.iter().filter(|step| filter.is_wanted(step)).collect();
    if csv_table::is_wanted(filter.format.as_ref())? {
        return csv(&wanted);
    }
    let link = filter.link("/steps").with("q", filter.q.as_deref());
    let headline = counted(wanted.len(), "step", "steps");
    let (rows, pager) = Pager::cut(wanted, ("page", filter.page), &link);
    let content = Steps {
        headline,
        rows: rows.into_iter().map(StepRow::from).collect(),
        pager,
        regions: choices(
            all.iter()
                .filter_map(|step| step.region.as_ref().map(Region::as_str)),
            given(filter.region.as_ref()),
        ),
        accounts: choices(
            all.iter()
                .filter_map(|step| step.account.as_ref().map(AccountId::as_str)),
            given(filter.account.as_ref()),
        ),
        owners: choices(
            all.iter().filter_map(|step| step.owner.as_deref()),
            given(filter.owner.as_ref()),
        ),
        is_filtered: link.to_string() != "/steps",
        q: filter.q.clone().unwrap_or_default(),
        left_out: report.steps_left_out,
    };
    Ok(view.render(Sheet {
        template: "steps.html",
        title: "Steps".to_owned(),
        section: "steps",
        json: Some(filter.link("/v1/steps").to_string()),
        csv: Some(link.with("format", Some("csv")).to_string()),
        content,
    }))
}

fn csv(steps: &[&StepAdvice]) -> Result<Response, Problem> {
    let columns = [
        "step",
        "account",
        "region",
        "owner",
        "tasks",
        "failed",
        "oom_kills",
        "requested_cores",
        "recommended_cores",
        "requested_memory_bytes",
        "peak_memory_bytes",
        "recommended_memory_bytes",
        "saving_a_month_usd",
        "saving_at_most_a_month_usd",
        "finding",
    ];
    let rows = steps.iter().map(|step| {
        let (asks, should) = (&step.asks, &step.should_ask);
        let cores = |cores: Option<ebb_telemetry::units::MilliCores>| {
            cores.map(|cores| cores.as_cores().to_string())
        };
        let bytes =
            |bytes: Option<ebb_telemetry::units::Bytes>| bytes.map(|bytes| bytes.0.to_string());
        let usd = |usd: Option<ebb_telemetry::money::Usd>| usd.map(|usd| usd.to_rounded(6));
        [
            Some(step.step.clone()),
            step.account.as_ref().map(ToString::to_string),
            step.region.as_ref().map(ToString::to_string),
            step.owner.clone(),
            Some(step.runs.to_string()),
            Some(step.failed.to_string()),
            Some(step.oom_kills.to_string()),
            cores(asks.cores),
            cores(should.cores),
            bytes(asks.memory),
            bytes(step.peak_memory),
            bytes(should.memory),
            usd(step.saving_a_month),
            usd(step.saving_at_most_a_month),
            step.finding.clone(),
        ]
    });
    csv_table::table(columns, rows)
}
