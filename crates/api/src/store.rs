//! State that requests share: the report, the prices and the decisions. Reading a
//! report takes longer than any answer. Only this module and `decisions` do I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_catalog::catalog::Catalogue;
use ebb_cloud::documents::prices::BestKnown;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::documents::run_opening::read_opening;
use ebb_cloud::documents::run_tasks::{RunPart, RunTasks, read_part, read_run, run_key};
use ebb_cloud::documents::task_lists::{
    DetailError, DetailFolder, DetailIndex, INDEX, read_index, read_shared,
};
use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::{CloudError, Objects};
use ebb_model::report::Report;
use ebb_model::report::run_opening::RunOpening;
use ebb_model::report::task_detail::{TaskDetail, TaskList};
use ebb_report::report_file;
use ebb_report::report_file::ReportFileError;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::detail_cache::{DetailCache, DocumentPlace, is_unchanged};
use crate::extract::Moment;
use crate::openapi::Document;
use crate::page_access::PageAccess;
use crate::problem::Problem;
use crate::slack_signature::SigningSecret;

/// 10,000 steps, nodes and findings take about 60 MB.
const MAX_REPORT_BYTES: u64 = 96 << 20;

/// How long a report or decision is used without looking for a newer one, unless the server says
/// otherwise. Clients may keep an
/// answer for a minute, so nobody sees data that is out of date by more than a minute and a half.
pub(crate) const REFRESH: Duration = Duration::from_secs(30);

/// The same for list prices, which change from week to week.
const PRICES_TRUSTED: Duration = Duration::from_secs(3600);

/// The ids of findings that a decision sets aside.
pub(crate) type SetAside = BTreeSet<String>;

/// The bucket, and what was read from it.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn Objects>,
    /// How long a report or decision is used without looking for a newer one.
    pub(crate) refresh: Duration,
    pub(crate) document: Document,
    /// The secret of actions in Slack; `None` if they are not accepted.
    pub(crate) slack: Option<SigningSecret>,
    pub(crate) pages: PageAccess,
    held: Mutex<Option<Held>>,
    prices: Mutex<Option<(Arc<Catalogue>, Instant)>>,
    /// The findings that decisions set aside, and when they were read.
    decided: Mutex<Option<(Arc<SetAside>, Instant)>>,
    details: DetailCache,
}

/// The newest report as of the last check.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) report: Arc<Report>,
    pub(crate) version: String,
    modified_at: Timestamp,
    checked_at: Instant,
}

impl Store {
    pub(crate) fn new(
        objects: Arc<dyn Objects>,
        document: Document,
        (slack, pages): (Option<SigningSecret>, PageAccess),
        refresh: Duration,
    ) -> Self {
        Self {
            objects,
            refresh,
            document,
            slack,
            pages,
            held: Mutex::new(None),
            prices: Mutex::new(None),
            decided: Mutex::new(None),
            details: DetailCache::default(),
        }
    }

    /// The findings that decisions set aside at `moment`; empty if they cannot be read.
    pub(crate) async fn set_aside(&self, moment: Moment) -> Arc<SetAside> {
        let mut held = self.decided.lock().await;
        if let Some((set_aside, checked_at)) = held.as_ref()
            && moment.now.saturating_duration_since(*checked_at) < self.refresh
        {
            return Arc::clone(set_aside);
        }
        let set_aside = match ebb_cloud::documents::decisions::load(&*self.objects).await {
            Ok(all) => {
                let holding = all.findings.into_iter();
                let holding = holding.filter(|(_, decision)| decision.holds_at(moment.at));
                holding.map(|(finding, _)| finding).collect()
            }
            Err(error) => {
                tracing::warn!(error = reason(&error), "failed to read the decisions");
                SetAside::new()
            }
        };
        let set_aside = Arc::new(set_aside);
        *held = Some((Arc::clone(&set_aside), moment.now));
        set_aside
    }

    /// Makes the next request read the decisions.
    pub(crate) async fn forget_decisions(&self) {
        *self.decided.lock().await = None;
    }

