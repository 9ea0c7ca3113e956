//! Classifies processes: background, or part of a task of the workload. Pure; the caller stores the
//! results. [`path`] contains the formats of cgroup paths.

pub mod arguments;
mod launcher;
pub mod path;
pub mod pod;

use ebb_telemetry::step::{RunName, StepId, StepKind};

use crate::kernel::engine_task::EngineTask;
use crate::kernel::script::Script;
use crate::kernel::snakemake::Snakemake;
use crate::kernel::{ProcessKey, TaskKind, WorkFolder};
use crate::label_rules::{Children, Class, MASKED, Rules, Subject};

/// The class of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The process is background; the value gives the class of its children.
    Background(Children),
    /// The process is part of a task.
    Step(Step),
}

/// A task as its first process identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The identity of the task.
    pub id: StepId,
    /// A name for people.
    pub name: String,
    /// The cgroup that contains exactly this task; `None` if it has none.
    pub cgroup: Option<String>,
    /// The run that started the task; `None` if it is unknown.
    pub run: Option<RunName>,
}

/// The process that started another process.
#[derive(Debug, Clone, Copy)]
pub struct Parent<'a> {
    /// Identity of the process.
    pub key: ProcessKey,
    /// Name of the program, or of the launcher that an interpreter runs.
    pub program: &'a str,
}

/// The known facts about a process when it is classified.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Identity of the process.
    pub key: ProcessKey,
    /// User process or kernel thread.
    pub kind: TaskKind,
    /// Name of the program.
    pub program: &'a str,
    /// The script that an interpreter runs; `None` for other programs and if it is unknown.
    pub script: Option<&'a Script>,
    /// The path of its cgroup; `None` if unknown.
    pub cgroup: Option<&'a str>,
    /// Its numeric user id on the node; `None` if unknown.
    pub user: Option<u32>,
    /// The work directory, if the program is the start of a Nextflow task.
    pub work_folder: Option<&'a WorkFolder>,
    /// The work of `python -m snakemake`; `None` for any other program.
    pub snakemake: Option<&'a Snakemake>,
    /// The task that the arguments name in the form of another engine; `None` for any other program.
    pub engine_task: Option<&'a EngineTask>,
    /// The parent process; `None` if it has ended.
    pub parent: Option<Parent<'a>>,
    /// The previous class of the process, or else the class of its parent; `None` if neither is
    /// known.
    pub inherited: Option<&'a Placement>,
}

/// Classifies a process.
///
/// The first of these decides: a cgroup that a rule or a container runtime names; the start of a
/// Nextflow task, of a Snakemake job or of a task of another engine; the task of the parent. For a
/// process outside all tasks, the rules for its program decide, if its user may run daemons. Any other
/// program becomes the root of a new process tree.
pub fn classify(facts: &Facts<'_>, rules: &Rules) -> Placement {
    if facts.kind == TaskKind::Kernel || facts.key.pid == 1 {
        return Placement::Background(Children::Classified);
    }
    let subject = Subject {
        program: facts.program,
        script: facts.script.map(Script::as_str),
        cgroup: facts.cgroup,
    };
    // Users can give any name to a cgroup below their own.
    let is_of_user = || facts.cgroup.is_some_and(path::is_of_user);
    let by_cgroup = rules.by_cgroup(&subject).filter(|_| !is_of_user());
    if let Some(rule) = by_cgroup
        && rule.class == Class::Background
    {
        return Placement::Background(rule.children);
    }
    if let Some(step) = facts.cgroup.and_then(path::job) {
        return Placement::Step(in_cgroup(step));
    }
    let task = facts.work_folder;
    if let Some(task) = task.and_then(|folder| launcher::nextflow_task(folder, facts.parent)) {
        return Placement::Step(task);
    }
    let launched = launcher::snakemake_shell(facts)
        .or_else(|| launcher::snakemake_job(facts))
        .or_else(|| launcher::engine_task(facts, rules))
        .or_else(|| launcher::cwl_job(facts, rules));
    if let Some(job) = launched {
        return Placement::Step(job);
    }
    if launcher::is_script_of_slurmd(facts) {
        return Placement::Background(Children::Inherit);
    }
    let unit = facts.cgroup.and_then(path::unit);
    match facts.inherited {
        Some(Placement::Step(step)) if !has_left(step, unit.as_ref()) => {
            return Placement::Step(step.clone());
        }
        Some(Placement::Background(Children::Inherit)) => {
            return Placement::Background(Children::Inherit);
        }
        _ => {}
    }
    if by_cgroup.is_none()
        && let Some(rule) = rules.by_program(&subject)
        && rule.class == Class::Background
        && may_be_daemon(facts)
    {
        return Placement::Background(rule.children);
    }
    Placement::Step(unit.map_or_else(|| tree(facts, rules), in_cgroup))
}

