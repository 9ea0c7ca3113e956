//! Activity of a machine without a probe, from its metrics: bursts of work and the pauses between
//! them. The module also decides whether the current pause is longer than past pauses explain.
//! Metrics include housekeeping of the system, so short weak bursts and small amounts of traffic do
//! not count.

#[cfg(test)]
mod tests;

use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::inventory::instance::Instance;
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_model::policy::metrics::MetricsPolicy;
use ebb_node_state::hourly_activity::{FORTNIGHT_HOURS, NodeHours};
use ebb_telemetry::activity::Activity;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{MilliCores, Share};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::facts::Facts;

/// Reason against the result idle, even without activity; `None` if there is no reason.
pub(crate) fn holds_back(
    facts: &Facts<'_>,
    series: &MetricSeries,
    window: Window,
) -> Option<String> {
    if series.credits.is_some_and(|credits| credits.are_spent()) {
        return Some("the CPU credits are used up, so the CPU is throttled to its baseline".into());
    }
    if window.length() >= facts.policy.metrics.memory_held() {
        return None;
    }
    let much = memory_in_use(facts, series, window)?;
    Some(format!(
        "up to {much} of the memory is in use, so a process may still be needed"
    ))
}

/// Name of a signal that the evaluation needs, and a check whether a point contains the signal.
pub(crate) type Signal = (&'static str, fn(&MetricPoint) -> bool);

const SIGNALS: [Signal; 3] = [
    ("CPU", |point| point.cpu_max.is_some()),
    ("network", |point| point.network_bytes.is_some()),
    ("GPUs", |point| point.gpu.is_some()),
];

/// Signals required for every machine; GPUs are required only for machines with GPUs.
pub(crate) const CPU_AND_NETWORK: &[Signal] = SIGNALS.split_at(2).0;

pub(crate) const HOUR: SignedDuration = SignedDuration::from_hours(1);

pub(crate) const DAY: SignedDuration = SignedDuration::from_hours(24);

pub(crate) const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Bursts with a smaller distance are one burst: the program waits for a disk or a response.
const SAME_BURST: SignedDuration = SignedDuration::from_mins(15);

/// A short burst within this distance of real work is part of the work.
const NEAR_WORK: SignedDuration = HOUR;

/// Limit on network bytes of a short burst that counts as housekeeping. A larger amount is an
/// intended transfer.
const HOUSEKEEPING_NETWORK_BYTES: u64 = 50_000_000;

/// Limit on the time by which a pause may exceed the longest earlier pause: a whole day off plus a
/// start three hours later than usual.
const LONGER_AT_MOST: SignedDuration = SignedDuration::from_hours(27);

/// Number of pauses from which twice the longest pause is a safe limit. For n random pauses, the
/// chance that the current pause exceeds twice the longest is 2 / (n + 1) / (n + 2). The chance
/// that it exceeds three times the longest is 6 / (n + 1) / (n + 2) / (n + 3). From 13 pauses the
/// first chance is below 1 %.
const MANY_PAUSES: usize = 13;

/// Work at the end of a month is within these limits before and after the start of the next month.
const BEFORE_TURN: SignedDuration = SignedDuration::from_hours(5 * 24);

const AFTER_TURN: SignedDuration = SignedDuration::from_hours(3 * 24);

/// Maximum duration of work at the end of a month.
const AT_A_TURN: SignedDuration = SignedDuration::from_hours(5 * 24);

/// Metrics over this time include the end of two months.
const TWO_MONTHS: SignedDuration = SignedDuration::from_hours(62 * 24);

/// Activity of a machine from its metrics.
pub(crate) struct MetricActivity<'a> {
    series: &'a MetricSeries,
    signals: &'static [Signal],
    span: Window,
    /// Oldest first, without housekeeping.
    work: Vec<Window>,
    housekeeping: Housekeeping,
}

/// Short weak bursts that do not count as work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Housekeeping {
    pub(crate) bursts: u32,
    /// Peak CPU of these bursts.
    pub(crate) cpu: Share,
}

impl Housekeeping {
    const NONE: Self = Self {
        bursts: 0,
        cpu: Share::NONE,
    };
}

/// Whether the current pause of a machine is longer than its past explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The metrics show no work, or the pause is longer than all earlier pauses.
    Unusual,
    /// An earlier pause was about as long.
    Usual,
    /// The metrics cover too little time to show the usual length of a pause.
    Unknown,
    /// The machine worked only at the end of a month, and the metrics do not cover the end of two
    /// months.
    MonthEnd,
}

