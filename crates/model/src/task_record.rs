//! Names of tasks from the records of engines and schedulers, such as Nextflow's trace or Slurm's
//! accounting. A record contains names, an id, a time and a request, and no resource use.

use std::fmt;

use ebb_telemetry::identity::is_uuid;
use ebb_telemetry::safe_text::{clean, one_line};
use ebb_telemetry::step::Requested;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::advice::step::NameForm;

/// Maximum length of a name in bytes. Nextflow cuts names of Slurm jobs at 256 characters.
pub const MAX_NAME_BYTES: usize = 256;

/// Maximum number of ids of one task: a job id, its SLUID and the hash of a work folder.
const MAX_KEYS: usize = 4;

/// Programs that start others. They name a step only if nothing else ran.
const SHELLS: [&str; 8] = [
    "bash", "sh", "dash", "zsh", "ksh", "fish", "busybox", "tini",
];

/// Whether a program is a shell.
pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// Whether the name of a job is that of the program that submitted it, or of a shell. Jobs with such
/// a name can do different work.
///
/// Source: "sbatch", Slurm's manual: `wrap` for `--wrap`, `interactive` for `salloc`, `sbatch` for a
/// script from standard input.
pub fn names_no_step(job: &str) -> bool {
    matches!(job, "wrap" | "interactive" | "sbatch") || is_shell(job)
}

/// The clocks of a node and of the program that wrote a record may differ by this much. Slurm also
/// counts time before the first process and after the last one.
const CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_mins(5);

/// The program that wrote a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordSource {
    /// Nextflow's trace.
    NextflowTrace,
    /// Slurm's `sacct`.
    Sacct,
    /// Slurm's `squeue`.
    Squeue,
}

impl fmt::Display for RecordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NextflowTrace => "Nextflow trace",
            Self::Sacct => "sacct",
            Self::Squeue => "squeue",
        })
    }
}

/// The id of a task in its engine or scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TaskKey {
    /// The number of a Slurm job or its SLUID, without the step.
    SlurmJob(String),
    /// The first eight digits of the hash of a Nextflow work folder, as `ab/cdef12`.
    NextflowTask(String),
    /// The id of an AWS Batch job; `UUID:index` for a child of an array.
    BatchJob(String),
}

impl TaskKey {
    /// A Slurm job; `None` if `id` is neither a number nor a SLUID.
    pub fn slurm_job(id: &str) -> Option<Self> {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_sluid = id.len() == 14
            && id.starts_with('s')
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_id = is_sluid || (is_number(id) && id.len() <= 20);
        is_id.then(|| Self::SlurmJob(id.to_owned()))
    }

    /// A Nextflow task by its hash, such as `ab/cdef12` or `ab/cdef0123…`; `None` if it is no hash.
    pub fn nextflow_task(hash: &str) -> Option<Self> {
        let (group, rest) = hash.split_once('/')?;
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_hash = group.len() == 2 && rest.len() >= 6 && is_hex(group) && is_hex(rest);
        let short = rest.get(..6).filter(|_| is_hash)?;
        Some(Self::NextflowTask(
            format!("{group}/{short}").to_ascii_lowercase(),
        ))
    }

    /// A Batch job; `None` if `id` is neither `UUID` nor `UUID:index`.
    pub fn batch_job(id: &str) -> Option<Self> {
        let (uuid, index) = id.split_once(':').unwrap_or((id, "0"));
        let is_index = (1..=5).contains(&index.len()) && index.bytes().all(|b| b.is_ascii_digit());
        (is_uuid(uuid) && is_index).then(|| Self::BatchJob(id.to_ascii_lowercase()))
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlurmJob(id) => write!(f, "slurm:{id}"),
            Self::NextflowTask(hash) => write!(f, "nextflow:{hash}"),
            Self::BatchJob(id) => write!(f, "batch:{id}"),
        }
    }
}

impl From<TaskKey> for String {
    fn from(key: TaskKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for TaskKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let key = match text.split_once(':') {
            Some(("slurm", id)) => Self::slurm_job(id),
            Some(("nextflow", hash)) => Self::nextflow_task(hash),
            Some(("batch", id)) => Self::batch_job(id),
            _ => None,
        };
        key.ok_or_else(|| "not the id of a task".to_owned())
    }
}

