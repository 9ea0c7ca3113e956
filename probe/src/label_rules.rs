//! The rules that distinguish background from workload: a TOML file, read once and matched in
//! order. Other modules apply the results to processes.

pub mod keeper;
pub mod source;

use serde::Deserialize;
use thiserror::Error;

const BUILT_IN: &str = include_str!("label_rules/default.toml");

/// Maximum number of rules. Each program start is checked against all rules, so more rules would
/// cost too much CPU time.
pub const MAX_RULES: usize = 2_000;

/// The class that a rule assigns to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The process is background.
    Background,
    /// The process is the user's work; such a rule also excludes the later rules.
    Workload,
}

/// The class of the children of a background process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Children {
    /// The rules classify them, starting with the first.
    #[default]
    #[serde(alias = "judged")]
    Classified,
    /// They are background too.
    Inherit,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A name for people.
    pub name: String,
    /// Names of programs, or of scripts of interpreters; `*` matches any characters.
    #[serde(default)]
    pub program: Vec<String>,
    /// Paths of cgroups; `*` matches any characters.
    #[serde(default)]
    pub cgroup: Vec<String>,
    /// The class of a matching process.
    pub class: Class,
    /// The class of its children.
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
    /// Names of programs, scripts, jars, classes, folders and files that stay on the node.
    #[serde(default)]
    mask: Vec<String>,
}

/// Why a rules file was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RulesError {
    /// It is not TOML, or a key or value is unknown.
    #[error("line {line}: {reason}")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// The cause.
        reason: String,
    },
    /// There are more rules than [`MAX_RULES`].
    #[error("{count} rules, but at most {MAX_RULES} are allowed; use `*` to match several names")]
    TooMany {
        /// Number of rules.
        count: usize,
    },
    /// A rule has no program and no cgroup, so it matches nothing.
    #[error("rule '{name}' has neither program nor cgroup")]
    Empty {
        /// The name of the rule.
        name: String,
    },
}

/// The process to which rules are applied.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The name of its program.
    pub program: &'a str,
    /// The name of its script; `None` if it is not an interpreter.
    pub script: Option<&'a str>,
    /// The path of its cgroup; `None` if unknown.
    pub cgroup: Option<&'a str>,
}

/// Replaces a masked name.
pub const MASKED: &str = "***";

/// Rules in the order in which they are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
    mask: Vec<String>,
}

impl Rules {
    /// The built-in rules.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("a test reads the built-in rules")
    }

    /// The built-in rules with every name masked, for a node whose own rules, and so their mask,
    /// are unknown.
    pub fn masking_all() -> Self {
        let mask = vec!["*".to_owned()];
        Self {
            mask,
            ..Self::built_in()
        }
    }

    /// Parses a rules file.
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

    /// These rules, applied before `others`.
    pub fn before(mut self, others: Self) -> Self {
        self.rules.extend(others.rules);
        self.mask.extend(others.mask);
        self
    }

    /// Whether the name of a script, jar, class, folder or file may leave the node.
    pub fn show(&self, name: &str) -> bool {
        !any(&self.mask, name)
    }

    /// Whether the name of a program may leave the node. The kernel stores 15 bytes of it, so a
    /// name of that length can be the beginning of a masked name.
    pub fn show_program(&self, program: &str) -> bool {
        let may_be_cut = program.len() >= KERNEL_NAME_BYTES;
        let is_masked = |pattern: &String| match may_be_cut {
            true => matches_a_beginning(pattern, program),
            false => matches(pattern, program),
        };
        !self.mask.iter().any(is_masked)
    }

    /// The name, or a replacement if it must not leave the node.
    pub fn shown<'a>(&self, name: &'a str) -> &'a str {
        match self.show(name) {
            true => name,
            false => MASKED,
        }
    }

    /// The path with each masked folder or file name replaced.
    pub fn shown_path(&self, path: &str) -> String {
        let part = |name| match name {
            "" => name,
            name => self.shown(name),
        };
        let parts: Vec<&str> = path.split('/').map(part).collect();
        parts.join("/")
    }

    /// The first rule that matches the cgroup, and also the program if the rule has programs.
    pub fn by_cgroup(&self, subject: &Subject<'_>) -> Option<&Rule> {
        let cgroup = subject.cgroup?;
        self.rules.iter().find(|rule| {
            any(&rule.cgroup, cgroup) && (rule.program.is_empty() || rule.names(subject))
        })
    }

    /// The first rule without cgroups that matches the program.
    pub fn by_program(&self, subject: &Subject<'_>) -> Option<&Rule> {
        self.rules
            .iter()
            .find(|rule| rule.cgroup.is_empty() && rule.names(subject))
    }
}

