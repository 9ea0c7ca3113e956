//! One step: its requests next to its use, the advice with its evidence, and text to paste.

use axum::extract::State;
use axum::response::Response;
use ebb_model::advice::offer::Offered;
use ebb_model::advice::step::StepAdvice;
use ebb_report::reason_codes::Reasons;
use ebb_report::step_advice;
use ebb_telemetry::safe_text::one_line;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::HumanDuration;
use ebb_workflows::export::{Form, TextOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extract::{Moment, Name, Query, Shared};
use crate::pages::csv_table;
use crate::pages::findings::FindingRow;
use crate::pages::pager::{Link, given};
use crate::pages::steps::{StepRow, link_to};
use crate::pages::tasks;
use crate::pages::tasks::TaskTable;
use crate::pages::value_text::{When, name, thousandths};
use crate::pages::view::{Sheet, View, segment};
use crate::problem::Problem;
use crate::steps::is_in;

/// The name of a step.
#[derive(Deserialize)]
pub(crate) struct StepPath(String);

/// Which step of this name, and which of its tasks.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepPart {
    region: Option<String>,
    account: Option<String>,
    page: Option<usize>,
    format: Option<String>,
}

#[derive(Serialize)]
struct StepPage {
    name: String,
    /// Steps of this name in several regions or accounts; the page then lists them.
    several: Vec<StepRow>,
    advice: Option<AdvicePage>,
    tasks: TaskTable,
}

#[derive(Serialize)]
struct AdvicePage {
    row: StepRow,
    /// Whether another request is recommended.
    is_changed: bool,
    /// Whether any amount is recommended, changed or not.
    is_sized: bool,
    last_seen: When,
    samples: u32,
    bars: Vec<ResourceBars>,
    reasons: Vec<&'static str>,
    confidence: String,
    evidence: Vec<String>,
    assumed: Vec<String>,
    failures: Vec<String>,
    offers: Vec<OfferRow>,
    texts: Vec<PasteText>,
    finding: Option<FindingRow>,
}

