//! The names and comments that engines give to Slurm jobs.
//!
//! Sources: nextflow `AbstractGridExecutor` (`nf-` and the task's name, in which blanks and
//! `/:@*?=` are `_`); `ebb init --engine nextflow` (the comment `nf;PROCESS;TAG;ATTEMPT`);
//! snakemake-executor-plugin-slurm (the run's UUID as name, rule and wildcards as comment);
//! Snakemake 7 `--cluster` (`snakejob.RULE.ID.sh`); profiles of Snakemake for Slurm, such as
//! smk-simple-slurm (`smk-RULE-WILDCARDS`, `RULE.WILDCARDS`); Cromwell (`cromwell_ID_TASK`); Toil
//! (`toil_job_N_STEP`).

use ebb_model::advice::step::NameForm;
use ebb_model::task_record::{TaskKey, names_no_step};
use ebb_telemetry::identity::split_uuid;

/// The parts of a job's name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct JobName {
    /// The process, rule or job name.
    pub(super) step: String,
    pub(super) form: NameForm,
    /// An engine made the name from the name of a step.
    pub(super) is_of_engine: bool,
    /// The pipeline run; `None` if the name does not contain it.
    pub(super) run: Option<String>,
    /// The common property of the attempts of one task; `None` if each job is its own task.
    pub(super) task: Option<String>,
    pub(super) sample: Option<String>,
    /// The number of the attempt, from 1; `None` if only the accounting can count attempts.
    pub(super) attempt: Option<u32>,
}

impl JobName {
    /// Parses a job's name and comment. Fails if the name is only a run of an engine and the
    /// comment with the rule is missing.
    pub(super) fn parse(name: &str, comment: Option<&str>) -> Result<Self, String> {
        if let Some(rest) = name.strip_prefix("nf-") {
            let named = Self::of_nextflow(rest);
            return Ok(match comment.and_then(NextflowComment::parse) {
                Some(comment) => comment.complete(named),
                None => named,
            });
        }
        if ends_with_uuid(name) {
            return Self::of_snakemake(name, comment);
        }
        if let Some(rule) = name.strip_prefix("snakejob.").and_then(rule_of_script) {
            return Ok(Self::named(rule));
        }
        if let Some(named) = Self::of_snakemake_profile(name) {
            return Ok(named);
        }
        if let Some(named) = name.strip_prefix("cromwell_").and_then(Self::of_cromwell) {
            return Ok(named);
        }
        if let Some(step) = name.strip_prefix("toil_job_").and_then(after_number) {
            return Ok(Self::named(step));
        }
        let form = match names_no_step(name) {
            true => NameForm::Executables,
            false => NameForm::Exact,
        };
        Ok(Self {
            form,
            is_of_engine: false,
            ..Self::named(name)
        })
    }

    fn named(step: &str) -> Self {
        Self {
            step: step.to_owned(),
            is_of_engine: true,
            ..Self::default()
        }
    }

    /// Parses `PROCESS_(tag)`, or `PROCESS_(3)` without a tag.
    fn of_nextflow(name: &str) -> Self {
        let form = NameForm::NextflowJob;
        let Some((process, tag)) = name.split_once("_(") else {
            return Self {
                form,
                ..Self::named(name)
            };
        };
        let tag = tag.strip_suffix(')').unwrap_or(tag);
        let is_index = tag.bytes().all(|byte| byte.is_ascii_digit());
        Self {
            form,
            task: Some(name.to_owned()),
            sample: (!is_index).then(|| tag.to_owned()),
            ..Self::named(process)
        }
    }

    /// Parses the comment `rule_NAME_wildcards_VALUES`.
    fn of_snakemake(name: &str, comment: Option<&str>) -> Result<Self, String> {
        let rule = comment.and_then(|comment| comment.strip_prefix("rule_"));
        let Some(rule) = rule else {
            return Err(
                "the name is the UUID of a Snakemake run, and no Comment contains the rule; add \
                 Comment to sacct --format (Slurm stores it with \
                 AccountingStoreFlags=job_comment), or import the rules' benchmark files"
                    .to_owned(),
            );
        };
        let (rule, wildcards) = match rule.split_once("_wildcards_") {
            Some((rule, wildcards)) => (rule, Some(wildcards)),
            None => (rule, None),
        };
        Ok(Self {
            run: Some(name.to_owned()),
            task: comment.map(str::to_owned),
            sample: wildcards.map(str::to_owned),
            ..Self::named(rule)
        })
    }

