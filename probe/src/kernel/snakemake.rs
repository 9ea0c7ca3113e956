//! The job that a process of Snakemake runs, from its arguments: the rule, the wildcards, the attempt
//! and the run. Nothing else is kept, because arguments can contain secrets. Pure.

use ebb_telemetry::step::SchedulerLabels;

/// The name of the program, and of its Python module.
pub const PROGRAM: &str = "snakemake";

/// Maximum number of wildcards of a job.
const MAX_WILDCARDS: usize = 16;

/// The work of a process of Snakemake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Snakemake {
    /// A workflow; it starts the jobs.
    Workflow,
    /// One job of a workflow that another process runs.
    Job(SnakemakeJob),
    /// Such a job, which it starts in another process of Snakemake: the process of a Slurm job that
    /// waits for its step.
    Delegation,
    /// Jobs of such a workflow that have no single name: a group of jobs, or unreadable arguments.
    UnnamedJobs,
}

/// One job of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnakemakeJob {
    /// The name of its rule.
    pub rule: String,
    /// Names and values, in the order of the arguments.
    pub wildcards: Vec<(String, String)>,
    /// The number of the attempt, from 1; `None` if no argument contains it.
    pub attempt: Option<u32>,
    /// The random name that all jobs of one run of Snakemake share; `None` if no argument contains it.
    pub run: Option<String>,
}

/// The work of `python -m snakemake` with these arguments; `None` for any other program. `arguments`
/// includes the program.
///
/// Source: `RealExecutor.get_job_args` and `format_job_exec` of snakemake-interface-executor-plugins
/// (Snakemake 8 and 9), and `RealExecutor.get_job_args` of Snakemake 7.32. `--target-jobs` exists
/// since 7.18; earlier versions start a job with `--mode` only. `--executor slurm-jobstep`, which was
/// `--slurm-jobstep` in version 7, is that of snakemake-executor-plugin-slurm.
pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<Snakemake> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next() != Some("-m") || arguments.next() != Some(PROGRAM) {
        return None;
    }
    let mut option = "";
    let mut targets = Vec::new();
    let (mut attempt, mut is_job, mut delegates) = (None, false, false);
    let mut run = None;
    for argument in arguments {
        if argument.starts_with("--") {
            option = argument;
            is_job |= matches!(option, "--target-jobs" | "--mode");
            delegates |= option == "--slurm-jobstep";
            continue;
        }
        match option {
            // One target is a job, and more are a group.
            "--target-jobs" if targets.len() < 2 => targets.push(argument),
            "--executor" => delegates = argument != "local",
            "--attempt" => attempt = argument.parse().ok().or(attempt),
            "--wait-for-files" | "--wait-for-files-file" => run = run.or_else(|| run_of(argument)),
            _ => {}
        }
    }
    let job = match targets[..] {
        [target] => job(target, attempt).map(|job| SnakemakeJob { run, ..job }),
        _ => None,
    };
    Some(match job {
        _ if is_job && delegates => Snakemake::Delegation,
        Some(job) => Snakemake::Job(job),
        None if is_job => Snakemake::UnnamedJobs,
        None => Snakemake::Workflow,
    })
}

