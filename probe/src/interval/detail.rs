//! What a step's processes told beside CPU, memory and disk, summed; and what the
//! step did at each pass.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_domain::step::{Parallelism, Sampled, StepDetail, TaskState};
use ebb_domain::units::CpuTime;

use crate::kernel::Finer;

/// What came to `before` since: both count from a process's start. A count that
/// went backwards, as that of waits does when a thread ends, adds nothing until it
/// passes its old mark.
pub(super) fn since(now: &Finer, before: &mut Finer) -> Finer {
    let count = |now: u64, before: &mut u64| {
        let more = now.saturating_sub(*before);
        *before = now.max(*before);
        more
    };
    let cpu = |now: CpuTime, before: &mut CpuTime| CpuTime(count(now.0, &mut before.0));
    let delay = |now: Option<Duration>, before: &mut Option<Duration>| {
        let now = now?;
        let more = now.saturating_sub(before.unwrap_or_default());
        *before = (*before).max(Some(now));
        Some(more)
    };
    Finer {
        user_ticks: cpu(now.user_ticks, &mut before.user_ticks),
        system_ticks: cpu(now.system_ticks, &mut before.system_ticks),
        voluntary: count(now.voluntary, &mut before.voluntary),
        involuntary: count(now.involuntary, &mut before.involuntary),
        minor_faults: count(now.minor_faults, &mut before.minor_faults),
        major_faults: count(now.major_faults, &mut before.major_faults),
        run_queue: delay(now.run_queue, &mut before.run_queue),
        disk_delay: delay(now.disk_delay, &mut before.disk_delay),
    }
}

/// The finer side of one step.
#[derive(Debug, Default)]
pub(super) struct Detail {
    /// `None` until a process told.
    finer: Option<Finer>,
    now: Option<TaskState>,
    states: BTreeMap<TaskState, Sampled>,
    parallelism: Parallelism,
}

impl Detail {
    /// Counts what one process came to. One that does not know a delay makes that
    /// of the step unknown.
    pub(super) fn add(&mut self, more: &Finer) {
        let Some(sum) = &mut self.finer else {
            self.finer = Some(*more);
            return;
        };
        sum.user_ticks = sum.user_ticks.saturating_add(more.user_ticks);
        sum.system_ticks = sum.system_ticks.saturating_add(more.system_ticks);
        sum.voluntary = sum.voluntary.saturating_add(more.voluntary);
        sum.involuntary = sum.involuntary.saturating_add(more.involuntary);
        sum.minor_faults = sum.minor_faults.saturating_add(more.minor_faults);
        sum.major_faults = sum.major_faults.saturating_add(more.major_faults);
        let both = |a: Option<Duration>, b: Option<Duration>| Some(a?.saturating_add(b?));
        sum.run_queue = both(sum.run_queue, more.run_queue);
        sum.disk_delay = both(sum.disk_delay, more.disk_delay);
    }

    /// One of its processes does this at the present pass.
    pub(super) fn sees(&mut self, state: TaskState) {
        self.now = Some(self.now.map_or(state, |now| now.min(state)));
    }

    /// Ends a pass, which stands for this time.
    pub(super) fn pass(&mut self, stands_for: Duration) {
        let Some(state) = self.now.take() else {
            return;
        };
        let sampled = self.states.entry(state).or_default();
        sampled.samples += 1;
        sampled.time = sampled.time.saturating_add(stands_for);
    }

    /// The cores that were busy from one pass to the next.
    pub(super) fn worked(&mut self, wall: Duration, cpu: CpuTime) {
        self.parallelism.add(wall, cpu);
    }

