//! Scores the findings from metrics alone. A labelled fleet is evaluated as by `ebb scan --metrics`
//! at each of the last hours of its metrics, and each finding is compared with the label.

pub(crate) mod labels;
pub(crate) mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ebb_analysis::evaluate::evaluate;
use ebb_analysis::facts::Facts;
use ebb_catalog::catalog::Catalogue;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::host::MeteredMachine;
use ebb_model::inventory::instance::Instance;
use ebb_model::metric_series::MetricSeries;
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::units::Share;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::table;
use labels::{LabelRow, Wanted};
use rows::Machines;

/// The kinds of findings about a machine that metrics alone can give.
const KINDS: [FindingKind; 5] = [
    FindingKind::IdleNode,
    FindingKind::OffHoursNode,
    FindingKind::OverprovisionedNode,
    FindingKind::UnderprovisionedNode,
    FindingKind::UnderutilizedNode,
];

/// Compute Optimizer's rule for idle machines, on the same metrics: peak CPU below 5 % and less
/// than 5 MB of network traffic a day, over all metrics.
///
/// Source: AWS Compute Optimizer user guide, "Idle resources".
const COMPUTE_OPTIMIZER: &str = "idle by the rule of Compute Optimizer";

/// Hours of a day.
pub(crate) const HOURS: u32 = 24;

/// Findings of one kind at one hour.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct KindScore {
    pub(crate) kind: String,
    /// The time of the last row.
    pub(crate) at: Timestamp,
    /// Findings that are right.
    pub(crate) right: usize,
    /// Findings that are wrong.
    pub(crate) wrong: usize,
    /// Machines without a finding that they should have.
    pub(crate) missed: usize,
    /// Findings without a label that decides.
    pub(crate) unscored: usize,
    /// Machines with a wrong finding, by label.
    pub(crate) wrong_ids: BTreeMap<String, Vec<String>>,
    /// Machines without a finding that they should have, by label.
    pub(crate) missed_ids: BTreeMap<String, Vec<String>>,
}

impl KindScore {
    /// `None` without a finding that a label decides.
    pub(crate) fn precision(&self) -> Option<f64> {
        part(self.right, self.right + self.wrong)
    }

    /// `None` if no machine should have one.
    pub(crate) fn recall(&self) -> Option<f64> {
        part(self.right, self.right + self.missed)
    }
}

