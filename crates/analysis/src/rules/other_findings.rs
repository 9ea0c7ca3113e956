//! Findings that other rules have about a machine. Rules about its size run last and skip a machine
//! whose problem is already reported.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::finding::Finding;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::Instance;

use crate::rules::trace::RuleTrace;

/// Findings of the rules that ran before, by the resource that they are about.
#[derive(Debug)]
pub(crate) struct OtherFindings<'a> {
    reported: ByResource<'a>,
    /// An exempt idle machine must not return as an overprovisioned one.
    exempt: ByResource<'a>,
}

/// Findings by the id of their resource, and by its node.
type ByResource<'a> = BTreeMap<&'a str, Vec<&'a Finding>>;

fn by_resource(findings: &[Finding]) -> ByResource<'_> {
    let mut by_resource = ByResource::new();
    for finding in findings {
        let resource = &finding.resource;
        let node = resource.node.as_deref();
        let node = node.filter(|node| *node != resource.id);
        for id in node.into_iter().chain([resource.id.as_str()]) {
            by_resource.entry(id).or_default().push(finding);
        }
    }
    by_resource
}

impl<'a> OtherFindings<'a> {
    /// Findings that are reported, and findings that the policy exempts.
    pub(crate) fn new(reported: &'a [Finding], exempt: &'a [Finding]) -> Self {
        Self {
            reported: by_resource(reported),
            exempt: by_resource(exempt),
        }
    }

    /// The reported findings about a resource, and about everything on it if it is a node.
    pub(crate) fn reported(&self, id: &str) -> &[&'a Finding] {
        self.reported.get(id).map_or(&[], Vec::as_slice)
    }

    /// The same, with the exempt findings.
    pub(crate) fn about(&self, id: &str) -> impl Iterator<Item = &'a Finding> {
        let exempt = self.exempt.get(id).map_or(&[][..], Vec::as_slice);
        self.reported(id).iter().chain(exempt).copied()
    }

    /// Asks whether another finding covers the machine, or a finding of kind `of_step` covers a
    /// task on it. Two findings would report the same problem twice.
    pub(crate) fn leave_out(
        &self,
        instance: &Instance,
        of_step: FindingKind,
        q: &mut RuleTrace,
    ) -> bool {
        let node = instance.id.as_str();
        let mut others = self.about(node);
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

/// Keeps one change of type for each machine: a change of size, or the newer type of the finding about
/// an old generation, whichever saves more. A machine that is too small always gets a larger type.
pub(crate) fn keep_best_type_change(findings: &mut Vec<Finding>) {
    let is_old = |finding: &&Finding| finding.kind == FindingKind::OldGeneration;
    let olds: BTreeMap<&str, &Finding> = (findings.iter().filter(is_old))
        .map(|old| (old.resource.id.as_str(), old))
        .collect();
    let sizes = findings.iter().filter(|finding| changes_size(finding));
    let dropped = sizes.filter_map(|size| {
        let old = olds.get(size.resource.id.as_str())?;
        let is_larger = size.kind == FindingKind::UnderprovisionedNode;
        let is_better = is_larger || size.saving_or_zero() >= old.saving_or_zero();
        Some(if is_better { &old.id } else { &size.id }.clone())
    });
    let dropped: BTreeSet<String> = dropped.collect();
    findings.retain(|finding| !dropped.contains(&finding.id));
}

/// Whether a finding recommends another size. An underutilized node without a known saving has no
/// recommended type.
fn changes_size(finding: &Finding) -> bool {
    match finding.kind {
        FindingKind::OverprovisionedNode | FindingKind::UnderprovisionedNode => true,
        FindingKind::UnderutilizedNode => finding.cost.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::identity::InstanceType;
    use ebb_telemetry::money::Usd;

    use super::*;
    use crate::testing::{World, instance};

    #[test]
    fn a_machine_gets_one_new_type_and_keeps_findings_that_change_none() {
        let mut machine = instance(1);
        machine.instance_type = InstanceType::new("m4.4xlarge").expect("a type");
        let findings = World::with([machine]).evaluate().findings;
        let [old] = &findings[..] else {
            panic!("one finding: {findings:?}")
        };
        assert_eq!(old.kind, FindingKind::OldGeneration);
        let check = |kind: FindingKind, saving: Option<Usd>, expect: &[FindingKind]| {
            let mut other = old.clone();
            (other.id, other.kind) = ("other".to_owned(), kind);
            other.cost = saving.and(other.cost);
            if let (Some(cost), Some(saving)) = (&mut other.cost, saving) {
                cost.saving_a_month = saving;
            }
            let mut findings = vec![old.clone(), other];
            keep_best_type_change(&mut findings);
            let kinds: Vec<FindingKind> = findings.iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, expect, "{kind} {saving:?}");
        };
        use FindingKind::{
            IdleGpu, OldGeneration, OverprovisionedNode, UnderprovisionedNode, UnderutilizedNode,
        };
        let (less, more) = (Some(Usd::ZERO), Some(Usd::from_micros(1_000_000_000)));
        check(OverprovisionedNode, more, &[OverprovisionedNode]);
        check(OverprovisionedNode, less, &[OldGeneration]);
        check(UnderprovisionedNode, None, &[UnderprovisionedNode]);
        check(UnderutilizedNode, more, &[UnderutilizedNode]);
        check(UnderutilizedNode, None, &[OldGeneration, UnderutilizedNode]);
        check(IdleGpu, more, &[OldGeneration, IdleGpu]);
    }
}
