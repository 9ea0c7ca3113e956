//! `ebb-gpu` with a mock of NVIDIA's library. It needs no driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// The helper and the mock, built once; an error says why this failed.
static BUILT: LazyLock<Result<(PathBuf, PathBuf), String>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let said = |command: &mut Command| {
        let done = command.output().map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    };
    let helper = said(&mut Command::new(root.join("scripts/build-gpu")))?;
    let mock = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libnvidia-ml-mock.so");
    let source = root.join("probe/tests/real/nvml_mock.c");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
    said(compile.arg(&mock).arg(source))?;
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
            "#!/bin/sh\nEBB_NVML_MOCK={} exec {} {}\n",
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
        Gpus::with_helper(self.program.clone(), None)
    }
}

/// Scans once a second, by a separate clock, until there is an answer.
fn next_look(gpus: &mut Gpus, second: &mut u64) -> (GpuSample, Duration) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(30) {
        *second += 1;
        std::thread::sleep(Duration::from_millis(300));
        if let Some(look) = gpus.scan(BootClock::from_nanos(*second * 1_000_000_000)) {
            return look;
        }
    }
    panic!("no answer: {gpus:?}");
}

pub(crate) fn each_gpu_tells_how_busy_it_was_and_for_whom() {
    let mock = Mock::set_up();
    mock.used_by(4_321);
    let (mut gpus, mut second) = (mock.gpus(), 0);
    let (look, _) = next_look(&mut gpus, &mut second);
    let [first, other] = look.devices.as_slice() else {
        panic!("{look:?}");
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
    assert_eq!(interval.busiest(), Some(Share::from_ppm(500_000)));
    assert_eq!(interval.gpus[0].model, "Mock GPU");
    assert_eq!(interval.gpus[0].processes, Some(1));
}

pub(crate) fn a_driver_that_hangs_is_asked_anew_and_counted() {
    let mock = Mock::set_up();
    let (mut gpus, mut second) = (mock.gpus(), 0);
    next_look(&mut gpus, &mut second);
    mock.used_by(-1);
    for _ in 0..4 {
        second += 1;
        gpus.scan(BootClock::from_nanos(second * 1_000_000_000));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(gpus.close().restarts > 0);
    mock.used_by(0);
    next_look(&mut gpus, &mut second);
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
    let told = collector.block_on(async {
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
    let (id, interval) = told;
    let step = interval.running.iter().find(|step| step.id.key == id);
    let gpu = step.expect("it runs").detail.gpu.expect("it uses one");
    assert_eq!((gpu.devices, gpu.peak_memory), (1, Some(Bytes::gib(20))));
    let busy = gpu.busy.expect("it is told").as_secs_f64();
    assert!(
        (busy - 0.4 * gpu.held.as_secs_f64()).abs() < 0.01,
        "{gpu:?}"
    );
    assert!(busy > 0.0);
    assert_eq!(interval.workload.gpu, Some(Share::from_ppm(500_000)));
    assert!(interval.coverage.gpu.is_some_and(|seen| seen > Share::NONE));
}
