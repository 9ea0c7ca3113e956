//! Applies the recommended requests of one run of a pipeline to another run. It counts the tasks
//! that exceed them, compares this with the stated risk, and computes the saving.
//!
//! Protocol: a folder contains traces `NAME.trace.txt[.gz]`; the part of the name before the first
//! hyphen is the pipeline. Each trace trains alone, and its recommendations are applied to each
//! other trace of its pipeline. A task exceeds its request if its peak is greater than the
//! recommended memory. Tasks of steps that the training run did not have are left out and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::step::StepEnd;
use ebb_workflows::import::{Import, Imported, Source};
use serde::Serialize;

use crate::table;

const ENDINGS: [&str; 2] = [".trace.txt.gz", ".trace.txt"];

/// A step with at least this many tasks is scored alone.
const SCORED: usize = 20;

const GIB: f64 = (1_u64 << 30) as f64;

/// The recommendations of one run, applied to another.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Applied {
    pipeline: String,
    trained_on: String,
    applied_to: String,
    /// Tasks of steps that the training run did not have.
    unknown_tasks: usize,
    /// All steps, then those with 20 tasks or more.
    all: SizeScore,
    large: SizeScore,
    steps: Vec<StepScore>,
    reserved: Reserved,
}

/// Tasks that exceed the recommendation.
#[derive(Debug, Clone, Default, Serialize)]
struct SizeScore {
    steps: usize,
    /// Steps in which the number of such tasks does not exceed the stated upper bound.
    kept: usize,
    tasks: usize,
    exceeded: usize,
}

/// One step.
#[derive(Debug, Clone, Serialize)]
struct StepScore {
    step: String,
    tasks: usize,
    exceeded: usize,
    /// The stated upper bound, in parts per million; `None` if there was none.
    stated_ppm: Option<u32>,
    shrinks: bool,
}

/// Hours reserved.
#[derive(Debug, Clone, Default, Serialize)]
struct Reserved {
    #[serde(rename = "asked_gib_hours")]
    requested_gib_hours: f64,
    advised_gib_hours: f64,
    used_gib_hours: f64,
    #[serde(rename = "asked_core_hours")]
    requested_core_hours: f64,
    advised_core_hours: f64,
    used_core_hours: f64,
}

/// Applies the recommendations of each run to the other runs of its pipeline.
///
/// # Errors
/// Names the file that cannot be read.
pub(crate) fn apply_all(folder: &Path) -> Result<Vec<Applied>> {
    let runs = traces(folder)?;
    let mut applied = Vec::new();
    for (pipeline, names) in &runs {
        for (trained_on, path) in names {
            let advice = read(path)?.advice(None);
            for (applied_to, other) in names.iter().filter(|(name, _)| *name != trained_on) {
                let run = read(other)?;
                applied.push(score(
                    [pipeline, trained_on, applied_to].map(|name| name.to_owned()),
                    &advice,
                    &run,
                ));
            }
        }
    }
    ensure!(
        !applied.is_empty(),
        "no pipeline in {} has two traces with names NAME{}",
        folder.display(),
        ENDINGS[1]
    );
    Ok(applied)
}

/// Traces by pipeline and name.
fn traces(folder: &Path) -> Result<BTreeMap<String, BTreeMap<String, PathBuf>>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read the folder {}", folder.display()))?;
    let mut runs: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)) else {
            continue;
        };
        let pipeline = name.split('-').next().unwrap_or(name).to_owned();
        let name = name.to_owned();
        runs.entry(pipeline).or_default().insert(name, path);
    }
    Ok(runs)
}

fn read(path: &Path) -> Result<Imported> {
    let name = path.display().to_string();
    let mut import = Import::default();
    let source = Source {
        path: &name,
        kind: None,
        modified: None,
    };
    let file = File::open(path).with_context(|| name.clone())?;
    import
        .read(&source, file, |_| ())
        .with_context(|| name.clone())?;
    Ok(import.finish())
}

