//! Utilization over time from cloud metrics. A hundred thousand machines have fifteen million
//! points, so they are stored in a packed form.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use ebb_telemetry::units::{Bytes, Share};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Utilization of one node over time from cloud metrics, in order of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MetricSeries {
    points: Vec<Packed>,
    /// The latest CPU credits; `None` for a type without credits, and without data.
    pub credits: Option<Credits>,
    /// Number of GPUs that an agent reports one by one; `None` if it reports none, or all of them
    /// as one.
    pub gpus: Option<u32>,
    /// Memory in use on all GPUs together, latest value; `None` without data.
    pub gpu_held: Option<Bytes>,
}

/// CPU credits of a burstable machine; one credit is one vCPU for one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credits {
    /// The remaining credits, in thousandths.
    pub left_millis: u64,
    /// Spent surplus credits that are not earned back yet, in thousandths; `None` without data.
    pub surplus_millis: Option<u64>,
}

impl Credits {
    /// Whether no credit remains, so that the machine is limited to its baseline. A machine that
    /// spends surplus credits is not limited.
    ///
    /// Source: EC2 user guide, "Standard mode for burstable performance instances".
    pub fn are_spent(&self) -> bool {
        self.left_millis < 1_000 && self.surplus_millis.unwrap_or(0) == 0
    }
}

/// Sample length, in seconds, from which the meaning of a timestamp matters: start or end of the
/// period.
const LONG_SAMPLE_SECONDS: i64 = 1_800;

impl MetricSeries {
    /// The points in order of time.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = MetricPoint> + ExactSizeIterator + '_ {
        self.points.iter().map(Packed::open)
    }

    /// True without any point.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Adds a point that is later than all others.
    pub fn push(&mut self, point: MetricPoint) {
        self.points.push(Packed::new(point));
    }

    /// The peak of memory in use; `None` without data.
    pub fn most_memory(&self) -> Option<Share> {
        self.most_memory_since(Timestamp::MIN)
    }

    /// The peak of memory in use in points that end after `since`; `None` without data.
    pub fn most_memory_since(&self, since: Timestamp) -> Option<Share> {
        let points = self.points().filter(|point| point.end > since);
        points.filter_map(|point| point.memory).max()
    }

    /// The time from the begin of the first point to the end of the last; zero without points.
    pub fn length(&self) -> Duration {
        let begin = |p: MetricPoint| p.end.as_second() - i64::from(p.period_seconds);
        let first = self.points().next().map(begin);
        let last = self.points().next_back().map(|point| point.end.as_second());
        let seconds = last.zip(first).map_or(0, |(last, first)| last - first);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// One point for each hour, or more if the points of an hour have different known fields. The
    /// maximum of peaks and the sum of bytes are kept.
    #[must_use]
    pub fn by_the_hour(&self) -> Self {
        let mut hourly = Self {
            points: Vec::new(),
            ..*self
        };
        for point in self.points() {
            match hourly
                .points
                .last_mut()
                .and_then(|last| last.open().joined(&point))
            {
                Some(joined) => {
                    hourly.points.pop();
                    hourly.push(joined);
                }
                None => hourly.push(point),
            }
        }
        hourly
    }

    /// Replaces the points that overlap `later`, and merges older points by the hour. Drops points
    /// that end more than `kept` before the newest. Without points in `later` the series stays
    /// unchanged.
    #[must_use]
    pub fn renewed(self, later: Self, kept: Duration) -> Self {
        let (Some(first), Some(last)) = (later.points().next(), later.points().next_back()) else {
            return self;
        };
        let begin = first.end.as_second() - i64::from(first.period_seconds);
        let kept = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        let oldest = last.end.as_second().saturating_sub(kept);
        let is_kept = |p: &MetricPoint| (oldest + 1..=begin).contains(&p.end.as_second());
        let older: Self = self.points().filter(is_kept).collect();
        let mut points = older.by_the_hour().points;
        points.extend(&later.points);
        Self { points, ..later }
    }

    /// The mean of the hourly CPU peaks; `None` without data. A mean over all samples hides bursts,
    /// and a daily peak shows only one moment. On half days of 3,500 machines, this value predicted
    /// best which machines stay idle (`eval idle`).
    pub fn hourly_peak(&self) -> Option<Share> {
        self.hourly_peak_since(Timestamp::MIN)
    }

    /// The mean of the hourly CPU peaks of points that end after `since`.
    pub fn hourly_peak_since(&self, since: Timestamp) -> Option<Share> {
        let mut hours: BTreeMap<i64, Share> = BTreeMap::new();
        for point in self.points().filter(|point| point.end > since) {
            let Some(cpu) = point.cpu_max else { continue };
            let begin = point.end.as_second() - i64::from(point.period_seconds);
            let hour = hours.entry(begin.div_euclid(3600)).or_insert(cpu);
            *hour = cpu.max(*hour);
        }
        let sum: u64 = hours.values().map(|peak| u64::from(peak.ppm())).sum();
        let mean = sum.checked_div(hours.len() as u64)?;
        u32::try_from(mean).ok().map(Share::from_ppm)
    }
}

