//! AMD GPUs. The driver (`amdgpu`) provides each device in sysfs, and each process that has a
//! device open in procfs. This needs no library and cannot hang.
//!
//! Source: Linux, `Documentation/gpu/amdgpu/thermal.rst` (`gpu_busy_percent`),
//! `Documentation/gpu/amdgpu/driver-misc.rst` (`mem_info_vram_*`, `product_name`), and
//! `Documentation/gpu/drm-usage-stats.rst` (`drm-*` in `/proc/PID/fdinfo`). Not tested on a machine
//! with such a GPU yet.

mod client;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebb_telemetry::gpu_sample::{GpuDevice, GpuProcess, GpuSample};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, Share};

use self::client::{Client, ClientId, Engines};
use crate::kernel_file;

/// The PCI vendor id of AMD.
const VENDOR: &str = "0x1002";

/// Maximum number of open files that are checked for a device. On a node with more open files, no
/// processes are reported.
const MOST_FILES: usize = 50_000;

/// Reads sysfs and procfs.
#[derive(Debug)]
pub(super) struct Amd {
    sys: PathBuf,
    proc: PathBuf,
    /// The engine time of each client at the previous sample.
    before: HashMap<ClientId, Engines>,
    last: Option<BootClock>,
}

/// One device.
struct Card {
    number: u32,
    folder: PathBuf,
    /// Its PCI address, such as `0000:03:00.0`.
    address: String,
}

impl Amd {
    /// `None` if there is no device.
    pub(super) fn find(sys: impl Into<PathBuf>, proc: impl Into<PathBuf>) -> Option<Self> {
        let amd = Self {
            sys: sys.into(),
            proc: proc.into(),
            before: HashMap::new(),
            last: None,
        };
        (!amd.cards().is_empty()).then_some(amd)
    }

    /// The use of all devices since the previous sample.
    pub(super) fn sample(&mut self, at: BootClock) -> GpuSample {
        let since = self.last.replace(at).and_then(|last| at.since(last));
        let clients = self.clients();
        let mut by_card: BTreeMap<String, BTreeMap<u32, GpuProcess>> = BTreeMap::new();
        let mut now = HashMap::new();
        for (pid, mut client) in clients.iter().flatten().cloned() {
            let before = self.before.remove(&client.id).unwrap_or_default();
            client.not_less_than(&before);
            let process = GpuProcess {
                pid,
                memory: client.memory,
                busy: busy(&client, &before, since),
                has_ended: false,
            };
            let of_card = by_card.entry(client.id.card.clone()).or_default();
            of_card
                .entry(pid)
                .and_modify(|sum| *sum = both(sum, &process))
                .or_insert(process);
            now.insert(client.id, client.engines);
        }
        self.before = now;
        let tell = |card: &Card| {
            let processes = clients.as_ref().map(|_| {
                let of_card = by_card.remove(&card.address).unwrap_or_default();
                of_card.into_values().collect()
            });
            gpu_device(card, processes)
        };
        GpuSample {
            covers: since.unwrap_or_default(),
            devices: self.cards().iter().map(tell).collect(),
        }
    }

    fn cards(&self) -> Vec<Card> {
        let listed = fs::read_dir(self.sys.join("class/drm"));
        let card = |entry: fs::DirEntry| {
            // `card0-DP-1` is a connector of the card.
            let number = entry.file_name().to_str()?.strip_prefix("card")?.parse();
            let folder = entry.path().join("device");
            let address = fs::canonicalize(&folder).ok()?;
            (text(&folder.join("vendor"))? == VENDOR).then_some(Card {
                number: number.ok()?,
                folder,
                address: address.file_name()?.to_str()?.to_owned(),
            })
        };
        let listed = listed.into_iter().flatten().flatten();
        let mut cards: Vec<Card> = listed.filter_map(card).collect();
        cards.sort_by_key(|card| card.number);
        cards
    }

    /// Each open file description of a device, once; `None` if some processes could not be read.
    fn clients(&self) -> Option<Vec<(u32, Client)>> {
        let mut pids: Vec<u32> = fs::read_dir(&self.proc)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        // A parent comes before its children, which can share its open file description.
        pids.sort_unstable();
        let (mut room, mut seen, mut clients) = (MOST_FILES, BTreeSet::new(), Vec::new());
        for pid in pids {
            let process = self.proc.join(pid.to_string());
            let files = match fs::read_dir(process.join("fd")) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
                // The process has ended.
                Err(_) => continue,
            };
            for file in files.flatten() {
                room = room.checked_sub(1)?;
                if !fs::read_link(file.path()).is_ok_and(|to| to.starts_with("/dev/dri")) {
                    continue;
                }
                let info = kernel_file::read(process.join("fdinfo").join(file.file_name()));
                let client = info.ok().and_then(|info| Client::parse(&info));
                clients.extend(
                    client
                        .filter(|client| seen.insert(client.id.clone()))
                        .map(|client| (pid, client)),
                );
            }
        }
        Some(clients)
    }
}

