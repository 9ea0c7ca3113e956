//! How long a job waits in each stage, and why. Batch reports when a job was created and started.
//! The stages in between come from its dependencies, attempts and ECS task.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::inventory::batch::job::{Job, JobId, JobStatus};
use crate::inventory::batch::{BatchFleet, ComputeEnvironment, JobQueue};

/// The times of a job on its way to a machine; `None` for a stage that is not reached, or whose
/// time is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueTime {
    /// When it was submitted.
    pub created_at: Option<Timestamp>,
    /// When only a machine was missing: at the end of its last dependency, or of the previous
    /// attempt.
    pub runnable_at: Option<Timestamp>,
    /// When it was placed on a machine, which is the creation time of its ECS task.
    pub starting_at: Option<Timestamp>,
    /// When its container started.
    pub started_at: Option<Timestamp>,
    /// The cause of its waiting, or of the longest wait; `None` when unknown.
    pub cause: Option<WaitCause>,
}

impl QueueTime {
    /// The time from creation to start, or to `now`. `None` when the creation time is unknown.
    pub fn waited(&self, now: Timestamp) -> Option<Duration> {
        between(self.created_at, self.started_at.or(Some(now)))
    }
}

/// The cause of a job's waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum WaitCause {
    /// Other jobs must succeed first.
    Dependencies {
        /// The jobs that have not succeeded.
        jobs: Vec<JobId>,
    },
    /// Batch reports that the job cannot start.
    Blocked {
        /// The reason as Batch reports it.
        reason: String,
    },
    /// Its queue is disabled.
    QueueDisabled,
    /// No environment of its queue is enabled and valid.
    NoEnvironment,
    /// Every environment of its queue has reached its maximum number of vCPUs.
    AtMaximum,
    /// Other jobs are ahead in its queue.
    Behind {
        /// The minimum number of these jobs.
        jobs: u32,
    },
    /// A machine is being started, or the machines are busy.
    Capacity,
    /// Its images are being pulled.
    ImagePull,
    /// Its container is being created.
    ContainerStart,
    /// An earlier attempt failed.
    Retry {
        /// Number of failed attempts.
        attempts: u32,
    },
}

impl BatchFleet {
    /// The times of a job of this fleet, with the cause of its waiting.
    pub fn queue_time(&self, job: &Job) -> QueueTime {
        let task = self.task_of(job);
        let starting_at = task.and_then(|task| task.created_at);
        let mut time = QueueTime {
            created_at: job.created_at,
            runnable_at: self.runnable_at(job),
            starting_at,
            started_at: job.started_at,
            cause: None,
        };
        time.cause = match job.status {
            JobStatus::Submitted | JobStatus::Pending => self.missing(job),
            JobStatus::Runnable => self.without_machine(job),
            JobStatus::Starting => {
                let pulling = task.is_some_and(|task| {
                    task.pull_started_at.is_some() && task.pull_stopped_at.is_none()
                });
                Some(match pulling {
                    true => WaitCause::ImagePull,
                    false => WaitCause::ContainerStart,
                })
            }
            JobStatus::Running | JobStatus::Succeeded | JobStatus::Failed => {
                self.waited_longest(job, &time)
            }
        };
        time
    }

    /// The time is unknown if one dependency is unknown.
    fn runnable_at(&self, job: &Job) -> Option<Timestamp> {
        if matches!(job.status, JobStatus::Submitted | JobStatus::Pending) {
            return None;
        }
        let retried = job.attempts.iter().filter_map(|a| a.stopped_at);
        // A job that waits again keeps the start of its last attempt. The last attempt of an
        // ended job is the job itself.
        let waits = matches!(job.status, JobStatus::Runnable | JobStatus::Starting);
        let is_over = |end: &Timestamp| job.started_at.is_some_and(|start| *end <= start);
        let retried = retried.filter(|end| waits || is_over(end));
        let ends = job
            .depends_on
            .iter()
            .map(|id| self.jobs.get(id)?.stopped_at);
        let ends: Option<Vec<Timestamp>> = ends.collect();
        let latest = ends?.into_iter().chain(retried).max();
        latest.max(job.created_at)
    }

    fn missing(&self, job: &Job) -> Option<WaitCause> {
        let done = |id: &&JobId| {
            let other = self.jobs.get(*id);
            other.is_some_and(|other| other.status == JobStatus::Succeeded)
        };
        let jobs: Vec<JobId> = job
            .depends_on
            .iter()
            .filter(|id| !done(id))
            .cloned()
            .collect();
        (!jobs.is_empty()).then_some(WaitCause::Dependencies { jobs })
    }

    /// Whether every usable environment of a queue has its maximum number of vCPUs; false without a
    /// usable environment.
    pub fn is_at_maximum(&self, queue: &JobQueue) -> bool {
        let full = |at: Option<u32>, most: Option<u32>| Some(at? >= most?);
        let is_full =
            |one: &ComputeEnvironment| full(one.desired_vcpus, one.max_vcpus) == Some(true);
        self.usable(queue).next().is_some() && self.usable(queue).all(is_full)
    }

