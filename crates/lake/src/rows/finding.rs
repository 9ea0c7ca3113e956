//! `findings`: one row for each finding and sweep. Values to filter and sum by have their own
//! columns. The last column contains the whole finding as the JSON of the report.

use deltalake_core::arrow::array::RecordBatch;
use deltalake_core::arrow::datatypes::FieldRef;
use ebb_model::confidence::Level;
use ebb_model::cost::PriceBasis;
use ebb_model::finding::Finding;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::column::{Instant, put_origin, put_share};
use super::{Record, RowError, RowsError, date_field, side_by_side, traced};

/// A finding and the time of its sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The finding.
    pub finding: Finding,
}

#[derive(Debug, Serialize, Deserialize)]
struct FindingRow {
    judged_at: i64,
    judged_at_submicro_ns: i32,
    finding_id: String,
    kind: String,
    resource_id: String,
    resource_name: Option<String>,
    region: String,
    node: Option<String>,
    owner: Option<String>,
    instance_type: Option<String>,
    origin: String,
    window_from: i64,
    window_to: i64,
    coverage_ppm: Option<i32>,
    evidence: String,
    confidence: String,
    price_basis: Option<String>,
    wasted_micro_usd_per_hour: Option<i64>,
    spent_micro_usd: Option<i64>,
    saving_micro_usd_per_month: Option<i64>,
    action: String,
    advice: String,
    finding_json: String,
}

impl FindingRow {
    fn new(judged: &Judged) -> Result<Self, serde_json::Error> {
        let at = Instant::of(judged.at);
        let finding = &judged.finding;
        let resource = &finding.resource;
        let cost = finding.cost.as_ref();
        Ok(Self {
            judged_at: at.us,
            judged_at_submicro_ns: at.submicro_ns,
            finding_id: finding.id.clone(),
            kind: finding.kind.slug().to_owned(),
            resource_id: resource.id.clone(),
            resource_name: resource.name.clone(),
            region: resource.region.to_string(),
            node: resource.node.clone(),
            owner: resource.owner.clone(),
            instance_type: resource.instance_type.as_ref().map(ToString::to_string),
            origin: put_origin(resource.origin),
            window_from: Instant::of(finding.window.from).us,
            window_to: Instant::of(finding.window.to).us,
            coverage_ppm: put_share(finding.coverage),
            evidence: finding.evidence.to_string(),
            confidence: level(finding.confidence.level).to_owned(),
            price_basis: cost.map(|c| basis(c.basis).to_owned()),
            wasted_micro_usd_per_hour: cost.map(|c| c.per_hour.0.micros()),
            spent_micro_usd: cost.map(|c| c.spent.micros()),
            saving_micro_usd_per_month: cost.map(|c| c.saving_a_month.micros()),
            action: finding.remedy.action.to_string(),
            advice: finding.remedy.advice.clone(),
            finding_json: serde_json::to_string(finding)?,
        })
    }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
    }
}

const fn basis(basis: PriceBasis) -> &'static str {
    match basis {
        PriceBasis::Bill => "bill",
        PriceBasis::Stated => "stated",
        PriceBasis::ListPrice => "list_price",
        PriceBasis::SpotPrice => "spot_price",
        PriceBasis::ListPriceAsUpperBound => "list_price_as_upper_bound",
    }
}

fn row_fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
    traced::<FindingRow>(&["judged_at", "window_from", "window_to"], &[])
}

impl Record for Judged {
    fn fields() -> Result<Vec<FieldRef>, serde_arrow::Error> {
        let mut fields = vec![date_field()?];
        fields.extend(row_fields()?);
        Ok(fields)
    }

    fn pack(judged: &[Self]) -> Result<RecordBatch, RowsError> {
        let row = |j: &Judged| {
            FindingRow::new(j).map_err(|source| RowsError::Json {
                id: j.finding.id.clone(),
                source,
            })
        };
        let rows = judged.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let days = judged.iter().map(|j| Instant::of(j.at).day()).collect();
        let fields = row_fields()?;
        let arrays = serde_arrow::to_arrow(&fields, &rows)?;
        side_by_side(days, vec![(fields, arrays)])
    }

    fn unpack(batch: &RecordBatch) -> Result<Vec<Self>, RowsError> {
        let rows: Vec<FindingRow> = serde_arrow::from_record_batch(batch)?;
        let judged = |row: FindingRow| {
            let instant = Instant {
                us: row.judged_at,
                submicro_ns: row.judged_at_submicro_ns,
            };
            let finding = serde_json::from_str(&row.finding_json);
            let id = row.finding_id;
            Ok(Self {
                at: instant.at("judged_at").map_err(|source| RowError {
                    row: id.clone(),
                    source,
                })?,
                finding: finding.map_err(|source| RowsError::Json { id, source })?,
            })
        };
        rows.into_iter().map(judged).collect()
    }
}
