//! Steps that a launcher on this node starts, and the run that it is. Pure.

use ebb_telemetry::step::{RunName, StepId, StepKind};

use super::{Facts, Parent, Step, tree, tree_key};
use crate::kernel::WorkFolder;
use crate::rules::Rules;

/// Nextflow shows a task by two digits and six more of its folder's hash. Its local
/// executor starts tasks from the one JVM that is the run.
///
/// `None` if the folder's name is no hash: then Nextflow did not create it, and its name could
/// be anything.
///
/// Source: `LocalTaskHandler` and `TaskBean` of Nextflow, and `FileHelper.getWorkFolder`,
/// which makes 2 and 30 hexadecimal digits of a hash.
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

/// A rule's shell, which Snakemake starts from the one process that is the run. What
/// it starts otherwise, as by its Python children, stays in its own tree.
///
/// Source: `snakemake.shell`, whose commands run in `/bin/bash`.
pub(super) fn snakemake_job(facts: &Facts<'_>) -> Option<Step> {
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

/// A command of a CWL step, which cwltool starts from the one process that is the run,
/// and Toil from a worker's. What they start to work out expressions is no step; what
/// runs in a container is told by its cgroup.
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
    let run = run_of("cwltool", &["cwltool", "cwl-runner"], parent)
        .or_else(|| run_of("toil", &["_toil_worker"], parent))?;
    Some(Step {
        run: Some(run),
        ..tree(facts, rules)
    })
}

/// The run that a launcher's process is; none is guessed.
fn run_of(launcher: &str, programs: &[&str], parent: Option<Parent<'_>>) -> Option<RunName> {
    let parent = parent.filter(|parent| programs.contains(&parent.program))?;
    Some(RunName {
        launcher: launcher.to_owned(),
        key: tree_key(parent.key),
        pipeline: None,
    })
}
