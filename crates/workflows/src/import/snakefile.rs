//! The rules of a Snakefile as Snakemake lists them: their benchmark files and requests.
//!
//! A Snakefile is a program, so only Snakemake can read it. [`PROGRAM`] runs in Snakemake's own
//! Python. The caller starts it and sets its limits.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::step::Requested;
use ebb_telemetry::units::{Bytes, MilliCores};
use serde::Deserialize;
use thiserror::Error;

use super::pattern::{FileNaming, PathPattern, PatternError};

/// A Python program. Its arguments are the path of the Snakefile, the time limit in seconds, and
/// options of the run. Its standard output is the input of [`Snakefile::read`].
pub const PROGRAM: &str = include_str!("snakefile.py");

/// The most rules; workflows have hundreds.
const MAX_RULES: usize = 20_000;

/// Why the list of rules cannot be used.
#[derive(Debug, Error)]
pub enum SnakefileError {
    /// It is not the output of the program.
    #[error("failed to read the list of rules")]
    Unreadable(#[from] serde_json::Error),
    /// It has too many rules.
    #[error("more than {MAX_RULES} rules")]
    TooManyRules,
    /// The pattern of a benchmark file is invalid.
    #[error("rule {rule}: the benchmark file {source}")]
    Pattern {
        /// The rule.
        rule: String,
        /// The cause.
        source: PatternError,
    },
}

/// The rules of a Snakefile.
#[derive(Debug, Clone, Default)]
pub struct Snakefile {
    version: String,
    rules: BTreeMap<String, RuleRequest>,
    patterns: Vec<(String, PathPattern)>,
    notes: Vec<String>,
}

/// The request of all jobs of a rule; a value is `None` if it depends on the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RuleRequest {
    pub(super) requested: Requested,
    /// Its memory is requested for each core.
    pub(super) has_memory_per_core: bool,
    pub(super) time_limit: Option<Duration>,
}

#[derive(Deserialize)]
struct Listing {
    /// The version of Snakemake.
    snakemake: String,
    rules: Vec<ListedRule>,
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct ListedRule {
    name: String,
    benchmark: Option<String>,
    threads: Option<f64>,
    mem_mb: Option<f64>,
    #[serde(default)]
    mem_mb_per_cpu: Option<f64>,
    runtime_minutes: Option<f64>,
}

impl ListedRule {
    fn request(&self) -> RuleRequest {
        let threads = self.threads.filter(|n| *n > 0.0 && *n < 1e6);
        let per_core = self.mem_mb_per_cpu.filter(|n| *n > 0.0);
        let mb = match per_core {
            Some(per_core) => threads.map(|threads| per_core * threads),
            None => self.mem_mb,
        };
        let mb = mb.filter(|n| *n > 0.0 && *n < 1e12);
        let minutes = self.runtime_minutes.filter(|n| *n > 0.0 && *n < 1e9);
        RuleRequest {
            requested: Requested {
                cores: threads.map(|n| MilliCores((n * 1000.0).round() as u64)),
                // Snakemake derives `mem_mib`, a value of extended benchmark files, in the same
                // way.
                memory: mb.map(|n| Bytes::mib((n * 1e6 / 1_048_576.0).ceil() as u64)),
            },
            has_memory_per_core: per_core.is_some(),
            time_limit: minutes.map(|n| Duration::from_secs((n * 60.0).round() as u64)),
        }
    }
}

impl Snakefile {
    /// Reads the output of [`PROGRAM`].
    ///
    /// # Errors
    /// If it is not such output, or the pattern of a benchmark file is invalid.
    pub fn read(listing: &[u8]) -> Result<Self, SnakefileError> {
        let listing: Listing = serde_json::from_slice(listing)?;
        if listing.rules.len() > MAX_RULES {
            return Err(SnakefileError::TooManyRules);
        }
        let mut snakefile = Self {
            version: listing.snakemake,
            notes: listing.notes,
            ..Self::default()
        };
        for rule in listing.rules {
            if let Some(benchmark) = &rule.benchmark {
                let pattern = PathPattern::of_snakefile(benchmark);
                let pattern = pattern.map_err(|source| SnakefileError::Pattern {
                    rule: rule.name.clone(),
                    source,
                })?;
                snakefile.patterns.push((rule.name.clone(), pattern));
            }
            snakefile.rules.insert(rule.name.clone(), rule.request());
        }
        Ok(snakefile)
    }

    /// Whether its Snakemake evaluates expressions in a profile, as from version 8 on. Version 7 takes
    /// only numbers and text.
    ///
    /// Source: `parse_set_resources` in `snakemake/__init__.py` of Snakemake 7.
    pub fn evaluates_profiles(&self) -> bool {
        !self.version.starts_with("7.")
    }

    /// Notes about the profiles of the run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether it has a rule of this name.
    pub fn has_rule(&self, name: &str) -> bool {
        self.rules.contains_key(name)
    }

    /// Adds the patterns of its benchmark files.
    pub(super) fn add_to(&self, naming: &mut FileNaming) {
        for (rule, pattern) in &self.patterns {
            naming.add_rule(rule, pattern.clone());
        }
    }

    pub(super) fn request(&self, rule: &str) -> Option<RuleRequest> {
        self.rules.get(rule).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_with_what_all_their_jobs_ask_for() {
        let listing = r#"{"snakemake": "9.27.1", "rules": [
            {"name": "bwa", "benchmark": "bench/{sample,(?!x)[a-z]+}.txt", "threads": 4,
             "mem_mb": 2000, "runtime_minutes": 30},
            {"name": "all", "benchmark": null, "threads": null, "mem_mb": null,
             "runtime_minutes": null}],
            "notes": ["the present requests include the profile p/config.yaml"]}"#;
        let snakefile = Snakefile::read(listing.as_bytes()).expect("a listing");
        assert_eq!(
            snakefile.notes(),
            ["the present requests include the profile p/config.yaml"]
        );
        assert!(snakefile.has_rule("bwa") && snakefile.has_rule("all"));
        assert!(snakefile.evaluates_profiles());
        let earlier = Snakefile::read(listing.replace("9.27.1", "7.32.4").as_bytes());
        assert!(!earlier.expect("a listing").evaluates_profiles());
        assert!(!snakefile.has_rule("bwa2"));
        let expect = RuleRequest {
            requested: Requested {
                cores: Some(MilliCores::cores(4)),
                memory: Some(Bytes::mib(1_908)),
            },
            has_memory_per_core: false,
            time_limit: Some(Duration::from_secs(1_800)),
        };
        assert_eq!(snakefile.request("bwa"), Some(expect));
        assert_eq!(snakefile.request("all"), Some(RuleRequest::default()));
        assert_eq!(snakefile.request("none"), None);
        let mut naming = FileNaming::default();
        snakefile.add_to(&mut naming);
        // A constraint that only Python can read is not checked.
        let named = naming.name("bench/A.txt").expect("it matches");
        assert_eq!(named.rule, "bwa");
    }

    #[test]
    fn what_is_no_list_of_rules_says_so() {
        let check = |text: &str, expect: &str| {
            let error = Snakefile::read(text.as_bytes()).expect_err(text);
            assert_eq!(error.to_string(), expect, "{text}");
        };
        check("", "failed to read the list of rules");
        check("{}", "failed to read the list of rules");
        check(
            r#"{"snakemake": "8.0.0", "rules": [{"name": "a", "benchmark": "x{y", "threads": 1, "mem_mb": 1,
                "runtime_minutes": 1}]}"#,
            "rule a: the benchmark file 'x{y' has an unbalanced bracket",
        );
    }
}