fn score(names: [String; 3], advice: &[StepAdvice], run: &Imported) -> Applied {
    let by_name: BTreeMap<&str, &StepAdvice> = advice
        .iter()
        .map(|step| (step.step.as_str(), step))
        .collect();
    let [pipeline, trained_on, applied_to] = names;
    let mut applied = Applied {
        pipeline,
        trained_on,
        applied_to,
        unknown_tasks: 0,
        all: SizeScore::default(),
        large: SizeScore::default(),
        steps: Vec::new(),
        reserved: Reserved::default(),
    };
    for step in &run.steps {
        let tasks = step.profile.by_time();
        let Some(advice) = by_name.get(step.name.as_str()) else {
            applied.unknown_tasks += tasks.len();
            continue;
        };
        let mut seen = BTreeSet::new();
        let (mut counted, mut exceeded) = (0, 0);
        for task in tasks {
            applied.reserved.add(advice, task);
            let is_first = task
                .record
                .as_ref()
                .is_none_or(|record| seen.insert((&record.pipeline_run, &record.task)));
            let peak = task.peak_memory.map(|peak| peak.bytes);
            let ended_well = task.end == StepEnd::Exited(0);
            if let (Some(peak), Some(advised), true) =
                (peak, advice.should_ask.memory, is_first && ended_well)
            {
                counted += 1;
                exceeded += usize::from(peak > advised);
            }
        }
        if counted > 0 {
            applied.add(step_score(advice, counted, exceeded));
        }
    }
    applied
}

fn step_score(advice: &StepAdvice, tasks: usize, exceeded: usize) -> StepScore {
    let stated = advice.risk.oom_ppm;
    let bound = advice.risk.oom_between.map(|range| range.to_ppm);
    StepScore {
        step: advice.step.clone(),
        tasks,
        exceeded,
        stated_ppm: stated.or(bound),
        shrinks: advice.should_ask.memory < advice.asks.memory,
    }
}

impl Applied {
    fn add(&mut self, step: StepScore) {
        let share = step.exceeded as f64 / step.tasks as f64 * 1e6;
        let kept = step
            .stated_ppm
            .is_some_and(|stated| share <= f64::from(stated));
        let scores = match step.tasks >= SCORED {
            true => [Some(&mut self.all), Some(&mut self.large)],
            false => [Some(&mut self.all), None],
        };
        for score in scores.into_iter().flatten() {
            score.steps += 1;
            score.kept += usize::from(kept);
            score.tasks += step.tasks;
            score.exceeded += step.exceeded;
        }
        self.steps.push(step);
    }
}

impl Reserved {
    /// Without a recommendation the request stays.
    fn add(&mut self, advice: &StepAdvice, task: &ebb_model::step_profile::Run) {
        let hours = task.wall.as_secs_f64() / 3600.0;
        if let (Some(requested), Some(peak)) = (task.requested.memory, task.peak_memory) {
            let advised = advice.should_ask.memory.unwrap_or(requested);
            self.requested_gib_hours += requested.0 as f64 / GIB * hours;
            self.advised_gib_hours += advised.0 as f64 / GIB * hours;
            self.used_gib_hours += peak.bytes.0 as f64 / GIB * hours;
        }
        if let (Some(requested), Some(cpu)) = (task.requested.cores, task.cpu) {
            let advised = advice.should_ask.cores.unwrap_or(requested);
            self.requested_core_hours += requested.as_cores() * hours;
            self.advised_core_hours += advised.as_cores() * hours;
            self.used_core_hours += cpu.as_secs_f64() / 3600.0;
        }
    }
}

/// Exceedances, steps with more exceedances than stated, and hours.
pub(crate) fn tables(applied: &[Applied]) -> String {
    let mut text = String::from(
        "Requests recommended from one run, applied to another run of the same pipeline. A \
         step\nstays within its bound if the share of its tasks above the recommendation is at \
         most the\nreported upper bound. Tasks without a changed request are included.\n\n",
    );
    let head = [
        "",
        "steps",
        "kept",
        "tasks",
        "exceeded",
        "of steps with 20 tasks",
        "kept",
    ];
    let rows: Vec<Vec<String>> = applied.iter().map(score_row).collect();
    text.push_str(&table::lines(&head, &rows));
    text.push('\n');
    let head = [
        "",
        "GiB-h asked",
        "advised",
        "used",
        "saved",
        "core-h asked",
        "advised",
        "used",
        "saved",
    ];
    let rows: Vec<Vec<String>> = applied.iter().map(reserved_row).collect();
    text.push_str(&table::lines(&head, &rows));
    for one in applied {
        text.push_str(&exceeding(one));
    }
    text
}

fn name(one: &Applied) -> String {
    format!("{} -> {}", one.trained_on, one.applied_to)
}

