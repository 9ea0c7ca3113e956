//! Identifies the task of a cgroup from its path, in the formats of container runtimes, batch
//! systems and systemd. Pure.

use ebb_telemetry::identity::is_uuid;
use ebb_telemetry::step::{StepId, StepKind};

/// Length of the id of a Slurm job: `s` and 13 letters and digits.
const SLUID_LEN: usize = 14;

/// A task that a cgroup represents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupStep {
    /// The identity of the task.
    pub id: StepId,
    /// A name for people.
    pub name: String,
    /// The path of the cgroup that contains exactly this task.
    pub cgroup: String,
}

/// The container, pod or job of this cgroup or of one of its ancestors; `None` if there is none.
pub fn job(path: &str) -> Option<CgroupStep> {
    let segments = Segments::new(path);
    if segments.is_of_user() {
        return container(&segments);
    }
    ecs(&segments)
        .or_else(|| pod(&segments))
        .or_else(|| slurm(&segments))
        .or_else(|| container(&segments))
}

/// The login session or systemd service of this cgroup or of one of its ancestors.
pub fn unit(path: &str) -> Option<CgroupStep> {
    let segments = Segments::new(path);
    if segments.names.last() == Some(&"init.scope") && !segments.is_of_user() {
        return None;
    }
    session(&segments).or_else(|| service(&segments))
}

/// Whether this cgroup is in the slice of a user who logged in.
///
/// Source: `systemd.special(7)`, "user.slice".
pub fn is_of_login(path: &str) -> bool {
    path.starts_with("/user.slice/user-")
}

/// The name of the service of the node that this cgroup belongs to, without `.service`.
pub fn system_service(path: &str) -> Option<&str> {
    let (service, _) = path
        .strip_prefix("/system.slice/")
        .map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    service.strip_suffix(".service")
}

/// Whether this cgroup belongs to a container that runs a whole system, such as those of LXC and
/// `systemd-nspawn`. Their users can have other ids on the node.
pub fn is_of_system_container(path: &str) -> bool {
    path.starts_with("/lxc") || path.starts_with("/machine.slice/")
}

/// Whether a user may have made this cgroup.
pub fn is_of_user(path: &str) -> bool {
    Segments::new(path).is_of_user()
}

struct Segments<'a> {
    names: Vec<&'a str>,
}

impl<'a> Segments<'a> {
    fn new(path: &'a str) -> Self {
        Self {
            names: path.split('/').filter(|name| !name.is_empty()).collect(),
        }
    }

    /// Whether a user may have made this cgroup: systemd lets users make cgroups of any name below
    /// their own service. Its name proves neither a job nor a pod of the node.
    ///
    /// Source: `user@.service(5)`, "Delegate".
    fn is_of_user(&self) -> bool {
        let is_users = |name: &&str| name.starts_with("user@") && name.ends_with(".service");
        self.names.iter().any(is_users)
    }

