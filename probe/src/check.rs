//! Reports which requirements of the probe this machine lacks, with a line on how to fix each.

use std::fmt;
use std::fs;
use std::path::Path;

use ebb_wire::encode_heartbeats;

use crate::cgroup::Hierarchy;
use crate::config::Config;
use crate::connect::{self, Connected, Fallback};
use crate::kernel::KernelHalf;
use crate::kernel::programs::{OomEvents, SocketEvents};
use crate::network::Network;
use crate::node;
use crate::rules::kept;
use crate::rules::source::{Found, SourceError};

/// The result for one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The requirement is met; the text gives details.
    Good(String),
    /// The probe runs without it and observes less.
    Less(String),
    /// The probe does not run without it.
    Lacks(String),
    /// It could not be checked because another requirement is not met.
    Skipped(&'static str),
}

/// One line of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    what: &'static str,
    finding: Finding,
}

impl Line {
    /// True if the probe does not run because of this requirement.
    pub const fn is_bad(&self) -> bool {
        matches!(self.finding, Finding::Lacks(_))
    }

    const fn is_less(&self) -> bool {
        matches!(self.finding, Finding::Less(_) | Finding::Lacks(_))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, words) = match &self.finding {
            Finding::Good(words) => ("ok", words.as_str()),
            Finding::Less(words) => ("less", words.as_str()),
            Finding::Lacks(words) => ("LACKS", words.as_str()),
            Finding::Skipped(words) => ("-", *words),
        };
        write!(f, "{mark:<6}{:<14}{words}", self.what)
    }
}

/// The consequence of missing eBPF programs.
const SAMPLED: &str = "procfs is sampled, which misses short processes";

/// Checks all requirements.
pub async fn all(config_path: &Path) -> Vec<Line> {
    let mut lines = vec![rights(), types()];
    let ready = lines.iter().all(|line| !line.is_less());
    lines.extend(kernel_half(ready));
    lines.push(network());
    match Config::read(config_path) {
        Ok(config) => {
            lines.push(good("configuration", config_path.display()));
            lines.push(spool(&config));
            lines.extend(cloud(&config).await);
        }
        Err(error) => {
            lines.push(lacks("configuration", chain(&error.into())));
            lines.push(line(
                "cloud",
                Finding::Skipped("not asked without a configuration"),
            ));
        }
    }
    lines
}

const fn line(what: &'static str, finding: Finding) -> Line {
    Line { what, finding }
}

fn good(what: &'static str, words: impl fmt::Display) -> Line {
    line(what, Finding::Good(words.to_string()))
}

fn less(what: &'static str, words: impl fmt::Display) -> Line {
    line(what, Finding::Less(words.to_string()))
}

fn lacks(what: &'static str, words: impl fmt::Display) -> Line {
    line(what, Finding::Lacks(words.to_string()))
}

fn chain(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn rights() -> Line {
    const WHAT: &str = "rights";
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_rights(&status).as_deref() {
        Some([]) => good(WHAT, "may load eBPF and look at every process"),
        Some(missing) => less(
            WHAT,
            format!(
                "no {}; run it as root, or by the unit in infra/",
                missing.join(", ")
            ),
        ),
        None => lacks(WHAT, "/proc/self/status says no capabilities; mount /proc"),
    }
}

/// The required capabilities that the process lacks; `None` if they cannot be determined.
/// `CAP_SYS_ADMIN` includes the first two, as before Linux 5.8.
///
/// Source: `include/uapi/linux/capability.h`.
fn missing_rights(status: &str) -> Option<Vec<&'static str>> {
    const ADMIN: u32 = 21;
    const WANTED: [(&str, u32, bool); 4] = [
        ("CAP_BPF", 39, true),
        ("CAP_PERFMON", 38, true),
        ("CAP_SYS_PTRACE", 19, false),
        ("CAP_DAC_READ_SEARCH", 2, false),
    ];
    let hex = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let held = u64::from_str_radix(hex.trim(), 16).ok()?;
    let has = |bit: u32| held & (1 << bit) != 0;
    let missing = WANTED
        .iter()
        .filter(|(_, bit, in_admin)| !(has(*bit) || *in_admin && has(ADMIN)))
        .map(|(name, ..)| *name);
    Some(missing.collect())
}

fn types() -> Line {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    match fs::metadata(PATH) {
        Ok(file) => good("kernel types", format!("{PATH}, {} bytes", file.len())),
        Err(_) => less(
            "kernel types",
            format!(
                "no {PATH}, so that {SAMPLED}; boot a kernel with CONFIG_DEBUG_INFO_BTF=y (5.10 or later)"
            ),
        ),
    }
}

