//! Small folders of histories, and the calculation.

use std::fs;
use std::path::PathBuf;

use super::*;

const HEAD: &str = "seconds,workload_cpu_ms,workload_disk_bytes,network_bytes,gpu_ppm,\
                    typed_ago_seconds,all_cpu_ms,cores_milli,coverage_ppm\n";

/// A folder with a busy and an idle kind and these histories.
fn folder(name: &str, histories: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ebb-verdicts-{}-{name}", std::process::id()));
    fs::create_dir_all(folder.join("intervals")).expect("a folder");
    let write = |file: &str, text: String| fs::write(folder.join(file), text).expect("room");
    write(
        "kinds.csv",
        "kind,used,sets_threshold,origin,what\nbusy,true,false,measured,x\n\
         still,false,false,simulated,x\nknown,false,true,measured,x\n"
            .to_owned(),
    );
    write(
        "intervals/busy.csv",
        format!("{HEAD}60,60000,0,0,,,60000,2000,1000000\n"),
    );
    for quiet in ["still", "known"] {
        write(
            &format!("intervals/{quiet}.csv"),
            format!("{HEAD}60,0,0,0,,,100,2000,1000000\n"),
        );
    }
    write(
        "histories.csv",
        format!("history,kind,used,cycle,tail,phase\n{histories}"),
    );
    folder
}

#[test]
fn each_rule_is_counted_by_what_was_so() {
    let folder = folder(
        "counts",
        "a,busy,true,busy:60,,7\nb,still,false,still:60,,0\nc,still,false,busy:60,still:90,3\n",
    );
    let scores = score_all(&folder).expect("it is well formed");
    let counts = |rule: &str, kind: &str| {
        let of = scores.iter().find(|of| of.rule == rule && of.kind == kind);
        of.expect("it is there").counts
    };
    let all_right = Counts {
        right: 2,
        ..Counts::default()
    };
    assert_eq!(counts(EBB, "still"), all_right);
    let late = Counts {
        right: 1,
        missed: 1,
        ..Counts::default()
    };
    for (rule, _) in &RULES[1..] {
        assert_eq!(counts(rule, "still"), late, "{rule}: an hour is too short");
        assert_eq!(counts(rule, "busy").quiet, 1, "{rule}");
    }
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn what_does_not_fit_together_is_refused_with_its_place() {
    let check = |name: &str, history: &str, expect: &str| {
        let folder = folder(name, history);
        let error = format!("{:#}", score_all(&folder).expect_err(expect));
        assert!(error.contains(expect), "{error}");
        fs::remove_dir_all(folder).expect("it was there");
    };
    check("none", "", "no rows");
    check("kind", "a,odd,true,busy:60,,0\n", "no kind odd");
    check("label", "a,busy,false,busy:60,,0\n", "a different label");
    check("cycle", "a,busy,true,,,0\n", "no cycle");
    check(
        "minutes",
        "a,busy,true,busy:x,,0\n",
        "busy:x is not KIND:MINUTES",
    );
    check("file", "a,busy,true,odd:5,,0\n", "intervals/odd.csv");
}

#[test]
fn a_kind_that_set_a_threshold_is_shown_and_not_scored() {
    let folder = folder(
        "known",
        "a,known,false,known:60,,0\nb,busy,true,busy:60,,0\n",
    );
    let text = tables(&score_all(&folder).expect("it is well formed"));
    assert!(text.contains("not scored"), "{text}");
    let ebb = text.lines().find(|line| line.starts_with(EBB));
    assert!(ebb.is_some_and(|line| line.contains("  -  ")), "{text}");
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn the_interval_is_wilsons() {
    let check = |part, whole, expect: Option<(f64, f64)>| {
        let near = |a: f64, b: f64| (a - b).abs() < 5e-4;
        match (wilson(part, whole), expect) {
            (Some(got), Some(want)) => {
                assert!(near(got.0, want.0) && near(got.1, want.1), "{got:?}");
            }
            (got, want) => assert_eq!(got, want),
        }
    };
    check(98, 100, Some((0.930, 0.9945)));
    check(0, 10, Some((0.0, 0.2775)));
    check(0, 0, None);
}
