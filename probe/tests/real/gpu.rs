//! `ebb-gpu` with a mock of NVIDIA's library, which needs no driver, and with a real GPU.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ebb_probe::cgroup::Hierarchy;
use ebb_probe::collector::Collector;
use ebb_probe::gpu::Gpus;
use ebb_probe::label_rules::Rules;
use ebb_telemetry::gpu_sample::GpuSample;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, Share};
use ebb_test_support::skip;

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink, SinkRecords};

/// The helper and the mock, built once; an error says why this failed.
static BUILT: LazyLock<Result<(PathBuf, PathBuf), String>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = |command: &mut Command| {
        let done = command.output().map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    };
    let helper = output(&mut Command::new(root.join("scripts/build-gpu")))?;
    let mock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnvidia-ml-mock.so");
    let source = root.join("probe/tests/real/nvml_mock.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
    output(compile.arg(&mock).arg(source))?;
    Ok((helper.into(), mock))
});

/// The mock with a file that lists the processes of its first GPU.
struct Mock {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Mock {
    fn set_up() -> Self {
        let (helper, mock) = BUILT.as_ref().unwrap_or_else(|reason| skip(reason));
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("ebb-gpu");
        let user = folder.path().join("user");
        let script = format!(
            "#!/bin/sh\nEBB_NVML_MOCK={} exec {} \"$1\" {}\n",
            user.display(),
            helper.display(),
            mock.display()
        );
        fs::write(&program, script).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).expect("its own file");
        let mock = Self { folder, program };
        mock.used_by(0);
        mock
    }

    fn used_by(&self, pid: i64) {
        let user = self.folder.path().join("user");
        let new = user.with_extension("new");
        fs::write(&new, pid.to_string()).expect("a file");
        fs::rename(new, user).expect("its own folder");
    }

    fn gpus(&self) -> Gpus {
        Gpus::with_helper(self.program.clone(), Duration::from_millis(100))
    }
}

/// Scans until there is a sample.
fn next_sample(gpus: &mut Gpus) -> GpuSample {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(300));
        if let Some(sample) = gpus.scan(BootClock::from_nanos(0)).pop() {
            return sample;
        }
    }
    panic!("no answer: {gpus:?}");
}

pub(crate) fn each_gpu_tells_how_busy_it_was_and_for_whom() {
    let mock = Mock::set_up();
    mock.used_by(4_321);
    let mut gpus = mock.gpus();
    let sample = next_sample(&mut gpus);
    assert!(sample.covers >= Duration::from_millis(100), "{sample:?}");
    let [first, other] = sample.devices.as_slice() else {
        panic!("{sample:?}");
    };
    assert_eq!(first.busy, Some(Share::from_ppm(500_000)));
    assert_eq!(first.memory_held, Some(Bytes::gib(30)));
    let process = first.processes.as_ref().expect("it tells")[0];
    assert_eq!((process.pid, process.memory), (4_321, Some(Bytes::gib(20))));
    assert_eq!(process.busy, Some(Share::from_ppm(400_000)));
    // The other GPU stores no samples, and is idle.
    assert_eq!(other.busy, Some(Share::NONE));
    assert_eq!(other.processes.as_deref(), Some(&[][..]));
    let interval = gpus.close();
    let busiest = interval.busiest().expect("it is told").as_f64();
    assert!((busiest - 0.5).abs() < 0.01, "{busiest}");
    assert_eq!(interval.gpus[0].model, "Mock GPU");
    assert_eq!(interval.gpus[0].processes, Some(1));
}

pub(crate) fn a_driver_that_hangs_is_asked_anew_and_counted() {
    let mock = Mock::set_up();
    let mut gpus = mock.gpus().restart_after(Duration::from_secs(1));
    next_sample(&mut gpus);
    mock.used_by(-1);
    for _ in 0..8 {
        gpus.scan(BootClock::from_nanos(0));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(gpus.close().restarts > 0);
    mock.used_by(0);
    next_sample(&mut gpus);
}

pub(crate) fn a_step_is_told_what_its_process_did_on_gpus() {
    needs_ebpf();
    let mock = Mock::set_up();
    let hierarchy = Hierarchy::find().expect("asked before");
    let period = Duration::from_secs(1);
    let collector = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let result = collector.block_on(async {
        let mut collector =
            Collector::start(hierarchy, Rules::built_in(), period).expect("it starts");
        collector.set_gpus(mock.gpus());
        let task = Task::new(None);
        let mut child = task.start("exec sleep 30");
        mock.used_by(child.id().into());
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            collector.scan().expect("a scan");
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let (interval, _) = collector.close();
        (task.id.clone(), interval)
    });
    let (id, interval) = result;
    let step = interval.running.iter().find(|step| step.id.key == id);
    let gpu = step.expect("it runs").detail.gpu.expect("it uses one");
    assert_eq!((gpu.devices, gpu.peak_memory), (1, Some(Bytes::gib(20))));
    let busy = gpu.busy.expect("it is told").as_secs_f64();
    assert!(
        (busy - 0.4 * gpu.held.as_secs_f64()).abs() < 0.01,
        "{gpu:?}"
    );
    assert!(busy > 0.0);
    let all = interval.workload.gpu.expect("it is told").as_f64();
    assert!((all - 0.5).abs() < 0.01, "{all}");
    assert!(
        interval
            .coverage
            .gpu
            .is_some_and(|share| share > Share::NONE)
    );
}

/// Starts a program that uses the GPU this share of the time, and holds 2 GiB of its memory.
fn load(task: &Task, percent: u32, seconds: u32) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/gpu_load.py");
    let script = std::env::var_os("GPU_LOAD").map_or(script, PathBuf::from);
    let command = format!("exec python3 {} {percent} {seconds} 2", script.display());
    task.start(&command)
}

