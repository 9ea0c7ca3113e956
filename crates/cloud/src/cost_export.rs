//! The bill from exports in a folder or a bucket: AWS Cost and Usage Report 2.0, or FOCUS 1.x, as
//! CSV or Parquet. A month with a file that cannot be read is left out, and a gap says so.

mod amount;
mod bill;
mod charge;
mod columns;
mod day_print;
mod export_file;
mod place;
mod repeated_rows;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use ebb_model::bill::{BilledDay, ResourceCost};
use ebb_model::inventory::commitments::Commitment;
use ebb_model::policy::Policy;
use ebb_model::text_file::bad_lines::BadLines;
use ebb_model::visibility_gap::{Gap, Refused};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::safe_text::counted;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::runtime::Handle;

use crate::ports::{BillSource, BillVersion, CloudError, CloudResult, Listed, Objects};
use crate::store::ranges::{BlockFile, BlockReader};
use crate::store::{StoreError, StoreObjects};
use bill::ExportBill;
use day_print::{CopiedDays, FilePrint, FilePrints};
use export_file::{FileProblem, RowSink, csv_rows, parquet_rows};
use place::{FileForm, PeriodFiles};
use repeated_rows::RepeatedRows;
use sums::{DayRange, PeriodSums};

/// Number of days, the same as for a bill of Cost Explorer.
const DAYS: i32 = 14;

/// The most files of a place. An export that keeps every refresh has some thousands a year.
const MAX_LISTED: usize = 50_000;

/// The most bytes of the files of one bill, as they are stored.
const MAX_BYTES: u64 = 16 << 30;

/// The most bytes of a manifest, which lists columns and files.
const MAX_MANIFEST_BYTES: u64 = 4 << 20;

/// Why a place cannot be used at all.
#[derive(Debug, Error)]
pub enum CostExportError {
    /// The folder does not exist.
    #[error("the folder {0} of [costs] export does not exist")]
    NoFolder(String),
    /// The place is not valid, or the store cannot be opened.
    #[error("invalid place of [costs] export")]
    Store(#[from] StoreError),
}

/// Exports of bills in one place.
pub struct CostExport<'a> {
    place: String,
    objects: StoreObjects,
    tags: Vec<String>,
    /// Another bill, which is read only for Savings Plans.
    plans: Option<&'a dyn BillSource>,
    read: Mutex<Option<Arc<ExportBill>>>,
}

impl<'a> CostExport<'a> {
    /// Exports in a folder, or in a bucket by its URL. Days are also summed by the values of these
    /// tags. Nothing is read yet. Must be called on a Tokio runtime that outlives the value.
    ///
    /// # Errors
    /// If the place is not valid, or the folder does not exist.
    pub fn open(place: &str, tags: &BTreeSet<String>) -> Result<Self, CostExportError> {
        let path = place.strip_prefix("file://").unwrap_or(place);
        // Opening a folder would create it.
        if !place.contains("://") || place.starts_with("file://") {
            match Path::new(path).is_dir() {
                true => {}
                false => return Err(CostExportError::NoFolder(path.to_owned())),
            }
        }
        Ok(Self::new(place, StoreObjects::open(place)?, tags))
    }

    /// The exports that a policy names; `None` if it names no place.
    ///
    /// # Errors
    /// As for [`CostExport::open`].
    pub fn of_policy(policy: &Policy) -> Result<Option<Self>, CostExportError> {
        let place = policy.costs.export.as_deref();
        let open = |place| Self::open(place, &policy.metrics.cost_tags);
        place.map(open).transpose()
    }

    fn new(place: &str, objects: StoreObjects, tags: &BTreeSet<String>) -> Self {
        Self {
            place: place.trim_end_matches('/').to_owned(),
            objects,
            tags: tags.iter().cloned().collect(),
            plans: None,
            read: Mutex::new(None),
        }
    }

    /// Takes Savings Plans from another bill, because an export does not list them.
    #[must_use]
    pub fn with_plans(self, plans: Option<&'a dyn BillSource>) -> Self {
        Self { plans, ..self }
    }

    /// The bill at a time, which is read once.
    async fn bill(&self, to: Timestamp) -> Arc<ExportBill> {
        let days = window(to);
        let known = self.lock().clone();
        if let Some(known) = known.filter(|known| known.days == days) {
            return known;
        }
        let read = Arc::new(self.read(days, to).await);
        *self.lock() = Some(Arc::clone(&read));
        read
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<ExportBill>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, days: DayRange, to: Timestamp) -> ExportBill {
        let mut bill = ExportBill::new(&self.place, days, &self.tags);
        bill.may_be_copied = self.objects.folder().is_some();
        let periods = match self.periods(days).await {
            Ok(periods) => periods,
            Err(refused) => {
                bill.gaps.push(refused.gap(bill.scope()));
                return bill;
            }
        };
        let mut rows = 0;
        for mut period in periods {
            let read = self.read_period(&mut period, days, &mut rows).await;
            bill.add(&period, read);
        }
        bill.close(to);
        bill
    }

