//! The request that a step needs, from the peaks of its past tasks.

use std::iter;
use std::time::Duration;

use ebb_model::advice::sized_request::{ChanceRange, Risk, SizedInput, SizedRequest};
use ebb_model::policy::sizing::SizingPolicy;
use ebb_model::step_profile::sample::Sample;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::memory::{MemoryAdvice, learned, run};
use crate::sample::{MEMORY_STEP, in_steps};
use crate::spread::Spread;
use crate::{by_input, chance_range, cores, fargate_sizes};

/// The needs of a step, as its tasks show them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// Whole cores; `None` if the parallelism of a task is unknown.
    pub cores: Option<MilliCores>,
    /// The largest measured number of busy cores; `None` if only averages are known.
    pub peak_cores: Option<MilliCores>,
    /// The memory to which a smaller request grows; `None` if the peak of a task is unknown.
    pub memory: Option<Bytes>,
    /// The memory to which a larger request may shrink. It also has room for tasks of another run
    /// and other samples, so it is at least [`Need::memory`].
    pub shrink_to: Option<Bytes>,
    /// The risk of that memory.
    pub risk: Risk,
    /// Memory by the size of the input; empty if the input does not explain the memory.
    pub by_input: Vec<SizedInput>,
    /// The request on Fargate; `None` if cores or memory are unknown, or exceed the largest size of
    /// Fargate.
    pub on_fargate: Option<SizedRequest>,
    /// The largest slowdown of tasks with those cores, in parts per million. `None` if the cores
    /// follow from a measured peak, which costs no time.
    pub slowdown_ppm: Option<u32>,
    /// Whether fewer tasks than [`SizingPolicy::min_runs`] were observed, so that no request
    /// shrinks.
    pub too_few_tasks: bool,
    /// The peaks of the tasks in ascending order. `effective_millis` is the equivalent number of
    /// independent tasks, in thousandths.
    pub peaks: Vec<Bytes>,
    pub effective_millis: u32,
    /// Those of `peaks` that are assumed, in ascending order: the tasks ran out of memory and never
    /// succeeded, so they may need more than any size.
    pub unmet: Vec<Bytes>,
    /// The most memory that a task used for certain; `None` if all peaks are unknown or upper
    /// bounds.
    pub held: Option<Bytes>,
}

impl Need {
    /// The same with tenths of cores instead of whole ones, for schedulers that divide a core.
    #[must_use]
    pub fn in_tenths_of_cores(mut self) -> Self {
        let tenths = |peak: MilliCores| MilliCores(peak.0.div_ceil(100).max(1) * 100);
        self.cores = self.peak_cores.map(tenths).or(self.cores);
        self
    }

    /// The 90 % bounds of the chance that a task of a new run needs more than `size`; `None` when
    /// no peak is known.
    pub fn chance_of_more_than(&self, size: Bytes) -> Option<ChanceRange> {
        let all = self.peaks.len();
        let more = all - self.peaks.partition_point(|peak| *peak <= size);
        let perhaps_more = more + self.unmet.partition_point(|need| *need <= size);
        let effective = f64::from(self.effective_millis) / 1e3;
        let range = |more: usize| chance_range::chance_range(more as f64 / all as f64, effective);
        (all > 0).then(|| ChanceRange {
            from_ppm: range(more).from_ppm,
            to_ppm: range(perhaps_more).to_ppm,
        })
    }

    /// Whether tasks needed all or nearly all of `size`: one was OOM-killed, or used at least 95 %
    /// of it for certain.
    pub fn comes_near(&self, size: Bytes, oom_kills: usize) -> bool {
        let near = u128::from(size.0) * 95 / 100;
        let greatest = self.held.map_or(0, |held| u128::from(held.0));
        oom_kills > 0 || greatest >= near
    }

