//! `ebb scan`: collects, evaluates and writes the report, for the built-in demo account or the
//! user's account.

#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "gcp")]
mod gcp;
mod metrics;
#[cfg(feature = "fuzzing")]
pub(crate) use metrics::scan as scan_metrics;
#[cfg(any(feature = "aws", feature = "gcp"))]
mod progress;

use std::path::Path;

use anyhow::{Context, Result, bail};
use ebb_analysis::explain::Explanation;
use ebb_model::policy::Policy;
use ebb_model::policy::stated_price::StatedPrice;
use ebb_model::report::Report;
use ebb_telemetry::safe_text;

use ebb_report::terminal_style::TerminalStyle;
use ebb_report::zone::Zone;
use ebb_sweep::collect::account::Account;
use ebb_sweep::scan::explained;

use crate::args::{DeploymentArgs, Format, ScanArgs};
use crate::deployment::{self, DatedExplanation, Target};
use crate::output::{self, Outcome};
use crate::runtime::runtime;
use crate::{demo, explain, explanation};
use ebb_report::{csv, focus, html, json, markdown, sarif, table};

pub(crate) fn run(args: &ScanArgs, zone: &Zone) -> Result<Outcome> {
    let output = args.output.as_deref();
    // An invalid output name is refused before any request.
    let format = match format(args.format, output) {
        Ok(format) => format,
        Err(error) => {
            eprintln!("ebb: {error}");
            return Ok(Outcome::Usage);
        }
    };
    let mut policy = match &args.policy {
        Some(path) => crate::policy::read(path)?,
        None => Policy::default(),
    };
    policy
        .prices
        .extend(args.price_per_hour.map(StatedPrice::of_all));
    let place = (output, format);
    if let Some(target) = deployment_of(args)? {
        return of_deployment(args, &target, place, zone);
    }
    let (report, explanation) = runtime()?.block_on(async {
        match &args.metrics {
            Some(file) => {
                let file = (file.as_path(), args.percent);
                metrics::scan(file, args.explain.as_deref(), &policy).await
            }
            None if args.demo => of_demo(args, &policy).await,
            None => match &args.gcp {
                Some(project) => of_project(args, project, &policy).await,
                None => of_account(args, &policy).await,
            },
        }
    })?;
    match explanation {
        Some(explanation) => write_explanation(explanation.into(), place, zone),
        None => write_report(report, args, place, zone),
    }
}

/// The file of the output, if it is one, and its format.
type OutputForm<'a> = (Option<&'a Path>, Format);

fn terminal_style(output: Option<&Path>) -> TerminalStyle {
    match output {
        Some(_) => TerminalStyle::PLAIN,
        None => output::terminal_style(),
    }
}

fn write_explanation(
    explained: DatedExplanation,
    (output, format): OutputForm<'_>,
    zone: &Zone,
) -> Result<Outcome> {
    let text = explanation::written(&explained, (format, zone), terminal_style(output).columns)?;
    output::write(&text, output)?;
    Ok(Outcome::Done)
}

fn write_report(
    mut report: Report,
    args: &ScanArgs,
    (output, format): OutputForm<'_>,
    zone: &Zone,
) -> Result<Outcome> {
    args.select.selection().apply(&mut report);
    output::write(
        &rendered(&report, format, &terminal_style(output), zone),
        output,
    )?;
    Ok(match args.exit_code && !report.findings.is_empty() {
        true => Outcome::Waste,
        false => Outcome::Done,
    })
}

/// A report, and the explanation for the requested resource.
type Scanned = (Report, Option<Explanation>);

/// The deployment that the arguments name. A scan without one is of the account, also if the user
/// has a default deployment.
fn deployment_of(args: &ScanArgs) -> Result<Option<Target>> {
    let named = DeploymentArgs {
        bucket: args.bucket.clone(),
        lake: args.lake.clone(),
        api: args.api.clone(),
        deployment: args.deployment.clone(),
        region: args.account.region.first().cloned(),
        profile: args.account.profile.clone(),
    };
    match named.is_named() {
        true => deployment::deployment_of(&named).map(Some),
        false => Ok(None),
    }
}

