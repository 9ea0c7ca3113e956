//! Days of the bill from the table `costs` of the lake, in place of days of a report. Each day comes
//! from one source. The lake has more days than a report.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ebb_telemetry::money::Usd;
use jiff::civil::Date;

use crate::cost_record::{CostRecord, CostUse};
use crate::policy::costs::RestOfMachine;
use crate::report::bill_day::BilledDayShares;
use crate::report::cost_shares::{
    CentreRest, CostDay, CostDimension, CostName, CostShare, CostShares, CostSource, DayShare,
    RestKind,
};

/// The costs of tasks with the same names by day.
type NamedDays = BTreeMap<BTreeMap<CostDimension, CostName>, BTreeMap<String, DayShare>>;

impl CostShares {
    /// Takes days from rows of the lake: closed days with the same bill, and days that the report does
    /// not have. Returns them. The lake has no numbers of tasks. Days whose rows do not add up to their
    /// bill are left out, because a part of their rows was not read.
    pub fn add_lake_days(
        &mut self,
        ledger: &mut Vec<BilledDayShares>,
        rows: &[CostRecord],
    ) -> BTreeSet<String> {
        let mut days: BTreeMap<Date, Vec<&CostRecord>> = BTreeMap::new();
        for row in rows {
            let of_day = days.entry(row.day).or_default();
            // The rows of a later evaluation replace all earlier ones.
            match of_day.first().map(|one| one.evaluated_at) {
                Some(known) if row.evaluated_at < known => continue,
                Some(known) if row.evaluated_at > known => of_day.clear(),
                _ => {}
            }
            of_day.push(row);
        }
        let (mut by_run, mut by_step) = (NamedDays::new(), NamedDays::new());
        let mut taken = BTreeSet::new();
        for (day, rows) in days {
            let day = day.to_string();
            if !self.wants(&day, &rows) {
                continue;
            }
            replace_ledger_day(ledger, &day, &rows);
            self.replace_day(&day, &rows);
            for row in rows {
                add_task(&mut by_run, CostDimension::Run, (&day, row));
                add_task(&mut by_step, CostDimension::Step, (&day, row));
            }
            taken.insert(day);
        }
        let tables = [(&mut self.by_run, by_run), (&mut self.by_step, by_step)];
        for (table, of_lake) in tables {
            for share in table.iter_mut() {
                share.by_day.retain(|day, _| !taken.contains(day));
            }
            let of_lake = of_lake.into_iter();
            table.extend(of_lake.map(|(names, by_day)| CostShare { names, by_day }));
            table.retain(|share| !share.by_day.is_empty());
        }
        taken
    }

    fn wants(&self, day: &str, rows: &[&CostRecord]) -> bool {
        let Some(first) = rows.first() else {
            return false;
        };
        let cost: Usd = rows.iter().map(|row| row.cost).sum();
        let mut known = self.days.iter().filter(|known| known.day == day);
        cost == first.billed
            && known.all(|known| match known.source {
                CostSource::Bill => first.is_closed && known.total == first.billed,
                CostSource::Prices => true,
            })
    }

    fn replace_day(&mut self, day: &str, rows: &[&CostRecord]) {
        let first = rows.first();
        let (rest, rest_by_centre) = rest(rows, self.rest);
        self.days.retain(|known| known.day != day);
        self.days.push(CostDay {
            day: day.to_owned(),
            source: CostSource::Bill,
            estimated: first.is_none_or(|row| !row.is_closed),
            total: first.map_or(Usd::ZERO, |row| row.billed),
            upper_bound: Usd::ZERO,
            rest,
            rest_by_centre,
            machines_without_price: 0,
        });
        self.days.sort_by(|a, b| a.day.cmp(&b.day));
    }
}

/// The services and tags of a day that the ledger has stay.
fn replace_ledger_day(ledger: &mut Vec<BilledDayShares>, day: &str, rows: &[&CostRecord]) {
    let sum = |part: CostUse| -> Usd {
        let of_part = rows.iter().filter(|row| row.part == part);
        of_part.map(|row| row.cost).sum()
    };
    let first = rows.first();
    let mut known = ledger.iter().filter(|known| known.day == day);
    let replaced = BilledDayShares {
        day: day.to_owned(),
        estimated: first.is_none_or(|row| !row.is_closed),
        billed: first.map_or(Usd::ZERO, |row| row.billed),
        steps: sum(CostUse::Task) + sum(CostUse::FailedTask),
        findings: sum(CostUse::Findings),
        other_work: sum(CostUse::OtherWork),
        idle: sum(CostUse::Idle) + sum(CostUse::Unused),
        unwatched: sum(CostUse::Unwatched),
        elsewhere: sum(CostUse::Elsewhere),
        rounding: sum(CostUse::Rounding),
        ..known.next().cloned().unwrap_or_default()
    };
    ledger.retain(|known| known.day != day);
    ledger.push(replaced);
    ledger.sort_by(|a, b| a.day.cmp(&b.day));
}

/// The cost that belongs to no task, and its part by cost centre. Rows of the lake do not say in which
/// part of the rest the unused cost of tasks is; it counts as idle.
fn rest(rows: &[&CostRecord], policy: RestOfMachine) -> (BTreeMap<RestKind, Usd>, Vec<CentreRest>) {
    let mut all: BTreeMap<RestKind, Usd> = BTreeMap::new();
    let mut centres: BTreeMap<&String, BTreeMap<RestKind, Usd>> = BTreeMap::new();
    for row in rows {
        let kind = match row.part {
            CostUse::Task | CostUse::FailedTask => continue,
            CostUse::Unused if policy == RestOfMachine::Spread => continue,
            CostUse::Unused | CostUse::Idle => RestKind::Idle,
            CostUse::Findings => RestKind::Findings,
            CostUse::OtherWork => RestKind::OtherWork,
            CostUse::Unwatched => RestKind::Unwatched,
            CostUse::Elsewhere => RestKind::Elsewhere,
            CostUse::Rounding => RestKind::Rounding,
        };
        let of_centre = row.cost_centre.as_ref().map(|name| centres.entry(name));
        let sums = [Some(&mut all), of_centre.map(|centre| centre.or_default())];
        for sum in sums.into_iter().flatten() {
            let sum = sum.entry(kind).or_default();
            *sum = *sum + row.cost;
        }
    }
    let centres = centres.into_iter().map(|(name, rest)| CentreRest {
        name: CostName::Name(name.clone()),
        rest,
    });
    (all, centres.collect())
}

fn add_task(sums: &mut NamedDays, first: CostDimension, (day, row): (&str, &CostRecord)) {
    let share = match row.part {
        CostUse::Task | CostUse::FailedTask => DayShare {
            used: row.cost,
            ..DayShare::default()
        },
        CostUse::Unused => DayShare {
            unused: row.cost,
            ..DayShare::default()
        },
        _ => return,
    };
    let dimensions = [
        first,
        CostDimension::Pipeline,
        CostDimension::User,
        CostDimension::CostCentre,
    ];
    let names = dimensions.into_iter().map(|one| {
        let name = match one {
            CostDimension::Run => &row.run,
            CostDimension::Pipeline => &row.pipeline,
            CostDimension::Step => &row.step,
            CostDimension::User => &row.user,
            CostDimension::CostCentre => &row.cost_centre,
        };
        let name = match name {
            Some(name) => CostName::Name(name.clone()),
            // Rows that were combined have no names.
            None if row.combined_rows > 1 => CostName::Others,
            None => CostName::Unknown,
        };
        (one, name)
    });
    let by_day = sums.entry(names.collect()).or_default();
    by_day.entry(day.to_owned()).or_default().add(share);
}
