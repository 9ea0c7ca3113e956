//! Tests that need what not every machine has: root, a kernel feature, Python, Terraform. A
//! test that calls [`skip`] is reported as ignored, with the reason, and not as passed.
//!
//! A test target with `harness = false` lists its functions, so that one that is forgotten is
//! reported by the compiler as unused:
//!
//! ```
//! fn two_and_two_are_four() {
//!     assert_eq!(2 + 2, 4);
//! }
//!
//! fn needs_a_moon() {
//!     ebb_test_support::skip("there is no moon");
//! }
//!
//! let tests = ebb_test_support::tests![two_and_two_are_four, needs_a_moon];
//! assert!(!ebb_test_support::conclude(tests, ["test"]).has_failed());
//! ```

use std::any::Any;
use std::fmt::{Debug, Display};
use std::fs;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind, set_hook, take_hook};
use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

/// Why a test cannot run here.
struct Skip(String);

/// Ends the test: this machine cannot run it.
pub fn skip(reason: impl Display) -> ! {
    panic_any(Skip(reason.to_string()))
}

/// Return value of a test.
pub trait Outcome {
    /// Panics where the test failed.
    fn check(self);
}

impl Outcome for () {
    fn check(self) {}
}

impl<E: Debug> Outcome for Result<(), E> {
    fn check(self) {
        if let Err(error) = self {
            panic!("{error:?}");
        }
    }
}

/// A name and what runs under it.
pub type Test = (&'static str, fn());

/// The tests of these functions, named by their paths.
#[macro_export]
macro_rules! tests {
    ($($path:path),* $(,)?) => {
        vec![$((stringify!($path), (|| $crate::Outcome::check($path())) as fn())),*]
    };
}

fn skipped(payload: &(dyn Any + Send)) -> Option<&Skip> {
    payload.downcast_ref()
}

fn run_one(test: fn()) -> Result<Completion, Failed> {
    match catch_unwind(AssertUnwindSafe(test)) {
        Ok(()) => Ok(Completion::Completed),
        Err(payload) => match skipped(payload.as_ref()) {
            Some(Skip(reason)) => Ok(Completion::ignored_with(reason)),
            None => resume_unwind(payload),
        },
    }
}

/// Runs tests under these arguments, which are those of the built-in harness.
pub fn conclude<'a>(tests: Vec<Test>, arguments: impl IntoIterator<Item = &'a str>) -> Conclusion {
    run_with(tests, &Arguments::from_iter(arguments))
}

fn run_with(tests: Vec<Test>, arguments: &Arguments) -> Conclusion {
    let report = take_hook();
    set_hook(Box::new(move |panic| {
        if skipped(panic.payload()).is_none() {
            report(panic);
        }
    }));
    let trials = tests.into_iter().map(|(name, test)| {
        let name = name.replace(' ', "");
        Trial::ignorable_test(name, move || run_one(test))
    });
    libtest_mimic::run(arguments, trials.collect())
}

/// Runs tests as the program's arguments say.
pub fn run(tests: Vec<Test>) -> ExitCode {
    run_with(tests, &Arguments::from_args()).exit_code()
}

/// Checks that a generated file is current. With `EBB_UPDATE=1` in the environment it is rewritten.
///
/// # Panics
/// If the file differs, or cannot be read or written.
pub fn expect_file(path: &Path, text: &str) {
    let shown = path.display();
    if std::env::var_os("EBB_UPDATE").is_some() {
        let folder = path.parent().unwrap_or(path);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, text));
        written.unwrap_or_else(|error| panic!("failed to write {shown}: {error}"));
    }
    let present = fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("failed to read {shown}: {error}\nrun make reference"));
    if let Some((number, (is, wanted))) = first_difference(&present, text) {
        panic!(
            "{shown} is not current: line {number} is\n  {is}\nand should be\n  {wanted}\n\
             run make reference"
        );
    }
}

/// The number of the first line that differs, counted from 1, and both lines.
fn first_difference<'t>(one: &'t str, other: &'t str) -> Option<(usize, (&'t str, &'t str))> {
    let end = "(end of the file)";
    let lines = |text: &'t str| text.split('\n').chain(iter::repeat(end));
    let longest = one.split('\n').count().max(other.split('\n').count());
    let pairs = lines(one).zip(lines(other)).take(longest);
    (1..).zip(pairs).find(|(_, (one, other))| one != other)
}
