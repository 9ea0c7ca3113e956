//! When a machine without a probe worked, by its metrics: bursts of work, the pauses between
//! them, and whether the present pause is longer than its past explains. Metrics count the
//! system's own housekeeping too, so short weak bursts and a trickle of traffic are left out.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::activity::Activity;
use crate::finding::Window;
use crate::fleet::Instance;
use crate::hours::{KEPT_HOURS, NodeHours};
use crate::judge::{Facts, MetricPoint, MetricSeries};
use crate::policy::MetricsPolicy;
use crate::units::Share;

use super::idle::metrics::gpus;

/// A signal that a verdict takes of each point, by its name.
pub(in crate::rules) type Signal = (&'static str, fn(&MetricPoint) -> bool);

const SIGNALS: [Signal; 3] = [
    ("CPU", |point| point.cpu_max.is_some()),
    ("network", |point| point.network_bytes.is_some()),
    ("GPUs", |point| point.gpu.is_some()),
];

/// What is required of every machine; GPUs only of one that has some.
pub(in crate::rules) const CPU_AND_NETWORK: &[Signal] = SIGNALS.split_at(2).0;

pub(in crate::rules) const HOUR: SignedDuration = SignedDuration::from_hours(1);
pub(in crate::rules) const DAY: SignedDuration = SignedDuration::from_hours(24);
pub(in crate::rules) const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Bursts that are less far apart are one: a program that waits for a disk or for an answer.
const SAME_BURST: SignedDuration = SignedDuration::from_mins(15);

/// A short burst so near to real work is a part of it.
const NEAR_WORK: SignedDuration = HOUR;

/// Bytes that a short burst may move over the network and still be housekeeping: more is a
/// transfer that somebody asked for.
const HOUSEKEEPING_NETWORK_BYTES: u64 = 50_000_000;

/// A pause may be longer than the longest before it by this much: a whole day off, and who
/// comes three hours later than usual.
const LONGER_AT_MOST: SignedDuration = SignedDuration::from_hours(27);

/// Work at the end of a month is within these days of its turn.
const BEFORE_TURN: SignedDuration = SignedDuration::from_hours(5 * 24);
const AFTER_TURN: SignedDuration = SignedDuration::from_hours(3 * 24);

/// Metrics of so many days show two turns of a month.
const TWO_MONTHS: SignedDuration = SignedDuration::from_hours(62 * 24);

/// When a machine worked.
pub(in crate::rules) struct MetricActivity<'a> {
    series: &'a MetricSeries,
    signals: &'static [Signal],
    span: Window,
    /// Oldest first, housekeeping left out.
    work: Vec<Window>,
    housekeeping: Housekeeping,
}

/// Short weak bursts that do not count as work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) struct Housekeeping {
    pub(in crate::rules) bursts: u32,
    /// The most CPU that one of them used.
    pub(in crate::rules) cpu: Share,
}

/// Whether the present pause of a machine is more than its past explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rules) enum Pause {
    /// It never worked in its metrics, or it pauses for longer than ever.
    Unusual,
    /// It paused for about as long before.
    Usual,
    /// Its metrics are too short to show how long it usually pauses.
    Unknown,
    /// It worked at the end of a month only, and its metrics do not show two of them.
    MonthEnd,
}

/// Points with activity one after the other.
#[derive(Debug, Clone, Copy)]
struct Burst {
    window: Window,
    points: usize,
    cpu: Share,
    network: u64,
    /// Its cores or GPUs were busy, not only disks and network.
    computes: bool,
}

impl<'a> MetricActivity<'a> {
    /// Of an instance; `None` without any point.
    pub(in crate::rules) fn of(
        facts: &Facts<'_>,
        instance: &Instance,
        series: &'a MetricSeries,
    ) -> Option<Self> {
        let has_gpus = gpus(facts, instance).is_some_and(|gpus| gpus > 0);
        let signals = if has_gpus { &SIGNALS } else { CPU_AND_NETWORK };
        Self::from_series(facts, series, signals)
    }

