//! Real pipelines of workflow engines under the probe: what names the tasks, and what does not.
//! Cromwell and Airflow are stand-ins: processes with the arguments or the title that these engines
//! give to theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ebb_telemetry::step::{StepEnd, StepKind, StepUsage};
use ebb_test_support::skip;
use tempfile::TempDir;

use crate::SECOND;
use crate::containers::RUNTIME;
use crate::machine::{Task, needs_ebpf};
use crate::probe::Sink;
use crate::snakemake::{installed, label, run, start_probe};

/// Uses a core for a second.
const BUSY: &str = "timeout 1 sh -c 'while :; do :; done' || true";

/// Uses so much CPU time, however busy the machine is.
const BURN: &str = "import time\nwhile time.process_time() < 1.5: pass";

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn write(folder: &TempDir, name: &str, text: &str) {
    fs::write(folder.path().join(name), text).expect("a file");
}

/// A program of the engines, or the end of the test with the reason.
fn engine(program: &str, folder: &TempDir) -> Command {
    installed("venv-engines", program, folder.path()).unwrap_or_else(|reason| skip(reason))
}

/// The tasks that ended while `work` ran, and its result.
fn observe<T>(work: impl FnOnce() -> T) -> (Vec<StepUsage>, T) {
    let sink = Sink::new();
    let (probe, _) = start_probe(&sink);
    let done = work();
    std::thread::sleep(3 * SECOND);
    probe.stop();
    (sink.read().ended, done)
}

/// Names of the tasks whose step begins with `prefix`, sorted. Other tests run at the same time.
fn names(ended: &[StepUsage], prefix: &str) -> Vec<String> {
    let keys = ["step", "task", "attempt", "run", "pipeline"];
    let named = ended
        .iter()
        .filter(|task| label(task, "step").is_some_and(|step| step.starts_with(prefix)));
    let mut names: Vec<String> = named
        .map(|task| keys.map(|key| label(task, key).unwrap_or("-")).join("|"))
        .collect();
    names.sort();
    names
}

/// One step uses a core, the other holds 150 MB.
const CWL: &str = r#"{
  "cwlVersion": "v1.2", "class": "Workflow", "inputs": {},
  "outputs": {"held": {"type": "File", "outputSource": "hold/out"}},
  "steps": {
    "burn": {"in": {}, "out": ["out"], "run": {
      "class": "CommandLineTool", "inputs": {}, "stdout": "burnt", "outputs": {"out": "stdout"},
      "baseCommand": ["python3", "-c", "BURN"]}},
    "hold": {"in": {"file": "burn/out"}, "out": ["out"], "run": {
      "class": "CommandLineTool", "inputs": {"file": "File"}, "stdout": "held",
      "outputs": {"out": "stdout"},
      "baseCommand": ["python3", "-c", "import time; x = b'x' * 150_000_000; time.sleep(2)"]}}
  }
}"#;

pub(crate) fn a_step_of_cwltool_is_a_task_of_its_run_without_a_name() {
    needs_ebpf();
    let folder = folder();
    let mut command = engine("cwltool", &folder);
    write(
        &folder,
        "flow.cwl",
        &CWL.replace("BURN", &BURN.replace('\n', "\\n")),
    );
    command.args(["--outdir", "out", "flow.cwl"]);
    let (ended, pid) = observe(|| run(&mut command));
    let of_run = |task: &&StepUsage| {
        let run = task.detail.run.as_ref();
        run.is_some_and(|run| run.launcher == "cwltool" && run.key.starts_with(&format!("{pid}@")))
    };
    let tasks: Vec<&StepUsage> = ended.iter().filter(of_run).collect();
    let [burn, hold] = tasks[..] else {
        panic!("two tasks: {tasks:#?}")
    };
    for task in [burn, hold] {
        assert_eq!(task.end, StepEnd::Exited(0));
        assert_eq!(label(task, "step"), None, "no argument contains the step");
    }
    let cpu = burn.cpu.as_secs_f64();
    assert!((1.4..2.0).contains(&cpu), "{cpu} s of CPU");
    let memory = hold.peak_memory.expect("sampled").bytes.0;
    assert!((150_000_000..250_000_000).contains(&memory), "{memory}");
}

const TOIL: &str = r#"
from toil.common import Toil
from toil.job import Job
import subprocess
BURN = """BURN_TEXT"""
SIZE = dict(cores=1, memory="100M", disk="1M")
def toil_align(job, sample):
    subprocess.check_call(["python3", "-c", BURN])
def toil_merge(job):
    subprocess.check_call(["sleep", "2"])
def toil_start(job):
    for sample in "AB":
        job.addChildJobFn(toil_align, sample, **SIZE)
    job.addFollowOnJobFn(toil_merge, **SIZE)
    subprocess.check_call(["sleep", "2"])
if __name__ == "__main__":
    with Toil(Job.Runner.getDefaultArgumentParser().parse_args()) as toil:
        toil.start(Job.wrapJobFn(toil_start, **SIZE))
