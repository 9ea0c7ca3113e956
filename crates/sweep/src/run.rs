//! One sweep: receive heartbeats, evaluate, publish the report and notify.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_analysis::earlier_jobs::jobs_to_remember;
use ebb_analysis::evaluate::{Details, evaluate_in_detail};
use ebb_analysis::explain::{Explanation, explain};
use ebb_analysis::facts::Facts;
use ebb_analysis::step_history::name_explanation::{NameExplanation, explain_names};
use ebb_catalog::catalog::Catalogue;
use ebb_cloud::ports::{CloudError, Objects, PutIf, Queue};
use ebb_lake::{Batch, EvaluatedFinding, UpkeepCounts};
use ebb_model::finding_history::Stage;
use ebb_model::inventory::Inventory;
use ebb_model::pages_url::InvalidPagesUrl;
use ebb_model::policy::Policy;
use ebb_model::report::probe_problem::ProbeProblemCounts;
use ebb_model::report::{Report, Totals};
use ebb_model::sweep_memory::Memory;
use ebb_model::task_record::TaskRecord;
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
use crate::cost_table;
use crate::hour_table;
use crate::lake_upkeep;
use crate::late_sweep;
use crate::publish::{self, ReportCopies};
use crate::publish_details;
use crate::scan::{self, Before};
use crate::stored_jobs::StoredJobs;
use ebb_cloud::documents::prices::BestKnown;
use ebb_cloud::documents::task_records;
use ebb_ingest::deadline::Deadline;
use ebb_ingest::event_log::EventLog;
use ebb_ingest::fold::folder::{FoldError, Folder, Folding, Limits};
use ebb_ingest::fold::working_state::Work;
use ebb_notify::delivery_state::{Remembered, Stored};
use ebb_notify::digest::{Channels, News, Word};
use ebb_notify::retry::Failure;
use ebb_notify::{delivery_state, digest};

/// How far back finished tasks are read: as far back as a bill by resource, and about as long as a
/// pipeline stays the same.
const STEP_HISTORY: Duration = Duration::from_secs(14 * 24 * 3600);

/// The shard that stores the delivery state. It is the first shard, which reports for all of them.
const REPORTS: u16 = 0;

const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Why a sweep failed. No data is lost; the next sweep processes it.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The received data could not be processed.
    #[error("failed to process the data of the probes")]
    Fold(#[from] FoldError),
    /// The delivery state could not be read. The sweep stops so that nobody is notified twice.
    #[error("failed to read the delivery state")]
    Remembered(#[source] CloudError),
    /// The policy could not be read.
    #[error("failed to read the policy {key}")]
    Policy {
        /// Key of the policy file.
        key: String,
        /// The cause.
        source: CloudError,
    },
    /// The policy file is not valid.
    #[error("the policy {problem}\n  correct it; `ebb policy check FILE` reads it as a sweep does")]
    BadPolicy {
        /// Key of the policy file, its line and key, and the problem.
        problem: String,
    },
    /// The policy file is not UTF-8.
    #[error("the policy {key} is not UTF-8")]
    PolicyText {
        /// Key of the policy file.
        key: String,
    },
}

/// The services that a sweep uses.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// The account to scan.
    pub account: Account<'a>,
    /// The queue of heartbeats.
    pub queue: &'a dyn Queue,
    /// The queue for refused messages.
    pub dead_letters: &'a dyn Queue,
    /// The bucket.
    pub objects: &'a dyn Objects,
    /// The lake.
    pub event_log: &'a dyn EventLog,
    /// Where notifications are sent.
    pub channels: Channels<'a>,
}

impl<'a> Ports<'a> {
    fn folder(&self, config: &'a Config) -> Folder<'a> {
        Folder {
            queue: self.queue,
            dead_letters: self.dead_letters,
            objects: self.objects,
            event_log: self.event_log,
            activity: &config.policy.activity,
            shard: config.shard,
            limits: config.limits,
        }
    }
}

/// The settings of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The thresholds.
    pub policy: Policy,
    /// The shard of the nodes.
    pub shard: Shard,
    /// Limits of one batch.
    pub limits: Limits,
    /// The time from the start of one sweep to the next; `None` if no schedule is known.
    pub interval: Option<Duration>,
    /// The copies of the report to write.
    pub copies: ReportCopies,
    /// Settings that are not valid and have no effect. The report lists them.
    pub gaps: Vec<Gap>,
}