    /// Parses `smk-RULE-NAME=VALUE,…` and `RULE.NAME=VALUE,…`. The name of a rule contains neither `-` nor
    /// `.`. A rule without wildcards has nothing after the separator.
    fn of_snakemake_profile(name: &str) -> Option<Self> {
        let (rule, wildcards) = match name.strip_prefix("smk-") {
            Some(rest) => rest.split_once('-')?,
            None => name.split_once('.').filter(|(_, rest)| !rest.is_empty())?,
        };
        let (first, _) = wildcards.split_once('=').unwrap_or(("", ""));
        let are_wildcards = wildcards.is_empty() || is_identifier(first);
        (is_identifier(rule) && are_wildcards).then(|| Self {
            task: Some(name.to_owned()),
            sample: Some(wildcards.to_owned()).filter(|text| !text.is_empty()),
            ..Self::named(rule)
        })
    }

    /// Parses `ab12cd34_TASK`.
    fn of_cromwell(rest: &str) -> Option<Self> {
        let (run, task) = rest.split_once('_')?;
        let is_id = run.len() == 8 && run.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self {
            run: Some(run.to_owned()),
            ..Self::named(task)
        })
    }
}

/// The comment `nf;PROCESS;TAG;ATTEMPT`. The tag is empty if the task has none. The
/// children of an array all have the comment of the first one, so it is empty there, too.
struct NextflowComment<'a> {
    process: &'a str,
    tag: &'a str,
    attempt: Option<u32>,
}

impl<'a> NextflowComment<'a> {
    /// `None` for a comment that has another form.
    fn parse(comment: &'a str) -> Option<Self> {
        let (process, rest) = comment.strip_prefix("nf;")?.split_once(';')?;
        let (tag, attempt) = rest.rsplit_once(';')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
        (!process.is_empty() && process.chars().all(is_name)).then(|| Self {
            process,
            tag,
            attempt: attempt.parse().ok().filter(|attempt| *attempt > 0),
        })
    }

    /// The name of a job with the exact name of its process. The tag is a sample even if it is a
    /// number, because an index is not a tag.
    fn complete(self, named: JobName) -> JobName {
        JobName {
            step: self.process.to_owned(),
            form: NameForm::Exact,
            sample: Some(self.tag.to_owned()).filter(|tag| !tag.is_empty()),
            attempt: self.attempt,
            ..named
        }
    }
}

/// The rule in `RULE.ID.sh`.
fn rule_of_script(rest: &str) -> Option<&str> {
    let (rule, id) = rest.strip_suffix(".sh")?.rsplit_once('.')?;
    id.bytes().all(|byte| byte.is_ascii_digit()).then_some(rule)
}

/// Whether a text is a name in Python, as those of rules and wildcards are.
fn is_identifier(text: &str) -> bool {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    text.starts_with(|c: char| is_part(c) && !c.is_numeric()) && text.chars().all(is_part)
}

fn after_number(rest: &str) -> Option<&str> {
    let (number, step) = rest.split_once('_')?;
    number
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(step)
}

/// Whether the name is or ends with a UUID such as `550e8400-e29b-41d4-a716-446655440000`.
fn ends_with_uuid(name: &str) -> bool {
    split_uuid(name).is_some_and(|(before, _)| before.is_empty() || before.ends_with('_'))
}

