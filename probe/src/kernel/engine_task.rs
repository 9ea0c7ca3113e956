//! The task that a process of a workflow engine runs, from its arguments: the step, and the attempt,
//! run and pipeline if the arguments contain them. A table lists the forms. Nothing else is kept,
//! because arguments can contain secrets. [`super::snakemake`] is apart, because its arguments have
//! a form of their own. Pure.

use std::path::Path;

use ebb_telemetry::identity::is_uuid;
use ebb_telemetry::step::SchedulerLabels;

use super::script::is_interpreter;

/// A task of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineTask {
    /// The engine, such as `cromwell`.
    pub engine: &'static str,
    /// The task in the definition of the workflow, of which this is one execution.
    pub step: String,
    /// The part of a scatter; `None` if there is none.
    pub task: Option<String>,
    /// The number of the attempt, from 1; `None` if no argument contains it.
    pub attempt: Option<u32>,
    /// The run of the workflow; `None` if no argument contains it.
    pub run: Option<String>,
    /// The workflow; `None` if no argument contains it.
    pub pipeline: Option<String>,
}

/// One word of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandWord {
    /// Exactly this; of the first word, its base name.
    Is(&'static str),
    /// The step.
    Step,
    /// The pipeline.
    Pipeline,
    /// The run, which is unique within its pipeline.
    Run,
}

/// A command of an engine.
struct CommandForm {
    engine: &'static str,
    /// Its first words. More may follow.
    words: &'static [CommandWord],
    /// Steps that are parts of the engine and no steps of a user. A `*` at the end is any text.
    internal: &'static [&'static str],
}

/// The commands whose arguments name a task.
///
/// Source: `Leader.issueJob` and the classes of jobs in `job.py`, `cwltoil.py` and `wdltoil.py` of
/// Toil 9.6; `TaskInstance.command_as_list` and `StandardTaskRunner._start_by_fork` of Airflow 2, the
/// latter of which sets a title.
const COMMANDS: [CommandForm; 3] = [
    CommandForm {
        engine: "toil",
        words: &[CommandWord::Is("_toil_worker"), CommandWord::Step],
        internal: &[
            "CWL*",
            "WDL*",
            "CombineImportsJob",
            "EncapsulatedJob",
            "ImportsJob",
            "Job",
            "ResolveIndirect",
            "SelfJob",
            "ServiceHostJob",
            "WorkerImportJob",
        ],
    },
    CommandForm {
        engine: "airflow",
        words: &[
            CommandWord::Is("airflow"),
            CommandWord::Is("tasks"),
            CommandWord::Is("run"),
            CommandWord::Pipeline,
            CommandWord::Step,
            CommandWord::Run,
        ],
        internal: &[],
    },
    CommandForm {
        engine: "airflow",
        words: &[
            CommandWord::Is("airflow"),
            CommandWord::Is("task"),
            CommandWord::Is("runner:"),
            CommandWord::Pipeline,
            CommandWord::Step,
            CommandWord::Run,
        ],
        internal: &[],
    },
];

/// The kernel's names of processes whose title names a task. A process sets its title without a
/// program start, and the kernel keeps 15 bytes of it.
pub const TITLES: [&str; 1] = ["airflow task ru"];

/// Whether a process with this name in the kernel can be one whose arguments name a task.
pub fn can_name_a_task(program: &str) -> bool {
    is_interpreter(program) || matches!(program, "_toil_worker" | "airflow") || is_title(program)
}

/// Whether the name in the kernel is the beginning of a title that names a task.
pub fn is_title(program: &str) -> bool {
    TITLES.contains(&program)
}