impl Config {
    /// Uses this address of the pages, unless the policy has one. An address that is not valid leaves
    /// out the links of notifications, and nothing else.
    pub fn set_pages_url(&mut self, address: Option<&str>) {
        let links = &mut self.policy.links;
        let Some(address) = address.filter(|_| links.pages_url.is_none()) else {
            return;
        };
        match address.parse() {
            Ok(address) => links.pages_url = Some(address),
            Err(InvalidPagesUrl) => self.gaps.push(Gap::new(
                "EBB_PAGES_URL",
                format!(
                    "the address of the pages is not valid: {InvalidPagesUrl}; links are left out"
                ),
            )),
        }
    }

    /// Reports a setting that is not valid and has no effect.
    pub fn add_gap(&mut self, setting: &str, error: &dyn std::error::Error) {
        let reason = ebb_cloud::error_chain::reason(error);
        self.gaps.push(Gap::new(setting, reason));
    }

    /// Sets the schedule from a number of minutes. If the number is not valid, late sweeps are not
    /// reported.
    pub fn set_interval(&mut self, minutes: Option<&str>) {
        let Some(text) = minutes else { return };
        match text.trim().parse::<u32>() {
            Ok(minutes) if minutes > 0 => {
                self.interval = Some(Duration::from_secs(60 * u64::from(minutes)));
            }
            _ => self.gaps.push(Gap::new(
                "EBB_INTERVAL_MINUTES",
                "not a number of minutes, at least 1; late sweeps are not reported",
            )),
        }
    }
}

/// The result of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The time of the evaluation.
    pub at: Timestamp,
    /// The time of the previous evaluation; `None` for the first, and for a shard that does not
    /// report.
    pub previous: Option<Timestamp>,
    /// Counts of received data.
    #[serde(flatten)]
    pub folding: Folding,
    /// The number of findings.
    pub findings: usize,
    /// How many of them are new.
    pub new: usize,
    /// How many of them were resolved before and are back.
    pub reopened: usize,
    /// How many of them cost more than before.
    pub grown: usize,
    /// Earlier findings that are resolved now.
    pub resolved: usize,
    /// Findings that decisions set aside.
    pub set_aside: usize,
    /// How many resources were not evaluated.
    pub not_evaluated: usize,
    /// Data that could not be read.
    pub gaps: Vec<Gap>,
    /// Sums and counts.
    pub totals: Totals,
    /// The number of probes with each problem.
    pub probe_problems: ProbeProblemCounts,
    /// Keys of the report files that were written.
    pub published: Vec<String>,
    /// Channels that sent notifications.
    pub notified_channels: Vec<String>,
    /// How many of the failures are notifications that were not sent.
    pub failed_notifications: usize,
    /// Counts of the upkeep of the lake.
    pub upkeep: UpkeepCounts,
    /// Channels and writes that failed.
    pub failures: Vec<Failure>,
}

impl Summary {
    /// The summary of a report, without what was written and sent.
    fn of_report(report: Report, folding: Folding) -> Self {
        let history = &report.history;
        Self {
            findings: report.findings.len(),
            new: history.at_stage(Stage::New),
            reopened: history.at_stage(Stage::Reopened),
            grown: history.at_stage(Stage::Grown),
            resolved: history.resolved_at(report.at),
            set_aside: history.set_aside.len(),
            not_evaluated: report.not_evaluated.len(),
            gaps: report.gaps,
            totals: report.totals,
            probe_problems: report.probe_problems,
            ..Self::of_folding(report.at, folding)
        }
    }

    /// The summary of a shard that does not report.
    fn of_folding(at: Timestamp, folding: Folding) -> Self {
        Self {
            at,
            previous: None,
            folding,
            findings: 0,
            new: 0,
            reopened: 0,
            grown: 0,
            resolved: 0,
            set_aside: 0,
            not_evaluated: 0,
            gaps: Vec::new(),
            totals: Totals::default(),
            probe_problems: ProbeProblemCounts::new(),
            published: Vec::new(),
            notified_channels: Vec::new(),
            failed_notifications: 0,
            upkeep: UpkeepCounts::default(),
            failures: Vec::new(),
        }
    }
}