    /// The risk of a request for `size`, followed by the recommended sizes above it.
    pub fn risk_after(&self, size: Bytes) -> Risk {
        let larger = self.risk.attempts.iter().filter(|next| **next > size);
        let mut attempts: Vec<Bytes> = larger.copied().collect();
        if self.memory > Some(size) {
            attempts.insert(0, self.memory.unwrap_or(size));
        }
        self.risk_of(size, self::attempts(size, &attempts))
    }

    /// The risk of a request for `size` instead of `now`. A task that needs more than a smaller
    /// request gets the present one next, because engines often retry only once. If that was not enough
    /// for all tasks, it gets a size that is.
    pub fn risk_instead_of(&self, now: Option<Bytes>, size: Bytes) -> Risk {
        let mut risk = self.risk_after(size);
        if let Some(now) = now.filter(|now| *now > size) {
            let now = match self.peaks.last().filter(|greatest| **greatest > now) {
                Some(greatest) => with_reserve(*greatest),
                None => now,
            };
            // A size little above the present one would hardly be better.
            let much_larger = |next: &&Bytes| next.0 / 3 >= now.0 / 2;
            let named: Vec<Bytes> = risk.attempts.iter().filter(much_larger).copied().collect();
            let larger = self::attempts(now, &named);
            risk.attempts = iter::once(now).chain(larger).take(ATTEMPTS).collect();
        }
        risk
    }

    /// The risk of a request for `size`, with the requests after it failed.
    fn risk_of(&self, size: Bytes, attempts: Vec<Bytes>) -> Risk {
        let between = self.chance_of_more_than(size);
        let chance = self.risk.oom_ppm.filter(|_| self.memory == Some(size));
        Risk {
            oom_ppm: chance.filter(|ppm| between.is_some_and(|range| range.supports(*ppm))),
            attempts,
            samples_needed: self.risk.samples_needed,
            oom_between: between,
            basis: self.risk.basis,
        }
    }
}

/// A request and the risk of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sized {
    /// The request.
    pub request: SizedRequest,
    /// The risk of its memory.
    pub risk: Risk,
}

/// Number of sizes for retries; after a third failure in a row a person should look.
const ATTEMPTS: usize = 2;

/// Factor on an observed peak for a size that holds later tasks like it.
const RESERVE: f64 = 1.05;

/// Tasks below this duration may end before their memory is sampled; those without a peak are
/// ignored. Slurm and Snakemake sample every 30 seconds.
const LONGEST_UNSAMPLED: Duration = Duration::from_secs(60);

/// Minimum share of known peaks, in percent. With fewer, the unknown peaks may be the important
/// ones.
const LEAST_KNOWN_PERCENT: usize = 95;

/// The share of a measured peak of busy cores that may be an error, in percent.
const MEASUREMENT_ERROR_PERCENT: u64 = 3;

