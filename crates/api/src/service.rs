//! The API over a bucket. The report is kept in memory between requests, because reading it takes
//! longer than any answer.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_catalog::catalog::Catalogue;
use ebb_cloud::documents::prices::BestKnown;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::error_chain::reason;
use ebb_cloud::ports::{CloudError, Objects};
use ebb_model::report::Report;
use jiff::Timestamp;
use tokio::sync::Mutex;

use crate::decisions::decide;
use crate::http::{Answer, Request};
use crate::list::List;
use crate::problem::Problem;
use crate::report_parts::SetAside;
use crate::response::{JSON, etag, read, told};
use crate::route::Route;
use crate::{decisions, openapi, prices, report_parts, targets};

/// 10,000 steps, nodes and findings take about 60 MB.
const MAX_REPORT_BYTES: u64 = 96 << 20;

/// How long a report or decision is used without looking for a newer one. Clients may keep an
/// answer for a minute, so nobody sees data that is out of date by more than a minute and a half.
const TRUSTED: Duration = Duration::from_secs(30);

/// The same for list prices, which change from week to week.
const PRICES_TRUSTED: Duration = Duration::from_secs(3600);

/// The API over a bucket.
pub struct Service<'a> {
    objects: &'a dyn Objects,
    held: Mutex<Option<Held>>,
    prices: Mutex<Option<(Arc<Catalogue>, Instant)>>,
    /// The findings that decisions set aside, and when they were read.
    decided: Mutex<Option<(Arc<SetAside>, Instant)>>,
}

/// The newest report as of the last check.
#[derive(Clone)]
struct Held {
    report: Arc<Report>,
    version: String,
    modified_at: Timestamp,
    looked_at: Instant,
}

impl<'a> Service<'a> {
    /// The API over this bucket.
    pub fn new(objects: &'a dyn Objects) -> Self {
        Self {
            objects,
            held: Mutex::new(None),
            prices: Mutex::new(None),
            decided: Mutex::new(None),
        }
    }

    /// Answers one request; `now` is on a monotonic clock and `at` on the wall clock.
    pub async fn answer(&self, request: &Request, now: Instant, at: Timestamp) -> Answer {
        let answered = self.answered(request, now, at).await;
        answered.unwrap_or_else(|problem| problem.answer())
    }

    async fn answered(
        &self,
        request: &Request,
        now: Instant,
        at: Timestamp,
    ) -> Result<Answer, Problem> {
        // An answer without a report changes only with the program.
        let of_program = |body| told(JSON, body, etag("program"), request);
        match Route::of(request)? {
            Route::OpenApi => of_program(openapi::document().to_string()),
            Route::List(List::Prices, page) => {
                let catalogue = self.catalogue(now).await;
                let version = catalogue
                    .told_last()
                    .map_or_else(|| "program".to_owned(), |at| at.as_second().to_string());
                let body = prices::list(&page, &catalogue)?;
                told(JSON, body, etag(&version), request)
            }
            Route::List(List::Decisions, page) => {
                let body = decisions::list(self.objects, &page, at).await?;
                let mut answer = told(JSON, body.text, etag(&body.version), request)?;
                // A person who decides wants to see the result at once.
                answer
                    .headers
                    .insert("cache-control", "no-cache".to_owned());
                Ok(answer)
            }
            Route::List(list, page) => {
                let held = self.newest(now).await?;
                let set_aside = match list {
                    List::Findings | List::Recommendations => self.set_aside(now, at).await,
                    _ => Arc::default(),
                };
                let body = report_parts::list(list, &page, &held.report, &set_aside)?;
                let version = with_decisions(&held.version, &set_aside);
                told(JSON, body, etag(&version), request)
            }
            Route::Recommendation { step, only } => {
                let held = self.newest(now).await?;
                let body = report_parts::recommendation(&step, &only, &held.report)?;
                told(JSON, body, etag(&held.version), request)
            }
            Route::Target { target, name, only } => {
                let held = self.newest(now).await?;
                let body = targets::answer(target, (&name, &only), &held.report)?;
                told(JSON, body, etag(&held.version), request)
            }
            Route::Text(form, only, options) => {
                let held = self.newest(now).await?;
                let body = report_parts::text(form, &only, options, &held.report)?;
                told(form.content_type(), body, etag(&held.version), request)
            }
            Route::Decide(finding, act) => {
                let held = self.newest(now).await?;
                let decided = (finding.as_str(), act);
                let said = decide(self.objects, &held.report, decided, (request, at)).await?;
                // The next request sees the decision.
                *self.decided.lock().await = None;
                Ok(kept(said))
            }
        }
    }

