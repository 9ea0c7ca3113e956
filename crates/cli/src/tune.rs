//! `ebb tune`: the present and recommended request of each step from a report, and the recommended
//! machines of a pipeline, a compute environment or a node.

mod target;

use std::fs;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use ebb_analysis::evaluate::Details;
use ebb_model::advice::spot_wish::SPOT_TYPES;
use ebb_model::advice::step::StepAdvice;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_report::page::price_ages::lines as price_ages;
use ebb_report::zone::Zone;
use ebb_sweep::collect::account::Account;

use ebb_report::step_advice::Reasoned;
use ebb_telemetry::safe_text;
use ebb_telemetry::safe_text::{counted, one_line};

use serde_json::json;

use crate::args::{Form, TuneArgs, TuneFormat};
use crate::demo;
use crate::deployment::{self, MAX_REPORT_BYTES, Source};
use crate::output::{self, Outcome};
use crate::step_names::find_steps;
use crate::text_file;
use ebb_report::{report_file, step_advice, step_table};
use ebb_workflows::export;

pub(crate) fn run(args: &TuneArgs, zone: &Zone) -> Result<Outcome> {
    let Some(report) = report(&deployment::source(&args.of)?)? else {
        refuse_file(args.step.as_deref())?;
        let outcome = needs_a_report("tune");
        eprintln!("or from records of Nextflow, Snakemake or Slurm:\n  ebb import trace.txt");
        return Ok(outcome);
    };
    if let Some((what, name)) = args.step.as_deref().zip(args.name.as_deref()) {
        return target::run(&report, (what, name), &args.form, zone);
    }
    let all = step_advice::steps(&report);
    let steps = match &args.step {
        Some(name) => find_steps(name, &all).or_else(|error| {
            refuse_file(Some(name))?;
            Err(with_left_out(error, report.steps_left_out))
        })?,
        None => all.to_vec(),
    };
    write_aged(&steps, &args.form, &price_ages(&report, zone))?;
    let wasteful = steps.iter().any(|step| step.finding.is_some());
    Ok(match args.exit_code && wasteful {
        true => Outcome::Waste,
        false => Outcome::Done,
    })
}

/// An unknown step may be one that the report leaves out.
fn with_left_out(error: Error, left_out: usize) -> Error {
    match left_out {
        0 => error,
        steps => anyhow!(
            "{error}\n  the report leaves out {} with smaller savings",
            counted(steps, "step", "steps")
        ),
    }
}

/// Fails if the name of a step is that of a file, which other arguments or commands read.
fn refuse_file(step: Option<&str>) -> Result<()> {
    match step.filter(|step| Path::new(step).is_file()) {
        Some(file) => {
            let file = one_line(file);
            bail!(
                "'{file}' is a file, not the name of a step\n  records of Nextflow, Snakemake or \
                 Slurm: ebb import {file}\n  a report: ebb tune --report {file}"
            )
        }
        None => Ok(()),
    }
}

/// The report that the arguments name; `None` if they name none.
pub(crate) fn report(source: &Source<'_>) -> Result<Option<Report>> {
    match source {
        Source::File(path) => read(path).map(Some),
        Source::Demo => of_demo(0).map(|(report, _)| Some(report)),
        Source::Deployment(target) => crate::runtime::runtime()?
            .block_on(async { deployment::open(target).await?.newest_report().await })
            .map(Some),
        Source::Missing => Ok(None),
    }
}

/// Prints the sources that a command requires if it has no report.
pub(crate) fn needs_a_report(command: &str) -> Outcome {
    eprintln!(
        "ebb: {command} needs a report\n\nfrom your account:\n  ebb scan --output report.json\n  \
         ebb {command} --report report.json\nfrom a deployment:\n  ebb {command} --bucket NAME\n  ebb \
         {command} --lake URL\n  ebb {command} --api URL\n  ebb init --bucket NAME, which makes it the default\nor from the built-in demo account:\n  ebb {command} --demo"
    );
    Outcome::Usage
}

/// Writes recommendations in the requested form.
pub(crate) fn write(steps: &[StepAdvice], form: &Form) -> Result<()> {
    write_aged(steps, form, &[])
}

/// The same; a table ends with the age of its prices.
fn write_aged(steps: &[StepAdvice], form: &Form, ages: &[String]) -> Result<()> {
    let output = form.output.as_deref();
    let terminal = match output {
        Some(_) => None,
        None => output::terminal_style().columns,
    };
    if form.format.text().is_some_and(export::Form::is_of_machines) {
        report_left_out(steps);
    }
    if let Some(folder) = output.filter(|output| output::is_folder(output)) {
        return write_documents(steps, form, folder);
    }
    let written = match form.format.text() {
        Some(text) => text.write(steps, form.options()),
        None if form.format == TuneFormat::Json => {
            let steps: Vec<Reasoned<'_>> = steps.iter().map(Reasoned::from).collect();
            let value = json!({"schema": "ebb.tune/2", "steps": steps});
            output::json(&value)
        }
        None => step_table::table(steps, terminal) + &aged(ages, terminal),
    };
    output::write(&written, output)
}

/// Steps on spot stay on spot, so they have no recommended machines if spot prices are unknown.
fn report_left_out(steps: &[StepAdvice]) {
    let offers = steps.iter().map(|step| &step.offers);
    let left_out = offers.filter(|offers| !offers.best.is_empty() && offers.offered().is_empty());
    match left_out.count() {
        0 => {}
        count => eprintln!(
            "ebb: skipped {} on spot; spot prices are known for fewer than {SPOT_TYPES} types",
            counted(count, "step", "steps")
        ),
    }
}

/// Writes one file for each JSON input of the AWS CLI.
fn write_documents(steps: &[StepAdvice], form: &Form, folder: &Path) -> Result<()> {
    let text = form.format.text();
    let documents = text.and_then(|text| text.documents(steps));
    let documents = documents.context(
        "--output must be a file for this format\n  a folder requires --format batch-environment, \
         launch-template or asg",
    )?;
    ensure!(
        !documents.is_empty(),
        "no step has a recommended machine type"
    );
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    for document in documents {
        let file = folder.join(format!("{}.json", document.name));
        output::write(&document.text(), Some(&file))?;
    }
    Ok(())
}

/// The age of prices as the last lines of a table, for a terminal of this many columns.
fn aged(ages: &[String], columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(usize::MAX);
    let paragraphs = ages.iter().map(|line| {
        let lines = safe_text::wrap(&format!("Prices: {line}"), columns);
        format!("\n{}\n", lines.join("\n"))
    });
    paragraphs.collect()
}

fn read(path: &Path) -> Result<Report> {
    let text = text_file::read(path, MAX_REPORT_BYTES)?;
    report_file::read(text.as_bytes()).with_context(|| format!("failed to read {}", path.display()))
}

/// The report of the demo account, with the details for pages, of a sweep so many minutes before its
/// fixed time.
pub(crate) fn of_demo(minutes: u64) -> Result<(Report, Details)> {
    let policy = Policy::default();
    let demo = demo::load_before(&policy, minutes)?;
    let account = Account {
        inventory: &demo.inventory,
        metrics: Some(&demo.metrics as _),
        bill: Some(&demo.bill as _),
        markets: None,
        prices: None,
        regions: &[],
    };
    let scan = ebb_sweep::scan::detailed(&account, &demo.known, (&policy, demo.now));
    Ok(crate::runtime::runtime()?.block_on(scan))
}