/// The needs of a step.
///
/// Cores follow from the largest parallelism, rounded up to whole cores. An excess within the error
/// of the measurement does not count. If only averages are known, they follow from
/// [`cores::from_averages`].
///
/// Memory follows from the models of [`memory`] if there are at least
/// [`SizingPolicy::confident_samples`] tasks. With fewer tasks it follows from the largest peak
/// with headroom. A request shrinks at most to the size that a task of a new run exceeds with the
/// chance that the policy allows. That size follows from the spread between runs, samples and
/// tasks.
///
/// `samples` are in order of time, the oldest first. `input` is the size of the input of the next
/// task. It counts only if the input explains the memory; then the memory and its risk are those of
/// similar inputs. See [`Need::by_input`].
///
/// Source of the headroom: HealthOmics Run Analyzer's `ceil(max x (1 + headroom))`.
pub fn need(samples: &[Sample], input: Option<Bytes>, policy: &SizingPolicy) -> Need {
    let sampled: Vec<Sample> = samples.iter().filter(is_sampled).copied().collect();
    let all = samples;
    let samples = sampled.as_slice();
    let peaks = known_peaks(samples);
    let known: Vec<Sample> = samples
        .iter()
        .filter(|s| s.peak_memory.is_some())
        .copied()
        .collect();
    let samples = known.as_slice();
    let missing = (policy.confident_samples as usize).saturating_sub(all.len());
    let spread = Spread::from_samples(samples).filter(|_| !peaks.is_empty());
    let sized = spread.map(|spread| sized_memory(samples, missing, &spread, policy));
    let by_input = by_input::by_input(all, policy);
    let similar = input.and_then(|input| SimilarInputs::find(input, &by_input, samples));
    let (samples, peaks, spread, sized) = match &similar {
        Some(similar) => (
            similar.samples.as_slice(),
            known_peaks(&similar.samples),
            Spread::from_samples(&similar.samples),
            sized.and_then(|sized| similar.size(sized)),
        ),
        None => (samples, peaks, spread, sized),
    };
    let cores = needed_cores(all, policy);
    let shrink_to = sized.as_ref().map(|sized| sized.shrink_to);
    let on_fargate = cores.peak.zip(shrink_to);
    let mut need = Need {
        cores: cores.request,
        peak_cores: cores.peak,
        memory: sized.as_ref().map(|sized| sized.size),
        shrink_to,
        risk: Risk {
            oom_ppm: sized.as_ref().and_then(|sized| sized.oom_ppm),
            samples_needed: u32::try_from(missing).unwrap_or(u32::MAX),
            basis: spread.map(|spread| spread.basis()),
            ..Risk::default()
        },
        by_input,
        on_fargate: on_fargate.and_then(|(cores, memory)| fargate_sizes::pair(cores, memory)),
        slowdown_ppm: cores.slowdown_ppm,
        too_few_tasks: all.len() < policy.min_runs as usize,
        effective_millis: spread.map_or(0, |spread| spread.basis().effective_tasks_millis),
        unmet: unmet_needs(samples),
        held: all.iter().filter_map(|sample| sample.held_memory).max(),
        peaks,
    };
    if let Some(sized) = sized {
        need.risk = need.risk_of(sized.size, sized.attempts);
    }
    need
}

/// Whether so many peaks are known that memory can be sized.
pub fn has_enough_peaks(samples: &[Sample]) -> bool {
    let sampled: Vec<Sample> = samples.iter().filter(is_sampled).copied().collect();
    !known_peaks(&sampled).is_empty()
}

/// Whether the peak is known, or unknown for another reason than a short duration.
fn is_sampled(sample: &&Sample) -> bool {
    sample.peak_memory.is_some() || sample.wall >= LONGEST_UNSAMPLED
}

/// The peaks in ascending order; none if too many are unknown, because those could be the largest.
fn known_peaks(samples: &[Sample]) -> Vec<Bytes> {
    let mut peaks: Vec<Bytes> = samples.iter().filter_map(peak_of).collect();
    if peaks.len() * 100 < samples.len() * LEAST_KNOWN_PERCENT {
        peaks.clear();
    }
    peaks.sort_unstable();
    peaks
}

/// See [`Need::unmet`].
fn unmet_needs(samples: &[Sample]) -> Vec<Bytes> {
    let unmet = samples.iter().filter(|sample| sample.is_unmet);
    let mut needs: Vec<Bytes> = unmet.filter_map(peak_of).collect();
    needs.sort_unstable();
    needs
}

fn peak_of(sample: &Sample) -> Option<Bytes> {
    sample.peak_memory.map(|peak| peak.bytes)
}

/// The cores that a step needs.
#[derive(Default)]
struct NeededCores {
    request: Option<MilliCores>,
    /// The largest observed parallelism.
    peak: Option<MilliCores>,
    slowdown_ppm: Option<u32>,
}

fn needed_cores(samples: &[Sample], policy: &SizingPolicy) -> NeededCores {
    let peak = greatest(samples, |sample| sample.peak_cores);
    if peak.is_some() {
        return NeededCores {
            request: peak.map(whole),
            peak,
            slowdown_ppm: None,
        };
    }
    let fewer = cores::from_averages(samples, policy);
    fewer.map_or_else(NeededCores::default, |fewer| NeededCores {
        request: Some(fewer.cores),
        peak: None,
        slowdown_ppm: Some(fewer.slowdown_ppm),
    })
}

