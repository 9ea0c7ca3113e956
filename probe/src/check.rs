//! Reports which requirements of the probe this machine lacks, with a line on how to fix each.

use std::fmt;
use std::fs;
use std::path::Path;

use ebb_telemetry::machine_check::{self, CheckResult, MachineCheck, MachineFacts, SAMPLED};
use ebb_wire::encode_heartbeats;

use crate::cgroup::Hierarchy;
use crate::config::Config;
use crate::connect::{self, Connected, Fallback};
use crate::gpu::Gpus;
use crate::kernel::KernelHalf;
use crate::kernel::programs::{OomEvents, SocketEvents};
use crate::label_rules::keeper;
use crate::label_rules::source::{RulesLookup, SourceError};
use crate::network::NetworkCounter;
use crate::node;

/// One line of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckLine {
    what: &'static str,
    result: CheckResult,
}

impl CheckLine {
    /// True if the probe does not run because of this requirement.
    pub const fn is_bad(&self) -> bool {
        matches!(self.result, CheckResult::Missing { .. })
    }
}

impl From<MachineCheck> for CheckLine {
    fn from(check: MachineCheck) -> Self {
        check_line(check.name, check.result)
    }
}

impl fmt::Display for CheckLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mark, words, remedy) = match &self.result {
            CheckResult::Met(words) => ("ok", words.as_str(), ""),
            CheckResult::Limited { problem, remedy } => ("less", problem.as_str(), *remedy),
            CheckResult::Missing { problem, remedy } => ("LACKS", problem.as_str(), *remedy),
            CheckResult::NotChecked(words) => ("-", *words, ""),
        };
        write!(f, "{mark:<6}{:<14}{words}", self.what)?;
        match remedy {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

/// Checks all requirements.
pub async fn all(config_path: &Path) -> Vec<CheckLine> {
    let machine = MachineFacts::read();
    let needed = [
        machine_check::check_capabilities(&machine),
        machine_check::check_types(&machine),
    ];
    let is_ready = needed.iter().all(|check| !check.result.is_unmet());
    let mut lines = vec![machine_check::check_kernel(&machine).into()];
    lines.extend(needed.map(CheckLine::from));
    lines.extend(kernel_half(&machine, is_ready));
    lines.push(network());
    lines.push(gpus());
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
                CheckResult::NotChecked("not checked without a configuration"),
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

/// `problem` contains the remedy, if there is one.
fn limited(what: &'static str, problem: impl fmt::Display) -> CheckLine {
    let problem = problem.to_string();
    check_line(
        what,
        CheckResult::Limited {
            problem,
            remedy: "",
        },
    )
}

/// `problem` contains the remedy.
fn missing(what: &'static str, problem: impl fmt::Display) -> CheckLine {
    let problem = problem.to_string();
    check_line(
        what,
        CheckResult::Missing {
            problem,
            remedy: "",
        },
    )
}

fn chain(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn kernel_half(machine: &MachineFacts, is_ready: bool) -> Vec<CheckLine> {
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
    let found = machine_check::check_cgroups(machine).into();
    if !is_ready {
        return vec![
            found,
            check_line(
                WHAT,
                CheckResult::NotChecked(
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
        OomEvents::Missing(error) => {
            limited("memory kills", format!("known by cgroup only: {error}"))
        }
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
    limited(WHAT, limit)
}

fn network() -> CheckLine {
    let network = NetworkCounter::watch("/");
    let names: Vec<_> = network.interfaces().collect();
    if names.is_empty() {
        let words = "no physical interface, so the node is never reported as idle; \
                     run the probe in the host's network, not in a container's";
        return limited("network", words);
    }
    met("network", names.join(", "))
}

fn gpus() -> CheckLine {
    const WHAT: &str = "GPUs";
    match Gpus::check() {
        Ok(models) if models.is_empty() => check_line(WHAT, CheckResult::NotChecked("none found")),
        Ok(models) => met(WHAT, models.join(", ")),
        Err(problem) => limited(
            WHAT,
            format!("their use is unknown, so the node is never reported as idle: {problem}"),
        ),
    }
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
    let queue = match sink.message(&body).await {
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
