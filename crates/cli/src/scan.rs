//! `ebb scan`: gathers, judges, writes. Which account that is, the kept one or the
//! user's, is all that differs.

#[cfg(feature = "aws")]
mod aws;
mod explain;
#[cfg(feature = "gcp")]
mod gcp;
mod metrics;
#[cfg(any(feature = "aws", feature = "gcp"))]
mod progress;

#[cfg(feature = "aws")]
pub(crate) use aws::connect;

use std::path::Path;

use anyhow::{Context, Result};
use ebb_domain::judge::Explanation;
use ebb_domain::policy::{Policy, StatedPrice};
use ebb_domain::report::Report;
use ebb_sweep::gather::Account;
use ebb_sweep::render::{self, Look};
use ebb_sweep::scan::explained;

use crate::args::{Format, ScanArgs};
use crate::demo;
use crate::output::{self, Outcome};

pub(crate) fn run(args: &ScanArgs) -> Result<Outcome> {
    let mut policy = match &args.policy {
        Some(path) => crate::policy::read(path)?,
        None => Policy::default(),
    };
    policy
        .prices
        .extend(args.price_per_hour.map(StatedPrice::of_all));
    let (report, explanation) = runtime()?.block_on(async {
        match &args.metrics {
            Some(file) => metrics::scan(file, args.explain.as_deref(), &policy),
            None if args.demo => of_demo(args, &policy).await,
            None => match &args.gcp {
                Some(project) => of_project(args, project, &policy).await,
                None => of_account(args, &policy).await,
            },
        }
    })?;
    let output = args.output.as_deref();
    if let Some(explanation) = explanation {
        let text = explain::written(&explanation, format(args.format, output))?;
        output::write(&text, output)?;
        return Ok(Outcome::Done);
    }
    let look = match output {
        Some(_) => Look::PLAIN,
        None => output::look(),
    };
    output::write(
        &rendered(&report, format(args.format, output), &look),
        output,
    )?;
    Ok(match args.exit_code && !report.findings.is_empty() {
        true => Outcome::Waste,
        false => Outcome::Done,
    })
}

/// One thread is enough for waiting.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("cannot start")
}

/// A report, and how the verdict about the resource asked for came about.
type Scanned = (Report, Option<Explanation>);

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
    let asked = args.explain.as_deref();
    Ok(explained(&account, &demo.known, (policy, demo.now), asked).await)
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
    anyhow::bail!(
        "this program was built without Google Cloud; build it with, in the repository:\n  \
         cargo run --release -p ebb-cli --features gcp -- scan --gcp PROJECT"
    )
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "the same shape as with the feature")]
async fn of_account(_: &ScanArgs, _: &Policy) -> Result<Scanned> {
    anyhow::bail!(
        "this program was built without AWS, so it can scan only the account that is kept in \
         it: ebb scan --demo\nTo scan your own, build it with AWS, in the repository:\n  \
         {BUILD_WITH_AWS} -- scan"
    )
}

/// How a program that knows AWS is built and run.
#[cfg(not(feature = "aws"))]
pub(crate) const BUILD_WITH_AWS: &str = "cargo run --release -p ebb-cli --features aws";

/// As told, else as the file's ending tells.
fn format(told: Option<Format>, output: Option<&Path>) -> Format {
    let ending = || output?.extension()?.to_str();
    told.unwrap_or_else(|| match ending() {
        Some("html" | "htm") => Format::Html,
        Some("json") => Format::Json,
        Some("csv") => Format::Csv,
        Some("md") => Format::Markdown,
        Some("sarif") => Format::Sarif,
        _ => Format::Table,
    })
}

fn rendered(report: &Report, format: Format, look: &Look) -> String {
    match format {
        Format::Table => render::table(report, look),
        Format::Json => render::json(report),
        Format::Html => render::html(report),
        Format::Csv => render::csv(report),
        Format::Markdown => render::markdown(report),
        Format::Focus => render::focus(report),
        Format::Sarif => render::sarif(report),
    }
}

#[cfg(test)]
mod tests;