/// One row of a user's metrics; `None` is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetricSample {
    /// CPU utilization of the whole machine.
    pub cpu: Option<Share>,
    /// Memory in use.
    pub memory: Option<Share>,
    /// Bytes received and sent since the previous row.
    pub network_bytes: Option<u64>,
    /// Bytes read from and written to disks since the previous row.
    pub disk_bytes: Option<u64>,
}

impl MetricSeries {
    /// Builds a series from samples in order of time. A sample covers the time since the previous
    /// sample. If that is more than twice the median, samples are missing, and the sample covers
    /// the median time. The first sample covers the median time too. Empty for a single sample,
    /// because its length is unknown.
    ///
    /// Some sources report the start of a sample's period, as CloudWatch does; others report its
    /// end. The CPU of a long sample counts for both periods, so that no schedule ends an hour too
    /// early.
    pub fn from_samples(samples: impl IntoIterator<Item = (Timestamp, MetricSample)>) -> Self {
        let samples: Vec<(Timestamp, MetricSample)> = samples.into_iter().collect();
        let pairs = samples.windows(2);
        let between: Vec<i64> = pairs
            .map(|pair| pair[1].0.as_second() - pair[0].0.as_second())
            .collect();
        let mut lengths = between.clone();
        lengths.sort_unstable();
        let Some(usual) = lengths.get(lengths.len() / 2).copied() else {
            return Self::default();
        };
        let points = samples.iter().enumerate().map(|(n, (at, sample))| {
            let since = n.checked_sub(1).map(|before| between[before]);
            let length = since.filter(|since| *since <= usual * 2).unwrap_or(usual);
            let before = n.checked_sub(1).and_then(|before| samples.get(before));
            let before = before.filter(|_| usual >= LONG_SAMPLE_SECONDS && length == usual);
            MetricPoint {
                cpu_max: sample.cpu.map(|cpu| {
                    let earlier = before.and_then(|(_, sample)| sample.cpu);
                    earlier.map_or(cpu, |earlier| earlier.max(cpu))
                }),
                network_bytes: sample.network_bytes,
                disk_bytes: sample.disk_bytes,
                memory: sample.memory,
                ..MetricPoint::new(*at, u32::try_from(length).unwrap_or(u32::MAX))
            }
        });
        points.collect()
    }
}

impl FromIterator<MetricPoint> for MetricSeries {
    /// Builds a series from points in order of time.
    fn from_iter<I: IntoIterator<Item = MetricPoint>>(points: I) -> Self {
        Self {
            points: points.into_iter().map(Packed::new).collect(),
            ..Self::default()
        }
    }
}

/// One point: the metrics of a period of `period_seconds` that ends at `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricPoint {
    /// The end of the period, in whole seconds.
    pub end: Timestamp,
    /// The length of the period.
    pub period_seconds: u32,
    /// Peak CPU utilization of the whole machine; `None` without data.
    pub cpu_max: Option<Share>,
    /// Bytes received and sent; `None` without data.
    pub network_bytes: Option<u64>,
    /// Bytes read from and written to disks; `None` without data.
    pub disk_bytes: Option<u64>,
    /// Memory in use; `None` without data.
    pub memory: Option<Share>,
    /// Utilization of the busiest GPU; `None` unless all reported GPUs have data.
    pub gpu: Option<Share>,
}

