//! Slurm: `#SBATCH` lines for job scripts.
//!
//! Source: "sbatch", Slurm's documentation: `M` means mebibytes, `--mem` applies to each node, and
//! a time is `[days-]hours:minutes:seconds`.

use std::fmt::Write;
use std::slice;
use std::time::Duration;

use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::step::StepKind;

use crate::export::request::{
    Change, changes_of, mib, minutes, nothing, origin_note, other_engine_note,
};

/// The lines of each step under a comment with its name.
pub(super) fn slurm(steps: &[StepAdvice]) -> String {
    let left_out = other_engine_note("#", steps, is_job, "with the name of a pod");
    let changes = changes_of(steps, is_job);
    if changes.is_empty() {
        return nothing("#") + &left_out;
    }
    let mut out = origin_note("#", &changes);
    out.push_str("# Copy the lines of a step into its job script.\n");
    out.push_str(
        "# --mem is the memory of one node. It replaces --mem-per-cpu; remove that line.\n",
    );
    if changes.iter().any(|change| change.new_cores().is_some()) {
        out.push_str(
            "# --cpus-per-task is the number of cores of each task. If a script has -n or --ntasks for a\n\
             # program that is one task, replace it by --ntasks=1.\n",
        );
    }
    for change in &changes {
        step(&mut out, change);
    }
    if !left_out.is_empty() {
        out.push('\n');
        out.push_str(&left_out);
    }
    out
}

fn is_job(step: &StepAdvice) -> bool {
    step.kind != StepKind::Pod
}

fn step(out: &mut String, change: &Change<'_>) {
    let from = match change.samples {
        0 => String::new(),
        tasks => format!(" (from {})", counted(tasks as usize, "task", "tasks")),
    };
    let _ = writeln!(out, "\n# {}{from}", one_line(change.name));
    if change.name_form == NameForm::NextflowJob {
        out.push_str("# Nextflow submits these jobs: use --format nextflow instead.\n");
    }
    for note in change.notes() {
        let _ = writeln!(out, "# {note}");
    }
    if change.parallel_tasks > 1 {
        let _ = writeln!(
            out,
            "# Its jobs run up to {} tasks in parallel: --ntasks and --cpus-per-task stay.",
            change.parallel_tasks
        );
    }
    if let Some(cores) = change.new_cores() {
        let _ = writeln!(out, "#SBATCH --cpus-per-task={cores}");
    }
    let sizes = match (change.new_cores(), change.new_sizes(), &change.sizes[..]) {
        // With --mem-per-cpu, fewer cores would have less memory.
        (Some(_), [], [now, ..]) => slice::from_ref(now),
        (_, new, _) => new,
    };
    if let Some((first, further)) = sizes.split_first() {
        let _ = writeln!(out, "#SBATCH --mem={}M", mib(*first));
        let further: Vec<String> = further
            .iter()
            .map(|s| format!("--mem={}M", mib(*s)))
            .collect();
        if !further.is_empty() {
            let _ = writeln!(
                out,
                "# If it runs out of memory: {}",
                further.join(", then ")
            );
        }
    }
    if let Some(time) = change.time {
        let _ = writeln!(out, "#SBATCH --time={}", clock(time));
        if let Some(before) = change.time_before {
            let _ = writeln!(out, "# If it reaches the limit: --time={}", clock(before));
        }
    }
}

/// A time in whole minutes, the resolution of Slurm.
fn clock(time: Duration) -> String {
    let minutes = minutes(time);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    match hours / 24 {
        0 => format!("{hours:02}:{minutes:02}:00"),
        days => format!("{days}-{:02}:{minutes:02}:00", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_minutes() {
        let check = |seconds: u64, expect: &str| {
            assert_eq!(clock(Duration::from_secs(seconds)), expect, "{seconds}");
        };
        check(0, "00:01:00");
        check(61, "00:02:00");
        check(5_400, "01:30:00");
        check(86_400, "1-00:00:00");
        check(93_601, "1-02:01:00");
    }
}
