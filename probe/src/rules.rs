//! The rules that tell background from workload: a TOML file, read once and
//! matched in order. What a match means for a process is decided elsewhere.

pub mod source;

use serde::Deserialize;
use thiserror::Error;

const BUILT_IN: &str = include_str!("rules/default.toml");

/// Each start of a program is held against all rules: with more the probe would cost
/// more than it finds.
pub const MAX_RULES: usize = 2_000;

/// What a rule calls a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It keeps the node running.
    Background,
    /// It is the user's work; such a rule shields from the ones after it.
    Workload,
}

/// What the children of a background process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Children {
    /// They are judged by the rules, from the start.
    #[default]
    Judged,
    /// They are background as well.
    Inherit,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What a person calls it.
    pub name: String,
    /// Names of programs, or of what an interpreter runs; `*` stands for any characters.
    #[serde(default)]
    pub program: Vec<String>,
    /// Paths of cgroups; `*` stands for any characters.
    #[serde(default)]
    pub cgroup: Vec<String>,
    /// What a match is called.
    pub class: Class,
    /// What its children are.
    #[serde(default)]
    pub children: Children,
}

impl Rule {
    fn names(&self, subject: &Subject<'_>) -> bool {
        let script = subject.script;
        any(&self.program, subject.program)
            || script.is_some_and(|script| any(&self.program, script))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<Rule>,
    /// Names of scripts, jars and classes that stay on the node.
    #[serde(default)]
    mask: Vec<String>,
}

/// Why a rules file was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RulesError {
    /// It is not TOML, or a key or value is not known.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// More than can be tried at each start of a program.
    #[error(
        "{count} rules are too many, at most {MAX_RULES} are tried; let `*` stand for several names"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A rule that can match nothing.
    #[error("rule '{name}' names neither a program nor a cgroup")]
    Empty {
        /// The rule.
        name: String,
    },
}

/// What a rule is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The name of its program.
    pub program: &'a str,
    /// The name of what that runs, if it is an interpreter.
    pub script: Option<&'a str>,
    /// Its cgroup's path; `None` when unknown.
    pub cgroup: Option<&'a str>,
}

/// Rules in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    mask: Vec<String>,
}

impl Rules {
    /// The rules that the program carries.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("a test reads the built-in rules")
    }

    /// Reads a rules file.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let file: File = toml::from_str(text).map_err(|error| RulesError::Syntax {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        })?;
        if file.rule.len() > MAX_RULES {
            let count = file.rule.len();
            return Err(RulesError::TooMany { count });
        }
        match file
            .rule
            .iter()
            .find(|r| r.program.is_empty() && r.cgroup.is_empty())
        {
            Some(rule) => Err(RulesError::Empty {
                name: rule.name.clone(),
            }),
            None => Ok(Self {
                rules: file.rule,
                mask: file.mask,
            }),
        }
    }

    /// These rules, tried before `others`.
    pub fn before(mut self, others: Self) -> Self {
        self.rules.extend(others.rules);
        self.mask.extend(others.mask);
        self
    }

    /// Whether the name of a script, jar or class may leave the node.
    pub fn show(&self, script: &str) -> bool {
        !any(&self.mask, script)
    }

    /// The first rule that names the subject's cgroup, and its program if the
    /// rule names programs too.
    pub fn by_cgroup(&self, subject: &Subject<'_>) -> Option<&Rule> {
        let cgroup = subject.cgroup?;
        self.rules.iter().find(|rule| {
            any(&rule.cgroup, cgroup) && (rule.program.is_empty() || rule.names(subject))
        })
    }

    /// The first rule that names only programs and this one among them.
    pub fn by_program(&self, subject: &Subject<'_>) -> Option<&Rule> {
        self.rules
            .iter()
            .find(|rule| rule.cgroup.is_empty() && rule.names(subject))
    }
}

