//! The checks of a rule, for `ebb scan --explain`.

use std::borrow::Cow;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::cost::Cost;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;
use serde::{Deserialize, Serialize};

use crate::facts::Facts;

/// One question of a rule about a machine or job, up to the question that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The rule that asks.
    pub rule: FindingKind,
    /// Text of the question.
    pub question: Cow<'static, str>,
    /// Observed value.
    pub value: String,
    /// Limit for the value; empty if there is none.
    pub bound: String,
    /// Result of the comparison.
    pub speaks: Speaks,
}

/// Result that an answer supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// Possibly waste; the next question decides.
    ForWaste,
    /// No waste, or a case for another rule.
    Against,
    /// Not evaluated.
    Unknown,
}

/// Asks the questions of a rule in order and stops at the first that decides.
pub(crate) struct RuleTrace {
    pub(crate) rule: FindingKind,
    pub(crate) checks: Vec<Check>,
    notes: Notes,
}

/// Whether the questions are recorded.
#[derive(PartialEq, Eq)]
enum Notes {
    Kept,
    /// An evaluation of all nodes needs only the answers.
    None,
}

impl RuleTrace {
    pub(crate) fn from_rule(rule: FindingKind) -> Self {
        Self {
            rule,
            checks: Vec::new(),
            notes: Notes::Kept,
        }
    }

    pub(crate) fn unwritten(rule: FindingKind) -> Self {
        Self {
            notes: Notes::None,
            ..Self::from_rule(rule)
        }
    }

    /// Checks that `evaluate` makes, up to the one that decides.
    pub(crate) fn written<T>(
        rule: FindingKind,
        evaluate: impl FnOnce(&mut Self) -> T,
    ) -> Vec<Check> {
        let mut questions = Self::from_rule(rule);
        evaluate(&mut questions);
        questions.checks
    }

    /// An empty list for the same rule.
    pub(crate) fn new_list(&self) -> Self {
        match self.notes {
            Notes::Kept => Self::from_rule(self.rule),
            Notes::None => Self::unwritten(self.rule),
        }
    }

    /// Appends the questions of another list, regardless of their result.
    pub(crate) fn also(&mut self, other: Self) {
        self.checks.extend(other.checks);
    }

    /// Asks a question; returns whether the answer supports waste. Rule and explanation use the
    /// same call, so they cannot differ.
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

    /// Asks whether the saving justifies a change.
    pub(crate) fn saves_enough(&mut self, facts: &Facts<'_>, cost: &Cost) -> bool {
        let least = facts.policy.overprovisioned.min_saving();
        self.holds(
            "What is the saving per month?",
            (cost.saving_a_month, format_args!("at least {least}")),
            cost.saving_a_month >= least,
        )
    }

    /// Asks whether the owner of an instance chooses its type. Otherwise its controller does.
    pub(crate) fn owner_chooses_type(&mut self, facts: &Facts<'_>, instance: &Instance) -> bool {
        let controller = facts.controller(instance);
        let shown = controller.as_ref();
        self.holds(
            "Can the instance type be changed directly, without a controller?",
            (
                shown.map_or_else(|| "yes".to_owned(), |c| format!("no: {c} chooses the type")),
                "",
            ),
            controller.is_none(),
        )
    }

    /// Asks whether the catalogue has the type of an instance, and returns it.
    pub(crate) fn type_of<'f>(
        &mut self,
        facts: &Facts<'f>,
        instance: &Instance,
    ) -> Option<&'f TypeSpec> {
        let spec = facts.catalogue.spec(&instance.instance_type);
        let is_known = self.holds(
            "Is its instance type in the catalogue?",
            (&instance.instance_type, ""),
            spec.map(|_| true),
        );
        spec.filter(|_| is_known)
    }

    fn ask(
        &mut self,
        question: &'static str,
        (value, bound): (impl ToString, impl ToString),
        speaks: Speaks,
    ) {
        if self
            .checks
            .iter()
            .all(|check| check.speaks == Speaks::ForWaste)
        {
            self.checks.push(Check {
                rule: self.rule,
                question: question.into(),
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
