//! One sweep, from what arrived to what people are told.

use std::time::Duration;

use ebb_analysis::evaluate::judge;
use ebb_analysis::facts::Facts;
use ebb_cloud::ports::{CloudError, Objects, Queue};
use ebb_lake::{Batch, Judged};
use ebb_model::finding_history::Stage;
use ebb_model::policy::Policy;
use ebb_model::policy::error::PolicyError;
use ebb_model::report::{Report, Totals};
use ebb_model::sweep_memory::Memory;
use ebb_model::visibility_gap::Gap;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::step::PlacedStep;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use thiserror::Error;

use crate::collect::account::Account;
use crate::collect::cache;
use crate::collect::price_list::Renew;
use crate::publish;
use crate::scan::{self, Before};
use ebb_cloud::documents::prices::BestKnown;
use ebb_ingest::deadline::Deadline;
use ebb_ingest::event_log::Truth;
use ebb_ingest::fold::folder::{FoldError, Folder, Folding, Limits};
use ebb_ingest::fold::working_state::Work;
use ebb_notify::delivery_state::{Remembered, Stored};
use ebb_notify::digest::{Channels, News, Word};
use ebb_notify::retry::Failure;
use ebb_notify::{delivery_state, digest};

/// How far back finished steps are looked at: what a bill by resource reaches back,
/// and about as long as a pipeline stays the same.
const STEPS_LOOK_BACK: Duration = Duration::from_secs(14 * 24 * 3600);

/// Where what people were told lies, whatever the number of shards: with the first one,
/// which reports for all.
const REPORTS: u16 = 0;

