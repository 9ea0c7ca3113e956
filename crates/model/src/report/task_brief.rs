//! Tasks without the parts that only a page about one of them shows. 100,000 take about 40 MB of
//! memory. [`TaskColumns`] is their stored form.

use std::collections::HashMap;

use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepEnd;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::finding_kind::FindingKind;
use crate::report::task_detail::{TaskDetail, TaskList};

/// The tasks of one run, node or step in brief.
#[derive(Debug, Clone, PartialEq)]
pub struct BriefList {
    /// The sweep that wrote the list.
    pub at: Timestamp,
    /// Simulated if at least one task is simulated.
    pub origin: Origin,
    /// The tasks by start, then by id.
    pub tasks: Vec<TaskBrief>,
    /// Number of tasks that a limit left out; the newest tasks stay.
    pub left_out: usize,
}

impl From<&TaskList> for BriefList {
    fn from(list: &TaskList) -> Self {
        Self {
            at: list.at,
            origin: list.origin,
            tasks: list.tasks.iter().map(TaskBrief::from).collect(),
            left_out: list.left_out,
        }
    }
}

/// One task. The fields have the meaning of those of [`TaskDetail`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "`TaskDetail` documents the same fields")]
pub struct TaskBrief {
    pub id: SmolStr,
    pub step: SmolStr,
    pub name: SmolStr,
    pub run: Option<SmolStr>,
    pub sample: Option<SmolStr>,
    pub node: NodeId,
    pub job: Option<SmolStr>,
    pub attempt: Option<u32>,
    pub queued_at: Option<Timestamp>,
    pub started_at: Timestamp,
    pub observed_at: Timestamp,
    pub last_progress_at: Timestamp,
    pub end: StepEnd,
    pub typical_seconds: Option<f64>,
    pub requested_cores: Option<f64>,
    pub requested_memory_bytes: Option<u64>,
    pub peak_cores: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
    pub cpu_seconds: f64,
    /// Whether a finding reports a stalled step.
    pub has_stalled_step: bool,
    /// Whether a finding reports a stuck Batch job.
    pub has_stuck_job: bool,
}

impl From<&TaskDetail> for TaskBrief {
    fn from(task: &TaskDetail) -> Self {
        let has = |kind: FindingKind| {
            let begin = format!("{}/", kind.slug());
            task.findings.iter().any(|id| id.starts_with(&begin))
        };
        Self {
            id: task.id.as_str().into(),
            step: task.step.as_str().into(),
            name: task.name.as_str().into(),
            run: task.run.as_deref().map(SmolStr::from),
            sample: task.sample.as_deref().map(SmolStr::from),
            node: task.node.clone(),
            job: task.job.as_deref().map(SmolStr::from),
            attempt: task.attempt,
            queued_at: task.queued_at,
            started_at: task.started_at,
            observed_at: task.observed_at,
            last_progress_at: task.last_progress_at,
            end: task.end,
            typical_seconds: task.typical_seconds,
            requested_cores: task.requested_cores,
            requested_memory_bytes: task.requested_memory_bytes,
            peak_cores: task.peak_cores,
            peak_memory_bytes: task.peak_memory_bytes,
            cpu_seconds: task.cpu_seconds,
            has_stalled_step: has(FindingKind::StalledStep),
            has_stuck_job: has(FindingKind::StuckBatchJob),
        }
    }
}

/// The attempts of one piece of work: by job, or by step, sample and name without a job.
pub type WorkKey<'a> = (&'a str, Option<&'a str>, &'a str);

impl TaskBrief {
    /// The piece of work of which the task is an attempt.
    pub fn work(&self) -> WorkKey<'_> {
        match &self.job {
            Some(job) => (job, None, ""),
            None => (&self.step, self.sample.as_deref(), &self.name),
        }
    }

    /// The time from its start to its end, or to its last observation. 0 if they are in the wrong order.
    pub fn took_seconds(&self) -> f64 {
        let took = self.observed_at.duration_since(self.started_at);
        took.as_secs_f64().max(0.0)
    }
}

/// Tasks of one run in columns: one value for each task. A name is a position in `names`. Times are
/// in nanoseconds; a time after the year 2262 is stored as one in that year.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskColumns {
    names: Vec<SmolStr>,
    /// The begin of the id, up to its last `/`.
    id_begin: Vec<u32>,
    id_end: Vec<SmolStr>,
    step: Vec<u32>,
    name: Vec<u32>,
    sample: Vec<Option<u32>>,
    node: Vec<u32>,
    job: Vec<Option<SmolStr>>,
    attempt: Vec<Option<u32>>,
    /// Since the epoch.
    started: Vec<i64>,
    queued_before: Vec<Option<i64>>,
    observed_after: Vec<i64>,
    progress_after: Vec<i64>,
    end: Vec<StepEnd>,
    typical_seconds: Vec<Option<f64>>,
    requested_cores: Vec<Option<f64>>,
    requested_memory_bytes: Vec<Option<u64>>,
    peak_cores: Vec<Option<f64>>,
    peak_memory_bytes: Vec<Option<u64>>,
    cpu_seconds: Vec<f64>,
    /// Positions of tasks with a finding about a stalled step.
    stalled_steps: Vec<u32>,
    /// Positions of tasks with a finding about a stuck Batch job.
    stuck_jobs: Vec<u32>,
}