"#;

pub(crate) fn a_worker_of_toil_is_a_task_with_the_name_of_its_function() {
    needs_ebpf();
    let folder = folder();
    let mut command = engine("python", &folder);
    write(&folder, "flow.py", &TOIL.replace("BURN_TEXT", BURN));
    command.args(["flow.py", "--batchSystem", "single_machine", "./store"]);
    let (ended, _) = observe(|| run(&mut command));
    let expect = ["toil_align", "toil_align", "toil_merge", "toil_start"];
    let expect = expect.map(|step| format!("{step}|-|-|-|-"));
    assert_eq!(names(&ended, "toil_"), expect);
    for task in ended.iter().filter(|task| task.step_name() == "toil_align") {
        let cpu = task.cpu.as_secs_f64();
        assert!(
            cpu > 1.4,
            "{cpu} s of CPU: the task has what its function starts"
        );
        assert_eq!(task.end, StepEnd::Exited(0));
    }
}

const DASK: &str = r#"
import time
from dask.distributed import Client, LocalCluster
def ebb_burn(n):
    end = time.process_time() + 1
    while time.process_time() < end: pass
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            client.gather(client.map(ebb_burn, range(2)))
"#;

pub(crate) fn a_worker_of_dask_is_one_task_for_all_functions() {
    needs_ebpf();
    let folder = folder();
    let command = engine("python", &folder);
    write(&folder, "flow.py", DASK);
    let python = command.get_program().to_string_lossy().into_owned();
    let at = folder.path().display().to_string();
    let task = Task::new(None);
    let (ended, ()) = observe(|| {
        let done = task
            .start(&format!("cd {at} && exec {python} flow.py"))
            .wait();
        assert!(done.expect("it ends").success());
    });
    let ended = ended.iter().find(|step| step.id.key == task.id);
    let ended = ended.expect("the container is a task");
    assert!(ended.detail.scheduler_labels.is_none(), "{ended:#?}");
    let cpu = ended.cpu.as_secs_f64();
    assert!(cpu > 2.0, "{cpu} s of CPU");
}

const WDL: &str = r#"
version 1.0
workflow reads {
  scatter (sample in ["A", "B"]) { call wdl_align { input: sample = sample } }
  call wdl_merge { input: counts = wdl_align.count }
}
task wdl_align {
  input { String sample }
  command { BUSY; sleep 2; echo 1 }
  output { Int count = read_int(stdout()) }
  runtime { docker: "ebb-test:1" }
}
task wdl_merge {
  input { Array[Int] counts }
  command { sleep 3; echo 2 }
  output { Int count = read_int(stdout()) }
  runtime { docker: "ebb-test:1" }
}
"#;

/// A program `pod` that runs Podman with its data in `folder`, and the image `ebb-test:1` of a static
/// busybox; the reason if that is not possible here.
fn podman(folder: &Path) -> Result<(), String> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let found = |name: &str| {
        std::env::split_paths(&path)
            .map(|at| at.join(name))
            .find(|at| at.exists())
    };
    for name in ["podman", "runc", "busybox"] {
        found(name).ok_or(format!("no {name}"))?;
    }
    let at = folder.display();
    let pod = format!(
        "#!/bin/sh\n[ \"$1\" = pull ] && exit 0\n\
         [ \"$1\" = run ] && shift && set -- run --network none \"$@\"\n\
         exec podman --root {at}/store --runroot {at}/run --cgroup-manager cgroupfs \
         --runtime {at}/runtime \"$@\"\n"
    );
    for (name, text) in [("pod", pod.as_str()), ("runtime", RUNTIME)] {
        fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.join(name), mode).map_err(|error| error.to_string())?;
    }
    let image = "set -e; mkdir -p root/bin root/tmp; cp $(command -v busybox) root/bin/busybox\n\
                 for name in sh sleep timeout; do ln -s busybox root/bin/$name; done\n\
                 tar c -C root . | ./pod import - ebb-test:1\n\
                 timeout 30 ./pod run --rm ebb-test:1 /bin/sh -c true";
    let made = Command::new("sh")
        .args(["-c", image])
        .current_dir(folder)
        .output();
    let made = made.map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&made.stderr);
    match made.status.success() {
        true => Ok(()),
        false => Err(format!("Podman runs no container here: {stderr}")),
    }
}

