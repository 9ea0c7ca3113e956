//! Batch jobs: listed by queue and status, then described in pages.

mod detail;

use std::time::Duration;

use aws_sdk_batch::types::{JobStatus as Status, JobSummary};
use ebb_model::inventory::batch::JobQueue;
use ebb_model::inventory::batch::job::Job;
use ebb_model::visibility_gap::ENDED_JOBS;
use jiff::Timestamp;

use super::super::error::cloud_error;
use super::region_part::{Clients, Part, unreadable};
use crate::permissions::{DESCRIBE_JOBS, LIST_JOBS};
use crate::turns::in_turns;

/// Maximum number of jobs in one list or describe call.
const PAGE: usize = 100;

/// Maximum number of jobs for one queue and status; a gap reports further jobs.
const MAX_LISTED: usize = 5_000;

/// Ended jobs are reported for one day; Batch keeps them for a week.
const ENDED_WITHIN: Duration = Duration::from_secs(24 * 3_600);

/// Without a status, `ListJobs` returns only RUNNING jobs.
const STATUSES: [Status; 7] = [
    Status::Submitted,
    Status::Pending,
    Status::Runnable,
    Status::Starting,
    Status::Running,
    Status::Succeeded,
    Status::Failed,
];

/// The parent of a list of jobs.
#[derive(Debug, Clone)]
enum Of {
    Queue(String),
    Array(String),
    MultiNode(String),
}

/// A job that was listed but not described.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedJob {
    id: String,
    children: Children,
}

/// The live children of a job, which their queue does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    No,
    OfArray,
    /// The nodes of a multi-node parallel job.
    Nodes,
}

/// The ids of all live jobs and of jobs that ended within a day before `now`. They include the children
/// of live array jobs and multi-node parallel jobs.
pub(super) async fn list(clients: &Clients, queues: &[JobQueue], now: Timestamp) -> Part<String> {
    let of_queues = queues.iter().map(|queue| Of::Queue(queue.name.clone()));
    let mut all = list_each(clients, of_queues.collect(), now).await;
    let parents = all.found.iter().filter_map(|job| match job.children {
        Children::No => None,
        Children::OfArray => Some(Of::Array(job.id.clone())),
        Children::Nodes => Some(Of::MultiNode(job.id.clone())),
    });
    let parents = parents.collect();
    all.absorb(list_each(clients, parents, now).await);
    let mut ids: Vec<_> = all.found.into_iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids.dedup();
    Part {
        found: ids,
        refused: all.refused,
    }
}

async fn list_each(clients: &Clients, sources: Vec<Of>, now: Timestamp) -> Part<ListedJob> {
    let calls = sources
        .into_iter()
        .flat_map(|of| STATUSES.map(|status| list_one(clients.clone(), of.clone(), status, now)));
    let mut all = Part::default();
    for part in in_turns(calls.collect::<Vec<_>>()).await {
        all.absorb(part);
    }
    all
}

async fn list_one(clients: Clients, of: Of, status: Status, now: Timestamp) -> Part<ListedJob> {
    let mut part = Part::default();
    let cut = cut_list(&status);
    let call = clients.batch.list_jobs().job_status(status);
    let (call, name) = match of {
        Of::Queue(name) => (call.job_queue(&name), name),
        Of::Array(id) => (call.array_job_id(&id), id),
        Of::MultiNode(id) => (call.multi_node_job_id(&id), id),
    };
    let mut jobs = call
        .into_paginator()
        .page_size(i32::try_from(PAGE).unwrap_or(i32::MAX))
        .items()
        .send();
    let mut listed = 0;
    while let Some(job) = jobs.next().await {
        match job {
            Ok(job) => {
                listed += 1;
                part.found.extend(listed_job(&job, now));
            }
            Err(error) => {
                part.refused.push(cloud_error(LIST_JOBS, &name, &error));
                break;
            }
        }
        if listed == MAX_LISTED {
            let message = format!("{name}: read only the first {MAX_LISTED} jobs of a status");
            part.refused.push(unreadable(cut, &message));
            break;
        }
    }
    part
}