    /// `None` without any point.
    pub(in crate::rules) fn from_series(
        facts: &Facts<'_>,
        series: &'a MetricSeries,
        signals: &'static [Signal],
    ) -> Option<Self> {
        let span = Window {
            from: begin(series.points().next()?)?,
            to: series.points().next_back()?.end,
        };
        let mut bursts = bursts(facts, series);
        let housekeeping = leave_out_housekeeping(&facts.policy.metrics, span, &mut bursts);
        leave_out_trickle(facts, series, span, &mut bursts);
        Some(Self {
            series,
            signals,
            span,
            work: bursts.iter().map(|burst| burst.window).collect(),
            housekeeping,
        })
    }

    /// From the begin of the first point to the end of the last, gaps included.
    pub(in crate::rules) fn span(&self) -> Window {
        self.span
    }

    pub(in crate::rules) fn series(&self) -> &'a MetricSeries {
        self.series
    }

    pub(in crate::rules) fn signals(&self) -> &'static [Signal] {
        self.signals
    }

    pub(in crate::rules) fn housekeeping(&self) -> Housekeeping {
        self.housekeeping
    }

    /// The end of its last work; `None` where it never worked.
    pub(in crate::rules) fn worked_until(&self) -> Option<Timestamp> {
        self.work.last().map(|work| work.to)
    }

    /// The newest fortnight by the hour. A point without work counts as seen if all required
    /// signals are known.
    pub(in crate::rules) fn hours(&self) -> NodeHours {
        let kept = SignedDuration::from_hours(KEPT_HOURS as i64);
        let oldest = earlier(self.span.to, kept);
        let mut hours = NodeHours::default();
        let mut work = self.work.iter().peekable();
        for point in self.series.points().filter(|point| point.end > oldest) {
            let Some(from) = begin(point) else { continue };
            while work.next_if(|work| work.to <= from).is_some() {}
            let is_active = work.peek().is_some_and(|work| work.from < point.end);
            let is_seen = self.signals.iter().all(|(_, is_known)| is_known(&point));
            let activity = match (is_active, is_seen) {
                (true, _) => Activity::Cpu,
                (false, true) => Activity::Quiet,
                (false, false) => continue,
            };
            let window = Window {
                from,
                to: point.end,
            };
            hours.fold_metric(window, activity);
        }
        hours
    }

    /// Whether the pause since `since` is more than its past explains.
    pub(in crate::rules) fn pause(&self, facts: &Facts<'_>, since: Timestamp) -> Pause {
        let policy = &facts.policy.metrics;
        if self.work.is_empty() {
            return Pause::Unusual;
        }
        let quiet = self.span.to.duration_since(since);
        let knows_week = since.duration_since(self.span.from) >= WEEK;
        let least = match knows_week {
            true => policy.worked_before(),
            false => policy.unknown_week().max(policy.worked_before()),
        };
        let least = SignedDuration::try_from(least).unwrap_or(SignedDuration::MAX);
        let is_longest = quiet >= least.max(self.patience(policy));
        if is_longest || self.misses_days(facts, since) {
            return match self.is_of_month_end() {
                true => Pause::MonthEnd,
                false => Pause::Unusual,
            };
        }
        match knows_week {
            true => Pause::Usual,
            false => Pause::Unknown,
        }
    }

    /// The longest time between two bursts of work, and before the first.
    pub(in crate::rules) fn longest_pause(&self) -> SignedDuration {
        let begins = self.work.iter().map(|work| work.from);
        let ends = std::iter::once(self.span.from).chain(self.work.iter().map(|work| work.to));
        let pauses = begins.zip(ends).map(|(next, end)| next.duration_since(end));
        pauses.max().unwrap_or_default()
    }

    /// How long a pause is still usual. Of pauses at random, the one under way exceeds twice
    /// the longest of n with a chance of 2 / (n + 1) / (n + 2); a rhythm of days may skip one.
    fn patience(&self, policy: &MetricsPolicy) -> SignedDuration {
        let longest = self.longest_pause();
        let least = SignedDuration::try_from(policy.idle_after()).unwrap_or(LONGER_AT_MOST);
        let more = (longest * 2).clamp(least.min(LONGER_AT_MOST), LONGER_AT_MOST);
        (longest + more).max(longest * 2)
    }

    /// Whether it missed so many days that had work in the weeks before.
    fn misses_days(&self, facts: &Facts<'_>, since: Timestamp) -> bool {
        let late = SignedDuration::from_secs(facts.policy.hours.early_or_late_seconds.into());
        let mut missed = 0;
        let mut end = earlier(self.span.to, late);
        while end.duration_since(since) >= DAY {
            let day = Window {
                from: earlier(end, DAY),
                to: end,
            };
            missed += u32::from(self.had_work_in_weeks_before(day, since));
            end = day.from;
        }
        missed >= facts.policy.metrics.missed_days
    }

    /// Whether the same day had work in the last week before `since` and, if its metrics
    /// reach back so far, in the week before that.
    fn had_work_in_weeks_before(&self, day: Window, since: Timestamp) -> bool {
        let back = |weeks: i32| Window {
            from: earlier(day.from, WEEK * weeks),
            to: earlier(day.to, WEEK * weeks),
        };
        let Some(newest) = (1..=52).find(|weeks| back(*weeks).to <= since) else {
            return false;
        };
        let is_known = |day: &Window| day.from >= self.span.from;
        let mut weeks = [newest, newest + 1].map(back).into_iter().filter(is_known);
        weeks.next().is_some_and(|day| self.works_within(day))
            && weeks.all(|day| self.works_within(day))
    }

    fn works_within(&self, window: Window) -> bool {
        let first = self.work.partition_point(|work| work.to <= window.from);
        self.work
            .get(first)
            .is_some_and(|work| work.from < window.to)
    }

    /// Whether all its work was around one turn of a month, after days without any. A machine
    /// that works once a month looks so, and so does one that was forgotten then.
    fn is_of_month_end(&self) -> bool {
        let (Some(first), Some(last)) = (self.work.first(), self.work.last()) else {
            return false;
        };
        let rested = first.from.duration_since(self.span.from) >= DAY * 2;
        let is_short = self.span.to.duration_since(self.span.from) < TWO_MONTHS;
        let is_near = |turn: Timestamp| {
            turn.duration_since(first.from) <= BEFORE_TURN
                && last.to.duration_since(turn) <= AFTER_TURN
        };
        rested && is_short && turns(first.from).into_iter().flatten().any(is_near)
    }
}

