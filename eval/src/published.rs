//! Results of published memory sizing methods on the replay of three workflows.
//!
//! Source: the code of "Sizey: Memory-Efficient Execution of Scientific Workflow Tasks" (Bader et
//! al., 2024), run on its own data set with seed 1996. The results are the wasted GB hours and the
//! number of failed attempts.

use serde::Serialize;

/// The result of a method on one workflow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// Its name.
    pub(crate) method: &'static str,
    /// GB hours wasted.
    pub(crate) wasted_gbh: f64,
    /// Attempts that failed.
    pub(crate) failures: usize,
}

const METHODS: [&str; 4] = [
    "Witt-LR std",
    "Witt-LR std-under",
    "Tovar",
    "Witt percentile",
];

/// Workflow, tasks replayed, and the figures in the order of [`METHODS`].
type PublishedRow = (&'static str, usize, [(f64, usize); 4]);

const TABLE: [PublishedRow; 3] = [
    (
        "rnaseq",
        840,
        [(81.0, 51), (57.9, 82), (195.3, 55), (128.9, 49)],
    ),
    (
        "chipseq",
        1720,
        [(105.7, 232), (136.3, 337), (211.0, 102), (94.7, 114)],
    ),
    (
        "mag",
        4034,
        [(289.8, 813), (301.0, 978), (309.4, 762), (309.8, 232)],
    ),
];

/// The results for a workflow; empty if none were published, or only for a replay of another size.
pub(crate) fn figures(workflow: &str, tasks: usize) -> Vec<Figure> {
    let known = TABLE.iter().find(|row| row.0 == workflow && row.1 == tasks);
    let of = |row: &PublishedRow| {
        let named = METHODS.into_iter().zip(row.2);
        named
            .map(|(method, (wasted_gbh, failures))| Figure {
                method,
                wasted_gbh,
                failures,
            })
            .collect()
    };
    known.map(of).unwrap_or_default()
}