    /// The files of each period.
    async fn periods(&self, days: DayRange) -> Result<Vec<PeriodFiles>, Refused> {
        let listed = self.list().await.map_err(|error| self.refused(error))?;
        if listed.len() >= MAX_LISTED {
            let why = format!(
                "more than {MAX_LISTED} files; name the folder of one export, or let it overwrite \
                 its files"
            );
            return Err(Refused::because(why));
        }
        let problem = |problem: place::PlaceProblem| Refused::because(problem.to_string());
        place::choose(listed, days).map_err(problem)
    }

    async fn list(&self) -> CloudResult<Vec<Listed>> {
        self.objects.list("", None, MAX_LISTED).await
    }

    fn refused(&self, error: CloudError) -> Refused {
        let words = match self.objects.folder() {
            Some(_) => "; check the rights of the folder",
            None => {
                "; the role needs s3:ListBucket on the bucket and s3:GetObject on its objects, and \
                 kms:Decrypt if it is encrypted with a key of yours"
            }
        };
        Refused::from(error).and(words)
    }

    /// Reads the files of a period; the problem of a file is an error, and so is a missing one.
    async fn read_period(
        &self,
        period: &mut PeriodFiles,
        days: DayRange,
        rows: &mut u64,
    ) -> Result<ReadPeriod, Gap> {
        if let Some(manifest) = &period.manifest {
            let (key, scope) = (manifest.key.clone(), self.scope_of(&manifest.key));
            let object = self.objects.get(&key, MAX_MANIFEST_BYTES).await;
            let object = object.map_err(|error| self.refused(error).gap(scope.clone()))?;
            let selected = period.select(&object.bytes);
            selected.map_err(|problem| Gap::new(scope, problem.to_string()))?;
        }
        let bytes: u64 = period.files.iter().map(|file| file.bytes).sum();
        if bytes > MAX_BYTES {
            let why = format!("{bytes} bytes, more than {MAX_BYTES}; export days instead of hours");
            return Err(Gap::new(self.scope_of(""), why));
        }
        let mut read = ReadPeriod::default();
        for file in &period.files {
            let (at, scope) = (file.key.as_str(), self.scope_of(&file.key));
            let job = FileJob {
                file: BlockFile::new(self.objects.clone(), at, file.bytes, Handle::current()),
                form: place::form(at).unwrap_or(FileForm::Csv),
                days,
                tags: self.tags.clone(),
                read,
                print: FilePrint::default(),
                // The files that a manifest names are one delivery.
                repeated: period.manifest.is_none().then(RepeatedRows::default),
                rows: *rows,
            };
            // Reading waits for parts of the file.
            let done = tokio::task::spawn_blocking(move || job.run()).await;
            let (job, result) = done.map_err(|error| Gap::new(scope.clone(), error.to_string()))?;
            (read, *rows) = (job.read, job.rows);
            result.map_err(|problem| Gap::new(scope.clone(), problem.to_string()))?;
            read.add_repeated(at, job.repeated.as_ref(), &scope)?;
            if period.manifest.is_none()
                && let Some(copied) = read.prints.add(at, job.print)
            {
                return Err(Gap::new(scope, twice(&copied)));
            }
        }
        Ok(read)
    }

    fn scope_of(&self, key: &str) -> String {
        match key {
            "" => format!("cost export {}", self.place),
            key => format!("cost export {}/{key}", self.place),
        }
    }
}

/// A wrong bill is worse than none.
fn twice(copied: &CopiedDays) -> String {
    let days = counted(copied.count, "day", "days");
    format!(
        "it has {days} from {} on with the same rows as {}, so their costs would count twice; keep \
         the newest file of each month only",
        copied.first, copied.of
    )
}

/// The content of a period.
#[derive(Debug, Default)]
struct ReadPeriod {
    sums: PeriodSums,
    prints: FilePrints,
    /// The invalid rows of each file that has some.
    bad: Vec<(String, BadLines)>,
    /// A sentence for each file with a few repeated rows.
    repeated: Vec<String>,
}

