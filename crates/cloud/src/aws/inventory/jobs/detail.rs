//! Converts the description of a Batch job.

use aws_sdk_batch::types::{
    AttemptDetail, ContainerDetail, JobDetail, JobStatus as Status, ResourceRequirement,
    ResourceType, RuntimePlatform,
};
use ebb_catalog::machine_type::Architecture;
use ebb_model::inventory::batch::job::{Attempt, Job, JobId, JobStatus, Platform};
use ebb_telemetry::identity::Region;
use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

pub(super) fn job(detail: &JobDetail, region: &Region) -> Result<Job, String> {
    let id = detail.job_id().ok_or("a job has no id")?;
    let about = |what: &str| format!("{id}: {what}");
    let container = detail.container();
    let task = detail
        .ecs_properties()
        .and_then(|p| p.task_properties().first());
    let placed = container
        .and_then(ContainerDetail::container_instance_arn)
        .or_else(|| task.and_then(|t| t.container_instance_arn()));
    let task_arn = container
        .and_then(ContainerDetail::task_arn)
        .or_else(|| task.and_then(|t| t.task_arn()));
    let in_tasks = || task.iter().flat_map(|t| t.containers());
    let requested = container.map_or_else(
        || total_request(in_tasks().flat_map(|c| c.resource_requirements())),
        of_container,
    );
    let of_one = container
        .into_iter()
        .flat_map(|c| c.resource_requirements());
    let of_tasks = in_tasks().flat_map(|c| c.resource_requirements());
    let tags = detail.tags().into_iter().flatten();
    let name = detail.job_name().ok_or_else(|| about("no name"))?;
    let queue = detail.job_queue().ok_or_else(|| about("no queue"))?;
    let status = detail.status().and_then(status);
    let status = status.ok_or_else(|| about("unknown status"))?;
    let before = detail.depends_on().iter().filter_map(|one| one.job_id());
    let whole = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
    // The nodes of a multi-node parallel job have details of their own.
    let parent = detail
        .node_properties()
        .filter(|_| detail.node_details().is_none());
    let nodes = parent.and_then(|parent| parent.num_nodes());
    Ok(Job {
        definition: detail.job_definition().map(definition),
        status_reason: detail.status_reason().map(str::to_owned),
        created_at: detail.created_at().and_then(happened),
        started_at: detail.started_at().and_then(happened),
        stopped_at: detail.stopped_at().and_then(happened),
        container_instance_arn: placed.map(str::to_owned),
        task_arn: task_arn.map(str::to_owned),
        requested,
        gpus: gpus(of_one.chain(of_tasks)),
        tags: tags.map(|(k, v)| (k.clone(), v.clone())).collect(),
        depends_on: before.filter_map(|id| JobId::new(id).ok()).collect(),
        attempts: detail.attempts().iter().map(attempt).collect(),
        timeout_seconds: whole(detail.timeout().and_then(|t| t.attempt_duration_seconds())),
        array_size: whole(detail.array_properties().and_then(|a| a.size()).or(nodes)),
        exit_code: container.and_then(ContainerDetail::exit_code),
        platform: container
            .and_then(ContainerDetail::runtime_platform)
            .or_else(|| task.and_then(|task| task.runtime_platform()))
            .map(platform),
        ..Job::new(
            JobId::new(id).map_err(|e| e.to_string())?,
            name,
            queue,
            region.clone(),
            status,
        )
    })
}

/// The platform; by default Linux on x86.
///
/// Source: Batch API reference, `RuntimePlatform`.
fn platform(runtime: &RuntimePlatform) -> Platform {
    let system = runtime.operating_system_family().unwrap_or("LINUX");
    match (system, runtime.cpu_architecture().unwrap_or("X86_64")) {
        ("LINUX", "X86_64") => Platform::Linux(Architecture::X86_64),
        ("LINUX", "ARM64") => Platform::Linux(Architecture::Arm64),
        _ => Platform::Other,
    }
}

