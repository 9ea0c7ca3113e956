//! Small simulated fleets: the goal at every hour, and invalid folders.

use std::path::PathBuf;

use super::*;
use crate::fleet::{Fleet, Plan};

const FLEETS: u32 = 3;

/// The scores of a fleet at every third hour; that of another seed has other hours. Samples of 15
/// minutes take a third of the time.
fn made(seed: u32) -> Vec<KindScore> {
    let plan = Plan {
        seed: seed.into(),
        machines: 100,
        days: 14,
        minutes: 15,
    };
    let fleet = Fleet::make(plan).expect("it is made");
    let mut machines = Machines::new();
    for row in fleet.rows.iter().flatten() {
        row.take_into(&mut machines).expect("a row");
    }
    let labels = fleet.labels.into_iter();
    let labels = labels.map(|row| (row.resource_id.clone(), row)).collect();
    let hours = (0..HOURS).filter(|hour| hour % FLEETS == seed % FLEETS);
    score(&machines, &labels, hours).expect("it has metrics")
}

/// Three fleets that end on different days of the week. They contain dead and forgotten machines,
/// machines with working hours, and different sizes, at any hour of the last row.
#[test]
fn of_made_up_fleets_each_finding_is_right_and_none_is_missing_at_every_hour() {
    let fleets: Vec<Vec<KindScore>> = (1..=FLEETS).map(made).collect();
    for kind in KINDS {
        for nth in 0..(HOURS / FLEETS) as usize {
            let of_hours = fleets.iter().map(|scores| {
                let mut of_kind = scores.iter().filter(|score| score.kind == kind.slug());
                of_kind.nth(nth).expect("each third hour is scored")
            });
            let sum = of_hours.fold(KindScore::default(), |sum, score| KindScore {
                right: sum.right + score.right,
                wrong: sum.wrong + score.wrong,
                missed: sum.missed + score.missed,
                at: score.at,
                ..sum
            });
            let (precision, recall) = (sum.precision(), sum.recall());
            assert!(precision.is_none_or(|p| p >= 0.98), "{kind}: {sum:?}");
            assert!(recall.is_none_or(|r| r >= 0.98), "{kind}: {sum:?}");
            let is_scored = kind != FindingKind::UnderutilizedNode;
            assert!(!is_scored || sum.right >= 9, "{kind}: {sum:?}");
        }
    }
}

fn folder(files: &[(&str, &str)]) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("ebb-eval-metrics-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("written");
    }
    folder
}

/// Two weeks of one machine that does nothing, with one sample an hour.
fn quiet() -> String {
    let mut text = "timestamp,resource_id,cpu_pct,net_in_bytes,net_out_bytes\n".to_owned();
    for hour in 1..=14 * 24 {
        text += &format!("{},a,1,100,100\n", 1_790_000_000 + hour * 3600);
    }
    text
}

#[test]
fn a_folder_of_the_users_own_is_scored_by_its_labels() {
    let check = |label: &str, expect: (usize, usize, usize)| {
        let labels = format!("resource_id,label,from\na,{label}\n");
        let folder = folder(&[("labels.csv", &labels), ("fleet.csv", &quiet())]);
        let scores = score_folder(&folder).expect("it can be read");
        std::fs::remove_dir_all(&folder).expect("it is removed");
        let mut idle = scores.iter().filter(|score| score.kind == "idle_node");
        let last = idle.next_back().expect("a score");
        assert_eq!((last.right, last.wrong, last.missed), expect, "{label}");
    };
    check("dead,", (1, 0, 0));
    check("office", (0, 1, 0));
    check("forgotten,2026-09-22T00:00:00Z", (1, 0, 0));
    check("forgotten,2027-01-01T00:00:00Z", (0, 1, 0));
}

#[test]
fn what_is_not_as_it_must_be_is_refused_with_its_place() {
    let check = |files: &[(&str, &str)], expect: &str| {
        let folder = folder(files);
        let error = score_folder(&folder).expect_err(expect);
        std::fs::remove_dir_all(&folder).expect("it is removed");
        let message = format!("{error:#}");
        assert!(
            message.contains(expect),
            "'{message}' should say '{expect}'"
        );
    };
    let quiet = quiet();
    let labels = "resource_id,label,from\na,dead,\n";
    check(&[("fleet.csv", &quiet)], "labels.csv");
    check(&[("labels.csv", labels)], "no metrics in");
    let other = "resource_id,label,from\nb,dead,\n";
    check(
        &[("labels.csv", other), ("fleet.csv", &quiet)],
        "b has a label, but no metrics",
    );
    let unknown = "resource_id,label,from\na,asleep,\n";
    check(&[("labels.csv", unknown)], "unknown variant `asleep`");
    let undated = "resource_id,label,from\na,forgotten,\n";
    check(
        &[("labels.csv", undated)],
        "'from' is allowed only for the label",
    );
    let twice = format!("{quiet}1790003600,a,1,1,1\n");
    check(&[("labels.csv", labels), ("fleet.csv", &twice)], "line 338");
    let broken = "timestamp,resource_id,cpu_pct\n0,a,101\n";
    check(
        &[("labels.csv", labels), ("fleet.csv", broken)],
        "101 is not a percentage",
    );
}
