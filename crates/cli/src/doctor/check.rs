//! One check and how checks are shown.

use ebb_report::terminal_style::Colour;
use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is there.
    Ok,
    /// It is not.
    Missing,
    /// Nobody asked, and `detail` says why.
    NotChecked,
}

/// One thing that is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What is needed.
    pub(super) name: String,
    /// Whether it is there.
    pub(super) state: State,
    /// What was seen.
    pub(super) detail: String,
    /// The line that mends it; `None` where nothing has to be.
    pub(super) mend: Option<String>,
}

impl Check {
    pub(super) fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::Ok, detail)
    }

    pub(super) fn missing(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::Missing, detail)
    }

    pub(super) fn not_checked(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(name, State::NotChecked, detail)
    }

    pub(super) fn mended_by(self, line: impl Into<String>) -> Self {
        Self {
            mend: Some(line.into()),
            ..self
        }
    }

    fn new(name: impl Into<String>, state: State, detail: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state,
            detail: detail.into(),
            mend: None,
        }
    }
}

/// Checks that belong together.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    /// What they are about.
    pub(super) title: &'static str,
    /// The checks.
    pub(super) checks: Vec<Check>,
}

/// All checks in lines. They are not wrapped, so that a line that mends something
/// can be copied whole.
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
            if let Some(mend) = &check.mend {
                out.push_str(&format!("{:15}-> {mend}\n", ""));
            }
        }
        out.push('\n');
    }
    let count = |state| checks().filter(|check| check.state == state).count();
    out.push_str(&format!(
        "{} ok, {} missing, {} not checked\n",
        count(State::Ok),
        count(State::Missing),
        count(State::NotChecked)
    ));
    out
}
