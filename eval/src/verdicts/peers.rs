//! Published rules for idle machines. They use five-minute means of the whole machine's CPU, as in
//! CloudWatch, and bytes over the network.
//!
//! Sources: AWS Compute Optimizer user guide, "Idle resources"; Trusted Advisor check reference,
//! "Low Utilization Amazon EC2 Instances"; OptScale, "Abandoned instances"; awsspectre, README,
//! "idle instances". The histories contain no memory, so conditions on memory are left out.

use super::Says;
use super::history::{History, Interval, Set};

const DAY: usize = 24 * 60;

/// The metrics of a history.
struct Metrics {
    minutes: Vec<Interval>,
}

impl Metrics {
    /// The metrics of the last `days` days.
    fn from_history(set: &Set, history: &History, days: usize) -> Self {
        let mut minutes: Vec<_> = set.minutes(history).collect();
        minutes.drain(..minutes.len().saturating_sub(days * DAY));
        Self { minutes }
    }

    fn days(&self) -> impl Iterator<Item = &[Interval]> {
        self.minutes.chunks(DAY)
    }

    /// True if a GPU worked for at least this share of the time.
    fn gpu_busy(&self, share: f64) -> bool {
        let busy = self.minutes.iter().filter(|i| i.gpu_ppm > Some(0)).count();
        busy as f64 >= share * self.minutes.len() as f64
    }

    fn has_gpu(&self) -> bool {
        self.minutes.iter().any(|i| i.gpu_ppm.is_some())
    }

    fn mean_gpu(&self) -> f64 {
        let sum: u64 = self
            .minutes
            .iter()
            .filter_map(|i| i.gpu_ppm)
            .map(u64::from)
            .sum();
        sum as f64 / 1e6 / self.minutes.len() as f64
    }
}

fn mean(minutes: &[Interval]) -> f64 {
    let used: u64 = minutes.iter().map(|i| i.all_cpu_ms).sum();
    let there: u64 = minutes.iter().map(|i| i.seconds * i.cores_milli).sum();
    used as f64 / there as f64
}

fn peak(minutes: &[Interval]) -> f64 {
    minutes.chunks(5).map(mean).fold(0.0, f64::max)
}

fn network(minutes: &[Interval]) -> u64 {
    minutes.iter().filter_map(|i| i.network_bytes).sum()
}

fn idle_if(is_idle: bool) -> Says {
    match is_idle {
        true => Says::Idle,
        false => Says::Used,
    }
}

/// Peak CPU below 5 % and less than 5 MB a day over 14 days; a GPU must be inactive for more than
/// 99 % of the time.
pub(super) fn compute_optimizer(set: &Set, history: &History) -> Says {
    let metrics = Metrics::from_history(set, history, 14);
    if metrics.has_gpu() {
        return idle_if(!metrics.gpu_busy(0.01));
    }
    let quiet = metrics.days().all(|day| network(day) < 5_000_000);
    idle_if(quiet && peak(&metrics.minutes) < 0.05)
}

/// A daily mean of at most 10 % and at most 5 MB on 4 or more of 14 days.
pub(super) fn trusted_advisor(set: &Set, history: &History) -> Says {
    let metrics = Metrics::from_history(set, history, 14);
    let low = |day: &&[Interval]| mean(day) <= 0.1 && network(day) <= 5_000_000;
    idle_if(metrics.days().filter(low).count() >= 4)
}

/// A mean of at most 5 % and 1,000 bytes a second over 7 days.
pub(super) fn optscale(set: &Set, history: &History) -> Says {
    let metrics = Metrics::from_history(set, history, 7);
    let a_second = network(&metrics.minutes) as f64 / (60 * metrics.minutes.len()) as f64;
    idle_if(mean(&metrics.minutes) <= 0.05 && a_second <= 1_000.0)
}

/// Mean CPU below 5 % over 7 days. A GPU at 50 % or 1 GB of network traffic means in use. Peak CPU
/// of 30 % on two days means undetermined.
pub(super) fn awsspectre(set: &Set, history: &History) -> Says {
    let metrics = Metrics::from_history(set, history, 7);
    let busy = metrics.mean_gpu() >= 0.5 || network(&metrics.minutes) >= 1_000_000_000;
    if busy || mean(&metrics.minutes) >= 0.05 {
        return Says::Used;
    }
    let bursts = metrics.days().filter(|day| peak(day) >= 0.3).count();
    match bursts >= 2 {
        true => Says::Undetermined,
        false => Says::Idle,
    }
}
