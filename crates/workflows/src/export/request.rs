//! The requests to write, and text that several forms share.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_model::advice::group::GroupAdvice;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_model::step_profile::failure::FailureKind;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{counted, one_line};
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::{Bytes, MilliCores};
use thiserror::Error;

use crate::export::machines::Pool;

/// Why no machines are recommended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoAdvice {
    /// The reason in the recommendation.
    #[error("{0}")]
    Refused(String),
    /// The present machine is the cheapest.
    #[error("no cheaper machines are known")]
    NothingCheaper,
    /// Batch cannot change the types of an environment with this strategy.
    #[error(
        "Batch cannot change the types of an environment with the allocation strategy BEST_FIT: \
         create an environment with BEST_FIT_PROGRESSIVE or SPOT_PRICE_CAPACITY_OPTIMIZED"
    )]
    BestFit,
}

/// The recommended machines of a group, if they are known to save money.
pub(crate) fn cheaper(group: &GroupAdvice) -> Result<Pool<'_>, NoAdvice> {
    let saves = group.saving_a_month;
    match (
        Pool::of_group(group),
        saves.is_some_and(|saving| saving > Usd::ZERO),
    ) {
        (Some(pool), true) => Ok(pool),
        _ => Err(match &group.refused {
            Some(reason) => NoAdvice::Refused(reason.clone()),
            None => NoAdvice::NothingCheaper,
        }),
    }
}

/// Whether a text sets which failures are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryPolicy {
    /// The pipeline keeps its own policy.
    #[default]
    Unchanged,
    /// The exit statuses that nf-core pipelines retry, once for each size of memory.
    Replaced,
}

/// A placeholder: only the job definition contains the image.
pub(crate) const IMAGE: &str = "REPLACE-WITH-THE-IMAGE-OF-THE-REVISION-BEFORE";

/// A step with a changed request.
pub(crate) struct Change<'a> {
    pub(crate) name: &'a str,
    pub(crate) name_form: NameForm,
    /// Its tasks are jobs of Slurm.
    pub(crate) is_slurm_job: bool,
    /// Whole cores; `None` for no change.
    pub(crate) cores: Option<u64>,
    /// The memory of the first attempt and after each failure; empty for no change.
    pub(crate) sizes: Vec<Bytes>,
    /// The new time limit of a first attempt; `None` for no change.
    pub(crate) time: Option<Duration>,
    /// The time limit after an attempt that reached a lower one; `None` if it does not become lower.
    pub(crate) time_before: Option<Duration>,
    pub(crate) now: SizedRequest,
    /// First attempts have different requests, which the new one replaces.
    replaces_different: bool,
    origin: Origin,
    pub(crate) samples: u32,
    /// The most tasks that a job of it runs in parallel.
    pub(crate) parallel_tasks: u32,
    /// The number of retries that its tasks needed in the records.
    pub(crate) retries: u32,
    /// Failures of its tasks were ignored in the records.
    pub(crate) is_ignored: bool,
    /// The causes of failed attempts that were retried, or that ran out of memory.
    pub(crate) retried: Vec<(FailureKind, Option<i64>)>,
}

impl<'a> Change<'a> {
    /// `None` if nothing is to change.
    pub(crate) fn new(step: &'a StepAdvice) -> Option<Self> {
        let limit = step.time_limit;
        let changes_time = limit.is_some_and(|limit| limit.should_ask != limit.asks);
        if step.should_ask == step.asks && !changes_time {
            return None;
        }
        let (cores, memory) = (step.should_ask.cores, step.should_ask.memory);
        let limit = limit.filter(|_| changes_time);
        let further = memory.iter().flat_map(|_| step.risk.attempts.iter());
        let now = step.asks;
        let (new_cores, new_memory) = (cores != now.cores, memory != now.memory);
        let mut requests = step.present.counts.iter().map(|count| count.request);
        let replaces_different = requests.any(|one| {
            (new_cores && one.cores != now.cores) || (new_memory && one.memory != now.memory)
        });
        Some(Self {
            name: &step.step,
            name_form: step.name_form,
            is_slurm_job: step.kind == StepKind::SlurmJob,
            cores: cores.filter(|_| step.parallel_tasks <= 1).map(whole),
            sizes: memory.iter().chain(further).copied().collect(),
            time: limit.map(|limit| limit.should_ask),
            time_before: limit
                .filter(|limit| limit.should_ask < limit.asks)
                .map(|limit| limit.asks),
            now,
            replaces_different,
            origin: step.origin,
            samples: step.samples,
            parallel_tasks: step.parallel_tasks,
            retries: step.attempts.saturating_sub(1),
            is_ignored: step.failures.iter().any(|failures| failures.ignored > 0),
            retried: (step.failures.iter())
                .filter(|failures| failures.retried > 0 || failures.kind.is_out_of_memory())
                .map(|failures| (failures.kind, failures.exit_status))
                .collect(),
        })
    }

