//! Counts what processes used since they were last counted, for their step and
//! their side of the node.

use super::processes::Stage;
use super::{Fold, detail, side};
use crate::kernel::{Finer, Process, ProcessKey, Start, TaskKind, Totals};

/// When what a process used was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Used {
    /// Before this probe began, in part at least.
    Before,
    /// Since it was last counted.
    Since,
}

impl Fold {
    /// Makes sure that a process is known, and tells whether its totals hold what
    /// it used before this probe could see it.
    pub(super) fn known(&mut self, process: &Process, kind: TaskKind) -> Used {
        if self.processes.exact(process.key).is_some() {
            return Used::Since;
        }
        self.first_seen(process, kind, Stage::Executed, &Start::default());
        if process.key.start < self.began {
            Used::Before
        } else {
            Used::Since
        }
    }

    /// Counts what a process used since it was last counted. What it used before
    /// this probe began is its step's, and not this interval's.
    pub(super) fn account(&mut self, key: ProcessKey, totals: &Totals, when: Used) {
        let Some(entry) = self.processes.exact(key) else {
            return;
        };
        let used = entry.count(totals);
        let entry = *entry;
        if when == Used::Since {
            self.tally.add(side(entry.place), &used);
        }
        if let Some(step) = self.step_of(&entry) {
            step.add(entry.tool, &used);
        }
    }

    pub(super) fn account_finer(&mut self, key: ProcessKey, finer: Option<&Finer>) {
        let (Some(entry), Some(finer)) = (self.processes.exact(key), finer) else {
            return;
        };
        let more = detail::since(finer, &mut entry.finer);
        let entry = *entry;
        if let Some(step) = self.step_of(&entry) {
            step.detail.add(&more);
        }
    }
}
