//! Runs many seeds on all cores, and finds the shortest list of events of one that fails.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

use crate::flaw::Flaw;
use crate::invariants::Violation;
use crate::plan::Plan;
use crate::week::{self, Tally};

/// Weeks that one thread runs in turns. A week that waits for a retry does not block the others.
const WEEKS_A_THREAD: usize = 8;

/// Weeks that are tried to find a shorter list of events.
const MAX_TRIALS: usize = 600;

const PROGRESS_EVERY: Duration = Duration::from_secs(10);

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime")
}

fn run_one(plan: &Plan, flaw: Flaw) -> Result<Tally, Violation> {
    runtime().block_on(week::run(plan, flaw))
}

/// A seed that failed.
struct Failure {
    seed: u64,
    violation: Violation,
}

/// Data that many threads share.
struct Shared {
    next: AtomicU64,
    end: u64,
    begun: Instant,
    is_over: AtomicBool,
    tally: Mutex<(Tally, Instant)>,
    failure: Mutex<Option<Failure>>,
}

impl Shared {
    fn seeds(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::from_fn(|| {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            (seed < self.end && !self.is_over.load(Ordering::Relaxed)).then_some(seed)
        })
    }

    fn take(&self, seed: u64, result: Result<Tally, Violation>) {
        match result {
            Ok(tally) => self.count(tally),
            Err(violation) => {
                self.is_over.store(true, Ordering::Relaxed);
                let mut failure = self.failure.lock().expect("no thread panics");
                // The lowest seed, so that a run on another number of cores names the same one.
                if failure.as_ref().is_none_or(|known| seed < known.seed) {
                    *failure = Some(Failure { seed, violation });
                }
            }
        }
    }

    fn count(&self, tally: Tally) {
        let mut sum = self.tally.lock().expect("no thread panics");
        sum.0.add(tally);
        if sum.1.elapsed() >= PROGRESS_EVERY {
            sum.1 = Instant::now();
            let rate = sum.0.weeks as f64 / self.begun.elapsed().as_secs_f64();
            eprintln!("{} weeks, {rate:.0} a second", sum.0.weeks);
        }
    }
}

/// Runs `count` seeds from `first` on.
fn run_all(first: u64, count: u64, flaw: Flaw) -> Result<Tally, Failure> {
    let shared = Shared {
        next: AtomicU64::new(first),
        end: first.saturating_add(count),
        begun: Instant::now(),
        is_over: AtomicBool::new(false),
        tally: Mutex::new((Tally::default(), Instant::now())),
        failure: Mutex::new(None),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let weeks = stream::iter(shared.seeds()).map(async |seed| {
                    let result = week::run(&Plan::new(seed), flaw).await;
                    shared.take(seed, result);
                });
                let all = weeks.buffer_unordered(WEEKS_A_THREAD);
                runtime().block_on(all.for_each(async |()| {}));
            });
        }
    });
    let failure = shared.failure.into_inner().expect("no thread panics");
    match failure {
        Some(failure) => Err(failure),
        None => Ok(shared.tally.into_inner().expect("no thread panics").0),
    }
}

/// The plan with the fewest events that breaks the same promise.
fn shortest(plan: &Plan, violation: &Violation, flaw: Flaw) -> (Plan, Violation) {
    let (mut best, mut broken) = (plan.clone(), violation.clone());
    let mut size = best.events.len().div_ceil(2).max(1);
    let mut trials = 0;
    loop {
        let mut begin = 0;
        while begin < best.events.len() && trials < MAX_TRIALS {
            let mut shorter = best.clone();
            let end = (begin + size).min(shorter.events.len());
            shorter.events.drain(begin..end);
            trials += 1;
            match run_one(&shorter, flaw) {
                Err(same) if same.promise == broken.promise => (best, broken) = (shorter, same),
                _ => begin += size,
            }
        }
        if size == 1 || trials >= MAX_TRIALS {
            return (best, broken);
        }
        size = size.div_ceil(2);
    }
}

/// Instructions to repeat and understand a failure.
fn describe(failure: &Failure, flaw: Flaw) -> String {
    let plan = Plan::new(failure.seed);
    let (short, violation) = shortest(&plan, &failure.violation, flaw);
    let mut text = format!(
        "seed {} breaks a promise: {}\nrepeat it with: SEED={} SEEDS=1 make prove\n{} of its {} events are enough: {violation}\n",
        failure.seed,
        failure.violation,
        failure.seed,
        short.events.len(),
        plan.events.len(),
    );
    let _ = writeln!(
        text,
        "{} nodes, {} shards at first, batches of {} messages",
        short.works.len(),
        short.shards,
        short.batch_messages
    );
    for timed in &short.events {
        let _ = writeln!(text, "  hour {:3}: {:?}", timed.hour, timed.event);
    }
    for (node, works) in short.works.iter().enumerate() {
        let drawn: String = works.iter().map(|w| if *w { '#' } else { '.' }).collect();
        let _ = writeln!(text, "  node {node} works (#) by hour: {drawn}");
    }
    text
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    let parsed = text.parse();
    parsed.unwrap_or_else(|_| panic!("{name} must be a number, and is {text}"))
}

#[test]
fn every_seed_keeps_every_promise() {
    let (first, count) = (number("EBB_SEED", 0), number("EBB_SEEDS", 100));
    let begun = Instant::now();
    let tally = match run_all(first, count, Flaw::None) {
        Ok(tally) => tally,
        Err(failure) => panic!("{}", describe(&failure, Flaw::None)),
    };
    eprintln!(
        "{count} seeds in {:.1} s: {tally:?}",
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(tally.weeks, count);
    if count < 100 {
        return;
    }
    // A simulation in which nothing happens proves nothing.
    let counts = [
        ("crashes", tally.crashes),
        ("failures", tally.failures),
        ("finished steps", tally.step_objects),
        ("idle findings", tally.idle_findings),
        ("notifications", tally.notifications),
    ];
    for (what, total) in counts {
        assert!(total * 10 > count, "{what}: only {total} in {count} weeks");
    }
    assert!(tally.refused > 0, "nothing was refused in {count} weeks");
}

#[test]
#[ignore = "long; `make prove` runs it"]
fn each_deliberate_flaw_is_found_within_a_thousand_seeds() {
    for flaw in Flaw::ALL {
        let Err(found) = run_all(0, 1_000, flaw) else {
            panic!("{flaw:?} is not found");
        };
        eprintln!("{flaw:?}: seed {}, {}", found.seed, found.violation);
    }
}

#[test]
fn a_seed_always_runs_the_same_way() {
    for seed in 0..10 {
        let runs = [(); 2].map(|()| run_one(&Plan::new(seed), Flaw::None));
        assert_eq!(runs[0], runs[1], "seed {seed}");
    }
}

#[test]
fn the_shortest_list_of_events_breaks_the_same_promise() {
    let flaw = Flaw::DeleteBeforeCommit;
    let Err(found) = run_all(0, 1_000, flaw) else {
        panic!("it is not found");
    };
    let plan = Plan::new(found.seed);
    let (short, violation) = shortest(&plan, &found.violation, flaw);
    assert!(
        short.events.len() < plan.events.len().div_ceil(2),
        "{short:?}"
    );
    assert_eq!(violation.promise, found.violation.promise);
    let again = run_one(&short, flaw).expect_err("it fails again");
    assert_eq!(again, violation);
    assert!(describe(&found, flaw).contains("SEED="));
}
