//! `ebb tune pipeline|environment|node NAME`.

use anyhow::{Context, Result, bail, ensure};
use ebb_model::advice::step::StepAdvice;
use ebb_model::report::Report;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::node::NodeAdvice;
use ebb_report::zone::Zone;

use ebb_telemetry::tags::PIPELINE_TAG;
use ebb_workflows::export::GroupSubject;
use serde_json::{Value, json};

use crate::args::{Form, TuneFormat};
use crate::output::{self, Outcome};
use ebb_report::{group_text, step_advice};
use ebb_workflows::export;

/// The most names that an error lists if a name does not exist.
const MAX_NAMES: usize = 20;

pub(super) fn run(
    report: &Report,
    (what, name): (&str, &str),
    form: &Form,
    zone: &Zone,
) -> Result<Outcome> {
    let all = &report.targets;
    match what {
        "pipeline" => groups(report, (what, name), &all.pipelines, (form, zone)),
        "environment" => groups(report, (what, name), &all.environments, (form, zone)),
        "node" => node(report, name, form),
        other => {
            bail!("unknown kind '{other}' of {name}: expected pipeline, environment or node")
        }
    }?;
    Ok(Outcome::Done)
}

fn groups(
    report: &Report,
    (what, name): (&str, &str),
    all: &[GroupAdvice],
    (form, zone): (&Form, &Zone),
) -> Result<()> {
    let wanted: Vec<&GroupAdvice> = all.iter().filter(|group| group.name == name).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = all
            .iter()
            .take(MAX_NAMES)
            .map(|g| g.name.as_str())
            .collect();
        let how = match what {
            "pipeline" => {
                format!(" (the tag {PIPELINE_TAG} of a job or machine names its pipeline)")
            }
            _ => String::new(),
        };
        bail!(
            "no {what} '{name}' in the report{how}\n  available: {}",
            names.join(", ")
        );
    }
    match form.format.text() {
        Some(text) => write_texts(report, what, &wanted, (text, form)),
        None if form.format == TuneFormat::Json => {
            write_json(form, &json!({"schema": "ebb.tune/2", "groups": wanted}))
        }
        None => write(form, |terminal| {
            let each = wanted
                .iter()
                .map(|group| group_text::group(group, (terminal, report.at), zone));
            each.collect::<Vec<_>>().join("\n")
        }),
    }
}

/// Writes the text of a group. Groups with the same name in several regions or accounts follow one
/// after the other.
fn write_texts(
    report: &Report,
    what: &str,
    wanted: &[&GroupAdvice],
    (text, form): (export::Form, &Form),
) -> Result<()> {
    let mut texts = Vec::new();
    for group in wanted {
        let steps = steps(report, &[group]);
        let subject = match what {
            "environment" => GroupSubject::Environment(group),
            _ => GroupSubject::Pipeline(group),
        };
        let written = text.write_group(subject, &steps, form.options());
        let written = written.with_context(|| {
            format!(
                "failed to write machine types for {what} {} in {}",
                group.name, group.region
            )
        })?;
        texts.push(written);
    }
    let is_list = text.is_json() && texts.len() > 1;
    let written = match is_list {
        true => format!("[\n{}]\n", texts.join(",\n")),
        false => texts.concat(),
    };
    output::write(&written, form.output.as_deref())
}

/// The steps of groups, for their recommendations.
fn steps(report: &Report, groups: &[&GroupAdvice]) -> Vec<StepAdvice> {
    let all = step_advice::steps(report);
    let is_of = |step: &&StepAdvice| {
        groups.iter().any(|group| {
            (step.region.as_ref(), &step.account) == (Some(&group.region), &group.account)
                && group.steps.iter().any(|member| member.step == step.step)
        })
    };
    all.iter().filter(is_of).cloned().collect()
}

fn node(report: &Report, name: &str, form: &Form) -> Result<()> {
    let all = &report.targets.nodes;
    let named = |node: &&NodeAdvice| node.node == name || node.name.as_deref() == Some(name);
    let wanted: Vec<&NodeAdvice> = all.iter().filter(named).collect();
    let ids: Vec<&str> = all
        .iter()
        .take(MAX_NAMES)
        .map(|node| node.node.as_str())
        .collect();
    ensure!(
        !wanted.is_empty(),
        "no running node '{name}' with a probe in the report\n  available: {}",
        ids.join(", ")
    );
    match form.format {
        TuneFormat::Table => write(form, |terminal| {
            let each = wanted
                .iter()
                .map(|node| group_text::node(node, (terminal, report.at)));
            each.collect::<Vec<_>>().join("\n")
        }),
        TuneFormat::Json => write_json(form, &json!({"schema": "ebb.tune/2", "nodes": wanted})),
        _ => bail!("unsupported format for a node: expected --format table or json"),
    }
}

fn write(form: &Form, text: impl Fn(Option<usize>) -> String) -> Result<()> {
    let output = form.output.as_deref();
    let terminal = match output {
        Some(_) => None,
        None => output::terminal_style().columns,
    };
    output::write(&text(terminal), output)
}

fn write_json(form: &Form, value: &Value) -> Result<()> {
    output::write(&output::json(value), form.output.as_deref())
}
