//! Names of scripts, jars and classes that leave the node.

use std::fs;
use std::path::Path;
use std::process::Command;

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
    let told = format!("{step:?}");
    let folder = folder.path().to_string_lossy();
    assert!(
        !told.contains("hunter2") && !told.contains(&*folder),
        "{told}"
    );
}
