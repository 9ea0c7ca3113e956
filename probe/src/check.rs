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
use crate::label_rules::keeper;
use crate::label_rules::source::{RulesLookup, SourceError};
use crate::network::NetworkCounter;
use crate::node;

/// The result for one requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The requirement is met; the text gives details.
    Met(String),
    /// The probe runs without it and observes less.
    Limited(String),
    /// The probe does not run without it.
    Missing(String),
    /// It could not be checked because another requirement is not met.
    Skipped(&'static str),
}

/// One line of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    what: &'static str,
    result: CheckResult,
}

impl CheckLine {
    /// True if the probe does not run because of this requirement.
    pub const fn is_bad(&self) -> bool {
        matches!(self.result, CheckResult::Missing(_))
    }

    const fn is_limited(&self) -> bool {
        matches!(
            self.result,
            CheckResult::Limited(_) | CheckResult::Missing(_)
        )
    }
}

impl fmt::Display for CheckLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, words) = match &self.result {
            CheckResult::Met(words) => ("ok", words.as_str()),
            CheckResult::Limited(words) => ("less", words.as_str()),
            CheckResult::Missing(words) => ("LACKS", words.as_str()),
            CheckResult::Skipped(words) => ("-", *words),
        };
        write!(f, "{mark:<6}{:<14}{words}", self.what)
    }
}

/// The consequence of missing eBPF programs.
const SAMPLED: &str = "procfs is sampled, which misses short processes";

/// Checks all requirements.
pub async fn all(config_path: &Path) -> Vec<CheckLine> {
    let mut lines = vec![capabilities(), types()];
    let ready = lines.iter().all(|line| !line.is_limited());
    lines.extend(kernel_half(ready));
    lines.push(network());
    match Config::read(config_path) {
        Ok(config) => {
            lines.push(met("configuration", config_path.display()));
            lines.push(spool(&config));
            lines.extend(cloud(&config).await);
        }
        Err(error) => {
            lines.push(missing("configuration", chain(&error.into())));
            lines.push(check_line(
                "cloud",
                CheckResult::Skipped("not checked without a configuration"),
            ));
        }
    }
    lines
}

const fn check_line(what: &'static str, result: CheckResult) -> CheckLine {
    CheckLine { what, result }
}

fn met(what: &'static str, words: impl fmt::Display) -> CheckLine {
    check_line(what, CheckResult::Met(words.to_string()))
}

fn limited(what: &'static str, words: impl fmt::Display) -> CheckLine {
    check_line(what, CheckResult::Limited(words.to_string()))
}

fn missing(what: &'static str, words: impl fmt::Display) -> CheckLine {
    check_line(what, CheckResult::Missing(words.to_string()))
}

