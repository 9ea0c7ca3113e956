//! Names of scripts, jars and classes that leave the node.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::machine::Task;
use crate::probe::{Probe, Sink};
use crate::{needs_ebpf, run_task};

/// The installed programs that build and run a jar.
fn jar(folder: &Path) -> Result<(), String> {
    let source = "public class Sorter { public static void main(String[] a) throws Exception { Thread.sleep(3000); } }";
    fs::write(folder.join("Sorter.java"), source).map_err(|error| error.to_string())?;
    for (program, arguments) in [
        ("javac", "Sorter.java"),
        ("jar", "cfe sorter.jar Sorter Sorter.class"),
    ] {
        let done = Command::new(program)
            .args(arguments.split(' '))
            .current_dir(folder)
            .output();
        let done = done.map_err(|error| format!("no {program}: {error}"))?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
    }
    Ok(())
}

/// A module with the name of Snakemake is run instead of it. The job ends before the first scan.
pub(crate) fn a_job_of_snakemake_is_named_by_its_arguments_and_sends_no_other_of_them() {
    needs_ebpf();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let module = "import time\ntime.sleep(0.3)\n";
    fs::write(folder.path().join("snakemake.py"), module).expect("a file");
    let sink = Sink::new();
    let probe = Probe::start(&sink, &["--interval", "60"]);
    let task = Task::new(None);
    let script = format!(
        "cd {} && python3 -m snakemake --snakefile S --config token=hunter2 --target-jobs \
         'map:sample=S1,n=2' --allowed-rules map --attempt 3 --envvars hunter2 --mode remote",
        folder.path().display()
    );
    task.start(&script).wait().expect("the shell ends");
    probe.stop();
    let records = sink.read();
    let ended = records.ended.iter().find(|step| step.id.key == task.id);
    let ended = ended.expect("the task is a step");
    let labels = ended.detail.scheduler_labels.as_ref();
    let labels = labels.unwrap_or_else(|| panic!("it has no name: {ended:#?}"));
    let labels: Vec<_> = labels
        .labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    assert_eq!(
        labels,
        ["attempt=3", "sample=S1", "step=map", "task=sample=S1,n=2"]
    );
    assert!(!format!("{:?}", records.ended).contains("hunter2"));
}

pub(crate) fn jars_classes_and_scripts_are_told_by_their_base_names_and_nothing_else_of_the_arguments()
 {
    needs_ebpf();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let at = folder.path().display();
    fs::write(
        folder.path().join("train.py"),
        "import time\ntime.sleep(3)\n",
    )
    .expect("a file");
    fs::write(folder.path().join("sift.pl"), "sleep 3;\n").expect("a file");
    fs::write(folder.path().join("run.sh"), "sleep 3\n").expect("a file");
    let mut script =
        format!("python3 {at}/train.py --password hunter2 & perl {at}/sift.pl & sh {at}/run.sh & ");
    let mut expect = vec!["train.py", "sift.pl", "run.sh"];
    match jar(folder.path()) {
        Ok(()) => {
            script += &format!("java -jar {at}/sorter.jar & java -cp {at} Sorter & ");
            expect.extend(["sorter.jar", "Sorter"]);
        }
        Err(reason) => eprintln!("without Java: {reason}"),
    }
    let (step, _) = run_task(None, &(script + "wait"));
    let names: Vec<&str> = step.tools.iter().map(|tool| tool.name.as_str()).collect();
    for name in expect {
        assert!(names.contains(&name), "no {name} among {names:?}");
    }
    let text = format!("{step:?}");
    let folder = folder.path().to_string_lossy();
    assert!(
        !text.contains("hunter2") && !text.contains(&*folder),
        "{text}"
    );
}