/// The line, counted from 1, of a place in a text.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// `*` stands for any characters, none included; all else stands for itself.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.split_once(part) {
            Some((_, after)) => left = after,
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        let check = |pattern: &str, text: &str, expect: bool| {
            assert_eq!(matches(pattern, text), expect, "{pattern} on {text}");
        };
        check("cron", "cron", true);
        check("cron", "crond", false);
        check("systemd-*", "systemd-resolve", true);
        check("systemd-*", "systemd", false);
        check("*", "", true);
        check("/a/*/c", "/a/b/c", true);
        check("/a/*/c", "/a/b/d", false);
        check("a*a", "a", false);
        check("*b*d*", "abcde", true);
    }

    #[test]
    fn the_built_in_rules_know_what_keeps_a_node_running() {
        let rules = Rules::built_in();
        let check = |program: &str, expect: Option<&str>| {
            let subject = Subject {
                program,
                script: None,
                cgroup: Some("/"),
            };
            assert_eq!(
                rules.by_program(&subject).map(|r| r.name.as_str()),
                expect,
                "{program}"
            );
        };
        check("ebb-probe", Some("the probe itself"));
        check("sshd", Some("remote access"));
        check("cron", Some("scheduled jobs' daemons"));
        check("containerd-shim", Some("container runtimes"));
        check("systemd-journal", Some("systemd"));
        check(
            "amazon-cloudwatch-a".get(..15).unwrap_or(""),
            Some("monitoring and security agents"),
        );
        check("python3", None);
        check("bwa", None);
        check("", None);
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line_and_reason() {
        let check = |text: &str, expect: &str| {
            let said = Rules::parse(text).map_err(|error| error.to_string());
            assert!(
                said.as_ref().is_err_and(|e| e.contains(expect)),
                "{text}: {said:?}"
            );
        };
        check(
            "[[rule]]\nname = \"x\"\nclass = \"idle\"",
            "line 3: unknown variant `idle`",
        );
        check(
            "[[rule]]\nname = \"x\"\nclass = \"workload\"\nexe = []",
            "line 4: unknown field `exe`",
        );
        check(
            "[[rule]]\nname = \"x\"\nclass = \"workload\"",
            "rule 'x' names neither",
        );
        check("\n\n[[rule", "line 3");
    }

    #[test]
    fn a_file_of_a_hundred_thousand_lines_is_refused_in_words_and_two_thousand_rules_are_not() {
        let file = |rules: usize| {
            let rule = |n| {
                format!("[[rule]]\nname = \"{n}\"\nprogram = [\"p{n}\"]\nclass = \"workload\"\n")
            };
            (0..rules).map(rule).collect::<String>()
        };
        let large = file(25_000);
        assert_eq!(large.lines().count(), 100_000);
        let count = 25_000;
        assert_eq!(Rules::parse(&large), Err(RulesError::TooMany { count }));
        let rules = Rules::parse(&file(MAX_RULES)).expect("not too many");
        let subject = Subject {
            program: "p1999",
            script: None,
            cgroup: None,
        };
        let found = rules.by_program(&subject).map(|rule| rule.name.as_str());
        assert_eq!(found, Some("1999"));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let own = "[[rule]]\nname = \"ours\"\nprogram = [\"cron\"]\nclass = \"workload\"";
        let rules = Rules::parse(own).expect("valid").before(Rules::built_in());
        let subject = Subject {
            program: "cron",
            script: None,
            cgroup: None,
        };
        assert_eq!(
            rules.by_program(&subject).map(|r| r.class),
            Some(Class::Workload)
        );
    }

    #[test]
    fn a_rule_names_a_script_and_a_mask_keeps_one_on_the_node() {
        let text = "mask = [\"secret*\"]\n[[rule]]\nname = \"ours\"\nprogram = [\"agent.py\"]\nclass = \"background\"";
        let rules = Rules::parse(text).expect("valid").before(Rules::built_in());
        let found = |script| {
            let subject = Subject {
                program: "python3",
                script,
                cgroup: None,
            };
            rules.by_program(&subject).map(|rule| rule.name.clone())
        };
        assert_eq!(found(Some("agent.py")).as_deref(), Some("ours"));
        assert_eq!(found(Some("train.py")), None);
        assert_eq!(found(None), None);
        assert!(rules.show("train.py"));
        assert!(!rules.show("secret.py"));
    }
}