    /// The newest known catalogue as of the last check.
    pub(crate) async fn catalogue(&self, now: Instant) -> Arc<Catalogue> {
        let mut held = self.prices.lock().await;
        if let Some((catalogue, checked_at)) = held.as_ref()
            && now.saturating_duration_since(*checked_at) < PRICES_TRUSTED
        {
            return Arc::clone(catalogue);
        }
        let best = BestKnown::read(&*self.objects).await;
        if let Some(gap) = best.unread {
            tracing::warn!(reason = gap.reason, "failed to read the refreshed prices");
        }
        let catalogue = Arc::new(best.catalogue);
        *held = Some((Arc::clone(&catalogue), now));
        catalogue
    }

    /// Where a document is that a sweep may replace.
    fn place<'a>(&'a self, key: &'a str, now: Instant) -> DocumentPlace<'a> {
        DocumentPlace {
            objects: &*self.objects,
            key,
            now,
            trusted: self.refresh,
        }
    }

    /// The opening of a run; `None` if it is not stored, so that the tasks have to be read.
    pub(crate) async fn run_opening(
        &self,
        run: &str,
        now: Instant,
    ) -> Result<Option<Arc<RunOpening>>, Problem> {
        let read = async {
            let opening = read_opening(&*self.objects, run).await?;
            Ok(opening.map(|opening| opening.map(Arc::new)))
        };
        let key = run_key(run);
        let name = format!("{key} opening");
        let held = self.details.document(&name, self.place(&key, now), read);
        Ok(held.await.map_err(of_details)?.as_ref().clone())
    }

    /// The tasks of a run in brief; `None` if no sweep wrote them.
    pub(crate) async fn run_tasks(
        &self,
        run: &str,
        now: Instant,
    ) -> Result<Option<Arc<RunTasks>>, Problem> {
        let read = async {
            let list = read_run(&*self.objects, run).await?;
            Ok(list.map(|list| list.map(Arc::new)))
        };
        let key = run_key(run);
        let held = self.details.document(&key, self.place(&key, now), read);
        Ok(held.await.map_err(of_details)?.as_ref().clone())
    }

    /// The whole tasks of a run at these positions, without those at positions that do not exist. Each
    /// part of the run that contains one of them is read.
    pub(crate) async fn whole_tasks(
        &self,
        run: &RunTasks,
        positions: &[usize],
        now: Instant,
    ) -> Result<Vec<TaskDetail>, Problem> {
        if let Some(tasks) = run.whole() {
            let tasks = positions.iter().filter_map(|at| tasks.get(*at));
            return Ok(tasks.cloned().collect());
        }
        let parts: Vec<RunPart> = run.parts().collect();
        let mut found = Vec::with_capacity(positions.len());
        let mut held: Option<(usize, Arc<Option<Vec<TaskDetail>>>)> = None;
        for at in positions {
            let number = parts.partition_point(|part| part.positions.end <= *at);
            let Some(part) = parts.get(number) else {
                continue;
            };
            let of_number = match held.take() {
                Some((other, tasks)) if other == number => tasks,
                _ => self.part(run, part, now).await?,
            };
            let tasks = of_number.as_ref().as_ref();
            found.extend(tasks.and_then(|tasks| tasks.get(at - part.positions.start).cloned()));
            held = Some((number, of_number));
        }
        Ok(found)
    }

    /// A part of a run. A document with the same digest is the same.
    async fn part(
        &self,
        run: &RunTasks,
        part: &RunPart,
        now: Instant,
    ) -> Result<Arc<Option<Vec<TaskDetail>>>, Problem> {
        let name = format!("{} {}", part.key, part.digest);
        let read = async { Ok(Some(read_part(&*self.objects, (run, part)).await?)) };
        let place = DocumentPlace {
            trusted: Duration::MAX,
            ..self.place(&part.key, now)
        };
        let held = self.details.document(&name, place, read);
        held.await.map_err(of_details)
    }

    /// The tasks of a node; `None` if no sweep wrote them.
    pub(crate) async fn node_tasks(
        &self,
        node: &str,
        now: Instant,
    ) -> Result<Option<Arc<TaskList>>, Problem> {
        self.shared(DetailFolder::Nodes, node, now).await
    }

