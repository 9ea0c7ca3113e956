//! A stand-in for Nextflow under the probe. Nextflow itself cannot be installed here. The stand-in
//! starts real processes with the arguments, folders and files that each executor of Nextflow makes,
//! after its source (`LocalTaskHandler`, `BashWrapperBuilder`, `DockerBuilder`,
//! `AwsBatchTaskHandler`, `FusionScriptLauncher`). Each container is the cgroup of an ECS task.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use ebb_telemetry::step::{StepKind, StepUsage};
use tempfile::TempDir;

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink};
use crate::{SECOND, program};

/// The version of Nextflow, which determines the header.
#[derive(Clone, Copy)]
enum Version {
    /// 0.16.2 to 24.03.
    Old,
    /// 24.04 and later.
    New,
}

/// Whether Nextflow measures the task, because a trace or a report is enabled.
#[derive(Clone, Copy)]
enum Tracing {
    On,
    Off,
}

/// The work folder of one task.
struct Work {
    folder: PathBuf,
    key: String,
}

impl Work {
    /// Writes the scripts of a task below `root`; `n` numbers the tasks.
    fn new(root: &Path, n: u8, name: &str, (version, tracing): (Version, Tracing)) -> Self {
        let key = format!("a{:x}/{}{n:02x}", n % 16, "cdef".repeat(7));
        let folder = root.join("work").join(&key);
        fs::create_dir_all(&folder).expect("a folder");
        let header = match version {
            Version::Old => format!("# NEXTFLOW TASK: {name}"),
            Version::New => {
                format!("### ---\n### name: '{name}'\n### container: 'bwa:0.7.17'\n### ...")
            }
        };
        let at = folder.display();
        let launch = match tracing {
            Tracing::On => format!("/bin/bash {at}/.command.run nxf_trace"),
            Tracing::Off => format!("/bin/bash -ue {at}/.command.sh"),
        };
        let script = format!(
            "#!/bin/bash\n{header}\nset -e\nTOKEN=hunter2\nif [ \"${{1:-}}\" = nxf_trace ]; then\n  \
             /bin/bash -ue {at}/.command.sh\n  exit\nfi\n{launch}\ntrue\n"
        );
        fs::write(folder.join(".command.run"), script).expect("a file");
        fs::write(folder.join(".command.sh"), "sleep 0.4\ntrue\n").expect("a file");
        Self { folder, key }
    }

    /// The local executor starts the script in the work folder.
    fn start_locally(&self) -> Child {
        let mut command = Command::new("/bin/bash");
        command.args(["-ue", ".command.run"]);
        command.current_dir(&self.folder).spawn().expect("bash")
    }
}

