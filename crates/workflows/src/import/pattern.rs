//! Patterns of file paths with wildcards, in Snakemake's syntax:
//! `benchmarks/{sample}.bwa.benchmark.txt`, or `{sample,[A-Z]+}` with an expression.

use std::collections::BTreeMap;

use regex::Regex;
use thiserror::Error;

/// The wildcard for the name of the rule, in a pattern from the user.
const RULE: &str = "rule";

/// The expression of a wildcard without a constraint.
const ANYTHING: &str = ".+";

/// The expression of a rule's name, which is an identifier of Python.
const IDENTIFIER: &str = r"[\p{L}_][\p{L}\p{N}_]*";

/// Whether the constraints of wildcards are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Constraints {
    Checked,
    LeftOut,
}

/// A pattern of paths.
#[derive(Debug, Clone)]
pub struct PathPattern {
    expression: Regex,
    wildcards: Vec<String>,
    /// The number of characters outside wildcards; the pattern with the most wins.
    literal: usize,
}

/// Why a pattern cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// A bracket is not closed or not opened.
    #[error("'{0}' has an unbalanced bracket")]
    Bracket(String),
    /// The expression of a wildcard is invalid.
    #[error("'{0}' has an invalid regular expression in a wildcard")]
    Expression(String),
}

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If brackets do not match, or the expression of a wildcard is invalid.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        Self::with(pattern, Constraints::Checked)
    }

    /// Parses the pattern of a rule. A constraint that this regular expression engine does not
    /// support, such as a look-ahead, is ignored.
    ///
    /// # Errors
    /// If brackets do not match.
    pub(super) fn of_snakefile(pattern: &str) -> Result<Self, PatternError> {
        Self::new(pattern).or_else(|_| Self::with(pattern, Constraints::LeftOut))
    }

    fn with(pattern: &str, constraints: Constraints) -> Result<Self, PatternError> {
        let mut expression = String::from("(?:^|/)");
        let mut wildcards: Vec<String> = Vec::new();
        let mut literal = 0;
        let mut rest = pattern.trim_start_matches("./");
        while let Some(open) = rest.find('{') {
            let (before, from) = rest.split_at(open);
            let close = closing(from).ok_or_else(|| PatternError::Bracket(pattern.to_owned()))?;
            let inner = &from[1..close];
            let (name, own) = match inner.split_once(',') {
                Some((name, own)) => (name.trim(), own.trim()),
                None if inner.trim() == RULE => (RULE, IDENTIFIER),
                None => (inner.trim(), ANYTHING),
            };
            let own = match constraints {
                Constraints::Checked => own,
                Constraints::LeftOut => ANYTHING,
            };
            literal += before.chars().count();
            expression.push_str(&regex::escape(before));
            // A repeated name must match the same text. This regular expression engine has no
            // backreferences, so the values are compared later.
            let number = wildcards.len();
            expression.push_str(&format!("(?P<w{number}>{own})"));
            wildcards.push(name.to_owned());
            rest = &from[close + 1..];
        }
        literal += rest.chars().count();
        expression.push_str(&regex::escape(rest));
        expression.push('$');
        let expression =
            Regex::new(&expression).map_err(|_| PatternError::Expression(pattern.to_owned()))?;
        Ok(Self {
            expression,
            wildcards,
            literal,
        })
    }

    /// Whether it contains the wildcard for the rule.
    pub fn names_rule(&self) -> bool {
        self.wildcards.iter().any(|name| name == RULE)
    }

    /// The values of the wildcards in a path whose end matches.
    fn matches(&self, path: &str) -> Option<PathMatch> {
        let found = self.expression.captures(path)?;
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for (number, name) in self.wildcards.iter().enumerate() {
            let value = found.name(&format!("w{number}"));
            let value = value.map_or("", |value| value.as_str()).to_owned();
            match values.get(name) {
                Some(known) if *known != value => return None,
                _ => values.insert(name.clone(), value),
            };
        }
        let start = found.get(0).map_or(0, |whole| whole.start());
        Some(PathMatch {
            folder: path[..start].to_owned(),
            values,
        })
    }
}

/// The bracket that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (index, c) in text.char_indices() {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

struct PathMatch {
    folder: String,
    values: BTreeMap<String, String>,
}

/// The information in the path of a benchmark file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The rule.
    pub rule: String,
    /// The folder before the pattern: the folder of the run.
    pub folder: String,
    /// The wildcards other than the rule, as `name=value`.
    pub sample: Option<String>,
}

/// Why the path of a file does not give its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unnamed {
    /// No pattern from the user matches, or the user gave none.
    NoPattern,
    /// No pattern of a rule matches.
    NoRule,
    /// The patterns of two rules match equally well.
    Ambiguous {
        /// The first rule.
        first: String,
        /// The second rule.
        second: String,
    },
}

/// Patterns of benchmark files, by rule or with the wildcard `{rule}`.
#[derive(Debug, Clone, Default)]
pub struct FileNaming {
    of_rules: Vec<(String, PathPattern)>,
    general: Option<PathPattern>,
    /// The base of relative paths, for patterns that begin at the root.
    working_directory: Option<String>,
}

impl FileNaming {
    /// Adds the pattern in a rule's `benchmark:`.
    pub fn add_rule(&mut self, rule: &str, pattern: PathPattern) {
        self.of_rules.push((rule.to_owned(), pattern));
    }

    /// Sets the base of relative paths.
    pub fn set_working_directory(&mut self, folder: &str) {
        self.working_directory = Some(folder.trim_end_matches('/').to_owned());
    }