/// Whether a program with the name of a daemon can be one. Users can give a program any name, so its
/// user decides. In a login, only the programs that open it are daemons.
fn may_be_daemon(facts: &Facts<'_>) -> bool {
    const OPEN_LOGINS: [&str; 4] = ["cron", "crond", "login", "systemd"];
    if !facts.cgroup.is_some_and(path::is_of_login) {
        return facts.user.is_none_or(is_system_user)
            || is_in_service_of_its_name(facts)
            || facts.cgroup.is_some_and(path::is_of_system_container);
    }
    let opens_logins = facts.program.starts_with("sshd")
        || facts.program.starts_with("systemd-")
        || OPEN_LOGINS.contains(&facts.program);
    opens_logins && (facts.user.is_none_or(|user| user == 0) || is_manager_of_user(facts))
}

/// Whether it runs in the service of systemd with its own name. Only root creates such a service, and
/// some agents have an ordinary user.
fn is_in_service_of_its_name(facts: &Facts<'_>) -> bool {
    /// The kernel keeps so much of the name of a program.
    const NAME_BYTES: usize = 15;
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    facts
        .cgroup
        .and_then(path::system_service)
        .is_some_and(|name| {
            let name = name.bytes().take(NAME_BYTES).map(plain);
            name.eq(facts.program.bytes().map(plain))
        })
}

/// Whether this is the systemd of a user, which the systemd of the node starts. Processes that lose
/// their parent below it become its children, so a user has no other such process.
///
/// Source: `user@.service(5)`; `PR_SET_CHILD_SUBREAPER` in `main.c` of systemd.
fn is_manager_of_user(facts: &Facts<'_>) -> bool {
    facts.program == "systemd"
        && facts.parent.is_some_and(|parent| parent.key.pid == 1)
        && facts.cgroup.is_some_and(path::is_of_user)
}

/// Whether a user id belongs to the system: root and users of packages, dynamic users of services, and
/// nobody, which some agents run as. People have other ids.
///
/// Source: <https://systemd.io/UIDS-GIDS/>.
fn is_system_user(user: u32) -> bool {
    matches!(user, 0..1_000 | 61_184..=65_519 | 65_534)
}

/// A process leaves a session or service when it moves to another systemd unit. It leaves any
/// other task only for a container or job, which is checked earlier.
fn has_left(step: &Step, unit: Option<&path::CgroupStep>) -> bool {
    let of_unit = matches!(step.id.kind, StepKind::Session | StepKind::Service);
    of_unit && unit.is_some_and(|unit| unit.id != step.id)
}

fn in_cgroup(step: path::CgroupStep) -> Step {
    Step {
        id: step.id,
        name: step.name,
        cgroup: Some(step.cgroup),
        run: None,
    }
}

fn tree(facts: &Facts<'_>, rules: &Rules) -> Step {
    let script = facts.script.filter(|script| rules.show(script.as_str()));
    let program = match rules.show_program(facts.program) {
        true => facts.program,
        false => MASKED,
    };
    Step {
        id: StepId {
            kind: StepKind::Tree,
            key: tree_key(facts.key),
        },
        name: script.map_or(program, Script::as_str).to_owned(),
        cgroup: None,
        run: None,
    }
}

