//! Simulates a fleet of machines. It writes metrics in the format of `ebb scan --metrics` and a
//! file of labels, the input of `eval metrics`. All of it is SIMULATED and labelled so.
//!
//! The kinds, their rhythms and their noise come from general knowledge of such machines (office
//! hours, time zones, clock changes, holidays, nightly and weekly jobs, updates, agents, scans),
//! not from a data set.

mod machine;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::metrics::labels::{Label, LabelRow};
use crate::metrics::rows::MetricRow;
use machine::SimulatedMachine;

/// The first of November 2026 and the nine days after it. Two weeks that end there contain the end
/// of a month, the day before it and, for some, a change of the clocks.
const END: Timestamp = Timestamp::constant(1_793_491_200, 0);
const ENDS: u64 = 10;

/// A fleet to make.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Plan {
    /// Seed of the fleet: the same seed makes the same fleet
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of machines
    #[arg(long, default_value_t = 200)]
    pub(crate) machines: usize,
    /// Days of metrics
    #[arg(long, default_value_t = 14)]
    pub(crate) days: u32,
    /// Minutes of a row: a multiple of 5 up to 60
    #[arg(long, default_value_t = 5)]
    pub(crate) minutes: u32,
}

/// The data of the fleet by machine.
pub(crate) struct Fleet {
    pub(crate) labels: Vec<LabelRow>,
    /// Rows by machine in the order of the labels, oldest first.
    pub(crate) rows: Vec<Vec<MetricRow>>,
}

impl Fleet {
    /// Simulates the fleet.
    ///
    /// # Errors
    /// If there are no machines, or too few days for a rhythm.
    pub(crate) fn make(plan: Plan) -> Result<Self> {
        ensure!(plan.machines > 0, "--machines must be at least 1");
        ensure!((3..=366).contains(&plan.days), "--days must be 3 to 366");
        ensure!(
            (1..=60).contains(&plan.minutes),
            "--minutes must be 1 to 60"
        );
        let end = END + SignedDuration::from_hours(24 * i64::try_from(plan.seed % ENDS)?);
        let begin = end - SignedDuration::from_hours(24 * i64::from(plan.days));
        let mut fleet = Self {
            labels: Vec::new(),
            rows: Vec::new(),
        };
        for number in 0..plan.machines {
            let mut rng = Rng::with_seed(plan.seed.wrapping_mul(1_000_003) + number as u64);
            let kind = machine::kind(number);
            let machine = SimulatedMachine::make(kind, (begin, end), &mut rng);
            let id = format!("sim-{number:05}");
            fleet
                .rows
                .push(machine.rows(&id, (begin, end), plan.minutes, &mut rng));
            fleet.labels.push(LabelRow {
                resource_id: id,
                label: machine.label,
                from: machine.forgotten_from,
            });
        }
        Ok(fleet)
    }

    /// The number of machines with each label.
    pub(crate) fn counts(&self) -> Vec<(Label, usize)> {
        let count = |label| self.labels.iter().filter(|row| row.label == label).count();
        let all = Label::ALL.iter().map(|label| (*label, count(*label)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Writes `metrics.csv`, `labels.csv` and a note into a folder.
    ///
    /// # Errors
    /// Names the file that cannot be written.
    pub(crate) fn write(&self, plan: Plan, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("failed to read the folder {}", folder.display()))?;
        csv(&folder.join("metrics.csv"), self.rows.iter().flatten())?;
        csv(&folder.join("labels.csv"), &self.labels)?;
        let note = format!(
            "SIMULATED: made by `eval make-fleet --seed {} --machines {} --days {} --minutes {}`.\n\
             No machine of this folder exists.\n",
            plan.seed, plan.machines, plan.days, plan.minutes
        );
        let path = folder.join("README.txt");
        std::fs::write(&path, note)
            .with_context(|| format!("failed to read or write the file {}", path.display()))
    }
}

fn csv<T: Serialize>(path: &Path, rows: impl IntoIterator<Item = T>) -> Result<()> {
    let shown = || format!("failed to read or write the file {}", path.display());
    let file = File::create(path).with_context(shown)?;
    let mut writer = csv::Writer::from_writer(BufWriter::new(file));
    for row in rows {
        writer.serialize(row).with_context(shown)?;
    }
    writer.flush().with_context(shown)?;
    let mut inner = writer.into_inner().map_err(|error| error.into_error())?;
    inner.flush().with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_fleet_and_another_one_a_different_one() {
        let plan = |seed| Plan {
            seed,
            machines: 30,
            days: 3,
            minutes: 5,
        };
        let fleet = |seed| Fleet::make(plan(seed)).expect("it is made");
        let one = fleet(1);
        assert_eq!(one.rows, fleet(1).rows);
        assert_ne!(one.rows, fleet(2).rows);
        assert_eq!(one.rows.len(), 30);
        assert!(one.rows.iter().all(|rows| rows.len() == 3 * 288));
        assert!(
            one.rows
                .iter()
                .flatten()
                .all(|row| row.simulated == Some(true))
        );
    }
}