pub(crate) fn a_container_of_miniwdl_has_the_name_of_its_task() {
    needs_ebpf();
    // Podman wants a short path.
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = engine("miniwdl", &folder);
    if let Err(reason) = podman(folder.path()) {
        skip(reason);
    }
    let at = folder.path().display();
    let settings = format!(
        "[scheduler]\ncontainer_backend = podman\n[podman]\nexe = [\"{at}/pod\"]\n\
         [task_runtime]\ncommand_shell = /bin/sh\n[file_io]\nchown = false\n"
    );
    write(&folder, "miniwdl.cfg", &settings);
    write(&folder, "flow.wdl", &WDL.replace("BUSY", BUSY));
    fs::create_dir(folder.path().join("runs")).expect("a folder");
    command.args(["run", "flow.wdl", "--cfg", "miniwdl.cfg", "--dir", "runs"]);
    let (ended, _) = observe(|| run(&mut command));
    // `umount` of what Podman leaves mounted for its storage.
    let _ = Command::new("umount")
        .arg(folder.path().join("store/overlay"))
        .output();
    let runs = fs::read_dir(folder.path().join("runs")).expect("a run");
    let mut runs = runs
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let run = runs.find(|name| name.ends_with("_reads")).expect("a run");
    let expect = [
        format!("wdl_align|part=0|1|{run}|reads"),
        format!("wdl_align|part=1|1|{run}|reads"),
        format!("wdl_merge|-|1|{run}|reads"),
    ];
    assert_eq!(names(&ended, "wdl_"), expect);
    let is_named = |task: &&StepUsage| label(task, "step").is_some_and(|s| s.starts_with("wdl_"));
    for task in ended.iter().filter(is_named) {
        assert_eq!(task.id.kind, StepKind::Container);
    }
}

const SNAKEFILE: &str = r#"
rule all:
    input: "far/A", "far/B", "near/A"
rule ebb7_far:
    output: "far/{sample}"
    shell: "sleep 1; touch {output}"
rule ebb7_near:
    output: "near/{sample}"
    run:
        shell("sleep 1; touch {output}")
localrules: ebb7_near
"#;

pub(crate) fn jobs_of_snakemake_7_have_names_and_one_run() {
    needs_ebpf();
    let folder = folder();
    let command = installed("venv-snakemake7", "snakemake", folder.path());
    let mut command = command.unwrap_or_else(|reason| skip(reason));
    write(&folder, "Snakefile", SNAKEFILE);
    // A scheduler without cgroups: `setsid` starts the job outside of the workflow's tree.
    write(
        &folder,
        "submit",
        "setsid -f sh \"$1\" >\"$1.log\" 2>&1\necho 1\n",
    );
    let submit = format!("sh {}/submit", folder.path().display());
    command.args(["--jobs", "2", "--latency-wait", "30", "--cluster", &submit]);
    let (ended, _) = observe(|| run(&mut command));
    let far = ended.iter().find(|task| task.step_name() == "ebb7_far");
    let run = far.and_then(|task| label(task, "run"));
    let run = run.expect("the jobs have a run");
    assert!(run.starts_with("snakemake "), "{run}");
    let expect = [
        format!("ebb7_far|sample=A|1|{run}|-"),
        format!("ebb7_far|sample=B|1|{run}|-"),
        "ebb7_near|sample=A|1|-|-".to_owned(),
    ];
    assert_eq!(names(&ended, "ebb7_"), expect);
}

/// A stand-in: the processes that the local backend of Cromwell starts, without Cromwell.
pub(crate) fn a_script_of_cromwell_is_a_task_with_the_name_of_its_folder() {
    needs_ebpf();
    let folder = folder();
    let id = "7f1c2d3e-0000-4abc-8def-0123456789ab";
    let call = folder.path().join(format!(
        "rna/{id}/call-ebb_sort/shard-3/attempt-2/execution"
    ));
    fs::create_dir_all(&call).expect("a folder");
    let script = call.join("script");
    fs::write(&script, format!("python3 -c '{BURN}'\nsleep 2\n")).expect("a file");
    let background = format!("/bin/bash {} &\nwait\n", script.display());
    fs::write(call.join("script.background"), background).expect("a file");
    let mut command = Command::new("/bin/bash");
    command.arg(call.join("script.background"));
    let (ended, _) = observe(|| run(&mut command));
    let expect = format!("ebb_sort|shard=3|2|{id}|rna");
    assert_eq!(names(&ended, "ebb_sort"), [expect]);
    let task = ended.iter().find(|task| task.step_name() == "ebb_sort");
    let cpu = task.expect("found before").cpu.as_secs_f64();
    assert!(cpu > 1.4, "{cpu} s of CPU");
}

/// A stand-in: a process that sets the title of Airflow's task runner after its start, as Airflow does
/// after a fork. Perl sets it by the same system calls.
pub(crate) fn a_title_of_airflow_makes_a_process_a_task() {
    needs_ebpf();
    if Command::new("perl").arg("-v").output().is_err() {
        skip("no perl");
    }
    // It works, because the probe leaves out scans while nothing does.
    let work = "my $end = time + 3; 1 while time < $end; exit 0";
    let runner = format!("$0 = 'airflow task runner: nightly ebb_load manual__1 12'; {work}");
    let script = format!("if (fork == 0) {{ sleep 1; {runner} }} wait");
    let mut command = Command::new("perl");
    command.args(["-e", &script]);
    let (ended, _) = observe(|| run(&mut command));
    let expect = "ebb_load|-|-|nightly manual__1|nightly";
    assert_eq!(names(&ended, "ebb_load"), [expect]);
}