impl<'a> FromIterator<&'a TaskBrief> for TaskColumns {
    fn from_iter<T: IntoIterator<Item = &'a TaskBrief>>(tasks: T) -> Self {
        let mut columns = Self::default();
        let mut positions = HashMap::new();
        for task in tasks {
            columns.push(task, &mut positions);
        }
        columns
    }
}

impl TaskColumns {
    fn push(&mut self, task: &TaskBrief, positions: &mut HashMap<SmolStr, u32>) {
        let names = &mut self.names;
        let mut position = |name: &str| match positions.get(name) {
            Some(position) => *position,
            None => {
                let next = number(names.len());
                names.push(name.into());
                positions.insert(name.into(), next);
                next
            }
        };
        let (begin, end) = task.id.split_at(task.id.rfind('/').map_or(0, |at| at + 1));
        self.id_begin.push(position(begin));
        self.step.push(position(&task.step));
        self.name.push(position(&task.name));
        self.sample.push(task.sample.as_deref().map(&mut position));
        self.node.push(position(task.node.as_str()));
        let at = number(self.id_end.len());
        if task.has_stalled_step {
            self.stalled_steps.push(at);
        }
        if task.has_stuck_job {
            self.stuck_jobs.push(at);
        }
        self.id_end.push(end.into());
        self.job.push(task.job.clone());
        self.attempt.push(task.attempt);
        let started = nanoseconds(task.started_at);
        let after = |time: Timestamp| nanoseconds(time).saturating_sub(started);
        self.started.push(started);
        self.queued_before
            .push(task.queued_at.map(|at| after(at).saturating_neg()));
        self.observed_after.push(after(task.observed_at));
        self.progress_after.push(after(task.last_progress_at));
        self.end.push(task.end);
        self.typical_seconds.push(task.typical_seconds);
        self.requested_cores.push(task.requested_cores);
        self.requested_memory_bytes
            .push(task.requested_memory_bytes);
        self.peak_cores.push(task.peak_cores);
        self.peak_memory_bytes.push(task.peak_memory_bytes);
        self.cpu_seconds.push(task.cpu_seconds);
    }

