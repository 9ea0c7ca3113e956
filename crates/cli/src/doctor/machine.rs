//! The requirements of the probe on its kernel. Reading is separate from evaluation.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::check::Check;

/// The oldest kernel on which the probe was tested.
const OLDEST: (u32, u32) = (5, 10);

/// Capabilities that the probe's unit grants, by their number in `linux/capability.h`: eBPF,
/// tracing, processes and files of other users. The last part is true if `CAP_SYS_ADMIN` includes
/// the capability, as before Linux 5.8; `ebb-probe check` uses the same rule.
const CAPABILITIES: [(u32, &str, bool); 4] = [
    (39, "CAP_BPF", true),
    (38, "CAP_PERFMON", true),
    (19, "CAP_SYS_PTRACE", false),
    (2, "CAP_DAC_READ_SEARCH", false),
];

const CAP_SYS_ADMIN: u32 = 21;

/// Properties of this machine; `None` if they could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MachineFacts {
    /// The kernel's release.
    pub(super) release: Option<String>,
    /// Whether the kernel has BTF type information.
    pub(super) btf: bool,
    /// Effective capabilities of this program.
    pub(super) capabilities: Option<u64>,
    /// Controllers of cgroup v2.
    pub(super) cgroup_v2: Option<String>,
    /// Whether the tracepoint of the out-of-memory killer exists; `None` if this user may not read
    /// it.
    pub(super) tracefs: Option<bool>,
}

impl MachineFacts {
    pub(super) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").ok();
        let effective = status.as_deref().and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        });
        let tracepoint = |root: &str| {
            let found = fs::metadata(Path::new(root).join("events/oom/mark_victim"));
            match found {
                Ok(_) => Some(true),
                Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
                Err(_) => Some(false),
            }
        };
        let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(tracepoint);
        Self {
            release: read("/proc/sys/kernel/osrelease"),
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            capabilities: effective,
            cgroup_v2: read("/sys/fs/cgroup/cgroup.controllers"),
            tracefs: match roots {
                [Some(true), _] | [_, Some(true)] => Some(true),
                [Some(false), Some(false)] => Some(false),
                _ => None,
            },
        }
    }
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(super) fn checks(machine: &MachineFacts) -> Vec<Check> {
    vec![
        kernel(machine),
        btf(machine),
        capabilities(machine),
        cgroups(machine),
        tracefs(machine),
    ]
}