/// The tasks with inputs of about the same size.
struct SimilarInputs {
    samples: Vec<Sample>,
    /// The memory for these inputs; `None` if no input was as large.
    memory: Option<Bytes>,
}

impl SimilarInputs {
    /// `None` if the input does not explain the memory.
    fn find(input: Bytes, by_input: &[SizedInput], samples: &[Sample]) -> Option<Self> {
        by_input.first()?;
        let at = by_input.partition_point(|sized| sized.input < input);
        let smaller = at.checked_sub(1).map(|smaller| by_input[smaller].input);
        let sized = by_input.get(at);
        let is_similar = |sample: &&Sample| {
            let largest = sized.map(|sized| sized.input);
            sample.input > smaller && largest.is_some_and(|largest| sample.input <= Some(largest))
        };
        Some(Self {
            samples: samples.iter().filter(is_similar).copied().collect(),
            memory: sized.map(|sized| sized.memory),
        })
    }

    /// The memory instead of that for all inputs; `None` for an input that is larger than all
    /// observed ones.
    fn size(&self, all: SizedMemory) -> Option<SizedMemory> {
        let size = self.memory?;
        Some(SizedMemory {
            size,
            shrink_to: size,
            oom_ppm: None,
            attempts: attempts(size, &all.attempts),
        })
    }
}

/// The memory that a step needs; see [`Need`].
struct SizedMemory {
    size: Bytes,
    shrink_to: Bytes,
    /// The chance that a task needs more, by the tail of the model that chose the size; `None` if
    /// no model chose it.
    oom_ppm: Option<u32>,
    attempts: Vec<Bytes>,
}

fn sized_memory(
    samples: &[Sample],
    missing: usize,
    spread: &Spread,
    policy: &SizingPolicy,
) -> SizedMemory {
    let modelled = match missing {
        0 => modelled(samples, policy),
        _ => None,
    };
    let allowed = f64::from(policy.oom_ppm) / 1e6;
    let rarely_exceeded = rarely_exceeded(samples, allowed);
    let least = match &modelled {
        Some(advice) => near_greatest(advice.first(), samples, rarely_exceeded),
        None => with_headroom(greatest(samples, peak_of).unwrap_or_default(), policy),
    };
    // The spread does not count in two cases. If every chance is allowed, only the waste counts. Too
    // few tasks have no spread.
    let counts = allowed < 1.0 && samples.len() >= policy.min_runs as usize;
    let by_spread = match counts {
        true => spread
            .exceeded_by(allowed)
            .min(beyond_greatest(samples, spread))
            .max(rarely_exceeded) as u64,
        false => 0,
    };
    let size = in_steps(u128::from(least.0));
    let named = modelled.as_ref().map_or(&[][..], |advice| &advice.attempts);
    let mut named: Vec<Bytes> = named
        .iter()
        .map(|size| near_greatest(*size, samples, rarely_exceeded))
        .collect();
    // The last attempt has a reserve above the largest need, as the first one has.
    if let Some((last, greatest)) = named.last_mut().zip(greatest(samples, peak_of)) {
        *last = (*last).max(with_reserve(greatest));
    }
    SizedMemory {
        size,
        shrink_to: in_steps(u128::from(by_spread)).max(size),
        oom_ppm: modelled.as_ref().map(|advice| advice.oom_ppm),
        attempts: attempts(size, &named),
    }
}

/// The size of a model, limited to the neighbourhood of the largest peak. A tail that is fitted to
/// two groups of needs reaches far beyond both, and a tail without spread leaves no reserve. `least`
/// is in bytes.
fn near_greatest(size: Bytes, samples: &[Sample], least: f64) -> Bytes {
    let Some(greatest) = greatest(samples, peak_of) else {
        return size;
    };
    let count = samples.len().max(1) as f64;
    let most = greatest.0.max(MEMORY_STEP.0) as f64 * (1.2 + 5.0 / count);
    Bytes((size.0 as f64).clamp(least, most.max(least)) as u64)
}