/// The time so much earlier, or the first that can be told.
fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// The turns of a month before and after a time, in UTC.
fn turns(at: Timestamp) -> [Option<Timestamp>; 2] {
    let month = at.to_zoned(TimeZone::UTC).first_of_month();
    let begin = month.and_then(|month| month.start_of_day()).ok();
    let next = begin
        .as_ref()
        .and_then(|begin| begin.checked_add(1.month()).ok());
    [begin, next].map(|turn| turn.map(|turn| turn.timestamp()))
}

/// All activity, housekeeping included.
fn bursts(facts: &Facts<'_>, series: &MetricSeries) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    for point in series.points() {
        if !is_active(facts, &point) {
            continue;
        }
        let Some(from) = begin(point) else { continue };
        let burst = Burst {
            window: Window {
                from,
                to: point.end,
            },
            points: 1,
            cpu: point.cpu_max.unwrap_or(Share::NONE),
            network: point.network_bytes.unwrap_or(0),
            computes: uses_cpu(facts, &point) || computes(facts, &point),
        };
        match bursts.last_mut() {
            Some(last) if from.duration_since(last.window.to) <= SAME_BURST => last.join(burst),
            _ => bursts.push(burst),
        }
    }
    bursts
}

impl Burst {
    fn join(&mut self, next: Self) {
        self.window.to = next.window.to;
        self.points += next.points;
        self.cpu = self.cpu.max(next.cpu);
        self.network = self.network.saturating_add(next.network);
        self.computes |= next.computes;
    }

    /// Short, weak, and without a transfer. Of a single point nobody knows which part of it
    /// was active.
    fn may_be_housekeeping(&self, policy: &MetricsPolicy) -> bool {
        let length = self.window.length();
        let is_short =
            length <= policy.housekeeping() || self.points == 1 && length <= HOUR.unsigned_abs();
        is_short
            && self.cpu < policy.housekeeping_cpu()
            && self.network <= HOUSEKEEPING_NETWORK_BYTES
    }
}