fn kernel(machine: &MachineFacts) -> Check {
    const NAME: &str = "Linux 5.10 or later";
    let Some(release) = &machine.release else {
        return Check::not_checked(NAME, "not a Linux system, or /proc is not mounted");
    };
    match version(release) {
        Some(version) if version >= OLDEST => Check::ok(NAME, release),
        Some(_) => Check::missing(NAME, release).mended_by("boot a newer kernel"),
        None => Check::not_checked(NAME, format!("unknown version {release}")),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn btf(machine: &MachineFacts) -> Check {
    const NAME: &str = "type information (BTF)";
    match machine.btf {
        true => Check::ok(NAME, "/sys/kernel/btf/vmlinux"),
        false => Check::missing(NAME, "/sys/kernel/btf/vmlinux does not exist")
            .mended_by("boot a kernel that was built with CONFIG_DEBUG_INFO_BTF=y"),
    }
}

fn capabilities(machine: &MachineFacts) -> Check {
    const NAME: &str = "capabilities for eBPF";
    let Some(held) = machine.capabilities else {
        return Check::not_checked(NAME, "no capabilities in /proc/self/status");
    };
    let has = |bit: u32| held >> bit & 1 == 1;
    let lacks = CAPABILITIES
        .iter()
        .filter(|(bit, _, in_admin)| !(has(*bit) || *in_admin && has(CAP_SYS_ADMIN)));
    let lacks: Vec<&str> = lacks.map(|(_, name, _)| *name).collect();
    if lacks.is_empty() {
        return Check::ok(NAME, CAPABILITIES.map(|(_, name, _)| name).join(", "));
    }
    Check::missing(NAME, format!("this user lacks {}", lacks.join(", ")))
        .mended_by("sudo ebb doctor machine   (the probe's systemd unit grants them to it)")
}

fn cgroups(machine: &MachineFacts) -> Check {
    const NAME: &str = "cgroup v2";
    match machine.cgroup_v2.as_deref() {
        Some(controllers) if controllers.split(' ').any(|c| c == "memory") => {
            Check::ok(NAME, format!("controllers: {controllers}"))
        }
        Some(_) => Check::missing(NAME, "the memory controller is off")
            .mended_by("boot with systemd.unified_cgroup_hierarchy=1 cgroup_enable=memory"),
        None => Check::missing(NAME, "cgroup v1; memory peaks are sampled and not exact")
            .mended_by("boot with systemd.unified_cgroup_hierarchy=1"),
    }
}

fn tracefs(machine: &MachineFacts) -> Check {
    const NAME: &str = "tracefs";
    match machine.tracefs {
        Some(true) => Check::ok(NAME, "oom/mark_victim"),
        None => Check::not_checked(NAME, "requires root: sudo ebb doctor machine"),
        Some(false) => Check::missing(
            NAME,
            "no oom/mark_victim; OOM kills are not assigned to tasks",
        )
        .mended_by("sudo mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    fn able() -> MachineFacts {
        MachineFacts {
            release: Some("6.1.0-28-cloud-amd64".to_owned()),
            btf: true,
            capabilities: Some(u64::MAX),
            cgroup_v2: Some("cpuset cpu io memory".to_owned()),
            tracefs: Some(true),
        }
    }

    #[test]
    fn a_machine_that_has_all_of_it_lacks_nothing() {
        assert!(checks(&able()).iter().all(|check| check.state == State::Ok));
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn what_is_missing_comes_with_the_line_that_mends_it() {
        let check = |lacking: MachineFacts, place: usize, state: State, detail: &str| {
            let all = checks(&lacking);
            assert_eq!(
                (all[place].state, all[place].detail.as_str()),
                (state, detail)
            );
            assert_eq!(all[place].mend.is_some(), state == State::Missing);
            let others = all.iter().enumerate().filter(|(n, _)| *n != place);
            assert!(others.map(|(_, c)| c.state).all(|state| state == State::Ok));
        };
        let release = |text: Option<&str>| MachineFacts {
            release: text.map(str::to_owned),
            ..able()
        };
        check(release(Some("5.4.0")), 0, State::Missing, "5.4.0");
        check(release(Some("7.1")), 0, State::Ok, "7.1");
        check(
            release(Some("x")),
            0,
            State::NotChecked,
            "unknown version x",
        );
        let none = "not a Linux system, or /proc is not mounted";
        check(release(None), 0, State::NotChecked, none);
        let no_btf = MachineFacts {
            btf: false,
            ..able()
        };
        check(
            no_btf,
            1,
            State::Missing,
            "/sys/kernel/btf/vmlinux does not exist",
        );
        let plain_user = MachineFacts {
            capabilities: Some(1 << 2 | 1 << 19),
            ..able()
        };
        check(
            plain_user,
            2,
            State::Missing,
            "this user lacks CAP_BPF, CAP_PERFMON",
        );
        let old_root = MachineFacts {
            capabilities: Some(1 << 2 | 1 << 19 | 1 << CAP_SYS_ADMIN),
            ..able()
        };
        assert!(
            checks(&old_root)
                .iter()
                .all(|check| check.state == State::Ok)
        );
        let unknown = MachineFacts {
            capabilities: None,
            ..able()
        };
        check(
            unknown,
            2,
            State::NotChecked,
            "no capabilities in /proc/self/status",
        );
        let unseen = MachineFacts {
            tracefs: None,
            ..able()
        };
        let only_root = "requires root: sudo ebb doctor machine";
        check(unseen, 4, State::NotChecked, only_root);
        let no_memory = MachineFacts {
            cgroup_v2: Some("cpu".to_owned()),
            ..able()
        };
        check(no_memory, 3, State::Missing, "the memory controller is off");
    }
}
