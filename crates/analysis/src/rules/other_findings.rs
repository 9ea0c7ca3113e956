//! Findings that other rules have about a machine. Rules about its size run last and skip a machine
//! whose problem is already reported.

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;

use crate::rules::trace::RuleTrace;

/// Findings of the rules that ran before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OtherFindings<'a> {
    /// Findings that are reported.
    pub(crate) reported: &'a [Finding],
    /// Findings that the policy exempts. An exempt idle machine must not return as an
    /// overprovisioned one.
    pub(crate) exempt: &'a [Finding],
}

impl<'a> OtherFindings<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a Finding> {
        self.reported.iter().chain(self.exempt)
    }

    /// Asks whether another finding covers the machine, or a finding of kind `of_step` covers a
    /// task on it. Two findings would report the same problem twice.
    pub(crate) fn leave_out(
        self,
        instance: &Instance,
        of_step: FindingKind,
        q: &mut RuleTrace,
    ) -> bool {
        let node = instance.id.as_str();
        let mut others = self.iter();
        let other = others.find(|finding| {
            let resource = &finding.resource;
            let is_on_it = finding.kind == of_step && resource.node.as_deref() == Some(node);
            let is_about_it = resource.id == node && covers_size(finding.kind);
            finding.kind != q.rule && (is_about_it || is_on_it)
        });
        q.holds(
            "Does another finding cover this resource?",
            (
                other.map_or_else(|| "no".to_owned(), |other| other.kind.to_string()),
                "no",
            ),
            other.is_none(),
        )
    }
}

/// A finding about an old generation leaves the size of a machine open; see
/// [`keep_best_type_change`].
pub(crate) fn covers_size(kind: FindingKind) -> bool {
    kind != FindingKind::OldGeneration
}

/// Removes the finding about an old generation if another finding about the same machine changes its
/// type, too, and saves at least as much. A machine gets one new type only.
pub(crate) fn keep_best_type_change(findings: &mut Vec<Finding>) {
    let changes_type = |finding: &&Finding| {
        matches!(
            finding.kind,
            FindingKind::OverprovisionedNode
                | FindingKind::UnderprovisionedNode
                | FindingKind::UnderutilizedNode
        )
    };
    let is_old = |finding: &Finding| finding.kind == FindingKind::OldGeneration;
    let mut dropped: Vec<String> = Vec::new();
    for size in findings.iter().filter(changes_type) {
        let mut olds = findings.iter().filter(|one| is_old(one));
        let Some(old) = olds.find(|old| old.resource.id == size.resource.id) else {
            continue;
        };
        let is_larger = size.kind == FindingKind::UnderprovisionedNode;
        let is_better = is_larger || size.saving_or_zero() >= old.saving_or_zero();
        dropped.push(if is_better { &old.id } else { &size.id }.clone());
    }
    findings.retain(|finding| !dropped.contains(&finding.id));
}