/// The key of a process in identities of tasks and runs.
pub(crate) fn tree_key(ProcessKey { pid, start }: ProcessKey) -> String {
    format!("{pid}@{}", start.as_nanos())
}

#[cfg(test)]
mod tests {
    use ebb_telemetry::time::BootClock;

    use super::*;
    use crate::kernel::snakemake::SnakemakeJob;

    fn background() -> Placement {
        Placement::Background(Children::Classified)
    }

    fn born_in(kind: StepKind, key: &str) -> Placement {
        Placement::Step(Step {
            id: StepId {
                kind,
                key: key.into(),
            },
            name: key.into(),
            cgroup: None,
            run: None,
        })
    }

    struct Case<'a> {
        program: &'a str,
        cgroup: &'a str,
        nextflow: Option<WorkFolder>,
        inherited: Option<Placement>,
    }

    fn check(case: Case<'_>, expect: &str) {
        let facts = Facts {
            key: ProcessKey {
                pid: 7,
                start: BootClock::from_nanos(5),
            },
            kind: TaskKind::User,
            program: case.program,
            script: None,
            cgroup: Some(case.cgroup),
            user: None,
            work_folder: case.nextflow.as_ref(),
            snakemake: None,
            engine_task: None,
            parent: None,
            inherited: case.inherited.as_ref(),
        };
        let got = match classify(&facts, &Rules::built_in()) {
            Placement::Background(_) => "background".to_owned(),
            Placement::Step(step) => format!("{:?} {}", step.id.kind, step.id.key),
        };
        assert_eq!(got, expect, "{} in {}", case.program, case.cgroup);
    }

    fn case<'a>(program: &'a str, cgroup: &'a str, inherited: Option<Placement>) -> Case<'a> {
        Case {
            program,
            cgroup,
            nextflow: None,
            inherited,
        }
    }

    #[test]
    fn a_process_is_placed_by_cgroup_then_birth_then_program() {
        const TASK: &str = "0123456789abcdef0123456789abcdef";
        let in_task = format!("/ecs/{TASK}/c");
        let task = format!("EcsTask {TASK}");
        // The cgroup of a container decides, regardless of the inherited class and the program.
        check(case("python3", &in_task, Some(background())), &task);
        check(case("sshd", &in_task, None), &task);
        check(
            case("sh", &in_task, Some(born_in(StepKind::Tree, "1@1"))),
            &task,
        );
        // A known daemon is background, and so are its forks before their exec.
        check(
            case("sshd", "/system.slice/ssh.service", None),
            "background",
        );
        check(case("dockerd", "/", Some(background())), "background");
        // A user can give a program the name of an agent.
        let of_user = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.service";
        check(
            case("vector", of_user, Some(background())),
            "Session user-1000",
        );
        check(
            case("vector", "/system.slice/vector.service", None),
            "background",
        );
        // A process that a daemon starts is classified by its own program.
        check(case("bash", "/", Some(background())), "Tree 7@5");
        check(
            case(
                "bash",
                "/user.slice/user-0.slice/session-3.scope",
                Some(background()),
            ),
            "Session 3",
        );
        check(
            case("myd", "/system.slice/myd.service", Some(background())),
            "Service myd.service",
        );
        // A task keeps the processes that it starts, including daemons.
        check(
            case("cron", "/", Some(born_in(StepKind::Tree, "1@1"))),
            "Tree 1@1",
        );
        let session = born_in(StepKind::Session, "3");
        check(
            case(
                "x",
                "/user.slice/user-0.slice/session-3.scope",
                Some(session.clone()),
            ),
            "Session 3",
        );
        // A process that moves to another systemd unit belongs to that unit.
        check(
            case("x", "/system.slice/run-1.scope", Some(session)),
            "Service run-1.scope",
        );
    }

    #[test]
    fn a_nextflow_task_is_a_step_unless_a_container_holds_it() {
        let task = || WorkFolder {
            parent: "ab".into(),
            leaf: "cdef0123".into(),
        };
        let check_task = |cgroup: &str, expect: &str| {
            let inherited = Some(born_in(StepKind::Session, "3"));
            check(
                Case {
                    program: "bash",
                    cgroup,
                    nextflow: Some(task()),
                    inherited,
                },
                expect,
            );
        };
        check_task(
            "/user.slice/user-0.slice/session-3.scope",
            "NextflowTask ab/cdef0123",
        );
        check_task("/", "NextflowTask ab/cdef0123");
        check_task("/slurm/uid_0/job_5", "SlurmJob 5");
        // Its children stay in the Nextflow task, although the cgroup is that of the session.
        let inherited = Some(born_in(StepKind::NextflowTask, "ab/cdef0123"));
        check(
            case(
                "salmon",
                "/user.slice/user-0.slice/session-3.scope",
                inherited,
            ),
            "NextflowTask ab/cdef0123",
        );
    }

    /// A run is the process of the launcher, and is known only if the launcher started the task.
    #[test]
    fn the_run_of_a_step_is_the_launcher_that_started_it() {
        let check = |parent: Option<&str>, program: &str, nextflow: bool, expect: &str| {
            let folder = nextflow.then(|| WorkFolder {
                parent: "ab".into(),
                leaf: "cdef0123".into(),
            });
            let key = |pid| ProcessKey {
                pid,
                start: BootClock::from_nanos(5),
            };
            let inherited = born_in(StepKind::Session, "3");
            let facts = Facts {
                key: key(7),
                kind: TaskKind::User,
                program,
                script: None,
                cgroup: Some("/user.slice/user-0.slice/session-3.scope"),
                user: None,
                work_folder: folder.as_ref(),
                snakemake: None,
                engine_task: None,
                parent: parent.map(|program| Parent {
                    key: key(4),
                    program,
                }),
                inherited: Some(&inherited),
            };
            let Placement::Step(step) = classify(&facts, &Rules::built_in()) else {
                panic!("{program} is no background");
            };
            let run = step
                .run
                .map(|run| format!(" of {} {}", run.launcher, run.key));
            let got = format!("{:?}{}", step.id.kind, run.unwrap_or_default());
            assert_eq!(got, expect, "{parent:?} {program}");
        };
        check(Some("java"), "bash", true, "NextflowTask of nextflow 4@5");
        check(Some("sh"), "bash", true, "NextflowTask");
        check(None, "bash", true, "NextflowTask");
        check(
            Some("snakemake"),
            "bash",
            false,
            "SnakemakeJob of snakemake 4@5",
        );
        check(Some("snakemake"), "python3.12", false, "Session");
        check(Some("cwltool"), "bwa", false, "Tree of cwltool 4@5");
        // A run of Toil has several workers, so a worker is not the run.
        check(Some("_toil_worker"), "sh", false, "Tree");
        // A process that cwltool itself starts.
        check(Some("cwltool"), "node", false, "Session");
        check(Some("bash"), "bash", false, "Session");
    }

    /// A job of Snakemake is a task unless a job of a scheduler or a container is one already.
    #[test]
    fn a_job_that_snakemake_starts_is_a_task_of_its_own_outside_of_jobs() {
        let check = |inherited: Option<Placement>, what: Snakemake, cgroup: &str, expect: &str| {
            let facts = Facts {
                key: ProcessKey {
                    pid: 7,
                    start: BootClock::from_nanos(5),
                },
                kind: TaskKind::User,
                program: "python3.12",
                script: None,
                cgroup: Some(cgroup),
                user: None,
                work_folder: None,
                snakemake: Some(&what),
                engine_task: None,
                parent: None,
                inherited: inherited.as_ref(),
            };
            let got = match classify(&facts, &Rules::built_in()) {
                Placement::Background(_) => "background".to_owned(),
                Placement::Step(step) => format!("{:?} {}", step.id.kind, step.id.key),
            };
            assert_eq!(got, expect, "{inherited:?} {what:?}");
        };
        let job = || {
            Snakemake::Job(SnakemakeJob {
                rule: "map".to_owned(),
                wildcards: Vec::new(),
                attempt: Some(1),
                run: None,
            })
        };
        let own = "SnakemakeJob 7@5";
        check(None, job(), "/", own);
        check(Some(background()), job(), "/system.slice/sge.service", own);
        check(Some(born_in(StepKind::Session, "3")), job(), "/", own);
        let tree = || Some(born_in(StepKind::Tree, "1@1"));
        check(tree(), Snakemake::UnnamedJobs, "/", own);
        check(tree(), Snakemake::Workflow, "/", "Tree 1@1");
        check(
            Some(born_in(StepKind::SnakemakeJob, "6@5")),
            job(),
            "/",
            "SnakemakeJob 6@5",
        );
        check(
            Some(born_in(StepKind::NextflowTask, "ab/cd")),
            job(),
            "/",
            "NextflowTask ab/cd",
        );
        check(None, job(), "/slurm/uid_0/job_5", "SlurmJob 5");
        let inherit = Some(Placement::Background(Children::Inherit));
        check(inherit, job(), "/", "background");
    }

    /// A program that another one started, outside of all tasks.
    fn child_of<'a>(parent: &'a str, program: &'a str, cgroup: &'a str) -> Facts<'a> {
        let key = |pid| ProcessKey {
            pid,
            start: BootClock::from_nanos(5),
        };
        Facts {
            key: key(7),
            kind: TaskKind::User,
            program,
            script: None,
            cgroup: Some(cgroup),
            user: None,
            work_folder: None,
            snakemake: None,
            engine_task: None,
            parent: Some(Parent {
                key: key(4),
                program: parent,
            }),
            inherited: None,
        }
    }

    #[test]
    fn scripts_of_slurmd_and_commands_of_batch_systems_are_background() {
        let check = |parent: &str, program: &str, cgroup: &str, expect: &str| {
            let facts = child_of(parent, program, cgroup);
            let got = match classify(&facts, &Rules::built_in()) {
                Placement::Background(Children::Classified) => "classified".to_owned(),
                Placement::Background(Children::Inherit) => "inherit".to_owned(),
                Placement::Step(step) => format!("{:?} {}", step.id.kind, step.id.key),
            };
            assert_eq!(got, expect, "{parent} {program}");
        };
        check(
            "slurmd",
            "prolog",
            "/system.slice/slurmd.service",
            "inherit",
        );
        check("slurmd", "slurmstepd", "/", "classified");
        check("slurmd", "slurmd", "/", "classified");
        check("slurmstepd", "bash", "/slurm/uid_0/job_5", "SlurmJob 5");
        check("slurmd", "bash", "/slurm/uid_0/job_5", "SlurmJob 5");
        check("make", "sbatch", "/", "classified");
        check("make", "srun", "/", "classified");
        check("bash", "srun", "/slurm/uid_0/job_5", "SlurmJob 5");
        check("make", "bwa", "/", "Tree 7@5");
    }

    #[test]
    fn a_program_of_a_user_that_is_named_slurmd_hides_nothing() {
        let shell = born_in(StepKind::Tree, "shell");
        let check = |cgroup, inherited: Option<&Placement>| {
            let facts = Facts {
                inherited,
                ..child_of("slurmd", "crunch", cgroup)
            };
            let got = classify(&facts, &Rules::built_in());
            assert!(matches!(got, Placement::Step(_)), "{cgroup}: {got:?}");
        };
        check("/", Some(&shell));
        check("/user.slice/user-1000.slice/user@1000.service/x", None);
        check(
            "/user.slice/user-1000.slice/session-9.scope",
            Some(&background()),
        );
    }

    /// Whether a program that the systemd with process id `parent` started is background.
    fn is_background(program: &str, cgroup: &str, user: Option<u32>, parent: u32) -> bool {
        let key = ProcessKey {
            pid: parent,
            start: BootClock::from_nanos(1),
        };
        let of_systemd = background();
        let facts = Facts {
            user,
            parent: Some(Parent {
                key,
                program: "systemd",
            }),
            inherited: Some(&of_systemd),
            ..child_of("systemd", program, cgroup)
        };
        matches!(
            classify(&facts, &Rules::built_in()),
            Placement::Background(_)
        )
    }

    #[test]
    fn the_name_of_a_daemon_hides_no_program_of_a_person() {
        let own = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        let service = format!("{own}/run-u1.service");
        let pod = format!("{own}/kubepods-x.scope");
        for user in [1_000, 60_000, 70_000, u32::MAX - 1] {
            let check = |program: &str, cgroup: &str| {
                let got = is_background(program, cgroup, Some(user), 700);
                assert!(!got, "{program} of {user} in {cgroup}");
            };
            for name in [
                "tuned", "master", "sshd", "cron", "squeue", "runc", "systemd",
            ] {
                check(name, &service);
                check(name, "/");
            }
            check("pause", &pod);
            check("kube-proxy", &pod);
            // cron starts the shell that a crontab names, and opens no session on some systems.
            check("vector", "/system.slice/cron.service");
            check("vector", "/user.slice/user-1000.slice/session-3.scope");
        }
    }

    #[test]
    fn an_agent_with_a_system_user_of_its_own_is_background() {
        let check = |program: &str, user: Option<u32>| {
            let cgroup = format!("/system.slice/{program}.service");
            assert!(is_background(program, &cgroup, user, 1), "{program}");
        };
        check("telegraf", Some(999));
        check("node_exporter", Some(998));
        check("sshd", Some(0));
        // A dynamic user of systemd.
        check("otelcol", Some(61_184));
        check("node_exporter", Some(65_534));
        check("vector", None);
    }

    #[test]
    fn an_agent_with_an_ordinary_user_is_background_in_the_service_of_its_name() {
        let check = |program: &str, service: &str, expect: bool| {
            let cgroup = format!("/system.slice/{service}");
            let got = is_background(program, &cgroup, Some(1_001), 1);
            assert_eq!(got, expect, "{program} in {service}");
        };
        check("node_exporter", "node_exporter.service", true);
        check("node_exporter", "node-exporter.service", true);
        check("amazon-cloudwat", "amazon-cloudwatch-agent.service", true);
        check("vector", "cron.service", false);
        check("vector", "vector.service.d", false);
        // The users of an unprivileged container have other ids on the node.
        let in_container = "/lxc.payload.db/system.slice/cron.service";
        assert!(is_background("cron", in_container, Some(100_000), 1));
    }

    #[test]
    fn in_a_login_only_the_programs_that_open_it_are_background() {
        let session = "/user.slice/user-1000.slice/session-3.scope";
        let own = "/user.slice/user-1000.slice/user@1000.service";
        let manager = format!("{own}/init.scope");
        let check = |program: &str, cgroup: &str, user: u32, parent: u32, expect: bool| {
            let got = is_background(program, cgroup, Some(user), parent);
            assert_eq!(got, expect, "{program} of {user} in {cgroup}");
        };
        check("sshd-session", session, 0, 90, true);
        check("login", session, 0, 90, true);
        check("systemd", session, 0, 90, true);
        check("tuned", session, 0, 90, false);
        check("sshd", session, 999, 90, false);
        check("sshd", session, 1_000, 90, false);
        // The systemd of a user, and programs with its name.
        check("systemd", own, 1_000, 1, true);
        check("systemd", &manager, 1_000, 1, true);
        check("systemd", &manager, 1_000, 700, false);
        check("systemd", session, 1_000, 1, false);
        check("(sd-pam)", &manager, 1_000, 700, false);
    }

    #[test]
    fn the_first_process_and_kernel_threads_are_background() {
        let rules = Rules::built_in();
        let placed = |pid, kind| {
            let facts = Facts {
                key: ProcessKey {
                    pid,
                    start: BootClock::from_nanos(0),
                },
                kind,
                program: "anything",
                script: None,
                cgroup: None,
                user: None,
                work_folder: None,
                snakemake: None,
                engine_task: None,
                parent: None,
                inherited: None,
            };
            classify(&facts, &rules)
        };
        assert_eq!(placed(1, TaskKind::User), background());
        assert_eq!(placed(9, TaskKind::Kernel), background());
        assert_ne!(placed(9, TaskKind::User), background());
    }
}
