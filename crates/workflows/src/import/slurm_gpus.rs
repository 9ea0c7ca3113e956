//! GPU time of Slurm jobs by step, and how much of it no GPU computed.
//!
//! Source: "sacct", Slurm's manual. `AllocTRES` of a job contains `gres/gpu=2`, or only the model, as
//! in `gres/gpu:a100=2`. `TRESUsageInMax` and its siblings of a step contain `gres/gpuutil` in per
//! cent, if Slurm gathers it.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_telemetry::money::grouped;
use ebb_telemetry::safe_text::{clip, one_line};

use super::record::counted_lines;

/// The most steps that a note names.
const NAMED: usize = 5;

/// The number of GPUs in a list of allocated resources.
pub(super) fn allocated(resources: &str) -> u64 {
    let models = counts(resources).filter(|(name, _)| name.starts_with("gres/gpu:"));
    let all = counts(resources).find(|(name, _)| *name == "gres/gpu");
    all.map_or_else(
        || models.map(|(_, count)| count).fold(0, u64::saturating_add),
        |(_, count)| count,
    )
}

/// The use in a list of used resources; `None` if Slurm did not gather it.
pub(super) fn used(resources: &str) -> Option<u64> {
    counts(resources).find_map(|(name, count)| (name == "gres/gpuutil").then_some(count))
}

fn counts(resources: &str) -> impl Iterator<Item = (&str, u64)> {
    let pairs = resources.split(',').filter_map(|part| part.split_once('='));
    pairs.filter_map(|(name, count)| Some((name.trim(), count.trim().parse().ok()?)))
}

/// GPU time of all jobs.
#[derive(Default)]
pub(super) struct GpuTimes {
    all: GpuTime,
    measured: GpuTime,
    /// Of jobs that used no GPU, by step.
    unused: BTreeMap<String, GpuTime>,
}

#[derive(Default, Clone, Copy)]
struct GpuTime {
    jobs: u64,
    seconds: u64,
}

impl GpuTime {
    fn add(&mut self, other: Self) {
        self.jobs = self.jobs.saturating_add(other.jobs);
        self.seconds = self.seconds.saturating_add(other.seconds);
    }

    fn jobs(self) -> String {
        counted_lines(self.jobs, ("job", "jobs"))
    }

    fn hours(self) -> String {
        let tenths = self.seconds / 360;
        format!("{}.{} GPU-h", grouped(tenths / 10), tenths % 10)
    }
}

impl GpuTimes {
    /// Adds a job with its GPUs and their use; `None` if that is unknown.
    pub(super) fn add(&mut self, step: &str, gpus: u64, wall: Duration, used: Option<u64>) {
        let time = GpuTime {
            jobs: 1,
            seconds: gpus.saturating_mul(wall.as_secs()),
        };
        if gpus == 0 {
            return;
        }
        self.all.add(time);
        let Some(used) = used else {
            return;
        };
        self.measured.add(time);
        if used == 0 {
            self.unused.entry(step.to_owned()).or_default().add(time);
        }
    }

    /// One note; `None` without a job that had GPUs.
    pub(super) fn note(&self) -> Option<String> {
        if self.all.jobs == 0 {
            return None;
        }
        let held = format!("{} held GPUs for {}", self.all.jobs(), self.all.hours());
        if self.measured.jobs == 0 {
            return Some(format!(
                "{held}; their use is unknown without gres/gpuutil in TRESUsageInMax, which Slurm gathers \
                 with AutoDetect in gres.conf"
            ));
        }
        let known = match self.measured.jobs == self.all.jobs {
            true => String::new(),
            false => format!(
                "; the use is known of {} ({})",
                self.measured.jobs(),
                self.measured.hours()
            ),
        };
        let mut steps: Vec<_> = self.unused.iter().collect();
        steps.sort_by_key(|(_, time)| std::cmp::Reverse(time.seconds));
        let mut sum = GpuTime::default();
        steps.iter().for_each(|(_, time)| sum.add(**time));
        if steps.is_empty() {
            return Some(format!("{held}{known}; each used them"));
        }
        let names = steps.iter().take(NAMED);
        let names = names.map(|(name, time)| {
            let name = one_line(name);
            format!("{} ({}, {})", clip(&name, 60), time.jobs(), time.hours())
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let more = match steps.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "{held}{known}; {} ({}) did not use theirs: {names}{more}",
            sum.jobs(),
            sum.hours()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted_by_their_sum_or_their_models() {
        let check =
            |resources: &str, expect| assert_eq!(allocated(resources), expect, "{resources}");
        check(
            "billing=16,cpu=16,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1",
            2,
        );
        check("cpu=16,gres/gpu:a100=2,gres/gpu:v100=1", 3);
        check("cpu=16,mem=64G,gres/shard=4", 0);
        check("gres/gpu=x,gres/gpu", 0);
        check("", 0);
        assert_eq!(
            used("cpu=00:00:01,gres/gpumem=100M,gres/gpuutil=37"),
            Some(37)
        );
        assert_eq!(used("cpu=00:00:01,mem=1G"), None);
    }

    #[test]
    fn a_note_names_the_steps_whose_gpus_did_not_compute() {
        let mut times = GpuTimes::default();
        assert_eq!(times.note(), None);
        let hour = Duration::from_secs(3600);
        times.add("plain", 0, hour, None);
        assert_eq!(times.note(), None);
        times.add("blind", 2, hour, None);
        assert!(times.note().is_some_and(|note| note.contains("is unknown")));
        times.add("train", 1, hour, Some(80));
        assert!(
            times
                .note()
                .is_some_and(|note| note.ends_with("each used them"))
        );
        times.add("idle", 2, hour, Some(0));
        times.add("idle", 2, hour / 2, Some(0));
        let expect = "4 jobs held GPUs for 6.0 GPU-h; the use is known of 3 jobs (4.0 GPU-h); 2 jobs (3.0 GPU-h) \
                      did not use theirs: idle (2 jobs, 3.0 GPU-h)";
        assert_eq!(times.note().as_deref(), Some(expect));
    }
}
