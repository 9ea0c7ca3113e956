//! Tasks that a launcher on this node starts, and the run that the launcher is. Pure.

use ebb_telemetry::step::{RunName, StepId, StepKind};

use super::{Facts, Parent, Placement, Step, path, tree, tree_key};
use crate::kernel::WorkFolder;
use crate::kernel::snakemake::Snakemake;
use crate::label_rules::{Children, Rules};

/// Nextflow displays a task as two digits and six more digits of the hash of its work directory.
/// Its local executor starts tasks from the single JVM of the run.
///
/// `None` if the directory name is not a hash: then Nextflow did not create the directory, and its
/// name could be anything.
///
/// Source: `LocalTaskHandler` and `TaskBean` of Nextflow, and `FileHelper.getWorkFolder`, which
/// creates names with 2 and 30 hexadecimal digits of a hash.
pub(super) fn nextflow_task(folder: &WorkFolder, parent: Option<Parent<'_>>) -> Option<Step> {
    let WorkFolder { parent: hash, leaf } = folder;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hash.len() != 2 || leaf.len() < 6 || !is_hex(hash) || !is_hex(leaf) {
        return None;
    }
    Some(Step {
        id: StepId {
            kind: StepKind::NextflowTask,
            key: format!("{hash}/{leaf}"),
        },
        name: format!("{hash}/{}", leaf.chars().take(6).collect::<String>()),
        cgroup: None,
        run: run_of("nextflow", &["java", "nextflow"], parent),
    })
}

/// The shell of a rule, which Snakemake starts from the single process of the run. Other children,
/// such as Python processes, stay in their own tree.
///
/// Source: `snakemake.shell`, whose commands run in `/bin/bash`.
pub(super) fn snakemake_shell(facts: &Facts<'_>) -> Option<Step> {
    const SHELLS: [&str; 4] = ["bash", "sh", "dash", "zsh"];
    let is_shell = SHELLS.contains(&facts.program);
    let run = run_of(
        "snakemake",
        &["snakemake"],
        facts.parent.filter(|_| is_shell),
    )?;
    Some(Step {
        id: StepId {
            kind: StepKind::SnakemakeJob,
            key: tree_key(facts.key),
        },
        name: facts.program.to_owned(),
        cgroup: None,
        run: Some(run),
    })
}

/// Whether this is a script that `slurmd` runs for the node, such as `Prolog`, `Epilog` or
/// `HealthCheckProgram`. Such a script is not in the cgroup of a job. A user can name a program `slurmd`, but
/// not start it outside of all tasks and sessions.
pub(super) fn is_script_of_slurmd(facts: &Facts<'_>) -> bool {
    let of_slurmd = facts
        .parent
        .is_some_and(|parent| parent.program == "slurmd");
    let is_of_user = matches!(facts.inherited, Some(Placement::Step(_)))
        || facts.cgroup.is_some_and(path::is_of_login);
    of_slurmd && !is_of_user && !matches!(facts.program, "slurmd" | "slurmstepd")
}

/// The process that runs one job of a Snakemake workflow of another process, unless it is already
/// in the task of a job: a container, a job of a scheduler, or a shell that Snakemake started.
pub(super) fn snakemake_job(facts: &Facts<'_>) -> Option<Step> {
    let is_job = matches!(facts.snakemake?, Snakemake::Job(_) | Snakemake::UnnamedJobs);
    (is_job && is_outside_jobs(facts)).then(|| Step {
        id: StepId {
            kind: StepKind::SnakemakeJob,
            key: tree_key(facts.key),
        },
        name: facts.program.to_owned(),
        cgroup: None,
        run: None,
    })
}

/// The process that runs one task of another engine, unless it is already in the task of a job or of
/// a run.
pub(super) fn engine_task(facts: &Facts<'_>, rules: &Rules) -> Option<Step> {
    let task = facts.engine_task?;
    let is_in_run = matches!(facts.inherited, Some(Placement::Step(step)) if step.run.is_some());
    (is_outside_jobs(facts) && !is_in_run).then(|| Step {
        run: task.shown_run(|name| rules.show(name)).map(|run| RunName {
            launcher: task.engine.to_owned(),
            key: run.to_owned(),
            pipeline: None,
        }),
        ..tree(facts, rules)
    })
}

/// Whether a process is in no task, or in one that can contain several jobs.
fn is_outside_jobs(facts: &Facts<'_>) -> bool {
    match facts.inherited {
        None | Some(Placement::Background(Children::Classified)) => true,
        Some(Placement::Background(Children::Inherit)) => false,
        Some(Placement::Step(step)) => matches!(
            step.id.kind,
            StepKind::Session | StepKind::Service | StepKind::Tree
        ),
    }
}

/// A command of a CWL step. cwltool starts it from the single process of the run, and Toil from a
/// worker, of which a run has several. Helper processes that evaluate expressions are not tasks. The
/// cgroup identifies commands in a container.
///
/// Source: `cwltool.job._job_popen`, and `toil.cwl.cwltoil.CWLJob`, which calls it.
pub(super) fn cwl_job(facts: &Facts<'_>, rules: &Rules) -> Option<Step> {
    const HELPERS: [&str; 7] = [
        "node",
        "nodejs",
        "docker",
        "podman",
        "singularity",
        "apptainer",
        "git",
    ];
    let parent = facts.parent.filter(|_| !HELPERS.contains(&facts.program));
    let run = run_of("cwltool", &["cwltool", "cwl-runner"], parent);
    let is_of_worker = parent.is_some_and(|parent| parent.program == "_toil_worker");
    (run.is_some() || is_of_worker).then(|| Step {
        run,
        ..tree(facts, rules)
    })
}

/// The run of a launcher process; `None` if the parent is not that launcher.
fn run_of(launcher: &str, programs: &[&str], parent: Option<Parent<'_>>) -> Option<RunName> {
    let parent = parent.filter(|parent| programs.contains(&parent.program))?;
    Some(RunName {
        launcher: launcher.to_owned(),
        key: tree_key(parent.key),
        pipeline: None,
    })
}
