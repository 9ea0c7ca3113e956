//! The requirements of the probe that a few files of a machine show. `ebb doctor machine` and
//! `ebb-probe check` print the same results. The probe also loads its eBPF programs, which is not
//! done here.

use std::fs;
use std::path::Path;

/// The oldest kernel on which the probe was tested, see `probe/KERNELS.md`.
const OLDEST: (u32, u32) = (5, 10);

/// The type information of the running kernel.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The name, the number, and whether `CAP_SYS_ADMIN` includes the capability, as before Linux 5.8.
///
/// Source: `include/uapi/linux/capability.h`.
const CAPABILITIES: [(&str, u32, bool); 4] = [
    ("CAP_BPF", 39, true),
    ("CAP_PERFMON", 38, true),
    ("CAP_SYS_PTRACE", 19, false),
    ("CAP_DAC_READ_SEARCH", 2, false),
];

const CAP_SYS_ADMIN: u32 = 21;

/// The consequence of missing eBPF programs.
pub const SAMPLED: &str = "procfs is sampled, which misses short processes";

/// The result for one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The requirement is met; the text gives details.
    Met(String),
    /// The probe runs without it and observes less.
    Limited {
        /// The missing requirement, and the effect on the observation.
        problem: String,
        /// How to fix it; empty if nothing can be done on this machine.
        remedy: &'static str,
    },
    /// The probe does not run without it.
    Missing {
        /// The missing requirement.
        problem: String,
        /// How to fix it; empty if `problem` shows it.
        remedy: &'static str,
    },
    /// It was not checked, for this reason.
    NotChecked(&'static str),
}

impl CheckResult {
    /// True if the requirement is known not to be met.
    pub const fn is_unmet(&self) -> bool {
        matches!(self, Self::Limited { .. } | Self::Missing { .. })
    }
}

/// A requirement and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCheck {
    /// The requirement.
    pub name: &'static str,
    /// The result.
    pub result: CheckResult,
}

/// The cgroup interface through which memory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupMemory {
    /// cgroup v1 has the memory controller.
    V1,
    /// cgroup v2 has the memory controller.
    V2,
    /// cgroup v2 is mounted, without the memory controller.
    V2WithoutMemory,
}

/// Properties of this machine; `None` if they are unknown, or for `cgroups` and `btf_bytes` if there
/// are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// The kernel's release.
    pub release: Option<String>,
    /// The size of the kernel's type information.
    pub btf_bytes: Option<u64>,
    /// Effective capabilities of this process, as a bit set.
    pub capabilities: Option<u64>,
    /// The mounted cgroup interface.
    pub cgroups: Option<CgroupMemory>,
}

impl MachineFacts {
    /// Reads them from `/proc` and `/sys`.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).ok();
        Self {
            release: text("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            btf_bytes: fs::metadata(BTF).ok().map(|file| file.len()),
            capabilities: text("/proc/self/status")
                .as_deref()
                .and_then(parse_capabilities),
            cgroups: find_cgroups(
                &text("/proc/cgroups").unwrap_or_default(),
                &text("/proc/self/mountinfo").unwrap_or_default(),
                |mount| fs::read_to_string(Path::new(mount).join("cgroup.controllers")).ok(),
            ),
        }
    }
}

