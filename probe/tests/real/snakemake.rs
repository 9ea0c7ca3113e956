//! A workflow of real Snakemake under the probe. Each job must have the name of its rule. Its CPU
//! time, memory and exit status must be those that Snakemake and its benchmark files show.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ebb_telemetry::step::{StepEnd, StepKind, StepUsage};
use ebb_test_support::skip;

use crate::machine::needs_ebpf;
use crate::probe::{Probe, Sink};
use crate::{SECOND, program};

/// Jobs with `shell:` (one of which fails once), `script:` and `run:`, several at a time.
const SNAKEFILE: &str = r#"
SAMPLES = ["A", "B", "C"]
rule all:
    input: expand("burn/{sample}", sample=SAMPLES), expand("hold/{sample}", sample=SAMPLES), "run/A", "retry"
rule burn:
    output: "burn/{sample}"
    threads: 2
    benchmark: "bench/burn.{sample}"
    shell: "for n in 1 2; do timeout 2 sh -c 'while :; do :; done' & done; wait; touch {output}"
rule hold:
    output: "hold/{sample}"
    benchmark: "bench/hold.{sample}"
    script: "hold.py"
rule run:
    output: "run/{sample}"
    run:
        shell("touch {output}")
rule retry:
    output: "retry"
    retries: 1
    shell: "[ -e again ] && touch {output} || {{ touch again; exit 3; }}"
"#;

/// Holds 150 MB for two seconds.
const SCRIPT: &str = "import time\nheld = b'x' * 150_000_000\ntime.sleep(2)\n\
                      open(snakemake.output[0], 'w').close()\n";

/// Jobs of a scheduler that starts them as processes of their own.
const SUBMITTED: &str = r#"
rule all:
    input: "far/A", "far/B"
rule far:
    output: "far/{sample}"
    shell: "sleep 1; touch {output}"
"#;

/// A program of a Python environment that `scripts/setup test` makes; the reason if it is not here.
pub(crate) fn installed(
    environment: &str,
    program: &str,
    folder: &Path,
) -> Result<Command, String> {
    let cache = std::env::var_os("EBB_CACHE").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/ebb"));
    let cache = cache.or_else(home).ok_or("no HOME")?;
    let bin = cache.join(environment).join("bin");
    let needed = bin.join(program);
    if !needed.exists() {
        return Err(format!("no {}; run scripts/setup test", needed.display()));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(needed);
    command
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("XDG_CACHE_HOME", folder.join("cache"));
    Ok(command)
}

/// Snakemake 9, with the plugin of this repository; the reason if it is not here.
fn snakemake(folder: &Path) -> Result<Command, String> {
    let mut command = installed("venv-advice", "snakemake", folder)?;
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../integrations/snakemake-logger-plugin-ebb/src");
    command.env("PYTHONPATH", plugin);
    Ok(command)
}

/// A probe with a label socket, and its socket.
pub(crate) fn start_probe(sink: &Sink) -> (Probe, PathBuf) {
    let folder = sink.folder().display();
    let socket = sink.folder().join("label.sock");
    let config = sink.folder().join("probe.toml");
    let text = format!(
        "place = '{folder}'\nspool_dir = '{folder}/spool'\nlabel_socket = '{folder}/label.sock'\n\
         interval_seconds = 10\nsample_seconds = 1\nsteps_seconds = 1\n"
    );
    fs::write(&config, text).expect("a file");
    let mut command = Command::new(program());
    command.args(["run", "--config"]).arg(&config);
    (Probe::spawn(command), socket)
}

/// Runs a program of an engine, and returns the number of its process.
pub(crate) fn run(command: &mut Command) -> u32 {
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("it is installed");
    let pid = child.id();
    let done = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{stderr}");
    pid
}

/// The finished jobs of Snakemake that `is_wanted` selects, by their labels. Other tests run at the
/// same time.
fn jobs(sink: &Sink, is_wanted: impl Fn(&StepUsage) -> bool) -> BTreeMap<String, StepUsage> {
    let ended = sink.read().ended.into_iter();
    let jobs = ended.filter(|step| step.id.kind == StepKind::SnakemakeJob && is_wanted(step));
    let named = jobs.map(|step| {
        let labels = step.detail.scheduler_labels.as_ref();
        let of = |key: &str| labels.and_then(|labels| labels.labels.get(key).cloned());
        let parts = ["step", "task", "sample", "attempt"].map(|key| of(key).unwrap_or_default());
        (parts.join("|"), step)
    });
    let mut by_name = BTreeMap::new();
    for (name, step) in named {
        let twice = by_name.insert(name.clone(), step);
        assert!(twice.is_none(), "{name} is there twice");
    }
    by_name
}

/// The value of a label of a task.
pub(crate) fn label<'a>(task: &'a StepUsage, key: &str) -> Option<&'a str> {
    let labels = task.detail.scheduler_labels.as_ref()?;
    labels.labels.get(key).map(String::as_str)
}

