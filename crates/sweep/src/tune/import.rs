//! Runs from files that workflow systems and schedulers write, for people without a
//! probe: Nextflow's trace, Snakemake's benchmarks, Slurm's accounting.
//!
//! They tell of cores only how many were busy on average, so a request for cores is
//! left as it is. A line that cannot be read is said with its field, and the rest
//! goes on.

mod nextflow;
mod quantity;
mod sacct;
mod snakemake;

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_domain::catalogue::Catalogue;
use ebb_domain::heartbeat::Origin;
use ebb_domain::policy::Policy;
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::profile::{Run, RunKey, StepProfile};
use ebb_domain::step::{
    MemorySource, PeakMemory, Requested, StepDetail, StepEnd, StepId, StepKind,
};
use ebb_domain::units::{Bytes, CpuTime};
use jiff::Timestamp;
use thiserror::Error;

/// Names that are kept; a real pipeline has hundreds.
const MAX_STEPS: usize = 10_000;

/// Bad lines that are told one by one.
const MAX_TOLD: usize = 20;

/// A size as people write it, such as `12GiB`.
pub fn size(text: &str) -> Option<Bytes> {
    quantity::bytes(text)
}

/// Which system wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nextflow's `trace.txt`.
    Nextflow,
    /// A `benchmark:` file of Snakemake.
    Snakemake,
    /// `sacct --parsable2`.
    Sacct,
}

impl Kind {
    /// By the names in a file's first line; `None` where they are nobody's.
    pub fn of(text: &str) -> Option<Self> {
        let head = text.lines().next()?;
        let has = |by: char, name: &str| head.split(by).any(|field| field.trim() == name);
        if has('|', "JobID") {
            Some(Self::Sacct)
        } else if has('\t', "h:m:s") {
            Some(Self::Snakemake)
        } else if has('\t', "realtime") || has('\t', "%cpu") || has('\t', "duration") {
            Some(Self::Nextflow)
        } else {
            None
        }
    }
}

/// Why a line was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}: {field}: {problem}")]
pub struct BadLine {
    /// The line, from 1.
    pub line: usize,
    /// The field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

/// Why a file tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImportError {
    /// There is not even a line of names.
    #[error("the file is empty")]
    Empty,
    /// A field without which a line says nothing.
    #[error("1: there is no field {0}: {1}")]
    NoField(&'static str, &'static str),
}

/// What files told.
#[derive(Debug, Default)]
pub struct Imported {
    steps: BTreeMap<String, (StepKind, StepProfile)>,
    /// Runs read.
    pub runs: usize,
    /// Lines that could not be read, the first of them.
    pub bad: Vec<BadLine>,
    /// How many there were in all.
    pub skipped: usize,
}

/// A run as a file tells of it; what it does not tell is `None`.
#[derive(Debug, Default, Clone, PartialEq)]
struct Told {
    step: String,
    key: String,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    wall: Duration,
    end: Option<StepEnd>,
    cpu: Option<CpuTime>,
    peak: Option<Bytes>,
    disk: Option<Bytes>,
    input: Option<Bytes>,
    requested: Requested,
}

impl Imported {
    /// Reads one file; `name` tells its runs from those of other files, and is the
    /// step's where the file names none.
    ///
    /// # Errors
    /// Where the file has no line that could be read.
    pub fn read(&mut self, kind: Kind, name: &str, text: &str) -> Result<(), ImportError> {
        let lines = match kind {
            Kind::Nextflow => nextflow::read(text)?,
            Kind::Snakemake => snakemake::read(text, name)?,
            Kind::Sacct => sacct::read(text)?,
        };
        let of_step = match kind {
            Kind::Nextflow => StepKind::NextflowTask,
            Kind::Snakemake => StepKind::SnakemakeJob,
            Kind::Sacct => StepKind::SlurmJob,
        };
        for (line, told) in lines {
            match told {
                Ok(told) => self.take(of_step, name, line, told),
                Err(bad) => self.skip(bad),
            }
        }
        Ok(())
    }

    fn skip(&mut self, bad: BadLine) {
        self.skipped += 1;
        if self.bad.len() < MAX_TOLD {
            self.bad.push(bad);
        }
    }

