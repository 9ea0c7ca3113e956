//! The state that one run of the updater stores for the next.

use std::path::{Path, PathBuf};

use ebb_telemetry::probe_version::ProbeVersion;
use serde::{Deserialize, Serialize};

use crate::durable::{DiskError, read_file, write_file};

const MAX_BYTES: u64 = 64 << 10;

/// Newer failures replace the oldest.
const MAX_FAILED: usize = 16;

/// An update that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) version: ProbeVersion,
    /// SHA-256 of the new program.
    pub(super) sha256: String,
    /// SHA-256 of the program before.
    pub(super) sha256_before: String,
}

/// The stored state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredState {
    /// Versions that failed, the oldest first.
    pub(super) failed: Vec<ProbeVersion>,
    /// The update that has begun and not ended.
    pub(super) begun: Option<Begun>,
}

impl StoredState {
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join("update.json")
    }

    /// Reads the state. A file that cannot be parsed counts as empty: it is replaced by renaming, so
    /// no crash makes such a file.
    pub(super) fn read(folder: &Path) -> Result<Self, DiskError> {
        let path = Self::path(folder);
        let Some(bytes) = read_file(&path, MAX_BYTES)? else {
            return Ok(Self::default());
        };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "failed to parse the state of updates");
            Self::default()
        }))
    }

    /// Stores the state durably.
    pub(super) fn write(&self, folder: &Path) -> Result<(), DiskError> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        write_file(&Self::path(folder), &bytes)
    }

    /// Adds a version that failed.
    pub(super) fn fail(&mut self, version: ProbeVersion) {
        self.failed.retain(|known| *known != version);
        self.failed.push(version);
        let over = self.failed.len().saturating_sub(MAX_FAILED);
        self.failed.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_back_and_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut state = StoredState::read(folder.path()).expect("none yet");
        assert_eq!(state, StoredState::default());
        for patch in 0..30 {
            state.fail(format!("1.0.{patch}").parse().expect("a version"));
        }
        state.fail("1.0.29".parse().expect("a version"));
        assert_eq!(state.failed.len(), MAX_FAILED);
        assert_eq!(state.failed[0].to_string(), "1.0.14");
        state.write(folder.path()).expect("written");
        assert_eq!(StoredState::read(folder.path()).expect("read"), state);
        std::fs::write(StoredState::path(folder.path()), "junk").expect("written");
        let junk = StoredState::read(folder.path()).expect("read");
        assert_eq!(junk, StoredState::default());
    }
}