/// A job from `RULE:WILDCARD=VALUE,WILDCARD=VALUE`.
///
/// Source: `encode_target_jobs_cli_args` of snakemake-interface-executor-plugins, which puts a value
/// with a comma into quotes. Snakemake 7 does not, so a part without `=` belongs to the value before.
fn job(target: &str, attempt: Option<u32>) -> Option<SnakemakeJob> {
    let (rule, rest) = target.split_once(':')?;
    let fits = rule.len() <= SchedulerLabels::MAX_VALUE_BYTES;
    if rule.is_empty() || !fits || rule.chars().any(char::is_control) {
        return None;
    }
    let mut in_quotes = false;
    let parts = rest.split(|c| {
        in_quotes ^= c == '"';
        c == ',' && !in_quotes
    });
    let mut wildcards: Vec<(String, String)> = Vec::new();
    for part in parts {
        let pair = part.split_once('=').filter(|(name, _)| is_name(name));
        if let Some((name, value)) = pair {
            if wildcards.len() == MAX_WILDCARDS {
                break;
            }
            let value = value.strip_prefix('"').unwrap_or(value);
            let value = value.strip_suffix('"').unwrap_or(value);
            wildcards.push((name.to_owned(), plain(value)));
        } else if let Some((_, value)) = wildcards.last_mut() {
            *value = plain(&format!("{value},{part}"));
        }
    }
    Some(SnakemakeJob {
        rule: rule.to_owned(),
        wildcards,
        attempt,
        run: None,
    })
}

/// The random part of the folder `.snakemake/tmp.RANDOM`, in which one process of Snakemake writes the
/// scripts of all jobs that it gives to a scheduler.
///
/// Source: `RemoteExecutor.tmpdir` and `RemoteExecutor.get_job_args` of
/// snakemake-interface-executor-plugins, `ClusterExecutor` of Snakemake 7.32, and Python's
/// `tempfile.mkdtemp`. A job has this argument only if it shares a file system with the workflow.
fn run_of(path: &str) -> Option<String> {
    const RANDOM_BYTES: usize = 8;
    let mut folders = path.split('/').skip_while(|folder| *folder != ".snakemake");
    let random = folders.nth(1)?.strip_prefix("tmp.")?;
    let is_random = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (random.len() == RANDOM_BYTES && random.bytes().all(is_random)).then(|| random.to_owned())
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    !text.is_empty() && text.len() <= SchedulerLabels::MAX_KEY_BYTES && text.chars().all(is_letter)
}

/// The text without control characters, cut to the limit of a label.
fn plain(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    SchedulerLabels::cut(text)
}