    /// As it is told, of a step that used so much CPU time.
    pub(super) fn told(&self, cpu: CpuTime) -> StepDetail {
        let finer = self.finer;
        let divided = finer.and_then(|f| divided(cpu, f.user_ticks, f.system_ticks));
        StepDetail {
            user_cpu: divided.map(|(user, _)| user),
            system_cpu: divided.map(|(_, system)| system),
            run_queue: finer.and_then(|f| f.run_queue),
            voluntary_switches: finer.map(|f| f.voluntary),
            involuntary_switches: finer.map(|f| f.involuntary),
            minor_faults: finer.map(|f| f.minor_faults),
            major_faults: finer.map(|f| f.major_faults),
            disk_delay: finer.and_then(|f| f.disk_delay),
            parallelism: self.parallelism.clone(),
            states: self.states.clone(),
            ..StepDetail::default()
        }
    }
}

/// CPU time divided as the ticks were; unknown when no tick fell into it.
fn divided(cpu: CpuTime, user: CpuTime, system: CpuTime) -> Option<(CpuTime, CpuTime)> {
    let ticks = u128::from(user.0) + u128::from(system.0);
    let share = (u128::from(cpu.0) * u128::from(user.0)).checked_div(ticks)?;
    let user = CpuTime(u64::try_from(share).unwrap_or(u64::MAX));
    Some((user, CpuTime(cpu.0.saturating_sub(user.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finer(voluntary: u64, run_queue_ms: Option<u64>) -> Finer {
        Finer {
            voluntary,
            run_queue: run_queue_ms.map(Duration::from_millis),
            ..Finer::default()
        }
    }

    #[test]
    fn counts_of_a_process_add_once_and_never_go_back() {
        let mut before = Finer::default();
        let mut check = |now: Finer, expect: Finer| {
            assert_eq!(since(&now, &mut before), expect, "{now:?}");
        };
        check(finer(5, Some(30)), finer(5, Some(30)));
        check(finer(7, Some(30)), finer(2, Some(0)));
        check(finer(7, Some(10)), finer(0, Some(0)));
        check(finer(8, Some(31)), finer(1, Some(1)));
        check(finer(8, None), finer(0, None));
    }

    #[test]
    fn a_delay_that_one_process_does_not_know_is_unknown_for_the_step() {
        let check = |told: &[Option<u64>], expect: Option<u64>| {
            let mut detail = Detail::default();
            for ms in told {
                detail.add(&finer(1, *ms));
            }
            let seen = detail.told(CpuTime(0));
            assert_eq!(seen.run_queue, expect.map(Duration::from_millis));
            let switches = (!told.is_empty()).then_some(told.len() as u64);
            assert_eq!(seen.voluntary_switches, switches);
        };
        check(&[], None);
        check(&[Some(2), Some(3)], Some(5));
        check(&[Some(2), None], None);
        check(&[None, Some(2)], None);
    }

    #[test]
    fn cpu_time_is_divided_as_the_ticks_were() {
        let check = |user: u64, system: u64, expect: Option<(u64, u64)>| {
            let got = divided(CpuTime(1_000), CpuTime(user), CpuTime(system));
            assert_eq!(got, expect.map(|(u, s)| (CpuTime(u), CpuTime(s))));
        };
        check(0, 0, None);
        check(3, 1, Some((750, 250)));
        check(8, 0, Some((1_000, 0)));
        check(u64::MAX, u64::MAX, Some((500, 500)));
    }

    #[test]
    fn each_pass_counts_the_first_of_what_its_processes_do() {
        let mut detail = Detail::default();
        let mut pass = |states: &[TaskState]| {
            states.iter().for_each(|state| detail.sees(*state));
            detail.pass(Duration::from_secs(10));
        };
        pass(&[TaskState::Child, TaskState::Network]);
        pass(&[TaskState::Network]);
        pass(&[TaskState::Running, TaskState::Child]);
        pass(&[]);
        let seconds = |samples, secs| Sampled {
            samples,
            time: Duration::from_secs(secs),
        };
        let expect = [
            (TaskState::Running, seconds(1, 10)),
            (TaskState::Network, seconds(2, 20)),
        ];
        assert_eq!(detail.told(CpuTime(0)).states, expect.into());
    }
}
