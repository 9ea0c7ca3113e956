//! Tests of the names that tasks get from the scripts of Nextflow.

use super::snakemake::names;
use super::*;
use crate::kernel::WorkFolder;
use crate::kernel::task_header::TaskHeader;

/// The start of a script; `header` is its line with the name.
fn started(pid: u32, cgroup: CgroupId, header: &str) -> ProcessEvent {
    ProcessEvent::Executed {
        process: process(pid, 3_000, 60, cgroup, "bash"),
        maxrss_before: Bytes(0),
        start: Start {
            work_folder: Some(WorkFolder {
                parent: "tmp".to_owned(),
                leaf: "nxf.0123456789".to_owned(),
            }),
            task_header: TaskHeader::parse(header.as_bytes()),
            ..Start::default()
        },
    }
}

#[test]
fn the_script_of_a_container_names_it_unless_it_runs_several_tasks() {
    let check = |headers: &[&str], labels: &str| {
        let mut aggregator = aggregator();
        run_in_task(&mut aggregator, 60, 2_000);
        for (pid, header) in (61..).zip(headers) {
            aggregator.event(started(pid, TASK_CGROUP, header));
        }
        let expect = format!("EcsTask 0123{labels}");
        assert_eq!(names(&mut aggregator), [expect], "{headers:?}");
    };
    let (a, b) = ("### name: 'QC (S1)'", "### name: 'QC (S2)'");
    check(&[a], " sample=S1 step=QC task=S1");
    check(&["### name: 'QC (1)'"], " step=QC task=1");
    // The script starts itself again to measure the task.
    check(&[a, a], " sample=S1 step=QC task=S1");
    // A workflow in a Slurm job or in a container.
    check(&[a, b], "");
    check(&[a, b, a], "");
    check(&["set -e"], "");
}
