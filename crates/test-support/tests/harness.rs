//! The harness, run on tests of every outcome in a process of its own, whose output shows
//! failures that are intended.

use std::process::Command;

use ebb_test_support::{conclude, skip, tests};

fn passes() {}

fn fails() {
    assert_eq!(std::hint::black_box(1), 2);
}

fn is_skipped() {
    skip("no moon");
}

fn errs() -> Result<(), String> {
    Err("no sun".to_owned())
}

const INNER: &str = "EBB_INNER";

#[test]
fn a_skipped_test_is_ignored_and_neither_passed_nor_failed() {
    if std::env::var_os(INNER).is_none() {
        let name = "a_skipped_test_is_ignored_and_neither_passed_nor_failed";
        let inner = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--nocapture"])
            .env(INNER, "1")
            .output()
            .expect("it starts");
        let output = String::from_utf8_lossy(&inner.stdout);
        assert!(inner.status.success(), "{output}");
        assert!(output.contains("ignored (no moon)"), "{output}");
        return;
    }
    let all = tests![self::passes, fails, is_skipped, errs];
    assert_eq!(all[0].0, "self::passes");
    let conclusion = conclude(all, ["test", "--test-threads", "1"]);
    let counts = (
        conclusion.num_passed,
        conclusion.num_failed,
        conclusion.num_ignored,
    );
    assert_eq!(counts, (1, 2, 1));
}
