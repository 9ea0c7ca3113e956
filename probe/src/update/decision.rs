//! Whether this machine installs the program of a manifest.

use std::fmt;

use ebb_telemetry::probe_version::ProbeVersion;
use sha2::{Digest, Sha256};

use super::manifest::{Manifest, Program};

/// Facts about this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation<'a> {
    /// The version of the running program.
    pub(super) version: ProbeVersion,
    /// The name of the architecture that `uname -m` prints.
    pub(super) architecture: &'a str,
    /// The identity of this machine.
    pub(super) machine: &'a str,
    /// Versions whose installation failed here.
    pub(super) failed: &'a [ProbeVersion],
    /// Whether an older version may be installed.
    pub(super) allow_downgrade: bool,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision<'a> {
    /// It is installed.
    Current,
    /// It failed here before.
    FailedBefore(ProbeVersion),
    /// It is older than the installed one.
    Older(ProbeVersion),
    /// Other machines install it first.
    LaterStage {
        /// The version.
        version: ProbeVersion,
        /// The share of machines that install it.
        percent: u8,
        /// The place of this machine, from 0 to 99.
        place: u8,
    },
    /// It has no program for this architecture.
    NoProgram(ProbeVersion),
    /// Install it.
    Install(&'a Program),
}

/// Decides from the manifest and the machine alone.
pub(super) fn decide<'a>(manifest: &'a Manifest, machine: &Situation<'_>) -> Decision<'a> {
    let version = manifest.version;
    if version == machine.version {
        return Decision::Current;
    }
    if machine.failed.contains(&version) {
        return Decision::FailedBefore(version);
    }
    if version < machine.version && !machine.allow_downgrade {
        return Decision::Older(version);
    }
    let place = place(machine.machine, version);
    if place >= manifest.rollout_percent {
        return Decision::LaterStage {
            version,
            percent: manifest.rollout_percent,
            place,
        };
    }
    match manifest.programs.get(machine.architecture) {
        Some(program) => Decision::Install(program),
        None => Decision::NoProgram(version),
    }
}

/// The place of a machine in the rollout of a version, from 0 to 99. It is always the same, so that a
/// greater `rollout_percent` only adds machines. The order differs by version, so that no machine is
/// always the first.
fn place(machine: &str, version: ProbeVersion) -> u8 {
    let hash = Sha256::digest(format!("{version}\n{machine}"));
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u8::try_from(u64::from_be_bytes(first) % 100).unwrap_or(u8::MAX)
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("the version of the manifest is installed"),
            Self::FailedBefore(version) => write!(
                f,
                "version {version} failed on this machine before and is not tried again"
            ),
            Self::Older(version) => write!(
                f,
                "version {version} is older than the installed one; --allow-downgrade installs it"
            ),
            Self::LaterStage {
                version,
                percent,
                place,
            } => write!(
                f,
                "version {version} is for {percent} % of the machines; this one has place {place} of 0 to 99"
            ),
            Self::NoProgram(version) => {
                write!(f, "version {version} has no program for this architecture")
            }
            Self::Install(program) => write!(f, "{} is to be installed", program.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::tests;
    use super::*;

    fn version(text: &str) -> ProbeVersion {
        text.parse().expect("a version")
    }

    fn manifest() -> Manifest {
        let mut manifest = tests::manifest();
        manifest.version = version("0.3.0");
        manifest
    }

    #[test]
    fn a_newer_version_is_installed_once_and_an_older_one_only_if_a_person_allows_it() {
        let failed = [version("0.3.0")];
        let check = |own: &str, change: fn(&mut Situation<'_>), expect: &str| {
            let manifest = manifest();
            let mut machine = Situation {
                version: version(own),
                architecture: "x86_64",
                machine: "m",
                failed: &[],
                allow_downgrade: false,
            };
            change(&mut machine);
            let decision = decide(&manifest, &machine);
            assert!(decision.to_string().contains(expect), "{own}: {decision}");
        };
        check("0.2.9", |_| (), "is to be installed");
        check("0.3.0", |_| (), "is installed");
        check("0.3.1", |_| (), "older");
        check("0.3.1", |m| m.allow_downgrade = true, "is to be installed");
        check("0.2.0", |m| m.architecture = "riscv64", "no program");
        let manifest = manifest();
        let machine = Situation {
            version: version("0.2.0"),
            architecture: "x86_64",
            machine: "m",
            failed: &failed,
            allow_downgrade: true,
        };
        let decision = decide(&manifest, &machine);
        assert_eq!(decision, Decision::FailedBefore(version("0.3.0")));
    }

    #[test]
    fn a_stage_has_its_share_of_the_machines_and_the_next_one_adds_to_it() {
        let mut manifest = manifest();
        let mut installed = |percent: u8| -> Vec<usize> {
            manifest.rollout_percent = percent;
            let is_in = |machine: &usize| {
                let name = format!("i-{machine:017x}");
                let situation = Situation {
                    version: version("0.2.0"),
                    architecture: "x86_64",
                    machine: &name,
                    failed: &[],
                    allow_downgrade: false,
                };
                matches!(decide(&manifest, &situation), Decision::Install(_))
            };
            (0..10_000).filter(is_in).collect()
        };
        let [none, few, half, all] = [0, 5, 50, 100].map(&mut installed);
        assert!(none.is_empty());
        assert!((400..600).contains(&few.len()), "{}", few.len());
        assert!((4_700..5_300).contains(&half.len()), "{}", half.len());
        assert_eq!(all.len(), 10_000);
        assert!(few.iter().all(|machine| half.contains(machine)));
        let places = |of: &str| {
            (0..50)
                .map(|m| place(&m.to_string(), version(of)))
                .collect()
        };
        let (one, other): (Vec<_>, Vec<_>) = (places("0.3.0"), places("0.3.1"));
        assert_ne!(one, other, "another version begins with other machines");
    }
}
