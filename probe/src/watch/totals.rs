//! Totals of the node since boot, from procfs.

use std::path::Path;

use ebb_telemetry::units::{Bytes, CpuTime};
use ebb_telemetry::watch::WatchTotals;

use crate::kernel_file;
use crate::proc_stat::tick_ns;

/// The CPU time and disk bytes of the machine; `root` is the directory of `proc`. The other fields
/// keep their defaults.
pub(crate) fn read_totals(root: &Path) -> WatchTotals {
    let read = |path: &str| kernel_file::read(root.join(path)).ok();
    let vmstat = read("proc/vmstat");
    // The kernel counts KiB here.
    let paged = |name: &str| {
        let line = vmstat
            .as_deref()?
            .lines()
            .find(|line| line.split_once(' ').is_some_and(|(found, _)| found == name))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(Bytes(kib.saturating_mul(1_024)))
    };
    WatchTotals {
        cpu_ns: read("proc/stat").as_deref().and_then(busy),
        disk_read_bytes: paged("pgpgin"),
        disk_written_bytes: paged("pgpgout"),
        ..WatchTotals::default()
    }
}

/// The CPU time of processes and interrupts, without idle, I/O wait and time of other machines.
///
/// Source: `proc_stat(5)`: user, nice, system, idle, iowait, irq, softirq, steal. Time of guests is part
/// of user time.
fn busy(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> = line
        .split_whitespace()
        .take(7)
        .map(|number| number.parse().ok())
        .collect();
    let [user, nice, system, _, _, irq, softirq] = ticks?[..] else {
        return None;
    };
    let parts = [user, nice, system, irq, softirq].into_iter();
    let ticks = parts.fold(0_u64, u64::saturating_add);
    Some(CpuTime(ticks.saturating_mul(tick_ns())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_kernel_or_unknown() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(read_totals(root.path()), WatchTotals::default());
        let proc = root.path().join("proc");
        std::fs::create_dir(&proc).expect("a folder");
        let stat = "cpu  1 2 3 100 100 4 5 9 1 0\ncpu0 1 1 1 1\n";
        std::fs::write(proc.join("stat"), stat).expect("a file");
        let vmstat = "pgpgin 3\npgpgout 5\npgpgoutx 9\n";
        std::fs::write(proc.join("vmstat"), vmstat).expect("a file");
        let totals = read_totals(root.path());
        assert_eq!(totals.cpu_ns, Some(CpuTime(15 * tick_ns())));
        assert_eq!(totals.disk_read_bytes, Some(Bytes(3 * 1_024)));
        assert_eq!(totals.disk_written_bytes, Some(Bytes(5 * 1_024)));
        assert_eq!(busy("cpu  1 2"), None);
        assert_eq!(busy("cpu  1 2 x 4 5 6 7"), None);
    }
}
