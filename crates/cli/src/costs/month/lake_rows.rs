//! Reads the costs of a month from the lake of a deployment, a part of the days at a time.

use std::collections::BTreeMap;

use anyhow::Result;
use ebb_lake::Window;
use ebb_model::cost_record::CostRecord;
use jiff::Timestamp;
use jiff::civil::Date;

use super::{LakeRows, MonthPart};
use crate::deployment::Target;

/// The rows of the part of the month.
pub(super) fn read_lake(target: &Target, part: MonthPart<'_>) -> Result<LakeRows> {
    let Some(first) = part.month.first_day() else {
        return Ok(LakeRows::default());
    };
    let last = first.last_of_month();
    let last = part.through.map_or(last, |through| through.min(last));
    let rows = async {
        let lake = crate::lake::open_lake(target).await?;
        let read = async |from: Date, to: Date| anyhow::Ok(lake.costs_between(from, to).await?);
        newest_rows((first, last), read).await
    };
    crate::runtime::runtime()?.block_on(rows)
}

/// The rows of the newest evaluation of each day. One read returns the newest days of a window, up to
/// a limit that counts the rows of all evaluations.
async fn newest_rows(
    (first, last): (Date, Date),
    read: impl AsyncFn(Date, Date) -> Result<Window<CostRecord>>,
) -> Result<LakeRows> {
    let mut all = LakeRows::default();
    let mut next = Some(last);
    while let Some(to) = next.filter(|to| first <= *to) {
        let Window { mut rows, left_out } = read(first, to).await?;
        let oldest = rows.iter().map(|row| row.day).min().unwrap_or(to);
        next = match left_out {
            0 => None,
            // The next read begins with this day, because a part of its rows may be left out.
            _ if oldest < to => {
                rows.retain(|row| row.day > oldest);
                Some(oldest)
            }
            _ => {
                all.cut.insert(to);
                to.yesterday().ok()
            }
        };
        retain_newest(&mut rows);
        all.rows.append(&mut rows);
    }
    Ok(all)
}

/// Removes the rows that a later evaluation of their day replaces.
fn retain_newest(rows: &mut Vec<CostRecord>) {
    let mut newest: BTreeMap<Date, Timestamp> = BTreeMap::new();
    for row in rows.iter() {
        let known = newest.entry(row.day).or_insert(row.evaluated_at);
        *known = row.evaluated_at.max(*known);
    }
    rows.retain(|row| newest.get(&row.day) == Some(&row.evaluated_at));
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use ebb_model::cost_record::CostUse;
    use ebb_telemetry::money::Usd;
    use ebb_telemetry::origin::Origin;
    use jiff::civil::date;

    use super::*;

    fn row((day, second): (i8, i64)) -> CostRecord {
        CostRecord {
            day: date(2026, 11, day),
            evaluated_at: Timestamp::from_second(second).expect("a time"),
            is_closed: true,
            origin: Origin::Measured,
            billed: Usd::ZERO,
            account: None,
            resource: None,
            pipeline: None,
            run: None,
            step: None,
            user: None,
            cost_centre: None,
            part: CostUse::Idle,
            combined_rows: 1,
            cost: Usd::ZERO,
        }
    }

    /// A read of at most four rows, the newest of each window.
    fn window(stored: &[(i8, i64)], (from, to): (Date, Date)) -> Window<CostRecord> {
        let rows = stored.iter().copied().map(row);
        let mut rows: Vec<CostRecord> = rows
            .filter(|row| from <= row.day && row.day <= to)
            .collect();
        rows.sort_by_key(|row| Reverse((row.day, row.evaluated_at)));
        let left_out = rows.len().saturating_sub(4) as u64;
        rows.truncate(4);
        Window { rows, left_out }
    }

    #[tokio::test]
    async fn each_day_of_a_month_with_many_rows_is_read() {
        let check = async |stored: &[(i8, i64)], expect: &[(i8, i64)], cut: &[i8]| {
            let read = async |from, to| anyhow::Ok(window(stored, (from, to)));
            let days = (date(2026, 11, 1), date(2026, 11, 4));
            let found = newest_rows(days, read).await.expect("read");
            let expect: Vec<CostRecord> = expect.iter().copied().map(row).collect();
            assert_eq!(found.rows, expect);
            let found: Vec<i8> = found.cut.iter().map(|day| day.day()).collect();
            assert_eq!(found, cut);
        };
        check(&[], &[], &[]).await;
        // A day after the part of the month, and an earlier evaluation.
        check(&[(1, 1), (1, 2), (5, 1)], &[(1, 2)], &[]).await;
        let many = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (3, 1), (4, 1)];
        let newest = [(4, 1), (3, 1), (2, 2), (2, 2), (1, 2)];
        check(&many, &newest, &[]).await;
        // The third has more rows than one read returns.
        let many = [(2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (4, 1)];
        check(&many, &[(4, 1), (3, 5), (2, 1)], &[3]).await;
    }
}