fn attempt(detail: &AttemptDetail) -> Attempt {
    let container = detail.container();
    let reason = container
        .and_then(|c| c.reason())
        .or(detail.status_reason());
    Attempt {
        started_at: detail.started_at().and_then(happened),
        stopped_at: detail.stopped_at().and_then(happened),
        exit_code: container.and_then(|c| c.exit_code()),
        reason: reason.map(str::to_owned),
        container_instance_arn: container
            .and_then(|c| c.container_instance_arn())
            .map(str::to_owned),
        task_arn: container.and_then(|c| c.task_arn()).map(str::to_owned),
    }
}

/// Zero means that the event has not happened.
fn happened(millis: i64) -> Option<Timestamp> {
    (millis > 0)
        .then(|| Timestamp::from_millisecond(millis).ok())
        .flatten()
}

fn status(batch_status: &Status) -> Option<JobStatus> {
    match batch_status {
        Status::Submitted => Some(JobStatus::Submitted),
        Status::Pending => Some(JobStatus::Pending),
        Status::Runnable => Some(JobStatus::Runnable),
        Status::Starting => Some(JobStatus::Starting),
        Status::Running => Some(JobStatus::Running),
        Status::Succeeded => Some(JobStatus::Succeeded),
        Status::Failed => Some(JobStatus::Failed),
        _ => None,
    }
}

/// The name in `arn:…:job-definition/name:revision`, or in `name:revision`.
fn definition(arn: &str) -> String {
    let last = arn.rsplit_once('/').map_or(arn, |(_, last)| last);
    let named = match last.rsplit_once(':') {
        Some((name, revision)) if revision.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => last,
    };
    named.to_owned()
}

/// The fields `vcpus` and `memory` are the older form of a resource request.
fn of_container(container: &ContainerDetail) -> Requested {
    let newer = total_request(container.resource_requirements());
    let whole = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    Requested {
        cores: newer
            .cores
            .or_else(|| whole(container.vcpus()).map(MilliCores::cores)),
        memory: newer
            .memory
            .or_else(|| whole(container.memory()).map(Bytes::mib)),
    }
}

/// The sum of the requests of all containers in a task.
///
/// Source: Batch API reference, `ResourceRequirement`: VCPU may be a fraction,
/// MEMORY is in MiB.
fn total_request<'a>(wishes: impl IntoIterator<Item = &'a ResourceRequirement>) -> Requested {
    let mut sum = Requested::default();
    for wish in wishes {
        match wish.r#type() {
            Some(ResourceType::Vcpu) => {
                if let Some(more) = wish.value().and_then(cores) {
                    let so_far = sum.cores.map_or(0, |c| c.0);
                    sum.cores = Some(MilliCores(so_far.saturating_add(more.0)));
                }
            }
            Some(ResourceType::Memory) => {
                let mib = wish.value().and_then(|v| v.parse::<u32>().ok());
                if let Some(more) = mib.map(|mib| Bytes::mib(u64::from(mib))) {
                    let so_far = sum.memory.unwrap_or_default();
                    sum.memory = Some(so_far.saturating_add(more));
                }
            }
            _ => {}
        }
    }
    sum
}

