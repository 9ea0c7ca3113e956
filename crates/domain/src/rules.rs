//! The waste rules: one file, one variant of `FindingKind`, one table of cases
//! each. A rule says what it found and what it could not judge, and why.

pub mod batch;
pub mod idle;
pub mod overprovisioned;
#[cfg(test)]
pub(crate) mod testing;

use crate::finding::{Finding, FindingKind};
use crate::report::NotJudged;

/// What a rule says of one resource; of what is well it says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is waste.
    Waste(Box<Finding>),
    /// It could not be told.
    NotJudged(NotJudged),
}

impl Verdict {
    fn undetermined(
        kind: FindingKind,
        resource: &str,
        name: Option<&str>,
        reason: impl Into<String>,
    ) -> Self {
        Self::NotJudged(NotJudged {
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            rule: kind.slug().to_owned(),
            reason: reason.into(),
        })
    }
}