impl SnakemakeJob {
    /// The labels of the job: `step` is its rule, `task` its wildcards, `sample` the wildcard of
    /// that name, `attempt` its attempt and `run` its run. `shown` returns a name as it may leave the
    /// node.
    pub fn labels(&self, shown: impl Fn(&str) -> String) -> SchedulerLabels {
        let mut labels = SchedulerLabels::default();
        let mut add = |key: &str, value: String| {
            if !value.is_empty() {
                labels
                    .labels
                    .insert(key.to_owned(), SchedulerLabels::cut(value));
            }
        };
        add("step", shown(&self.rule));
        let wildcards: Vec<String> = self
            .wildcards
            .iter()
            .map(|(name, value)| format!("{name}={}", shown(value)))
            .collect();
        add("task", wildcards.join(","));
        let sample = self.wildcards.iter().find(|(name, _)| name == "sample");
        add(
            "sample",
            sample.map_or(String::new(), |(_, value)| shown(value)),
        );
        add(
            "attempt",
            self.attempt.map_or(String::new(), |n| n.to_string()),
        );
        let run = self.run.as_ref();
        add(
            "run",
            run.map_or(String::new(), |random| format!("{PROGRAM} {random}")),
        );
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result as one line: kind, rule, wildcards and attempt.
    fn shown(arguments: &[&str]) -> String {
        match parse(arguments.iter().copied()) {
            None => "not Snakemake".to_owned(),
            Some(Snakemake::Workflow) => "workflow".to_owned(),
            Some(Snakemake::UnnamedJobs) => "unnamed".to_owned(),
            Some(Snakemake::Delegation) => "delegation".to_owned(),
            Some(Snakemake::Job(job)) => {
                let wildcards: Vec<_> = job
                    .wildcards
                    .iter()
                    .map(|(name, value)| format!("{name}={value:?}"))
                    .collect();
                let attempt = job.attempt.map_or(String::new(), |n| format!(" #{n}"));
                let run = job.run.map_or(String::new(), |run| format!(" of {run}"));
                format!("{}({}){attempt}{run}", job.rule, wildcards.join(" "))
            }
        }
    }

    /// The arguments as Snakemake 7.32.4, 8.30.0 and 9.27.1 passed them; only their end is cut.
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    #[test]
    fn a_job_is_named_by_the_arguments_of_each_version() {
        let check = |arguments: &[&str], expect: &str| {
            assert_eq!(shown(arguments), expect, "{arguments:?}");
        };
        let with = |tail: &str, expect: &str| {
            let all = format!("/opt/bin/python3|-m|snakemake|--snakefile|/p/Snakefile|{tail}");
            check(&all.split('|').collect::<Vec<_>>(), expect);
        };
        // Version 7, a local job with `run:` and a job of `--cluster`.
        with(
            "--target-jobs|rr:s=A,n=1|--allowed-rules|rr|--cores|4|--attempt|1|\
             --force-use-threads|--quiet|--force|--rerun-triggers|code|params|--mode|1",
            r#"rr(s="A" n="1") #1"#,
        );
        with(
            "--target-jobs|rr:s=it's b,n=2|--allowed-rules|rr|--cores|all|--attempt|3|\
             --force-use-threads|--resources|mem_mb=1000|--wait-for-files|\
             /p/.snakemake/tmp.1v_vjws2|--mode|2",
            r#"rr(s="it's b" n="2") #3 of 1v_vjws2"#,
        );
        // Version 7 does not quote a comma.
        with(
            "--target-jobs|rr:s=x,y,n=1|--attempt|1|--mode|1",
            r#"rr(s="x,y" n="1") #1"#,
        );
        // Versions 8 and 9.
        with(
            "--target-jobs|rr:s=\"x,y\",n=1|--allowed-rules|rr|--cores|4|--attempt|1|\
             --force-use-threads|--force|--target-files-omit-workdir-adjustment|\
             --max-inventory-time|0|--local-storage-prefix|base64//LnNuYWtl|--quiet|\
             progress|rules|host|--mode|subprocess|--local-groupid|local",
            r#"rr(s="x,y" n="1") #1"#,
        );
        // A group of jobs, and a job of it that has its own process.
        with(
            "--target-jobs|ga:|gb:|--allowed-rules|gb|ga|--local-groupid|\
             9295d96b-eb41-5dce-b615-086880f56b08|--cores|all|--attempt|1|--wait-for-files|\
             /p/.snakemake/tmp.kj6yubph|--mode|remote",
            "unnamed",
        );
        with(
            "--target-jobs|gb:|--allowed-rules|gb|--cores|2|--attempt|1|\
             --force-use-threads|--mode|subprocess|--local-groupid|\
             9295d96b-eb41-5dce-b615-086880f56b08",
            "gb() #1",
        );
        // The batch step of a Slurm job and the step that does the work; version 7 and version 9.
        with(
            "--target-jobs|map:sample=A|--attempt|1|--slurm-jobstep|--mode|2",
            "delegation",
        );
        with(
            "--target-jobs|map:sample=A|--attempt|1|--executor|slurm-jobstep|--jobs|1|\
             --mode|remote",
            "delegation",
        );
        with(
            "--target-jobs|map:sample=A|--attempt|1|--mode|remote",
            r#"map(sample="A") #1"#,
        );
        with("--executor|slurm|--jobs|9", "workflow");
        // The jobs of one run share a folder with a random name; paths of a user do not count.
        let waits = |path: &str, expect: &str| {
            with(
                &format!("--target-jobs|r:|--wait-for-files|{path}|in/x|--mode|remote"),
                expect,
            );
        };
        waits("/p/.snakemake/tmp.kj6yubph", "r() of kj6yubph");
        waits("in/a|/p/.snakemake/tmp.kj6yubph", "r() of kj6yubph");
        waits("/p/tmp.kj6yubph", "r()");
        waits("/p/.snakemake/tmp.of_a_user", "r()");
        waits("/p/.snakemake/tmp.KJ6YUBPH", "r()");
        with(
            "--target-jobs|r:|--wait-for-files-file|\
             /p/.snakemake/tmp.kj6yubph/snakejob.r.1.sh.waitforfilesfile.txt|--mode|remote",
            "r() of kj6yubph",
        );
        // Before 7.18 a target is a file.
        with("out/a.bam|--force|--attempt|1|--mode|2", "unnamed");
        with("--cores|4|out/a.bam", "workflow");
        check(&["python3", "-m", "snakemake"], "workflow");
        check(
            &["python3", "-m", "snakemake_wrapper", "--target-jobs", "a:"],
            "not Snakemake",
        );
        check(
            &["python3", "-c", "snakemake", "--target-jobs", "a:"],
            "not Snakemake",
        );
        check(&[], "not Snakemake");
    }

    #[test]
    fn hostile_arguments_are_bounded_and_have_no_control_character() {
        let named = |target: &str| shown(&["python3", "-m", "snakemake", "--target-jobs", target]);
        assert_eq!(named("no colon"), "unnamed");
        assert_eq!(named(":s=A"), "unnamed");
        assert_eq!(named("a\u{1b}[2J:s=A"), "unnamed");
        assert_eq!(named(&format!("{}:", "r".repeat(129))), "unnamed");
        assert_eq!(named("r:s=\u{1b}[2J\n"), r#"r(s="?[2J?")"#);
        assert_eq!(named("r:no equals sign"), "r()");
        assert_eq!(named("r:a b=1,s=2"), r#"r(s="2")"#);
        assert_eq!(named("r:s=\"open,t=1"), r#"r(s="open,t=1")"#);
        let many: Vec<_> = (0..100)
            .map(|n| format!("w{n}={}", "é".repeat(500)))
            .collect();
        let target = format!("r:{}", many.join(","));
        let Some(Snakemake::Job(job)) = parse(["p", "-m", "snakemake", "--target-jobs", &target])
        else {
            panic!("one target")
        };
        assert_eq!(job.wildcards.len(), MAX_WILDCARDS);
        assert!(job.wildcards.iter().all(|(_, value)| value.len() == 128));
        let labels = job.labels(str::to_owned);
        assert!(
            labels.labels.values().all(|value| value.len() <= 128),
            "{labels:?}"
        );
        let attempt = |text| {
            shown(&[
                "p",
                "-m",
                "snakemake",
                "--target-jobs",
                "r:",
                "--attempt",
                text,
            ])
        };
        assert_eq!(attempt("2"), "r() #2");
        assert_eq!(attempt("-1"), "r()");
        assert_eq!(attempt("99999999999999999999"), "r()");
    }

    #[test]
    fn labels_contain_rule_wildcards_and_attempt_and_hide_masked_names() {
        let job = |wildcards: &[(&str, &str)], attempt| SnakemakeJob {
            rule: "map_reads".to_owned(),
            wildcards: wildcards
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            attempt,
            run: attempt.map(|_| "kj6yubph".to_owned()),
        };
        let check = |job: &SnakemakeJob, expect: &[&str]| {
            let hide = |name: &str| if name == "secret" { "***" } else { name }.to_owned();
            let labels = job.labels(hide).labels;
            let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(labels, expect);
        };
        check(&job(&[], None), &["step=map_reads"]);
        check(
            &job(&[("sample", "S1"), ("lane", "2")], Some(1)),
            &[
                "attempt=1",
                "run=snakemake kj6yubph",
                "sample=S1",
                "step=map_reads",
                "task=sample=S1,lane=2",
            ],
        );
        check(
            &job(&[("sample", "secret")], Some(2)),
            &[
                "attempt=2",
                "run=snakemake kj6yubph",
                "sample=***",
                "step=map_reads",
                "task=sample=***",
            ],
        );
    }
}
