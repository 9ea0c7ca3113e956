//! Lines for the configuration of an engine, with which it reports the names of its tasks. The
//! lines contain nothing of a user, so nothing has to be escaped.
//!
//! Sources: "Process directives" and "Reports", Nextflow's documentation; "sbatch", Slurm's manual;
//! "Tag naming limits and requirements", AWS.

use std::fmt::Write;

/// Fields of Nextflow's trace that `ebb names push` and `ebb import` read.
const TRACE_FIELDS: &str = "task_id,hash,native_id,process,tag,name,status,exit,submit,start,\
                            complete,duration,realtime,%cpu,cpus,memory,time,attempt,error_action,\
                            rss,peak_rss,rchar,read_bytes,write_bytes";

/// Where Nextflow runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    /// On the machine of Nextflow itself.
    Local,
    /// As jobs of Slurm.
    Slurm,
    /// As jobs of AWS Batch.
    AwsBatch,
    /// As pods of Kubernetes.
    K8s,
    /// As jobs of Google Batch.
    GoogleBatch,
}

impl Executor {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Local,
        Self::Slurm,
        Self::AwsBatch,
        Self::K8s,
        Self::GoogleBatch,
    ];
}

/// An engine or scheduler whose configuration is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineSetup {
    /// Lines for `nextflow.config`.
    Nextflow(Executor),
    /// Lines for the profile of Snakemake.
    Snakemake,
    /// Lines for `/etc/cron.d` on the controller of Slurm.
    Slurm,
}

impl EngineSetup {
    /// The lines, with comments in the syntax of the engine.
    pub fn lines(self) -> String {
        match self {
            Self::Nextflow(executor) => nextflow(executor),
            Self::Snakemake => SNAKEMAKE.to_owned(),
            Self::Slurm => SLURM.to_owned(),
        }
    }
}

fn nextflow(executor: Executor) -> String {
    let mut text = String::new();
    if let Some(directive) = directive(executor) {
        text.push_str(directive);
        text.push('\n');
    }
    text.push_str(trace_comment(executor));
    // The fields are one string, because Nextflow's strict syntax allows no sum here.
    let _ = write!(
        text,
        "trace {{\n    enabled = true\n    raw = true\n    fields = '{TRACE_FIELDS}'\n}}\n"
    );
    text
}

/// The directive that hands over names; `None` if the hash of the work folder alone names tasks.
fn directive(executor: Executor) -> Option<&'static str> {
    match executor {
        Executor::AwsBatch => Some(AWS_BATCH),
        Executor::Slurm => Some(NEXTFLOW_ON_SLURM),
        Executor::Local | Executor::K8s | Executor::GoogleBatch => None,
    }
}

/// A tag may contain at most 256 characters, and only those that the pattern allows.
const AWS_BATCH: &str = "\
// Tags of the Batch jobs. A process with its own resourceLabels replaces them, and only the last
// setting counts: add other labels to this map.
process.resourceLabels = {
    [
        nf_process: task.process,
        nf_tag: (task.tag ?: '').toString().replaceAll('[^A-Za-z0-9 _.:/=+@-]', '_').take(256),
        nf_hash: task.hash,
        nf_attempt: \"${task.attempt}\"
    ]
}
";

/// A child of an array has the comment of the first child, so the comment has no tag then.
const NEXTFLOW_ON_SLURM: &str = "\
// Comments of the Slurm jobs. A process or profile with its own clusterOptions replaces this one:
// add other options to the text.
process.clusterOptions = {
    def tag = task.array ? '' : (task.tag ?: '').toString().replaceAll('[^A-Za-z0-9 _.:/=+@-]', '_')
    \"--comment='nf;${task.process};${tag};${task.attempt}'\"
}
";

/// The link between the tasks of an executor and the trace.
fn trace_comment(executor: Executor) -> &'static str {
    match executor {
        Executor::Local => {
            "// The trace names tasks by the hash of their work folder, also in containers of Docker and Podman.\n\
             // After the run: ebb names push TRACE --lake URL\n"
        }
        Executor::Slurm => {
            "// The trace completes the names by the work folder of the job.\n\
             // After the run: ebb names push TRACE --lake URL, and sacct as in `ebb init --engine slurm`\n"
        }
        Executor::AwsBatch => {
            "// The trace adds the run, and names the children of arrays.\n\
             // After the run: ebb names push TRACE --lake URL\n"
        }
        Executor::K8s => {
            "// The trace names pods by the hash in their names. After the run: ebb names push TRACE --lake URL\n"
        }
        Executor::GoogleBatch => {
            "// Nothing on a machine connects a task with the trace: set task_headers = true in the\n\
             // configuration of the probe. The trace is for `ebb import`.\n"
        }
    }
}

