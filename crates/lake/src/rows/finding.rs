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
pub struct EvaluatedFinding {
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The finding.
    pub finding: Finding,
}

row! {
    FindingRow for EvaluatedFinding {
        (judged_at: Micros, judged_at_submicro_ns: u16) = at,
        [finding_id: String] = |record| record.finding.id,
        [kind: String] = |record| record.finding.kind.slug().to_owned(),
        [resource_id: String] = |record| record.finding.resource.id,
        [resource_name: Option<String>] = |record| record.finding.resource.name,
        [region: String] = |record| record.finding.resource.region.to_string(),
        [node: Option<String>] = |record| record.finding.resource.node,
        [owner: Option<String>] = |record| record.finding.resource.owner,
        [instance_type: Option<String>] = |record| {
            let instance_type = record.finding.resource.instance_type.as_ref();
            instance_type.map(ToString::to_string)
        },
        [origin: Origin] = |record| record.finding.resource.origin,
        [window_from: Micros] = |record| record.finding.window.from.split().0,
        [window_to: Micros] = |record| record.finding.window.to.split().0,
        [coverage_ppm: Option<Share>] = |record| record.finding.coverage,
        [evidence: String] = |record| record.finding.evidence.to_string(),
        [confidence: Level] = |record| record.finding.confidence.level,
        [price_basis: Option<PriceBasis>] = |record| record.finding.cost.as_ref().map(|c| c.basis),
        [wasted_micro_usd_per_hour: Option<Usd>] =
            |record| record.finding.cost.as_ref().map(|c| c.per_hour.0),
        [spent_micro_usd: Option<Usd>] = |record| record.finding.cost.as_ref().map(|c| c.spent),
        [saving_micro_usd_per_month: Option<Usd>] =
            |record| record.finding.cost.as_ref().map(|c| c.saving_a_month),
        [action: String] = |record| record.finding.remedy.action.to_string(),
        [advice: String] = |record| record.finding.remedy.advice,
        finding_json: Finding = finding,
    }
}

impl Record for EvaluatedFinding {
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
