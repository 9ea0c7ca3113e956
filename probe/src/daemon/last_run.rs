//! A file that records how the previous run ended: with a clean stop, without one, or together
//! with the machine.

use std::path::{Path, PathBuf};

use ebb_telemetry::identity::{BootId, NodeId};
use serde::{Deserialize, Serialize};

use crate::durable::{self, DiskError, failed};
use crate::probe_run::ProbeRun;

/// The file's name in the state folder.
const NAME: &str = "last-run.json";

/// Limit when reading the file, which has about 400 bytes.
const MAX_BYTES: u64 = 8 << 10;

/// How earlier runs ended, counted since the state folder was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct PastEnds {
    /// Runs that ended without a clean stop.
    pub unclean_stops: u64,
    /// Unclean stops after which the machine booted again: a power loss, a reset or a kernel
    /// crash.
    pub power_losses: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RunEnd {
    /// The run goes on, or it ended without a clean stop.
    None,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RunMark {
    node: NodeId,
    boot: BootId,
    end: RunEnd,
    past: PastEnds,
}

/// The record of this run.
#[derive(Debug)]
pub(super) struct LastRun {
    path: PathBuf,
    mark: RunMark,
    is_known: bool,
}

impl LastRun {
    /// Records in `folder` that a run began, and counts how the previous run ended.
    pub(super) fn begin(folder: &Path, run: &ProbeRun) -> Self {
        let path = folder.join(NAME);
        let before = read(&path);
        if let Err(error) = &before {
            tracing::warn!(error = %error.source, "{error}; unclean stops of earlier runs are unknown");
        }
        let past = before
            .as_ref()
            .ok()
            .map(|before| past_ends(before.as_ref(), run));
        let mark = RunMark {
            node: run.node.clone(),
            boot: run.boot.clone(),
            end: RunEnd::None,
            past: past.unwrap_or_default(),
        };
        let this = Self {
            path,
            mark,
            is_known: past.is_some(),
        };
        this.write();
        this
    }

    /// How earlier runs ended; `None` if the file cannot be read.
    pub(super) fn past_ends(&self) -> Option<PastEnds> {
        self.is_known.then_some(self.mark.past)
    }

    /// Records that this run stopped cleanly.
    pub(super) fn stopped(mut self) {
        self.mark.end = RunEnd::Stopped;
        self.write();
    }

    fn write(&self) {
        let written = match serde_json::to_vec(&self.mark) {
            Ok(bytes) => durable::write_file(&self.path, &bytes),
            Err(error) => Err(failed(&self.path, "write")(error.into())),
        };
        if let Err(error) = written {
            tracing::warn!(error = %error.source, "{error}; the next run cannot count an unclean stop of this run");
        }
    }
}

/// The record of the previous run; `None` if there was none.
fn read(path: &Path) -> Result<Option<RunMark>, DiskError> {
    let Some(bytes) = durable::read_file(path, MAX_BYTES)? else {
        return Ok(None);
    };
    let mark = serde_json::from_slice(&bytes);
    mark.map(Some)
        .map_err(|error| failed(path, "read")(error.into()))
}

fn past_ends(before: Option<&RunMark>, run: &ProbeRun) -> PastEnds {
    // A disk image can contain the file of the machine that it was made from.
    let Some(before) = before.filter(|before| before.node == run.node) else {
        return PastEnds::default();
    };
    let mut past = before.past;
    if before.end == RunEnd::None {
        past.unclean_stops = past.unclean_stops.saturating_add(1);
        let has_booted = before.boot != run.boot;
        past.power_losses = past.power_losses.saturating_add(u64::from(has_booted));
        let how = match has_booted {
            true => "the machine went down without stopping the probe",
            false => "the previous probe ended without a clean stop",
        };
        tracing::warn!(
            unclean_stops = past.unclean_stops,
            power_losses = past.power_losses,
            "{how}; finished steps that were not on the disk are lost"
        );
    }
    past
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::identity::ProbeStart;

    use super::*;

    fn run(node: &str, boot: &str) -> ProbeRun {
        ProbeRun {
            node: NodeId::new(node).expect("valid"),
            boot: BootId::new(boot).expect("valid"),
            probe_start: ProbeStart::new("run").expect("valid"),
        }
    }

    fn ends(unclean_stops: u64, power_losses: u64) -> Option<PastEnds> {
        Some(PastEnds {
            unclean_stops,
            power_losses,
        })
    }

    #[test]
    fn unclean_stops_and_power_losses_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let start = |boot: &str, expect| {
            let last = LastRun::begin(folder.path(), &run("i-1", boot));
            assert_eq!(last.past_ends(), expect, "{boot}");
            last
        };
        start("a", ends(0, 0)).stopped();
        start("a", ends(0, 0)).stopped();
        // A reboot after a clean stop does not count.
        drop(start("b", ends(0, 0)));
        drop(start("b", ends(1, 0)));
        drop(start("c", ends(2, 1)));
        start("d", ends(3, 2)).stopped();
        start("e", ends(3, 2)).stopped();
        // The file of another machine does not count.
        let other = LastRun::begin(folder.path(), &run("i-2", "f"));
        assert_eq!(other.past_ends(), ends(0, 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_unknown_and_not_zero() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(NAME);
        std::fs::write(&path, "{").expect("written");
        let last = LastRun::begin(folder.path(), &run("i-1", "a"));
        assert_eq!(last.past_ends(), None);
        last.stopped();
        assert_eq!(
            LastRun::begin(folder.path(), &run("i-1", "a")).past_ends(),
            ends(0, 0)
        );
        // Without a writable disk the probe runs all the same.
        let nowhere = LastRun::begin(Path::new("/proc/nowhere"), &run("i-1", "a"));
        assert_eq!(nowhere.past_ends(), ends(0, 0));
        nowhere.stopped();
    }
}
