//! The use of one task over time, for the script that draws it. The points of a task are totals;
//! between two points, their difference is a rate.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use ebb_model::report::task_detail::{TaskDetail, UsagePoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::extract::{Moment, Name, Query, Shared};
use crate::pages::run::{RunPath, known, position};
use crate::pages::view::{View, segment};
use crate::problem::Problem;

/// The task.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskChoice {
    task: String,
}

/// The use of a task in columns. `None` is unknown.
#[derive(Debug, Default, Serialize)]
struct Usage {
    schema: &'static str,
    /// Seconds since the epoch.
    at: Vec<i64>,
    cores: Vec<Option<f64>>,
    memory_bytes: Vec<Option<u64>>,
    disk_bytes_per_second: Vec<Option<f64>>,
    network_bytes_per_second: Vec<Option<f64>>,
    gpus: Vec<Option<f64>>,
    requested_cores: Option<f64>,
    requested_memory_bytes: Option<u64>,
    peak_cores: Option<f64>,
    peak_memory_bytes: Option<u64>,
}

/// The use of a task.
pub(crate) async fn usage(
    Name(RunPath(run)): Name<RunPath>,
    Query(choice): Query<TaskChoice>,
    State(store): Shared,
    moment: Moment,
    view: View,
) -> Result<Response, Problem> {
    let (_, list) = known((&store, &view), &run, moment).await?;
    let tasks = list.as_ref().map_or(&[][..], |list| &list.list.tasks);
    let whole = match (&list, position(tasks, &choice.task)) {
        (Some(list), Some(at)) => store.whole_tasks(list, &[at], moment.now).await?,
        _ => Vec::new(),
    };
    let task = whole.first().ok_or_else(|| Problem::Target {
        what: "task",
        detail: format!("The run '{run}' has no task '{}'.", choice.task),
    })?;
    let version = view.version.trim_matches('"');
    let version = format!("{version}-{}", segment(&choice.task));
    Ok(Answer::json(&Usage::from_task(task), &version)?.into_response())
}

impl Usage {
    fn from_task(task: &TaskDetail) -> Self {
        let mut usage = Self {
            schema: "ebb.usage/1",
            requested_cores: task.requested_cores,
            requested_memory_bytes: task.requested_memory_bytes,
            peak_cores: task.peak_cores,
            peak_memory_bytes: task.peak_memory_bytes,
            ..Self::default()
        };
        for pair in task.points.windows(2) {
            let [before, after] = pair else { continue };
            usage.add(before, after);
        }
        usage
    }

    fn add(&mut self, before: &UsagePoint, after: &UsagePoint) {
        let time = after.at.duration_since(before.at).as_secs_f64();
        if time <= 0.0 {
            return;
        }
        // A total that went backwards is unknown.
        let rate = |before: f64, after: f64| (after >= before).then(|| (after - before) / time);
        let bytes = |before: Option<u64>, after: Option<u64>| {
            let (before, after) = before.zip(after)?;
            rate(before as f64, after as f64)
        };
        let gpu = before.gpu_busy_seconds.zip(after.gpu_busy_seconds);
        self.at.push(after.at.as_second());
        self.cores.push(rate(before.cpu_seconds, after.cpu_seconds));
        self.memory_bytes.push(after.memory_bytes);
        self.disk_bytes_per_second
            .push(bytes(before.disk_bytes, after.disk_bytes));
        self.network_bytes_per_second
            .push(bytes(before.network_bytes, after.network_bytes));
        self.gpus
            .push(gpu.and_then(|(before, after)| rate(before, after)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tests::task_list;

    #[test]
    fn totals_become_rates_and_what_went_backwards_is_unknown() {
        let mut task = task_list().tasks.remove(0);
        let usage = Usage::from_task(&task);
        assert_eq!(usage.cores, [Some(2.0), Some(4.0)]);
        assert_eq!(usage.disk_bytes_per_second, [Some(100.0), None]);
        assert_eq!(usage.gpus, [None, None]);
        task.points[2].cpu_seconds = 0.0;
        assert_eq!(Usage::from_task(&task).cores, [Some(2.0), None]);
        task.points[1].at = task.points[0].at;
        assert_eq!(Usage::from_task(&task).at.len(), 1);
        task.points.clear();
        assert!(Usage::from_task(&task).at.is_empty());
    }
}