fn part(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Scores the fleet of a folder at the end of its metrics and at each full hour before it.
///
/// # Errors
/// Names the file and line that is not valid, or a label without metrics.
pub(crate) fn score_folder(folder: &Path) -> Result<Vec<KindScore>> {
    let labels = labels::read(folder)?;
    let machines = rows::read(folder)?;
    let known: BTreeSet<&str> = machines.keys().map(NodeId::as_str).collect();
    for id in labels.keys() {
        ensure!(
            known.contains(id.as_str()),
            "{id} has a label, but no metrics"
        );
    }
    score(&machines, &labels, 0..HOURS)
}

/// Scores a fleet at these numbers of hours before the end of its metrics.
pub(crate) fn score(
    machines: &Machines,
    labels: &BTreeMap<String, LabelRow>,
    hours: impl Iterator<Item = u32>,
) -> Result<Vec<KindScore>> {
    let ends = machines.values().filter_map(|m| m.samples.last_key_value());
    let newest = ends.map(|(at, _)| *at).max().context("no metrics")?;
    let mut cuts: Vec<Timestamp> = hours
        .map(|back| newest - SignedDuration::from_hours(back.into()))
        .collect();
    cuts.sort_unstable();
    let halves = cuts.len().div_ceil(2).max(1);
    let parts: Vec<Vec<KindScore>> = std::thread::scope(|scope| {
        let threads: Vec<_> = cuts
            .chunks(halves)
            .map(|cuts| {
                let scores = move || cuts.iter().flat_map(|at| score_at(machines, labels, *at));
                scope.spawn(move || scores().collect())
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Ok(parts.concat())
}

fn score_at(
    machines: &Machines,
    labels: &BTreeMap<String, LabelRow>,
    at: Timestamp,
) -> Vec<KindScore> {
    let metrics: BTreeMap<NodeId, MetricSeries> = machines
        .iter()
        .map(|(id, machine)| (id.clone(), machine.series_until(at)))
        .filter(|(_, series)| !series.is_empty())
        .collect();
    let found = findings(machines, &metrics, at);
    let of = |name: &str, kind: FindingKind, is_found: &dyn Fn(&str) -> bool| {
        let mut score = KindScore {
            kind: name.to_owned(),
            at,
            ..KindScore::default()
        };
        for (id, label) in labels {
            score.take(label, is_found(id), label.wants(kind, at));
        }
        score
    };
    let mut scores: Vec<KindScore> = KINDS
        .iter()
        .map(|kind| {
            let is_found = |id: &str| found.contains(&(id.to_owned(), *kind));
            of(kind.slug(), *kind, &is_found)
        })
        .collect();
    let is_idle = |id: &str| {
        let series = NodeId::new(id).ok().and_then(|id| metrics.get(&id));
        series.is_some_and(compute_optimizer)
    };
    scores.push(of(COMPUTE_OPTIMIZER, FindingKind::IdleNode, &is_idle));
    scores
}

fn compute_optimizer(series: &MetricSeries) -> bool {
    let peak = series.points().filter_map(|point| point.cpu_max).max();
    let network = series.points().filter_map(|point| point.network_bytes);
    let (bytes, days) = (
        network.sum::<u64>(),
        series.length().as_secs_f64() / 86_400.0,
    );
    peak.is_some_and(|peak| peak < Share::from_ppm(50_000)) && (bytes as f64) < 5e6 * days
}

impl KindScore {
    fn take(&mut self, label: &LabelRow, is_found: bool, wanted: Wanted) {
        let note = |ids: &mut BTreeMap<String, Vec<String>>| {
            let of_label = ids.entry(label.label.name().to_owned()).or_default();
            of_label.push(label.resource_id.clone());
        };
        match (is_found, wanted) {
            (true, Wanted::Yes) => self.right += 1,
            (true, Wanted::Either) => self.unscored += 1,
            (true, Wanted::No) => {
                self.wrong += 1;
                note(&mut self.wrong_ids);
            }
            (false, Wanted::Yes) => {
                self.missed += 1;
                note(&mut self.missed_ids);
            }
            (false, _) => {}
        }
    }
}

/// The findings about each machine if the newest row is of this time.
fn findings(
    machines: &Machines,
    metrics: &BTreeMap<NodeId, MetricSeries>,
    now: Timestamp,
) -> BTreeSet<(String, FindingKind)> {
    let known = machines.iter().filter(|(id, _)| metrics.contains_key(*id));
    let inventory = Inventory {
        instances: known
            .map(|(id, machine)| (id.clone(), machine.instance(id)))
            .collect(),
        ..Inventory::default()
    };
    let report = evaluate(&Facts {
        now,
        state: &FleetState::default(),
        hours: &FleetHours::default(),
        inventory: &inventory,
        metrics,
        bill: &BTreeMap::new(),
        billed: &[],
        finished: &[],
        left_out: &[],
        records: &[],
        memory: &Memory::default(),
        policy: &Policy::default(),
        catalogue: Catalogue::built_in(),
    });
    let findings = report.findings.into_iter();
    findings
        .map(|found| (found.resource.id, found.kind))
        .collect()
}

impl rows::Machine {
    fn instance(&self, id: &NodeId) -> Instance {
        Instance::metered(
            id.clone(),
            MeteredMachine {
                instance_type: self.instance_type.clone(),
                region: self.region.clone(),
                is_simulated: self.is_simulated,
            },
        )
    }
}

/// One table for each kind, and the labels with wrong or missed findings.
pub(crate) fn tables(scores: &[KindScore]) -> String {
    let mut text = String::from(
        "Findings from metrics only, at each hour of the last day of a labelled fleet.\n",
    );
    let kinds = KINDS.iter().map(|kind| kind.slug());
    for kind in kinds.chain([COMPUTE_OPTIMIZER]) {
        let of_kind: Vec<&KindScore> = scores.iter().filter(|score| score.kind == kind).collect();
        let is_empty = |score: &&KindScore| score.counts() == [0; 4];
        text.push('\n');
        if of_kind.iter().all(is_empty) {
            text.push_str(&format!("{kind}: none found and none missed\n"));
            continue;
        }
        let rows: Vec<Vec<String>> = of_kind.iter().map(|score| score.row()).collect();
        let head = [
            kind,
            "right",
            "wrong",
            "missed",
            "not scored",
            "precision",
            "recall",
        ];
        text.push_str(&table::lines(&head, &rows));
        let precisions = of_kind.iter().map(|score| score.precision());
        text.push_str(&least("least precision", precisions));
        text.push_str(&least("least recall", of_kind.iter().map(|s| s.recall())));
        let wrong = of_kind.iter().map(|score| &score.wrong_ids);
        text.push_str(&mistaken("wrong for", wrong));
        let missed = of_kind.iter().map(|score| &score.missed_ids);
        text.push_str(&mistaken("missed", missed));
    }
    text
}

fn least(what: &str, shares: impl Iterator<Item = Option<f64>>) -> String {
    match shares.flatten().min_by(f64::total_cmp) {
        Some(least) => format!("{what} of any hour: {least:.3}\n"),
        None => String::new(),
    }
}

/// The largest number for each label at any hour.
fn mistaken<'a>(
    what: &str,
    hours: impl Iterator<Item = &'a BTreeMap<String, Vec<String>>>,
) -> String {
    let mut most: BTreeMap<&str, usize> = BTreeMap::new();
    for (label, ids) in hours.flatten() {
        let entry = most.entry(label).or_default();
        *entry = (*entry).max(ids.len());
    }
    let each: Vec<String> = most
        .iter()
        .map(|(label, n)| format!("{label} {n}"))
        .collect();
    match each.is_empty() {
        true => String::new(),
        false => format!("{what}, at most at one hour: {}\n", each.join(", ")),
    }
}

impl KindScore {
    fn counts(&self) -> [usize; 4] {
        [self.right, self.wrong, self.missed, self.unscored]
    }

    fn row(&self) -> Vec<String> {
        let share =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |s| format!("{s:.3}"));
        let mut row = vec![self.at.strftime("%a %Y-%m-%d %H:%M").to_string()];
        row.extend(self.counts().map(|count| count.to_string()));
        row.extend([share(self.precision()), share(self.recall())]);
        row
    }
}

#[cfg(test)]
mod tests;
