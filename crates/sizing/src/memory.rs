//! How much memory the next run of a step should ask for, from what its past runs
//! needed.
//!
//! Each model turns the history into a sample of what a run with *this* input would
//! have needed. From such a sample two sizes follow. The cheapest ladder of sizes:
//! the ask that costs the least in expectation, failed attempts and their retries
//! counted, and where to go when it fails. And the size that is exceeded by no more
//! than the share a policy allows. The first ask is the greater of the two. Models
//! compete: each is charged for what its advice would have wasted, old charges
//! fade, and the cheapest so far speaks.
//!
//! That models should compete online is Sizey's idea (Bader et al., "Sizey: Memory-
//! Efficient Execution of Scientific Workflow Tasks", 2024); asking for the size
//! with the least expected cost is Tovar's ("A Job Sizing Strategy for
//! High-Throughput Scientific Workflows", 2018).

pub mod ladder;
pub mod run;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ebb_model::policy::sizing::SizingPolicy;
use ebb_telemetry::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::memory::ladder::Ladder;
use crate::memory::run::{Run, Sample, Shape};

/// The newest runs that models of memory compete on: a model's charge has faded to
/// less than half over as many, so that older ones would cost time and decide little.
const COMPETING: usize = 40;

/// What models have learned from runs in order of time, of which the last compete.
pub(crate) fn learned(runs: Vec<run::Run>, policy: &SizingPolicy) -> MemoryHistory {
    let mut history = MemoryHistory::new(policy);
    let older = runs.len().saturating_sub(COMPETING);
    for (at, run) in runs.into_iter().enumerate() {
        match at < older {
            true => history.remember(run),
            false => history.learn(run),
        }
    }
    history
}

/// Runs that are remembered: enough for a chance of 1 % to be read from them.
const MAX_RUNS: usize = 300;

/// How much of a model's charges is left after each further run: half is gone
/// after 35, so that a new version of a tool is met by a model that fits it.
const FADE: f64 = 0.98;

/// Past the greatest evidence there is nothing to choose by; half as much again is
/// less than what doubling wastes, and ten steps of it are fifty-fold.
const BEYOND_EVIDENCE: f64 = 1.5;

/// Whole mebibytes, as every platform takes them.
const GRAIN: u64 = 1 << 20;

/// There are too few runs to say anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewRuns {
    /// How many more are needed.
    pub missing: usize,
}

/// What to ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryAdvice {
    /// What to ask for first, and then each time the one before it failed.
    pub attempts: Vec<Bytes>,
    /// The chance that the first fails, in parts per million.
    pub oom_ppm: u32,
    /// What it was told by.
    pub model: Model,
    /// Runs it rests on.
    pub runs: usize,
}

impl MemoryAdvice {
    /// What to ask for first.
    pub fn first(&self) -> Bytes {
        self.attempts.first().copied().unwrap_or(Bytes(GRAIN))
    }

    /// What to ask for after `failed` was too little.
    pub fn after(&self, failed: Bytes) -> Bytes {
        let next = self.attempts.iter().find(|size| **size > failed);
        next.copied().unwrap_or_else(|| grown(failed))
    }
}

fn grown(size: Bytes) -> Bytes {
    whole(size.0 as f64 * BEYOND_EVIDENCE).max(Bytes(size.0.saturating_add(GRAIN)))
}

/// How a history is read for one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// How a past run's need is carried over.
    pub shape: Shape,
    /// What is put on top, in per cent.
    pub margin_percent: u8,
}

const SHAPES: [Shape; 4] = [Shape::Same, Shape::Linear, Shape::Power, Shape::Near];

/// In per cent. Needs that hardly vary are met by one per cent, others by more;
/// past four the ladder's next rung does better.
const MARGINS: [u8; 4] = [0, 1, 2, 4];

const MODELS: [Model; SHAPES.len() * MARGINS.len()] = models();

const fn models() -> [Model; SHAPES.len() * MARGINS.len()] {
    let mut all = [Model {
        shape: Shape::Same,
        margin_percent: 0,
    }; SHAPES.len() * MARGINS.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = Model {
            shape: SHAPES[i / MARGINS.len()],
            margin_percent: MARGINS[i % MARGINS.len()],
        };
        i += 1;
    }
    all
}

