//! Rules for idle machines by CPU alone. Each rule sees the first half of a day; a flagged machine
//! is wrong if it is busy in the second half.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_telemetry::units::Share;
use flate2::read::GzDecoder;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::table;

/// Samples of a day, and the seconds that each averages.
const SAMPLES: usize = 288;
const PERIOD_SECONDS: u32 = 300;

/// CPU per cent from which a machine counts as busy.
const BUSY: u32 = 20;

/// Shares of flagged machines at which the score is evaluated, in addition to those of the rules.
const SHARES: [f64; 3] = [0.05, 0.15, 0.4];

/// One machine's day.
struct Day {
    first: Vec<u32>,
    is_busy_later: bool,
}

/// A rule, or the score at one share.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Flagging {
    rule: String,
    flagged: usize,
    wrong: usize,
    /// Wrong flags of the score if it flags the same number of machines.
    score_wrong: usize,
}

/// One day of all machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct DayScore {
    day: String,
    machines: usize,
    busy_later: usize,
    /// Position of the first machine that was busy later, sorted by the score with the least active
    /// first. A method that flags by activity alone up to this position is wrong at least once.
    first_wrong: Option<usize>,
    rules: Vec<Flagging>,
}

/// Scores every day in the archives of a folder.
///
/// # Errors
/// Names the file that is not valid.
pub(crate) fn score_all(folder: &Path) -> Result<Vec<DayScore>> {
    let mut days: BTreeMap<String, Vec<Day>> = BTreeMap::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("failed to read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".tar.gz") {
            read(&path, &mut days)
                .with_context(|| format!("failed to read the archive {}", path.display()))?;
        }
    }
    ensure!(
        !days.is_empty(),
        "no archive *.tar.gz in {}",
        folder.display()
    );
    Ok(days
        .into_iter()
        .map(|(day, machines)| score(day, &machines))
        .collect())
}

fn read(path: &Path, days: &mut BTreeMap<String, Vec<Day>>) -> Result<()> {
    let mut archive = tar::Archive::new(GzDecoder::new(BufReader::new(File::open(path)?)));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.to_path_buf();
        let day = name
            .parent()
            .unwrap_or(Path::new(""))
            .to_string_lossy()
            .into_owned();
        let mut text = String::new();
        entry
            .read_to_string(&mut text)
            .with_context(|| format!("{}", name.display()))?;
        let machine = parse(&text).with_context(|| format!("{}", name.display()))?;
        days.entry(day).or_default().push(machine);
    }
    Ok(())
}

fn parse(text: &str) -> Result<Day> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for (i, word) in text.split_whitespace().enumerate() {
        match word.parse::<u32>() {
            Ok(percent @ 0..=100) => samples.push(percent),
            _ => bail!("sample {}: {word} is not a percentage", i + 1),
        }
    }
    ensure!(
        samples.len() == SAMPLES,
        "{} samples instead of {SAMPLES}",
        samples.len()
    );
    let later = samples.split_off(SAMPLES / 2);
    Ok(Day {
        first: samples,
        is_busy_later: later.iter().any(|percent| *percent >= BUSY),
    })
}

fn mean(day: &Day) -> f64 {
    f64::from(day.first.iter().sum::<u32>()) / day.first.len() as f64
}

fn peak(day: &Day) -> u32 {
    day.first.iter().copied().max().unwrap_or(0)
}