/// Working days before a pause and during the pause.
#[derive(Debug, Clone, Copy, Default)]
struct WorkingDays {
    before: u32,
    /// Days without work before the pause.
    missed_before: u32,
    /// Days without work during the pause.
    missed_since: i32,
}

impl WorkingDays {
    /// Chance that a working day is missed: the posterior mean under Jeffreys' prior, which adds
    /// half a missed day.
    fn chance_of_one(self) -> f64 {
        (f64::from(self.missed_before) + 0.5) / f64::from(self.before + 1)
    }

    /// Chance that all days of the pause were missed.
    fn chance_of_missed(self) -> f64 {
        self.chance_of_one().powi(self.missed_since)
    }

    /// Whether at most one day in five is missed, after at least five working days.
    fn are_regular(self) -> bool {
        self.before >= 5 && self.chance_of_one() <= 0.2
    }
}

/// One day of the past.
struct WorkDay {
    window: Window,
    worked: bool,
}

/// Consecutive points with activity.
#[derive(Debug, Clone, Copy)]
struct Burst {
    window: Window,
    points: usize,
    cpu: Share,
    network: u64,
    /// Whether cores or GPUs were busy, not only disks and network.
    computes: bool,
}

impl<'a> MetricActivity<'a> {
    /// `None` without any point.
    pub(crate) fn new(
        facts: &Facts<'_>,
        instance: &Instance,
        series: &'a MetricSeries,
    ) -> Option<Self> {
        let has_gpus = gpus(facts, instance).is_some_and(|gpus| gpus > 0);
        let signals = if has_gpus { &SIGNALS } else { CPU_AND_NETWORK };
        Self::from_series(facts, series, signals, cpu_floor(facts, instance))
    }

    /// `None` without any point. Less CPU use than `cpu_floor` is no work.
    pub(crate) fn from_series(
        facts: &Facts<'_>,
        series: &'a MetricSeries,
        signals: &'static [Signal],
        cpu_floor: Share,
    ) -> Option<Self> {
        let span = Window {
            from: begin(series.points().next()?)?,
            to: series.points().next_back()?.end,
        };
        let mut bursts = bursts(facts, series, cpu_floor);
        let mut housekeeping = Housekeeping::NONE;
        // Less than a week does not show what is usual.
        if span.to.duration_since(span.from) >= WEEK {
            housekeeping = leave_out_housekeeping(&facts.policy.metrics, span, &mut bursts);
            leave_out_trickle(facts, series, span, &mut bursts);
        }
        Some(Self {
            series,
            signals,
            span,
            work: bursts.iter().map(|burst| burst.window).collect(),
            housekeeping,
        })
    }

    /// From the start of the first point to the end of the last, gaps included.
    pub(crate) fn span(&self) -> Window {
        self.span
    }

