//! A run for tests of its documents.

use std::time::Duration;

use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_telemetry::origin::Origin;
use jiff::Timestamp;
use serde_json::json;

use crate::fake::clock::FakeClock;
use crate::fake::objects::FakeObjects;

/// An empty bucket.
pub(crate) fn bucket() -> FakeObjects {
    FakeObjects::new(FakeClock::at(Timestamp::UNIX_EPOCH))
}

/// Task `n`, which starts in second `n`.
pub(crate) fn task(n: usize) -> TaskDetail {
    let at = |second: usize| Timestamp::UNIX_EPOCH + Duration::from_secs(second as u64);
    let value = json!({
        "id": format!("i-1/b/{n}"), "step": "align", "name": "bwa", "kind": "ecs_task",
        "runtime": "batch", "run": "r", "pipeline": null, "sample": null, "node": "i-1",
        "job": "j", "attempt": n, "user_id": null, "queued_at": null, "started_at": at(n),
        "observed_at": at(n + 1), "last_progress_at": at(n + 1), "end": "running",
        "typical_seconds": null, "requested_cores": 2.5, "requested_memory_bytes": null,
        "peak_cores": null, "peak_memory_bytes": null, "cpu_seconds": 1.0,
        "disk_read_bytes": null, "disk_written_bytes": null, "network_received_bytes": null,
        "network_sent_bytes": null, "gpu_busy_seconds": null, "states": {}, "tools": [],
        "points": [], "findings": [],
    });
    serde_json::from_value(value).expect("a task")
}

/// The first tasks of the run; three more are left out.
pub(crate) fn list(tasks: usize) -> TaskList {
    TaskList {
        schema: TaskList::SCHEMA.to_owned(),
        at: Timestamp::UNIX_EPOCH,
        origin: Origin::Measured,
        tasks: (0..tasks).map(task).collect(),
        left_out: 3,
    }
}
