//! Arguments and open files of a task, which a node reports only if its configuration enables it.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use ebb_telemetry::step::resource_usage;

use crate::label_rules::Rules;

/// Maximum number of distinct files of a task.
const MAX_FILES: usize = 1_024;

/// The opt-in data of one task.
#[derive(Debug, Default)]
pub(crate) struct OptInAccumulator {
    pub(crate) arguments: Option<Vec<String>>,
    /// Hashes of the paths, so that a file that stays open counts once.
    known: HashSet<u64>,
    files: BTreeMap<String, u64>,
    left_out: u64,
}

impl OptInAccumulator {
    /// Adds an open file; `rules` mask the names in its path.
    pub(crate) fn file(&mut self, path: &str, depth: u8, rules: &Rules) {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let file = hasher.finish();
        if self.known.contains(&file) {
            return;
        }
        let cut = rules.shown_path(cut(path, depth));
        let has_room = self.files.len() < resource_usage::OptInDetail::MAX_PATHS
            || self.files.contains_key(&cut);
        if self.known.len() >= MAX_FILES
            || !has_room
            || cut.len() > resource_usage::OptInDetail::MAX_PATH_BYTES
        {
            self.left_out += 1;
            return;
        }
        self.known.insert(file);
        *self.files.entry(cut).or_default() += 1;
    }

    /// The report of this data; `None` if it is empty.
    pub(crate) fn report(&self) -> Option<Box<resource_usage::OptInDetail>> {
        let report = resource_usage::OptInDetail {
            arguments: self.arguments.clone().unwrap_or_default(),
            files: self.files.clone(),
            files_left_out: self.left_out,
        };
        (report != resource_usage::OptInDetail::default()).then(|| Box::new(report))
    }
}

/// The first `depth` segments of a path.
pub(crate) fn cut(path: &str, depth: u8) -> &str {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let end = ends.skip(1).nth(usize::from(depth).saturating_sub(1));
    &path[..end.unwrap_or(path.len())]
}
