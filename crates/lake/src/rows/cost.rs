//! `costs`: one row for each day, use, machine and names of tasks.

use ebb_model::cost_record::{CostRecord, CostUse};
use ebb_telemetry::identity::AccountId;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use jiff::civil::Date;

use super::Record;
use super::column::{ColumnError, Micros, days_since_1970};
use super::row::row;

row! {
    CostRecordRow for CostRecord {
        charge_period_start: Date = day,
        (evaluated_at: Micros, evaluated_at_submicro_ns: u16) = evaluated_at,
        closed: bool = is_closed,
        origin: Origin = origin,
        account: Option<AccountId> = account,
        resource_id: Option<String> = resource,
        pipeline: Option<String> = pipeline,
        run: Option<String> = run,
        step: Option<String> = step,
        user_name: Option<String> = user,
        cost_centre: Option<String> = cost_centre,
        part: CostUse = part,
        combined_rows: u64 = combined_rows,
        cost_micro_usd: Usd = cost,
        day_billed_micro_usd: Usd = billed,
    }
}

impl Record for CostRecord {
    type Row = CostRecordRow;

    fn day(&self) -> i32 {
        days_since_1970(self.day)
    }

    fn name(&self) -> String {
        let resource = self.resource.as_deref().unwrap_or("no machine");
        format!("{}/{resource}", self.day)
    }

    fn name_row(row: &CostRecordRow) -> String {
        let resource = row.resource_id.as_deref().unwrap_or("no machine");
        format!("{}/{resource}", row.charge_period_start)
    }

    fn put(&self) -> Result<CostRecordRow, ColumnError> {
        CostRecordRow::put(self)
    }

    fn get(row: CostRecordRow) -> Result<Self, ColumnError> {
        row.get()
    }
}
