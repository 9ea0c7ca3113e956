//! Hardware of the machine, from sysfs and procfs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

use ebb_telemetry::heartbeat::Hardware;
use ebb_telemetry::units::{Bytes, MilliCores};

use super::{NodeError, text};
use crate::kernel_file;

/// The file with the CPUs that are online.
pub(crate) const PROCESSORS: &str = "/sys/devices/system/cpu/online";

/// Reads the hardware; CPUs, memory and devices can change on some machines.
pub(super) fn hardware(devices: &mut Devices) -> Result<Hardware, NodeError> {
    Ok(Hardware {
        cores: MilliCores::cores(read(PROCESSORS, processors)?.into()),
        memory: Bytes(read("/proc/meminfo", memory_total)?),
        gpus: devices.gpus(Path::new("/sys/bus")),
    })
}

fn read<T>(path: &'static str, parse: fn(&str) -> Option<T>) -> Result<T, NodeError> {
    let content = text(path)?;
    parse(&content).ok_or_else(|| NodeError::Content {
        path,
        content: content.chars().take(80).collect(),
    })
}

/// Number of CPUs in a list such as `0-3,6`.
pub(crate) fn processors(text: &str) -> Option<u32> {
    text.trim()
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first).map(|more| more + 1)
        })
        .sum()
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The devices on the PCI bus, and whether each is a GPU, which is determined once. The key is the
/// address and the inode of the entry; a later device has another inode.
#[derive(Debug, Default)]
pub(super) struct Devices(BTreeMap<(OsString, u64), bool>);

impl Devices {
    /// Number of GPUs and accelerators: 0 without a PCI bus, `None` if the buses could not be
    /// listed.
    fn gpus(&mut self, buses: &Path) -> Option<u32> {
        fs::read_dir(buses).ok()?;
        let devices = buses.join("pci/devices");
        if !devices.exists() {
            return Some(0);
        }
        let known = std::mem::take(&mut self.0);
        for device in fs::read_dir(devices).ok()? {
            let device = device.ok()?;
            let key = (device.file_name(), device.ino());
            let number = |name: &str| {
                let value = kernel_file::read(device.path().join(name)).ok()?;
                u32::from_str_radix(value.trim().strip_prefix("0x")?, 16).ok()
            };
            let inspect = || Some(is_gpu(number("class")?, number("vendor")?));
            let is_gpu = known.get(&key).copied().or_else(inspect)?;
            self.0.insert(key, is_gpu);
        }
        let count = self.0.values().filter(|is_gpu| **is_gpu).count();
        u32::try_from(count).ok()
    }
}

/// A 3D controller or an accelerator is a GPU. A display controller is a GPU only if its vendor
/// makes GPUs, because every virtual machine has a display controller.
///
/// Source: PCI Code and ID Assignment, base classes 03h and 12h; the PCI ID
/// repository for the vendors.
fn is_gpu(class: u32, vendor: u32) -> bool {
    const SCREEN: u32 = 0x0300;
    const CONTROLLER_3D: u32 = 0x0302;
    const ACCELERATOR: u32 = 0x1200;
    const NVIDIA: u32 = 0x10de;
    const AMD: u32 = 0x1002;
    match class >> 8 {
        CONTROLLER_3D | ACCELERATOR => true,
        SCREEN => matches!(vendor, NVIDIA | AMD),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_by_range() {
        let check = |text: &str, expect: Option<u32>| {
            assert_eq!(processors(text), expect, "{text}");
        };
        check("0", Some(1));
        check("0-1", Some(2));
        check("0-3,6,8-9", Some(7));
        check("", None);
        check("3-1", None);
    }

    #[test]
    fn memory_is_all_of_it() {
        assert_eq!(
            memory_total("MemTotal:       1024 kB\nMemFree: 1 kB"),
            Some(1 << 20)
        );
        assert_eq!(memory_total("MemFree: 1 kB"), None);
    }

    #[test]
    fn a_gpu_is_what_computes_and_not_a_virtual_screen() {
        let check = |devices: &[(&str, &str)], expect: Option<u32>| {
            let buses = tempfile::tempdir().expect("a folder");
            for (n, (class, vendor)) in devices.iter().enumerate() {
                let device = buses.path().join(format!("pci/devices/{n}"));
                fs::create_dir_all(&device).expect("a folder");
                fs::write(device.join("class"), class).expect("a file");
                fs::write(device.join("vendor"), vendor).expect("a file");
            }
            let mut devices_of = Devices::default();
            assert_eq!(devices_of.gpus(buses.path()), expect, "{devices:?}");
            assert_eq!(devices_of.gpus(buses.path()), expect, "once more");
        };
        check(&[], Some(0));
        check(
            &[("0x020000\n", "0x1d0f\n"), ("0x030000\n", "0x1d0f\n")],
            Some(0),
        );
        check(
            &[("0x030200\n", "0x10de\n"), ("0x030000\n", "0x10de\n")],
            Some(2),
        );
        check(&[("0x120000\n", "0x1002\n")], Some(1));
        check(&[("garbage", "0x10de\n")], None);
        assert_eq!(Devices::default().gpus(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn a_device_that_comes_or_goes_is_seen() {
        let buses = tempfile::tempdir().expect("a folder");
        let mut devices = Devices::default();
        let mut check = |numbers: &[u32], expect: u32| {
            let _ = fs::remove_dir_all(buses.path().join("pci"));
            for number in numbers {
                let device = buses.path().join(format!("pci/devices/{number}"));
                fs::create_dir_all(&device).expect("a folder");
                fs::write(device.join("class"), "0x030200\n").expect("a file");
                fs::write(device.join("vendor"), "0x10de\n").expect("a file");
            }
            assert_eq!(devices.gpus(buses.path()), Some(expect), "{numbers:?}");
        };
        check(&[1], 1);
        check(&[1, 2], 2);
        check(&[2], 1);
        check(&[], 0);
        check(&[3, 4, 5], 3);
    }
}
