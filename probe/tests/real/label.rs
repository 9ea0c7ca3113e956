//! Labels that a scheduler sends for a task over the probe's socket.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::machine::{Task, needs_ebpf};
use crate::probe::{Probe, Sink};
use crate::{SECOND, program};

pub(crate) fn a_step_is_told_with_the_labels_that_it_was_handed_and_with_what_was_switched_on() {
    needs_ebpf();
    let sink = Sink::new();
    let socket = sink.folder().join("label.sock");
    let config = sink.folder().join("probe.toml");
    let (place, spool) = (sink.folder().display(), sink.folder().join("spool"));
    let text = format!(
        "place = '{place}'\nspool_dir = '{}'\nlabel_socket = '{}'\ninterval_seconds = 1\n\
         sample_seconds = 1\nexport_args = true\nfiles_depth = 1\n",
        spool.display(),
        socket.display()
    );
    fs::write(&config, text).expect("a file");
    let mut command = Command::new(program());
    command.args(["run", "--config"]).arg(&config);
    let probe = Probe::spawn(command);
    let task = Task::new(None);
    let program = program();
    let program = Path::new(&program).display();
    let label = format!("{program} label --socket {}", socket.display());
    let script = format!(
        "{label} --trace-id 4bf92f35 run=r7 && {label} sample=S1 && ! {label} 'a b=c' && sleep 2",
    );
    let script = format!("exec 3>{place}/kept; {script}");
    let status = task.start(&script).wait().expect("the shell ends");
    assert!(status.success(), "{status}");
    std::thread::sleep(2 * SECOND);
    probe.stop();
    let records = sink.read();
    let ended = records.ended.iter().find(|step| step.id.key == task.id);
    let detail = &ended.expect("the task is a step").detail;
    let labels = detail.scheduler_labels.as_ref().expect("it has labels");
    assert_eq!(labels.trace_id.as_deref(), Some("4bf92f35"));
    let labels: Vec<_> = labels
        .labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(labels, ["run=r7", "sample=S1"]);
    let opened = detail.opt_in_detail.as_ref().expect("it was switched on");
    assert_eq!(opened.arguments.first().map(String::as_str), Some("sh"));
    let folder = opened
        .files
        .keys()
        .find(|cut| place.to_string().starts_with(*cut));
    let folder = folder.unwrap_or_else(|| panic!("{place} among {:?}", opened.files));
    assert_eq!(folder.matches('/').count(), 1, "{folder} is cut");
    // Tests of Snakemake run at the same time, and their tasks have labels of their own.
    let labelled = records.ended.iter().filter(|step| {
        let labels = step.detail.scheduler_labels.as_ref();
        labels.is_some_and(|labels| labels.trace_id.is_some() || labels.labels.contains_key("run"))
    });
    assert_eq!(labelled.count(), 1, "nobody else has these labels");
}
