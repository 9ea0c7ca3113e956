//! A stand-in for the lake, in memory: appends, batch numbers and reads have the semantics
//! that `ebb_lake::Lake` documents. A test below compares it with the real tables.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ebb_ingest::event_log::EventLog;
use ebb_lake::{Appended, Batch, Commits, EvaluatedFinding, LakeError, Since, Table, Window};
use ebb_lake::{Upkeep, UpkeepCounts};
use ebb_model::cost_record::CostRecord;
use ebb_model::node_hour::NodeHourRecord;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// One version of a table.
struct Commit<R> {
    /// `None` for the version that creates the table.
    batch: Option<Batch>,
    rows: Vec<R>,
}

struct Log<R>(Vec<Commit<R>>);

impl<R> Default for Log<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R: Clone> Log<R> {
    fn newest(&self) -> Option<u64> {
        (self.0.len() as u64).checked_sub(1)
    }

    fn last_batch(&self, shard: Shard) -> Option<u64> {
        let batches = self.0.iter().rev().filter_map(|commit| commit.batch);
        let own = batches.filter(|batch| batch.shard == shard);
        own.map(|batch| batch.number).next()
    }

    /// Whether later commits of another number of shards may contain rows of this shard's nodes.
    fn has_unknown(&self, batch: &Batch) -> bool {
        let first = batch.known.map_or(0, |known| known + 1);
        let commits = self.0.iter().skip(usize::try_from(first).expect("few"));
        let mut others = commits.filter_map(|commit| Some(commit.batch?.shard));
        others.any(|other| other != batch.shard && other.meets(batch.shard))
    }

    fn append(&mut self, rows: &[R], batch: &Batch, numbers: Numbers) -> Appended {
        if self.0.is_empty() {
            self.0.push(Commit {
                batch: None,
                rows: Vec::new(),
            });
        }
        let version = self.newest().unwrap_or_default();
        let is_there = self.last_batch(batch.shard) >= Some(batch.number);
        let is_refused = match numbers {
            Numbers::Checked => is_there || self.has_unknown(batch),
            Numbers::OtherShardsIgnored => is_there,
            Numbers::Ignored => false,
        };
        if is_refused {
            return Appended::AlreadyThere(version);
        }
        self.0.push(Commit {
            batch: Some(*batch),
            rows: rows.to_vec(),
        });
        Appended::Committed(version + 1)
    }

    fn since(&self, commits: Commits, max_rows: usize) -> Since<R> {
        let newest = match commits.before {
            Some(before) => before.checked_sub(1),
            None => self.newest(),
        };
        let mut since = Since {
            rows: Vec::new(),
            through: None,
            newest,
        };
        let Some(newest) = newest else {
            return since;
        };
        since.through = commits.after;
        for version in commits.after.map_or(0, |version| version + 1)..=newest {
            let commit = &self.0[usize::try_from(version).expect("a small number")];
            let batch = commit.batch.filter(|batch| batch.shard.of > 1);
            let rows = match batch.is_none_or(|batch| batch.shard.meets(commits.shard)) {
                true => commit.rows.as_slice(),
                false => &[],
            };
            if !since.rows.is_empty() && since.rows.len() + rows.len() > max_rows {
                break;
            }
            since.rows.extend_from_slice(rows);
            since.through = Some(version);
        }
        since
    }

    fn rows(&self) -> impl Iterator<Item = &R> {
        self.0.iter().flat_map(|commit| &commit.rows)
    }
}

/// Whether an append checks its batch number and other numbers of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    Checked,
    OtherShardsIgnored,
    Ignored,
}

#[derive(Default)]
struct Tables {
    heartbeats: Log<Placed>,
    steps: Log<PlacedStep>,
    findings: Log<EvaluatedFinding>,
    costs: Log<CostRecord>,
    node_hours: Log<NodeHourRecord>,
}

/// The lake in memory. A clone is another client of the same lake.
#[derive(Clone)]
pub(crate) struct MemoryLake {
    tables: Arc<Mutex<Tables>>,
    /// The most rows that one read returns, unless a single commit has more.
    max_rows: usize,
    numbers: Numbers,
}

