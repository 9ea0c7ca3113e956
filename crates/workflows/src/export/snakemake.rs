//! Snakemake: a workflow profile with `set-threads` and `set-resources`.

use std::fmt::Write;
use std::time::Duration;

use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::safe_text::one_line;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::Bytes;

use crate::export::TextOptions;
use crate::export::request::{
    Change, RetryPolicy, changes_of, mib, minutes, nothing, origin_note, other_engine_note,
};

/// The `config.yaml` of a profile.
pub(super) fn snakemake(steps: &[StepAdvice], options: TextOptions) -> String {
    let left_out = other_engine_note("#", steps, is_rule, "that are no rules of Snakemake");
    let changes = changes_of(steps, is_rule);
    match changes.is_empty() {
        true => nothing("#") + &left_out,
        false => profile(&changes, options) + &left_out,
    }
}

/// Whether a step can be a rule, whose name is a Python identifier. Snakemake refuses a whole profile
/// with another name.
fn is_rule(step: &StepAdvice) -> bool {
    let is_letter = |c: char| c == '_' || c.is_alphabetic();
    step.kind != StepKind::NextflowTask
        && step.step.starts_with(is_letter)
        && step.step.chars().all(|c| is_letter(c) || c.is_numeric())
}

fn profile(changes: &[Change<'_>], options: TextOptions) -> String {
    let mut out = origin_note("#", changes);
    out.push_str(
        "# Snakemake uses only one workflow profile, and its sections replace those of --profile.\n\
         # If you have a profile, copy these lines into its set-threads and set-resources.\n\
         # Without a profile, save this as profiles/tuned/config.yaml and use it with:\n\
         # snakemake --workflow-profile profiles/tuned\n",
    );
    if changes.iter().any(has_resources) {
        out.push_str(match options.numbers_only {
            true => "# Snakemake 7 evaluates no expressions in a profile: retries have the same values.\n",
            false => "# It needs Snakemake 8 or later. For Snakemake 7, use `ebb import --snakefile`.\n",
        });
    }
    for change in changes {
        for note in change.notes() {
            let _ = writeln!(out, "# {}: {note}", one_line(change.name));
        }
    }
    let sizes = changes.iter().map(|change| change.new_sizes().len()).max();
    if let Some(sizes) = sizes.filter(|sizes| *sizes > 1 && !options.numbers_only) {
        let most_retries = changes.iter().map(|change| change.retries as usize).max();
        let retries = most_retries.unwrap_or(0).max(sizes - 1);
        let _ = match options.retry {
            RetryPolicy::Replaced => writeln!(out, "retries: {retries}"),
            RetryPolicy::Unchanged => writeln!(
                out,
                "# A retry gets more memory. Without `retries`, a rule is not retried; --with-retry \
                 sets {retries} for all rules."
            ),
        };
    }
    let section = |out: &mut String, head: &str, line: &dyn Fn(&Change<'_>) -> Option<String>| {
        let lines: Vec<String> = changes.iter().filter_map(line).collect();
        if !lines.is_empty() {
            let _ = writeln!(out, "{head}:\n{}", lines.join("\n"));
        }
    };
    section(&mut out, "set-threads", &|change| {
        Some(format!(
            "  {}: {}",
            quoted(change.name),
            change.new_cores()?
        ))
    });
    section(&mut out, "set-resources", &|change| {
        resources(change, options.numbers_only)
    });
    out
}

fn has_resources(change: &Change<'_>) -> bool {
    !change.new_sizes().is_empty() || change.time.is_some()
}

/// The resources of one rule; `None` if they stay unchanged.
fn resources(change: &Change<'_>, numbers_only: bool) -> Option<String> {
    let new = change.new_sizes();
    let memory = new.first().map(|first| match numbers_only {
        true => format!("\n    mem_mb: {}", mb(change, *first)),
        false => format!("\n    mem_mb: \"{}\"", sizes(change)),
    });
    let runtime = change.time.map(|time| match numbers_only {
        true => format!("\n    runtime: {}", minutes(time)),
        false => format!("\n    runtime: \"{}\"", runtime(time, change.time_before)),
    });
    let lines: Vec<String> = memory.into_iter().chain(runtime).collect();
    (!lines.is_empty()).then(|| format!("  {}:{}", quoted(change.name), lines.concat()))
}

/// An expression for the time limit in minutes. After a lower limit, a retry gets the present one,
/// which was enough.
fn runtime(limit: Duration, before: Option<Duration>) -> String {
    let first = minutes(limit);
    match before {
        Some(before) => format!(
            "{first} if attempt == 1 else {} * (attempt - 1)",
            minutes(before)
        ),
        None => format!("{first} * attempt"),
    }
}

/// An expression that Snakemake evaluates on each attempt.
fn sizes(change: &Change<'_>) -> String {
    let sizes = change.new_sizes().iter();
    let sizes: Vec<String> = sizes.map(|size| mb(change, *size).to_string()).collect();
    let many = sizes.len();
    format!("[{}][min(attempt, {many}) - 1]", sizes.join(", "))
}

/// Megabytes of a million bytes, as Snakemake counts them. Its executor for Slurm passes the number to
/// `sbatch --mem`, which counts mebibytes.
fn mb(change: &Change<'_>, bytes: Bytes) -> u64 {
    match change.is_slurm_job {
        true => mib(bytes),
        false => bytes.0.div_ceil(1_000_000),
    }
}

/// A double-quoted YAML string in ASCII.
fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_string_of_yaml() {
        let check = |name: &str, expect: &str| assert_eq!(quoted(name), expect, "{name}");
        check("align", "\"align\"");
        check("a: [b] # \"c\"", "\"a: [b] # \\\"c\\\"\"");
        check("a\nb", "\"a\\U0000000ab\"");
        check("back\\slash", "\"back\\\\slash\"");
        check("\u{1f9ec}", "\"\\U0001f9ec\"");
    }
}
