//! Names in the place of `--lake`.

use anyhow::{Context, Result, bail};
use ebb_analysis::step_history::name_explanation::NameExplanation;
use ebb_cloud::documents::task_records::{self, Pushed, RETENTION};
use ebb_cloud::store::StoreObjects;
use ebb_notify::digest::Channels;
use ebb_report::zone::Zone;
use ebb_sweep::run;
use ebb_sweep::standalone::account_without_cloud;
use ebb_telemetry::safe_text::{self, counted, one_line};
use ebb_workflows::import::task_names::{NameCounts, NameSettings, TaskNames};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::args::names::{ExplainArgs, NamesFormat, PushArgs};
use crate::deployment;
use crate::import::{ImportProgress, InputFile};
use crate::output::{self, Outcome};
use crate::sweep;

/// The most tasks that are explained.
const MAX_TASKS: usize = 20;

pub(super) fn push(args: &PushArgs) -> Result<Outcome> {
    let now = Timestamp::now();
    let mut names = TaskNames::new(NameSettings {
        run: args.run.clone(),
        pipeline: args.pipeline.clone(),
        not_before: now.saturating_sub(RETENTION)?,
        now,
    });
    let mut progress = ImportProgress::new();
    let (mut failed, mut skipped) = (0, 0);
    for path in &args.files {
        let file = InputFile::open(path);
        let read = file.and_then(|file| {
            file.read(args.kind, &mut progress, |source, bytes, show| {
                names.read(source, bytes, show)
            })
        });
        match read {
            Ok(bad_lines) => skipped += bad_lines,
            Err(error) => {
                progress.clear();
                eprintln!("ebb: {}: {error:#}", path.display());
                failed += 1;
            }
        }
    }
    for note in names.notes() {
        eprintln!("ebb: {note}");
    }
    let counts = names.counts();
    let records = names.finish();
    let outcome = match failed {
        0 => Outcome::Done,
        _ => Outcome::Failed,
    };
    // A timer also runs when no job ran.
    if records.is_empty() && (failed > 0 || counts == NameCounts::default() && skipped > 0) {
        bail!("no name could be read");
    }
    let pushed = match records.is_empty() {
        true => None,
        false => Some(crate::runtime::runtime()?.block_on(async {
            deployment::tell_new_folder(&args.lake);
            let objects = StoreObjects::open(&args.lake)?;
            let pushed = task_records::push(&objects, records, now).await;
            pushed.with_context(|| format!("failed to store names in {}", args.lake))
        })?),
    };
    if let Some(warning) = pushed.as_ref().and_then(|pushed| pushed.warning.as_ref()) {
        eprintln!("ebb: the names are stored, but old names could not be deleted: {warning}");
    }
    let text = match args.format {
        NamesFormat::Table => push_text(pushed.as_ref(), counts, &args.lake),
        NamesFormat::Json => json_text(&push_json(pushed.as_ref(), counts, skipped))?,
    };
    output::print(&text)?;
    Ok(outcome)
}

fn push_text(pushed: Option<&Pushed>, counts: NameCounts, lake: &str) -> String {
    let Some(pushed) = pushed else {
        return format!(
            "No names to store: of {}, {} ended more than 14 days ago and {} did not start.\n",
            records(counts.read),
            counts.old,
            counts.not_started
        );
    };
    let place = one_line(lake);
    let mut text = match pushed.is_repeated {
        true => format!(
            "The names of {} were stored in {place} before.\n",
            records(pushed.records as u64)
        ),
        false => format!(
            "Stored the names of {} in {place} as {}.\n",
            records(pushed.records as u64),
            pushed.key
        ),
    };
    let left_out = [
        (pushed.left_out as u64, "exceed the limit of a push"),
        (counts.old, "ended more than 14 days ago"),
        (counts.not_started, "did not start"),
    ];
    for (count, why) in left_out.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("Left out: {count} that {why}.\n"));
    }
    text
}

fn records(count: u64) -> String {
    counted(
        usize::try_from(count).unwrap_or(usize::MAX),
        "record",
        "records",
    )
}

fn push_json(pushed: Option<&Pushed>, counts: NameCounts, skipped: u64) -> Value {
    json!({
        "schema": "ebb.names_push/1",
        "key": pushed.map(|pushed| &pushed.key),
        "stored": pushed.map_or(0, |pushed| pushed.records),
        "is_repeated": pushed.is_some_and(|pushed| pushed.is_repeated),
        "read": counts.read,
        "left_out_old": counts.old,
        "left_out_not_started": counts.not_started,
        "left_out_limit": pushed.map_or(0, |pushed| pushed.left_out),
        "skipped_lines": skipped,
        "deleted_objects": pushed.map_or(0, |pushed| pushed.deleted),
        "merged_objects": pushed.map_or(0, |pushed| pushed.merged),
    })
}

fn json_text(value: &Value) -> Result<String> {
    let text = serde_json::to_string_pretty(value).context("failed to write JSON")?;
    Ok(format!("{}\n", safe_text::json(&text)))
}

pub(super) fn explain(args: &ExplainArgs, zone: &Zone) -> Result<Outcome> {
    deployment::check_folder(&args.lake)?;
    let (explained, gaps) = crate::runtime::runtime()?.block_on(async {
        let (site, config) = sweep::open(&args.lake, args.policy.as_deref()).await?;
        let ports = site.ports(account_without_cloud(None), Channels::default());
        let wanted = (args.task.as_str(), MAX_TASKS);
        let explained = run::explain_task(&ports, &config, wanted, Timestamp::now()).await;
        anyhow::Ok(explained?)
    })?;
    for gap in &gaps {
        eprintln!("ebb: {}: {}", gap.scope, gap.reason);
    }
    if explained.is_empty() {
        bail!(
            "no task {} in the state or in the lake\n  name it by its id, as in `ebb runs RUN --format json`; `ebb sweep` reads the newest data of the probes",
            one_line(&args.task)
        );
    }
    let text = match args.format {
        NamesFormat::Table => explained.iter().map(|one| task_text(one, zone)).collect(),
        NamesFormat::Json => json_text(&json!({
            "schema": "ebb.names/1",
            "tasks": explained,
        }))?,
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn task_text(one: &NameExplanation, zone: &Zone) -> String {
    let mut text = format!(
        "{} on {}, {}: step {} by {}\n",
        one_line(&one.task),
        one.node,
        span(zone, one.from, one.until),
        one_line(&one.step),
        one.source
    );
    for source in &one.sources {
        let step = source.step.as_deref().map_or("-".to_owned(), one_line);
        text.push_str(&format!("  {:<16}{step}\n", source.source));
    }
    for record in &one.records {
        text.push_str(&format!(
            "  {}: {}, {}\n",
            record.source,
            record.name.as_str(),
            span(zone, record.from, record.until)
        ));
    }
    if one.records_disagree {
        text.push_str("  The records name different steps, so they are not used.\n");
    }
    text
}

fn span(zone: &Zone, from: Timestamp, until: Timestamp) -> String {
    format!("{} to {}", zone.minute(from), zone.minute(until))
}