/// What past runs of one step needed, and how well each model did on them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryHistory {
    oom_share: f64,
    min_runs: usize,
    runs: VecDeque<Run>,
    charges: [f64; MODELS.len()],
}

impl MemoryHistory {
    /// An empty one.
    pub fn new(policy: &SizingPolicy) -> Self {
        Self {
            oom_share: f64::from(policy.oom_ppm) / 1e6,
            // One run has no spread to read a chance from.
            min_runs: (policy.min_runs as usize).max(2),
            runs: VecDeque::new(),
            charges: [0.0; MODELS.len()],
        }
    }

    /// Lets all models compete on a run, and then remembers it.
    pub fn learn(&mut self, run: Run) {
        if self.runs.len() >= self.min_runs {
            let wasted = self.ask(run.input).map(|asked| Some(asked?.waste(&run)));
            // Who has nothing to say does no better than who says the worst.
            let worst = wasted.into_iter().flatten().fold(0.0, f64::max);
            for (charge, wasted) in self.charges.iter_mut().zip(wasted) {
                *charge = *charge * FADE + wasted.unwrap_or(worst);
            }
        }
        self.remember(run);
    }

    /// Remembers a run without letting the models compete on it.
    pub fn remember(&mut self, run: Run) {
        if self.runs.len() == MAX_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// What the next run should ask for, when its input is known or not.
    ///
    /// # Errors
    /// Where there are too few runs.
    pub fn advise(&self, input: Option<Bytes>) -> Result<MemoryAdvice, TooFewRuns> {
        let missing = self.min_runs.saturating_sub(self.runs.len());
        if missing > 0 {
            return Err(TooFewRuns { missing });
        }
        let asked = self
            .ask(input)
            .into_iter()
            .zip(self.charges)
            .filter_map(|(asked, charge)| Some((charge, asked?)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, asked)| asked);
        asked
            .map(|asked| asked.advice(self.runs.len()))
            .ok_or(TooFewRuns { missing: 1 })
    }

    /// What each model would ask for; `None` where it needs inputs that are unknown.
    /// Models of one shape differ by their margin only, and share what is read from
    /// the runs.
    fn ask(&self, input: Option<Bytes>) -> [Option<Asked>; MODELS.len()] {
        let by_shape = SHAPES.map(|shape| {
            let sample = Sample::of(&self.runs, shape, input)?;
            let least = (self.oom_share < 1.0).then(|| sample.exceeded_by(self.oom_share));
            Some((Ladder::cheapest(&sample), least, sample))
        });
        std::array::from_fn(|i| {
            let (model, known) = (MODELS[i], by_shape[i / MARGINS.len()].as_ref());
            let (ladder, least, sample) = known?;
            let on_top = 1.0 + f64::from(model.margin_percent) / 100.0;
            let mut rungs = ladder.clone().scaled(on_top);
            if let Some(least) = least {
                rungs.start_at(least * on_top);
            }
            Some(Asked {
                model,
                exceeded: sample.chance_above(rungs.first()),
                rungs,
            })
        })
    }
}

struct Asked {
    model: Model,
    rungs: Ladder,
    exceeded: f64,
}

impl Asked {
    /// Byte-seconds that a run would have wasted under this.
    fn waste(&self, run: &Run) -> f64 {
        let (need, seconds) = (run.peak.0 as f64, run.wall.as_secs_f64());
        let mut wasted = 0.0;
        for size in self.rungs.then_growing(BEYOND_EVIDENCE) {
            if size >= need {
                return wasted + (size - need) * seconds;
            }
            wasted += size * seconds;
        }
        wasted
    }

    fn advice(self, runs: usize) -> MemoryAdvice {
        let mut attempts: Vec<Bytes> = self.rungs.iter().map(whole).collect();
        attempts.dedup();
        MemoryAdvice {
            attempts,
            oom_ppm: (self.exceeded.clamp(0.0, 1.0) * 1e6).round() as u32,
            model: self.model,
            runs,
        }
    }
}

fn whole(bytes: f64) -> Bytes {
    let grains = (bytes / GRAIN as f64).ceil().max(1.0);
    Bytes((grains as u64).saturating_mul(GRAIN))
}