    /// The findings that decisions set aside at `at`; empty if they cannot be read.
    async fn set_aside(&self, now: Instant, at: Timestamp) -> Arc<SetAside> {
        let mut held = self.decided.lock().await;
        if let Some((set_aside, looked_at)) = held.as_ref()
            && now.saturating_duration_since(*looked_at) < TRUSTED
        {
            return Arc::clone(set_aside);
        }
        let set_aside = match ebb_cloud::documents::decisions::load(self.objects).await {
            Ok(all) => {
                let holding = all.findings.into_iter();
                let holding = holding.filter(|(_, decision)| decision.holds_at(at));
                holding.map(|(finding, _)| finding).collect()
            }
            Err(error) => {
                tracing::warn!(error = reason(&error), "decisions were not read");
                SetAside::new()
            }
        };
        let set_aside = Arc::new(set_aside);
        *held = Some((Arc::clone(&set_aside), now));
        set_aside
    }

    /// The newest known catalogue as of the last check.
    async fn catalogue(&self, now: Instant) -> Arc<Catalogue> {
        let mut held = self.prices.lock().await;
        if let Some((catalogue, looked_at)) = held.as_ref()
            && now.saturating_duration_since(*looked_at) < PRICES_TRUSTED
        {
            return Arc::clone(catalogue);
        }
        let best = BestKnown::read(self.objects).await;
        if let Some(gap) = best.unread {
            tracing::warn!(reason = gap.reason, "refreshed prices were not read");
        }
        let catalogue = Arc::new(best.catalogue);
        *held = Some((Arc::clone(&catalogue), now));
        catalogue
    }

    async fn newest(&self, now: Instant) -> Result<Held, Problem> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_mut() {
            if now.saturating_duration_since(held.looked_at) < TRUSTED {
                return Ok(held.clone());
            }
            if self.modified_at().await? == Some(held.modified_at) {
                held.looked_at = now;
                return Ok(held.clone());
            }
        }
        // The old report is freed first: there is no memory for two.
        *held = None;
        let fetched = self.fetch(now).await?;
        Ok(held.insert(fetched).clone())
    }

    /// When the newest report was written; `None` without a report.
    async fn modified_at(&self) -> Result<Option<Timestamp>, Problem> {
        let listed = self
            .objects
            .list(LATEST_JSON, None, 1)
            .await
            .map_err(problem)?;
        let found = listed.iter().find(|object| object.key == LATEST_JSON);
        Ok(found.map(|object| object.modified_at))
    }

    async fn fetch(&self, now: Instant) -> Result<Held, Problem> {
        let object = self.objects.get(LATEST_JSON, MAX_REPORT_BYTES).await;
        let object = object.map_err(problem)?;
        Ok(Held {
            report: Arc::new(read(&object.bytes)?),
            version: object.etag.0,
            modified_at: object.modified_at,
            looked_at: now,
        })
    }
}

/// Answers about findings change with the report and with decisions.
fn with_decisions(of_report: &str, set_aside: &SetAside) -> String {
    if set_aside.is_empty() {
        return of_report.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    set_aside.hash(&mut hasher);
    format!("{}-{:016x}", of_report.trim_matches('"'), hasher.finish())
}

/// The answer to a change must not be cached.
fn kept(body: String) -> Answer {
    Answer {
        status: 200,
        headers: BTreeMap::from([
            ("content-type", JSON.to_owned()),
            ("cache-control", "no-store".to_owned()),
        ]),
        body,
    }
}

fn problem(error: CloudError) -> Problem {
    tracing::warn!(%error, "the report was not read");
    match error {
        CloudError::Missing { .. } => Problem::NoReport,
        _ => Problem::Unreachable,
    }
}
