//! Reads kinds of workloads, their intervals and the histories that consist of them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Minutes of a history.
pub(super) const FORTNIGHT: usize = 14 * 24 * 60;

/// A kind of workload.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct HistoryKind {
    kind: String,
    pub(super) used: bool,
    pub(super) sets_threshold: bool,
    origin: String,
}

impl HistoryKind {
    pub(super) fn is_simulated(&self) -> bool {
        self.origin == "simulated"
    }
}

/// One interval of a kind; a value is `None` if it is unknown.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Interval {
    pub(super) seconds: u64,
    pub(super) workload_cpu_ms: Option<u64>,
    pub(super) workload_disk_bytes: Option<u64>,
    pub(super) network_bytes: Option<u64>,
    pub(super) gpu_ppm: Option<u32>,
    pub(super) typed_ago_seconds: Option<u64>,
    /// CPU time including agents.
    pub(super) all_cpu_ms: u64,
    pub(super) cores_milli: u64,
    pub(super) coverage_ppm: u32,
}

/// A number of minutes of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: String,
    pub(super) minutes: usize,
}

#[derive(Deserialize)]
struct Line {
    history: String,
    kind: String,
    used: bool,
    cycle: String,
    tail: String,
    phase: usize,
}

/// Two weeks of a node.
#[derive(Debug, Clone)]
pub(super) struct History {
    /// The kind that the label describes.
    pub(super) kind: String,
    pub(super) used: bool,
    pub(super) cycle: Vec<Segment>,
    /// Segments that replace the end.
    pub(super) tail: Vec<Segment>,
    pub(super) phase: usize,
}

/// The content of a folder.
pub(super) struct Set {
    pub(super) kinds: BTreeMap<String, HistoryKind>,
    intervals: BTreeMap<String, Vec<Interval>>,
    pub(super) histories: Vec<History>,
}

impl Set {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let kinds: Vec<HistoryKind> = rows(&folder.join("kinds.csv"))?;
        let kinds = kinds.into_iter().map(|k| (k.kind.clone(), k)).collect();
        let mut set = Self {
            kinds,
            intervals: BTreeMap::new(),
            histories: Vec::new(),
        };
        for line in rows::<Line>(&folder.join("histories.csv"))? {
            let name = line.history.clone();
            let history = set.history(folder, line);
            set.histories
                .push(history.with_context(|| format!("invalid history {name}"))?);
        }
        ensure!(!set.histories.is_empty(), "histories.csv has no rows");
        Ok(set)
    }

    fn history(&mut self, folder: &Path, line: Line) -> Result<History> {
        let Some(kind) = self.kinds.get(&line.kind) else {
            bail!("kinds.csv has no kind {}", line.kind);
        };
        ensure!(kind.used == line.used, "kinds.csv has a different label");
        let (cycle, tail) = (segments(&line.cycle)?, segments(&line.tail)?);
        ensure!(!cycle.is_empty(), "no cycle");
        for segment in cycle.iter().chain(&tail) {
            if !self.intervals.contains_key(&segment.kind) {
                let file = format!("intervals/{}.csv", segment.kind);
                let read: Vec<Interval> = rows(&folder.join(&file))?;
                ensure!(!read.is_empty(), "{file} has no interval");
                self.intervals.insert(segment.kind.clone(), read);
            }
        }
        Ok(History {
            kind: line.kind,
            used: line.used,
            cycle,
            tail,
            phase: line.phase,
        })
    }

    /// The history minute by minute.
    pub(super) fn minutes<'a>(
        &'a self,
        history: &'a History,
    ) -> impl Iterator<Item = Interval> + 'a {
        let cycle = self.laid_out(&history.cycle);
        let tail = self.laid_out(&history.tail);
        let before = FORTNIGHT.saturating_sub(tail.len());
        (0..FORTNIGHT).map(move |minute| {
            let number = minute + history.phase;
            let intervals = match minute.checked_sub(before) {
                Some(of_tail) => tail[of_tail],
                None => cycle[number % cycle.len()],
            };
            intervals[number % intervals.len()]
        })
    }

    fn laid_out(&self, segments: &[Segment]) -> Vec<&[Interval]> {
        let each = segments.iter().map(|segment| {
            let intervals = self.intervals[&segment.kind].as_slice();
            std::iter::repeat_n(intervals, segment.minutes)
        });
        each.flatten().collect()
    }
}

fn segments(text: &str) -> Result<Vec<Segment>> {
    let parts = text.split(';').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (kind, minutes) = part.split_once(':').unwrap_or((part, ""));
            match minutes.parse() {
                Ok(minutes @ 1..=FORTNIGHT) => Ok(Segment {
                    kind: kind.to_owned(),
                    minutes,
                }),
                _ => bail!("{part} is not KIND:MINUTES of at most 14 days"),
            }
        })
        .collect()
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let name = || format!("failed to read or write the file {}", path.display());
    let mut reader = csv::Reader::from_path(path).with_context(name)?;
    let rows: Result<Vec<T>, csv::Error> = reader.deserialize().collect();
    rows.with_context(name)
}