/// Seconds of processor time and bytes of memory in a benchmark file.
fn benchmark(file: &Path) -> (f64, f64) {
    let text = fs::read_to_string(file).expect("a benchmark");
    let mut lines = text.lines().map(|line| line.split('\t'));
    let (heads, values) = (lines.next().expect("heads"), lines.next().expect("values"));
    let columns: BTreeMap<&str, &str> = heads.zip(values).collect();
    let number = |name: &str| columns[name].parse::<f64>().expect("a number");
    (number("cpu_time"), number("max_rss") * f64::from(1 << 20))
}

pub(crate) fn jobs_of_snakemake_have_the_names_of_their_rules_and_the_use_of_their_benchmarks() {
    needs_ebpf();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut command = snakemake(folder.path()).unwrap_or_else(|reason| skip(reason));
    fs::write(folder.path().join("Snakefile"), SNAKEFILE).expect("a file");
    fs::write(folder.path().join("hold.py"), SCRIPT).expect("a file");
    let sink = Sink::new();
    let (probe, socket) = start_probe(&sink);
    command.args(["--cores", "4", "--logger", "ebb", "--logger-ebb-socket"]);
    let workflow = format!("{}@", run(command.arg(&socket)));
    std::thread::sleep(3 * SECOND);
    probe.stop();
    let jobs = jobs(&sink, |step| {
        let run = step.detail.run.as_ref();
        run.is_some_and(|run| run.key.starts_with(&workflow))
    });
    let names: Vec<&str> = jobs.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "burn|sample=A|A|1",
            "burn|sample=B|B|1",
            "burn|sample=C|C|1",
            "hold|sample=A|A|1",
            "hold|sample=B|B|1",
            "hold|sample=C|C|1",
            "retry|||1",
            "retry|||2",
            "run|sample=A|A|1",
        ]
    );
    for (name, job) in &jobs {
        let expect = if name == "retry|||1" { 3 } else { 0 };
        assert_eq!(job.end, StepEnd::Exited(expect), "{name}");
    }
    for sample in ["A", "B", "C"] {
        let of = |rule: &str| {
            let job = &jobs[&format!("{rule}|sample={sample}|{sample}|1")];
            let measured = benchmark(&folder.path().join(format!("bench/{rule}.{sample}")));
            (job, measured)
        };
        // psutil reads the processes twice a second, so it misses the last half second of each.
        let (job, (cpu, _)) = of("burn");
        let got = job.cpu.as_secs_f64();
        assert!(
            (cpu - 0.1..cpu + 1.5).contains(&got),
            "{got} s of CPU, benchmark {cpu}"
        );
        let (job, (_, memory)) = of("hold");
        let got = job.peak_memory.expect("sampled").bytes.0 as f64;
        assert!(got >= 150e6, "{got} bytes");
        let near = (got - memory).abs() < 0.2 * memory;
        assert!(near, "{got} bytes, benchmark {memory}");
    }
}

pub(crate) fn jobs_that_a_scheduler_starts_are_named_by_their_arguments() {
    needs_ebpf();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut command = snakemake(folder.path()).unwrap_or_else(|reason| skip(reason));
    fs::write(folder.path().join("Snakefile"), SUBMITTED).expect("a file");
    // A scheduler without cgroups: `setsid` starts the job outside of the workflow's tree.
    let submit = folder.path().join("submit");
    fs::write(&submit, "setsid -f sh \"$1\" >\"$1.log\" 2>&1\necho 1\n").expect("a file");
    let sink = Sink::new();
    let (probe, _) = start_probe(&sink);
    command
        .args([
            "--jobs",
            "2",
            "--executor",
            "cluster-generic",
            "--latency-wait",
            "30",
        ])
        .arg("--cluster-generic-submit-cmd")
        .arg(format!("sh {}", submit.display()));
    run(&mut command);
    std::thread::sleep(3 * SECOND);
    probe.stop();
    let jobs = jobs(&sink, |step| step.step_name() == "far");
    let names: Vec<&str> = jobs.keys().map(String::as_str).collect();
    assert_eq!(names, ["far|sample=A|A|1", "far|sample=B|B|1"]);
    let runs: BTreeSet<&str> = jobs.values().filter_map(|job| label(job, "run")).collect();
    assert_eq!(runs.len(), 1, "the jobs are those of one run: {runs:?}");
}