impl ReadPeriod {
    /// Refuses a file that is its own copy. A few equal rows count, and are reported.
    fn add_repeated(
        &mut self,
        file: &str,
        rows: Option<&RepeatedRows>,
        scope: &str,
    ) -> Result<(), Gap> {
        let Some((rows, words)) = rows.and_then(|rows| Some((rows, rows.words(file)?))) else {
            return Ok(());
        };
        if rows.is_copy() {
            let why = format!("{words}; their costs would count twice; deliver the file again");
            return Err(Gap::new(scope, why));
        }
        self.repeated.push(words);
        Ok(())
    }
}

/// The reading of one file, on a thread that may wait.
struct FileJob {
    file: BlockFile,
    form: FileForm,
    days: DayRange,
    tags: Vec<String>,
    read: ReadPeriod,
    print: FilePrint,
    repeated: Option<RepeatedRows>,
    rows: u64,
}

impl FileJob {
    fn run(mut self) -> (Self, Result<(), FileProblem>) {
        let mut bad = BadLines::default();
        let mut sink = RowSink {
            file: self.file.key(),
            days: self.days,
            tags: &self.tags,
            sums: &mut self.read.sums,
            print: &mut self.print,
            repeated: self.repeated.as_mut(),
            bad: &mut bad,
            rows: &mut self.rows,
        };
        let result = match self.form {
            FileForm::Csv => csv_rows::read(self.file.reader(0), &mut sink),
            FileForm::Parquet => parquet_rows::read(ParquetBlocks(self.file.clone()), &mut sink),
        };
        if bad.count() > 0 {
            self.read.bad.push((self.file.key().to_owned(), bad));
        }
        (self, result)
    }
}

/// A file as the library for Parquet reads it.
struct ParquetBlocks(BlockFile);

impl Length for ParquetBlocks {
    fn len(&self) -> u64 {
        self.0.length()
    }
}

impl ChunkReader for ParquetBlocks {
    type T = BlockReader;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.0.reader(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.0.length()) {
            let why = format!("a block of {length} bytes at {start} is beyond the end of the file");
            return Err(ParquetError::EOF(why));
        }
        let mut bytes = vec![0; length];
        io::Read::read_exact(&mut self.0.reader(start), &mut bytes)?;
        Ok(bytes.into())
    }
}

/// The days before that of a time.
fn window(to: Timestamp) -> DayRange {
    let end = to.to_zoned(TimeZone::UTC).date();
    DayRange {
        first: end.saturating_sub(DAYS.days()),
        end,
    }
}

#[async_trait]
impl BillSource for CostExport<'_> {
    async fn by_resource(&self, to: Timestamp) -> CloudResult<BTreeMap<NodeId, ResourceCost>> {
        Ok(self.bill(to).await.by_resource.clone())
    }

    async fn by_day(&self, to: Timestamp, _tags: &[String]) -> CloudResult<Vec<BilledDay>> {
        Ok(self.bill(to).await.by_day.clone())
    }

    async fn version(&self) -> BillVersion {
        // The next read reports what is wrong.
        let Ok(listed) = self.list().await else {
            return BillVersion::Unknown;
        };
        let mut hash = Sha256::new();
        hash.update(format!("{}\n{:?}\n", self.place, self.tags));
        for file in &listed {
            let line = format!("{:?} {} {}\n", file.key, file.bytes, file.modified_at);
            hash.update(line);
        }
        // A copy in a folder has its files in any order.
        let now = self.objects.folder().is_none().then(Timestamp::now);
        let periods = now.and_then(|now| place::choose(listed, window(now)).ok());
        match periods.is_some_and(|periods| periods.iter().any(PeriodFiles::is_unfinished)) {
            true => BillVersion::Unfinished,
            false => {
                let hash = hash.finalize();
                BillVersion::Is(hash.iter().map(|byte| format!("{byte:02x}")).collect())
            }
        }
    }

    fn is_charged_for(&self) -> bool {
        false
    }

    fn gaps(&self, _to: Timestamp) -> Vec<Gap> {
        let read = self.lock().clone();
        read.map(|read| read.gaps.clone()).unwrap_or_default()
    }

    async fn plans(&self, to: Timestamp) -> CloudResult<Vec<Commitment>> {
        match self.plans {
            Some(other) => other.plans(to).await,
            None => Ok(Vec::new()),
        }
    }

    fn least_plan_requests(&self) -> u64 {
        self.plans.map_or(0, BillSource::least_plan_requests)
    }

    fn take_gaps(&self) -> Vec<Gap> {
        self.plans.map(BillSource::take_gaps).unwrap_or_default()
    }

    fn requests(&self) -> u64 {
        self.plans.map_or(0, BillSource::requests)
    }
}