    pub(crate) fn series(&self) -> &'a MetricSeries {
        self.series
    }

    pub(crate) fn signals(&self) -> &'static [Signal] {
        self.signals
    }

    pub(crate) fn housekeeping(&self) -> Housekeeping {
        self.housekeeping
    }

    /// End of the last work; `None` if the metrics show no work.
    pub(crate) fn worked_until(&self) -> Option<Timestamp> {
        self.work.last().map(|work| work.to)
    }

    /// Hourly activity of the newest 14 days. A point without work counts as observed if it
    /// contains all required signals.
    pub(crate) fn hours(&self) -> NodeHours {
        let kept = SignedDuration::from_hours(FORTNIGHT_HOURS as i64);
        let oldest = earlier(self.span.to, kept);
        let mut hours = NodeHours::default();
        let mut work = self.work.iter().peekable();
        for point in self.series.points().filter(|point| point.end > oldest) {
            let Some(from) = begin(point) else { continue };
            while work.next_if(|work| work.to <= from).is_some() {}
            let is_active = work.peek().is_some_and(|work| work.from < point.end);
            let has_all_signals = self.signals.iter().all(|(_, is_known)| is_known(&point));
            let activity = match (is_active, has_all_signals) {
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

    /// Whether the pause since `since` is longer than its past explains.
    pub(crate) fn pause(&self, facts: &Facts<'_>, since: Timestamp) -> Pause {
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
        let days = self.working_days(facts, since);
        let is_longest = quiet >= least.max(self.patience(policy, days));
        let chance = f64::from(policy.missed_days_ppm) / 1e6;
        if is_longest || days.chance_of_missed() <= chance {
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

    /// The longest time without work before the first burst or between two bursts.
    pub(crate) fn longest_pause(&self) -> SignedDuration {
        self.pauses().max().unwrap_or_default()
    }

    fn pauses(&self) -> impl Iterator<Item = SignedDuration> {
        let begins = self.work.iter().map(|work| work.from);
        let ends = std::iter::once(self.span.from).chain(self.work.iter().map(|work| work.to));
        begins.zip(ends).map(|(next, end)| next.duration_since(end))
    }

    /// Greatest length of a usual pause. A daily rhythm may skip one day. A random pause may be
    /// much longer than the longest so far, especially if there were few pauses.
    fn patience(&self, policy: &MetricsPolicy, days: WorkingDays) -> SignedDuration {
        let longest = self.longest_pause();
        let least = SignedDuration::try_from(policy.idle_after()).unwrap_or(LONGER_AT_MOST);
        let more = (longest * 2).clamp(least.min(LONGER_AT_MOST), LONGER_AT_MOST);
        let long = self.pauses().filter(|pause| *pause >= least).count();
        let times = match long {
            _ if days.are_regular() => 1,
            ..MANY_PAUSES => 3,
            _ => 2,
        };
        (longest + more).max(longest * times)
    }

    /// Working days before and after `since`. Weekdays without any work, such as a weekend, are not
    /// working days.
    fn working_days(&self, facts: &Facts<'_>, since: Timestamp) -> WorkingDays {
        let late = SignedDuration::from_secs(facts.policy.hours.early_or_late_seconds.into());
        let days = self.days_until(earlier(self.span.to, late));
        let of_week: Vec<bool> = (0..7)
            .map(|weekday| days.iter().skip(weekday).step_by(7).any(|day| day.worked))
            .collect();
        let working = days.iter().zip(of_week.iter().cycle());
        let working = working.filter_map(|(day, is_working)| is_working.then_some(day));
        let mut sum = WorkingDays::default();
        for day in working {
            if day.window.from >= since {
                sum.missed_since += 1;
            } else {
                sum.before += 1;
                sum.missed_before += u32::from(!day.worked);
            }
        }
        sum
    }

    /// Whole days up to `end`, the newest first. A day counts as worked with at least a quarter of
    /// the work of an average day. Otherwise the end of the previous day would count as work.
    fn days_until(&self, mut end: Timestamp) -> Vec<WorkDay> {
        let mut days = Vec::new();
        while end.duration_since(self.span.from) >= DAY {
            let window = Window {
                from: earlier(end, DAY),
                to: end,
            };
            days.push((window, self.work_within(window)));
            end = window.from;
        }
        let worked = || days.iter().map(|(_, work)| *work).filter(|work| *work > 0);
        let all: u64 = worked().sum();
        let average = all / (worked().count() as u64).max(1);
        let day = |(window, work)| WorkDay {
            window,
            worked: work > 0 && work * 4 >= average,
        };
        days.iter().copied().map(day).collect()
    }

    /// Seconds of work within a window.
    fn work_within(&self, window: Window) -> u64 {
        let first = self.work.partition_point(|work| work.to <= window.from);
        let within = self.work.get(first..).unwrap_or_default().iter();
        let within = within.take_while(|work| work.from < window.to);
        let overlap = |work: &Window| Window {
            from: work.from.max(window.from),
            to: work.to.min(window.to),
        };
        within.map(|work| overlap(work).length().as_secs()).sum()
    }

    /// Whether all work was around the end of one month, after at least one day without work. Both
    /// a monthly job and a machine forgotten after its work match this pattern.
    fn is_of_month_end(&self) -> bool {
        let (Some(first), Some(last)) = (self.work.first(), self.work.last()) else {
            return false;
        };
        let rested = first.from.duration_since(self.span.from) >= DAY;
        let is_short = self.span.to.duration_since(self.span.from) < TWO_MONTHS;
        let is_near = |turn: Timestamp| {
            turn.duration_since(first.from) <= BEFORE_TURN
                && last.to.duration_since(turn) <= AFTER_TURN
        };
        let is_brief = last.to.duration_since(first.from) <= AT_A_TURN;
        rested && is_short && is_brief && turns(first.from).into_iter().flatten().any(is_near)
    }
}

/// The time minus `by`, or the earliest representable time.
fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_sub(by).unwrap_or(Timestamp::MIN)
}

/// Start of the current and of the next month, in UTC.
fn turns(at: Timestamp) -> [Option<Timestamp>; 2] {
    let month = at.to_zoned(TimeZone::UTC).first_of_month();
    let begin = month.and_then(|month| month.start_of_day()).ok();
    let next = begin
        .as_ref()
        .and_then(|begin| begin.checked_add(1.month()).ok());
    [begin, next].map(|turn| turn.map(|turn| turn.timestamp()))
}

/// All activity, housekeeping included.
fn bursts(facts: &Facts<'_>, series: &MetricSeries, cpu_floor: Share) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    for point in series.points() {
        if !works(facts, &point, cpu_floor) && !computes(facts, &point) {
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
            computes: uses_cpu(&point, cpu_floor) || computes(facts, &point),
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

    /// Whether the burst is short, weak and without a transfer. Two long samples may contain only a
    /// few minutes of activity.
    fn may_be_housekeeping(&self, policy: &MetricsPolicy) -> bool {
        let length = self.window.length();
        let is_short = length <= policy.housekeeping()
            || self.points <= 2 && length <= HOUR.unsigned_abs() * 2;
        is_short
            && self.cpu < policy.housekeeping_cpu()
            && self.network <= HOUSEKEEPING_NETWORK_BYTES
    }
}

/// Removes short weak bursts away from work, if they are few.
fn leave_out_housekeeping(
    policy: &MetricsPolicy,
    span: Window,
    bursts: &mut Vec<Burst>,
) -> Housekeeping {
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
        return Housekeeping::NONE;
    }
    bursts.retain(is_work);
    weak.iter()
        .fold(Housekeeping::NONE, |sum, burst| Housekeeping {
            bursts: count,
            cpu: sum.cpu.max(burst.cpu),
        })
}

/// Removes disk and network activity since cores or GPUs were last busy, if the daily amount is
/// tiny. Examples are answers to port scans, broadcasts and files of the system.
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

/// Start of the period of a point.
pub(crate) fn begin(point: MetricPoint) -> Option<Timestamp> {
    point
        .end
        .checked_sub(Duration::from_secs(point.period_seconds.into()))
        .ok()
}

/// CPU use below which a machine does nothing: the share of the policy, and at most one core, because a
/// busy core is work on a machine of any size.
pub(crate) fn cpu_floor(facts: &Facts<'_>, instance: &Instance) -> Share {
    let floor = facts.policy.metrics.cpu_floor();
    let one = cores(facts, instance).and_then(|cores| Share::from_parts(1_000, cores.0));
    one.map_or(floor, |one| floor.min(one))
}

/// Hardware threads; `None` if neither the catalogue nor the cloud reports them.
pub(crate) fn cores(facts: &Facts<'_>, instance: &Instance) -> Option<MilliCores> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    let by_type = spec.map(|spec| MilliCores::cores(spec.vcpus.into()));
    by_type.or_else(|| Some(instance.hardware?.cores))
}

/// Whether cores, network or disks did more than a system without work. An unknown value is no
/// activity; the coverage excludes such a point.
pub(crate) fn works(facts: &Facts<'_>, point: &MetricPoint, cpu_floor: Share) -> bool {
    let policy = facts.policy;
    let beyond = |bytes: Option<u64>, a_minute: u64| {
        bytes.is_some_and(|bytes| bytes >= a_minute * u64::from(point.period_seconds) / 60)
    };
    uses_cpu(point, cpu_floor)
        || beyond(point.network_bytes, policy.activity.network_floor_bytes)
        || beyond(point.disk_bytes, policy.metrics.disk_floor_bytes)
}

fn uses_cpu(point: &MetricPoint, cpu_floor: Share) -> bool {
    point.cpu_max.is_some_and(|cpu| cpu >= cpu_floor)
}

/// Whether a GPU computed; false if unknown.
pub(crate) fn computes(facts: &Facts<'_>, point: &MetricPoint) -> bool {
    let floor = facts.policy.activity.gpu_floor();
    point.gpu.is_some_and(|gpu| gpu >= floor)
}

/// Share of the window in which all required signals are known.
pub(crate) fn coverage(
    series: &MetricSeries,
    window: Window,
    is_known: impl Fn(&MetricPoint) -> bool,
) -> Share {
    let known: u64 = series
        .points()
        .filter(|point| point.end > window.from && is_known(point))
        .map(|point| u64::from(point.period_seconds))
        .sum();
    Share::from_parts(known, window.length().as_secs()).unwrap_or(Share::NONE)
}

/// Number of GPUs; `None` if neither the catalogue nor the cloud reports it.
pub(crate) fn gpus(facts: &Facts<'_>, instance: &Instance) -> Option<u32> {
    let spec = facts.catalogue.spec(&instance.instance_type);
    let by_type = spec.map(TypeSpec::gpu_count);
    by_type.or_else(|| instance.hardware?.gpus)
}

/// Peak memory in use; `None` if a system without work uses as much.
pub(crate) fn memory_in_use(
    facts: &Facts<'_>,
    series: &MetricSeries,
    window: Window,
) -> Option<Share> {
    let memory = series.most_memory_since(window.from);
    memory.filter(|memory| *memory >= facts.policy.metrics.memory_floor())
}