impl MemoryLake {
    pub(crate) fn new(max_rows: usize, numbers: Numbers) -> Self {
        Self {
            tables: Arc::default(),
            max_rows,
            numbers,
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn heartbeats(&self) -> Vec<Placed> {
        self.tables().heartbeats.rows().cloned().collect()
    }

    pub(crate) fn steps(&self) -> Vec<PlacedStep> {
        self.tables().steps.rows().cloned().collect()
    }

    /// The findings of commits from version `from`, and the version after the newest.
    pub(crate) fn findings_from(&self, from: usize) -> (Vec<EvaluatedFinding>, usize) {
        let tables = self.tables();
        let commits = &tables.findings.0;
        let new = commits.iter().skip(from);
        let rows = new.flat_map(|commit| commit.rows.iter().cloned());
        (rows.collect(), commits.len())
    }
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

#[async_trait]
impl EventLog for MemoryLake {
    async fn last_batch(&self, table: Table, shard: Shard) -> Result<Option<u64>, LakeError> {
        let tables = self.tables();
        Ok(match table {
            Table::Heartbeats => tables.heartbeats.last_batch(shard),
            Table::Steps => tables.steps.last_batch(shard),
            Table::Findings => tables.findings.last_batch(shard),
            Table::Costs => tables.costs.last_batch(shard),
            Table::NodeHours => tables.node_hours.last_batch(shard),
        })
    }

    async fn append_heartbeats(
        &self,
        rows: &[Placed],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Ok(self.tables().heartbeats.append(rows, batch, self.numbers))
    }

    async fn append_steps(
        &self,
        rows: &[PlacedStep],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        Ok(self.tables().steps.append(rows, batch, self.numbers))
    }

    async fn append_findings(
        &self,
        rows: &[EvaluatedFinding],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let mut tables = self.tables();
        let known = tables.findings.newest();
        let batch = Batch { known, ..*batch };
        Ok(tables.findings.append(rows, &batch, self.numbers))
    }

    async fn append_costs(
        &self,
        rows: &[CostRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let mut tables = self.tables();
        let known = tables.costs.newest();
        let batch = Batch { known, ..*batch };
        Ok(tables.costs.append(rows, &batch, self.numbers))
    }

    async fn append_node_hours(
        &self,
        rows: &[NodeHourRecord],
        batch: &Batch,
    ) -> Result<Appended, LakeError> {
        let mut tables = self.tables();
        let known = tables.node_hours.newest();
        let batch = Batch { known, ..*batch };
        Ok(tables.node_hours.append(rows, &batch, self.numbers))
    }

    async fn costs_between(&self, from: Date, to: Date) -> Result<Window<CostRecord>, LakeError> {
        let tables = self.tables();
        let mut rows: Vec<CostRecord> = tables.costs.rows().cloned().collect();
        rows.retain(|row| (from..=to).contains(&row.day));
        Ok(Window { rows, left_out: 0 })
    }

    async fn heartbeats_since(&self, commits: Commits) -> Result<Since<Placed>, LakeError> {
        Ok(self.tables().heartbeats.since(commits, self.max_rows))
    }

    async fn steps_since(&self, commits: Commits) -> Result<Since<PlacedStep>, LakeError> {
        Ok(self.tables().steps.since(commits, self.max_rows))
    }

    async fn steps_between(&self, from: Date, to: Date) -> Result<Window<PlacedStep>, LakeError> {
        let tables = self.tables();
        let mut rows: Vec<PlacedStep> = tables.steps.rows().cloned().collect();
        rows.retain(|step| (from..=to).contains(&day(step.observed_at)));
        rows.sort_by_key(|step| std::cmp::Reverse(day(step.observed_at)));
        Ok(Window { rows, left_out: 0 })
    }

    /// Files do not exist here.
    async fn keep_up(&self, _: Table, _: &Upkeep<'_>) -> Result<UpkeepCounts, LakeError> {
        Ok(UpkeepCounts::default())
    }
}

#[cfg(test)]
mod tests {
    use ebb_lake::Lake;

    use super::*;
    use crate::probe;

    /// Batches of two numbers of shards, repeats and gaps among them.
    const BATCHES: [(u16, u16, u64); 12] = [
        (0, 1, 0),
        (0, 1, 0),
        (0, 1, 1),
        (0, 2, 0),
        (1, 2, 0),
        (1, 2, 3),
        (1, 2, 2),
        (0, 1, 1),
        (0, 1, 2),
        (2, 3, 0),
        (3, 4, 0),
        (2, 4, 0),
    ];

    async fn check_reads(real: &Lake, memory: &MemoryLake, newest: u64) {
        let befores = [None, Some(1), Some(newest)];
        let afters = [None, Some(0), Some(2), Some(newest)];
        let shards = [(0, 1), (0, 2), (1, 2), (2, 3)];
        for (before, after) in befores.iter().flat_map(|b| afters.map(|a| (*b, a))) {
            if before.is_some_and(|before| after >= Some(before)) {
                continue;
            }
            for (index, of) in shards {
                let shard = Shard { index, of };
                let commits = Commits {
                    after,
                    before,
                    shard,
                };
                let theirs = real.heartbeats_since(commits).await.expect("it is read");
                let ours = memory.heartbeats_since(commits).await.expect("it is read");
                assert_eq!(ours, theirs, "{commits:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_stand_in_answers_as_the_real_tables_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}/lake", folder.path().display());
        let real = Lake::open(&url).await.expect("a lake");
        let memory = MemoryLake::new(200_000, Numbers::Checked);
        let all = Commits::after(None);
        let theirs = real.heartbeats_since(all).await.expect("real");
        let ours = EventLog::heartbeats_since(&memory, all).await;
        assert_eq!(ours.expect("in memory"), theirs, "before the first commit");
        let mut newest: u64 = 0;
        for (n, (index, of, number)) in BATCHES.into_iter().enumerate() {
            let shard = Shard { index, of };
            // Half of them know all that came before, and half the version of two before.
            let known = match n % 2 {
                0 => newest.checked_sub(2),
                _ => Some(newest),
            };
            let batch = Batch {
                shard,
                number,
                known,
            };
            let rows = probe::placed_rows(n as u64);
            let theirs = real.append_heartbeats(&rows, &batch).await.expect("real");
            let ours = EventLog::append_heartbeats(&memory, &rows, &batch).await;
            let ours = ours.expect("in memory");
            assert_eq!(ours, theirs, "{batch:?}");
            let (Appended::Committed(version) | Appended::AlreadyThere(version)) = ours;
            newest = version;
            for shard in [shard, Shard { index: 0, of: 3 }] {
                let table = Table::Heartbeats;
                let theirs = real.last_batch(table, shard).await.expect("real");
                let ours = EventLog::last_batch(&memory, table, shard).await;
                assert_eq!(ours.expect("in memory"), theirs, "{shard:?}");
            }
        }
        check_reads(&real, &memory, newest).await;
        let none: Vec<Placed> = Vec::new();
        let shard = Shard::ONLY;
        let empty = Batch {
            shard,
            number: 9,
            known: Some(newest),
        };
        let theirs = real.append_heartbeats(&none, &empty).await.expect("real");
        let ours = EventLog::append_heartbeats(&memory, &none, &empty).await;
        assert_eq!(ours.expect("in memory"), theirs, "a commit without rows");
    }
}
