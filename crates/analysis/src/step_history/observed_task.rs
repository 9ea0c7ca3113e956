//! A task as a probe observed it, with its machine and job.

use std::time::Duration;

use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::finding::StepLink;
use ebb_model::inventory::batch::job::Job;
use ebb_model::inventory::instance::Instance;
use ebb_model::step_profile::Run;
use ebb_sizing::cheapest_type::MachineSize;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::step::{PlacedStep, Requested, StepEnd, TaskState};
use ebb_telemetry::units::Share;

use crate::facts::Facts;
use crate::step_history::engine_record::Recorded;
use crate::step_history::step_name::{NamedTask, StepName};

/// One task of a step, with its machine and job.
pub(crate) struct ObservedTask<'a> {
    pub(crate) step: &'a PlacedStep,
    pub(crate) instance: &'a Instance,
    pub(crate) job: Option<&'a Job>,
    pub(crate) name: StepName,
    pub(crate) recorded: Recorded<'a>,
    /// The request in a record of its engine or Slurm job; empty if other tasks share that request,
    /// or if it is unknown.
    pub(crate) record_request: Requested,
}

impl<'a> ObservedTask<'a> {
    /// The task for the rules of the policy.
    pub(crate) fn task(&self) -> NamedTask<'a> {
        NamedTask {
            step: self.step,
            job: self.job,
            recorded: self.recorded,
        }
    }

    /// The name of its step.
    pub(crate) fn name(&self) -> &str {
        &self.name.text
    }

    /// The id of its job; without a job, the node and the id of the task.
    pub(crate) fn id(&self) -> String {
        match self.job {
            Some(job) => job.id.as_str().to_owned(),
            None => format!("{}/{}", self.step.node, self.step.usage.id),
        }
    }

    /// Link for a finding about the step `name`.
    pub(crate) fn link(&self, name: &str) -> StepLink {
        StepLink::from_step(self.step, name, self.job)
    }

    /// The request of its job or record, otherwise the limits of its cgroup. Slurm limits the cores of a job
    /// by a set of CPUs, which is no limit of the cgroup.
    pub(crate) fn requested(&self) -> Requested {
        let limits = self.step.usage.requested;
        self.job.map_or(
            Requested {
                cores: self.record_request.cores.or(limits.cores),
                memory: self.record_request.memory.or(limits.memory),
            },
            |job| job.requested,
        )
    }

    pub(crate) fn wall(&self) -> Duration {
        let usage = &self.step.usage;
        usage.observed.since(usage.started).unwrap_or_default()
    }

    /// Time without progress at the last observation.
    pub(crate) fn quiet(&self) -> Duration {
        let usage = &self.step.usage;
        usage
            .observed
            .since(usage.last_progress)
            .unwrap_or_default()
    }

    /// Share of the sampled time in states that `is_one` accepts; `None` without samples.
    pub(crate) fn share_of_states(&self, is_one: impl Fn(TaskState) -> bool) -> Option<Share> {
        let states = &self.step.usage.detail.states;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let all: Duration = states.values().map(|samples| samples.time).sum();
        let ones = states.iter().filter(|(state, _)| is_one(**state));
        let ones: Duration = ones.map(|(_, samples)| samples.time).sum();
        Share::from_parts(millis(ones), millis(all))
    }

    /// How it ended. A failure counts as an out-of-memory kill if Slurm reports one for the job. The
    /// probe itself misses the kill of a short task if it cannot attach to the event of the kernel.
    pub(crate) fn end(&self) -> StepEnd {
        let end = self.step.usage.end;
        match self.recorded.names() {
            Some(names) if end.is_bad() && names.is_out_of_memory => StepEnd::OutOfMemory,
            _ => end,
        }
    }

    pub(crate) fn profiled(&self) -> Run {
        Run {
            end: self.end(),
            ..Run::from_step(self.step, self.requested(), &self.instance.instance_type)
        }
    }

    /// Part of the price of the machine for a request: the greatest of its shares of cores, memory
    /// and GPUs. The size of the machine is that of its type, or else what its probe reports. `None`
    /// if the size or the request is unknown.
    pub(crate) fn part_of(
        &self,
        facts: &Facts<'_>,
        per_hour: UsdPerHour,
        request: SizedRequest,
    ) -> Option<UsdPerHour> {
        let spec = facts.catalogue.spec(&self.instance.instance_type);
        let size = spec.map(MachineSize::from_spec);
        let size = size.or_else(|| facts.measured_size(&self.step.node))?;
        let gpus = self.gpus(facts, size.gpus);
        let part = size.share_of_price(per_hour, request, gpus)?;
        // No probe observes which task uses an accelerator, so the task gets the whole price.
        Some(match spec.and_then(|spec| spec.accelerators.as_ref()) {
            Some(_) => per_hour,
            None => part,
        })
    }

    /// Number of GPUs that the task uses. Without observation it is `all`, because other tasks may
    /// have found no free GPU.
    pub(crate) fn gpus(&self, facts: &Facts<'_>, all: u32) -> u32 {
        let node = facts.state.nodes.get(&self.step.node);
        let latest = node.and_then(|node| node.latest.as_ref());
        let lacks_coverage = latest.is_none_or(|latest| latest.coverage.gpu.is_none());
        match self.step.usage.detail.gpu {
            Some(gpu) => gpu.devices.min(all),
            None if lacks_coverage => all,
            None => 0,
        }
    }

    /// Owner of the job, otherwise of the machine.
    pub(crate) fn owner(&self) -> Option<String> {
        self.job
            .and_then(ebb_model::inventory::batch::job::Job::owner)
            .or_else(|| self.instance.owner())
            .map(str::to_owned)
    }
}
