//! Stall times and reclaimed memory of the node in each interval, from the kernel's sums (pressure
//! stall information, reclaim), and the memory in use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_telemetry::heartbeat::Pressure;
use ebb_telemetry::units::Bytes;

use crate::kernel_file;

/// Measures stalls and reclaim between calls.
#[derive(Debug)]
pub struct PressureSampler {
    root: PathBuf,
    pressure: Option<Pressure>,
    reclaimed: Option<Bytes>,
}

impl PressureSampler {
    /// Starts to count; `root` is the directory of `proc`.
    pub fn watch(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let (pressure, reclaimed) = (pressure(&root), reclaimed(&root));
        Self {
            root,
            pressure,
            reclaimed,
        }
    }

    /// Stalls and reclaim since the last call. Each is `None` if the kernel does not report it
    /// (pressure needs Linux 4.20, and can be disabled by `psi=0` or at build time).
    pub fn since_last(&mut self) -> (Option<Pressure>, Option<Bytes>) {
        let before = std::mem::replace(&mut self.pressure, pressure(&self.root));
        let pressure = more(before.as_ref(), self.pressure.as_ref());
        let before = std::mem::replace(&mut self.reclaimed, reclaimed(&self.root));
        let pages = || self.reclaimed?.0.checked_sub(before?.0).map(Bytes);
        (pressure, pages())
    }

    /// Memory in use: total memory without the memory that programs can get without swapping.
    ///
    /// Source: `MemAvailable` of `proc_meminfo(5)`.
    pub fn memory_used(&self) -> Option<Bytes> {
        let text = kernel_file::read(self.root.join("proc/meminfo")).ok()?;
        let kib = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.parse().ok()
        };
        let used = kib("MemTotal:")?.checked_sub(kib("MemAvailable:")?)?;
        Some(Bytes(used.saturating_mul(1_024)))
    }
}

fn more(before: Option<&Pressure>, now: Option<&Pressure>) -> Option<Pressure> {
    let (before, now) = (before?, now?);
    Some(Pressure {
        cpu_some: now.cpu_some.checked_sub(before.cpu_some)?,
        memory_some: now.memory_some.checked_sub(before.memory_some)?,
        memory_full: now.memory_full.checked_sub(before.memory_full)?,
        disk_some: now.disk_some.checked_sub(before.disk_some)?,
        disk_full: now.disk_full.checked_sub(before.disk_full)?,
    })
}

/// The sums since boot.
fn pressure(root: &Path) -> Option<Pressure> {
    let of = |name: &str| kernel_file::read(root.join("proc/pressure").join(name)).ok();
    let (cpu, memory, disk) = (of("cpu")?, of("memory")?, of("io")?);
    Some(Pressure {
        cpu_some: total(&cpu, "some")?,
        memory_some: total(&memory, "some")?,
        memory_full: total(&memory, "full")?,
        disk_some: total(&disk, "some")?,
        disk_full: total(&disk, "full")?,
    })
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=7297175486`, in microseconds.
///
/// Source: `Documentation/accounting/psi.rst`.
fn total(text: &str, kind: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    let total = line.split("total=").nth(1)?;
    Some(Duration::from_micros(total.trim().parse().ok()?))
}

/// Memory reclaimed since boot, by kswapd and directly.
fn reclaimed(root: &Path) -> Option<Bytes> {
    const TAKERS: [&str; 2] = ["pgsteal_kswapd ", "pgsteal_direct "];
    let text = kernel_file::read(root.join("proc/vmstat")).ok()?;
    let pages = |taker: &&str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(*taker))?;
        line.trim().parse().ok()
    };
    let pages: Option<u64> = TAKERS.iter().map(pages).sum();
    Some(Bytes(pages? * rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(root: &Path, cpu_us: u64, full_us: u64, stolen: u64) {
        let folder = root.join("proc/pressure");
        fs::create_dir_all(&folder).expect("a folder");
        let line =
            |kind: &str, us| format!("{kind} avg10=1.00 avg60=0.00 avg300=0.00 total={us}\n");
        let both = line("some", full_us * 2) + &line("full", full_us);
        fs::write(folder.join("cpu"), line("some", cpu_us)).expect("a file");
        fs::write(folder.join("memory"), &both).expect("a file");
        fs::write(folder.join("io"), &both).expect("a file");
        let vmstat = format!("pgfault 9\npgsteal_kswapd {stolen}\npgsteal_direct 1\n");
        fs::write(root.join("proc/vmstat"), vmstat).expect("a file");
    }

    #[test]
    fn memory_in_use_is_what_programs_could_not_have() {
        let root = tempfile::tempdir().expect("a folder");
        let sampler = PressureSampler::watch(root.path());
        assert_eq!(sampler.memory_used(), None);
        fs::create_dir(root.path().join("proc")).expect("a folder");
        let text = "MemTotal:  900 kB\nMemFree:  5 kB\nMemAvailable:  600 kB\n";
        fs::write(root.path().join("proc/meminfo"), text).expect("a file");
        assert_eq!(sampler.memory_used(), Some(Bytes(300 * 1_024)));
    }

    #[test]
    fn stalls_are_those_since_the_last_look() {
        let root = tempfile::tempdir().expect("a folder");
        machine(root.path(), 100, 10, 5);
        let mut sampler = PressureSampler::watch(root.path());
        machine(root.path(), 350, 15, 8);
        let us = Duration::from_micros;
        let expect = Pressure {
            cpu_some: us(250),
            memory_some: us(10),
            memory_full: us(5),
            disk_some: us(10),
            disk_full: us(5),
        };
        let page = rustix::param::page_size() as u64;
        assert_eq!(sampler.since_last(), (Some(expect), Some(Bytes(3 * page))));
        // A decreased counter is unknown, which differs from zero.
        machine(root.path(), 1, 15, 1);
        assert_eq!(sampler.since_last(), (None, None));
        machine(root.path(), 1, 15, 1);
        assert_eq!(
            sampler.since_last(),
            (Some(Pressure::default()), Some(Bytes(0)))
        );
    }

    #[test]
    fn a_kernel_that_does_not_tell_is_unknown() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(
            PressureSampler::watch(root.path()).since_last(),
            (None, None)
        );
    }
}
