//! The single tasks of one run, from the documents of the last sweep.

use anyhow::{Context, Error, Result, anyhow};
use ebb_cloud::documents::run_tasks::read_whole_run;
use ebb_cloud::documents::task_lists::read_index;
use ebb_cloud::ports::Objects;
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::one_line;
use jiff::Timestamp;
use serde::Deserialize;

use super::api_client::{ApiClient, ApiProblem, segment};
use super::opened::{Deployment, newest_report};
use crate::similar_names;

/// The right on AWS that the documents need.
pub(super) const DETAILS_NEED: &str = "the command needs s3:GetObject on details/* of the bucket";

/// Whether sweeps of a deployment wrote single tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredDetails {
    /// No sweep wrote any.
    Missing,
    /// A sweep wrote some.
    Present,
    /// Nothing is known.
    Unknown,
}

/// The tasks of a run.
///
/// # Errors
/// If nothing has this name, with similar names, or if no sweep stored the tasks.
pub(crate) async fn run_tasks(deployment: &Deployment, run: &str) -> Result<TaskList> {
    match deployment {
        Deployment::Stored(stored) => of_objects(stored.objects.as_ref(), run).await,
        Deployment::Api(api) => of_api(api, run).await,
    }
}

async fn of_objects(objects: &dyn Objects, run: &str) -> Result<TaskList> {
    if let Some(list) = read_whole_run(objects, run).await.context(DETAILS_NEED)? {
        return Ok(list);
    }
    let report = newest_report(objects).await?;
    let index = read_index(objects).await.context(DETAILS_NEED)?;
    let stored = index.iter().flat_map(|index| index.content.runs.keys());
    let mut known: Vec<&str> = report.runs.runs.iter().map(|run| &*run.run).collect();
    // The report lists only the newest runs.
    for name in stored {
        if !known.contains(&&**name) {
            known.push(name);
        }
    }
    let details = match index {
        None => StoredDetails::Missing,
        Some(_) => StoredDetails::Present,
    };
    let Some(name) = full_name(run, &known) else {
        return Err(missing_run(run, &known, details));
    };
    let list = read_whole_run(objects, name).await.context(DETAILS_NEED)?;
    list.ok_or_else(|| missing_run(name, &known, details))
}

/// The part of the answer that all pages have.
#[derive(PartialEq, Deserialize)]
struct RunHead {
    origin: Origin,
    summary: Option<RunSummary>,
    tasks_at: Option<Timestamp>,
    tasks_left_out: usize,
}

#[derive(PartialEq, Deserialize)]
struct RunSummary {
    origin: Origin,
}

#[derive(Deserialize)]
struct RunName {
    run: String,
}

#[derive(PartialEq, Deserialize)]
struct ReportTime {
    at: Timestamp,
}

async fn of_api(api: &ApiClient, run: &str) -> Result<TaskList> {
    match list_of_api(api, run).await {
        Err(ApiProblem::Name(_)) => {}
        list => return list?.ok_or_else(|| missing_run(run, &[run], StoredDetails::Unknown)),
    }
    let runs = api.list::<RunName, ReportTime>("/v1/runs").await;
    let (runs, _) = runs.map_err(Error::from)?;
    let reported: Vec<&str> = runs.iter().map(|run| &*run.run).collect();
    let missing = |name: &str| missing_run(name, &reported, StoredDetails::Unknown);
    let name = full_name(run, &reported).ok_or_else(|| missing(run))?;
    let list = list_of_api(api, name).await?;
    list.ok_or_else(|| missing(name))
}

/// `None` if the run is known and its tasks are not stored.
async fn list_of_api(api: &ApiClient, run: &str) -> Result<Option<TaskList>, ApiProblem> {
    let path = format!("/v1/runs/{}", segment(run));
    let (tasks, head) = api.list::<TaskDetail, RunHead>(&path).await?;
    Ok(head.tasks_at.map(|at| TaskList {
        schema: TaskList::SCHEMA.to_owned(),
        at,
        origin: head.summary.map_or(head.origin, |summary| summary.origin),
        tasks,
        left_out: head.tasks_left_out,
    }))
}

