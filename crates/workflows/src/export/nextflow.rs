//! Nextflow: `withName` selectors for `nextflow.config`.
//!
//! Source: "Configuration", Nextflow's documentation, and `matchesSelector` of 26.08. A selector is
//! a Java regular expression that must match the whole process name. Selectors for the qualified
//! name are applied last and so win.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::RangeInclusive;

use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_model::step_profile::failure::FailureKind;
use ebb_telemetry::step::StepKind;

use crate::export::request::{
    Change, RetryPolicy, changes_of, mib, minutes, nothing, origin_note, other_engine_note,
};

/// Exit statuses of signals that end a task (128 plus the signal's number), of a reset connection
/// and of a failed file system.
///
/// Source: `conf/base.config` of nf-core's pipeline template.
const SIGNALS: RangeInclusive<i64> = 130..=145;
const OTHERS: [i64; 2] = [104, 175];

/// Limit on further exit statuses that are retried.
const MAX_FURTHER: usize = 8;

/// A configuration for `-c`.
pub(super) fn nextflow(steps: &[StepAdvice], retry: RetryPolicy) -> String {
    let words = "that are no processes of Nextflow";
    let left_out = other_engine_note("//", steps, is_process, words);
    let changes = changes_of(steps, is_process);
    match changes.is_empty() {
        true => nothing("//") + &left_out,
        false => selectors(&changes, retry) + &left_out,
    }
}

fn is_process(step: &StepAdvice) -> bool {
    // The name of a pod contains its namespace.
    step.kind != StepKind::SnakemakeJob && !step.step.contains('/')
}

fn selectors(changes: &[Change<'_>], retry: RetryPolicy) -> String {
    let mut out = origin_note("//", changes);
    out.push_str("// Use it with: nextflow run PIPELINE -c FILE\n");
    out.push_str(match retry {
        RetryPolicy::Unchanged => {
            "// The errorStrategy and maxRetries of the pipeline decide which tasks are retried.\n"
        }
        RetryPolicy::Replaced => {
            "// errorStrategy and maxRetries replace those of the pipeline for these processes.\n"
        }
    });
    out.push_str("process {\n");
    for change in changes {
        selector(&mut out, change, retry);
    }
    out.push_str("}\n");
    out
}

fn selector(out: &mut String, change: &Change<'_>, retry: RetryPolicy) {
    if change.name_form == NameForm::NextflowJob {
        out.push_str(
            "    // From names of Slurm jobs, which contain '_' instead of ':'; the pattern \
             matches both.\n",
        );
    }
    for note in change.notes() {
        let _ = writeln!(out, "    // {note}");
    }
    let _ = writeln!(out, "    withName: '{}' {{", pattern(change));
    if let Some(cores) = change.new_cores() {
        let _ = writeln!(out, "        cpus = {cores}");
    }
    let sizes = change.new_sizes();
    if !sizes.is_empty() {
        let written = sizes.iter().map(|size| format!("{}.MB", mib(*size)));
        let _ = writeln!(
            out,
            "        memory = {{ [{}].get(Math.min(task.attempt, {}) - 1) }}",
            written.collect::<Vec<_>>().join(", "),
            sizes.len()
        );
    }
    if let Some(time) = time_of(change) {
        let _ = writeln!(out, "        time = {{ {time} }}");
    }
    if retry == RetryPolicy::Replaced {
        let retries = sizes
            .len()
            .saturating_sub(1)
            .max(change.retries as usize)
            .max(1);
        let retried = retried(change);
        let otherwise = if change.is_ignored {
            "ignore"
        } else {
            "finish"
        };
        let _ = writeln!(
            out,
            "        errorStrategy = {{ task.exitStatus in {retried} ? 'retry' : '{otherwise}' }}\n        \
             maxRetries = {retries}"
        );
    }
    out.push_str("    }\n");
}

/// The exit statuses that are retried: those of nf-core, and those that the pipeline retried in the
/// records. Nextflow sets the largest integer if a task has no exit status.
fn retried(change: &Change<'_>) -> String {
    let further = change.retried.iter().filter_map(|cause| match cause {
        (FailureKind::NoExitStatus, None) => Some("Integer.MAX_VALUE".to_owned()),
        (_, status) => {
            let known = |status: &i64| SIGNALS.contains(status) || OTHERS.contains(status);
            status
                .filter(|status| !known(status))
                .map(|status| status.to_string())
        }
    });
    let all: BTreeSet<String> = further.take(MAX_FURTHER).collect();
    let others = OTHERS.iter().map(i64::to_string).chain(all);
    let others: Vec<String> = others.collect();
    let (first, last) = (SIGNALS.start(), SIGNALS.end());
    format!("(({first}..{last}) + [{}])", others.join(", "))
}

/// An expression for the time limit; `None` if it stays. After a lower limit, a retry gets the
/// present one, which was enough.
fn time_of(change: &Change<'_>) -> Option<String> {
    let first = minutes(change.time?);
    Some(match change.time_before {
        Some(before) => format!(
            "task.attempt == 1 ? {first}.m : {}.m * (task.attempt - 1)",
            minutes(before)
        ),
        None => format!("{first}.m * task.attempt"),
    })
}

/// A Java regular expression in a Groovy string. Characters outside ASCII become `\u` escapes by
/// code unit, as both languages read them.
fn pattern(change: &Change<'_>) -> String {
    let mut out = String::with_capacity(change.name.len());
    let mut units = [0; 2];
    for c in change.name.chars() {
        match c {
            '_' if change.name_form == NameForm::NextflowJob => out.push_str("[_:]"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | ':' | ' ' => out.push(c),
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\\\\\"),
            '!'..='~' => {
                out.push_str("\\\\");
                out.push(c);
            }
            _ => {
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\\\u{unit:04x}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step;

    #[test]
    fn a_name_matches_itself_and_nothing_else() {
        let check = |name: &str, form: NameForm, expect: &str| {
            let mut step = step(name);
            step.name_form = form;
            let change = Change::new(&step).expect("it is to change");
            assert_eq!(pattern(&change), expect, "{name}");
        };
        let exact = |name, expect| check(name, NameForm::Exact, expect);
        exact("NFCORE_RNASEQ:FASTQC", "NFCORE_RNASEQ:FASTQC");
        exact("a.*", "a\\\\.\\\\*");
        exact("!x", "\\\\!x");
        exact("it's", "it\\'s");
        exact("a\\b", "a\\\\\\\\b");
        exact("${x}\n", "\\\\$\\\\{x\\\\}\\\\u000a");
        exact("é", "\\\\u00e9");
        let of_job = |name, expect| check(name, NameForm::NextflowJob, expect);
        of_job("NFCORE_RNASEQ_FASTQC", "NFCORE[_:]RNASEQ[_:]FASTQC");
        of_job("a.b_c", "a\\\\.b[_:]c");
    }
}