    /// The environments of a queue that are enabled and valid.
    fn usable(&self, queue: &JobQueue) -> impl Iterator<Item = &ComputeEnvironment> {
        self.environments_of(queue)
            .filter(|e| e.enabled != Some(false) && e.status.as_deref() != Some("INVALID"))
    }

    fn without_machine(&self, job: &Job) -> Option<WaitCause> {
        if let Some(reason) = job.status_reason.clone().filter(|r| !r.is_empty()) {
            return Some(WaitCause::Blocked { reason });
        }
        let queue = self.queue_of(job)?;
        if queue.enabled == Some(false) {
            return Some(WaitCause::QueueDisabled);
        }
        if self.usable(queue).next().is_none() && !queue.environments.is_empty() {
            return Some(WaitCause::NoEnvironment);
        }
        if self.is_at_maximum(queue) {
            return Some(WaitCause::AtMaximum);
        }
        if let Some(jobs) = ahead(queue, job).filter(|ahead| *ahead > 0) {
            return Some(WaitCause::Behind { jobs });
        }
        let attempts = u32::try_from(job.attempts.len()).unwrap_or(u32::MAX);
        Some(match attempts {
            0 => WaitCause::Capacity,
            attempts => WaitCause::Retry { attempts },
        })
    }

    fn waited_longest(&self, job: &Job, time: &QueueTime) -> Option<WaitCause> {
        let task = self.task_of(job);
        let (pull, pulled) = (
            task.and_then(|task| task.pull_started_at),
            task.and_then(|task| task.pull_stopped_at),
        );
        let before = match job.attempts.is_empty() {
            true => WaitCause::Dependencies {
                jobs: job.depends_on.clone(),
            },
            false => WaitCause::Retry {
                attempts: u32::try_from(job.attempts.len()).unwrap_or(u32::MAX),
            },
        };
        let stretches = [
            (before, between(time.created_at, time.runnable_at)),
            (
                WaitCause::Capacity,
                between(time.runnable_at, time.starting_at),
            ),
            (WaitCause::ImagePull, between(pull, pulled)),
            (WaitCause::ContainerStart, between(pulled, time.started_at)),
        ];
        let known = stretches
            .into_iter()
            .filter_map(|(cause, took)| Some((cause, took?)))
            .filter(|(_, took)| !took.is_zero());
        known.max_by_key(|(_, took)| *took).map(|(cause, _)| cause)
    }
}

/// The number of jobs ahead of a job. If the snapshot of the queue does not contain the job, the
/// length of the snapshot.
fn ahead(queue: &JobQueue, job: &Job) -> Option<u32> {
    let front = queue.front.as_ref()?;
    let place = front.iter().position(|at| at.job == job.id);
    u32::try_from(place.unwrap_or(front.len())).ok()
}

fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<Duration> {
    to?.duration_since(from?).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::batch::FrontJob;
    use crate::inventory::batch::job::Attempt;
    use crate::inventory::batch::task::Task;
    use ebb_telemetry::identity::{AccountId, Region};

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(1_700_000_000 + second).ok()
    }

    fn id(name: &str) -> JobId {
        JobId::new(name).expect("a job id")
    }

    fn region() -> Region {
        Region::new("eu-west-1").expect("a region")
    }

    fn job(name: &str, status: JobStatus) -> Job {
        let mut job = Job::new(id(name), name, "arn:x:job-queue/q", region(), status);
        job.created_at = at(0);
        job
    }

    fn fleet(change: impl Fn(&mut BatchFleet)) -> BatchFleet {
        let mut fleet = BatchFleet::default();
        let mut queue = JobQueue::new("q", region());
        queue.environments = vec!["ce".to_owned()];
        fleet.queues.push(queue);
        fleet.environments.push(ComputeEnvironment {
            desired_vcpus: Some(4),
            max_vcpus: Some(16),
            ..ComputeEnvironment::new("ce", region())
        });
        change(&mut fleet);
        fleet
    }

    #[test]
    fn a_job_waits_for_the_queue_of_its_own_account() {
        let of = |n: u8| AccountId::new(format!("{n:012}")).ok();
        let mut fleet = fleet(|fleet| {
            fleet.queues[0].account = of(1);
            fleet.environments[0].account = of(1);
            let mut other = fleet.queues[0].clone();
            (other.account, other.enabled) = (of(2), Some(false));
            fleet.queues.push(other);
        });
        let check = |fleet: &BatchFleet, queue: &str, expect: WaitCause| {
            let mut waiting = job("j", JobStatus::Runnable);
            waiting.queue = queue.to_owned();
            assert_eq!(fleet.queue_time(&waiting).cause, Some(expect), "{queue}");
        };
        let arn = |n: u8| format!("arn:aws:batch:eu-west-1:{n:012}:job-queue/q");
        check(&fleet, &arn(1), WaitCause::Capacity);
        check(&fleet, &arn(2), WaitCause::QueueDisabled);
        fleet.queues[1].enabled = Some(true);
        check(&fleet, &arn(2), WaitCause::NoEnvironment);
        check(&fleet, "q", WaitCause::Capacity);
    }

    #[test]
    fn a_runnable_job_waits_for_what_its_queue_lacks() {
        let check = |change: &dyn Fn(&mut BatchFleet, &mut Job), expect: WaitCause| {
            let mut waiting = job("j", JobStatus::Runnable);
            let mut fleet = fleet(|_| {});
            change(&mut fleet, &mut waiting);
            assert_eq!(fleet.queue_time(&waiting).cause, Some(expect));
        };
        check(&|_, _| {}, WaitCause::Capacity);
        check(
            &|_, job| job.status_reason = Some("MISCONFIGURATION:X".to_owned()),
            WaitCause::Blocked {
                reason: "MISCONFIGURATION:X".to_owned(),
            },
        );
        check(
            &|f, _| f.queues[0].enabled = Some(false),
            WaitCause::QueueDisabled,
        );
        check(
            &|f, _| f.environments[0].enabled = Some(false),
            WaitCause::NoEnvironment,
        );
        check(
            &|f, _| f.environments[0].desired_vcpus = Some(16),
            WaitCause::AtMaximum,
        );
        let front = |names: &[&str]| {
            let front = names.iter().map(|name| FrontJob {
                job: id(name),
                since: None,
            });
            Some(front.collect::<Vec<_>>())
        };
        check(
            &|f, _| f.queues[0].front = front(&["a", "b", "j"]),
            WaitCause::Behind { jobs: 2 },
        );
        check(
            &|f, _| f.queues[0].front = front(&["j", "b"]),
            WaitCause::Capacity,
        );
        check(
            &|_, job| job.attempts = vec![Default::default(); 2],
            WaitCause::Retry { attempts: 2 },
        );
    }

    #[test]
    fn a_job_that_ran_waited_longest_for_one_thing() {
        let check = |ends: i64, created: i64, pulled: i64, started: i64, expect: WaitCause| {
            let mut first = job("first", JobStatus::Succeeded);
            first.stopped_at = at(ends);
            let mut ran = job("j", JobStatus::Running);
            ran.depends_on = vec![id("first")];
            ran.task_arn = Some("arn:task/c/t".to_owned());
            ran.started_at = at(started);
            let fleet = fleet(|fleet| {
                fleet.jobs.insert(id("first"), first.clone());
                let task = Task {
                    created_at: at(created),
                    pull_started_at: at(created),
                    pull_stopped_at: at(pulled),
                    ..Task::default()
                };
                fleet.tasks.insert("arn:task/c/t".to_owned(), task);
            });
            let time = fleet.queue_time(&ran);
            assert_eq!(time.cause, Some(expect));
            assert_eq!(
                (time.runnable_at, time.starting_at),
                (at(ends), at(created))
            );
            assert_eq!(
                time.waited(Timestamp::MAX),
                Some(Duration::from_secs(started as u64))
            );
        };
        let first = WaitCause::Dependencies {
            jobs: vec![id("first")],
        };
        check(100, 110, 120, 130, first);
        check(10, 200, 220, 240, WaitCause::Capacity);
        check(10, 20, 220, 240, WaitCause::ImagePull);
        check(10, 20, 30, 240, WaitCause::ContainerStart);
    }

    #[test]
    fn the_time_of_an_earlier_attempt_is_not_waiting() {
        let check = |status: JobStatus, expect: i64| {
            let mut again = job("j", status);
            again.started_at = at(100);
            again.attempts = vec![Attempt {
                stopped_at: at(700),
                ..Attempt::default()
            }];
            assert_eq!(fleet(|_| {}).queue_time(&again).runnable_at, at(expect));
        };
        check(JobStatus::Runnable, 700);
        check(JobStatus::Starting, 700);
        check(JobStatus::Failed, 0);
    }

    #[test]
    fn a_pending_job_names_what_it_waits_for_and_a_forgotten_dependency_tells_no_time() {
        let mut waiting = job("j", JobStatus::Pending);
        waiting.depends_on = vec![id("gone")];
        let expect = WaitCause::Dependencies {
            jobs: vec![id("gone")],
        };
        let time = fleet(|_| {}).queue_time(&waiting);
        assert_eq!((time.cause, time.runnable_at), (Some(expect), None));
        waiting.status = JobStatus::Running;
        assert_eq!(fleet(|_| {}).queue_time(&waiting).runnable_at, None);
        waiting.depends_on.clear();
        assert_eq!(fleet(|_| {}).queue_time(&waiting).runnable_at, at(0));
    }
}