const SNAKEMAKE: &str = "\
# Names of local jobs, for the profile of Snakemake 9. It needs the plugin `ebb` in the environment
# of Snakemake, and label_socket = \"/run/ebb/label.sock\" in the configuration of the probe.
# --logger on the command line replaces this list.
logger:
  - ebb
";

const SLURM: &str = "\
# Names of jobs, for /etc/cron.d on the controller. Replace the URL by the one that `ebb sweep` reads.
# Comments of ended jobs need AccountingStoreFlags=job_comment in slurm.conf.
# Add the folder of sacct to PATH if it is another one.
PATH=/usr/local/bin:/usr/bin:/bin
*/15 * * * * root SLURM_TIME_FORMAT=\\%s sacct -D -a --parsable2 --starttime=now-1hour --format=JobID,JobIDRaw,State,Elapsed,Start,End,ReqMem,ReqCPUS,AllocCPUS,NNodes,WorkDir,JobName,Comment | ebb names push - --lake s3://bucket/ebb
";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::import::task_names::{NameSettings, TaskNames};
    use crate::import::{Import, Source};

    fn page(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src");
        fs::read_to_string(folder.join(name)).expect("a page")
    }

    /// The lines of a text without comments and without indentation, because a list indents a block.
    fn plain(text: &str) -> String {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("//") && !line.starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_pages_show_what_is_written() {
        let check = |name: &str, text: &str| {
            assert!(
                plain(&page(name)).contains(plain(text).trim()),
                "{name}: {text}"
            );
        };
        check("step-names.md", AWS_BATCH);
        check("step-names.md", NEXTFLOW_ON_SLURM);
        check("slurm.md", SLURM);
        check("step-names.md", SNAKEMAKE);
    }

    #[test]
    fn cron_finds_ebb_where_the_installer_puts_it() {
        let lines = SLURM.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines[0], "PATH=/usr/local/bin:/usr/bin:/bin");
        assert!(lines[1].starts_with("*/15 * * * * root "), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn each_executor_has_a_trace_and_what_it_can_hand_over() {
        for executor in Executor::ALL {
            let lines = EngineSetup::Nextflow(executor).lines();
            assert_eq!(lines.matches("trace {").count(), 1, "{executor:?}");
            let directives = lines.matches("\nprocess.").count();
            let hands_over = matches!(executor, Executor::Slurm | Executor::AwsBatch);
            assert_eq!(directives, usize::from(hands_over), "{executor:?}");
            assert!(lines.lines().all(|line| line.len() <= 240), "{executor:?}");
        }
    }

    #[test]
    fn a_trace_with_the_fields_lacks_nothing() {
        let header = TRACE_FIELDS.replace(',', "\t");
        let row = "1\tab/cdef12\t7\tA:B\tS1\tA:B (S1)\tCOMPLETED\t0\t1795132800000\t1795132800000\t\
                   1795132860000\t60000\t60000\t98.5\t2\t1073741824\t3600000\t2\t-\t1024\t2048\t1\t2\t3";
        let text = format!("{header}\n{row}\n");
        let source = Source {
            path: "trace.txt",
            kind: None,
            modified: None,
        };
        let mut import = Import::default();
        let bad = import
            .read(&source, text.as_bytes(), |_| ())
            .expect("it is read");
        assert_eq!(bad.first, []);
        let mut names = TaskNames::new(NameSettings {
            now: jiff::Timestamp::MAX,
            ..NameSettings::default()
        });
        names
            .read(&source, text.as_bytes(), |_| ())
            .expect("it is read");
        assert_eq!(names.notes().count(), 0);
        let records = names.finish();
        assert_eq!(records[0].attempt, Some(2));
        assert_eq!(records[0].step.as_str(), "A:B");
    }
}
