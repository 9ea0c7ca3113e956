//! Identifies a task of Nextflow outside of its trace: by the tags that `ebb init --engine
//! nextflow` sets on Batch jobs, by the label of a container, and by the name of a pod.

use ebb_model::inventory::batch::job::Job;
use ebb_model::task_record::TaskKey;
use ebb_telemetry::step::container_labels::NEXTFLOW_HASH;
use ebb_telemetry::step::{PlacedStep, StepKind};

/// The digits of the hash of a task.
const HASH_DIGITS: usize = 32;

/// The tag of the task, which is its sample; `None` if the job has none.
pub(crate) fn sample_of(job: &Job) -> Option<&str> {
    value(job, "nf_tag")
}

/// The number of the attempt, from 1; `None` if the job has none.
pub(crate) fn attempt_of(job: &Job) -> Option<u32> {
    let attempt = value(job, "nf_attempt")?.parse().ok();
    attempt.filter(|attempt| *attempt > 0)
}

/// The hash of the work folder; `None` if no tag, label or name of a pod contains it.
pub(crate) fn work_folder(step: &PlacedStep, job: Option<&Job>) -> Option<TaskKey> {
    let tagged = || key_of(value(job?, "nf_hash")?);
    let observed = || {
        key_of(match step.usage.id.kind {
            StepKind::Container => step.usage.label(NEXTFLOW_HASH)?,
            StepKind::Pod => hash_in_pod(&step.usage.name)?,
            _ => return None,
        })
    };
    tagged().or_else(observed)
}

/// The hash in the name of a pod: `NAMESPACE/nf-HASH-SUFFIX`.
///
/// Source: `K8sTaskHandler.getSyntheticPodName` of Nextflow. The pod of a Job has a second suffix.
pub(crate) fn hash_in_pod(name: &str) -> Option<&str> {
    let (_, pod) = name.rsplit_once('/').unwrap_or(("", name));
    let (hash, rest) = pod.strip_prefix("nf-")?.split_at_checked(HASH_DIGITS)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && (rest.is_empty() || rest.starts_with('-'))).then_some(hash)
}

/// A tag of a job. The children of an array all have the tags of the first one.
fn value<'a>(job: &'a Job, key: &str) -> Option<&'a str> {
    let is_array_child = job.id.as_str().contains(':');
    let value = job.tags.get(key).filter(|_| !is_array_child)?;
    (!value.is_empty() && value != "null").then_some(value.as_str())
}

/// A hash with or without the `/` of the work folder.
fn key_of(hash: &str) -> Option<TaskKey> {
    match hash.split_at_checked(2) {
        Some((group, rest)) if !hash.contains('/') => {
            TaskKey::nextflow_task(&format!("{group}/{rest}"))
        }
        _ => TaskKey::nextflow_task(hash),
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::inventory::batch::job::{JobId, JobStatus};
    use ebb_telemetry::testing::placed_step;

    use super::*;
    use crate::testing::region;

    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
    const HASH: &str = "abcdef0123456789abcdef0123456789";

    fn job(id: &str, tags: &[(&str, &str)]) -> Job {
        let id = JobId::new(id).expect("an id");
        let mut job = Job::new(id, "ALIGN_S1", "q", region(), JobStatus::Running);
        let tags = tags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        job.tags = tags.collect();
        job
    }

    #[test]
    fn tags_of_a_job_are_of_its_task_unless_it_is_a_child_of_an_array() {
        let tags = [("nf_tag", "S1"), ("nf_attempt", "2"), ("nf_hash", HASH)];
        let one = job(UUID, &tags);
        let read = |job: &Job| {
            let folder = work_folder(&placed_step(1, 0), Some(job));
            let sample = sample_of(job).map(str::to_owned);
            (sample, attempt_of(job), folder)
        };
        let folder = TaskKey::nextflow_task("ab/cdef01");
        assert_eq!(read(&one), (Some("S1".to_owned()), Some(2), folder));
        let child = job(&format!("{UUID}:3"), &tags);
        assert_eq!(read(&child), (None, None, None));
        let tags = [("nf_tag", "null"), ("nf_attempt", "0"), ("nf_hash", "x")];
        assert_eq!(read(&job(UUID, &tags)), (None, None, None));
    }

    #[test]
    fn the_name_of_a_pod_contains_the_hash() {
        let check = |name: &str, expect: Option<&str>| {
            let mut step = placed_step(1, 0);
            step.usage.id.kind = StepKind::Pod;
            step.usage.name = name.to_owned();
            let expect = expect.and_then(TaskKey::nextflow_task);
            assert_eq!(work_folder(&step, None), expect, "{name}");
        };
        check(&format!("lab/nf-{HASH}-1a2b3"), Some("ab/cdef01"));
        check(&format!("lab/nf-{HASH}"), Some("ab/cdef01"));
        // A Job.
        check(&format!("lab/nf-{HASH}-1a2b3-x7k2p"), Some("ab/cdef01"));
        check(&format!("lab/nf-{HASH}0-1a2b3"), None);
        check("lab/nf-abcdef12-1700000000000", None);
        check("lab/nf-core-website", None);
        check("lab/align", None);
        check(&format!("lab/nf-{}", "é".repeat(16)), None);
    }
}