/// Compares the GPU use of a task with its load; `most` is the largest error in seconds besides a
/// tenth.
fn check_load(records: &SinkRecords, task: &Task, percent: f64, seconds: f64, most: f64) {
    let step = records.ended.iter().find(|step| step.id.key == task.id);
    let gpu = step.expect("it ended").detail.gpu.expect("it uses one");
    let (held, busy) = (gpu.held.as_secs_f64(), gpu.busy.expect("known"));
    eprintln!(
        "{percent} % of {seconds} s: held {held:.1} s, busy {:.1} s, {:?}",
        busy.as_secs_f64(),
        gpu.peak_memory
    );
    // Its first and last sample count as whole; the start of the driver takes up to 5 seconds.
    assert!((seconds - 1.0..seconds + 9.0).contains(&held), "{held} s");
    let expect = percent / 100.0 * seconds;
    let error = (busy.as_secs_f64() - expect).abs();
    assert!(
        error < 0.1 * expect + most,
        "{busy:?} instead of {expect} s"
    );
    assert!(gpu.peak_memory >= Some(Bytes::gib(2)), "{gpu:?}");
}

pub(crate) fn tasks_on_a_real_gpu_are_told_their_part_of_it() {
    needs_ebpf();
    if !Path::new("/dev/nvidia0").exists() {
        skip("this machine has no NVIDIA GPU");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let helper = std::env::var_os("GPU_PROGRAM").map(PathBuf::from);
    let helper = helper.unwrap_or_else(|| match BUILT.as_ref() {
        Ok((helper, _)) => helper.clone(),
        Err(reason) => skip(reason),
    });
    fs::copy(helper, folder.path().join("ebb-gpu")).expect("built");
    fs::copy(crate::program(), folder.path().join("ebb-probe")).expect("built");
    let sink = Sink::new();
    let mut command = Command::new(folder.path().join("ebb-probe"));
    command.args(["run", "--interval", "10", "--sink"]);
    command.arg(sink.folder());
    let probe = Probe::spawn(command);
    // One after another: a steady load, one that is shorter than a scan, and one that holds memory.
    let alone = [(50, 25), (100, 3), (0, 12)].map(|(percent, seconds)| {
        let task = Task::new(None);
        let ended = load(&task, percent, seconds).wait().expect("it ends");
        assert!(ended.success(), "the load failed");
        (task, percent, seconds)
    });
    let (idle, busy) = (Task::new(None), Task::new(None));
    let mut loads = [load(&idle, 0, 20), load(&busy, 80, 20)];
    for load in &mut loads {
        assert!(load.wait().expect("it ends").success());
    }
    std::thread::sleep(Duration::from_secs(21));
    probe.stop();
    let records = sink.read();
    for (task, percent, seconds) in &alone {
        check_load(
            &records,
            task,
            f64::from(*percent),
            f64::from(*seconds),
            0.3,
        );
    }
    // The driver confuses processes in the first second of both.
    check_load(&records, &idle, 0.0, 20.0, 1.0);
    check_load(&records, &busy, 80.0, 20.0, 1.0);
    let cpu: u64 = records.heartbeats.iter().map(|one| one.probe.cpu.0).sum();
    let time = records
        .heartbeats
        .iter()
        .filter_map(|one| one.end.since(one.start));
    let time: Duration = time.sum();
    let share = cpu as f64 / time.as_nanos() as f64;
    let resident = records.heartbeats.last().and_then(|one| one.probe.resident);
    eprintln!(
        "the probe and ebb-gpu: {:.3} % of a core, {resident:?}",
        100.0 * share
    );
    assert!(share < 0.01, "{share}");
}
