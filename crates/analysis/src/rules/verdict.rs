//! The result of a rule for one resource.

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::NotJudged;

/// What a rule says of one resource; of what is well it says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is waste.
    Waste(Box<Finding>),
    /// It could not be told.
    NotJudged(NotJudged),
}

impl Verdict {
    pub(crate) fn undetermined(
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
