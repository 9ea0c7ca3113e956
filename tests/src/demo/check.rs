//! Compares the findings of a report with the planted waste. Pure; only this module reads the file
//! with the planted waste.

use std::collections::BTreeSet;
use std::fmt;

use ebb_model::finding::Finding;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_telemetry::origin::Origin;

use crate::world::{Node, Planted, World};

/// The result of the comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Planted and found.
    pub found: Vec<Planted>,
    /// Planted and not found.
    pub missing: Vec<Planted>,
    /// Found and not planted.
    pub extra: Vec<Planted>,
    /// Planted on a node whose probe could not run here, and so not checked.
    pub skipped: Vec<Planted>,
    /// Findings whose label does not match the origin of their evidence.
    pub mislabelled: Vec<String>,
}

/// Whether the real probe ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealProbe {
    /// The probe ran.
    Ran,
    /// The probe could not run.
    Skipped,
}

impl Verdict {
    /// Compares a report with the planted waste.
    pub fn new(report: &Report, planted: &[Planted], world: &World, probe: RealProbe) -> Self {
        let measured = world.probe();
        let (skipped, expected): (BTreeSet<Planted>, BTreeSet<Planted>) = planted
            .iter()
            .cloned()
            .partition(|p| probe == RealProbe::Skipped && measured.is_some_and(|n| is_on(p, n)));
        let reported_waste: BTreeSet<Planted> = report.findings.iter().map(as_planted).collect();
        let wrong = report.findings.iter().filter(|finding| {
            let on_probe = measured.is_some_and(|n| is_on(&as_planted(finding), n));
            (finding.resource.origin == Origin::Measured) != on_probe
        });
        Self {
            found: expected.intersection(&reported_waste).cloned().collect(),
            missing: expected.difference(&reported_waste).cloned().collect(),
            extra: reported_waste.difference(&expected).cloned().collect(),
            skipped: skipped.into_iter().collect(),
            mislabelled: wrong.map(|finding| finding.id.clone()).collect(),
        }
    }

    /// True if all planted waste was found, nothing else, and all labels are right.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.mislabelled.is_empty()
    }
}

/// The finding in the form of planted waste.
fn as_planted(finding: &Finding) -> Planted {
    let variant = match &finding.evidence {
        Evidence::StuckJob(stuck) => Some(match &stuck.stuck {
            Stuck::Blocked { .. } => "runnable_blocked",
            other => other.slug(),
        }),
        _ => None,
    };
    let resource = &finding.resource;
    let name = match finding.kind {
        FindingKind::OverprovisionedStep => resource.name.as_ref(),
        _ => None,
    };
    Planted {
        kind: finding.kind,
        variant: variant.map(str::to_owned),
        resource: name.unwrap_or(&resource.id).clone(),
    }
}

fn is_on(planted: &Planted, node: &Node) -> bool {
    let resource = &planted.resource;
    let mut steps = node.steps.iter();
    *resource == node.instance_id
        || steps.any(|step| *resource == step.job_id || *resource == step.job_name)
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = self.variant.as_deref().map(|v| format!(" ({v})"));
        write!(
            f,
            "{}{}: {}",
            self.kind.slug(),
            variant.unwrap_or_default(),
            self.resource
        )
    }
}

#[cfg(test)]
mod tests;