/// Reads the policy file; returns the defaults if there is none.
///
/// # Errors
/// If the file exists and cannot be read or parsed. An evaluation with other thresholds than the
/// requested ones would be worse than none.
pub async fn policy(objects: &dyn Objects, key: &str) -> Result<Policy, SweepError> {
    let key = key.to_owned();
    let object = match objects.get(&key, MAX_POLICY_BYTES).await {
        Ok(object) => object,
        Err(CloudError::Missing { .. }) => {
            tracing::info!(key, "no policy file; using the defaults");
            return Ok(Policy::default());
        }
        Err(source) => return Err(SweepError::Policy { key, source }),
    };
    let Ok(text) = String::from_utf8(object.bytes) else {
        return Err(SweepError::PolicyText { key });
    };
    Policy::parse(&text).map_err(|error| SweepError::BadPolicy {
        problem: error.in_file(&key, &text),
    })
}

/// Runs one sweep. The first of several shards reports for all; the others only process their data.
///
/// # Errors
/// See [`SweepError`]. A refused read or a failed notification is not an error but part of the
/// summary.
pub async fn sweep(
    ports: &Ports<'_>,
    config: &Config,
    deadline: &Deadline,
    now: &(dyn Fn() -> Timestamp + Send + Sync),
) -> Result<Summary, SweepError> {
    let folder = ports.folder(config);
    let (mut work, folding) = folder.fold(deadline, now).await?;
    let at = now();
    if !config.shard.reports() {
        return Ok(Summary::of_folding(at, folding));
    }
    let others = Others::read(&folder, &work).await?;
    let loaded = delivery_state::load(ports.objects, REPORTS).await;
    let (mut remembered, condition) = loaded.map_err(SweepError::Remembered)?;
    let previous = remembered.trend.newest();
    let when = (Renew::old(deadline.for_lists()), at);
    let intake_gaps = folding.gaps();
    let (report, mut memory, mut details) = collect_and_evaluate(
        ports,
        config,
        (&work, &others, intake_gaps),
        &mut remembered,
        when,
    )
    .await?;
    let (published, mut failures) = publish::report(ports.objects, &report, config.copies).await;
    failures.extend(keep_findings(ports.event_log, &report).await);
    memory.spend = std::mem::take(&mut details.spend);
    let cost_rows = std::mem::take(&mut details.cost_rows);
    failures.extend(cost_table::write(ports.event_log, cost_rows, &mut memory.costs).await);
    let hours = details.node_hours.take();
    failures.extend(hour_table::write(ports.event_log, hours, &mut memory.node_hours).await);
    let news = News {
        report: &report,
        routes: &config.policy.route,
        quiet: &config.policy.quiet,
        webhooks: &config.policy.webhooks,
        digest: &config.policy.digest,
        links: config.policy.links.pages_url.as_ref(),
        first_verdict: first_verdict(others.fleet(&work), &config.policy),
        remembered: &mut remembered,
    };
    let (word, unstored) = notify(ports, news, condition).await;
    let failed_notifications = word.failures.len();
    failures.extend(word.failures.into_iter().chain(unstored));
    folder.remember(&mut work, memory).await?;
    // The last steps, so that nothing else lacks time.
    let detailed = publish_details::write(ports.objects, &details).await;
    failures.extend(detailed.err().map(|error| Failure::new("details", &error)));
    // Upkeep needs memory, and nothing else needs these any more.
    drop((details, work, others));
    let policy = &config.policy.lake;
    let upkeep = lake_upkeep::keep_up(ports.event_log, policy, previous, (deadline, now)).await;
    failures.extend(upkeep.failures);
    Ok(Summary {
        previous,
        published,
        notified_channels: word.channels,
        failed_notifications,
        upkeep: upkeep.counts,
        failures,
        ..Summary::of_report(report, folding)
    })
}

