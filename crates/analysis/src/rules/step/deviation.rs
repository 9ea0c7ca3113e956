//! Differences in CPU and I/O between a task and the history of its step. They are causes, no
//! findings of their own: the size of the input is unknown, and a larger input has the same effect.

use ebb_model::finding::evidence::step::Deviation;
use ebb_telemetry::units::{Bytes, MilliCores};

use crate::facts::Facts;
use crate::step_history::observed_task::ObservedTask;

/// Fewer bytes are no cause, even if earlier tasks read almost nothing.
const LEAST_BYTES: u64 = 1 << 30;

/// Compares a task with earlier tasks of its step. As for the duration, a value must differ from the
/// median by the factor `step.slow_ppm` and from every earlier task.
pub(crate) fn find_deviations(
    facts: &Facts<'_>,
    run: &ObservedTask<'_>,
    earlier: &[&ObservedTask<'_>],
) -> Vec<Deviation> {
    let policy = &facts.policy.step;
    let least = usize::try_from(policy.history_runs).unwrap_or(usize::MAX);
    let times = u128::from(policy.slow_ppm);
    let values = |value: fn(&ObservedTask<'_>) -> Option<u64>| {
        let mut values: Vec<u64> = earlier.iter().filter_map(|run| value(run)).collect();
        values.sort_unstable();
        (values.len() >= least).then_some(values)
    };
    let more = |value: fn(&ObservedTask<'_>) -> Option<u64>| {
        let now = value(run).filter(|now| *now >= LEAST_BYTES)?;
        let values = values(value)?;
        let (usual, most) = (*values.get(values.len() / 2)?, *values.last()?);
        let is_more = u128::from(now) * 1_000_000 >= u128::from(usual) * times && now > most;
        is_more.then_some((Bytes(now), Bytes(usual)))
    };
    let fewer_cores = || {
        let now = cores(run)?;
        let values = values(cores)?;
        let (usual, fewest) = (*values.get(values.len() / 2)?, *values.first()?);
        let is_less = u128::from(now) * times <= u128::from(usual) * 1_000_000 && now < fewest;
        is_less.then_some((MilliCores(now), MilliCores(usual)))
    };
    let found = [
        fewer_cores().map(|(now, usual)| Deviation::Cores { now, usual }),
        more(read).map(|(now, usual)| Deviation::Read { now, usual }),
        more(written).map(|(now, usual)| Deviation::Written { now, usual }),
    ];
    found.into_iter().flatten().collect()
}

fn cores(run: &ObservedTask<'_>) -> Option<u64> {
    let cores = run.step.usage.cpu.cores_over(run.wall())?;
    Some(cores.0)
}

fn read(run: &ObservedTask<'_>) -> Option<u64> {
    run.step.usage.detail.syscall_io.map(|io| io.read.0)
}

fn written(run: &ObservedTask<'_>) -> Option<u64> {
    run.step.usage.detail.syscall_io.map(|io| io.written.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::step_world::{ended, run_for, verdict};
    use ebb_model::finding_kind::FindingKind;
    use ebb_telemetry::step::resource_usage::SyscallIo;
    use ebb_telemetry::units::CpuTime;

    #[test]
    fn a_slow_task_says_how_its_use_differs_from_all_earlier_tasks() {
        let io = |gib| {
            Some(SyscallIo {
                read: Bytes::gib(gib),
                ..SyscallIo::default()
            })
        };
        let check = |read: u64, earlier: &[u64], cpu_minutes: u64, expect: &str| {
            let mut world = run_for(100, |s| {
                s.detail.syscall_io = io(read);
                s.cpu = CpuTime::from_millis(cpu_minutes * 60_000);
            });
            for (n, earlier) in (1..).zip(earlier) {
                ended(&mut world, n, 40, |s| s.detail.syscall_io = io(*earlier));
            }
            let finding = verdict(&world, FindingKind::SlowStep).expect("it is slow");
            let evidence = finding.evidence.to_string();
            let (_, differs) = evidence.split_once("of CPU)").expect("it names a tool");
            assert_eq!(differs, expect);
        };
        let usual = [4, 4, 4, 5, 4];
        let reads = "; it read 40.0 GiB, compared with a median of 4.0 GiB in earlier tasks";
        check(40, &usual, 100, reads);
        check(7, &usual, 100, "");
        // One earlier task read as much.
        check(40, &[4, 4, 4, 40, 4], 100, "");
        let idle =
            "; it used 0.10 cores on average, compared with a median of 1.00 in earlier tasks";
        check(40, &usual, 10, &format!("{idle}{reads}"));
    }
}
