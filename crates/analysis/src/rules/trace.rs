//! The checks of a rule, for `ebb scan --explain`.

use ebb_model::cost::Cost;
use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use serde::Serialize;

use crate::facts::Facts;

/// Asks whether another rule speaks of a machine, or one of such a kind of a step on it: the
/// same is not told twice.
pub(crate) fn is_untold(
    found: &[Finding],
    instance: &Instance,
    of_step: FindingKind,
    q: &mut Questions,
) -> bool {
    let node = instance.id.as_str();
    let other = found.iter().find(|finding| {
        let resource = &finding.resource;
        let is_on_it = finding.kind == of_step && resource.node.as_deref() == Some(node);
        finding.kind != q.rule && (resource.id == node || is_on_it)
    });
    q.holds(
        "does another rule speak of it?",
        (
            other.map_or_else(|| "no".to_owned(), |other| other.kind.to_string()),
            "no",
        ),
        other.is_none(),
    )
}

/// How a rule came to its verdict about a machine or job: one question after the
/// other, up to the one that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The rule.
    pub rule: FindingKind,
    /// What it asks.
    pub question: &'static str,
    /// What it sees.
    pub value: String,
    /// What it compares that with; empty where it compares with nothing.
    pub bound: String,
    /// What follows.
    pub speaks: Speaks,
}

/// What an answer speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// It may be waste; the next question decides.
    ForWaste,
    /// It is none, or not this rule's.
    Against,
    /// It cannot be told.
    Unknown,
}

/// Asks a rule's questions in turn and stops at the first that decides.
pub(crate) struct Questions {
    rule: FindingKind,
    pub(crate) asked: Vec<Check>,
    notes: Notes,
}

/// Whether the questions are written down.
#[derive(PartialEq, Eq)]
enum Notes {
    Kept,
    /// Judging a fleet needs the answers only.
    None,
}

impl Questions {
    pub(crate) fn of(rule: FindingKind) -> Self {
        Self {
            rule,
            asked: Vec::new(),
            notes: Notes::Kept,
        }
    }

    pub(crate) fn unwritten(rule: FindingKind) -> Self {
        Self {
            notes: Notes::None,
            ..Self::of(rule)
        }
    }

    /// What `judge` asks, up to the question that decides.
    pub(crate) fn written<T>(rule: FindingKind, judge: impl FnOnce(&mut Self) -> T) -> Vec<Check> {
        let mut questions = Self::of(rule);
        judge(&mut questions);
        questions.asked
    }

    /// An empty list of the same rule.
    pub(crate) fn anew(&self) -> Self {
        match self.notes {
            Notes::Kept => Self::of(self.rule),
            Notes::None => Self::unwritten(self.rule),
        }
    }

    /// Takes in what another list asked, whatever it came to.
    pub(crate) fn also(&mut self, other: Self) {
        self.asked.extend(other.asked);
    }

    /// Asks, and tells whether the answer speaks for waste, so that the rule itself
    /// and its explanation are one.
    pub(crate) fn holds(
        &mut self,
        question: &'static str,
        answer: (impl ToString, impl ToString),
        holds: impl Into<Option<bool>>,
    ) -> bool {
        let speaks = Speaks::for_waste_if(holds);
        if self.notes == Notes::Kept {
            self.ask(question, answer, speaks);
        }
        speaks == Speaks::ForWaste
    }

    /// Asks whether a change is worth what it saves.
    pub(crate) fn saves_enough(&mut self, facts: &Facts<'_>, cost: &Cost) -> bool {
        let least = facts.policy.overprovisioned.min_saving();
        self.holds(
            "what would be saved a month?",
            (cost.saving_a_month, format_args!("at least {least}")),
            cost.saving_a_month >= least,
        )
    }

    fn ask(
        &mut self,
        question: &'static str,
        (value, bound): (impl ToString, impl ToString),
        speaks: Speaks,
    ) {
        if self
            .asked
            .iter()
            .all(|check| check.speaks == Speaks::ForWaste)
        {
            self.asked.push(Check {
                rule: self.rule,
                question,
                value: value.to_string(),
                bound: bound.to_string(),
                speaks,
            });
        }
    }
}

impl Speaks {
    fn for_waste_if(holds: impl Into<Option<bool>>) -> Self {
        match holds.into() {
            Some(true) => Self::ForWaste,
            Some(false) => Self::Against,
            None => Self::Unknown,
        }
    }
}