    fn take(&mut self, kind: StepKind, file: &str, line: usize, told: Told) {
        let is_new = !self.steps.contains_key(&told.step);
        if is_new && self.steps.len() >= MAX_STEPS {
            return self.skip(BadLine {
                line,
                field: "name".to_owned(),
                problem: format!("more than {MAX_STEPS} steps"),
            });
        }
        self.runs += 1;
        let key = RunKey {
            seen_on: file.to_owned(),
            step: StepId {
                kind,
                key: told.key.clone(),
            },
        };
        let (_, profile) = self
            .steps
            .entry(told.step.clone())
            .or_insert_with(|| (kind, StepProfile::default()));
        profile.add(key, run(line, told));
    }

    /// What each step should ask for, by name; for an input of this size, where
    /// sizes are known to explain the need.
    pub fn advice(&self, input: Option<Bytes>) -> Vec<StepAdvice> {
        let mut policy = Policy::default();
        // These files tell of runs that ended, and a short one is as whole as a long.
        policy.overprovisioned.min_wall_seconds = 0;
        let advice = self.steps.iter().filter_map(|(name, (kind, profile))| {
            let need = profile.need(input, &policy);
            let by = (&policy, Catalogue::built_in());
            StepAdvice::of(name, *kind, (profile, &need), by)
        });
        advice.collect()
    }
}

/// Files without times are in the order of time.
fn run(line: usize, told: Told) -> Run {
    let by_line = i64::try_from(line)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let ended = told
        .ended
        .or_else(|| told.started?.checked_add(told.wall).ok());
    let ended = ended.unwrap_or(by_line);
    Run {
        observed_at: ended,
        started_at: told
            .started
            .or_else(|| ended.checked_sub(told.wall).ok())
            .unwrap_or(ended),
        wall: told.wall,
        quiet: Duration::ZERO,
        end: told.end.unwrap_or(StepEnd::Unknown),
        cpu: told.cpu,
        peak_cores: None,
        peak_memory: told.peak.map(|bytes| PeakMemory {
            bytes,
            source: MemorySource::ProcessesSampled,
        }),
        disk: told.disk,
        input: told.input,
        requested: told.requested,
        machine: None,
        origin: Origin::Measured,
        detail: StepDetail::default(),
        among_others: None,
    }
}

/// Each line after the first with its number, or what is wrong with it.
type Lines = Vec<(usize, Result<Told, BadLine>)>;

/// A line by the names of the first.
struct Row<'a> {
    line: usize,
    names: &'a [&'a str],
    values: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// A field; `None` where it is missing or the file says that it is not known.
    fn text(&self, name: &str) -> Option<&'a str> {
        let at = self.names.iter().position(|known| *known == name)?;
        let value = self.values.get(at)?.trim();
        let unknown = ["", "-", "NA", "null", "Unknown", "None"];
        (!unknown.contains(&value)).then_some(value)
    }

    /// A field by a function of [`quantity`]; errs where it is there and unreadable.
    fn get<T>(&self, name: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, BadLine> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        read(text)
            .map(Some)
            .ok_or_else(|| self.bad(name, &format!("'{}' cannot be read", short(text))))
    }

    fn bad(&self, field: &str, problem: &str) -> BadLine {
        BadLine {
            line: self.line,
            field: field.to_owned(),
            problem: problem.to_owned(),
        }
    }
}

/// As much of a value as a message needs, with nothing in it that moves a cursor.
fn short(text: &str) -> String {
    let text = crate::render::text::one_line(text);
    crate::render::text::clip(&text, 40).into_owned()
}

/// Splits a file by its first line's names.
fn rows<'a>(text: &'a str, by: char, names: &'a [&'a str]) -> impl Iterator<Item = Row<'a>> {
    let lines = text.lines().enumerate().skip(1);
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(move |(at, line)| Row {
            line: at + 1,
            names,
            values: line.split(by).collect(),
        })
}

fn names(text: &str, by: char) -> Result<Vec<&str>, ImportError> {
    let head = text.lines().next().filter(|head| !head.trim().is_empty());
    let head = head
        .ok_or(ImportError::Empty)?
        .trim_start_matches('\u{feff}');
    Ok(head.split(by).map(str::trim).collect())
}

#[cfg(test)]
mod tests;