/// A requested resource: the request, the peak and the recommendation.
#[derive(Serialize)]
struct ResourceBars {
    resource: &'static str,
    bars: Vec<(&'static str, Option<String>, Option<u32>)>,
}

/// A machine type for the step.
#[derive(Serialize)]
struct OfferRow {
    instance_type: String,
    market: String,
    per_hour: String,
    wall: String,
    usd_a_task: String,
    saving: Option<String>,
    is_present: bool,
}

/// Text for an engine or tool.
#[derive(Serialize)]
struct PasteText {
    form: &'static str,
    title: &'static str,
    text: String,
    /// Whether the form is of the engine that runs the step.
    is_first: bool,
}

/// One step.
pub(crate) async fn step(
    Name(StepPath(step)): Name<StepPath>,
    Query(part): Query<StepPart>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let (region, account) = (given(part.region.as_ref()), given(part.account.as_ref()));
    let steps = step_advice::steps(&view.report);
    let is_wanted = |one: &&StepAdvice| one.step == step && is_in(one, region, account);
    let wanted: Vec<&StepAdvice> = steps.iter().filter(is_wanted).collect();
    let list = tasks::of_step(&store, &step, moment).await?;
    if wanted.is_empty() && list.is_none() {
        return Err(Problem::Target {
            what: "step",
            detail: format!("The newest report has no step '{step}'. /steps lists all steps."),
        });
    }
    if csv_table::is_wanted(part.format.as_ref())? {
        return tasks::csv(list.as_ref(), view.report.at);
    }
    let link = match wanted[..] {
        [one] => link_to(one),
        _ => Link::new(format!("/steps/{}", segment(&step))),
    };
    let several = match wanted.len() {
        0 | 1 => Vec::new(),
        _ => wanted.iter().map(|one| StepRow::from(*one)).collect(),
    };
    let content = StepPage {
        name: name(&step),
        advice: match wanted[..] {
            [one] => Some(AdvicePage::from_step(one, &view)),
            _ => None,
        },
        several,
        tasks: TaskTable::from_list(list.as_ref(), view.report.at, (part.page, &link)),
    };
    let own = format!("/steps/{}", segment(&step));
    let json = match content.advice {
        Some(_) => Link::new(format!("/v1{own}/recommendation"))
            .with("region", region.map(String::as_str))
            .with("account", account.map(String::as_str)),
        None => Link::new(format!("/v1{own}/tasks")),
    };
    Ok(view.render(Sheet {
        template: "step.html",
        title: format!("Step {}", name(&step)),
        section: "steps",
        json: Some(json.to_string()),
        csv: Some(Link::new(own).with("format", Some("csv")).to_string()),
        content,
    }))
}

impl AdvicePage {
    fn from_step(step: &StepAdvice, view: &View) -> Self {
        let reasons = Reasons::from_step(step);
        let by_id = view.findings_by_id();
        let finding = step.finding.as_deref().and_then(|id| by_id.get(id));
        let offers = step
            .offers
            .now
            .iter()
            .map(|offer| OfferRow::from_offer(offer, true));
        let others = step.offers.best.iter().chain(&step.offers.spot);
        let others = others.map(|offer| OfferRow::from_offer(offer, false));
        Self {
            row: step.into(),
            is_changed: step.asks != step.should_ask,
            is_sized: step.should_ask.cores.is_some() || step.should_ask.memory.is_some(),
            last_seen: step.last_seen.into(),
            samples: step.samples,
            bars: bars(step),
            reasons: reasons
                .reason_codes
                .iter()
                .map(|code| code.words())
                .collect(),
            confidence: reasons.confidence.to_string(),
            evidence: reasons.evidence.iter().map(|line| one_line(line)).collect(),
            assumed: reasons.assumed.iter().map(|line| one_line(line)).collect(),
            failures: step.failures.iter().map(ToString::to_string).collect(),
            offers: offers.chain(others).collect(),
            texts: texts(step),
            finding: finding.map(|finding| FindingRow::from_finding(finding, &view.report)),
        }
    }
}

/// Request, use and recommendation, each as a share of the greatest of them.
fn bars(step: &StepAdvice) -> Vec<ResourceBars> {
    let (asks, should) = (&step.asks, &step.should_ask);
    let cores = |cores: Option<ebb_telemetry::units::MilliCores>| {
        cores.map(|cores| (format!("{cores} cores"), cores.as_cores()))
    };
    let memory = |bytes: Option<ebb_telemetry::units::Bytes>| {
        bytes.map(|bytes| (bytes.to_string(), bytes.0 as f64))
    };
    let resource = |resource, values: [(&'static str, Option<(String, f64)>); 3]| {
        let amounts = values.iter().filter_map(|(_, value)| value.as_ref());
        let greatest = amounts.map(|(_, amount)| *amount).fold(0.0, f64::max);
        let bars = values.into_iter().map(|(words, value)| {
            let bar = thousandths(value.as_ref().map(|(_, amount)| *amount), Some(greatest));
            (words, value.map(|(text, _)| text), bar)
        });
        ResourceBars {
            resource,
            bars: bars.collect(),
        }
    };
    vec![
        resource(
            "Cores",
            [
                ("Request", cores(asks.cores)),
                ("Mean use", cores(step.mean_cores)),
                ("Recommended", cores(should.cores)),
            ],
        ),
        resource(
            "Memory",
            [
                ("Request", memory(asks.memory)),
                ("Peak use", memory(step.peak_memory)),
                ("Recommended", memory(should.memory)),
            ],
        ),
    ]
}

impl OfferRow {
    fn from_offer(offer: &Offered, is_present: bool) -> Self {
        Self {
            instance_type: offer.instance_type.to_string(),
            market: offer.market.to_string(),
            per_hour: offer.per_hour.to_string(),
            wall: HumanDuration(offer.wall).to_string(),
            usd_a_task: offer.usd_a_run.to_string(),
            saving: offer.saves_a_run.map(|usd| usd.to_string()),
            is_present,
        }
    }
}

/// The forms with requests, the form of the engine that runs the step first.
fn texts(step: &StepAdvice) -> Vec<PasteText> {
    let first = match step.kind {
        StepKind::NextflowTask => Form::Nextflow,
        StepKind::SnakemakeJob => Form::Snakemake,
        StepKind::SlurmJob => Form::Slurm,
        _ => Form::Batch,
    };
    let title = |form| match form {
        Form::Nextflow => "Nextflow",
        Form::Snakemake => "Snakemake",
        Form::Slurm => "Slurm",
        Form::Batch => "AWS Batch",
        _ => "Terraform",
    };
    let forms = [
        Form::Nextflow,
        Form::Snakemake,
        Form::Slurm,
        Form::Batch,
        Form::Terraform,
    ];
    let options = TextOptions::default();
    let write = |form: Form| PasteText {
        form: form.slug(),
        title: title(form),
        text: form.write(std::slice::from_ref(step), options),
        is_first: form == first,
    };
    let mut texts: Vec<PasteText> = forms.into_iter().map(write).collect();
    texts.sort_by_key(|text| !text.is_first);
    texts
}