/// The GPUs that the containers of a task request; each container has its own.
///
/// Source: Batch API reference, `ResourceRequirement`: GPU is a whole number.
fn gpus<'a>(wishes: impl Iterator<Item = &'a ResourceRequirement>) -> Option<u32> {
    let of_gpus = wishes.filter(|wish| wish.r#type() == Some(&ResourceType::Gpu));
    let each = of_gpus.filter_map(|wish| wish.value()?.parse::<u32>().ok());
    Some(each.fold(0, u32::saturating_add)).filter(|sum| *sum > 0)
}

fn cores(text: &str) -> Option<MilliCores> {
    let cores: f64 = text.parse().ok()?;
    let real = cores.is_finite() && (0.001..=1e6).contains(&cores);
    real.then(|| MilliCores((cores * 1_000.0).round() as u64))
}

#[cfg(test)]
mod tests {
    use aws_sdk_batch::types::builders::ContainerDetailBuilder;
    use aws_sdk_batch::types::{EcsPropertiesDetail, EcsTaskDetails, TaskContainerDetails};

    use super::*;

    fn make_job() -> aws_sdk_batch::types::builders::JobDetailBuilder {
        JobDetail::builder()
            .job_id("7f9e:3")
            .job_name("align")
            .job_queue("q")
            .status(Status::Running)
    }

    fn wish(of: ResourceType, value: &str) -> ResourceRequirement {
        ResourceRequirement::builder()
            .r#type(of)
            .value(value)
            .build()
    }

    fn read(builder: aws_sdk_batch::types::builders::JobDetailBuilder) -> Result<Job, String> {
        job(
            &builder.build(),
            &Region::new("eu-west-1").expect("a region"),
        )
    }

    #[test]
    fn what_a_job_asked_for_is_read_in_both_forms() {
        let check = |container: ContainerDetailBuilder, milli_cores, mib: Option<u64>| {
            let job = read(make_job().container(container.build())).expect("a job");
            let memory = mib.map(Bytes::mib);
            let cores = Option::map(milli_cores, MilliCores);
            assert_eq!(job.requested, Requested { cores, memory });
        };
        let plain = ContainerDetail::builder;
        check(
            plain()
                .resource_requirements(wish(ResourceType::Vcpu, "0.25"))
                .resource_requirements(wish(ResourceType::Memory, "512")),
            Some(250),
            Some(512),
        );
        check(plain().vcpus(4).memory(8_192), Some(4_000), Some(8_192));
        check(plain().vcpus(0), None, None);
        check(
            plain()
                .vcpus(4)
                .resource_requirements(wish(ResourceType::Vcpu, "16"))
                .resource_requirements(wish(ResourceType::Gpu, "1")),
            Some(16_000),
            None,
        );
        check(
            plain().resource_requirements(wish(ResourceType::Vcpu, "many")),
            None,
            None,
        );
    }

    #[test]
    fn what_a_container_is_for_is_linux_on_x86_unless_it_says_otherwise() {
        let check = |system: Option<&str>, on: Option<&str>, expect: Platform| {
            let runtime = RuntimePlatform::builder()
                .set_operating_system_family(system.map(str::to_owned))
                .set_cpu_architecture(on.map(str::to_owned));
            assert_eq!(platform(&runtime.build()), expect);
        };
        check(None, None, Platform::Linux(Architecture::X86_64));
        check(
            Some("LINUX"),
            Some("ARM64"),
            Platform::Linux(Architecture::Arm64),
        );
        check(
            Some("WINDOWS_SERVER_2019_CORE"),
            Some("X86_64"),
            Platform::Other,
        );
    }

    #[test]
    fn containers_of_one_task_ask_together() {
        let one = TaskContainerDetails::builder()
            .resource_requirements(wish(ResourceType::Vcpu, "2"))
            .resource_requirements(wish(ResourceType::Memory, "1024"))
            .resource_requirements(wish(ResourceType::Gpu, "2"))
            .build();
        let task = EcsTaskDetails::builder()
            .task_arn("arn:aws:ecs:r:a:task/c/t")
            .containers(one.clone())
            .containers(one)
            .build();
        let ecs = EcsPropertiesDetail::builder().task_properties(task).build();
        let job = read(make_job().ecs_properties(ecs)).expect("a job");
        assert_eq!(job.gpus, Some(4));
        assert_eq!(job.requested.cores, Some(MilliCores::cores(4)));
        assert_eq!(job.requested.memory, Some(Bytes::gib(2)));
        assert_eq!(job.task_id(), Some("t"));
    }

    #[test]
    fn a_jobs_times_and_definition_are_read_as_batch_describes_them() {
        let job = read(
            make_job()
                .job_definition("arn:aws:batch:r:a:job-definition/align-reads:7")
                .created_at(1_700_000_000_000)
                .started_at(0),
        )
        .expect("a job");
        assert_eq!(job.definition.as_deref(), Some("align-reads"));
        assert_eq!(job.created_at.map(|t| t.as_second()), Some(1_700_000_000));
        assert_eq!((job.started_at, job.stopped_at), (None, None));
        assert_eq!(definition("align"), "align");
        assert_eq!(definition("align:12"), "align");
    }

    #[test]
    fn a_job_that_cannot_be_understood_says_why() {
        let check = |builder, reason: &str| {
            assert_eq!(read(builder).err().as_deref(), Some(reason));
        };
        check(JobDetail::builder(), "a job has no id");
        check(make_job().set_job_name(None), "7f9e:3: no name");
        check(
            make_job().status("RESTING".into()),
            "7f9e:3: unknown status",
        );
    }
}