fn text(path: &Path) -> Option<String> {
    Some(kernel_file::read(path).ok()?.trim().to_owned())
}

/// Builds a device. The driver reports the present utilization of the device, and the engine time
/// of each process since the previous sample. The device was busy at least for the latter.
fn gpu_device(card: &Card, processes: Option<Vec<GpuProcess>>) -> GpuDevice {
    let file = |name: &str| text(&card.folder.join(name));
    let bytes = |name: &str| file(name)?.parse().ok().map(Bytes);
    let percent = file("gpu_busy_percent").and_then(|text| text.parse::<u32>().ok());
    let of_processes = processes
        .iter()
        .flatten()
        .filter_map(|process| process.busy);
    let least = of_processes.fold(0, |sum, busy| sum + u64::from(busy.ppm()));
    let least = u32::try_from(least)
        .unwrap_or(u32::MAX)
        .min(Share::ALL.ppm());
    let model = file("product_name").filter(|name| !name.is_empty());
    GpuDevice {
        number: card.number,
        model: model.unwrap_or_else(|| format!("AMD {}", file("device").unwrap_or_default())),
        busy: percent.map(|now| Share::from_ppm((now.min(100) * 10_000).max(least))),
        memory_held: bytes("mem_info_vram_used"),
        memory: bytes("mem_info_vram_total"),
        processes,
    }
}

/// The share of the time since the previous sample in which the busiest engine worked for a client;
/// zero at the first sample. `None` if the client has no engines, because the queues of the compute
/// driver (ROCm) are not counted there.
fn busy(client: &Client, before: &Engines, since: Option<Duration>) -> Option<Share> {
    let more = |(name, now): (&String, &u64)| now - before.get(name).unwrap_or(&0).min(now);
    let longest = client.engines.iter().map(more).max()?;
    let Some(since) = since else {
        return Some(Share::NONE);
    };
    let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    Share::from_parts(longest.min(since), since)
}

