//! Consecutive commits of a table, and the names of the files with their rows.

use std::fmt;

/// The application id of the transaction whose number is the last merged commit.
pub(super) const COMPACTION: &str = "ebb-compaction";

/// Consecutive commits, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitSpan {
    pub(super) first: u64,
    pub(super) last: u64,
}

const PREFIX: &str = "compact-";
const SUFFIX: &str = ".zstd.parquet";

impl CommitSpan {
    /// The name of a file that covers these commits. `unique` distinguishes attempts.
    pub(super) fn file_name(self, unique: u64) -> String {
        format!("{PREFIX}{self}-{unique:016x}{SUFFIX}")
    }

    /// The commits of a merged file; `None` for every other file.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let span = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let mut parts = span.split('-');
        let (first, last) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_whole = parts.next().is_some() && parts.next().is_none();
        (is_whole && first <= last).then_some(Self { first, last })
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for CommitSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:020}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_merged_file_contains_its_commits() {
        let span = CommitSpan { first: 3, last: 11 };
        let name = span.file_name(7);
        assert_eq!(
            name,
            "compact-00000000000000000003-00000000000000000011-0000000000000007.zstd.parquet"
        );
        assert_eq!(CommitSpan::of_file(&name), Some(span));
        for other in [
            "part-00000-0b5c-c000.snappy.parquet",
            "compact-3-11.zstd.parquet",
            "compact-11-3-7.zstd.parquet",
            "compact-3-x-7.zstd.parquet",
            "compact-3-11-7-9.zstd.parquet",
            "compact-3-11-7.parquet",
        ] {
            assert_eq!(CommitSpan::of_file(other), None, "{other}");
        }
    }
}