const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Why a sweep did not end. Nothing is lost; the next one takes it up.
#[derive(Debug, Error)]
pub enum SweepError {
    /// What arrived could not be folded.
    #[error("folding what arrived")]
    Fold(#[from] FoldError),
    /// What people were told could not be read: nobody is told twice for that.
    #[error("what people were told")]
    Remembered(#[source] CloudError),
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
    pub shard: Shard,
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
    /// Of those, resolved before and back.
    pub reopened: usize,
    /// Of those, dearer than before.
    pub grown: usize,
    /// Findings of before that were resolved by now.
    pub resolved: usize,
    /// Findings that decisions set aside.
    pub set_aside: usize,
    /// What was not judged.
    pub not_judged: usize,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
    /// Sums and counts.
    pub totals: Totals,
    /// Keys of the report's files.
    pub published: Vec<String>,
    /// Channels that told people.
    pub told: Vec<String>,
    /// Channels that failed.
    pub failures: Vec<Failure>,
}

impl Summary {
    /// Of a shard that leaves judging to the one that reports.
    fn of_folding(at: Timestamp, folding: Folding) -> Self {
        Self {
            at,
            folding,
            findings: 0,
            new: 0,
            reopened: 0,
            grown: 0,
            resolved: 0,
            set_aside: 0,
            not_judged: 0,
            gaps: Vec::new(),
            totals: Totals::default(),
            published: Vec::new(),
            told: Vec::new(),
            failures: Vec::new(),
        }
    }
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

/// One sweep. Of several shards the first reports for all, the others fold.
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
    if !config.shard.reports() {
        return Ok(Summary::of_folding(at, folding));
    }
    let others = Others::read(&folder, &work).await?;
    let loaded = delivery_state::load(ports.objects, REPORTS).await;
    let (mut remembered, condition) = loaded.map_err(SweepError::Remembered)?;
    let when = (Renew::old(deadline.for_lists()), at);
    let intake_gaps = folding.gaps();
    let (report, memory) = look(
        ports,
        config,
        (&work, &others, intake_gaps),
        &mut remembered,
        when,
    )
    .await?;
    let (published, mut failures) = publish::report(ports.objects, &report).await;
    failures.extend(keep_findings(ports.truth, &report).await);
    let mut news = News {
        report: &report,
        routes: &config.policy.route,
        quiet: &config.policy.quiet,
        first_verdict: first_verdict(others.fleet(&work), &config.policy),
        remembered: &mut remembered,
    };
    // What is about to be sent is stored first: after a crash it has the same identifiers.
    let stored = match digest::plan(&ports.channels, &mut news).await {
        true => {
            delivery_state::save(ports.objects, REPORTS, news.remembered, condition.clone()).await
        }
        false => Stored::Done(condition.clone()),
    };
    let word = match &stored {
        Stored::Overtaken => Word::default(),
        Stored::Done(_) | Stored::Failed(_) => digest::tell(&ports.channels, news).await,
    };
    failures.extend(word.failures);
    let condition = match stored {
        Stored::Overtaken => None,
        Stored::Done(condition) => Some(condition),
        Stored::Failed(failure) => {
            failures.push(failure);
            Some(condition)
        }
    };
    if let Some(condition) = condition {
        let saved = delivery_state::save(ports.objects, REPORTS, &remembered, condition).await;
        if let Stored::Failed(failure) = saved {
            failures.push(failure);
        }
    }
    folder.remember(&mut work, memory).await?;
    let history = &report.history;
    Ok(Summary {
        at,
        folding,
        findings: report.findings.len(),
        new: history.at_stage(Stage::New),
        reopened: history.at_stage(Stage::Reopened),
        grown: history.at_stage(Stage::Grown),
        resolved: history.resolved_at(at),
        set_aside: history.set_aside.len(),
        not_judged: report.not_judged.len(),
        gaps: report.gaps,
        totals: report.totals,
        published,
        told: word.channels,
        failures,
    })
}

/// All shards together, where there are several: each as its own sweep left it, with
/// what the lake has beyond that.
struct Others {
    together: Option<(FleetState, FleetHours)>,
    left_out: usize,
}

impl Others {
    async fn read(folder: &Folder<'_>, own: &Work) -> Result<Self, FoldError> {
        let mut all = Self {
            together: None,
            left_out: 0,
        };
        for shard in folder.shard.all().skip(1) {
            let other = Work::open(&Folder { shard, ..*folder }).await?;
            all.left_out += other.left_out();
            let (fleet, hours) = all
                .together
                .unwrap_or_else(|| (own.stored.fleet.clone(), own.hours.fleet().clone()));
            let theirs = other.hours.into_fleet();
            all.together = Some((fleet.merge(other.stored.fleet), hours.merge(theirs)));
        }
        Ok(all)
    }

    fn fleet<'a>(&'a self, own: &'a Work) -> &'a FleetState {
        let together = self.together.as_ref();
        together.map_or(&own.stored.fleet, |(fleet, _)| fleet)
    }

    fn hours<'a>(&'a self, own: &'a Work) -> &'a FleetHours {
        let together = self.together.as_ref();
        together.map_or_else(|| own.hours.fleet(), |(_, hours)| hours)
    }
}

/// When the probe that has watched longest has watched for long enough.
fn first_verdict(fleet: &FleetState, policy: &Policy) -> Option<Timestamp> {
    let nodes = fleet.nodes.values();
    let first = nodes.filter_map(|node| node.first_seen).min()?;
    first.checked_add(policy.idle.after()).ok()
}

/// Gathers and judges, and says what is remembered of the findings.
async fn look(
    ports: &Ports<'_>,
    config: &Config,
    (work, others, intake_gaps): (&Work, &Others, Vec<Gap>),
    remembered: &mut Remembered,
    (renew, now): (Renew, Timestamp),
) -> Result<(Report, Memory), SweepError> {
    let (finished, gap) = finished(ports.truth, now).await?;
    let undecided = remembered.decide(ports.objects).await;
    let gaps = gap
        .into_iter()
        .chain(undecided)
        .chain(intake_gaps)
        .chain(no_room(work.left_out() + others.left_out));
    let mut best = BestKnown::read(ports.objects).await;
    let unread = best.unread.take();
    let before = Before {
        state: others.fleet(work),
        hours: others.hours(work),
        finished: &finished,
        memory: &work.stored.memory,
        gaps: gaps
            .chain(remembered.failed_channels())
            .chain(unread)
            .collect(),
        catalogue: &best.catalogue,
        renew,
    };
    let Remembered {
        lives,
        trend,
        decisions,
        ..
    } = remembered;
    let decide = |facts: &Facts<'_>| {
        let mut report = judge(facts);
        lives.advance(&mut report, (facts.inventory, facts.catalogue), decisions);
        trend.take(&report);
        report.history.trend.clone_from(&trend.0);
        report
    };
    let mut kept = cache::load(ports.objects).await;
    let seen = scan::see(
        &ports.account,
        before,
        &mut kept,
        (&config.policy, now),
        decide,
    );
    let seen = seen.await;
    kept.sold.want(&seen.decided);
    cache::save(ports.objects, &kept).await;
    best.keep(ports.objects, seen.told).await;
    Ok((seen.decided, seen.memory))
}

/// What the state had no room for.
fn no_room(left_out: usize) -> Option<Gap> {
    (left_out > 0).then(|| Gap::new("what is remembered of nodes", format!(
            "{left_out} that were heard of longest ago were left out for want of room: use more shards"
        )))
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
    let gap = (window.left_out > 0).then(|| {
        Gap::new(
            "finished steps",
            format!(
                "{} older ones were left out for want of memory",
                window.left_out
            ),
        )
    });
    Ok((window.rows, gap))
}

/// The time of judging numbers the batch, so that a repeat of the same sweep adds
/// nothing. They are of all nodes, whatever the number of shards.
async fn keep_findings(truth: &dyn Truth, report: &Report) -> Option<Failure> {
    let rows: Vec<Judged> = report
        .findings
        .iter()
        .map(|finding| Judged {
            at: report.at,
            finding: finding.clone(),
        })
        .collect();
    let number = u64::try_from(report.at.as_millisecond()).unwrap_or_default();
    let batch = Batch {
        shard: Shard::ONLY,
        number,
        known: None,
    };
    let appended = truth.append_findings(&rows, &batch).await;
    Some(Failure::of("lake", &appended.err()?))
}