/// A name from a record: one line of 1 to [`MAX_NAME_BYTES`] bytes without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordText(String);

impl RecordText {
    /// A name in its stored form, shortened if it is too long. `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let line = one_line(text);
        let text = clean(line.trim(), MAX_NAME_BYTES);
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<RecordText> for String {
    fn from(text: RecordText) -> Self {
        text.0
    }
}

impl TryFrom<String> for RecordText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match Self::new(&text) {
            Some(clean) if clean.0 == text => Ok(clean),
            _ => Err("a name is empty, too long or has control characters".to_owned()),
        }
    }
}

/// The names of one task from one record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "UncheckedRecord")]
pub struct TaskRecord {
    /// The program that wrote the record.
    pub source: RecordSource,
    /// The ids of the task, at least one. A Slurm job of Nextflow has both a job id and the hash
    /// of its work folder.
    pub keys: Vec<TaskKey>,
    /// The process, rule or job name.
    pub step: RecordText,
    /// How that name relates to the name in the engine.
    #[serde(default)]
    pub form: NameForm,
    /// The full name of the task as the source writes it, such as `ALIGN (S1)` or `nf-ALIGN_(S1)`.
    pub name: RecordText,
    /// The sample or other value that the name contains; `None` if it contains none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RecordText>,
    /// The number of the attempt, from 1; `None` if the record does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The pipeline run; `None` if nothing names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RecordText>,
    /// The pipeline; `None` if nothing names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<RecordText>,
    /// The request on one node, as the scheduler stores it; empty if the record contains none.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub requested: Requested,
    /// Whether the scheduler reports that the task ran out of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_out_of_memory: bool,
    /// The earliest time at which the task may have started.
    pub from: Timestamp,
    /// The latest time at which the record is known to be valid: the end of the task, or the time
    /// of reading if the task had not ended.
    pub until: Timestamp,
}

impl TaskRecord {
    /// Whether a task that a probe observed from `from` to `until` can be the task of this record.
    /// Ids return: Slurm begins again at 1 after its maximum, or after its state is deleted.
    pub fn overlaps(&self, from: Timestamp, until: Timestamp) -> bool {
        let early = from.saturating_sub(CLOCK_DIFFERENCE);
        let late = until.saturating_add(CLOCK_DIFFERENCE);
        let is_before = early.is_ok_and(|early| self.until < early);
        let is_after = late.is_ok_and(|late| self.from > late);
        !is_before && !is_after
    }

    /// Whether both records are equal except for the end of their windows: the later one was read
    /// later, while the task still ran.
    pub fn continues(&self, earlier: &Self) -> bool {
        self.until >= earlier.until
            && *self
                == Self {
                    until: self.until,
                    ..earlier.clone()
                }
    }
}

fn is_empty(requested: &Requested) -> bool {
    *requested == Requested::default()
}

/// A record before its values are checked together.
#[derive(Deserialize)]
struct UncheckedRecord {
    source: RecordSource,
    keys: Vec<TaskKey>,
    step: RecordText,
    #[serde(default)]
    form: NameForm,
    name: RecordText,
    #[serde(default)]
    sample: Option<RecordText>,
    #[serde(default)]
    attempt: Option<u32>,
    #[serde(default)]
    run: Option<RecordText>,
    #[serde(default)]
    pipeline: Option<RecordText>,
    #[serde(default)]
    requested: Requested,
    #[serde(default)]
    is_out_of_memory: bool,
    from: Timestamp,
    until: Timestamp,
}

impl TryFrom<UncheckedRecord> for TaskRecord {
    type Error = &'static str;

    fn try_from(record: UncheckedRecord) -> Result<Self, &'static str> {
        if record.keys.is_empty() || record.keys.len() > MAX_KEYS {
            return Err("a record has no id or too many");
        }
        if record.until < record.from {
            return Err("a record ends before it begins");
        }
        Ok(Self {
            source: record.source,
            keys: record.keys,
            step: record.step,
            form: record.form,
            name: record.name,
            sample: record.sample,
            attempt: record.attempt,
            run: record.run,
            pipeline: record.pipeline,
            requested: record.requested,
            is_out_of_memory: record.is_out_of_memory,
            from: record.from,
            until: record.until,
        })
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Records for tests.

