//! One check, and the output of checks.

use ebb_report::terminal_style::Colour;
use ebb_telemetry::machine_check::{CheckResult, MachineCheck};
use ebb_telemetry::safe_text::one_line;
use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The requirement is met.
    Ok,
    /// It works without it, with less.
    Limited,
    /// The requirement is not met.
    Missing,
    /// It was not checked; `detail` contains the reason.
    NotChecked,
}

/// One requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// The requirement.
    pub(super) name: String,
    /// The result.
    pub(super) state: State,
    /// The observation.
    pub(super) detail: String,
    /// The command or lines that fix it; `None` if nothing is to fix.
    pub(super) remedy: Option<String>,
}

impl Check {
    pub(super) fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::Ok, detail)
    }

    pub(super) fn limited(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::Limited, detail)
    }

    pub(super) fn missing(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::Missing, detail)
    }

    pub(super) fn not_checked(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::NotChecked, detail)
    }

    pub(super) fn with_remedy(self, line: impl Into<String>) -> Self {
        Self {
            remedy: Some(line.into()),
            ..self
        }
    }

    fn new(name: impl Into<String>, state: State, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            detail: detail.into(),
            remedy: None,
        }
    }
}

impl From<MachineCheck> for Check {
    fn from(check: MachineCheck) -> Self {
        let (state, detail, remedy) = match check.result {
            CheckResult::Met(detail) => (State::Ok, detail, ""),
            CheckResult::Limited { problem, remedy } => (State::Limited, problem, remedy),
            CheckResult::Missing { problem, remedy } => (State::Missing, problem, remedy),
            CheckResult::NotChecked(reason) => (State::NotChecked, reason.to_owned(), ""),
        };
        Self {
            remedy: Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty()),
            ..Self::new(check.name, state, detail)
        }
    }
}

/// An error in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// The first line.
    pub(super) cause: String,
    /// The other lines, which contain the remedy; `None` without other lines.
    pub(super) remedy: Option<String>,
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let text = format!("{error:#}");
        let mut lines = text.lines().map(|line| one_line(line.trim()));
        let cause = lines.next().unwrap_or_default();
        let remedy: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        Self {
            cause,
            remedy: (!remedy.is_empty()).then(|| remedy.join("\n")),
        }
    }
}

/// Related checks.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    /// The title.
    pub(super) title: &'static str,
    /// The checks.
    pub(super) checks: Vec<Check>,
}

/// All checks as lines. The lines are not wrapped, so that a command can be copied whole.
pub(super) fn table(sections: &[Section], colour: Colour) -> String {
    let checks = || sections.iter().flat_map(|section| &section.checks);
    let width = checks().map(|check| check.name.chars().count()).max();
    let width = width.unwrap_or(0);
    let painted = |code: &str, text: &str| match colour {
        Colour::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
        Colour::Plain => text.to_owned(),
    };
    let mut out = String::new();
    for section in sections {
        out.push_str(&format!("{}\n", painted("1", section.title)));
        for check in &section.checks {
            let (code, word) = match check.state {
                State::Ok => ("32", "ok         "),
                State::Limited => ("33", "limited    "),
                State::Missing => ("31", "missing    "),
                State::NotChecked => ("2", "not checked"),
            };
            let line = format!(
                "  {}  {:width$}  {}",
                painted(code, word),
                check.name,
                check.detail
            );
            out.push_str(line.trim_end());
            out.push('\n');
            if let Some(remedy) = &check.remedy {
                for (n, line) in remedy.lines().enumerate() {
                    let sign = if n == 0 { "->" } else { "  " };
                    out.push_str(&format!("{:15}{sign} {line}\n", ""));
                }
            }
        }
        out.push('\n');
    }
    let count = |state| checks().filter(|check| check.state == state).count();
    out.push_str(&format!(
        "{} ok, {} limited, {} missing, {} not checked\n",
        count(State::Ok),
        count(State::Limited),
        count(State::Missing),
        count(State::NotChecked)
    ));
    // Later checks can fail because of the first one.
    if let Some(first) = checks().find(|check| check.state == State::Missing) {
        out.push_str(&format!("fix first: {}: {}\n", first.name, first.detail));
    }
    out
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn the_first_line_of_an_error_is_the_cause_and_the_others_are_the_remedy() {
        let error = anyhow!("no such bucket\n  check the name\n  then try again");
        let problem = Problem::from(error.context("failed to open x"));
        assert_eq!(problem.cause, "failed to open x: no such bucket");
        let remedy = problem.remedy.expect("two lines");
        assert_eq!(remedy, "check the name\nthen try again");
        assert_eq!(Problem::from(anyhow!("no route")).remedy, None);
        let section = Section {
            title: "Deployment",
            checks: vec![Check::missing("access", problem.cause).with_remedy(remedy)],
        };
        let shown = table(&[section], Colour::Plain);
        let expect = "\n               -> check the name\n                  then try again\n";
        assert!(shown.contains(expect), "{shown}");
    }
}
