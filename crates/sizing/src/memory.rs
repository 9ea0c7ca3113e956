//! The memory that the next task of a step should request, from the needs of past tasks.
//!
//! Each model turns the history into a sample of the needs of a task with *this* input. Two sizes
//! follow from such a sample. The first is the cheapest ladder of sizes: the request with the least
//! expected cost, including failed attempts and their retries, and the sizes of the retries. The
//! second is the size that tasks exceed with at most the chance that a policy allows. The first
//! request is the larger of the two. Models compete: each is charged for the memory that its
//! recommendation would have wasted. Old charges fade, and the model with the lowest charge is
//! used.
//!
//! Online competition of models is the idea of Sizey (Bader et al., "Sizey: Memory-Efficient
//! Execution of Scientific Workflow Tasks", 2024). A request for the size with the least expected
//! cost is the idea of Tovar ("A Job Sizing Strategy for High-Throughput Scientific Workflows",
//! 2018).

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

/// The number of newest tasks on which memory models compete. A model's charge fades to less than
/// half over this number, so that older tasks would cost time and decide little.
const COMPETING: usize = 40;

/// A history of tasks in order of time, on the newest of which the models compete.
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

/// Maximum number of tasks in a history: enough to estimate a chance of 1 %.
const MAX_RUNS: usize = 300;

/// Factor on a model's charge for each further task. Half of the charge is left after 35 tasks, so
/// that a new version of a tool soon gets a model that fits it.
const FADE: f64 = 0.98;

/// Growth factor beyond the largest known size. Half as much again wastes less than doubling, and
/// ten steps are a factor of more than fifty.
const BEYOND_EVIDENCE: f64 = 1.5;

/// Sizes are whole mebibytes, which every platform accepts.
const GRAIN: u64 = 1 << 20;

/// Too few tasks for a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewRuns {
    /// The number of missing tasks.
    pub missing: usize,
}

/// A recommendation of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryAdvice {
    /// The first request, and then the request after each failed attempt.
    pub attempts: Vec<Bytes>,
    /// The chance that the first attempt fails, in parts per million.
    pub oom_ppm: u32,
    /// The model that computed it.
    pub model: Model,
    /// Number of tasks that it is based on.
    pub runs: usize,
}

impl MemoryAdvice {
    /// The first request.
    pub fn first(&self) -> Bytes {
        self.attempts.first().copied().unwrap_or(Bytes(GRAIN))
    }

    /// The request after an attempt with `failed` ran out of memory.
    pub fn after(&self, failed: Bytes) -> Bytes {
        let next = self.attempts.iter().find(|size| **size > failed);
        next.copied().unwrap_or_else(|| grown(failed))
    }
}

fn grown(size: Bytes) -> Bytes {
    whole(size.0 as f64 * BEYOND_EVIDENCE).max(Bytes(size.0.saturating_add(GRAIN)))
}

/// A method to read a history for one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// How the need of a past task is transferred to another input.
    pub shape: Shape,
    /// The margin on top of the need, in percent.
    pub margin_percent: u8,
}

const SHAPES: [Shape; 4] = [Shape::Same, Shape::Linear, Shape::Power, Shape::Near];

/// In percent. One percent is enough for needs that hardly vary; other needs require more. Beyond
/// four percent the next rung of the ladder is better.
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

/// The needs of past tasks of one step, and the charge of each model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryHistory {
    oom_share: f64,
    min_runs: usize,
    runs: VecDeque<Run>,
    charges: [f64; MODELS.len()],
}

impl MemoryHistory {
    /// An empty history.
    pub fn new(policy: &SizingPolicy) -> Self {
        Self {
            oom_share: f64::from(policy.oom_ppm) / 1e6,
            // A single task has no spread from which to estimate a chance.
            min_runs: (policy.min_runs as usize).max(2),
            runs: VecDeque::new(),
            charges: [0.0; MODELS.len()],
        }
    }

    /// Lets all models compete on a task, and then adds the task.
    pub fn learn(&mut self, run: Run) {
        if self.runs.len() >= self.min_runs {
            let wasted = self
                .ask(run.input)
                .map(|request| Some(request?.waste(&run)));
            // A model without a recommendation is charged like the worst model.
            let worst = wasted.into_iter().flatten().fold(0.0, f64::max);
            for (charge, wasted) in self.charges.iter_mut().zip(wasted) {
                *charge = *charge * FADE + wasted.unwrap_or(worst);
            }
        }
        self.remember(run);
    }

    /// Adds a task without competition of the models.
    pub fn remember(&mut self, run: Run) {
        if self.runs.len() == MAX_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// The memory for the next task; `None` for an unknown input.
    ///
    /// # Errors
    /// Too few tasks.
    pub fn advise(&self, input: Option<Bytes>) -> Result<MemoryAdvice, TooFewRuns> {
        let missing = self.min_runs.saturating_sub(self.runs.len());
        if missing > 0 {
            return Err(TooFewRuns { missing });
        }
        let request = self
            .ask(input)
            .into_iter()
            .zip(self.charges)
            .filter_map(|(request, charge)| Some((charge, request?)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, request)| request);
        request
            .map(|request| request.advice(self.runs.len()))
            .ok_or(TooFewRuns { missing: 1 })
    }

    /// The request of each model; `None` if the model needs inputs that are unknown. Models of one
    /// shape differ only by their margin, and share the sample.
    fn ask(&self, input: Option<Bytes>) -> [Option<ModelRequest>; MODELS.len()] {
        let by_shape = SHAPES.map(|shape| {
            let sample = Sample::from_runs(&self.runs, shape, input)?;
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
            Some(ModelRequest {
                model,
                exceeded: sample.chance_above(rungs.first()),
                rungs,
            })
        })
    }
}

struct ModelRequest {
    model: Model,
    rungs: Ladder,
    exceeded: f64,
}

impl ModelRequest {
    /// Byte-seconds that this request would have wasted for a task.
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