    /// Sets the pattern with `{rule}`.
    pub fn set_general(&mut self, pattern: PathPattern) {
        self.general = Some(pattern);
    }

    /// The rule of a file by its path. If several patterns match, the one with the most text
    /// outside wildcards counts.
    ///
    /// # Errors
    /// If no pattern matches, or those of two rules match equally well.
    pub fn name(&self, path: &str) -> Result<NamedFile, Unnamed> {
        let named = self.name_as_given(path);
        match (&named, &self.working_directory) {
            (Err(Unnamed::NoRule | Unnamed::NoPattern), Some(folder)) if !path.starts_with('/') => {
                self.name_as_given(&format!("{folder}/{path}"))
            }
            _ => named,
        }
    }

    fn name_as_given(&self, path: &str) -> Result<NamedFile, Unnamed> {
        let matching = self.of_rules.iter().filter_map(|(rule, pattern)| {
            Some((pattern.literal, rule.as_str(), pattern.matches(path)?))
        });
        let mut matching: Vec<_> = matching.collect();
        matching.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        if let [first, second, ..] = &matching[..]
            && first.0 == second.0
            && first.1 != second.1
        {
            return Err(Unnamed::Ambiguous {
                first: first.1.to_owned(),
                second: second.1.to_owned(),
            });
        }
        if let Some((_, rule, found)) = matching.into_iter().next() {
            return Ok(named(rule.to_owned(), found));
        }
        let general = self.general.as_ref();
        let found = general.and_then(|pattern| pattern.matches(path));
        let mut found = found.ok_or(match self.of_rules.is_empty() {
            true => Unnamed::NoPattern,
            false => Unnamed::NoRule,
        })?;
        let rule = found.values.remove(RULE).ok_or(Unnamed::NoPattern)?;
        Ok(named(rule, found))
    }
}

fn named(rule: String, found: PathMatch) -> NamedFile {
    let values = found.values.iter();
    let pairs: Vec<String> = values
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    NamedFile {
        rule,
        folder: found.folder,
        sample: (!pairs.is_empty()).then(|| pairs.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naming(rules: &[(&str, &str)]) -> FileNaming {
        let mut naming = FileNaming::default();
        for (rule, pattern) in rules {
            naming.add_rule(rule, PathPattern::new(pattern).expect("a pattern"));
        }
        naming
    }

    #[test]
    fn a_file_is_named_by_the_pattern_of_its_rule_wherever_the_wildcards_are() {
        let naming = naming(&[
            ("bwa", "benchmarks/{sample}.bwa.benchmark.txt"),
            ("sort", "benchmarks/{sample}.sort.benchmark.txt"),
            ("call", "bench/{chrom,chr[0-9]+}/{sample}.txt"),
            ("a", "same/{x}.txt"),
            ("b", "same/{y}.txt"),
            ("groups", "groups/{x,(a|b)+}/{y,(c|d)}.txt"),
            ("absolute", "/data/{x}.tsv"),
        ]);
        let check = |path: &str, expect: Option<(&str, &str, &str)>| {
            let named = naming.name(path).ok();
            let named = named.as_ref().map(|file| {
                let sample = file.sample.as_deref().unwrap_or("");
                (file.rule.as_str(), file.folder.as_str(), sample)
            });
            assert_eq!(named, expect, "{path}");
        };
        check(
            "benchmarks/A.bwa.benchmark.txt",
            Some(("bwa", "", "sample=A")),
        );
        check(
            "/data/run 1/benchmarks/A.sort.benchmark.txt",
            Some(("sort", "/data/run 1", "sample=A")),
        );
        check(
            "bench/chr7/S.x.txt",
            Some(("call", "", "chrom=chr7,sample=S.x")),
        );
        check("bench/7/S.txt", None);
        check("same/q.txt", None);
        check("A.bwa.benchmark.txt", None);
        check("groups/aab/d.txt", Some(("groups", "", "x=aab,y=d")));
        check("/data/q.tsv", Some(("absolute", "", "x=q")));
        assert_eq!(naming.name("x.txt"), Err(Unnamed::NoRule));
        let mut in_folder = naming.clone();
        in_folder.set_working_directory("/data/");
        assert_eq!(
            in_folder.name("q.tsv").map(|named| named.rule).as_deref(),
            Ok("absolute")
        );
        let ambiguous = Unnamed::Ambiguous {
            first: "a".to_owned(),
            second: "b".to_owned(),
        };
        assert_eq!(naming.name("same/q.txt"), Err(ambiguous));
        let nothing = FileNaming::default();
        assert_eq!(nothing.name("x.txt"), Err(Unnamed::NoPattern));
    }

    #[test]
    fn a_persons_pattern_names_the_rule_itself() {
        let mut naming = FileNaming::default();
        let pattern = PathPattern::new("bench/{sample}/{rule}.tsv").expect("a pattern");
        assert!(pattern.names_rule());
        naming.set_general(pattern);
        let named = naming.name("x/bench/A/align.tsv").expect("it matches");
        assert_eq!(
            (named.rule.as_str(), named.sample.as_deref()),
            ("align", Some("sample=A"))
        );
        naming.set_general(PathPattern::new("{rule}.{sample}.tsv").expect("a pattern"));
        let named = naming.name("x/bench/align.A.tsv").expect("it matches");
        assert_eq!(
            (named.rule.as_str(), named.folder.as_str()),
            ("align", "x/bench")
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_read_says_why() {
        assert!(matches!(
            PathPattern::new("a{b"),
            Err(PatternError::Bracket(_))
        ));
        assert!(matches!(
            PathPattern::new("{a,[}"),
            Err(PatternError::Expression(_))
        ));
    }
}
