//! One sweep, from what arrived to what people are told.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_cloud::ports::{CloudError, Objects, Queue};
use ebb_domain::fleet::Gap;
use ebb_domain::identity::NodeId;
use ebb_domain::policy::{Policy, PolicyError};
use ebb_domain::report::{Report, Totals};
use ebb_domain::step::PlacedStep;
use ebb_lake::{Batch, Judged};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use thiserror::Error;

use crate::changes;
use crate::deadline::Deadline;
use crate::fold::{FoldError, Folder, Folding, Limits, Work};
use crate::gather::{self, Account};
use crate::publish::{self, Channels, Failure};
use crate::scan::{self, Before};
use crate::stored::Memory;
use crate::truth::Truth;

/// How far back finished steps are looked at: what a bill by resource reaches back,
/// and about as long as a pipeline stays the same.
const STEPS_LOOK_BACK: Duration = Duration::from_secs(14 * 24 * 3600);

const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Why a sweep did not end. Nothing is lost; the next one takes it up.
#[derive(Debug, Error)]
pub enum SweepError {
    /// What arrived could not be folded.
    #[error("folding what arrived")]
    Fold(#[from] FoldError),
    /// The policy could not be read.
    #[error("the policy {key}")]
    Policy {
        /// Its key.
        key: String,
        /// Why.
        source: CloudError,
    },
    /// The policy is not one.
    #[error("the policy {key} is refused")]
    BadPolicy {
        /// Its key.
        key: String,
        /// Why.
        source: PolicyError,
    },
    /// The policy is not text.
    #[error("the policy {key} is not UTF-8")]
    PolicyText {
        /// Its key.
        key: String,
    },
}

/// What a sweep works on.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// The account that is looked at.
    pub account: Account<'a>,
    /// Where heartbeats arrive.
    pub queue: &'a dyn Queue,
    /// Where refused messages go.
    pub dead_letters: &'a dyn Queue,
    /// The bucket.
    pub objects: &'a dyn Objects,
    /// The lake.
    pub truth: &'a dyn Truth,
    /// Where people are told.
    pub channels: Channels<'a>,
}

/// What a sweep is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The thresholds.
    pub policy: Policy,
    /// Which shard of the nodes.
    pub shard: u16,
    /// Bounds on one batch.
    pub limits: Limits,
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// When it judged.
    pub at: Timestamp,
    /// What it took in.
    #[serde(flatten)]
    pub folding: Folding,
    /// Findings.
    pub findings: usize,
    /// Of those, new ones.
    pub new: usize,
    /// Of those, dearer than when people were told.
    pub grown: usize,
    /// Findings of before that are gone.
    pub ended: usize,
    /// What was not judged.
    pub not_judged: usize,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
    /// Sums and counts.
    pub totals: Totals,
    /// Keys of the report's files.
    pub published: Vec<String>,
    /// Channels that told people.
    pub told: Vec<&'static str>,
    /// Channels that failed.
    pub failures: Vec<Failure>,
}

/// Reads the policy file; the defaults where there is none.
///
/// # Errors
/// A file that is there and cannot be read or understood stops the sweep: judging
/// by other thresholds than were asked for is worse.
pub async fn policy(objects: &dyn Objects, key: &str) -> Result<Policy, SweepError> {
    let key = key.to_owned();
    let object = match objects.get(&key, MAX_POLICY_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => {
            tracing::info!(key, "no policy file: the defaults hold");
            return Ok(Policy::default());
        }
        Err(source) => return Err(SweepError::Policy { key, source }),
    };
    let Ok(text) = String::from_utf8(object.bytes) else {
        return Err(SweepError::PolicyText { key });
    };
    Policy::parse(&text).map_err(|source| SweepError::BadPolicy { key, source })
}

/// One sweep.
///
/// # Errors
/// See [`SweepError`]. What refuses to be seen or told is no error but part of the
/// summary.
pub async fn sweep(
    ports: &Ports<'_>,
    config: &Config,
    deadline: &Deadline,
    now: &(dyn Fn() -> Timestamp + Send + Sync),
) -> Result<Summary, SweepError> {
    let folder = Folder {
        queue: ports.queue,
        dead_letters: ports.dead_letters,
        objects: ports.objects,
        truth: ports.truth,
        activity: &config.policy.activity,
        shard: config.shard,
        limits: config.limits,
    };
    let (mut work, folding) = folder.fold(deadline, now).await?;
    let at = now();
    let (report, disconnected_since) = look(ports, config, &work, at).await?;
    let (published, mut failures) = publish::report(ports.objects, &report).await;
    failures.extend(keep_findings(ports.truth, config.shard, &report).await);
    let mut told = work.stored.memory.told.clone();
    let (changes, reported) = changes::since(&told.report, &report);
    told.report = reported;
    let word = publish::tell(&ports.channels, &report, &mut told).await;
    failures.extend(word.failures);
    let memory = Memory {
        told,
        disconnected_since,
    };
    folder.remember(&mut work, memory).await?;
    Ok(Summary {
        at,
        folding,
        findings: report.findings.len(),
        new: changes.new.len(),
        grown: changes.grown.len(),
        ended: changes.ended.len(),
        not_judged: report.not_judged.len(),
        gaps: report.gaps,
        totals: report.totals,
        published,
        told: word.channels,
        failures,
    })
}

/// Gathers and judges; tells also since when each agent has been disconnected.
async fn look(
    ports: &Ports<'_>,
    config: &Config,
    work: &Work,
    now: Timestamp,
) -> Result<(Report, BTreeMap<NodeId, Timestamp>), SweepError> {
    let (finished, gap) = finished(ports.truth, now).await?;
    let before = Before {
        state: &work.stored.fleet,
        finished: &finished,
        disconnected_since: &work.stored.memory.disconnected_since,
        gaps: gap.into_iter().collect(),
    };
    let mut paid = gather::kept::load(ports.objects).await;
    let seen = scan::look(&ports.account, before, &mut paid, (&config.policy, now)).await;
    gather::kept::save(ports.objects, &paid).await;
    Ok(seen)
}

async fn finished(
    truth: &dyn Truth,
    now: Timestamp,
) -> Result<(Vec<PlacedStep>, Option<Gap>), SweepError> {
    let day = |at: Timestamp| -> Date { at.to_zoned(TimeZone::UTC).date() };
    let from = now
        .saturating_sub(STEPS_LOOK_BACK)
        .unwrap_or(Timestamp::MIN);
    let window = truth.steps_between(day(from), day(now)).await;
    let window = window.map_err(FoldError::from)?;
    let gap = (window.left_out > 0).then(|| Gap {
        scope: "finished steps".to_owned(),
        reason: format!(
            "{} older ones were left out for want of memory",
            window.left_out
        ),
    });
    Ok((window.rows, gap))
}

/// The time of judging numbers the batch, so that a repeat of the same sweep adds
/// nothing.
async fn keep_findings(truth: &dyn Truth, shard: u16, report: &Report) -> Option<Failure> {
    let rows: Vec<Judged> = report
        .findings
        .iter()
        .map(|finding| Judged {
            at: report.at,
            finding: finding.clone(),
        })
        .collect();
    let number = u64::try_from(report.at.as_millisecond()).unwrap_or_default();
    let appended = truth.append_findings(&rows, &Batch { shard, number }).await;
    Some(Failure::of("lake", &appended.err()?))
}