/// Leaves out short weak bursts away from work, if they are few.
fn leave_out_housekeeping(
    policy: &MetricsPolicy,
    span: Window,
    bursts: &mut Vec<Burst>,
) -> Housekeeping {
    let nothing = Housekeeping {
        bursts: 0,
        cpu: Share::NONE,
    };
    let work: Vec<Window> = bursts
        .iter()
        .filter(|burst| !burst.may_be_housekeeping(policy))
        .map(|burst| burst.window)
        .collect();
    let is_near_work = |burst: &Burst| {
        let next = work.partition_point(|work| work.to <= burst.window.from);
        let before = next.checked_sub(1).and_then(|before| work.get(before));
        let after = work.get(next);
        before.is_some_and(|work| burst.window.from.duration_since(work.to) < NEAR_WORK)
            || after.is_some_and(|work| work.from.duration_since(burst.window.to) < NEAR_WORK)
    };
    let is_work = |burst: &Burst| !burst.may_be_housekeeping(policy) || is_near_work(burst);
    let weak: Vec<Burst> = bursts.iter().filter(|b| !is_work(b)).copied().collect();
    let days = span
        .length()
        .as_secs()
        .div_ceil(DAY.unsigned_abs().as_secs());
    let count = u32::try_from(weak.len()).unwrap_or(u32::MAX);
    if u64::from(count) > u64::from(policy.housekeeping_a_day).saturating_mul(days) {
        return nothing;
    }
    bursts.retain(is_work);
    weak.iter().fold(nothing, |sum, burst| Housekeeping {
        bursts: count,
        cpu: sum.cpu.max(burst.cpu),
    })
}

/// Leaves out what only disks and network did since cores or GPUs were last busy, if it is
/// next to nothing by the day: answers to scans, broadcasts, the system's own files.
fn leave_out_trickle(
    facts: &Facts<'_>,
    series: &MetricSeries,
    span: Window,
    bursts: &mut Vec<Burst>,
) {
    let policy = &facts.policy.metrics;
    let busy = bursts.iter().rev().find(|burst| burst.computes);
    let since = busy.map_or(span.from, |burst| burst.window.to);
    let rest = Window {
        from: since,
        to: span.to,
    };
    if coverage(series, rest, |point| point.network_bytes.is_some())
        < facts.policy.idle.min_coverage()
    {
        return;
    }
    let (mut network, mut disk, mut seconds) = (0_u128, 0_u128, 0_u128);
    for point in series.points().filter(|point| point.end > since) {
        network += u128::from(point.network_bytes.unwrap_or(0));
        disk += u128::from(point.disk_bytes.unwrap_or(0));
        seconds += u128::from(point.period_seconds);
    }
    let is_little = network * 86_400 <= seconds * u128::from(policy.unused_network_bytes_a_day)
        && disk * 60 <= seconds * u128::from(policy.disk_floor_bytes);
    if is_little {
        bursts.retain(|burst| burst.window.to <= since);
    }
}

/// The begin of a point's period.
pub(in crate::rules) fn begin(point: MetricPoint) -> Option<Timestamp> {
    point
        .end
        .checked_sub(Duration::from_secs(point.period_seconds.into()))
        .ok()
}

fn is_active(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    works(facts, point) || computes(facts, point)
}

/// Whether cores, network or disks did more than a system without work. What is unknown is
/// no activity; coverage leaves such a point out.
pub(in crate::rules) fn works(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let policy = facts.policy;
    let beyond = |bytes: Option<u64>, a_minute: u64| {
        bytes.is_some_and(|bytes| bytes >= a_minute * u64::from(point.period_seconds) / 60)
    };
    uses_cpu(facts, point)
        || beyond(point.network_bytes, policy.activity.network_floor_bytes)
        || beyond(point.disk_bytes, policy.metrics.disk_floor_bytes)
}

fn uses_cpu(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let floor = facts.policy.metrics.cpu_floor();
    point.cpu_max.is_some_and(|cpu| cpu >= floor)
}

/// Whether a GPU computed; not where it is unknown.
pub(in crate::rules) fn computes(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let floor = facts.policy.activity.gpu_floor();
    point.gpu.is_some_and(|gpu| gpu >= floor)
}

/// The share of the window in which enough is known.
pub(in crate::rules) fn coverage(
    series: &MetricSeries,
    window: Window,
    is_known: impl Fn(&MetricPoint) -> bool,
) -> Share {
    let known: u64 = series
        .points()
        .filter(|point| point.end > window.from && is_known(point))
        .map(|point| u64::from(point.period_seconds))
        .sum();
    Share::of(known, window.length().as_secs()).unwrap_or(Share::NONE)
}