    /// The tasks of a step, in all regions and accounts; `None` if no sweep wrote them.
    pub(crate) async fn step_tasks(
        &self,
        step: &str,
        now: Instant,
    ) -> Result<Option<Arc<TaskList>>, Problem> {
        self.shared(DetailFolder::Steps, step, now).await
    }

    /// The explanation of a resource; `None` if no sweep wrote one.
    pub(crate) async fn explanation(
        &self,
        resource: &str,
        now: Instant,
    ) -> Result<Option<Arc<Map<String, Value>>>, Problem> {
        self.shared(DetailFolder::Explanations, resource, now).await
    }

    /// The index of the last sweep; `None` if none wrote single tasks.
    pub(crate) async fn detail_index(
        &self,
        now: Instant,
    ) -> Result<Option<Arc<DetailIndex>>, Problem> {
        let read = async {
            let index = read_index(&*self.objects).await?;
            Ok(index.map(|index| index.map(Arc::new)))
        };
        let held = self.details.document(INDEX, self.place(INDEX, now), read);
        Ok(held.await.map_err(of_details)?.as_ref().clone())
    }

    /// The entry of a name in the shared documents of a folder.
    async fn shared<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        folder: DetailFolder,
        name: &str,
        now: Instant,
    ) -> Result<Option<Arc<T>>, Problem> {
        let Some(index) = self.detail_index(now).await? else {
            return Ok(None);
        };
        let number = folder.count(&index).number_of(name);
        let key = folder.key(number);
        let read = async {
            let document = read_shared::<T>(&*self.objects, (folder, number)).await?;
            Ok(document.map(|document| document.map(in_arcs)))
        };
        let held = self.details.document(&key, self.place(&key, now), read);
        let held = held.await.map_err(of_details)?;
        Ok((held.as_ref().as_ref()).and_then(|entries| entries.get(name).cloned()))
    }

    /// The newest report.
    pub(crate) async fn newest(&self, now: Instant) -> Result<Held, Problem> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_mut() {
            if now.saturating_duration_since(held.checked_at) < self.refresh {
                return Ok(held.clone());
            }
            let unchanged = is_unchanged(&*self.objects, LATEST_JSON, held.modified_at).await;
            if unchanged.map_err(problem)? {
                held.checked_at = now;
                return Ok(held.clone());
            }
        }
        // The old report is freed first: there is no memory for two.
        *held = None;
        let fetched = self.fetch(now).await?;
        Ok(held.insert(fetched).clone())
    }

    async fn fetch(&self, now: Instant) -> Result<Held, Problem> {
        let object = self.objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
        let object = object.map_err(problem)?;
        Ok(Held {
            report: Arc::new(read(&object.bytes)?),
            version: object.etag.0,
            modified_at: object.modified_at,
            checked_at: now,
        })
    }
}

/// The entries of a document, so that each can be held alone.
fn in_arcs<T>(entries: BTreeMap<String, T>) -> BTreeMap<String, Arc<T>> {
    let entries = entries.into_iter();
    entries
        .map(|(name, entry)| (name, Arc::new(entry)))
        .collect()
}

fn read(bytes: &[u8]) -> Result<Report, Problem> {
    report_file::read(bytes).map_err(|error| {
        let cause = reason(&error);
        let help = match error {
            ReportFileError::Schema(_) => ": deploy both programs of one release",
            ReportFileError::Form(_) => "",
        };
        Problem::Report(format!("{LATEST_JSON}: {cause}{help}"))
    })
}

pub(crate) fn problem(error: CloudError) -> Problem {
    tracing::warn!(%error, "failed to read the report");
    match error {
        CloudError::Missing { .. } => Problem::NoReport,
        _ => Problem::Unreachable,
    }
}

fn of_details(error: DetailError) -> Problem {
    tracing::warn!(error = reason(&error), "failed to read a document of tasks");
    match error {
        DetailError::Cloud { .. } | DetailError::Replaced(_) => Problem::Unreachable,
        DetailError::Document { .. } => Problem::Report(error.to_string()),
    }
}