    /// The tasks of this run.
    ///
    /// # Errors
    /// If columns have different lengths, or a value is not valid.
    pub fn tasks(&self, run: Option<&str>) -> Result<Vec<TaskBrief>, String> {
        let run = run.map(SmolStr::from);
        // Most names are not of nodes, and a check of each would take long.
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.names.len()];
        for at in &self.node {
            let at = *at as usize;
            if let (Some(None), Some(name)) = (nodes.get(at), self.names.get(at)) {
                nodes[at] = NodeId::new(name).ok();
            }
        }
        let read = |at: usize| self.task(at, (&run, &nodes));
        let tasks: Option<Vec<TaskBrief>> = (0..self.longest()).map(read).collect();
        let mut tasks = tasks.ok_or("a column is too short or has an invalid value")?;
        for (positions, is_stalled) in [(&self.stalled_steps, true), (&self.stuck_jobs, false)] {
            for at in positions {
                let task = tasks.get_mut(*at as usize);
                let task = task.ok_or("a finding is about a missing task")?;
                match is_stalled {
                    true => task.has_stalled_step = true,
                    false => task.has_stuck_job = true,
                }
            }
        }
        Ok(tasks)
    }

    /// The length of the longest column. Any shorter column is an error.
    fn longest(&self) -> usize {
        let lengths = [
            self.id_begin.len(),
            self.id_end.len(),
            self.step.len(),
            self.name.len(),
            self.sample.len(),
            self.node.len(),
            self.job.len(),
            self.attempt.len(),
            self.started.len(),
            self.queued_before.len(),
            self.observed_after.len(),
            self.progress_after.len(),
            self.end.len(),
            self.typical_seconds.len(),
            self.requested_cores.len(),
            self.requested_memory_bytes.len(),
            self.peak_cores.len(),
            self.peak_memory_bytes.len(),
            self.cpu_seconds.len(),
        ];
        lengths.into_iter().max().unwrap_or_default()
    }

    /// `None` if a column is too short or a value is not valid.
    fn task(
        &self,
        at: usize,
        (run, nodes): (&Option<SmolStr>, &[Option<NodeId>]),
    ) -> Option<TaskBrief> {
        let name = |column: &[u32]| self.names.get(*column.get(at)? as usize).cloned();
        let begin = self.names.get(*self.id_begin.get(at)? as usize)?;
        let end = self.id_end.get(at)?;
        let sample = match self.sample.get(at)? {
            Some(position) => Some(self.names.get(*position as usize)?.clone()),
            None => None,
        };
        let started = *self.started.get(at)?;
        let time = |after: i64| {
            let time = i128::from(started) + i128::from(after);
            Timestamp::from_nanosecond(time).ok()
        };
        let queued_at = match self.queued_before.get(at)? {
            Some(before) => Some(time(before.checked_neg()?)?),
            None => None,
        };
        Some(TaskBrief {
            id: smol_str::format_smolstr!("{begin}{end}"),
            step: name(&self.step)?,
            name: name(&self.name)?,
            run: run.clone(),
            sample,
            node: nodes.get(*self.node.get(at)? as usize)?.clone()?,
            job: self.job.get(at)?.clone(),
            attempt: *self.attempt.get(at)?,
            queued_at,
            started_at: time(0)?,
            observed_at: time(*self.observed_after.get(at)?)?,
            last_progress_at: time(*self.progress_after.get(at)?)?,
            end: *self.end.get(at)?,
            typical_seconds: *self.typical_seconds.get(at)?,
            requested_cores: *self.requested_cores.get(at)?,
            requested_memory_bytes: *self.requested_memory_bytes.get(at)?,
            peak_cores: *self.peak_cores.get(at)?,
            peak_memory_bytes: *self.peak_memory_bytes.get(at)?,
            cpu_seconds: *self.cpu_seconds.get(at)?,
            has_stalled_step: false,
            has_stuck_job: false,
        })
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn nanoseconds(at: Timestamp) -> i64 {
    let time = at.as_nanosecond();
    i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn brief(n: u32) -> TaskBrief {
        let at = |text: &str| text.parse().expect("a time");
        TaskBrief {
            id: format!("i-{n}/0b00b007/task/{n}").into(),
            step: "align".into(),
            name: "bwa".into(),
            run: Some("r".into()),
            sample: (n == 1).then(|| "S1".into()),
            node: NodeId::new(format!("i-{n}")).expect("a node"),
            job: (n == 1).then(|| "j".into()),
            attempt: (n == 1).then_some(2),
            queued_at: (n == 1).then(|| at("2026-03-04T08:00:00.000000001Z")),
            started_at: at("2026-03-04T08:01:00.123456789Z"),
            observed_at: at("2026-03-04T08:40:00.9Z"),
            last_progress_at: at("2026-03-04T08:00:59Z"),
            end: StepEnd::Exited(u8::from(n == 1)),
            typical_seconds: Some(0.5),
            requested_cores: None,
            requested_memory_bytes: Some(u64::MAX),
            peak_cores: Some(1.25),
            peak_memory_bytes: None,
            cpu_seconds: 60.0,
            has_stalled_step: n == 0,
            has_stuck_job: n == 1,
        }
    }

    #[test]
    fn columns_have_all_values_of_the_tasks() {
        let tasks = [brief(0), brief(1), brief(2)];
        let columns: TaskColumns = tasks.iter().collect();
        let text = serde_json::to_string(&columns).expect("JSON");
        let read: TaskColumns = serde_json::from_str(&text).expect("columns");
        assert_eq!(read.tasks(Some("r")).as_deref(), Ok(&tasks[..]));
        assert_eq!(TaskColumns::default().tasks(None), Ok(Vec::new()));
        let far = TaskBrief {
            observed_at: Timestamp::MAX,
            ..brief(0)
        };
        let columns: TaskColumns = [&far].into_iter().collect();
        let read = columns.tasks(Some("r")).expect("tasks").remove(0);
        assert!(
            read.observed_at.to_string().starts_with("2262-"),
            "{read:?}"
        );
    }

    #[test]
    fn columns_that_no_program_of_ours_wrote_are_refused() {
        let columns: TaskColumns = [brief(0), brief(1)].iter().collect();
        let good = serde_json::to_value(&columns).expect("JSON");
        let check = |column: &str, value: Value| {
            let mut bad = good.clone();
            bad[column] = value;
            let read = serde_json::from_value::<TaskColumns>(bad);
            let read = read.map_err(|error| error.to_string());
            let read = read.and_then(|columns| columns.tasks(None));
            assert!(read.is_err(), "{column}: {read:?}");
        };
        let columns = good.as_object().expect("an object").keys();
        for column in
            columns.filter(|column| !column.starts_with("stalled") && *column != "stuck_jobs")
        {
            check(column, json!([]));
        }
        check("cpu_seconds", json!([1.0, 2.0, 3.0]));
        check("step", json!([0, 99]));
        check("node", json!([0, u32::MAX]));
        check("sample", json!([0, 99]));
        check(
            "names",
            json!(["\u{1b}", "\u{1b}", "\u{1b}", "\u{1b}", "x", "x", "x", "x"]),
        );
        check("started", json!([0, "now"]));
        check("observed_after", json!([0, -1e30]));
        check("queued_before", json!([0, i64::MIN]));
        check("stuck_jobs", json!([2]));
        check("stalled_steps", json!([-1]));
    }
}
