//! Data that a task reports only if the configuration enables it: the arguments of its first
//! process, and its open files.

use crate::attribute::arguments;
use crate::interval::aggregator::IntervalAggregator;
use crate::interval::processes::{ProcessOwner, Stage};
use crate::kernel::{Comm, ProcessKey};

impl IntervalAggregator {
    /// Adds the arguments of each task's first process, once. `read` returns the arguments of a
    /// live process, separated by NUL.
    pub fn add_arguments(&mut self, read: impl Fn(ProcessKey, Comm) -> Option<Vec<u8>>) {
        for step in self.steps.iter_mut() {
            if step.opt_in.arguments.is_some() {
                continue;
            }
            let root = self.processes.exact(step.root).copied();
            if let Some(root) = root.filter(|root| root.stage == Stage::Executed) {
                let raw = read(root.key, root.program);
                let shown = raw.map(|raw| arguments::masked(&raw, &self.rules));
                step.opt_in.arguments = Some(shown.unwrap_or_default());
            }
        }
    }

    /// Adds the open files of tasks, with paths cut to `depth` segments. `read` returns the files
    /// of a live process, and an empty list after its limit.
    pub fn add_open_files(
        &mut self,
        depth: u8,
        mut read: impl FnMut(ProcessKey, Comm) -> Vec<String>,
    ) {
        let entries = self.processes.iter();
        let living = entries.filter(|entry| entry.stage == Stage::Executed);
        let of_steps: Vec<_> = living
            .filter_map(|entry| match entry.owner {
                ProcessOwner::Step(number) => Some((number, entry.key, entry.program)),
                ProcessOwner::Background(_) => None,
            })
            .collect();
        for (number, key, program) in of_steps {
            let paths = read(key, program);
            if let Some(step) = self.steps.get_mut(number) {
                let opt_in = &mut step.opt_in;
                paths
                    .iter()
                    .for_each(|path| opt_in.file(path, depth, &self.rules));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::interval::opt_in_detail::{OptInAccumulator, cut};
    use crate::label_rules::Rules;

    #[test]
    fn a_path_is_cut_to_so_many_parts() {
        let check = |path: &str, depth: u8, expect: &str| assert_eq!(cut(path, depth), expect);
        check("/data/ref/hg38.fa", 1, "/data");
        check("/data/ref/hg38.fa", 2, "/data/ref");
        check("/data/ref/hg38.fa", 3, "/data/ref/hg38.fa");
        check("/data/ref/hg38.fa", 9, "/data/ref/hg38.fa");
        check("/é", 1, "/é");
    }

    #[test]
    fn files_count_once_and_those_without_room_are_counted_too() {
        let rules = Rules::parse("mask = [\"secret\"]").expect("valid");
        let mut opt_in = OptInAccumulator::default();
        for _ in 0..3 {
            for file in ["/data/a", "/data/b", "/secret/a"] {
                opt_in.file(file, 1, &rules);
            }
        }
        let report = opt_in.report().expect("it had files");
        let files: Vec<_> = report
            .files
            .iter()
            .map(|(path, n)| (path.as_str(), *n))
            .collect();
        assert_eq!(files, [("/***", 1), ("/data", 2)]);
        (0..40).for_each(|n| opt_in.file(&format!("/{n}/x"), 1, &rules));
        let report = opt_in.report().expect("it had files");
        assert_eq!((report.files.len(), report.files_left_out), (32, 10));
        assert_eq!(OptInAccumulator::default().report(), None);
    }
}