/// The task of the process with these arguments; `None` for any other process. `arguments` includes
/// the program.
pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<EngineTask> {
    // The longest form is `python -m airflow tasks run DAG TASK RUN`.
    let mut words: Vec<&str> = arguments.into_iter().take(8).collect();
    if let [title] = words[..] {
        // A title is one text.
        words = title.split_ascii_whitespace().take(8).collect();
    }
    let first = words.first().map(|program| base(program))?;
    let after = match (is_interpreter(first), words.get(1)) {
        (true, Some(&"-m")) => words.get(2..)?,
        (true, _) => words.get(1..)?,
        (false, _) => &words[..],
    };
    let named = COMMANDS.iter().find_map(|form| command(form, after));
    named.or_else(|| cromwell(after.first().filter(|_| is_interpreter(first))?))
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn command(form: &CommandForm, words: &[&str]) -> Option<EngineTask> {
    let mut task = EngineTask {
        engine: form.engine,
        step: String::new(),
        task: None,
        attempt: None,
        run: None,
        pipeline: None,
    };
    for (at, wanted) in form.words.iter().enumerate() {
        let word = *words.get(at)?;
        match wanted {
            CommandWord::Is(name) if at == 0 && base(word) == *name => {}
            CommandWord::Is(name) if at > 0 && word == *name => {}
            CommandWord::Is(_) => return None,
            CommandWord::Step => task.step = SchedulerLabels::value(word)?,
            CommandWord::Pipeline => task.pipeline = Some(SchedulerLabels::value(word)?),
            CommandWord::Run => {
                let pipeline = task.pipeline.as_deref().unwrap_or_default();
                task.run = SchedulerLabels::value(&format!("{pipeline} {word}"));
            }
        }
    }
    let is_internal = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => task.step.starts_with(start),
        None => task.step == **pattern,
    };
    (!form.internal.iter().any(is_internal)).then_some(task)
}

/// A script of Cromwell:
/// `WORKFLOW/UUID/call-TASK[/shard-N][/attempt-K]/execution/script`. A workflow inside of another one
/// has `WORKFLOW/UUID/call-NAME[/shard-N]/` before that; the outer one is the run. The first attempt
/// has no folder.
///
/// Source: `JobPaths.callPathBuilder` and `WorkflowPaths` of Cromwell.
fn cromwell(script: &str) -> Option<EngineTask> {
    let mut folders: Vec<&str> = script
        .strip_suffix("/execution/script")?
        .split('/')
        .collect();
    let (mut step, mut shard, mut attempt) = (None, None, None);
    let (mut run, mut pipeline) = (None, None);
    loop {
        let tried = take(&mut folders, "attempt-").and_then(|text| text.parse().ok());
        let part = take(&mut folders, "shard-").filter(|text| is_number(text));
        let Some(called) = take(&mut folders, "call-") else {
            break;
        };
        let id = folders.pop().filter(|id| is_uuid(id));
        let (Some(id), Some(workflow)) = (id, folders.pop()) else {
            break;
        };
        if step.is_none() {
            step = Some(SchedulerLabels::value(called)?);
            attempt = tried.or(Some(1));
        }
        shard = shard.or(part);
        (run, pipeline) = (Some(id.to_owned()), SchedulerLabels::value(workflow));
    }
    Some(EngineTask {
        engine: "cromwell",
        step: step?,
        task: shard.map(|number| format!("shard={number}")),
        attempt,
        run,
        pipeline,
    })
}

/// Removes the last folder if its name begins with `prefix`, and returns the rest of the name.
fn take<'a>(folders: &mut Vec<&'a str>, prefix: &str) -> Option<&'a str> {
    let rest = folders.last()?.strip_prefix(prefix)?;
    folders.pop();
    Some(rest)
}

/// A task of miniwdl, from the folder that its container has as its work folder:
/// `RUN/call-TASK[-I[-VALUE]]/work[N]`, where `I` is the part of a scatter and `N` the attempt from
/// the second one on. `None` if the folder is another one.
///
/// Source: `SubprocessBase.prepare_mounts` and `provision_run_dir` of miniwdl 1.16. A call of a
/// workflow has another call in its folder.
pub fn miniwdl(folder: &Path) -> Option<EngineTask> {
    let mut folders = folder.to_str()?.rsplit('/');
    let tried = folders.next()?.strip_prefix("work")?;
    let attempt = if tried.is_empty() { "1" } else { tried };
    let called = folders.next()?.strip_prefix("call-")?;
    // A name in WDL contains no `-`.
    let (step, rest) = called.split_once('-').unzip();
    // A value of the scatter can follow the number.
    let part = rest.and_then(|rest| rest.split('-').next());
    let run = folders.find(|folder| !folder.starts_with("call-"));
    let run = run.filter(|folder| workflow_of_miniwdl(folder).is_some());
    Some(EngineTask {
        engine: "miniwdl",
        step: SchedulerLabels::value(step.unwrap_or(called))?,
        task: part
            .filter(|part| is_number(part))
            .map(|part| format!("part={part}")),
        attempt: Some(attempt.parse().ok()?),
        pipeline: run
            .and_then(workflow_of_miniwdl)
            .and_then(SchedulerLabels::value),
        run: run.and_then(SchedulerLabels::value),
    })
}