    use super::{NameForm, RecordSource, RecordText, Requested, TaskKey, TaskRecord};
    use jiff::Timestamp;

    /// A record of `sacct` about job `id`, from second 0 to second 3,600 of the tests' clock.
    pub fn slurm_record(id: &str, name: &str) -> TaskRecord {
        let text = RecordText::new(name).expect("a name");
        TaskRecord {
            source: RecordSource::Sacct,
            keys: vec![TaskKey::slurm_job(id).expect("a job id")],
            step: text.clone(),
            form: NameForm::Exact,
            name: text,
            sample: None,
            attempt: None,
            run: None,
            pipeline: None,
            requested: Requested::default(),
            is_out_of_memory: false,
            from: Timestamp::UNIX_EPOCH,
            until: Timestamp::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";

    #[test]
    fn the_id_of_a_task_has_the_form_of_its_scheduler() {
        let check = |text: &str, expect: Option<&str>| {
            let got = TaskKey::try_from(text.to_owned()).ok();
            assert_eq!(got.map(String::from).as_deref(), expect, "{text}");
        };
        check("slurm:7", Some("slurm:7"));
        check("slurm:s0123456789abc", Some("slurm:s0123456789abc"));
        check("slurm:7_4", None);
        check("slurm:", None);
        check("slurm:../x", None);
        check("nextflow:ab/cdef12", Some("nextflow:ab/cdef12"));
        check("nextflow:AB/CDEF0123", Some("nextflow:ab/cdef01"));
        check("nextflow:ab/cdef1", None);
        check("nextflow:ab/ü12345", None);
        check(
            &format!("batch:{UUID}:12"),
            Some(&format!("batch:{UUID}:12")),
        );
        check(&format!("batch:{UUID}:"), None);
        check("batch:7", None);
        check("pod:7", None);
    }

    fn record() -> TaskRecord {
        let at = |second| Timestamp::from_second(second).expect("a time");
        TaskRecord {
            from: at(10_000),
            until: at(20_000),
            ..testing::slurm_record("7", "align")
        }
    }

    #[test]
    fn a_record_is_of_a_task_only_if_their_times_overlap() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let check = |from: i64, until: i64, expect: bool| {
            let got = record().overlaps(at(from), at(until));
            assert_eq!(got, expect, "{from} to {until}");
        };
        check(11_000, 12_000, true);
        check(0, 10_000, true);
        check(0, 9_701, true);
        check(0, 9_699, false);
        check(20_299, 30_000, true);
        check(20_301, 30_000, false);
    }

    #[test]
    fn a_record_that_was_read_later_continues_the_earlier_one() {
        let later = TaskRecord {
            until: record().until + SignedDuration::from_secs(60),
            ..record()
        };
        assert!(later.continues(&record()) && record().continues(&record()));
        assert!(!record().continues(&later));
        let other = TaskRecord {
            step: RecordText::new("sort").expect("a name"),
            ..later
        };
        assert!(!other.continues(&record()));
    }

    #[test]
    fn what_no_program_of_ours_wrote_is_refused() {
        let good = serde_json::to_value(record()).expect("JSON");
        let check = |field: &str, value: serde_json::Value| {
            let mut bad = good.clone();
            bad[field] = value;
            let read: Result<TaskRecord, _> = serde_json::from_value(bad);
            assert!(read.is_err(), "{field}: {read:?}");
        };
        assert_eq!(serde_json::from_value(good.clone()).ok(), Some(record()));
        check("step", "".into());
        check("step", "a\u{1b}[2Jb".into());
        check("step", "x".repeat(MAX_NAME_BYTES + 1).into());
        check("name", "a\nb".into());
        check("keys", serde_json::json!([]));
        check("keys", serde_json::json!(vec!["slurm:7"; 5]));
        check("keys", serde_json::json!(["slurm:7; rm -rf /"]));
        check("source", "mine".into());
        check("until", "1970-01-01T00:00:00Z".into());
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_name_that_reads_back(text in any::<String>()) {
            if let Some(name) = RecordText::new(&text) {
                prop_assert!(name.as_str().len() <= MAX_NAME_BYTES);
                prop_assert!(!name.as_str().chars().any(char::is_control));
                prop_assert_eq!(RecordText::try_from(name.0.clone()), Ok(name));
            }
        }
    }
}