/// A probe that reads headers, unless `more` says otherwise.
fn probe(sink: &Sink, more: &str) -> Probe {
    let config = sink.folder().join("probe.toml");
    let place = sink.folder().display();
    let text = format!(
        "place = '{place}'\nspool_dir = '{place}/spool'\ninterval_seconds = 1\n\
         sample_seconds = 1\n{more}"
    );
    fs::write(&config, text).expect("a file");
    let mut command = Command::new(program());
    command.args(["run", "--config"]).arg(&config);
    Probe::spawn(command)
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Waits for the tasks, stops the probe and returns the tasks that ended.
fn ended(sink: &Sink, probe: Probe, tasks: Vec<Child>) -> Vec<StepUsage> {
    for mut task in tasks {
        assert!(task.wait().expect("it ends").success());
    }
    std::thread::sleep(2 * SECOND);
    probe.stop();
    let records = sink.read();
    assert!(!format!("{:?}", records.ended).contains("hunter2"));
    records.ended
}

/// The labels of a task in one line; empty without labels.
fn labels(ended: &[StepUsage], key: &str) -> String {
    let step = ended.iter().find(|step| step.id.key == key);
    let step = step.unwrap_or_else(|| panic!("no task {key}"));
    let sent = step.detail.scheduler_labels.iter();
    let pairs = sent.flat_map(|sent| &sent.labels);
    let labels: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(" ")
}

pub(crate) fn local_tasks_of_nextflow_are_named_by_the_header_of_each_version() {
    needs_ebpf();
    let (root, sink) = (folder(), Sink::new());
    let cases = [
        (
            "RNA:ALIGN (S1)",
            Version::Old,
            Tracing::On,
            "sample=S1 step=RNA:ALIGN task=S1",
        ),
        (
            "RNA:ALIGN (S2)",
            Version::New,
            Tracing::Off,
            "sample=S2 step=RNA:ALIGN task=S2",
        ),
        (
            "RNA:QC (2)",
            Version::New,
            Tracing::On,
            "step=RNA:QC task=2",
        ),
        ("MULTIQC", Version::Old, Tracing::Off, "step=MULTIQC"),
    ];
    let works = (1..).zip(cases).map(|(n, (name, version, tracing, _))| {
        Work::new(root.path(), n, name, (version, tracing))
    });
    let works: Vec<Work> = works.collect();
    let probe = probe(&sink, "task_headers = true\n");
    let tasks = works.iter().map(Work::start_locally).collect();
    let ended = ended(&sink, probe, tasks);
    for (work, (name, _, _, expect)) in works.iter().zip(cases) {
        assert_eq!(labels(&ended, &work.key), expect, "{name}");
        let step = ended.iter().find(|step| step.id.key == work.key);
        let step = step.expect("labels found it");
        assert_eq!(step.id.kind, StepKind::NextflowTask);
        // The name without a header: the hash, which joins the trace.
        assert_eq!(step.name, work.key[..9]);
    }
}

pub(crate) fn tasks_of_nextflow_in_containers_are_named_by_their_headers() {
    needs_ebpf();
    let (root, sink) = (folder(), Sink::new());
    let work = |n, name: &str, tracing| Work::new(root.path(), n, name, (Version::New, tracing));
    let [docker, fusion, batch, silent] = [
        work(1, "A:DOCKER (S1)", Tracing::On),
        work(2, "A:FUSION (S2)", Tracing::Off),
        work(3, "A:BATCH (S3)", Tracing::On),
        work(4, "A:DOCKER (S4)", Tracing::Off),
    ];
    // Batch without Fusion: the script is a copy in a scratch folder with a random name.
    let scratch = root.path().join("nxf.0aB1cD2eF3");
    fs::create_dir(&scratch).expect("a folder");
    let script = fs::read(batch.folder.join(".command.run")).expect("a file");
    fs::write(scratch.join(".command.run"), script).expect("a file");
    let at = |work: &Work| work.folder.display().to_string();
    let cases = [
        // The container has only the second process; the first one is on the host.
        (
            format!(
                "cd {0} && /bin/bash {0}/.command.run nxf_trace; true",
                at(&docker)
            ),
            "sample=S1 step=A:DOCKER task=S1",
        ),
        (
            format!("cd / && bash {}/.command.run; true", at(&fusion)),
            "sample=S2 step=A:FUSION task=S2",
        ),
        (
            format!(
                "cd {} && bash -o pipefail -c 'cat {}/.command.run - | bash; bash .command.run nxf_trace; true'",
                scratch.display(),
                at(&batch)
            ),
            "sample=S3 step=A:BATCH task=S3",
        ),
        // Docker without a trace: no process of the container runs the script with the header.
        (
            format!("cd {0} && /bin/bash -ue {0}/.command.sh; true", at(&silent)),
            "",
        ),
    ];
    let probe = probe(&sink, "task_headers = true\n");
    let containers = cases
        .iter()
        .map(|(script, expect)| (Task::new(None), script, *expect));
    let containers: Vec<_> = containers.collect();
    let tasks = containers
        .iter()
        .map(|(task, script, _)| task.start(&format!("({script}) </dev/null")));
    let ended = ended(&sink, probe, tasks.collect());
    for (task, script, expect) in &containers {
        assert_eq!(labels(&ended, &task.id), *expect, "{script}");
    }
}

pub(crate) fn headers_of_nextflow_are_read_only_if_the_configuration_enables_it() {
    needs_ebpf();
    let (root, sink) = (folder(), Sink::new());
    let work = Work::new(
        root.path(),
        9,
        "RNA:ALIGN (S1)",
        (Version::New, Tracing::On),
    );
    let probe = probe(&sink, "");
    let ended = ended(&sink, probe, vec![work.start_locally()]);
    assert_eq!(labels(&ended, &work.key), "");
    let text = format!("{ended:?}");
    assert!(!text.contains("RNA:ALIGN"), "{text}");
}