/// A size for later tasks like one with this peak.
pub(crate) fn with_reserve(peak: Bytes) -> Bytes {
    in_steps((peak.0 as f64 * RESERVE) as u128)
}

/// The size in bytes that at most this share of the tasks exceeded, with a reserve. Needs in two
/// groups have such a size far beyond that of their spread, and models follow the newest group.
fn rarely_exceeded(samples: &[Sample], share: f64) -> f64 {
    let mut peaks: Vec<Bytes> = samples.iter().filter_map(peak_of).collect();
    peaks.sort_unstable();
    let beyond = (peaks.len() as f64 * share) as usize;
    let size = peaks.iter().rev().nth(beyond);
    size.map_or(0.0, |size| size.0 as f64 * RESERVE)
}

/// The largest size in bytes that the spread may lead to. With more independent tasks, a need far
/// beyond the largest of them becomes less likely. One task allows 6.2 times its peak; ten
/// independent tasks allow 1.7 times the largest.
fn beyond_greatest(samples: &[Sample], spread: &Spread) -> f64 {
    let greatest = greatest(samples, peak_of).unwrap_or_default();
    let multiple = 1.2 + 5.0 / spread.basis().effective_tasks().max(1.0);
    greatest.max(MEMORY_STEP).0 as f64 * multiple
}

/// Reduces a request to the needs. The request never grows here, and with too few tasks it does not
/// shrink. Resources with unknown needs stay unchanged.
pub fn within(current: SizedRequest, need: &Need) -> Sized {
    let fewer = |now: Option<u64>, needed: Option<u64>| match (now, needed) {
        (Some(now), Some(needed)) if !need.too_few_tasks => Some(needed.min(now)),
        (now, _) => now,
    };
    let memory = fewer(current.memory.map(|m| m.0), need.shrink_to.map(|m| m.0)).map(Bytes);
    let cores = fewer(current.cores.map(|c| c.0), need.cores.map(|c| c.0)).map(MilliCores);
    Sized {
        request: SizedRequest { cores, memory },
        risk: memory.map_or_else(Risk::default, |size| {
            need.risk_instead_of(current.memory, size)
        }),
    }
}

/// The recommendation of the models; `None` when a peak is unknown.
fn modelled(samples: &[Sample], policy: &SizingPolicy) -> Option<MemoryAdvice> {
    let run = |sample: &Sample| {
        Some(run::Run {
            // Models that need an input make no recommendation without it.
            input: None,
            peak: sample.peak_memory?.bytes,
            wall: sample.wall,
        })
    };
    let runs: Option<Vec<_>> = samples.iter().map(run).collect();
    learned(runs?, policy).advise(None).ok()
}

/// The sizes after `first`: first the recommended ones, and beyond them half as much again each
/// time.
fn attempts(first: Bytes, named: &[Bytes]) -> Vec<Bytes> {
    let mut sizes = Vec::with_capacity(ATTEMPTS);
    let mut last = first;
    let mut named = named.iter().map(|size| in_steps(u128::from(size.0)));
    while sizes.len() < ATTEMPTS {
        let evident = named.find(|size| *size > last);
        last = evident.unwrap_or_else(|| in_steps((u128::from(last.0) * 3).div_ceil(2)));
        sizes.push(last);
    }
    sizes
}

/// The largest of a value over all samples. `None` if one value is unknown, because the unknown
/// value could be the largest.
pub(crate) fn greatest<T: Ord>(
    samples: &[Sample],
    value: impl Fn(&Sample) -> Option<T>,
) -> Option<T> {
    let all: Option<Vec<T>> = samples.iter().map(value).collect();
    all?.into_iter().max()
}

fn with_headroom(peak: Bytes, policy: &SizingPolicy) -> Bytes {
    let parts = 1_000_000 + u128::from(policy.memory_headroom_ppm);
    in_steps((u128::from(peak.0) * parts).div_ceil(1_000_000))
}

