//! `findings`: one row for each finding and sweep. Values to filter and sum by have their own
//! columns. The last column contains the whole finding as the JSON of the report.

use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis;
use ebb_model::finding::Finding;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::Share;
use jiff::Timestamp;

use super::Record;
use super::column::{ColumnError, Micros, Parts, day};
use super::row::row;

/// A finding and the time of its sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The finding.
    pub finding: Finding,
}

row! {
    FindingRow for Judged {
        (judged_at: Micros, judged_at_submicro_ns: u16) = at,
        [finding_id: String] = |judged| judged.finding.id,
        [kind: String] = |judged| judged.finding.kind.slug().to_owned(),
        [resource_id: String] = |judged| judged.finding.resource.id,
        [resource_name: Option<String>] = |judged| judged.finding.resource.name,
        [region: String] = |judged| judged.finding.resource.region.to_string(),
        [node: Option<String>] = |judged| judged.finding.resource.node,
        [owner: Option<String>] = |judged| judged.finding.resource.owner,
        [instance_type: Option<String>] = |judged| {
            let instance_type = judged.finding.resource.instance_type.as_ref();
            instance_type.map(ToString::to_string)
        },
        [origin: Origin] = |judged| judged.finding.resource.origin,
        [window_from: Micros] = |judged| judged.finding.window.from.split().0,
        [window_to: Micros] = |judged| judged.finding.window.to.split().0,
        [coverage_ppm: Option<Share>] = |judged| judged.finding.coverage,
        [evidence: String] = |judged| judged.finding.evidence.to_string(),
        [confidence: Level] = |judged| judged.finding.confidence.level,
        [price_basis: Option<PriceBasis>] = |judged| judged.finding.cost.as_ref().map(|c| c.basis),
        [wasted_micro_usd_per_hour: Option<Usd>] =
            |judged| judged.finding.cost.as_ref().map(|c| c.per_hour.0),
        [spent_micro_usd: Option<Usd>] = |judged| judged.finding.cost.as_ref().map(|c| c.spent),
        [saving_micro_usd_per_month: Option<Usd>] =
            |judged| judged.finding.cost.as_ref().map(|c| c.saving_a_month),
        [action: String] = |judged| judged.finding.remedy.action.to_string(),
        [advice: String] = |judged| judged.finding.remedy.advice,
        finding_json: Finding = finding,
    }
}

impl Record for Judged {
    type Row = FindingRow;

    fn day(&self) -> i32 {
        day(self.at)
    }

    fn name(&self) -> String {
        self.finding.id.clone()
    }

    fn name_row(row: &FindingRow) -> String {
        row.finding_id.clone()
    }

    fn put(&self) -> Result<FindingRow, ColumnError> {
        FindingRow::put(self)
    }

    fn get(row: FindingRow) -> Result<Self, ColumnError> {
        row.get()
    }
}