/// The call in the scope of the gap of a list that is too long. Busy queues have such a list of ended
/// jobs in each sweep, and it hides no job that still runs.
const fn cut_list(status: &Status) -> &'static str {
    match status {
        Status::Succeeded | Status::Failed => ENDED_JOBS,
        _ => LIST_JOBS,
    }
}

/// `None` for a job that ended too long ago.
fn listed_job(job: &JobSummary, now: Timestamp) -> Option<ListedJob> {
    let ended = matches!(job.status(), Some(Status::Succeeded | Status::Failed));
    let last = job.stopped_at().or(job.created_at());
    let last = last.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    let since = now.saturating_sub(ENDED_WITHIN).unwrap_or(Timestamp::MIN);
    if ended && last.is_some_and(|last| last < since) {
        return None;
    }
    let is_array = job.array_properties().is_some_and(|a| a.size().is_some());
    // A node of such a job has an index.
    let nodes = job.node_properties();
    let has_nodes = nodes.is_some_and(|n| n.num_nodes().is_some() && n.node_index().is_none());
    Some(ListedJob {
        id: job.job_id()?.to_owned(),
        children: match (ended, is_array, has_nodes) {
            (false, true, _) => Children::OfArray,
            (false, false, true) => Children::Nodes,
            _ => Children::No,
        },
    })
}

/// The jobs with these ids. Jobs that Batch has deleted meanwhile are left out.
pub(super) async fn describe(clients: &Clients, ids: Vec<String>) -> Part<Job> {
    let calls = ids
        .chunks(PAGE)
        .map(|page| describe_page(clients.clone(), page.to_vec()));
    let mut all = Part::default();
    for part in in_turns(calls.collect::<Vec<_>>()).await {
        all.absorb(part);
    }
    all
}

async fn describe_page(clients: Clients, ids: Vec<String>) -> Part<Job> {
    let mut part = Part::default();
    let call = clients.batch.describe_jobs().set_jobs(Some(ids));
    match call.send().await {
        Ok(answer) => {
            for job_detail in answer.jobs() {
                part.take(DESCRIBE_JOBS, detail::job(job_detail, &clients.region));
            }
        }
        Err(error) => part
            .refused
            .push(cloud_error(DESCRIBE_JOBS, "jobs", &error)),
    }
    part
}

#[cfg(test)]
mod tests {
    use aws_sdk_batch::types::builders::JobSummaryBuilder;
    use aws_sdk_batch::types::{ArrayPropertiesSummary, NodePropertiesSummary};

    use super::*;

    #[test]
    fn live_jobs_are_listed_always_and_ended_ones_for_a_day() {
        let now: Timestamp = "2026-03-02T12:00:00Z".parse().expect("a time");
        let hours_ago = |hours: i64| now.as_millisecond() - hours * 3_600_000;
        let summary = |status| JobSummary::builder().job_id("j").status(status);
        let check = |job: JobSummaryBuilder, expect: Option<Children>| {
            let job = job.build();
            assert_eq!(listed_job(&job, now).map(|s| s.children), expect, "{job:?}");
        };
        let array = ArrayPropertiesSummary::builder().size(3).build();
        check(
            summary(Status::Running).created_at(hours_ago(100)),
            Some(Children::No),
        );
        check(
            summary(Status::Pending).array_properties(array),
            Some(Children::OfArray),
        );
        let nodes = NodePropertiesSummary::builder().num_nodes(4);
        check(
            summary(Status::Running).node_properties(nodes.clone().build()),
            Some(Children::Nodes),
        );
        check(
            summary(Status::Running).node_properties(nodes.node_index(0).build()),
            Some(Children::No),
        );
        check(summary(Status::Failed).created_at(hours_ago(25)), None);
        check(
            summary(Status::Succeeded)
                .created_at(hours_ago(25))
                .stopped_at(hours_ago(23)),
            Some(Children::No),
        );
        check(summary(Status::Succeeded), Some(Children::No));
        check(JobSummary::builder().status(Status::Running), None);
    }

    #[test]
    fn a_long_list_of_ended_jobs_has_a_gap_of_its_own() {
        for status in STATUSES {
            let is_of_ended = cut_list(&status) == ENDED_JOBS;
            let has_ended = matches!(status, Status::Succeeded | Status::Failed);
            assert_eq!(is_of_ended, has_ended, "{status}");
        }
    }
}