/// The run with this name, or else the only one whose name ends with it. A table shows only the end
/// of a long name.
pub(crate) fn full_name<'a>(run: &str, known: &[&'a str]) -> Option<&'a str> {
    let exact = known.iter().copied().find(|name| *name == run);
    let end = run.strip_prefix('…').unwrap_or(run);
    let mut matching = known.iter().copied().filter(|name| name.ends_with(end));
    let only = matching
        .next()
        .filter(|_| !end.is_empty() && matching.next().is_none());
    exact.or(only)
}

/// Why a run has no tasks: nothing has its name, or no sweep stored its tasks.
pub(crate) fn missing_run(run: &str, known: &[&str], details: StoredDetails) -> Error {
    let name = one_line(run);
    if !known.contains(&run) {
        let hint = similar_names::hint(run, known.iter().copied());
        let hint = hint.map_or_else(
            || "no run was observed".to_owned(),
            |hint| format!("{hint}\n  `ebb runs` lists all runs"),
        );
        return anyhow!("no run '{name}'\n  {hint}");
    }
    let remedy = match details {
        StoredDetails::Missing => {
            "sweeps of an earlier version store no tasks; deploy the present version, and the next \
             sweep stores them"
        }
        StoredDetails::Present => {
            "a sweep stores a limited number of runs, the newest first; ask again after the next \
             sweep"
        }
        StoredDetails::Unknown => {
            "sweeps of an earlier version store no tasks, and a sweep stores a limited number of \
             runs; ask again after the next sweep of the present version"
        }
    };
    anyhow!("the tasks of run '{name}' are not stored\n  {remedy}")
}

#[cfg(test)]
mod tests {
    use ebb_cloud::documents::run_tasks::run_key;

    use super::*;
    use crate::deployment::demo_deployment::DemoDeployment;

    #[test]
    fn the_unique_end_of_a_name_is_enough() {
        let check = |run: &str, expect: Option<&str>| {
            let reported = ["nextflow i-1/ab/run-1", "nextflow i-1/ab/run-11", "run-1"];
            assert_eq!(full_name(run, &reported), expect, "{run}");
        };
        check("run-1", Some("run-1"));
        check("/run-1", Some("nextflow i-1/ab/run-1"));
        check("…w i-1/ab/run-11", Some("nextflow i-1/ab/run-11"));
        check("1", None);
        check("", None);
        check("…", None);
        check("run-2", None);
    }

    #[tokio::test]
    async fn a_bucket_and_an_api_have_the_same_tasks() {
        let demo = DemoDeployment::new().await;
        let [stored, api] = demo.both();
        for (run, tasks) in [("cohort-7", 2), ("/run-0", 25), ("unassigned", 22)] {
            let list = run_tasks(&stored, run).await.expect("stored");
            assert_eq!((list.tasks.len(), list.left_out), (tasks, 0), "{run}");
            let over_api = run_tasks(&api, run).await.expect("it answers");
            assert_eq!(list, over_api, "{run}");
        }
    }

    #[tokio::test]
    async fn an_error_says_whether_the_name_or_the_document_is_missing() {
        let (new, old) = (
            DemoDeployment::new().await,
            DemoDeployment::of_earlier_version(),
        );
        let check = async |demo: &DemoDeployment, run: &str, expect: [&str; 2]| {
            for (deployment, expect) in demo.both().iter().zip(expect) {
                let error = run_tasks(deployment, run).await.expect_err(run);
                let error = format!("{error:#}");
                assert!(error.contains(expect), "{error}");
                assert!(!error.contains('\u{1b}'), "{error:?}");
            }
        };
        check(&new, "cohort-8", ["similar: cohort-7"; 2]).await;
        check(&new, "\u{1b}[31m", ["no run '\u{fffd}[31m'"; 2]).await;
        check(&new, "..", ["no run '..'"; 2]).await;
        let update = ["deploy the present version", "sweeps of an earlier version"];
        check(&old, "cohort-7", update).await;
        check(&old, "cohort-8", ["similar: cohort-7"; 2]).await;
        let key = run_key("cohort-7");
        new.bucket.insert(key, b"no zstd".to_vec());
        check(&new, "cohort-7", ["is not valid", "HTTP 500"]).await;
    }
}