impl MetricPoint {
    /// A point without data.
    pub fn new(end: Timestamp, period_seconds: u32) -> Self {
        Self {
            end,
            period_seconds,
            cpu_max: None,
            network_bytes: None,
            disk_bytes: None,
            memory: None,
            gpu: None,
        }
    }
}

impl MetricPoint {
    /// The hour since 1970 in which the period begins.
    fn hour(&self) -> i64 {
        (self.end.as_second() - i64::from(self.period_seconds)).div_euclid(3600)
    }

    /// Merges a point with the next one; `None` unless both are adjacent, in the same hour and have
    /// the same known fields.
    fn joined(&self, next: &Self) -> Option<Self> {
        let begin = next.end.as_second() - i64::from(next.period_seconds);
        if self.hour() != next.hour() || self.end.as_second() != begin {
            return None;
        }
        Some(Self {
            end: next.end,
            period_seconds: self.period_seconds.saturating_add(next.period_seconds),
            cpu_max: both(self.cpu_max, next.cpu_max, Share::max)?,
            network_bytes: both(self.network_bytes, next.network_bytes, u64::saturating_add)?,
            disk_bytes: both(self.disk_bytes, next.disk_bytes, u64::saturating_add)?,
            memory: both(self.memory, next.memory, Share::max)?,
            gpu: both(self.gpu, next.gpu, Share::max)?,
        })
    }
}

/// Merges two values; `Some(None)` if both are unknown, `None` if only one is known.
#[expect(
    clippy::option_option,
    reason = "whether they agree, and what is known"
)]
fn both<T>(a: Option<T>, b: Option<T>, join: impl Fn(T, T) -> T) -> Option<Option<T>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Some(join(a, b))),
        (None, None) => Some(None),
        _ => None,
    }
}

/// A point in 40 bytes. Numbers are stored plus one, so that `None` needs no additional space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Packed {
    end: i64,
    network: Option<NonZeroU64>,
    disk: Option<NonZeroU64>,
    period: u32,
    cpu: Option<NonZeroU32>,
    memory: Option<NonZeroU32>,
    gpu: Option<NonZeroU32>,
}

impl Packed {
    fn new(point: MetricPoint) -> Self {
        let share = |n: Option<Share>| n.and_then(|n| NonZeroU32::new(n.ppm().saturating_add(1)));
        let large = |n: Option<u64>| n.and_then(|n| NonZeroU64::new(n.saturating_add(1)));
        Self {
            end: point.end.as_second(),
            network: large(point.network_bytes),
            disk: large(point.disk_bytes),
            period: point.period_seconds,
            cpu: share(point.cpu_max),
            memory: share(point.memory),
            gpu: share(point.gpu),
        }
    }