/// Writes the newest report of a deployment, or an explanation from its data. An explanation needs
/// no report, so it also works before the first one.
fn of_deployment(
    args: &ScanArgs,
    target: &Target,
    place: OutputForm<'_>,
    zone: &Zone,
) -> Result<Outcome> {
    let runtime = runtime()?;
    if let Some(name) = &args.explain {
        let explained = runtime.block_on(explain::of_deployment(target, name))?;
        return write_explanation(explained, place, zone);
    }
    let report =
        runtime.block_on(async { deployment::open(target).await?.newest_report().await })?;
    write_report(report, args, place, zone)
}

/// Explains one resource of the built-in demo account.
pub(crate) async fn explain_demo(name: &str) -> Result<Explanation> {
    let policy = Policy::default();
    let demo = demo::load(&policy)?;
    let account = Account {
        inventory: &demo.inventory,
        metrics: Some(&demo.metrics),
        bill: Some(&demo.bill),
        markets: None,
        prices: None,
        regions: &[],
    };
    let when = (&policy, demo.now);
    let (_, explained) = explained(&account, &demo.known, when, Some(name)).await;
    explained.context("the demo account has no explanation")
}

async fn of_demo(args: &ScanArgs, policy: &Policy) -> Result<Scanned> {
    let demo = demo::load(policy)?;
    let account = Account {
        inventory: &demo.inventory,
        metrics: (!args.no_metrics).then_some(&demo.metrics as _),
        bill: (!args.account.no_bill).then_some(&demo.bill as _),
        markets: None,
        prices: None,
        regions: &args.account.region,
    };
    let resource = args.explain.as_deref();
    Ok(explained(&account, &demo.known, (policy, demo.now), resource).await)
}

#[cfg(feature = "aws")]
async fn of_account(args: &ScanArgs, policy: &Policy) -> Result<Scanned> {
    aws::scan(args, policy).await
}

#[cfg(feature = "gcp")]
async fn of_project(args: &ScanArgs, project: &str, policy: &Policy) -> Result<Scanned> {
    gcp::scan(args, project, policy).await
}

#[cfg(not(feature = "gcp"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn of_project(_: &ScanArgs, _: &str, _: &Policy) -> Result<Scanned> {
    bail!(
        "this program was built without Google Cloud\n  build it with Google Cloud, in the \
         repository: cargo run --release -p ebb-cli --features gcp -- scan --gcp PROJECT"
    )
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn of_account(_: &ScanArgs, _: &Policy) -> Result<Scanned> {
    bail!(
        "this program was built without AWS and can scan only the built-in demo account: ebb scan \
         --demo\n  build it with AWS, in the repository: {} -- scan",
        crate::BUILD_WITH_AWS
    )
}

/// The requested format, otherwise the format of the file's extension.
fn format(requested_format: Option<Format>, output: Option<&Path>) -> Result<Format> {
    if let Some(format) = requested_format {
        return Ok(format);
    }
    let extension = output.and_then(Path::extension);
    let Some(extension) = extension.map(|extension| extension.to_string_lossy()) else {
        return Ok(Format::Table);
    };
    Ok(match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => Format::Html,
        "json" => Format::Json,
        "csv" => Format::Csv,
        "md" | "markdown" => Format::Markdown,
        "sarif" => Format::Sarif,
        "txt" | "text" | "log" => Format::Table,
        _ => bail!(
            "unknown format for the extension .{extension}\n  use .html, .json, .csv, .md, .sarif \
             or .txt, or add --format"
        ),
    })
}

fn rendered(report: &Report, format: Format, style: &TerminalStyle, zone: &Zone) -> String {
    match format {
        Format::Table => table::table(report, style, zone),
        Format::Json => safe_text::json(&json::json(report)).into_owned(),
        Format::Html => html::html(report, zone),
        Format::Csv => csv::csv(report),
        Format::Markdown => markdown::markdown(report, zone),
        Format::Focus => focus::focus(report),
        Format::Sarif => safe_text::json(&sarif::sarif(report)).into_owned(),
    }
}

#[cfg(test)]
mod tests;
