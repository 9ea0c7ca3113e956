//! What counts as activity: the floors of the policy, scaled to an interval.

use std::time::Duration;

use crate::heartbeat::Heartbeat;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, CpuTime, Share};

/// What counts as activity. The floors are for the whole node and a minute, and
/// are scaled to the length of an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ActivityPolicy {
    /// The grain of activity in seconds. A minute: the finest at which cloud
    /// machines are managed, and the interval of a heartbeat.
    pub tick_seconds: u32,
    /// Workload CPU a minute below which a node does nothing, in milliseconds:
    /// 2 % of one core, above what a shell prompt or a poll loop uses.
    pub cpu_floor_ms: u64,
    /// Workload disk bytes a minute: above log writing, below any real read.
    pub disk_floor_bytes: u64,
    /// Network bytes a minute: 1,000 a second, below which OptScale calls a machine
    /// abandoned. Agents' own are left out here, so what passes it is somebody's.
    pub network_floor_bytes: u64,
    /// GPU utilization in parts per million: 1 %, the counter's own grain.
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
    /// The grain of activity.
    pub fn tick(&self) -> Duration {
        Duration::from_secs(self.tick_seconds.into())
    }

    /// CPU a minute.
    pub fn cpu_floor(&self) -> CpuTime {
        CpuTime::from_millis(self.cpu_floor_ms)
    }

    /// Disk bytes a minute.
    pub fn disk_floor(&self) -> Bytes {
        Bytes(self.disk_floor_bytes)
    }

    /// Network bytes a minute.
    pub fn network_floor(&self) -> Bytes {
        Bytes(self.network_floor_bytes)
    }

    /// GPU utilization.
    pub fn gpu_floor(&self) -> Share {
        Share::from_ppm(self.gpu_floor_ppm)
    }
}

/// What made an interval active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Nothing did.
    Quiet,
    /// The workload used CPU beyond the floor.
    Cpu,
    /// The workload used disks beyond the floor.
    Disk,
    /// Bytes crossed the network beyond the floor.
    Network,
    /// A GPU was busy beyond the floor.
    Gpu,
    /// Someone typed at a terminal.
    Typing,
}

/// Tells what, if anything, made a heartbeat's interval active. A signal that
/// is unknown makes nothing active; coverage is what says that it was not seen.
pub fn of(heartbeat: &Heartbeat, policy: &ActivityPolicy) -> Activity {
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

/// True when a GPU was busy beyond the floor.
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
            assert_eq!(of(&h, &ActivityPolicy::default()), expect);
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
        assert_eq!(of(&h, &ActivityPolicy::default()), Activity::Cpu);
    }
}
