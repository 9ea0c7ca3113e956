//! The parts of a node's newest heartbeat that few readers need. The state contains those of a
//! hundred thousand nodes, so they are packed, which takes half of the memory.

use std::time::Duration;

use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::node_signals::GpuUse;
use ebb_telemetry::probe_version::ProbeVersion;
use ebb_telemetry::units::{Bytes, CpuTime, Share};
use serde::{Deserialize, Serialize};

use crate::packed_bytes;

/// The content, unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LatestDetail {
    /// CPU time of background processes; `None` if it was not observed.
    pub background_cpu: Option<CpuTime>,
    /// Bytes that background processes moved from and to disks; `None` if it was not observed.
    pub background_disk: Option<Bytes>,
    /// The share of the interval in which some task waited for a block device; `None` if the kernel
    /// does not report it.
    pub disk_waited: Option<Share>,
    /// The observed GPUs.
    pub gpus: Vec<GpuUse>,
    /// The condition of the probe.
    pub probe: ProbeHealth,
}

/// The condition of a probe. Counters begin with its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProbeHealth {
    /// CPU time of the probe in the interval.
    pub cpu: CpuTime,
    /// Its resident memory; `None` if it could not be read.
    pub resident: Option<Bytes>,
    /// Kernel events lost because the ring buffer was full.
    pub events_lost: u64,
    /// Records that it lost before it could send them.
    pub records_dropped: u64,
    /// Bytes in the spool.
    pub spool: Bytes,
    /// Its version; `None` if it did not send a valid one.
    #[serde(with = "ebb_telemetry::probe_version::numbers")]
    pub version: Option<ProbeVersion>,
    /// By how much the clock of the node is ahead; negative if it is behind. 0 for a node that is
    /// behind by less than the longest delivery time.
    pub clock_ahead_seconds: i64,
}

impl ProbeHealth {
    fn from_heartbeat(placed: &Placed) -> Self {
        let probe = &placed.heartbeat.probe;
        let ahead = placed.heartbeat.wall_at_end.duration_since(placed.end);
        Self {
            cpu: probe.cpu,
            resident: probe.resident,
            events_lost: probe.events_lost,
            records_dropped: probe.records_dropped,
            spool: probe.spool_depth,
            version: placed.heartbeat.detail.version,
            clock_ahead_seconds: ahead.as_secs(),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl LatestDetail {
    pub(crate) fn from_heartbeat(placed: &Placed, length: Duration) -> Self {
        let h = &placed.heartbeat;
        Self {
            background_cpu: h.background.cpu,
            background_disk: h.background.disk,
            disk_waited: (h.detail.pressure)
                .and_then(|pressure| Share::from_parts(millis(pressure.disk_some), millis(length))),
            gpus: h.detail.gpus.clone(),
            probe: ProbeHealth::from_heartbeat(placed),
        }
    }
}

/// A packed [`LatestDetail`], which is valid: it was packed here or checked when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackedDetail(
    #[serde(
        serialize_with = "packed_bytes::serialize",
        deserialize_with = "packed_bytes::deserialize::<LatestDetail, _>"
    )]
    Box<[u8]>,
);

impl PackedDetail {
    pub(crate) fn new(detail: &LatestDetail) -> Self {
        // It has no part that postcard cannot write.
        Self(postcard::to_allocvec(detail).unwrap_or_default().into())
    }

    pub(crate) fn unpack(&self) -> LatestDetail {
        postcard::from_bytes(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read_again_and_other_bytes_are_refused() {
        let probe = ProbeHealth {
            resident: Some(Bytes::mib(13)),
            events_lost: u64::MAX,
            version: Some("0.2.65535".parse().expect("a version")),
            clock_ahead_seconds: -3_600,
            ..ProbeHealth::default()
        };
        let detail = LatestDetail {
            background_disk: Some(Bytes(7)),
            probe,
            ..LatestDetail::default()
        };
        let packed = PackedDetail::new(&detail);
        assert_eq!(packed.unpack(), detail);
        let stored = postcard::to_allocvec(&packed).expect("it is written");
        assert_eq!(postcard::from_bytes(&stored).as_ref(), Ok(&packed));
        let wrong = postcard::to_allocvec(&[9_u8, 9][..]).expect("it is written");
        postcard::from_bytes::<PackedDetail>(&wrong).expect_err("that is no detail");
    }
}