fn chain(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn capabilities() -> CheckLine {
    const WHAT: &str = "rights";
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match missing_capabilities(&status).as_deref() {
        Some([]) => met(WHAT, "may load eBPF and read every process"),
        Some(missing) => limited(
            WHAT,
            format!(
                "no {}; run the probe as root, or with the unit in infra/",
                missing.join(", ")
            ),
        ),
        None => missing(
            WHAT,
            "/proc/self/status contains no capabilities; mount /proc",
        ),
    }
}

/// The required capabilities that the process lacks; `None` if they cannot be determined.
/// `CAP_SYS_ADMIN` includes the first two, as before Linux 5.8.
///
/// Source: `include/uapi/linux/capability.h`.
fn missing_capabilities(status: &str) -> Option<Vec<&'static str>> {
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

fn types() -> CheckLine {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    match fs::metadata(PATH) {
        Ok(file) => met("kernel types", format!("{PATH}, {} bytes", file.len())),
        Err(_) => limited(
            "kernel types",
            format!(
                "no {PATH}, so {SAMPLED}; boot a kernel with CONFIG_DEBUG_INFO_BTF=y (5.10 or later)"
            ),
        ),
    }
}

fn kernel_half(ready: bool) -> Vec<CheckLine> {
    const WHAT: &str = "kernel half";
    let hierarchy = match Hierarchy::find() {
        Ok(hierarchy) => hierarchy,
        Err(error) => {
            let words = chain(&error.into());
            return vec![missing(
                "cgroups",
                format!("{words}; mount cgroup2 on /sys/fs/cgroup"),
            )];
        }
    };
    let found = met("cgroups", hierarchy.mount.display());
    if !ready {
        return vec![
            found,
            check_line(
                WHAT,
                CheckResult::Skipped(
                    "not loaded, because a requirement above is missing; procfs is sampled",
                ),
            ),
        ];
    }
    let loaded = match KernelHalf::load(hierarchy.memory_hierarchy()) {
        Ok(loaded) => loaded,
        Err(error) => {
            let words = chain(&error.into());
            let words = words.lines().next().unwrap_or_default();
            let words =
                format!("{SAMPLED}: {words}; use Linux 5.10 or later without lockdown of eBPF");
            return vec![found, limited(WHAT, words)];
        }
    };
    vec![
        found,
        met(WHAT, "loads and attaches"),
        oom_kills(loaded.oom_events()),
        sockets(loaded.socket_events()),
    ]
}

fn oom_kills(events: &OomEvents) -> CheckLine {
    match events {
        OomEvents::Attached => met("memory kills", "reported with their victims"),
        OomEvents::Missing(_) => check_line(
            "memory kills",
            CheckResult::Limited(
                "known by cgroup only; run mount -t tracefs none /sys/kernel/tracing".into(),
            ),
        ),
    }
}

fn sockets(events: &SocketEvents) -> CheckLine {
    const WHAT: &str = "sockets";
    let limit = match events {
        SocketEvents::Whole => return met(WHAT, "TCP traffic is known by process"),
        SocketEvents::OwnNamespace(_) => {
            "TCP traffic is known by process. Accepted connections, and those in container \
             networks, count when they end; Linux 5.11 counts them before"
        }
        SocketEvents::AtEnd(_) => {
            "TCP traffic is known by process when a connection ends; Linux 5.11 counts it before"
        }
        SocketEvents::Missing(_) => "network traffic is known only for the whole node",
    };
    check_line(WHAT, CheckResult::Limited(limit.into()))
}

fn network() -> CheckLine {
    let network = NetworkCounter::watch("/");
    let names: Vec<_> = network.interfaces().collect();
    if names.is_empty() {
        let words = "no physical interface, so the node is never reported as idle; \
                     run the probe in the host's network, not in a container's";
        return check_line("network", CheckResult::Limited(words.into()));
    }
    met("network", names.join(", "))
}

/// Writes a separate file, because a running probe has the spool open.
fn spool(config: &Config) -> CheckLine {
    let folder = &config.spool_dir;
    let file = folder.join("check");
    let tried = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, ""))
        .and_then(|()| fs::remove_file(&file));
    match tried {
        Ok(()) => met("spool", folder.display()),
        Err(error) => limited(
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
async fn cloud(config: &Config) -> Vec<CheckLine> {
    let Connected {
        run,
        sender,
        sink,
        rules,
    } = match connect::connect(config, Fallback::None).await {
        Ok(connected) => connected,
        Err(error) => return vec![missing("identity", chain(&error))],
    };
    let identity = met("identity", format!("{}, attested as {sender}", run.node));
    let body = match encode_heartbeats(&node::sent(&run.boot), &[]) {
        Ok(body) => body,
        Err(error) => return vec![identity, missing("queue", chain(&error.into()))],
    };
    let queue = match sink.heartbeats(&body).await {
        Ok(()) => met("queue", "accepts messages"),
        Err(error) => missing(
            "queue",
            format!(
                "{}; check queue_url and region, and attach the node policy \
                 (`terraform output node_policy_arn`)",
                chain(&error.into())
            ),
        ),
    };
    let has_copy = keeper::has_copy(&config.state_dir());
    vec![identity, queue, rules_line(rules.read().await, has_copy)]
}

fn rules_line(read: Result<RulesLookup, SourceError>, has_copy: bool) -> CheckLine {
    const WHAT: &str = "rules";
    let problem = match read {
        Ok(RulesLookup::Rules(..)) => {
            return met(WHAT, "your own rules, before the built-in ones");
        }
        Ok(RulesLookup::Nothing) => return met(WHAT, "the built-in ones"),
        Ok(RulesLookup::Denied) if !has_copy => {
            return met(WHAT, "the built-in ones; the bucket denies reading others");
        }
        Ok(RulesLookup::Denied) => "the bucket denies reading them".to_owned(),
        Err(error) => chain(&error.into()),
    };
    match has_copy {
        true => limited(WHAT, format!("{problem}; the last good rules apply")),
        false => limited(
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
            assert_eq!(missing_capabilities(status).as_deref(), expect, "{status}");
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
        check(Ok(RulesLookup::Nothing), true, "the built-in ones");
        check(
            Ok(RulesLookup::Denied),
            false,
            "the bucket denies reading others",
        );
        check(Ok(RulesLookup::Denied), true, "the last good rules apply");
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
