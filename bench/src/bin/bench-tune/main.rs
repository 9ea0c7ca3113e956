//! Duration of advice: `make bench-tune`. The ranking and the router run in this process without a
//! cloud SDK. The program of the API, named by `EBB_TUNE`, runs as in Lambda, with a runtime and a
//! bucket that this process simulates on loopback. All input is generated and labelled as
//! simulated.

mod answers;
mod made_up;
mod play;
mod program;
mod ranking;

use std::time::{Duration, Instant};

fn main() {
    println!("Made-up input (simulated), {} cores.\n", cores());
    println!("{:<58} {:>10} {:>10} {:>8}", "what", "measured", "goal", "");
    ranking::measure();
    let report = made_up::report();
    answers::measure(&report);
    match std::env::var_os("EBB_TUNE") {
        Some(path) => program::measure(&report, path.as_ref()),
        None => println!("the program: not measured, EBB_TUNE names none"),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// How often something is measured, after a tenth as many times that are not.
pub(crate) fn times(many: u32, mut work: impl FnMut(u32)) -> Spread {
    (0..many / 10).for_each(&mut work);
    let each = (0..many).map(|n| {
        let begin = Instant::now();
        work(n);
        begin.elapsed()
    });
    Spread::of(each.collect())
}

/// Times, sorted.
pub(crate) struct Spread(Vec<Duration>);

impl Spread {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// The time that so many per cent do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// One line of the table; a goal that is not reached is said to be missed.
pub(crate) fn line(what: &str, time: Duration, goal: Option<Duration>) {
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
    print_result(what, &ms(time), goal.map(|goal| (ms(goal), time <= goal)));
}

pub(crate) fn print_result(what: &str, measured: &str, goal: Option<(String, bool)>) {
    let (goal, met) = match goal {
        Some((goal, true)) => (goal, "met"),
        Some((goal, false)) => (goal, "MISSED"),
        None => ("-".to_owned(), ""),
    };
    println!("{what:<58} {measured:>10} {goal:>10} {met:>8}");
}