/// The line of an offset in a text, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|b| *b == b'\n').count()
}

fn any(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, text))
}

/// Bytes of a program name that the kernel stores.
///
/// Source: `TASK_COMM_LEN` in `include/linux/sched.h`, which includes the NUL at the end.
const KERNEL_NAME_BYTES: usize = 15;

/// Whether the pattern matches any text with this beginning.
fn matches_a_beginning(pattern: &str, beginning: &str) -> bool {
    let pattern = pattern.as_bytes();
    // The positions in the pattern that the bytes so far can have reached.
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    let pass_stars = |places: &mut [bool]| {
        for at in 0..pattern.len() {
            places[at + 1] |= places[at] && pattern[at] == b'*';
        }
    };
    pass_stars(&mut places);
    for byte in beginning.bytes() {
        let mut next = vec![false; places.len()];
        for at in (0..pattern.len()).filter(|at| places[*at]) {
            match pattern[at] {
                b'*' => next[at] = true,
                same if same == byte => next[at + 1] = true,
                _ => {}
            }
        }
        pass_stars(&mut next);
        places = next;
    }
    places.contains(&true)
}

/// Whether a pattern matches; `*` matches any number of characters, including none.
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
    fn a_cut_name_is_masked_if_it_can_begin_a_masked_name() {
        let check = |pattern: &str, program: &str, expect: bool| {
            let text = format!("mask = [{pattern:?}]");
            let rules = Rules::parse(&text).expect("valid");
            assert_eq!(
                rules.show_program(program),
                expect,
                "{pattern} on {program}"
            );
        };
        check("secret.py", "secret.py", false);
        check("secret.py", "secret", true);
        check("secret*", "secret.py", false);
        // 15 bytes: the kernel may have cut the name.
        check("secret_study_of_x.py", "secret_study_of", false);
        check("secret_study_of", "secret_study_of", false);
        check("*_x.py", "secret_study_of", false);
        check("*study*y.py", "secret_study_of", false);
        check("secret_study.py", "secret_study_of", true);
        check("secret", "secret_study_of", true);
        check("*", "", false);
        check("", "bwa", true);
    }

    #[test]
    fn each_part_of_a_path_is_masked_by_its_own_name() {
        let check = |mask: &str, path: &str, expect: &str| {
            let rules = Rules::parse(&format!("mask = [{mask:?}]")).expect("valid");
            assert_eq!(rules.shown_path(path), expect, "{mask} on {path}");
        };
        check("patient*", "/data/patient7/reads", "/data/***/reads");
        check("patient*", "/data/reads", "/data/reads");
        check("*", "/data/reads", "/***/***");
        check("*", "/", "/");
        assert_eq!(Rules::masking_all().shown_path("/a"), "/***");
        assert!(!Rules::masking_all().show_program("bwa"));
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
    fn a_pod_is_known_by_a_cgroup_that_only_root_can_make() {
        let rules = Rules::built_in();
        let check = |cgroup: &str, expect: bool| {
            let subject = Subject {
                program: "pause",
                script: None,
                cgroup: Some(cgroup),
            };
            assert_eq!(rules.by_cgroup(&subject).is_some(), expect, "{cgroup}");
        };
        check("/kubepods/burstable/pod1/2", true);
        check(
            "/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope",
            true,
        );
        check(
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice",
            true,
        );
        check("/kubelet/kubepods/pod1/2", true);
        // The runtime does not use systemd, and a node of kind or k3d in a container.
        check(
            "/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:2",
            true,
        );
        check(
            "/system.slice/docker-1.scope/kubelet.slice/kubelet-kubepods.slice/x",
            true,
        );
        check("/docker/1/kubepods/pod1/2", true);
        check(
            "/user.slice/user-1000.slice/user@1000.service/app.slice/kubepods-x.scope",
            false,
        );
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line_and_reason() {
        let check = |text: &str, expect: &str| {
            let result = Rules::parse(text).map_err(|error| error.to_string());
            assert!(
                result.as_ref().is_err_and(|e| e.contains(expect)),
                "{text}: {result:?}"
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
            "rule 'x' has neither",
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