fn kernel_half(ready: bool) -> Vec<Line> {
    const WHAT: &str = "kernel half";
    let hierarchy = match Hierarchy::find() {
        Ok(hierarchy) => hierarchy,
        Err(error) => {
            let words = chain(&error.into());
            return vec![lacks(
                "cgroups",
                format!("{words}; mount cgroup2 on /sys/fs/cgroup"),
            )];
        }
    };
    let found = good("cgroups", hierarchy.mount.display());
    if !ready {
        return vec![
            found,
            line(
                WHAT,
                Finding::Skipped("not loaded without the above: procfs is sampled"),
            ),
        ];
    }
    let loaded = match KernelHalf::load(hierarchy.memory_hierarchy()) {
        Ok(loaded) => loaded,
        Err(error) => {
            let words = chain(&error.into());
            let words = words.lines().next().unwrap_or_default();
            let words =
                format!("{SAMPLED}: {words}; 5.10 or later without lockdown of eBPF loads it");
            return vec![found, less(WHAT, words)];
        }
    };
    let oom = match loaded.oom_events() {
        OomEvents::Attached => good("memory kills", "told with their victims"),
        OomEvents::Missing(_) => line(
            "memory kills",
            Finding::Less("told by cgroup only; mount -t tracefs none /sys/kernel/tracing".into()),
        ),
    };
    let sockets = match loaded.socket_events() {
        SocketEvents::Whole => good("sockets", "TCP is told by process"),
        SocketEvents::OwnNamespace(_) => line(
            "sockets",
            Finding::Less(
                "TCP is told by process; what was accepted, and in containers' own networks, \
                 when a connection ends: 5.11 tells it before"
                    .into(),
            ),
        ),
        SocketEvents::AtEnd(_) => line(
            "sockets",
            Finding::Less(
                "TCP is told by process when a connection ends; 5.11 tells it before".into(),
            ),
        ),
        SocketEvents::Missing(_) => line(
            "sockets",
            Finding::Less("network is told of the whole node only".into()),
        ),
    };
    vec![found, good(WHAT, "loads and attaches"), oom, sockets]
}

fn network() -> Line {
    let network = Network::watch("/");
    let names: Vec<_> = network.interfaces().collect();
    if names.is_empty() {
        let words = "no physical interface, so that no node is called idle; \
                     run the probe in the host's network, not in a container's";
        return line("network", Finding::Less(words.into()));
    }
    good("network", names.join(", "))
}

/// Writes a separate file, because a running probe has the spool open.
fn spool(config: &Config) -> Line {
    let folder = &config.spool_dir;
    let file = folder.join("check");
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, ""))
        .and_then(|()| fs::remove_file(&file));
    match tried {
        Ok(()) => good("spool", folder.display()),
        Err(error) => less(
            "spool",
            format!(
                "failed to write to {}: {error}; unsent records are kept in memory only, and a \
                 restart loses them; make the folder writable, or set spool_dir",
                folder.display()
            ),
        ),
    }
}

/// Sends a message without heartbeats to the queue, which the sweep discards. Only this shows
/// whether the node may send.
async fn cloud(config: &Config) -> Vec<Line> {
    let Connected {
        run,
        sender,
        sink,
        rules,
    } = match connect::connect(config, Fallback::None).await {
        Ok(connected) => connected,
        Err(error) => return vec![lacks("identity", chain(&error))],
    };
    let identity = good("identity", format!("{}, attested as {sender}", run.node));
    let body = match encode_heartbeats(&node::sent(&run.boot), &[]) {
        Ok(body) => body,
        Err(error) => return vec![identity, lacks("queue", chain(&error.into()))],
    };
    let queue = match sink.heartbeats(&body).await {
        Ok(()) => good("queue", "takes messages"),
        Err(error) => lacks(
            "queue",
            format!(
                "{}; check queue_url and region, and attach the node policy \
                 (`terraform output node_policy_arn`)",
                chain(&error.into())
            ),
        ),
    };
    let has_copy = kept::has_copy(&config.state_dir());
    vec![identity, queue, rules_line(rules.read().await, has_copy)]
}

fn rules_line(read: Result<Found, SourceError>, has_copy: bool) -> Line {
    const WHAT: &str = "rules";
    let problem = match read {
        Ok(Found::Rules(..)) => return good(WHAT, "your own, before the built-in ones"),
        Ok(Found::Nothing) => return good(WHAT, "the built-in ones"),
        Ok(Found::Denied) if !has_copy => {
            return good(WHAT, "the built-in ones; the bucket denies reading others");
        }
        Ok(Found::Denied) => "the bucket denies reading them".to_owned(),
        Err(error) => chain(&error.into()),
    };
    match has_copy {
        true => less(WHAT, format!("{problem}; the last good rules apply")),
        false => less(
            WHAT,
            format!("{problem}; all names are masked until they can be read"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_told_by_name() {
        let check = |status: &str, expect: Option<&[&str]>| {
            assert_eq!(missing_rights(status).as_deref(), expect, "{status}");
        };
        check("CapEff:\t000001ffffffffff\n", Some(&[]));
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
    fn rules_that_cannot_be_read_do_not_keep_the_probe_from_running() {
        let check = |read, has_copy, expect: &str| {
            let line = rules_line(read, has_copy);
            assert!(line.to_string().ends_with(expect), "{line}");
            assert!(!line.is_bad());
        };
        check(Ok(Found::Nothing), true, "the built-in ones");
        check(Ok(Found::Denied), false, "the bucket denies reading others");
        check(Ok(Found::Denied), true, "the last good rules apply");
        let refused = || Err(SourceError::NotText);
        check(refused(), true, "not UTF-8; the last good rules apply");
        check(
            refused(),
            false,
            "all names are masked until they can be read",
        );
    }

    #[tokio::test(flavor = "current_thread")]
    async fn without_a_configuration_the_cloud_is_not_asked() {
        let lines = all(Path::new("/nowhere/probe.toml")).await;
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let bad = lines.iter().filter(|l| l.is_bad()).map(|l| l.what);
        assert!(
            bad.collect::<Vec<_>>().contains(&"configuration"),
            "{shown:#?}"
        );
        assert!(
            shown.iter().any(|l| l.starts_with("-     cloud")),
            "{shown:#?}"
        );
    }
}