/// The folder of a project: Nextflow's task folders `work/ab/0123…` all belong to one.
pub(super) fn project_of(work_dir: &str) -> &str {
    let mut parts = work_dir.rsplitn(3, '/');
    let (task, group, rest) = (parts.next(), parts.next(), parts.next());
    let is_hex = |text: Option<&str>, least: usize| {
        text.is_some_and(|text| {
            text.len() >= least && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    match rest {
        Some(rest)
            if is_hex(task, 28) && group.is_some_and(|g| g.len() == 2) && is_hex(group, 2) =>
        {
            rest
        }
        _ => work_dir,
    }
}

/// The hash of a Nextflow task from its work folder, such as `ab/cdef12` from `…/ab/cdef12…`.
pub(super) fn nextflow_hash(work_dir: &str) -> Option<TaskKey> {
    let folder = project_of(work_dir);
    let hash = work_dir.strip_prefix(folder)?.strip_prefix('/')?;
    TaskKey::nextflow_task(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_of_a_job_is_known_by_its_name() {
        const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
        const PLAIN: [&str; 5] = ["align", "smk-align", "smk-1-a=b", "run.sh", "a.b-c=1"];
        let check = |name: &str, comment: Option<&str>, expect: [&str; 3]| {
            let named = JobName::parse(name, comment).expect("a name");
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            let got = [named.step.clone(), text(&named.run), text(&named.sample)];
            assert_eq!(got, expect, "{name}");
            let is_shortened = named.form == NameForm::NextflowJob;
            let is_exact = comment.is_some_and(|comment| comment.starts_with("nf;A:B;"));
            assert_eq!(is_shortened, name.starts_with("nf-") && !is_exact, "{name}");
            assert_eq!(named.is_of_engine, !PLAIN.contains(&name), "{name}");
        };
        for name in PLAIN {
            check(name, None, [name, "", ""]);
        }
        check(
            "smk-align-sample=S1,unit=2",
            None,
            ["align", "", "sample=S1,unit=2"],
        );
        check("smk-multiqc-", None, ["multiqc", "", ""]);
        check("align.sample=S1", None, ["align", "", "sample=S1"]);
        check("nf-RNASEQ_STAR_(S1)", None, ["RNASEQ_STAR", "", "S1"]);
        check("nf-FASTQC_(12)", None, ["FASTQC", "", ""]);
        check("nf-MULTIQC", None, ["MULTIQC", "", ""]);
        let task = "nf-A_B_(S1)";
        check(task, Some("nf;A:B;S1;2"), ["A:B", "", "S1"]);
        check(task, Some("nf;A:B;12;1"), ["A:B", "", "12"]);
        // An array, and a task without a tag.
        check("nf-A_B_(3)", Some("nf;A:B;;1"), ["A:B", "", ""]);
        for other in ["nf;A", "nf;;S1;1", "nf;A B;S1;1", "A:B;S1;1", "(null)"] {
            check(task, Some(other), ["A_B", "", "S1"]);
        }
        check(UUID, Some("rule_bwa_wildcards_A"), ["bwa", UUID, "A"]);
        check(UUID, Some("rule_all"), ["all", UUID, ""]);
        let prefixed = format!("mine_{UUID}");
        check(
            &prefixed,
            Some("rule_x_wildcards_a_b"),
            ["x", &prefixed, "a_b"],
        );
        check(
            "snakejob.call_variants.17.sh",
            None,
            ["call_variants", "", ""],
        );
        check("cromwell_ab12cd34_Align", None, ["Align", "ab12cd34", ""]);
        check("toil_job_17_sort.cwl", None, ["sort.cwl", "", ""]);
        let attempt = |comment| JobName::parse(task, Some(comment)).map(|named| named.attempt);
        assert_eq!(attempt("nf;A:B;S1;2"), Ok(Some(2)));
        assert_eq!(attempt("nf;A:B;S1;x"), Ok(None));
        assert_eq!(attempt("nf;A:B;S1;0"), Ok(None));
        assert!(JobName::parse(UUID, None).is_err());
        assert!(JobName::parse(UUID, Some("nightly")).is_err());
    }

    #[test]
    fn task_folders_of_nextflow_are_of_one_project() {
        let task = "/scratch/p/work/ab/0123456789abcdef0123456789abcd";
        assert_eq!(project_of(task), "/scratch/p/work");
        assert_eq!(project_of("/home/ana/align"), "/home/ana/align");
        assert_eq!(nextflow_hash(task), TaskKey::nextflow_task("ab/012345"));
        assert_eq!(nextflow_hash("/home/ana/align"), None);
    }
}