/// Sends the notifications and stores the delivery state, if `condition` holds. Nothing is sent if
/// another sweep stored its delivery state first, or sends now. Nothing is sent either if the state
/// cannot be stored: each sweep would send the same again.
async fn notify(
    ports: &Ports<'_>,
    mut news: News<'_>,
    condition: PutIf,
) -> (Word, Option<Failure>) {
    if news.remembered.is_being_sent(news.report.at) {
        tracing::warn!("another sweep sends notifications now");
        return (Word::default(), None);
    }
    // The notifications are stored before they are sent: after a crash they have the same
    // identifiers.
    let stored = match digest::plan(&ports.channels, &mut news).await {
        true => {
            news.remembered.begin_sending(news.report.at);
            delivery_state::save(ports.objects, REPORTS, news.remembered, condition.clone()).await
        }
        false => Stored::Done(condition.clone()),
    };
    let condition = match stored {
        Stored::Overtaken => return (Word::default(), None),
        Stored::Done(condition) => condition,
        Stored::Failed(failure) => return (Word::default(), Some(failure)),
    };
    let remembered = &mut *news.remembered;
    let word = digest::tell(&ports.channels, News { remembered, ..news }).await;
    news.remembered.sending_until = None;
    let saved = delivery_state::save(ports.objects, REPORTS, news.remembered, condition).await;
    match saved {
        Stored::Failed(failure) => (word, Some(failure)),
        Stored::Done(_) | Stored::Overtaken => (word, None),
    }
}

/// The data of a place, read without a sweep.
struct SiteData {
    work: Work,
    others: Others,
    finished: Vec<PlacedStep>,
    records: Vec<TaskRecord>,
    gaps: Vec<Gap>,
}

impl SiteData {
    async fn read(ports: &Ports<'_>, config: &Config, now: Timestamp) -> Result<Self, SweepError> {
        let folder = ports.folder(config);
        let work = Work::open(&folder).await?;
        let others = Others::read(&folder, &work).await?;
        let (finished, gap) = finished(ports.event_log, now).await?;
        let names = task_records::load(ports.objects, now).await;
        Ok(Self {
            work,
            others,
            finished,
            records: names.records,
            gaps: names.gaps.into_iter().chain(gap).collect(),
        })
    }
}

/// Explains the step names of a task from the state and the lake, without a sweep; see
/// [`explain_names`]. The account is not asked, so tags of Batch jobs are unknown.
///
/// # Errors
/// If the state or the lake cannot be read.
pub async fn explain_task(
    ports: &Ports<'_>,
    config: &Config,
    (task, most): (&str, usize),
    now: Timestamp,
) -> Result<(Vec<NameExplanation>, Vec<Gap>), SweepError> {
    let data = SiteData::read(ports, config, now).await?;
    let kept = data.others.fleet(&data.work).steps();
    let facts = Facts {
        now,
        state: data.others.fleet(&data.work),
        hours: data.others.hours(&data.work),
        inventory: &Inventory::default(),
        metrics: &BTreeMap::new(),
        bill: &BTreeMap::new(),
        billed: &[],
        finished: &data.finished,
        left_out: &[],
        records: &data.records,
        memory: &Memory::default(),
        policy: &config.policy,
        catalogue: Catalogue::built_in(),
    };
    let explained = explain_names(&facts, &kept, task, most);
    Ok((explained, data.gaps))
}

/// Explains the evaluation of one resource from the state, the lake and the account, without a
/// sweep. Nothing is stored.
///
/// # Errors
/// If the state or the lake cannot be read.
pub async fn explain_resource(
    ports: &Ports<'_>,
    config: &Config,
    resource: &str,
    now: Timestamp,
) -> Result<(Explanation, Vec<Gap>), SweepError> {
    let data = SiteData::read(ports, config, now).await?;
    let best = BestKnown::read(ports.objects).await;
    let jobs = StoredJobs::load(ports.objects).await;
    let before = Before {
        state: data.others.fleet(&data.work),
        hours: data.others.hours(&data.work),
        finished: &data.finished,
        records: &data.records,
        memory: &data.work.stored.memory,
        earlier_jobs: jobs.jobs,
        gaps: Vec::new(),
        catalogue: &best.catalogue,
        renew: Renew::MISSING,
    };
    let mut kept = cache::load(ports.objects).await;
    let explain = |facts: &Facts<'_>| explain(facts, resource);
    let when = (&config.policy, now);
    let outcome = scan::collect_and_decide(&ports.account, before, &mut kept, when, explain).await;
    let gaps = data.gaps.into_iter().chain(best.unread).chain(jobs.gap);
    Ok((outcome.decided, gaps.collect()))
}

/// All shards together, if there are several: the stored state of each shard, with the newer rows
/// of the lake.
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

/// When the probe that has run longest has run for the idle time of the policy.
fn first_verdict(fleet: &FleetState, policy: &Policy) -> Option<Timestamp> {
    let nodes = fleet.nodes.values();
    let first = nodes.filter_map(|node| node.first_seen).min()?;
    first.checked_add(policy.idle.after()).ok()
}