fn both(a: &GpuProcess, b: &GpuProcess) -> GpuProcess {
    let busy = a.busy.zip(b.busy).map(|(a, b)| {
        let sum = a.ppm().saturating_add(b.ppm());
        Share::from_ppm(sum.min(Share::ALL.ppm()))
    });
    GpuProcess {
        pid: a.pid,
        memory: a.memory.zip(b.memory).map(|(a, b)| a.saturating_add(b)),
        busy,
        has_ended: false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// MADE UP from the kernel's documentation: the files of a machine, not copied from a real one.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().expect("a folder"));
            machine.device("card0", "0000:00:02.0", "0x1af4");
            machine.device("card1", "0000:03:00.0", VENDOR);
            fs::create_dir_all(machine.path("sys/class/drm/card1-DP-1")).expect("a folder");
            fs::create_dir_all(machine.path("proc/self")).expect("a folder");
            machine
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn device(&self, card: &str, address: &str, vendor: &str) {
            let device = self.path("sys/devices/pci0000:00").join(address);
            fs::create_dir_all(&device).expect("a folder");
            fs::write(device.join("vendor"), format!("{vendor}\n")).expect("a file");
            let card = self.path("sys/class/drm").join(card);
            fs::create_dir_all(&card).expect("a folder");
            symlink(device, card.join("device")).expect("a link");
        }

        fn says(&self, name: &str, text: &str) {
            let folder = self.path("sys/devices/pci0000:00/0000:03:00.0");
            fs::write(folder.join(name), text).expect("a file");
        }

        fn opens(&self, pid: u32, fd: u32, file: &str, info: &str) {
            let process = self.path("proc").join(pid.to_string());
            for name in ["fd", "fdinfo"] {
                fs::create_dir_all(process.join(name)).expect("a folder");
            }
            let link = process.join("fd").join(fd.to_string());
            let _ = fs::remove_file(&link);
            symlink(file, link).expect("a link");
            fs::write(process.join("fdinfo").join(fd.to_string()), info).expect("a file");
        }

        fn amd(&self) -> Option<Amd> {
            Amd::find(self.path("sys"), self.path("proc"))
        }
    }

    fn info(client: u32, engines: &str) -> String {
        let head = "pos:\t0\npasid:\t32771\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\n";
        format!("{head}drm-client-id:\t{client}\ndrm-memory-vram:\t2048 KiB\n{engines}")
    }

    fn at(seconds: u64) -> BootClock {
        BootClock::from_nanos(seconds * 1_000_000_000)
    }

    const DRI: &str = "/dev/dri/renderD128";

    #[test]
    fn a_device_tells_how_busy_it_is_and_what_it_holds() {
        let machine = Machine::new();
        let check = |files: &[(&str, &str)], busy: Option<u32>, held: Option<u64>, model: &str| {
            for (name, text) in files {
                machine.says(name, text);
            }
            let sample = machine.amd().expect("a device").sample(at(1));
            let [device] = sample.devices.as_slice() else {
                panic!("{sample:?}");
            };
            assert_eq!(device.number, 1);
            assert_eq!(device.busy, busy.map(Share::from_ppm), "{files:?}");
            assert_eq!(device.memory_held, held.map(Bytes), "{files:?}");
            assert_eq!(device.model, model);
            assert_eq!(device.processes.as_deref(), Some(&[][..]));
        };
        check(&[("device", "0x740f\n")], None, None, "AMD 0x740f");
        let used = ("mem_info_vram_used", "1048576\n");
        check(
            &[("gpu_busy_percent", "37\n"), used],
            Some(370_000),
            Some(1 << 20),
            "AMD 0x740f",
        );
        check(
            &[
                ("gpu_busy_percent", "400\n"),
                ("product_name", "AMD Instinct MI210\n"),
            ],
            Some(1_000_000),
            Some(1 << 20),
            "AMD Instinct MI210",
        );
        check(
            &[("gpu_busy_percent", "nonsense")],
            None,
            Some(1 << 20),
            "AMD Instinct MI210",
        );
    }

    #[test]
    fn a_machine_without_such_a_device_is_not_asked() {
        let machine = Machine::new();
        fs::remove_dir_all(machine.path("sys/class/drm/card1")).expect("removed");
        assert!(machine.amd().is_none());
        assert!(Amd::find("/nowhere", "/nowhere").is_none());
    }

    #[test]
    fn a_process_was_busy_as_long_as_its_busiest_engine_since_the_last_look() {
        let machine = Machine::new();
        machine.says("gpu_busy_percent", "5");
        machine.opens(7, 3, "/dev/null", "");
        machine.opens(7, 4, DRI, &info(1, "drm-engine-gfx:\t5000000000 ns\n"));
        machine.opens(7, 5, DRI, "drm-driver:\ti915\ndrm-client-id:\t9\n");
        let mut amd = machine.amd().expect("a device");
        let mut sample_at = |second: u64| {
            let mut sample = amd.sample(at(second));
            let device = sample.devices.remove(0);
            let processes = device.processes.expect("all could be asked");
            let rows = processes.iter().map(|process| {
                let memory = process.memory.map(|bytes| bytes.0 >> 20);
                (process.pid, process.busy.map(Share::ppm), memory)
            });
            (device.busy.map(Share::ppm), rows.collect::<Vec<_>>())
        };
        // Engine time before the first sample is not counted.
        assert_eq!(sample_at(10), (Some(50_000), vec![(7, Some(0), Some(2))]));
        let engines = "drm-engine-gfx:\t5100000000 ns\ndrm-engine-compute:\t4000000000 ns\ndrm-engine-capacity-gfx:\t9\n";
        machine.opens(7, 4, DRI, &info(1, engines));
        // A child that shares an open file description, and a child with a new one.
        machine.opens(8, 4, DRI, &info(1, engines));
        machine.opens(9, 4, DRI, &info(2, "drm-engine-compute:\t1000000000 ns\n"));
        let (busy, processes) = sample_at(20);
        assert_eq!(busy, Some(500_000));
        assert_eq!(
            processes,
            vec![(7, Some(400_000), Some(2)), (9, Some(100_000), Some(2))]
        );
        // Counters can go back for a while, and no counter includes the ROCm queues.
        machine.opens(7, 4, DRI, &info(1, "drm-engine-compute:\t3000000000 ns\n"));
        machine.opens(9, 4, DRI, &info(3, ""));
        let (_, processes) = sample_at(30);
        assert_eq!(processes, vec![(7, Some(0), Some(2)), (9, None, Some(2))]);
        // Both open file descriptions of a process count.
        machine.opens(7, 6, DRI, &info(4, "drm-engine-gfx:\t2000000000 ns\n"));
        machine.opens(7, 4, DRI, &info(1, "drm-engine-compute:\t5000000000 ns\n"));
        let (_, processes) = sample_at(40);
        assert_eq!(processes[0], (7, Some(300_000), Some(4)));
    }
}