fn score_row(one: &Applied) -> Vec<String> {
    let share = |part: usize, all: usize| match all {
        0 => "-".to_owned(),
        all => format!("{part} ({:.1} %)", 100.0 * part as f64 / all as f64),
    };
    vec![
        name(one),
        one.all.steps.to_string(),
        share(one.all.kept, one.all.steps),
        one.all.tasks.to_string(),
        share(one.all.exceeded, one.all.tasks),
        one.large.steps.to_string(),
        share(one.large.kept, one.large.steps),
    ]
}

fn reserved_row(one: &Applied) -> Vec<String> {
    let saved =
        |requested: f64, advised: f64| format!("{:.0} %", 100.0 * (1.0 - advised / requested));
    let r = &one.reserved;
    vec![
        name(one),
        format!("{:.0}", r.requested_gib_hours),
        format!("{:.0}", r.advised_gib_hours),
        format!("{:.0}", r.used_gib_hours),
        saved(r.requested_gib_hours, r.advised_gib_hours),
        format!("{:.0}", r.requested_core_hours),
        format!("{:.0}", r.advised_core_hours),
        format!("{:.0}", r.used_core_hours),
        saved(r.requested_core_hours, r.advised_core_hours),
    ]
}

/// Steps with tasks that exceed the recommendation, with the stated risk.
fn exceeding(one: &Applied) -> String {
    let exceeded: Vec<Vec<String>> = one
        .steps
        .iter()
        .filter(|step| step.exceeded > 0)
        .map(|step| {
            let stated = step.stated_ppm.map_or_else(
                || "none".to_owned(),
                |ppm| format!("at most {:.0} %", f64::from(ppm) / 1e4),
            );
            let share = 100.0 * step.exceeded as f64 / step.tasks as f64;
            vec![
                step.step.clone(),
                format!("{} of {} ({share:.0} %)", step.exceeded, step.tasks),
                stated,
                if step.shrinks { "smaller" } else { "the same" }.to_owned(),
            ]
        })
        .collect();
    if exceeded.is_empty() {
        return String::new();
    }
    let head = ["step", "exceeded", "stated", "request"];
    format!("\n{}\n{}", name(one), table::lines(&head, &exceeded))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn trace(seed: u64, factor: f64) -> String {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut text = String::from(
            "task_id\thash\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\tpeak_rss\tcpus\tmemory\tattempt\n",
        );
        for n in 0..25 {
            let mib = (4_000.0 * factor * (0.9 + 0.2 * random.f64())) as u64;
            let _ = writeln!(
                text,
                "{n}\t{seed:02x}/{n:06x}\tALIGN (s{n})\tCOMPLETED\t0\t2026-03-01 10:00:00\t10m\t1h\t100%\t{mib} MB\t4\t32 GB\t1"
            );
        }
        text
    }

    #[test]
    fn advice_of_one_run_is_scored_on_the_other() {
        let folder = std::env::temp_dir().join(format!("ebb-eval-import-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text).expect("it is written");
        };
        write("align-one.trace.txt", trace(1, 1.0));
        write("align-two.trace.txt", trace(2, 1.0));
        write("other-one.trace.txt", trace(3, 1.0));
        let applied = apply_all(&folder).expect("two runs");
        std::fs::remove_dir_all(&folder).expect("it is removed");
        assert_eq!(applied.len(), 2);
        for one in &applied {
            assert_eq!(
                (one.large.steps, one.large.kept, one.all.exceeded),
                (1, 1, 0)
            );
            let r = &one.reserved;
            assert!((r.requested_gib_hours - 800.0).abs() < 1e-6, "{r:?}");
            assert!(r.advised_gib_hours < 400.0 && r.advised_gib_hours > r.used_gib_hours);
        }
    }

    #[test]
    fn a_task_that_exceeds_its_advice_is_counted() {
        let one = |text: String| {
            let mut import = Import::default();
            let source = Source {
                path: "t",
                kind: None,
                modified: None,
            };
            import
                .read(&source, std::io::Cursor::new(text.into_bytes()), |_| ())
                .expect("a trace");
            import.finish()
        };
        let advice = one(trace(1, 1.0)).advice(None);
        let names = ["p", "a", "b"].map(str::to_owned);
        let applied = score(names, &advice, &one(trace(2, 3.0)));
        assert_eq!((applied.all.exceeded, applied.all.kept), (25, 0));
    }
}
