//! What counts as activity: the floors of the policy, scaled to an interval.

use std::time::Duration;

use crate::heartbeat::Heartbeat;
use crate::policy::ActivityPolicy;
use crate::units::Share;

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
    use crate::heartbeat::{BootClock, Usage};
    use crate::state::testing::heartbeat;
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