/// Collects and evaluates. Returns the report, what the next sweep needs to know of the findings,
/// and the details for pages.
async fn collect_and_evaluate(
    ports: &Ports<'_>,
    config: &Config,
    (work, others, intake_gaps): (&Work, &Others, Vec<Gap>),
    remembered: &mut Remembered,
    (renew, now): (Renew, Timestamp),
) -> Result<(Report, Memory, Details), SweepError> {
    let (finished, gap) = finished(ports.event_log, now).await?;
    let names = task_records::load(ports.objects, now).await;
    let mut jobs = StoredJobs::load(ports.objects).await;
    let undecided = remembered.decide(ports.objects).await;
    let gaps = gap
        .into_iter()
        .chain(undecided)
        .chain(names.gaps)
        .chain(jobs.gap.take())
        .chain(intake_gaps)
        .chain(config.gaps.iter().cloned())
        .chain(late_sweep::gap(
            remembered.trend.newest(),
            now,
            config.interval,
        ))
        .chain(no_room(work.left_out() + others.left_out));
    let mut best = BestKnown::read(ports.objects).await;
    let before = Before {
        state: others.fleet(work),
        hours: others.hours(work),
        finished: &finished,
        records: &names.records,
        memory: &work.stored.memory,
        earlier_jobs: std::mem::take(&mut jobs.jobs),
        gaps: gaps
            .chain(remembered.failed_channels())
            .chain(best.unread.take())
            .collect(),
        catalogue: &best.catalogue,
        renew,
    };
    let mut kept = cache::load(ports.objects).await;
    let when = (&config.policy, now);
    let outcome =
        scan::collect_and_decide(&ports.account, before, &mut kept, when, evaluate_in_detail).await;
    let (mut report, mut details) = outcome.decided;
    let Remembered {
        lives,
        trend,
        decisions,
        ..
    } = remembered;
    let catalogue = outcome.renewed.as_ref().unwrap_or(&best.catalogue);
    lives.advance(&mut report, (&outcome.inventory, catalogue), decisions);
    trend.take(&report);
    report.history.trend.clone_from(&trend.0);
    details.tasks.retain_findings(&report);
    report.own_cost = outcome.own_cost;
    kept.sold.want(&report);
    cache::save(ports.objects, &kept).await;
    best.keep(ports.objects, outcome.refreshed).await;
    let tasks = (finished.as_slice(), others.fleet(work));
    let earlier = jobs_to_remember(outcome.inventory.batch, tasks, &config.policy);
    report.gaps.extend(earlier.gap());
    jobs.replace(ports.objects, &earlier.jobs).await;
    Ok((report, outcome.memory, details))
}

/// A gap for the nodes that did not fit into the state.
fn no_room(left_out: usize) -> Option<Gap> {
    (left_out > 0).then(|| {
        Gap::new(
            "state of nodes",
            format!(
                "{left_out} nodes with the oldest data were removed because the state is full; use \
                 more shards"
            ),
        )
    })
}

async fn finished(
    event_log: &dyn EventLog,
    now: Timestamp,
) -> Result<(Vec<PlacedStep>, Option<Gap>), SweepError> {
    let day = |at: Timestamp| -> Date { at.to_zoned(TimeZone::UTC).date() };
    let from = now.saturating_sub(STEP_HISTORY).unwrap_or(Timestamp::MIN);
    let window = event_log.steps_between(day(from), day(now)).await;
    let window = window.map_err(FoldError::from)?;
    let gap = (window.left_out > 0).then(|| {
        Gap::new(
            "finished steps",
            format!(
                "{} older tasks were left out to limit memory",
                window.left_out
            ),
        )
    });
    Ok((window.rows, gap))
}

/// Appends the findings of all nodes to the lake. The time of the evaluation is the batch number,
/// so a repeat of the same sweep adds nothing.
async fn keep_findings(event_log: &dyn EventLog, report: &Report) -> Option<Failure> {
    let rows: Vec<EvaluatedFinding> = report
        .findings
        .iter()
        .map(|finding| EvaluatedFinding {
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
    let appended = event_log.append_findings(&rows, &batch).await;
    Some(Failure::new("lake", &appended.err()?))
}