    /// Comments on values that replace different or unknown ones.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &'static str> {
        let different = "First attempts have different requests; these values replace all of them.";
        let unknown = "The present memory is unknown; if it is larger, this value lowers it.";
        let is_unknown = self.now.memory.is_none() && !self.sizes.is_empty();
        let notes = [(self.replaces_different, different), (is_unknown, unknown)];
        notes
            .into_iter()
            .filter_map(|(applies, note)| applies.then_some(note))
    }

    /// Whole cores, if they change.
    pub(crate) fn new_cores(&self) -> Option<u64> {
        self.cores
            .filter(|cores| self.now.cores.map(whole) != Some(*cores))
    }

    /// The memory of each attempt, if that of the first one changes. Otherwise the pipeline keeps
    /// its own sizes for retries.
    pub(crate) fn new_sizes(&self) -> &[Bytes] {
        match self.sizes.first() {
            Some(first) if self.now.memory != Some(*first) => &self.sizes,
            _ => &[],
        }
    }

    /// Whether cores or memory change, and not only the time limit.
    pub(crate) fn is_of_request(&self) -> bool {
        self.new_cores().is_some() || !self.new_sizes().is_empty()
    }
}

/// The steps to change that the engine knows by name.
pub(crate) fn changes(steps: &[StepAdvice]) -> Vec<Change<'_>> {
    changes_of(steps, |_| true)
}

/// The steps to change that the engine knows by name and that can be its own.
pub(crate) fn changes_of(
    steps: &[StepAdvice],
    is_own: impl Fn(&StepAdvice) -> bool,
) -> Vec<Change<'_>> {
    let known = steps.iter().filter(|step| is_known_to_engine(step));
    changes_by_name(known.filter(|step| is_own(step)))
}

/// Whether the engine knows the name of a step. It knows neither names of executables nor single
/// steps of a Slurm job.
pub(crate) fn is_known_to_engine(step: &StepAdvice) -> bool {
    !matches!(step.name_form, NameForm::Executables | NameForm::SlurmStep)
}

/// The changes of steps by name. These forms contain neither region nor account. If steps have the
/// same name, the one that needs more memory counts, changed or not.
fn changes_by_name<'a>(steps: impl Iterator<Item = &'a StepAdvice>) -> Vec<Change<'a>> {
    let mut by_name: BTreeMap<&str, &StepAdvice> = BTreeMap::new();
    for step in steps {
        let entry = by_name.entry(&step.step).or_insert(step);
        if step.should_ask.memory > entry.should_ask.memory {
            *entry = step;
        }
    }
    by_name.into_values().filter_map(Change::new).collect()
}

pub(crate) fn whole(cores: MilliCores) -> u64 {
    cores.0.div_ceil(1000).max(1)
}

pub(crate) fn mib(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1 << 20).max(1)
}

pub(crate) fn minutes(time: Duration) -> u64 {
    time.as_secs().div_ceil(60).max(1)
}

/// A comment that begins with `mark`, if a generator made runs of the steps.
pub(crate) fn origin_note(mark: &str, changes: &[Change<'_>]) -> String {
    let origins = changes.iter().map(|change| change.origin);
    simulated_note(mark, origins.max().unwrap_or(Origin::Measured))
}

pub(crate) fn simulated_note(mark: &str, origin: Origin) -> String {
    match origin == Origin::Simulated {
        true => format!(
            "{mark} SIMULATED: at least a part of this input was generated, not measured.\n"
        ),
        false => String::new(),
    }
}

/// A note about changes of steps whose names the engine does not know. A text with these names
/// would change nothing, or another step.
pub(crate) fn unnamed_note(mark: &str, steps: &[StepAdvice]) -> String {
    let left_out = steps.iter().filter(|step| !is_known_to_engine(step));
    let note = left_out_note(mark, left_out, "without a name of the engine");
    if note.is_empty() {
        return note;
    }
    format!(
        "{note} Each is named after its executables or the command that submitted it, or is a step of a Slurm job.\n\
         {mark} Send the names to Ebb with a label or tag: see \"Names of steps\" in the documentation.\n"
    )
}

/// A note about changes of steps that another engine ran.
pub(crate) fn other_engine_note(
    mark: &str,
    steps: &[StepAdvice],
    is_own: impl Fn(&StepAdvice) -> bool,
    words: &str,
) -> String {
    let known = steps.iter().filter(|step| is_known_to_engine(step));
    let note = left_out_note(mark, known.filter(|step| !is_own(step)), words);
    match note.is_empty() {
        true => note,
        false => note + "\n",
    }
}

/// The names of steps with a change that a text does not contain; empty without any.
fn left_out_note<'a>(
    mark: &str,
    steps: impl Iterator<Item = &'a StepAdvice>,
    words: &str,
) -> String {
    const NAMED: usize = 5;
    let changes = changes_by_name(steps);
    if changes.is_empty() {
        return String::new();
    }
    let names = changes
        .iter()
        .take(NAMED)
        .map(|change| one_line(change.name));
    let mut names: Vec<String> = names.collect();
    let more = changes.len().saturating_sub(NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    format!(
        "{mark} Left out: {} {words} ({}).",
        counted(changes.len(), "step", "steps"),
        names.join(", "),
    )
}

/// The text if nothing is to change.
pub(crate) fn nothing(mark: &str) -> String {
    format!("{mark} No request needs a change.\n")
}

/// An identifier of letters, digits, `-` and `_`, made from the name of a job definition without
/// its ARN and revision.
pub(crate) fn plain_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let bare = match last.rsplit_once(':') {
        Some((bare, revision)) if revision.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => last,
    };
    let allowed = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') => c,
        _ => '_',
    };
    let plain: String = bare.chars().map(allowed).take(128).collect();
    match plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => plain,
        false => format!("step_{}", plain.chars().take(120).collect::<String>()),
    }
}