/// Whole cores for a measured peak. A thread that computes all the time can show slightly more than
/// one core. The probe reads its CPU time some milliseconds after the start of a window.
fn whole(cores: MilliCores) -> MilliCores {
    let certain = cores.0 - cores.0 / 100 * MEASUREMENT_ERROR_PERCENT;
    MilliCores::cores(certain.div_ceil(1000).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_telemetry::step::MemorySource;
    use ebb_telemetry::step::{PeakMemory, Requested};

    fn size(current: Requested, samples: &[Sample], policy: &SizingPolicy) -> Sized {
        within(current.into(), &need(samples, None, policy))
    }

    fn sample(milli_cores: Option<u64>, mib: Option<u64>) -> Sample {
        let peak = |mib| PeakMemory {
            bytes: Bytes::mib(mib),
            source: MemorySource::CgroupSampled,
        };
        Sample {
            peak_cores: milli_cores.map(MilliCores),
            peak_memory: mib.map(peak),
            wall: Duration::from_secs(600),
            ..Sample::default()
        }
    }

    /// Each sample belongs to a run of its own.
    fn independent(samples: Vec<Sample>) -> Vec<Sample> {
        let numbered = (0..).zip(samples);
        numbered
            .map(|(run, sample)| Sample {
                pipeline_run: Some(run),
                ..sample
            })
            .collect()
    }

    #[test]
    fn a_request_follows_the_greatest_peak_and_is_never_raised() {
        let check = |samples: &[Sample], cores: u64, memory_mib: u64| {
            let current = Requested {
                cores: Some(MilliCores::cores(16)),
                memory: Some(Bytes::gib(32)),
            };
            let sized = size(current, samples, &SizingPolicy::default());
            let expect = SizedRequest {
                cores: Some(MilliCores::cores(cores)),
                memory: Some(Bytes::mib(memory_mib)),
            };
            assert_eq!(sized.request, expect);
        };
        let of = |milli_cores, mib| vec![sample(milli_cores, mib); 8];
        check(&of(Some(2_100), Some(4_000)), 3, 5_632);
        let mut one_smaller = of(Some(2_100), Some(4_000));
        one_smaller[0] = sample(Some(900), Some(3_900));
        check(&one_smaller, 3, 5_632);
        check(&of(Some(0), Some(0)), 1, 512);
        // A busy thread, with the error of its measurement.
        check(&of(Some(1_025), Some(4_000)), 1, 5_632);
        check(&of(Some(1_050), Some(4_000)), 2, 5_632);
        check(&of(Some(20_000), Some(60_000)), 16, 32 << 10);
        check(&of(None, Some(4_000)), 16, 5_632);
        let mut one_unknown = of(Some(2_100), Some(4_000));
        one_unknown[0] = sample(Some(900), None);
        check(&one_unknown, 3, 32 << 10);
        check(&of(Some(2_100), Some(4_000))[..2], 16, 32 << 10);
        check(&[], 16, 32 << 10);
    }

    #[test]
    fn the_chance_of_an_oom_kill_is_a_range_that_narrows_with_independent_runs() {
        let current = Requested {
            cores: Some(MilliCores::cores(16)),
            memory: Some(Bytes::gib(32)),
        };
        let runs = |count: u64| -> Vec<Sample> {
            let one = |n: u64| sample(Some(900), Some(4_000 + n * 37 % 200));
            independent((0..count).map(one).collect())
        };
        let check = |count: u64, mib: u64, needed: u32, most_ppm: u32| {
            let sized = size(current, &runs(count), &SizingPolicy::default());
            assert_eq!(sized.request.memory, Some(Bytes::mib(mib)), "{count}");
            assert_eq!(sized.risk.samples_needed, needed);
            // None of them needed more: only many of them support a single figure.
            assert_eq!(sized.risk.oom_ppm.is_some(), count == 300);
            let between = sized.risk.oom_between.expect("peaks are known");
            assert_eq!(between.from_ppm, 0);
            assert!(between.to_ppm <= most_ppm, "{count}: {between:?}");
            assert_eq!(sized.risk.attempts.len(), ATTEMPTS);
            assert!(sized.risk.attempts[0] > Bytes::mib(mib));
            assert!(sized.risk.attempts[1] > sized.risk.attempts[0]);
        };
        check(5, 5_120, 15, 400_000);
        check(19, 5_120, 1, 130_000);
        check(20, 4_608, 0, 125_000);
        check(300, 4_608, 0, 10_000);
    }

    #[test]
    fn a_larger_input_never_gets_less_memory_and_the_risk_is_that_of_similar_inputs() {
        let with_input = |n: u64| Sample {
            input: Some(Bytes::mib(100 + n * 7_919 % 4_000)),
            ..sample(Some(900), Some(1_000 + 2 * (n * 7_919 % 4_000)))
        };
        let samples = independent((0..60).map(with_input).collect());
        let policy = SizingPolicy::default();
        let of = |mib: u64| need(&samples, Some(Bytes::mib(mib)), &policy);
        let sizes: Vec<_> = (1..=40).map(|n| of(n * 100).shrink_to).collect();
        assert!(sizes.is_sorted(), "{sizes:?}");
        let all = need(&samples, None, &policy);
        assert!(of(100).shrink_to < all.shrink_to);
        for at in 0..all.by_input.len() {
            let sized = all.by_input[at];
            assert_eq!(
                need(&samples, Some(sized.input), &policy).memory,
                Some(sized.memory)
            );
        }
        // The smallest quarter has 15 tasks, and none of them needed more.
        let smallest = of(100);
        assert_eq!(smallest.peaks.len(), 15);
        let between = smallest.risk.oom_between.expect("their peaks are known");
        assert_eq!(between.from_ppm, 0);
        // No such input was observed.
        let beyond = of(40_000);
        assert_eq!(beyond.risk.oom_between, None);
        assert_eq!((beyond.memory, beyond.shrink_to), (None, None));
    }

    #[test]
    fn a_retry_gets_at_least_the_present_request_and_the_next_one_half_as_much_again() {
        let need = Need {
            risk: Risk {
                attempts: vec![Bytes::gib(20), Bytes::gib(37)],
                ..Risk::default()
            },
            ..Need::default()
        };
        let check = |now: u64, expect: [u64; 2]| {
            let risk = need.risk_instead_of(Some(Bytes::gib(now)), Bytes::gib(16));
            assert_eq!(risk.attempts, expect.map(Bytes::gib), "{now}");
        };
        check(36, [36, 54]);
        check(24, [24, 37]);
        check(18, [18, 37]);
        check(16, [20, 37]);
    }

    #[test]
    fn a_size_that_many_tasks_share_has_a_reserve() {
        let large = |n: u64| if n.is_multiple_of(4) { 20_000 } else { 1_000 };
        let one = |n: u64| sample(Some(900), Some(large(n)));
        let samples = independent((0..400).map(one).collect());
        let need = need(&samples, None, &SizingPolicy::default());
        for size in [need.memory, need.shrink_to] {
            assert!(size >= Some(Bytes::mib(21_000)), "{size:?}");
        }
    }

    #[test]
    fn a_request_below_what_is_needed_is_likely_to_fail() {
        let current = Requested {
            cores: Some(MilliCores::cores(1)),
            memory: Some(Bytes::gib(2)),
        };
        let runs = independent(vec![sample(Some(900), Some(4_000)); 30]);
        let sized = size(current, &runs, &SizingPolicy::default());
        assert_eq!(sized.request.memory, Some(Bytes::gib(2)));
        let between = sized.risk.oom_between.expect("peaks are known");
        assert!(between.from_ppm > 900_000, "{between:?}");
        assert_eq!(sized.risk.oom_ppm, None);
        // All peaks are 4,000 MiB; 5 % above them are kept in reserve.
        assert_eq!(sized.risk.attempts[0], Bytes::mib(4_352));
    }
}
