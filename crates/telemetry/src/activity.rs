//! Activity of a node: the limits of the policy, scaled to an interval.

use std::time::Duration;

use crate::heartbeat::Heartbeat;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, CpuTime, Share};

/// Limits of activity. They apply to the whole node and one minute, and are scaled to the length of
/// an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ActivityPolicy {
    /// Resolution of activity in seconds. The default of one minute is the interval of a heartbeat.
    pub tick_seconds: u32,
    /// Workload CPU time a minute below which a node is inactive, in milliseconds. The default is
    /// 2 % of one core, which is more than a shell prompt or a poll loop uses.
    pub cpu_floor_ms: u64,
    /// Workload disk bytes a minute. The default is more than log files and less than any real
    /// input.
    pub disk_floor_bytes: u64,
    /// Network bytes a minute, without those of agents. The default is 1,000 bytes a second, below
    /// which OptScale reports a machine as abandoned.
    pub network_floor_bytes: u64,
    /// GPU utilization in parts per million. The default is 1 %, the resolution of the counter.
    pub gpu_floor_ppm: u32,
}

impl Default for ActivityPolicy {
    fn default() -> Self {
        Self {
            tick_seconds: 60,
            cpu_floor_ms: 1_200,
            disk_floor_bytes: 1_000_000,
            network_floor_bytes: 60_000,
            gpu_floor_ppm: 10_000,
        }
    }
}

impl ActivityPolicy {
    /// See [`Self::tick_seconds`].
    pub fn tick(&self) -> Duration {
        Duration::from_secs(self.tick_seconds.into())
    }

    /// See [`Self::cpu_floor_ms`].
    pub fn cpu_floor(&self) -> CpuTime {
        CpuTime::from_millis(self.cpu_floor_ms)
    }

    /// See [`Self::disk_floor_bytes`].
    pub fn disk_floor(&self) -> Bytes {
        Bytes(self.disk_floor_bytes)
    }

    /// See [`Self::network_floor_bytes`].
    pub fn network_floor(&self) -> Bytes {
        Bytes(self.network_floor_bytes)
    }

    /// See [`Self::gpu_floor_ppm`].
    pub fn gpu_floor(&self) -> Share {
        Share::from_ppm(self.gpu_floor_ppm)
    }
}

/// Reason why an interval is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Inactive.
    Quiet,
    /// Workload CPU time above the limit.
    Cpu,
    /// Workload disk bytes above the limit.
    Disk,
    /// Network bytes above the limit.
    Network,
    /// GPU utilization above the limit.
    Gpu,
    /// A user typed at a terminal.
    Typing,
}

/// Activity of the interval of a heartbeat. An unknown signal makes nothing active; coverage shows
/// that it was not observed.
pub fn classify(heartbeat: &Heartbeat, policy: &ActivityPolicy) -> Activity {
    let Some(length) = heartbeat.end.since(heartbeat.start) else {
        return Activity::Quiet;
    };
    let beyond = |used: Option<u64>, a_minute: u64| {
        used.is_some_and(|used| used > 0 && used >= scaled(a_minute, length))
    };
    let used = &heartbeat.workload;
    if beyond(used.cpu.map(|cpu| cpu.0), policy.cpu_floor().0) {
        return Activity::Cpu;
    }
    if beyond(used.disk.map(|bytes| bytes.0), policy.disk_floor_bytes) {
        return Activity::Disk;
    }
    if beyond(
        used.network.map(|bytes| bytes.0),
        policy.network_floor_bytes,
    ) {
        return Activity::Network;
    }
    if computes(heartbeat, policy) {
        return Activity::Gpu;
    }
    if heartbeat.typed_ago.is_some_and(|ago| ago < length) {
        return Activity::Typing;
    }
    Activity::Quiet
}

/// Whether a GPU was busy above the limit.
pub fn computes(heartbeat: &Heartbeat, policy: &ActivityPolicy) -> bool {
    let busy = heartbeat.workload.gpu;
    busy.is_some_and(|busy: Share| busy >= policy.gpu_floor())
}

/// A floor given for a minute, for an interval of `length`.
fn scaled(a_minute: u64, length: Duration) -> u64 {
    let scaled = u128::from(a_minute) * length.as_millis() / 60_000;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heartbeat::Usage;
    use crate::testing::heartbeat;
    use crate::time::BootClock;
    use crate::units::{Bytes, CpuTime};

    #[test]
    fn only_use_beyond_a_floor_is_activity() {
        let minute = BootClock::from_nanos(60_000_000_000);
        let check = |workload: Usage, typed_ago: Option<u64>, expect: Activity| {
            let mut h = heartbeat(BootClock::default(), minute);
            h.workload = workload;
            h.typed_ago = typed_ago.map(Duration::from_secs);
            assert_eq!(classify(&h, &ActivityPolicy::default()), expect);
        };
        let none = Usage::default();
        let cpu = |ms| Usage {
            cpu: Some(CpuTime::from_millis(ms)),
            ..none
        };
        check(none, None, Activity::Quiet);
        check(cpu(1_199), None, Activity::Quiet);
        check(cpu(1_200), None, Activity::Cpu);
        check(
            Usage {
                disk: Some(Bytes(1_000_000)),
                ..none
            },
            None,
            Activity::Disk,
        );
        check(
            Usage {
                network: Some(Bytes(59_999)),
                ..none
            },
            None,
            Activity::Quiet,
        );
        check(
            Usage {
                gpu: Some(Share::from_ppm(10_000)),
                ..none
            },
            None,
            Activity::Gpu,
        );
        check(
            Usage {
                processes_started: 500,
                ..none
            },
            None,
            Activity::Quiet,
        );
        check(none, Some(59), Activity::Typing);
        check(none, Some(60), Activity::Quiet);
    }

    #[test]
    fn a_floor_is_scaled_to_the_interval() {
        let mut h = heartbeat(BootClock::default(), BootClock::from_nanos(2_000_000_000));
        h.workload.cpu = Some(CpuTime::from_millis(40));
        assert_eq!(classify(&h, &ActivityPolicy::default()), Activity::Cpu);
    }
}
