//! Files and arguments that try to act on a terminal or to hold the program up.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Escape sequences in each form: CSI, OSC, C1, DEL and a turned direction of writing.
const EVIL: &str = "a\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}1m\u{7f}\u{202e}\u{2066}z";

fn ebb(line: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(line).env_clear().env("HOME", "/nowhere");
    command.output().expect("the program starts")
}

/// Characters of a text that control a terminal.
fn acts(text: &str) -> Vec<char> {
    let acts = |c: char| {
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || c.is_control() && !matches!(c, '\n' | '\t')
    };
    // Lines of CSV end with two characters.
    let text = text.replace("\r\n", "\n");
    text.chars().filter(|c| acts(*c)).collect()
}

fn check(line: &[&str], status: i32) -> String {
    let output = ebb(line);
    let all = [output.stdout, output.stderr].concat();
    let all = String::from_utf8(all).expect("text");
    assert_eq!(acts(&all), [], "{line:?}: {all:?}");
    assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
    all
}

fn written(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("it is written");
    path.to_str().expect("text").to_owned()
}

/// Every name and text of a report, made hostile; what has a form keeps it.
fn spoil(value: &mut Value) {
    const TEXTS: [&str; 9] = [
        "name", "reason", "advice", "command", "owner", "scope", "step", "pipeline", "job",
    ];
    // In place of a name in costs.
    const FORMS: [&str; 2] = ["unknown", "others"];
    match value {
        Value::Array(all) => all.iter_mut().for_each(spoil),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text)
                        if TEXTS.contains(&key.as_str()) && !FORMS.contains(&text.as_str()) =>
                    {
                        text.push_str(EVIL);
                    }
                    other => spoil(other),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn no_file_and_no_argument_acts_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &str| written(folder.path(), name, content);

    let metrics = file(
        &format!("m{EVIL}.csv"),
        &format!(
            "timestamp,resource_id,cpu_pct,region,{EVIL}\n0,{EVIL},1\n300,a,{EVIL}\n{EVIL},a,1\n\
             600,a,1,{EVIL}\n900,a,1\n1200,a,1\n"
        ),
    );
    for format in ["table", "json", "csv", "markdown", "html", "focus", "sarif"] {
        check(&["scan", "--metrics", &metrics, "--format", format], 0);
    }
    check(&["scan", "--metrics", &metrics, "--explain", EVIL], 1);
    check(&["scan", "--metrics", &metrics, "--explain", "a"], 0);

    for (at, policy) in [
        format!("[idle]\n{EVIL} = 1\n"),
        format!("[idle]\n\"{EVIL}\" = 1\n"),
        "[idle]\n\"\\u001b[31m\\u009b\" = 1\n".to_owned(),
        format!("[[exempt]]\nowner = \"{EVIL}\"\nreason = \"x\"\n"),
        "[[route]]\nowner = \"\\u001b]0;x\\u0007\"\nslack = \"\\u009b\"\n".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let policy = file(&format!("p{EVIL}{at}.toml"), policy);
        let line = ["policy", "check", &policy];
        let output = ebb(&line);
        let code = output.status.code().expect("it ended by itself");
        check(&line, code);
        check(&["policy", "diff", &policy], code);
    }

    let trace = file(
        &format!("t{EVIL}.txt"),
        &format!(
            "task_id\thash\tname\tstatus\texit\trealtime\tpeak_rss\tcpus\tmemory\n\
             1\taa/bb\t{EVIL} (s)\tCOMPLETED\t0\t5m\t1 GB\t2\t4 GB\n2\taa/bc\tx\t{EVIL}\t0\t{EVIL}\t1\t1\t1\n"
        ),
    );
    for format in ["table", "json", "nextflow", "snakemake", "slurm"] {
        let output = ebb(&["import", &trace, "--format", format]);
        let code = output.status.code().expect("it ended by itself");
        check(&["import", &trace, "--format", format], code);
    }

    let catalogue = file(&format!("c{EVIL}.json"), &format!("{{\"{EVIL}\": 1}}"));
    check(&["catalog", "show", "--file", &catalogue], 1);
    for line in [
        vec!["scan", EVIL],
        vec!["scan", "--kind", EVIL],
        vec!["scan", "--format", EVIL],
        vec!["scan", "--time-zone", EVIL],
        vec!["scan", "--region", EVIL],
        vec!["scan", "--output", &format!("x.{EVIL}"), "--demo"],
    ] {
        check(&line, 2);
    }
    check(&["catalog", "show", EVIL], 1);
    check(&["scan", "--metrics", EVIL], 1);
}

#[test]
fn no_report_acts_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let demo = ebb(&["scan", "--demo", "--format", "json"]);
    let mut report: Value = serde_json::from_slice(&demo.stdout).expect("JSON");
    spoil(&mut report);
    let report = written(folder.path(), "report.json", &report.to_string());
    let reported = |rest: &[&str], status: i32| {
        let all = check(&[&["tune", "--report", &report], rest].concat(), status);
        assert!(!all.contains("not an Ebb report"), "{all}");
    };
    reported(&[], 0);
    reported(&["--format", "json"], 0);
    reported(&[EVIL], 1);
    reported(&["pipeline", EVIL], 1);
    reported(&["node", EVIL], 1);
}

#[test]
fn an_endless_or_huge_file_is_an_error_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let wide = format!("timestamp,resource_id{}\n0,a\n", ",x".repeat(300_000));
    let wide = written(folder.path(), "wide.csv", &wide);
    let wide_trace = format!(
        "task_id\tname\tstatus{}\n1\ta\tCOMPLETED\n",
        "\tx".repeat(300_000)
    );
    let wide_trace = written(folder.path(), "wide.txt", &wide_trace);
    let timed = |line: &[&str], status: i32, expect: &str| {
        let begun = Instant::now();
        let all = check(line, status);
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{line:?}");
    };
    timed(&["scan", "--metrics", "/dev/zero"], 1, "NUL byte");
    timed(&["import", "/dev/zero"], 1, "NUL byte");
    timed(&["policy", "check", "/dev/zero"], 1, "more than 1 MiB");
    timed(&["tune", "--report", "/dev/zero"], 1, "more than 256 MiB");
    timed(
        &["catalog", "show", "--file", "/dev/zero"],
        1,
        "more than 64 MiB",
    );
    timed(&["scan", "--metrics", &wide], 1, "more than 1000 columns");
    let begun = Instant::now();
    ebb(&["import", &wide_trace]);
    assert!(begun.elapsed() < Duration::from_secs(20));
}
