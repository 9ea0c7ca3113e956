//! Rules that derive the run, pipeline, sample and step of a task from a name. There is no default rule,
//! because names differ between users.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Derives values from one name of a task. The first rule with a match applies.
///
/// ```toml
/// [[names]]
/// from = "job" # or "step", "tag:KEY", "label:KEY"
/// form = "{pipeline}_{run}_{sample}" # {*} matches any text
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NameRule {
    /// Source of the name.
    pub from: NameSource,
    /// Form of the name.
    pub form: Form,
}

/// Source of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub enum NameSource {
    /// Name of the Batch job.
    Job,
    /// Name of the task on its node: container, Slurm job or script.
    Step,
    /// Tag of the Batch job.
    Tag(String),
    /// Label from a scheduler, such as a label of a pod.
    Label(String),
}

/// Value that a rule derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drawn {
    /// Run of a pipeline.
    Run,
    /// Pipeline.
    Pipeline,
    /// Sample that the run processes.
    Sample,
    /// Step: the process or rule.
    Step,
}

/// Form of a name: text with `{run}`, `{pipeline}`, `{sample}`, `{step}` or `{*}`. Each field matches as few
/// characters as possible, and at least one. The whole name must match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Form {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Option<Drawn>),
}

impl TryFrom<String> for NameSource {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match (text.as_str(), text.split_once(':')) {
            ("job", _) => Ok(Self::Job),
            ("step", _) => Ok(Self::Step),
            (_, Some(("tag", key))) if !key.is_empty() => Ok(Self::Tag(key.to_owned())),
            (_, Some(("label", key))) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
            _ => Err(format!(
                "'{text}' is not a source of names; use job, step, tag:KEY or label:KEY"
            )),
        }
    }
}

impl From<NameSource> for String {
    fn from(source: NameSource) -> Self {
        match source {
            NameSource::Job => "job".to_owned(),
            NameSource::Step => "step".to_owned(),
            NameSource::Tag(key) => format!("tag:{key}"),
            NameSource::Label(key) => format!("label:{key}"),
        }
    }
}

impl TryFrom<String> for Form {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            if let Some(field) = rest.strip_prefix('{') {
                let (name, more) = field.split_once('}').ok_or_else(|| {
                    format!("'{text}' has an opening brace without a closing one")
                })?;
                if matches!(parts.last(), Some(Part::Field(_))) {
                    return Err(format!("'{text}' has no text between two fields"));
                }
                parts.push(Part::Field(field_of(name)?));
                rest = more;
            } else {
                let end = rest.find('{').unwrap_or(rest.len());
                parts.push(Part::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        let draws = parts
            .iter()
            .any(|part| matches!(part, Part::Field(Some(_))));
        match draws {
            true => Ok(Self { text, parts }),
            false => Err(format!(
                "'{text}' extracts nothing: it needs {{run}}, {{pipeline}}, {{sample}} or {{step}}"
            )),
        }
    }
}

fn field_of(name: &str) -> Result<Option<Drawn>, String> {
    match name {
        "run" => Ok(Some(Drawn::Run)),
        "pipeline" => Ok(Some(Drawn::Pipeline)),
        "sample" => Ok(Some(Drawn::Sample)),
        "step" => Ok(Some(Drawn::Step)),
        "*" => Ok(None),
        _ => Err(format!(
            "unknown field {{{name}}}; use {{run}}, {{pipeline}}, {{sample}}, {{step}} or {{*}}"
        )),
    }
}

impl From<Form> for String {
    fn from(form: Form) -> Self {
        form.text
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Form {
    /// The wanted value of `name`; `None` if the name does not match or the form has no such field.
    pub fn draw<'n>(&self, wanted: Drawn, name: &'n str) -> Option<&'n str> {
        let mut drawn = None;
        let mut open = None;
        let mut rest = name;
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Field(field) => open = Some(*field),
                Part::Text(text) => {
                    let is_last = at + 1 == self.parts.len();
                    let (before, after) = match is_last {
                        true => (rest.strip_suffix(text.as_str())?, ""),
                        false => split(rest, text, open.is_some())?,
                    };
                    match open.take() {
                        None if !before.is_empty() => return None,
                        Some(_) if before.is_empty() => return None,
                        Some(Some(field)) if field == wanted => drawn = Some(before),
                        _ => {}
                    }
                    rest = after;
                }
            }
        }
        match open {
            Some(_) if rest.is_empty() => None,
            None if !rest.is_empty() => None,
            Some(Some(field)) if field == wanted => Some(rest),
            _ => drawn,
        }
    }
}

/// Text before and after `text`. A field in front of it matches at least one character.
fn split<'n>(rest: &'n str, text: &str, after_field: bool) -> Option<(&'n str, &'n str)> {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let skip = if after_field { first } else { 0 };
    let at = skip + rest.get(skip..)?.find(text)?;
    Some((&rest[..at], &rest[at + text.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn a_form_draws_what_stands_at_its_place_and_nothing_where_the_name_does_not_fit() {
        let check = |form: &str, name: &str, expect: [Option<&str>; 3]| {
            let form = Form::try_from(form.to_owned()).expect(form);
            let got = [Drawn::Pipeline, Drawn::Run, Drawn::Sample].map(|d| form.draw(d, name));
            assert_eq!(got, expect, "{form} of {name}");
        };
        let all = [Some("rna"), Some("r7"), Some("S12_L1")];
        check("{pipeline}_{run}_{sample}", "rna_r7_S12_L1", all);
        check("{pipeline}_{run}_{sample}", "rna_r7", [None; 3]);
        check("{*}({sample})", "ALIGN (S1)", [None, None, Some("S1")]);
        check("{*}({sample})", "ALIGN (S1", [None; 3]);
        check("{sample}.bam", "a.bam.bam", [None, None, Some("a.bam")]);
        check("job-{sample}", "job-", [None; 3]);
        check("job-{sample}", "my-job-1", [None; 3]);
        check("{run}-x-{*}", "é-x-1", [None, Some("é"), None]);
        check("{run}-x", "a-x-y", [None; 3]);
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_refused() {
        let check = |from: &str, form: &str, expect: &str| {
            let text = format!("[[names]]\nfrom = \"{from}\"\nform = \"{form}\"\n");
            match Policy::parse(&text) {
                Ok(policy) => {
                    assert_eq!(expect, "", "{text}");
                    let rule = policy.names[0].clone();
                    assert_eq!(String::from(rule.from), from);
                    assert_eq!(String::from(rule.form), form);
                }
                Err(error) => assert!(
                    !expect.is_empty() && error.to_string().contains(expect),
                    "{error}"
                ),
            }
        };
        check("job", "{sample}", "");
        check("label:app", "a{*}b{run}", "");
        check("pod", "{sample}", "not a source of names");
        check("tag:", "{sample}", "not a source of names");
        check("job", "align", "extracts nothing");
        check("job", "{*}", "extracts nothing");
        check("job", "{run}{sample}", "no text between two fields");
        check("job", "{run", "opening brace without a closing one");
        check("job", "{lane}", "unknown field {lane}");
    }
}