    fn open(&self) -> MetricPoint {
        let share = |n: Option<NonZeroU32>| n.map(|n| Share::from_ppm(n.get() - 1));
        let large = |n: Option<NonZeroU64>| n.map(|n| n.get() - 1);
        // Stored data may be damaged; an out-of-range time becomes the epoch.
        let end = Timestamp::from_second(self.end).unwrap_or_default();
        MetricPoint {
            cpu_max: share(self.cpu),
            network_bytes: large(self.network),
            disk_bytes: large(self.disk),
            memory: share(self.memory),
            gpu: share(self.gpu),
            ..MetricPoint::new(end, self.period)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(minute: i64) -> MetricPoint {
        let end = Timestamp::from_second(minute * 60).expect("a time");
        MetricPoint::new(end, 300)
    }

    #[test]
    fn a_point_comes_out_as_it_went_in_and_unknown_is_not_zero() {
        let check = |point: MetricPoint| {
            let series: MetricSeries = [point].into_iter().collect();
            assert_eq!(series.points().collect::<Vec<_>>(), [point]);
        };
        check(point(5));
        check(MetricPoint {
            cpu_max: Some(Share::NONE),
            network_bytes: Some(0),
            disk_bytes: Some(7),
            memory: Some(Share::ALL),
            gpu: Some(Share::NONE),
            ..point(5)
        });
        assert_eq!(size_of::<Packed>(), 40);
    }

    #[test]
    fn credits_are_spent_when_none_is_left_and_none_is_owed() {
        let check = |left_millis, surplus_millis, expect| {
            let credits = Credits {
                left_millis,
                surplus_millis,
            };
            assert_eq!(credits.are_spent(), expect, "{credits:?}");
        };
        check(0, Some(0), true);
        check(999, None, true);
        check(1_000, Some(0), false);
        check(0, Some(10), false);
    }

    /// A point of five minutes with CPU in percent and network traffic in kilobytes.
    fn known(minute: i64, cpu: Option<u32>, network_kb: u64) -> MetricPoint {
        MetricPoint {
            cpu_max: cpu.map(|percent| Share::from_ppm(percent * 10_000)),
            network_bytes: Some(network_kb * 1_000),
            ..point(minute)
        }
    }

    #[test]
    fn an_hour_has_its_greatest_cpu_and_all_its_bytes_and_unknown_stays_unknown() {
        let check = |points: &[MetricPoint], expect: &[(i64, u32, Option<u32>, u64)]| {
            let series: MetricSeries = points.iter().copied().collect();
            let hourly = series.by_the_hour();
            let got = hourly.points().map(|p| {
                let cpu = p.cpu_max.map(|cpu| cpu.ppm() / 10_000);
                let network = p.network_bytes.unwrap_or(0) / 1_000;
                (p.end.as_second() / 60, p.period_seconds / 60, cpu, network)
            });
            assert_eq!(got.collect::<Vec<_>>(), expect);
            assert_eq!(hourly.by_the_hour(), hourly, "once is enough");
        };
        check(
            &[
                known(55, Some(2), 1),
                known(60, Some(9), 2),
                known(65, Some(1), 4),
            ],
            &[(60, 10, Some(9), 3), (65, 5, Some(1), 4)],
        );
        check(
            &[
                known(10, Some(2), 1),
                known(15, None, 2),
                known(20, None, 4),
            ],
            &[(10, 5, Some(2), 1), (20, 10, None, 6)],
        );
        // Five minutes are missing between them.
        check(
            &[known(10, Some(2), 1), known(20, Some(1), 4)],
            &[(10, 5, Some(2), 1), (20, 5, Some(1), 4)],
        );
        check(&[], &[]);
    }

    #[test]
    fn a_series_is_renewed_from_where_the_newer_one_begins() {
        let of = |minutes: &[i64], cpu: u32| -> MetricSeries {
            minutes.iter().map(|m| known(*m, Some(cpu), 1)).collect()
        };
        let check = |kept_minutes: u64, later: &[i64], expect: &[(i64, u32)]| {
            let kept = Duration::from_secs(kept_minutes * 60);
            let renewed = of(&[5, 10, 60, 65, 70], 1).renewed(of(later, 2), kept);
            let got = renewed.points().map(|p| {
                let cpu = p.cpu_max.map_or(0, |cpu| cpu.ppm() / 10_000);
                (p.end.as_second() / 60, cpu)
            });
            assert_eq!(got.collect::<Vec<_>>(), expect, "{later:?}");
        };
        let all = [(10, 1), (60, 1), (65, 2), (70, 2), (75, 2)];
        check(600, &[65, 70, 75], &all);
        check(20, &[65, 70, 75], &all[1..]);
        check(600, &[], &[(5, 1), (10, 1), (60, 1), (65, 1), (70, 1)]);
    }

    #[test]
    fn an_hour_counts_by_its_greatest_sample_and_no_data_is_no_quiet() {
        let check = |samples: &[(i64, Option<u32>)], expect: Option<u32>| {
            let points = samples.iter().map(|(minute, percent)| MetricPoint {
                cpu_max: percent.map(|percent| Share::from_ppm(percent * 10_000)),
                ..point(*minute)
            });
            let series: MetricSeries = points.collect();
            let expect = expect.map(|percent| Share::from_ppm(percent * 10_000));
            assert_eq!(series.hourly_peak(), expect);
        };
        check(&[(5, Some(2)), (60, Some(40)), (65, Some(10))], Some(25));
        check(&[(5, Some(2)), (60, None)], Some(2));
        check(&[(5, None)], None);
        check(&[], None);
    }
}