type DayRule = (&'static str, fn(&Day) -> bool);

/// The CPU parts of published rules. Their windows of days are shortened to the available half day;
/// the parts about network, memory or GPU are left out.
const RULES: [DayRule; 6] = [
    ("Compute Optimizer: peak < 5 %", |day| peak(day) < 5),
    ("Trusted Advisor: mean <= 10 %", |day| mean(day) <= 10.0),
    ("OptScale: mean <= 5 %", |day| mean(day) <= 5.0),
    ("awsspectre: mean < 5 %, peak < 30 %", |day| {
        mean(day) < 5.0 && peak(day) < 30
    }),
    ("ParallelCluster: idle for 10 minutes", |day| {
        day.first.iter().rev().take(2).all(|percent| *percent < 5)
    }),
    ("ebb without a probe: idle for 6 hours", |day| {
        day.first.iter().rev().take(72).all(|percent| *percent < 5)
    }),
];

/// The score that Ebb uses to sort machines with metrics only; see [`MetricSeries::hourly_peak`].
fn score_of(day: &Day) -> Share {
    let end = |i: usize| {
        let seconds = (i as i64 + 1) * i64::from(PERIOD_SECONDS);
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    };
    let points = day
        .first
        .iter()
        .enumerate()
        .map(|(i, percent)| MetricPoint {
            cpu_max: Some(Share::from_ppm(percent * 10_000)),
            ..MetricPoint::new(end(i), PERIOD_SECONDS)
        });
    let series: MetricSeries = points.collect();
    series.hourly_peak().unwrap_or(Share::from_ppm(1_000_000))
}

fn score(day: String, machines: &[Day]) -> DayScore {
    let mut by_score: Vec<(Share, &Day)> = machines.iter().map(|m| (score_of(m), m)).collect();
    by_score.sort_by_key(|(score, _)| *score);
    let wrong_among = |count: usize| {
        by_score[..count]
            .iter()
            .filter(|m| m.1.is_busy_later)
            .count()
    };
    let mut rules: Vec<Flagging> = SHARES
        .iter()
        .map(|share| {
            let flagged = (machines.len() as f64 * share).round() as usize;
            Flagging {
                rule: format!("the {:.0} % with the least CPU", 100.0 * share),
                flagged,
                wrong: wrong_among(flagged),
                score_wrong: wrong_among(flagged),
            }
        })
        .collect();
    rules.extend(RULES.iter().map(|(rule, flags)| {
        let flagged: Vec<&Day> = machines.iter().filter(|m| flags(m)).collect();
        Flagging {
            rule: (*rule).to_owned(),
            flagged: flagged.len(),
            wrong: flagged.iter().filter(|m| m.is_busy_later).count(),
            score_wrong: wrong_among(flagged.len()),
        }
    }));
    DayScore {
        day,
        machines: machines.len(),
        busy_later: machines.iter().filter(|m| m.is_busy_later).count(),
        first_wrong: (by_score.iter())
            .position(|m| m.1.is_busy_later)
            .map(|place| place + 1),
        rules,
    }
}

/// One table for each day.
pub(crate) fn tables(days: &[DayScore]) -> String {
    let mut text = String::from(
        "Idle machines from CPU use only. A rule reports a machine from the first half of a day. \
         The\nreport is wrong if a sample of the second half is 20 % or more. Score: mean of the \
         greatest\nsample of each hour, with the same number of reported machines.\n",
    );
    for day in days {
        let rows: Vec<Vec<String>> = day
            .rules
            .iter()
            .map(|rule| rule.row(day.machines))
            .collect();
        let first = match day.first_wrong {
            Some(place) => format!(", the first one at place {place} of the score"),
            None => String::new(),
        };
        text.push_str(&format!(
            "\n{}: {} machines, {} of them busy later{first}\n{}",
            day.day,
            day.machines,
            day.busy_later,
            table::lines(&["", "flagged", "wrong", "wrong by score"], &rows)
        ));
    }
    text
}

impl Flagging {
    fn row(&self, machines: usize) -> Vec<String> {
        let part = |count: usize, of: usize| match of {
            0 => "-".to_owned(),
            _ => format!("{:.1} %", 100.0 * count as f64 / of as f64),
        };
        vec![
            self.rule.clone(),
            part(self.flagged, machines),
            part(self.wrong, self.flagged),
            part(self.score_wrong, self.flagged),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(first: u32, later: u32) -> Day {
        let text: String = (0..SAMPLES)
            .map(|i| format!("{}\n", if i < SAMPLES / 2 { first } else { later }))
            .collect();
        parse(&text).expect("a day")
    }

    #[test]
    fn what_is_flagged_and_busy_later_is_wrong() {
        let machines = [day(1, 1), day(2, 90), day(50, 50)];
        let scored = score("made up".to_owned(), &machines);
        let optimizer = scored
            .rules
            .iter()
            .find(|r| r.rule.starts_with("Compute"))
            .expect("it is there");
        assert_eq!(
            (optimizer.flagged, optimizer.wrong, optimizer.score_wrong),
            (2, 1, 1)
        );
        assert_eq!((scored.busy_later, scored.first_wrong), (2, Some(2)));
    }

    #[test]
    fn what_is_no_percentage_or_no_day_is_refused_with_its_place() {
        let check = |text: &str, expect: &str| {
            let error = parse(text).err().expect(expect).to_string();
            assert!(error.contains(expect), "{error}");
        };
        check("1 2 x", "sample 3: x");
        check("1 101", "sample 2: 101");
        check("1 2 3", "3 samples");
    }
}
