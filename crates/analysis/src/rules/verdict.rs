//! The result of a rule for one resource.

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::NotEvaluated;

/// Result of a rule for one resource; a resource without a problem has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Waste was found.
    Waste(Box<Finding>),
    /// The resource could not be evaluated.
    NotEvaluated(NotEvaluated),
}

impl Verdict {
    pub(crate) fn undetermined(
        kind: FindingKind,
        resource: &str,
        name: Option<&str>,
        reason: impl Into<String>,
    ) -> Self {
        Self::NotEvaluated(NotEvaluated {
            resource: resource.to_owned(),
            name: name.map(str::to_owned),
            rule: kind.slug().to_owned(),
            reason: reason.into(),
        })
    }
}