fn parse_capabilities(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let hex = lines.find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

/// The rule of the probe: a memory controller with a hierarchy of its own in `/proc/cgroups` is one of
/// v1. Linux 6.12 and later omit other controllers from that table.
fn find_cgroups(
    table: &str,
    mounts: &str,
    controllers: impl Fn(&str) -> Option<String>,
) -> Option<CgroupMemory> {
    let rows = table.lines().filter_map(|row| row.strip_prefix("memory"));
    let mut hierarchies = rows.filter_map(|row| row.split_whitespace().next());
    let is_v1 = hierarchies.next().is_some_and(|number| number != "0");
    let mut mounts = mounts.lines().filter_map(parse_mount);
    if is_v1 {
        let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
        let found = mounts.any(|(_, kind, options)| kind == "cgroup" && has_memory(options));
        return found.then_some(CgroupMemory::V1);
    }
    let (mount, ..) = mounts.find(|(_, kind, _)| *kind == "cgroup2")?;
    let controllers = controllers(mount).unwrap_or_default();
    let has_memory = controllers.split_whitespace().any(|name| name == "memory");
    Some(match has_memory {
        true => CgroupMemory::V2,
        false => CgroupMemory::V2WithoutMemory,
    })
}

/// Mount point, kind and options in a line of `mountinfo`: `… root point options … - kind source
/// options`.
fn parse_mount(line: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut after = after.split(' ');
    let point = before.split(' ').nth(4)?;
    Some((point, after.next()?, after.nth(1)?))
}

/// All requirements, in the order in which they are printed.
pub fn check_machine(machine: &MachineFacts) -> Vec<MachineCheck> {
    vec![
        check_kernel(machine),
        check_capabilities(machine),
        check_types(machine),
        check_cgroups(machine),
    ]
}

fn met(text: impl Into<String>) -> CheckResult {
    CheckResult::Met(text.into())
}

fn limited(problem: impl Into<String>, remedy: &'static str) -> CheckResult {
    CheckResult::Limited {
        problem: problem.into(),
        remedy,
    }
}

fn missing(problem: impl Into<String>, remedy: &'static str) -> CheckResult {
    CheckResult::Missing {
        problem: problem.into(),
        remedy,
    }
}

/// The version of the kernel.
pub fn check_kernel(machine: &MachineFacts) -> MachineCheck {
    let result = match machine.release.as_deref().map(|text| (text, version(text))) {
        None => CheckResult::NotChecked("/proc/sys/kernel/osrelease cannot be read"),
        Some((_, None)) => CheckResult::NotChecked("the kernel has a version of unknown form"),
        Some((release, Some(version))) if version >= OLDEST => met(format!("Linux {release}")),
        Some((release, Some(_))) => limited(
            format!("Linux {release}; the probe was not tested on versions before 5.10"),
            "boot Linux 5.10 or later",
        ),
    };
    MachineCheck {
        name: "kernel",
        result,
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// The capabilities of this process.
pub fn check_capabilities(machine: &MachineFacts) -> MachineCheck {
    let result = match machine.capabilities.map(missing_capabilities).as_deref() {
        Some([]) => met("may load eBPF and read every process"),
        Some(names) => limited(
            format!("no {}, so {SAMPLED}", names.join(", ")),
            "run this command and the probe as root, or the probe with ebb-probe.service",
        ),
        None => missing("/proc/self/status contains no capabilities", "mount /proc"),
    };
    MachineCheck {
        name: "capabilities",
        result,
    }
}

fn missing_capabilities(held: u64) -> Vec<&'static str> {
    let has = |bit: u32| held & (1 << bit) != 0;
    let missing = CAPABILITIES
        .iter()
        .filter(|(_, bit, in_admin)| !(has(*bit) || *in_admin && has(CAP_SYS_ADMIN)));
    missing.map(|(name, ..)| *name).collect()
}

/// The type information (BTF) of the kernel.
pub fn check_types(machine: &MachineFacts) -> MachineCheck {
    let result = match machine.btf_bytes {
        Some(bytes) => met(format!("{BTF}, {bytes} bytes")),
        None => limited(
            format!("no {BTF}, so {SAMPLED}"),
            "boot Linux 5.10 or later that was built with CONFIG_DEBUG_INFO_BTF=y",
        ),
    };
    MachineCheck {
        name: "kernel types",
        result,
    }
}

/// The cgroups, by which tasks are identified.
pub fn check_cgroups(machine: &MachineFacts) -> MachineCheck {
    let result = match machine.cgroups {
        Some(CgroupMemory::V2) => met("cgroup v2"),
        Some(CgroupMemory::V1) => met("cgroup v1"),
        Some(CgroupMemory::V2WithoutMemory) => limited(
            "cgroup v2 without the memory controller, so the memory of tasks is unknown",
            "boot with cgroup_enable=memory",
        ),
        None => missing(
            "no cgroup hierarchy with the memory controller is mounted",
            "mount cgroup2 on /sys/fs/cgroup",
        ),
    };
    MachineCheck {
        name: "cgroups",
        result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn able() -> MachineFacts {
        MachineFacts {
            release: Some("6.1.0-28-cloud-amd64".to_owned()),
            btf_bytes: Some(5_000_000),
            capabilities: Some(u64::MAX),
            cgroups: Some(CgroupMemory::V2),
        }
    }

    fn is_met(check: &MachineCheck) -> bool {
        matches!(check.result, CheckResult::Met(_))
    }

    #[test]
    fn a_machine_with_everything_meets_all_requirements() {
        assert!(check_machine(&able()).iter().all(is_met));
    }

    #[test]
    fn only_the_unmet_requirement_is_reported_with_its_remedy() {
        let check = |machine: MachineFacts, name: &str, expect: &CheckResult| {
            let all = check_machine(&machine);
            let unmet: Vec<_> = all.iter().filter(|check| !is_met(check)).collect();
            assert_eq!(unmet.len(), 1, "{unmet:?}");
            assert_eq!((unmet[0].name, &unmet[0].result), (name, expect));
        };
        check(
            MachineFacts {
                release: Some("5.4.0".to_owned()),
                ..able()
            },
            "kernel",
            &limited(
                "Linux 5.4.0; the probe was not tested on versions before 5.10",
                "boot Linux 5.10 or later",
            ),
        );
        check(
            MachineFacts {
                release: Some("x".to_owned()),
                ..able()
            },
            "kernel",
            &CheckResult::NotChecked("the kernel has a version of unknown form"),
        );
        check(
            MachineFacts {
                btf_bytes: None,
                ..able()
            },
            "kernel types",
            &limited(
                "no /sys/kernel/btf/vmlinux, so procfs is sampled, which misses short processes",
                "boot Linux 5.10 or later that was built with CONFIG_DEBUG_INFO_BTF=y",
            ),
        );
        check(
            MachineFacts {
                capabilities: None,
                ..able()
            },
            "capabilities",
            &missing("/proc/self/status contains no capabilities", "mount /proc"),
        );
        check(
            MachineFacts {
                cgroups: None,
                ..able()
            },
            "cgroups",
            &missing(
                "no cgroup hierarchy with the memory controller is mounted",
                "mount cgroup2 on /sys/fs/cgroup",
            ),
        );
    }

    #[test]
    fn missing_capabilities_are_named() {
        let check = |status: &str, expect: Option<&[&str]>| {
            let missing = parse_capabilities(status).map(missing_capabilities);
            assert_eq!(missing.as_deref(), expect, "{status}");
        };
        check("CapEff:\t000001ffffffffff\n", Some(&[]));
        // CAP_SYS_ADMIN instead of CAP_BPF and CAP_PERFMON.
        check("CapEff:\t0000000000280004\n", Some(&[]));
        check("CapEff:\t000000c000080004\n", Some(&[]));
        check(
            "CapInh:\t0\nCapEff:\t0000000000000000\n",
            Some(&[
                "CAP_BPF",
                "CAP_PERFMON",
                "CAP_SYS_PTRACE",
                "CAP_DAC_READ_SEARCH",
            ]),
        );
        check("CapEff:\t0000008000080004\n", Some(&["CAP_PERFMON"]));
        check("", None);
        check("CapEff:\tmuch\n", None);
    }

    #[test]
    fn the_cgroup_interface_is_the_one_with_the_memory_controller() {
        let check = |table: &str, mounts: &str, controllers: &str, expect| {
            let found = find_cgroups(table, mounts, |mount| {
                (mount == "/sys/fs/cgroup").then(|| controllers.to_owned())
            });
            assert_eq!(found, expect, "{table}{mounts}");
        };
        let v1 = "33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let table =
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t2\t1\t1\nmemory\t3\t1\t1\n";
        let unified = "cpu\t0\t1\t1\nmemory\t0\t1\t1\n";
        check(table, v1, "", Some(CgroupMemory::V1));
        check(table, v2, "memory", None);
        check(unified, v2, "cpu io memory\n", Some(CgroupMemory::V2));
        check("", v2, "memory\n", Some(CgroupMemory::V2));
        check(unified, v2, "cpu io\n", Some(CgroupMemory::V2WithoutMemory));
        check(unified, v1, "memory", None);
        check("", "", "", None);
    }
}
