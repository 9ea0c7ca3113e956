//! Results for idle nodes on labelled histories of two weeks, compared with published rules on the
//! same histories. `eval/histories/README.md` describes the files.

mod ebb;
mod history;
mod peers;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::table;
use history::{History, Set};

/// The result of a rule for a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Idle,
    Used,
    /// The rule has no result.
    Undetermined,
}

/// Results of a rule, counted by the label of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Counts {
    /// Idle, and evaluated as idle.
    right: usize,
    /// In use, but evaluated as idle.
    wrong: usize,
    /// Idle, but not evaluated as idle.
    missed: usize,
    /// In use, and not evaluated as idle.
    quiet: usize,
    undetermined: usize,
}

impl Counts {
    fn take(&mut self, used: bool, says: Says) {
        let count = match (says, used) {
            (Says::Undetermined, _) => &mut self.undetermined,
            (Says::Idle, false) => &mut self.right,
            (Says::Idle, true) => &mut self.wrong,
            (Says::Used, false) => &mut self.missed,
            (Says::Used, true) => &mut self.quiet,
        };
        *count += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            missed: self.missed + other.missed,
            quiet: self.quiet + other.quiet,
            undetermined: self.undetermined + other.undetermined,
        }
    }

    fn all(self) -> usize {
        self.right + self.wrong + self.missed + self.quiet + self.undetermined
    }
}

/// Results of a rule for the histories of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OfKind {
    rule: &'static str,
    kind: String,
    used: bool,
    /// False if a threshold was chosen with such histories.
    scored: bool,
    simulated: bool,
    /// All histories of the kind.
    counts: Counts,
    /// Histories that were idle for all of the two weeks.
    idle_all_along: Counts,
}

type HistoryRule = (&'static str, fn(&Set, &History) -> Says);

const EBB: &str = "Ebb with a probe";

/// Each rule uses the data that it would have at the end of the two weeks.
const RULES: [HistoryRule; 5] = [
    (EBB, ebb::says),
    ("Compute Optimizer, 14 days", peers::compute_optimizer),
    ("Trusted Advisor, 14 days", peers::trusted_advisor),
    ("OptScale, 7 days", peers::optscale),
    ("awsspectre, 7 days", peers::awsspectre),
];

/// Scores the histories of a folder.
///
/// # Errors
/// Names the file and line that is not valid.
pub(crate) fn score_all(folder: &Path) -> Result<Vec<OfKind>> {
    let set = Set::read(folder)?;
    let halves = set.histories.len().div_ceil(2);
    let parts: Vec<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = set
            .histories
            .chunks(halves.max(1))
            .map(|part| {
                let set = &set;
                scope.spawn(move || {
                    part.iter()
                        .map(|history| verdicts_of(set, history))
                        .collect()
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut sums: BTreeMap<(usize, &str), (Counts, Counts)> = BTreeMap::new();
    for (history, says) in set.histories.iter().zip(parts.iter().flatten()) {
        for (rule, says) in says.iter().enumerate() {
            let sum = sums.entry((rule, history.kind.as_str())).or_default();
            sum.0.take(history.used, *says);
            if !history.used && history.tail.is_empty() {
                sum.1.take(false, *says);
            }
        }
    }
    let of_kind = |((rule, kind), (counts, idle_all_along)): ((usize, &str), _)| {
        let known = &set.kinds[kind];
        OfKind {
            rule: RULES[rule].0,
            kind: String::from(kind),
            used: known.used,
            scored: !known.sets_threshold,
            simulated: known.is_simulated(),
            counts,
            idle_all_along,
        }
    };
    Ok(sums.into_iter().map(of_kind).collect())
}

fn verdicts_of(set: &Set, history: &History) -> [Says; RULES.len()] {
    RULES.map(|(_, says)| says(set, history))
}

/// The bounds of a share at 95 % by Wilson's score. Source: Wilson, "Probable inference, the law of
/// succession, and statistical inference", 1927.
fn wilson(part: usize, whole: usize) -> Option<(f64, f64)> {
    const Z: f64 = 1.96;
    if whole == 0 {
        return None;
    }
    let (n, share) = (whole as f64, part as f64 / whole as f64);
    let middle = share + Z * Z / (2.0 * n);
    let spread = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let under = 1.0 + Z * Z / n;
    Some(((middle - spread) / under, (middle + spread) / under))
}

fn shown(part: usize, whole: usize) -> String {
    match wilson(part, whole) {
        None => "-".to_owned(),
        Some((low, high)) => format!(
            "{:.3} ({part}/{whole}; {low:.3} to {high:.3})",
            part as f64 / whole as f64
        ),
    }
}

/// All rules in one table, and Ebb by kind.
pub(crate) fn tables(scores: &[OfKind]) -> String {
    let mut text = String::from(
        "Idle or in use at the end of 14 days. Kinds that a threshold was chosen with are \
         not\nscored. Shares have counts and 95 % intervals (Wilson); undetermined results count \
         in\nneither.\n\n",
    );
    for (title, takes) in [
        ("all", (|_| true) as fn(&OfKind) -> bool),
        ("recorded", |of| !of.simulated),
    ] {
        let rows: Vec<_> = RULES
            .iter()
            .map(|(rule, _)| row(scores, rule, takes))
            .collect();
        let head = [
            title,
            "precision",
            "recall",
            "recall, always idle",
            "undetermined",
        ];
        text.push_str(&table::lines(&head, &rows));
        text.push('\n');
    }
    let kinds = scores.iter().filter(|of| of.rule == EBB);
    let rows: Vec<_> = kinds.map(OfKind::row).collect();
    let head = [
        "Ebb by kind",
        "truth",
        "histories",
        "reported idle",
        "undetermined",
        "",
    ];
    text.push_str(&table::lines(&head, &rows));
    text
}

fn row(scores: &[OfKind], rule: &str, takes: fn(&OfKind) -> bool) -> Vec<String> {
    let of_rule = || {
        scores
            .iter()
            .filter(|of| of.rule == rule && of.scored && takes(of))
    };
    let all = of_rule().fold(Counts::default(), |sum, of| sum.plus(of.counts));
    let along = of_rule().fold(Counts::default(), |sum, of| sum.plus(of.idle_all_along));
    vec![
        rule.to_owned(),
        shown(all.right, all.right + all.wrong),
        shown(all.right, all.right + all.missed),
        shown(along.right, along.right + along.missed),
        shown(all.undetermined, all.all()),
    ]
}

impl OfKind {
    fn row(&self) -> Vec<String> {
        let note = match (self.scored, self.simulated) {
            (false, _) => "not scored",
            (true, true) => "simulated",
            (true, false) => "",
        };
        vec![
            self.kind.clone(),
            if self.used { "in use" } else { "idle" }.to_owned(),
            self.counts.all().to_string(),
            (self.counts.right + self.counts.wrong).to_string(),
            self.counts.undetermined.to_string(),
            note.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests;