    /// The task of the first path segment that `take` accepts.
    fn find(
        &self,
        kind: StepKind,
        take: impl Fn(usize, &'a str) -> Option<String>,
    ) -> Option<CgroupStep> {
        let found = |(at, name): (usize, &&'a str)| Some((at, take(at, name)?));
        let (at, key) = self.names.iter().enumerate().find_map(found)?;
        Some(self.step(kind, at, key))
    }

    fn step(&self, kind: StepKind, at: usize, key: String) -> CgroupStep {
        CgroupStep {
            name: key.clone(),
            id: StepId { kind, key },
            cgroup: format!("/{}", self.names[..=at].join("/")),
        }
    }
}

fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_task_id(text: &str) -> bool {
    is_hex(text, 32) || is_uuid(text)
}

/// `/ecs/<task>/<container>`, `/ecs/<cluster>/<task>/<container>` and
/// `/ecstasks.slice/ecstasks-<task>.slice/docker-<container>.scope`.
///
/// Source: amazon-ecs-agent, `agent/config/config_unix.go` (both prefixes) and
/// `agent/taskresource/cgroup/control/cgroupv2_controller_linux.go` (the slices).
fn ecs(segments: &Segments<'_>) -> Option<CgroupStep> {
    let root = *segments.names.first()?;
    segments.find(StepKind::EcsTask, |at, name| {
        let below_ecs = at > 0 && root == "ecs" && is_task_id(name);
        let slice = name
            .strip_prefix("ecstasks-")
            .and_then(|rest| rest.strip_suffix(".slice"));
        let task = if below_ecs { Some(name) } else { slice };
        task.map(str::to_owned)
    })
}

/// `/kubepods/burstable/pod<uid>/<container>` and
/// `/kubepods.slice/…/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope`, where the uid
/// in the slice has underscores. A kubelet with its own cgroup root prefixes the name of that root
/// (`kubelet-kubepods-…`, as in kind). If the kubelet uses the systemd driver and the runtime does
/// not, slice and container are one name with colons. Then the pod has no cgroup except those of
/// its containers.
///
/// Source: Kubernetes, `pkg/kubelet/cm/cgroup_manager_linux.go` (slices, escaping) and
/// `helpers_linux.go` (`pod` and uid); containerd,
/// `internal/cri/server/podsandbox/helpers_linux.go` (colons).
fn pod(segments: &Segments<'_>) -> Option<CgroupStep> {
    segments.find(StepKind::Pod, |_, name| {
        let slice = name.split(':').next().unwrap_or(name);
        let slice = slice.strip_suffix(".slice").unwrap_or(slice);
        let (before, uid) = slice.rsplit_once("pod")?;
        let uid = uid.replace('_', "-");
        let known_place = before.is_empty() || before.split('-').any(|part| part == "kubepods");
        (known_place && (is_uuid(&uid) || is_hex(&uid, 32))).then_some(uid)
    })
}

/// `/slurm/uid_1000/job_7/step_0/task_0` and
/// `/system.slice/slurmstepd.scope/job_7/step_0/user/task_0`. If a host runs several `slurmd`, the
/// node name comes before `_slurmstepd.scope` or after `slurm_`. With cgroup v2, Slurm 26.05 writes
/// the SLUID of the job, such as `sEKNKTV3WPV500`, in place of `job_7`.
///
/// Source: Slurm, `src/plugins/cgroup/v1/cgroup_v1.c` and `src/plugins/cgroup/v2/cgroup_v2.c` (the
/// tree in its header comment), <https://slurm.schedmd.com/cgroup_v2.html>, and `CgroupJobIdPaths`
/// in <https://slurm.schedmd.com/cgroup.conf.html>.
fn slurm(segments: &Segments<'_>) -> Option<CgroupStep> {
    let is_scope = |name: &str| name == "slurmstepd.scope" || name.ends_with("_slurmstepd.scope");
    let names = &segments.names;
    let scope = names.iter().position(|name| is_scope(name));
    let (at, job) = match scope {
        Some(scope) => (scope + 1, slurm_job(names.get(scope + 1)?)?),
        None => {
            let at = names.iter().position(|name| job_number(name).is_some())?;
            let is_slurm = names[..at].iter().any(|name| name.starts_with("slurm"));
            (at, job_number(names[at]).filter(|_| is_slurm)?)
        }
    };
    let job = job.to_owned();
    let step = segments
        .names
        .get(at + 1)
        .and_then(|n| n.strip_prefix("step_"));
    Some(match step {
        Some(step) => segments.step(StepKind::SlurmJob, at + 1, format!("{job}.{step}")),
        None => segments.step(StepKind::SlurmJob, at, job),
    })
}

/// The number in `job_7`, or a SLUID.
fn slurm_job(name: &str) -> Option<&str> {
    let is_sluid = name.len() == SLUID_LEN
        && name.starts_with('s')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    job_number(name).or_else(|| is_sluid.then_some(name))
}

fn job_number(name: &str) -> Option<&str> {
    let number = name.strip_prefix("job_")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

/// A container id of 64 digits: alone as under `/docker/`, or between the name of a runtime and
/// `.scope`. A scope of `conmon` contains the monitor of a container, not the container.
///
/// Source: Moby, `daemon/oci_linux.go` (`docker`); Podman,
/// `libpod/oci_conmon_linux.go` (`libpod`, and `libpod-conmon`); containerd,
/// `internal/cri/server/podsandbox/helpers_linux.go` (`cri-containerd`); CRI-O,
/// `internal/config/cgmgr` (`crio`, and `crio-conmon`).
fn container(segments: &Segments<'_>) -> Option<CgroupStep> {
    let mut step = segments.find(StepKind::Container, |_, name| {
        let scope = name.strip_suffix(".scope").unwrap_or(name);
        let (runtime, id) = scope.rsplit_once(['-', ':']).unwrap_or(("", scope));
        (is_hex(id, 64) && !runtime.ends_with("conmon")).then(|| id.to_owned())
    })?;
    // `docker ps` shows the first twelve digits.
    step.name.truncate(12);
    Some(step)
}

/// `/user.slice/user-1000.slice/session-5.scope`, and the services of the user.
///
/// Source: `pam_systemd(8)`, `user@.service(5)`.
fn session(segments: &Segments<'_>) -> Option<CgroupStep> {
    let user = segments
        .names
        .iter()
        .find_map(|name| name.strip_prefix("user-")?.strip_suffix(".slice"))?;
    let mut step = segments.find(StepKind::Session, |_, name| {
        let scope = name
            .strip_prefix("session-")
            .and_then(|n| n.strip_suffix(".scope"));
        let services = name
            .strip_prefix("user@")
            .filter(|n| n.ends_with(".service"));
        match (scope, services) {
            (Some(number), _) => Some(number.to_owned()),
            (None, Some(_)) => Some(format!("user-{user}")),
            (None, None) => None,
        }
    })?;
    step.name = format!("session {} of user {user}", step.id.key);
    Some(step)
}

/// `/system.slice/nginx.service`, `/system.slice/run-r1.scope`.
///
/// Source: `systemd.special(7)`, `systemd-run(1)`.
fn service(segments: &Segments<'_>) -> Option<CgroupStep> {
    segments.find(StepKind::Service, |at, name| {
        let is_unit = name.ends_with(".service") || name.ends_with(".scope");
        (at > 0 && is_unit).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "0123456789abcdef0123456789abcdef";
    const ID: &str = "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd";
    const UID: &str = "7f1c2d3e-0000-4abc-8def-0123456789ab";

    fn named(step: Option<CgroupStep>) -> Option<(StepKind, String, String)> {
        step.map(|s| (s.id.kind, s.id.key, s.cgroup))
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn the_path_of_a_job_names_its_step() {
        use StepKind::{Container, EcsTask, Pod, SlurmJob};
        let check = |path: &str, expect: Option<(StepKind, &str, &str)>| {
            let expect = expect.map(|(kind, key, cgroup)| (kind, key.into(), cgroup.into()));
            assert_eq!(named(job(path)), expect, "{path}");
        };
        let ecs = format!("/ecs/{TASK}");
        check(&format!("{ecs}/{ID}"), Some((EcsTask, TASK, &ecs)));
        check(&ecs, Some((EcsTask, TASK, &ecs)));
        // Users can make cgroups of any name below their own service.
        let own = "/user.slice/user-65534.slice/user@65534.service";
        check(&format!("{own}/slurmx/job_77/step_0"), None);
        check(&format!("{own}/slurmstepd.scope/job_77/step_0"), None);
        check(&format!("{own}/kubepods/pod{UID}"), None);
        check(&format!("{own}/ecstasks-{TASK}.slice/x"), None);
        let rootless = format!("{own}/user.slice/libpod-{ID}.scope");
        check(&rootless, Some((Container, ID, &rootless)));
        let ecs = format!("/ecs/{UID}");
        check(&format!("{ecs}/{ID}"), Some((EcsTask, UID, &ecs)));
        let ecs = format!("/ecs/prod/{TASK}");
        check(&format!("{ecs}/{ID}"), Some((EcsTask, TASK, &ecs)));
        let ecs = format!("/ecstasks.slice/ecstasks-{TASK}.slice");
        check(
            &format!("{ecs}/docker-{ID}.scope"),
            Some((EcsTask, TASK, &ecs)),
        );
        check("/ecs/prod", None);

        let docker = format!("/docker/{ID}");
        check(&docker, Some((Container, ID, &docker)));
        check(&format!("{docker}/init"), Some((Container, ID, &docker)));
        let docker = format!("/system.slice/docker-{ID}.scope");
        check(&docker, Some((Container, ID, &docker)));
        let podman = format!("/machine.slice/libpod-{ID}.scope");
        check(&podman, Some((Container, ID, &podman)));
        // Podman with the cgroupfs manager, and the monitor of a container.
        let podman = format!("/libpod_parent/libpod-{ID}");
        check(&podman, Some((Container, ID, &podman)));
        check(&format!("/machine.slice/libpod-conmon-{ID}.scope"), None);
        check(&format!("/system.slice/crio-conmon-{ID}.scope"), None);
        // Rootless Docker.
        let rootless =
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope");
        check(&rootless, Some((Container, ID, &rootless)));
        let nerdctl = format!("/default/{ID}");
        check(&nerdctl, Some((Container, ID, &nerdctl)));

        let pod = format!("/kubepods/burstable/pod{UID}");
        check(&format!("{pod}/{ID}"), Some((Pod, UID, &pod)));
        let slice = UID.replace('-', "_");
        let pod = format!(
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{slice}.slice"
        );
        check(
            &format!("{pod}/cri-containerd-{ID}.scope"),
            Some((Pod, UID, &pod)),
        );
        check("/podman/thing", None);
        let root = "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice";
        let pod = format!("{root}/kubelet-kubepods-burstable-pod{slice}.slice");
        check(
            &format!("{pod}/cri-containerd-{ID}.scope"),
            Some((Pod, UID, &pod)),
        );
        check(&format!("{pod}/crio-{ID}.scope"), Some((Pod, UID, &pod)));
        check(
            &format!("{pod}/crio-conmon-{ID}.scope"),
            Some((Pod, UID, &pod)),
        );
        // A static pod has a uid without dashes.
        let pod = format!("/kubepods/pod{TASK}");
        check(&format!("{pod}/{ID}"), Some((Pod, TASK, &pod)));
        let pod = format!(
            "/system.slice/containerd.service/kubepods-besteffort-pod{slice}.slice:cri-containerd:{ID}"
        );
        check(&pod, Some((Pod, UID, &pod)));

        check(
            "/slurm/uid_1000/job_77/step_0/task_0",
            Some((SlurmJob, "77.0", "/slurm/uid_1000/job_77/step_0")),
        );
        check(
            "/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0",
            Some((
                SlurmJob,
                "7.batch",
                "/system.slice/slurmstepd.scope/job_7/step_batch",
            )),
        );
        check(
            "/slurm_node1/uid_0/job_9",
            Some((SlurmJob, "9", "/slurm_node1/uid_0/job_9")),
        );
        check(
            "/system.slice/node1_slurmstepd.scope/job_9/step_extern/user/task_special",
            Some((
                SlurmJob,
                "9.extern",
                "/system.slice/node1_slurmstepd.scope/job_9/step_extern",
            )),
        );
        let job = "/system.slice/slurmstepd.scope/sEKNKTV3WPV500";
        check(job, Some((SlurmJob, "sEKNKTV3WPV500", job)));
        let step = format!("{job}/step_0");
        let sluid = Some((SlurmJob, "sEKNKTV3WPV500.0", &*step));
        check(&step, sluid);
        check(&format!("{step}/user/task_0"), sluid);
        check(&format!("{step}/slurm"), sluid);
        let step = "/system.slice/node1_slurmstepd.scope/sEKNKTV3WPV500/step_batch";
        check(
            &format!("{step}/user/task_0"),
            Some((SlurmJob, "sEKNKTV3WPV500.batch", step)),
        );
        let step = "/system.slice/node1_slurmstepd.scope/job_7/step_1";
        check(
            &format!("{step}/user/task_3"),
            Some((SlurmJob, "7.1", step)),
        );
        check("/system.slice/slurmstepd.scope/system", None);
        check("/system.slice/slurmstepd.scope", None);
        check("/system.slice/slurmstepd.scope/job_", None);
        check("/system.slice/slurmstepd.scope/something-else", None);
        check("/system.slice/sEKNKTV3WPV500/step_0", None);
        check("/elsewhere/job_9", None);

        check("/", None);
        check("/user.slice/user-1000.slice/session-5.scope", None);
        check("/system.slice/nginx.service", None);
    }

    #[test]
    fn the_path_of_a_unit_names_its_session_or_service() {
        use StepKind::{Service, Session};
        let check = |path: &str, expect: Option<(StepKind, &str, &str)>| {
            let got = unit(path).map(|s| (s.id.kind, s.id.key, s.name));
            let expect = expect.map(|(kind, key, name)| (kind, key.into(), name.into()));
            assert_eq!(got, expect, "{path}");
        };
        check(
            "/user.slice/user-1000.slice/session-5.scope",
            Some((Session, "5", "session 5 of user 1000")),
        );
        check(
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
            Some((Session, "user-1000", "session user-1000 of user 1000")),
        );
        check(
            "/user.slice/user-1000.slice/user@1000.service/init.scope",
            Some((Session, "user-1000", "session user-1000 of user 1000")),
        );
        check(
            "/system.slice/nginx.service",
            Some((Service, "nginx.service", "nginx.service")),
        );
        check(
            "/system.slice/run-r1.scope",
            Some((Service, "run-r1.scope", "run-r1.scope")),
        );
        check("/init.scope", None);
        check("/", None);
        check("/some/folder", None);
    }
}