/// Whether miniwdl starts the command of a task in a container with these arguments. Most shells
/// replace themselves by the last command of their text.
///
/// Source: `SubprocessBase._run` of miniwdl 1.16.
pub fn is_miniwdl<'a>(arguments: impl IntoIterator<Item = &'a str>) -> bool {
    let words: Vec<&str> = arguments.into_iter().take(4).collect();
    let Some((shell, rest)) = words.split_first() else {
        return false;
    };
    let is_command = match *rest {
        ["-c", text] => text.ends_with(" ../command >> ../stdout.txt 2>> ../stderr.txt"),
        [.., last] => last == "../command",
        [] => false,
    };
    is_command && is_interpreter(base(shell))
}

/// The workflow of a run folder `YYYYMMDD_HHMMSS_WORKFLOW`.
fn workflow_of_miniwdl(folder: &str) -> Option<&str> {
    let (date, rest) = folder.split_once('_')?;
    let (time, workflow) = rest.split_once('_')?;
    let is_time = date.len() == 8 && time.len() == 6 && is_number(date) && is_number(time);
    is_time.then_some(workflow)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl EngineTask {
    /// The labels of the task. `shown` returns a name as it may leave the node.
    pub fn labels(&self, shown: impl Fn(&str) -> String) -> SchedulerLabels {
        let mut labels = SchedulerLabels::default();
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                labels.labels.insert(key.to_owned(), value);
            }
        };
        add("step", Some(shown(&self.step)));
        add("task", self.task.clone());
        add("attempt", self.attempt.map(|number| number.to_string()));
        add("pipeline", self.pipeline.as_deref().map(&shown));
        let run = self.shown_run(|name| shown(name) == name);
        add("run", run.map(str::to_owned));
        labels
    }

    /// The run; `None` if it is unknown or contains a name that must not leave the node. The runs of
    /// Airflow and miniwdl contain the pipeline.
    pub fn shown_run(&self, is_shown: impl Fn(&str) -> bool) -> Option<&str> {
        let pipeline = self.pipeline.as_deref().filter(|name| !is_shown(name));
        let run = self.run.as_deref().filter(|run| is_shown(run))?;
        let is_free = pipeline.is_none_or(|name| !run.contains(name));
        is_free.then_some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result as one line: the engine and the labels.
    fn line(task: Option<EngineTask>, masked: &str) -> String {
        let Some(task) = task else {
            return "none".to_owned();
        };
        let shown = |name: &str| if name == masked { "***" } else { name }.to_owned();
        let labels = task.labels(shown).labels;
        let labels = labels.iter().map(|(key, value)| format!(" {key}={value}"));
        format!("{}{}", task.engine, labels.collect::<String>())
    }

    fn check(arguments: &str, expect: &str) {
        let got = parse(arguments.split('|'));
        assert_eq!(line(got, "hidden"), expect, "{arguments}");
    }

    /// The first two commands are those of Toil 9.6.0.
    #[test]
    fn a_worker_of_toil_names_the_function_or_class_of_its_job() {
        let tail = "file:/work/js|kind-align/instance-fkibe0fj";
        check(
            &format!("/venv/bin/python3|/venv/bin/_toil_worker|align|{tail}"),
            "toil step=align",
        );
        check(
            &format!("/venv/bin/python3|/venv/bin/_toil_worker|CWLJob|{tail}"),
            "none",
        );
        check(&format!("_toil_worker|align|{tail}"), "toil step=align");
        check(&format!("_toil_worker|WDLTaskJob|{tail}"), "none");
        check(&format!("_toil_worker|Job|{tail}"), "none");
        check(&format!("_toil_worker|Jobs|{tail}"), "toil step=Jobs");
        check(&format!("/bin/sh|-c|_toil_worker align {tail}"), "none");
        check("_toil_worker", "none");
        check("less|_toil_worker|align", "none");
    }

    #[test]
    fn a_process_of_airflow_names_its_task_by_command_or_by_title() {
        let expect = "airflow pipeline=etl run=etl manual__2026-11-23T10:00:00 step=load";
        let tail = "tasks|run|etl|load|manual__2026-11-23T10:00:00";
        check(&format!("airflow|{tail}|--local|--subdir|/dags"), expect);
        check(&format!("/usr/bin/python3|/opt/bin/airflow|{tail}"), expect);
        check(&format!("python3|-m|airflow|{tail}"), expect);
        let title = "airflow task runner: etl load manual__2026-11-23T10:00:00";
        check(title, expect);
        check(&format!("{title} 12"), expect);
        check(
            "airflow|tasks|run|hidden|load|r1",
            "airflow pipeline=*** step=load",
        );
        check("airflow|tasks|run|etl|load", "none");
        check("airflow|tasks|list|etl|load|r1", "none");
        // Version 3 names only the number of the task.
        check(
            "airflow worker -- 0198c0de-0000-7000-8000-000000000000",
            "none",
        );
    }

    #[test]
    fn a_script_of_cromwell_names_task_shard_attempt_and_run() {
        const A: &str = "7f1c2d3e-0000-4abc-8def-0123456789ab";
        const B: &str = "11111111-2222-4333-8444-555555555555";
        let script = |path: &str, expect: &str| {
            check(
                &format!("/bin/bash|/data/cromwell-executions/{path}"),
                expect,
            );
        };
        script(
            &format!("rna/{A}/call-align/execution/script"),
            &format!("cromwell attempt=1 pipeline=rna run={A} step=align"),
        );
        script(
            &format!("rna/{A}/call-align/shard-3/attempt-2/execution/script"),
            &format!("cromwell attempt=2 pipeline=rna run={A} step=align task=shard=3"),
        );
        script(
            &format!("rna/{A}/call-each/shard-7/one/{B}/call-sort/execution/script"),
            &format!("cromwell attempt=1 pipeline=rna run={A} step=sort task=shard=7"),
        );
        script(
            &format!("hidden/{A}/call-hidden/execution/script"),
            &format!("cromwell attempt=1 pipeline=*** run={A} step=***"),
        );
        // The process that only waits for the script.
        script(
            &format!("rna/{A}/call-align/execution/script.background"),
            "none",
        );
        script(&format!("rna/{A}/call-/execution/script"), "none");
        script("rna/no-uuid/call-align/execution/script", "none");
        script(&format!("{A}/execution/script"), "none");
        check(
            &format!("/bin/cat|rna/{A}/call-align/execution/script"),
            "none",
        );
        check("/bin/bash", "none");
        check("", "none");
    }

    #[test]
    fn a_work_folder_of_miniwdl_names_task_part_attempt_and_run() {
        let check = |folder: &str, expect: &str| {
            assert_eq!(
                line(miniwdl(Path::new(folder)), "hidden"),
                expect,
                "{folder}"
            );
        };
        let run = "/data/20261123_103000_rna";
        let of_run = "pipeline=rna run=20261123_103000_rna";
        check(
            &format!("{run}/call-align/work"),
            &format!("miniwdl attempt=1 {of_run} step=align"),
        );
        check(
            &format!("{run}/call-each-1-A/call-sort-12-a-b/work3"),
            &format!("miniwdl attempt=3 {of_run} step=sort task=part=12"),
        );
        check("/data/mine/call-align/work", "miniwdl attempt=1 step=align");
        check(&format!("{run}/work"), "none");
        check(&format!("{run}/call-align/workshop"), "none");
        check("/", "none");
        let starts = |line: &str| is_miniwdl(line.split('|'));
        let tail = "../command >> ../stdout.txt 2>> ../stderr.txt";
        assert!(starts(&format!("/bin/sh|-c|/bin/bash {tail}")));
        assert!(!starts(&format!("/bin/cat|-c|/bin/bash {tail}")));
        assert!(starts("/bin/bash|../command"));
        assert!(!starts("/bin/bash"));
        assert!(!starts("/bin/sh|-c|make"));
        assert!(!starts(&format!("/bin/sh|-c|/bin/bash {tail}|x")));
    }

    #[test]
    fn hostile_arguments_name_nothing() {
        check("_toil_worker|a\u{1b}[2J|file:/js", "none");
        check(&format!("_toil_worker|{}|x", "a".repeat(129)), "none");
        check("_toil_worker||x", "none");
        let long = format!("airflow|tasks|run|{}|b|c", "d".repeat(127));
        // The run is left out if it is too long.
        check(
            &long,
            &format!("airflow pipeline={} step=b", "d".repeat(127)),
        );
    }
}
