//! The program from outside: what it prints, and the status it ends with.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::process::{Child, Command, Output, Stdio};

use ebb_telemetry::money::Usd;

/// With an environment in which there are no credentials and no home.
fn ebb(line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(line).env_clear();
    command
        .env("HOME", "/nowhere")
        .env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// A user without rights.
const NOBODY: u32 = 65_534;

/// The program as [`NOBODY`], which only root can start.
fn ebb_as_nobody(line: &[&str]) -> Command {
    use std::os::fd::IntoRawFd;
    use std::os::unix::process::CommandExt;

    // The folder of the program may be closed to other users, so the child opens no path of it.
    let program = fs::File::open(env!("CARGO_BIN_EXE_ebb")).expect("the program");
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::empty()).expect("it is inherited");
    let mut command = Command::new(format!("/proc/self/fd/{}", program.into_raw_fd()));
    command.args(line).env_clear();
    command.uid(NOBODY).gid(NOBODY);
    command
}

/// A server, with its address. The command is one of `ebb serve`.
fn start_server(mut command: Command) -> (Child, String) {
    let mut server = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let out = server.stdout.take().expect("its output");
    let mut line = String::new();
    BufReader::new(out)
        .read_line(&mut line)
        .expect("its address");
    let address = line.trim_end().strip_suffix("/  pages, for a browser");
    let address = address.and_then(|line| line.strip_prefix("http://"));
    let address = address.expect("an address").to_owned();
    (server, address)
}

fn run(line: &[&str]) -> Output {
    ebb(line).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn the_status_tells_how_it_ended() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(line);
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["scan", "--demo"], 0, "in 8 findings with");
    check(&["findings", "list"], 2, "findings list needs a report");
    check(&["scan", "--demo", "--exit-code"], 3, "in 8 findings with");
    check(
        &["scan", "--demo", "--exit-code", "--region", "eu-north-1"],
        0,
        "No waste found",
    );
    check(&["--help"], 0, "Exit status:");
    check(&["scan", "--help"], 0, "Examples:");
    check(&["doctor", "--help"], 0, "Exit status:");
    check(&["--version"], 0, "ebb 0.");
    check(&[], 2, "Usage:");
    check(&["scan", "--demon"], 2, "--demo");
    check(
        &["scan", "--demo", "--profile", "x"],
        2,
        "cannot be used with",
    );
    check(&["scan", "--demo", "--region", "no region"], 2, "no region");
    check(
        &["scan", "--region", "xx"],
        2,
        "expected the name of a region",
    );
    check(
        &["scan", "--region", "eu-cental-1"],
        2,
        "did you mean eu-central-1?",
    );
    check(
        &["scan", "--demo", "--output", "x.pdf"],
        2,
        "unknown format for the extension .pdf",
    );
    check(
        &["scan", "--demo", "--time-zone", "Europe/Nowhere"],
        2,
        "expected a time zone",
    );
    check(
        &["scan", "--demo", "--format", "yaml"],
        2,
        "possible values: table, json, html, csv",
    );
    check(&["policy", "show"], 0, "after_seconds = 1800 # 30 min");
    check(
        &["scan", "--demo", "--output", "/nowhere/x.html"],
        1,
        "failed to write /nowhere/x.html",
    );
}

#[test]
fn advice_is_written_for_schedulers_and_says_why_it_is_not() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(&[&["tune", "--demo"], line].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["--format", "slurm"], 0, "#SBATCH --cpus-per-task=3\n");
    check(
        &["--format", "nextflow", "--with-retry"],
        0,
        "maxRetries = 2",
    );
    check(&["--format", "batch"], 0, "us-east-1 variant-call 3 ");
    // The environment of the demo is on spot, and no spot price is known.
    for form in [
        "batch-environment",
        "launch-template",
        "asg",
        "terraform-asg",
    ] {
        let line = ["environment", "align", "--format", form];
        check(&line, 1, "it runs on spot");
    }
    check(
        &["--format", "slurm", "--output", "x/"],
        1,
        "must be a file",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("{}/", folder.path().display());
    check(&["--format", "asg", "--output", &name], 0, "Wrote ");
    let file = folder.path().join("tuned-eu-central-1-x86_64.json");
    let written = fs::read_to_string(file).expect("a file for each");
    assert!(
        !written.contains(".large"),
        "a step needs 16 vCPU: {written}"
    );
    let nothing = run(&["import", "x", "--snakefile", "/nowhere/Snakefile"]);
    let stderr = text(&nothing.stderr);
    assert!(
        stderr.contains("/nowhere/Snakefile does not exist"),
        "{stderr}"
    );
    let refuse_folder = |expect: &str| {
        let folder = folder.path().to_str().expect("a path");
        let ran = run(&["import", "x", "--snakefile", folder]);
        let stderr = text(&ran.stderr);
        assert!(stderr.contains(expect), "{stderr}");
    };
    refuse_folder("is a folder\n");
    let inner = folder.path().join("Snakefile");
    fs::write(&inner, "").expect("a file");
    refuse_folder(&format!("is a folder\n  use {}", inner.display()));
}

#[test]
fn the_same_account_gives_the_same_bytes() {
    for format in ["json", "html", "csv", "table"] {
        let once = run(&["scan", "--demo", "--format", format]);
        let again = run(&["scan", "--demo", "--format", format]);
        assert!(once.status.success() && !once.stdout.is_empty());
        assert!(once.stdout == again.stdout, "{format}");
    }
}

#[test]
fn the_report_is_json_of_its_schema() {
    let output = run(&["scan", "--demo", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema"], "ebb.report/2");
    assert_eq!(report["origin"], "simulated");
    assert_eq!(report["at"], "2026-03-04T12:00:00Z");
}

#[test]
fn a_file_takes_the_form_of_its_ending_and_nothing_goes_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, begins: &str| {
        let path = folder.path().join(name);
        let output = run(&["scan", "--demo", "-o", path.to_str().expect("a name")]);
        assert!(output.status.success() && output.stdout.is_empty());
        assert!(text(&output.stderr).starts_with("Wrote "));
        let written = fs::read_to_string(path).expect("the file");
        assert!(written.starts_with(begins), "{name}: {written:.80}");
    };
    check("waste.html", "<!doctype html>");
    check("waste.json", "{\n  \"schema\"");
    check("waste.csv", "id,kind,resource");
    check("waste.txt", "SIMULATED");
}

#[test]
fn a_bad_policy_is_named_by_file_line_and_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[idle]\nafter = 30\n").expect("a file");
    let name = path.to_str().expect("a name");
    for line in [
        vec!["policy", "check", name],
        vec!["scan", "--demo", "--policy", name],
    ] {
        let output = run(&line);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(
            stderr.starts_with(&format!("ebb: {name}:2: idle.after: unknown field")),
            "{stderr}"
        );
    }
}

#[test]
fn a_policy_changes_what_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[idle]\nafter_seconds = 14400\n").expect("a file");
    let name = path.to_str().expect("a name");
    let patient = run(&["scan", "--demo", "--policy", name]);
    assert!(!text(&patient.stdout).contains("notebook-gpu"));
    assert!(text(&run(&["scan", "--demo"]).stdout).contains("notebook-gpu"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = ebb(&["scan", "--demo", "--format", "html"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let mut stderr_text = String::new();
    let stderr = child.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut stderr_text).expect("text");
    assert_eq!(
        (child.wait().expect("it ends").code(), stderr_text.as_str()),
        (Some(0), "")
    );
}

#[test]
fn readers_that_go_away_make_nothing_panic() {
    let trace = "name\tstatus\texit\trealtime\tpeak_rss\tmemory\nX\tCOMPLETED\t0\tsoon\t-\t-\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.txt");
    fs::write(&path, trace).expect("a file");
    let name = path.to_str().expect("a name");
    let out = folder.path().join("waste.html");
    let out = out.to_str().expect("a name");
    for line in [
        &["scan", "--demo"][..],
        &["scan", "--demo", "-o", out],
        &["scan", "--demo", "--explain", "i-nothing"],
        &["tune", "--demo"],
        &["tune"],
        &["serve"],
        &["import", name],
        &["catalog", "show"],
        &["policy", "show"],
        &["doctor", "machine"],
        &["--help"],
        &["nonsense"],
    ] {
        let mut child = ebb(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        drop((child.stdout.take(), child.stderr.take()));
        let status = child.wait().expect("it ends");
        // A panic ends with 101, a signal with none.
        assert!(
            matches!(status.code(), Some(0..=3)),
            "{line:?} ended with {status}"
        );
    }
}

#[test]
fn times_are_in_the_zone_that_is_asked_for() {
    let check = |zone: Option<&str>, more: &[&str], expect: &str| {
        let line = [&["scan", "--demo"][..], more].concat();
        let mut command = ebb(&line);
        command.envs(zone.map(|zone| ("TZ", zone)));
        let output = command.output().expect("it starts");
        let written = text(&output.stdout);
        assert!(written.contains(expect), "{zone:?} {more:?}: {written}");
    };
    let berlin = ["--time-zone", "Europe/Berlin"];
    check(None, &[], "2026-03-04 12:00 UTC · ");
    check(Some("America/New_York"), &[], "2026-03-04 07:00 EST · ");
    check(Some("America/New_York"), &berlin, "2026-03-04 13:00 CET · ");
    check(
        None,
        &[&berlin[..], &["--format", "markdown"]].concat(),
        "2026-03-04 13:00 CET",
    );
    check(
        None,
        &[&berlin[..], &["--format", "html"]].concat(),
        "2026-03-04 13:00 CET",
    );
    check(
        None,
        &[&berlin[..], &["--format", "json"]].concat(),
        "\"2026-03-04T12:00:00Z\"",
    );
    let mut wrong = ebb(&["scan", "--demo"]);
    let output = wrong.env("TZ", "Mars/Base").output().expect("it starts");
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("is not a time zone; times are in UTC"));
    assert!(text(&output.stdout).contains("2026-03-04 12:00 UTC"));
}

#[test]
fn a_scan_shows_the_findings_that_are_asked_for() {
    let check = |more: &[&str], expect: &[&str], left_out: &str| {
        let line = [&["scan", "--demo", "--format", "csv"][..], more].concat();
        let output = run(&line);
        let written = text(&output.stdout);
        let ids: Vec<&str> = written
            .lines()
            .skip(1)
            .filter_map(|line| line.split('/').next())
            .collect();
        assert_eq!(ids, expect, "{more:?}");
        let table = run(&[&["scan", "--demo"][..], more].concat());
        assert!(text(&table.stdout).contains(left_out), "{left_out}");
    };
    check(
        &["--owner", "ben"],
        &["idle_node"],
        "9 findings are not shown",
    );
    check(
        &["--kind", "overprovisioned-step", "--min-saving", "100"],
        &["overprovisioned_step"],
        "Filter: kind overprovisioned_step, saving of at least $100.00 a month",
    );
    check(
        &["--tag", "Name=ci-runner"],
        &["idle_node"],
        "$283.24 a month in 1 finding",
    );
    check(
        &["--owner", "nobody here"],
        &[],
        "No finding matches the filter.",
    );
}

#[test]
fn what_is_piped_has_no_colour() {
    let mut command = ebb(&["scan", "--demo"]);
    let output = command
        .env("TERM", "xterm-256color")
        .output()
        .expect("it starts");
    assert!(!text(&output.stdout).contains('\x1b'));
}

#[test]
fn the_doctor_tells_of_this_machine_in_both_forms() {
    let output = run(&["doctor", "machine", "--format", "json"]);
    let sections: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = sections[0]["checks"].as_array().expect("checks");
    assert!(checks.len() >= 4);
    let missing = checks.iter().any(|check| check["state"] == "missing");
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    for check in checks.iter().filter(|check| check["state"] == "missing") {
        assert!(check["remedy"].is_string(), "{check}");
    }
    let table = run(&["doctor", "machine"]);
    assert!(text(&table.stdout).starts_with("This machine (for the probe)\n"));
}

#[cfg(not(feature = "aws"))]
#[test]
fn without_aws_the_command_that_builds_it_is_said() {
    let scan = run(&["scan", "--region", "eu-west-1"]);
    assert_eq!(scan.status.code(), Some(1));
    assert!(text(&scan.stderr).contains("cargo run --release -p ebb-cli --features aws -- scan"));
    let doctor = run(&["doctor", "account"]);
    assert!(text(&doctor.stdout).contains("not checked  credentials"));
    assert!(text(&doctor.stdout).contains("--features aws -- doctor"));
}

#[cfg(feature = "aws")]
#[test]
fn without_credentials_it_says_how_to_get_them() {
    let scan = run(&["scan", "--region", "eu-west-1"]);
    assert_eq!(scan.status.code(), Some(1));
    let stderr = text(&scan.stderr);
    assert!(
        stderr.starts_with("ebb: failed to use the AWS credentials"),
        "{stderr}"
    );
    assert!(stderr.contains("aws configure"), "{stderr}");
    let doctor = run(&["doctor", "account"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(text(&doctor.stdout).contains("missing      credentials"));
}

#[cfg(feature = "aws")]
#[test]
fn the_remedy_for_credentials_follows_their_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    let sso = "[profile lab]\nregion = eu-west-1\nsso_session = s\nsso_account_id = 1\n\
        sso_role_name = r\n[sso-session s]\nsso_start_url = https://x\nsso_region = eu-west-1\n";
    fs::write(&config, sso).expect("a file");
    let check = |line: &[&str], variables: &[(&str, &str)], expect: &str| {
        let output = ebb(&[line, &["--region", "eu-west-1"]].concat())
            .env("AWS_CONFIG_FILE", &config)
            .envs(variables.iter().copied())
            .output();
        let output = output.expect("the program starts");
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(1), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    let none = "\n  no profile nope in the AWS configuration";
    check(&["scan", "--profile", "nope"], &[], none);
    let export = "export-credentials --profile 'lab' --format env";
    check(&["scan", "--profile", "lab"], &[], export);
    check(&["scan"], &[("AWS_PROFILE", "lab")], export);
    let keys = [
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("all_proxy", "http://127.0.0.1:1"),
    ];
    check(&["scan"], &keys, "\n  AWS did not answer; all_proxy names");
    let bucket = ["doctor", "deployment", "--bucket", "nope"];
    check(&bucket, &keys, "-> AWS did not answer; all_proxy names");
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
fn steps_are_tuned_from_the_demo_account_or_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let name = path.to_str().expect("a name");
    assert!(run(&["scan", "--demo", "-o", name]).status.success());
    let of_demo = run(&["tune", "--demo"]);
    let table = text(&of_demo.stdout);
    assert!(of_demo.status.success() && table.starts_with("SIMULATED"));
    assert!(table.contains("variant-call") && table.contains("OOM RISK"));
    assert!(run(&["tune", "--report", name]).stdout == of_demo.stdout);

    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(line);
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    let step = "variant-call";
    check(&["tune", "--demo", "--exit-code"], 3, step);
    check(&["tune", "--demo", "polish", "--exit-code"], 0, "polish");
    check(&["tune", "--demo", "nothing"], 1, "no step 'nothing'");
    check(&["tune", "--demo", "variant"], 1, "similar: variant-call");
    check(&["tune", name], 1, "is a file");
    check(&["tune"], 2, "ebb import trace.txt");
    let target = |words: [&'static str; 2], expect: &str| {
        check(&["tune", "--demo", words[0], words[1]], 0, expect);
    };
    target(["pipeline", "assembly"], "190 x polish");
    target(["environment", "align"], "types     m5");
    // It needs 19.2 vCPUs with headroom, and a type with the same 16 is cheaper.
    target(["node", "i-0a3c5e7f9b1d2e468"], "with less headroom");
    let form = |form| ["tune", "--demo", "pipeline", "assembly", "--format", form];
    check(&form("nextflow"), 0, "withName: 'fastqc'");
    check(&form("json"), 0, "\"together\"");
    check(
        &["tune", "--demo", "pipeline", "x"],
        1,
        "available: assembly",
    );
    check(
        &["tune", "--demo", "boat", "x"],
        1,
        "expected pipeline, environment or node",
    );
    check(&["tune"], 2, "ebb tune --report report.json");
    check(&["serve"], 2, "ebb serve --demo");
    check(&["tune", "--demo", "--report", name], 2, "cannot be used");
    check(
        &["tune", "--report", "/nowhere"],
        1,
        "failed to read /nowhere",
    );
    check(&["tune", "--help"], 0, "Examples:");
    check(
        &["tune", "--demo", step, "--format", "nextflow"],
        0,
        "withName: 'variant",
    );
    check(
        &["tune", "--demo", step, "--format", "batch"],
        0,
        "\"MEMORY\"",
    );
    check(
        &["tune", "--demo", step, "--format", "json"],
        0,
        "ebb.tune/2",
    );
}

#[test]
fn files_of_workflow_systems_are_imported_and_bad_lines_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.txt");
    let name = path.to_str().expect("a name");
    let good = "ALIGN (a)\tCOMPLETED\t0\t3m\t1.5 GB\t16 GB\n";
    let head = "name\tstatus\texit\trealtime\tpeak_rss\tmemory\n";
    fs::write(
        &path,
        [head, good, "X\tCOMPLETED\t0\tsoon\t-\t-\n"].concat(),
    )
    .expect("a file");
    let output = run(&["import", name]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let bad = format!("{name}:3: realtime: invalid value 'soon'; skipped");
    assert!(stderr.contains(&bad), "{stderr}");
    let shown = text(&output.stdout);
    assert!(shown.starts_with("1 task of 1 step in 1 run"), "{shown}");
    assert!(shown.contains("1 line was skipped"), "{shown}");
    assert!(text(&output.stdout).contains("ALIGN"));

    // From standard input, as one step with its reasons, and as JSON.
    let piped = |arguments: &[&str]| {
        let mut command = ebb(&[&["import", "-"], arguments].concat());
        let input = fs::File::open(&path).expect("the file");
        command.stdin(input).output().expect("it runs")
    };
    assert!(text(&piped(&["--step", "ALIGN"]).stdout).contains("based on"));
    assert_eq!(piped(&["--step", "SORT"]).status.code(), Some(1));
    let json: serde_json::Value =
        serde_json::from_slice(&piped(&["--format", "json"]).stdout).expect("JSON");
    assert_eq!(json["totals"]["tasks"], 1);
    assert_eq!(json["runs"][0], "standard input");

    // A file that cannot be used does not hide the others.
    let other = folder.path().join("other.txt");
    fs::write(&other, "a,b\n").expect("a file");
    let output = run(&["import", other.to_str().expect("a name"), name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("ALIGN"));

    fs::write(&path, "a,b\n").expect("a file");
    let output = run(&["import", name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--kind"));
    assert_eq!(run(&["import"]).status.code(), Some(2));
}

#[test]
fn a_failed_attempt_shows_in_the_peak_and_in_what_the_sums_lack() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.txt");
    let trace = "name\tstatus\texit\trealtime\t%cpu\tpeak_rss\tcpus\tmemory\n\
                 ALIGN (a)\tCOMPLETED\t0\t3m\t150%\t1.5 GB\t2\t16 GB\n\
                 ALIGN (b)\tFAILED\t137\t1m\t-\t-\t2\t16 GB\n\
                 SORT (a)\tCOMPLETED\t0\t3m\t150%\t1.5 GB\t2\t16 GB\n";
    fs::write(&path, trace).expect("a file");
    let output = run(&["import", path.to_str().expect("a name")]);
    let shown = text(&output.stdout);
    let row = |step: &str| shown.lines().find(|line| line.starts_with(step));
    assert!(
        row("ALIGN").is_some_and(|row| row.contains(" over 16.0 GiB ")),
        "{shown}"
    );
    assert!(
        row("SORT").is_some_and(|row| row.contains(" 1.5 GiB ")),
        "{shown}"
    );
    let lack = "without 1 attempt whose request or use is unknown";
    assert_eq!(shown.matches(lack).count(), 2, "{shown}");
}

#[test]
fn files_with_the_same_error_are_counted_and_a_folder_says_what_to_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut line = vec!["import".to_owned()];
    for n in 0..5 {
        let path = folder.path().join(format!("S{n}.align.txt"));
        fs::write(&path, "s\th:m:s\tmax_rss\n61.5\t0:01:01\t700.0\n").expect("a file");
        line.push(path.to_str().expect("a name").to_owned());
    }
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let output = run(&line);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("--benchmark-pattern").count(), 4, "{stderr}");
    assert!(stderr.contains("ebb: 2 more files: "), "{stderr}");
    let output = run(&["import", folder.path().to_str().expect("a name")]);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("it is a folder: name its files"),
        "{stderr}"
    );
}

#[test]
fn a_format_of_another_engine_says_which_one_fits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.txt");
    let name = path.to_str().expect("a name");
    let head = "name\tstatus\texit\trealtime\tpeak_rss\tmemory\n";
    let task = "NF:ALIGN (a)\tCOMPLETED\t0\t3m\t1.5 GB\t16 GB\n";
    fs::write(&path, [head, task].concat()).expect("a file");
    let check = |format: &str, expect: bool| {
        let output = run(&["import", name, "--format", format]);
        let says = text(&output.stderr).contains("use --format nextflow");
        assert_eq!(says, expect, "{format}");
    };
    check("nextflow", false);
    check("table", false);
    for format in ["snakemake", "slurm", "batch", "terraform"] {
        check(format, true);
    }
    let by_end = run(&["import", name, "--step", "ALIGN"]);
    assert!(text(&by_end.stdout).contains("NF:ALIGN"));
}

#[test]
fn the_api_is_served_on_loopback_from_a_report() {
    use std::io::Write;
    let (mut server, address) = start_server(ebb(&["serve", "--demo"]));
    let ask = |request: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it takes it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let check = |request: &str, status: &str, expect: &str| {
        let answer = ask(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains(expect), "{answer}");
    };
    let host = "Host: 127.0.0.1:1\r\n\r\n";
    check(
        &format!("GET /v1/steps?limit=1 HTTP/1.1\r\n{host}"),
        "200",
        "variant-call",
    );
    check(
        &format!("GET /v1/openapi.json HTTP/1.1\r\n{host}"),
        "200",
        "\"3.1.0\"",
    );
    check(
        &format!("GET / HTTP/1.1\r\n{host}"),
        "200",
        "<title>Overview · Ebb</title>",
    );
    check(
        &format!("POST /v1/steps HTTP/1.1\r\n{host}"),
        "405",
        "allow: GET",
    );
    check(
        "GET /v1/steps HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "421",
        "loopback",
    );
    check("hello\r\n\r\n", "400", "");
    server.kill().expect("it ends");
    server.wait().expect("it ended");
}

#[test]
fn a_deployment_in_a_folder_answers_and_keeps_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    let latest = folder.path().join("reports/latest");
    std::fs::create_dir_all(&latest).expect("a folder");
    let report = latest.join("report.json").display().to_string();
    assert!(
        run(&["scan", "--demo", "--output", &report])
            .status
            .success()
    );
    let lake = format!("file://{}", folder.path().display());
    let ask = |line: &[&str]| {
        let output = run(&[line, &["--lake", &lake]].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        (output.status.code(), all)
    };
    let id = "idle_node/eu-central-1/i-0b7d3f5a9c1e2d406";
    let check = |line: &[&str], status: i32, expect: &str| {
        let (code, all) = ask(line);
        assert!(
            code == Some(status) && all.contains(expect),
            "{line:?}: {all}"
        );
    };
    check(&["pages"], 1, "has no address for a browser");
    check(&["findings", "list"], 0, id);
    check(&["tune"], 0, "variant-call");
    check(&["scan", "--owner", "ben"], 0, "9 findings are not shown");
    check(&["scan", "--no-bill"], 2, "cannot be used with");
    let dismiss = ["findings", "dismiss", id, "--reason", "a course"];
    check(&dismiss, 0, "is dismissed");
    check(
        &["findings", "reopen", id],
        0,
        "removed the decision of uid",
    );
    check(&["findings", "reopen", id], 1, "no decision about");
    check(&["tune", "--demo"], 2, "cannot be used with");
    check(&["runs"], 0, "cohort-7");
    check(&["costs"], 0, "Costs by pipeline");
    // The report is of a scan, which stores no single tasks.
    check(
        &["runs", "cohort-7"],
        1,
        "the tasks of run 'cohort-7' are not stored",
    );
    check(&["runs", "cohort-8"], 1, "similar: cohort-7");
    check(&["probes"], 0, "i-0b7d3f5a9c1e2d406  eBPF");
    let of_file = run(&["runs", "cohort-7", "--report", &report]);
    let stderr = text(&of_file.stderr);
    assert!(
        stderr.contains("a report contains no single tasks"),
        "{stderr}"
    );
    // No sweep stored a state in this folder.
    check(&["scan", "--explain", "host7"], 1, "");
    check(&["explain", "host7"], 1, "");
    let output = run(&["findings", "list", "--lake", &format!("{lake}/missing")]);
    assert!(text(&output.stderr).contains("no folder "), "{output:?}");
    assert!(!folder.path().join("missing").exists());
    std::fs::remove_file(&report).expect("it is there");
    check(&["tune"], 1, "the first sweep writes it");
    check(&["serve"], 1, "the first sweep writes it");
}

/// The answer to a client that runs as this user. It waits for the answer if `end` is `cat <&3`.
#[cfg(target_os = "linux")]
fn answer_to(user: u32, address: &str, request: &str, end: &str) -> String {
    use std::os::unix::process::CommandExt;

    let port = address.rsplit(':').next().expect("a port");
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf '%s' \"$0\" >&3; {end}");
    let mut client = Command::new("bash");
    client.args(["-c", &script, request]).current_dir("/");
    let output = client.uid(user).gid(user).output();
    text(&output.expect("bash starts").stdout).to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn only_the_own_user_and_root_are_answered() {
    use rustix::process::{Pid, Signal, kill_process};

    if !rustix::process::geteuid().is_root() {
        println!(
            "skipped only_the_own_user_and_root_are_answered: only root can start other users"
        );
        return;
    }
    let (mut server, address) = start_server(ebb_as_nobody(&["serve", "--demo"]));
    let get = "GET /v1/decisions HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let check = |user: u32, status: &str, expect: &str| {
        let answer = answer_to(user, &address, get, "cat <&3");
        let status = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&status), "{user}: {answer}");
        assert!(answer.contains(expect), "{user}: {answer}");
    };
    check(NOBODY, "200", "\"total\":0");
    check(0, "200", "\"total\":0");
    check(65_533, "403", "application/problem+json");
    check(
        65_533,
        "403",
        "The user of this client is uid 65533. Run `ebb serve`",
    );
    // The client has ended when the server reads its request.
    let pid = Pid::from_child(&server);
    kill_process(pid, Signal::STOP).expect("it stops");
    let body = r#"{"reason":"hostile"}"#;
    let dismiss = format!(
        "POST /v1/findings/idle_node/eu-central-1/i-0b7d3f5a9c1e2d406/dismiss HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    answer_to(65_533, &address, &dismiss, "exec 3>&-");
    kill_process(pid, Signal::CONT).expect("it goes on");
    check(NOBODY, "200", "\"total\":0");
    // The same request of the own user is a decision.
    answer_to(NOBODY, &address, &dismiss, "cat <&3");
    check(NOBODY, "200", "hostile");
    server.kill().expect("it ends");
    server.wait().expect("it ended");
}

/// `ebb sweep` of a folder that belongs to [`NOBODY`] if the tests run as root, which may read each file.
#[cfg(feature = "sweep")]
fn sweep_without_rights(folder: &std::path::Path) -> Output {
    let lake = format!("file://{}", folder.display());
    let line = ["sweep", "--lake", &lake];
    let mut command = match rustix::process::geteuid().is_root() {
        true => ebb_as_nobody(&line),
        false => ebb(&line),
    };
    command.output().expect("the program starts")
}

#[cfg(feature = "sweep")]
#[test]
fn files_that_the_sweep_may_not_touch_hide_only_their_own_node() {
    use std::os::unix::fs::{PermissionsExt, chown};

    let folder = tempfile::tempdir().expect("a folder");
    let of = |node: &str| folder.path().join(format!("heartbeats/v1/AROAX:{node}"));
    let nodes = ["closed", "kept", "open", "unreadable"];
    for node in nodes {
        fs::create_dir_all(of(node)).expect("made");
        fs::write(of(node).join("1.msg"), "hello").expect("written");
    }
    if rustix::process::geteuid().is_root() {
        let files = nodes.map(|node| of(node).join("1.msg"));
        let folders = ["", "heartbeats", "heartbeats/v1"].map(|name| folder.path().join(name));
        for path in files.iter().chain(&folders).chain(&nodes.map(of)) {
            chown(path, Some(NOBODY), Some(NOBODY)).expect("given");
        }
    }
    let allow = |path: &std::path::Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
    };
    allow(&of("closed"), 0o000);
    allow(&of("kept"), 0o555);
    allow(&of("unreadable").join("1.msg"), 0o000);

    let swept = sweep_without_rights(folder.path());
    allow(&of("closed"), 0o755);
    allow(&of("kept"), 0o755);
    let (out, err) = (text(&swept.stdout), text(&swept.stderr));
    assert!(swept.status.success(), "{err}");
    let summary: serde_json::Value = serde_json::from_str(out).expect("JSON");
    assert_eq!(summary["refused"]["unreadable"], 1, "{out}");
    assert_eq!(summary["left"], 2, "{out}");
    assert!(
        !of("open").join("1.msg").exists(),
        "the others are processed"
    );
    let named = "the sweep may not read or delete files in heartbeats/v1/AROAX:closed, \
        heartbeats/v1/AROAX:kept, heartbeats/v1/AROAX:unreadable, so their nodes may be missing";
    assert!(out.contains(named), "{out}");
    assert!(err.contains("refused a message"), "{err}");
}

/// A home of its own, with two places of `ebb sweep`; only `lab` has a report.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a folder"));
        let report = home.path("lab/reports/latest/report.json");
        for place in ["lab", "other"] {
            fs::create_dir_all(home.path(place).join("reports/latest")).expect("a folder");
        }
        let report = report.display().to_string();
        let made = run(&["scan", "--demo", "--output", &report]);
        assert!(made.status.success(), "{made:?}");
        home
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn place(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    fn check_with(&self, variables: &[(&str, &str)], line: &[&str], status: i32, expect: &str) {
        let mut command = ebb(line);
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command.envs(variables.iter().copied());
        let output = command.output().expect("the program starts");
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    }

    fn check(&self, line: &[&str], status: i32, expect: &str) {
        self.check_with(&[], line, status, expect);
    }
}

#[test]
fn a_deployment_is_stored_if_it_answers_and_replaced_only_by_force() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let config = home.path("config/ebb/config.toml");
    let (lab, other) = (home.place("lab"), home.place("other"));
    let missing = format!("{lab}/missing");
    home.check(&["init", "--lake", &missing], 1, "no folder");
    assert!(!config.exists(), "it is not stored");
    home.check(&["init", "--lake", &lab], 0, "newest report of");
    let meta = fs::metadata(&config).expect("it is written");
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    home.check(&["init", "--lake", &other], 1, "replace it with --force");
    let two = ["init", "--lake", &other, "--name", "two"];
    home.check(&two, 0, "no report yet");
    home.check(&["tune"], 0, "variant-call");
    home.check(&["init", "--lake", &other, "--force"], 0, "no report yet");
    home.check(&["tune"], 1, "the first sweep writes it");
    home.check(&["init"], 2, "--engine");
}

#[test]
fn a_stored_deployment_is_used_and_arguments_win() {
    let home = Home::new();
    let config = home.path("config/ebb/config.toml");
    let (lab, other) = (home.place("lab"), home.place("other"));
    home.check(&["init", "--lake", &lab], 0, "");
    home.check(&["init", "--lake", &other, "--name", "two"], 0, "");
    let none = "the first sweep writes it";
    let list = ["findings", "list"];
    home.check(&list, 0, "ebb: using lake file:///");
    home.check(&[&list[..], &["--deployment", "two"]].concat(), 1, none);
    home.check(&[&list[..], &["--lake", &other]].concat(), 1, none);
    let no = [&list[..], &["--deployment", "no"]].concat();
    home.check(&no, 1, "it has default, two");
    home.check_with(&[("EBB_DEPLOYMENT", "two")], &["tune"], 1, "[two]");
    let scan = ["scan", "--deployment", "default"];
    home.check(&scan, 0, "in 8 findings with");
    let both = [&scan[..], &["--lake", &lab]].concat();
    home.check(&both, 2, "cannot be used");
    fs::write(&config, "[default]\nlakes = \"x\"\n").expect("it is written");
    home.check(&["tune"], 1, "config.toml:2: unknown field `lakes`");
    home.check(&["tune", "--lake", &lab], 0, "variant-call");
}

#[test]
fn runs_are_listed_and_results_explained() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(line);
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["runs", "--demo"], 0, "cohort-7");
    check(
        &["runs", "--demo", "--pipeline", "no"],
        1,
        "no run of pipeline 'no'\n  pipelines with runs: align, assembly",
    );
    check(
        &["runs", "--demo", "--format", "json"],
        0,
        "\"ebb.run_list/1\"",
    );
    check(
        &["runs", "--demo", "--format", "csv"],
        0,
        "run,pipeline,tasks",
    );
    check(&["runs"], 2, "ebb runs --demo");
    check(
        &["explain", "i-0b7d3f5a9c1e2d406", "--demo"],
        0,
        "\nFound: ",
    );
    check(
        &[
            "explain",
            "i-0b7d3f5a9c1e2d406",
            "--demo",
            "--format",
            "json",
        ],
        0,
        "\"checks\"",
    );
    check(&["explain", "nothing", "--demo"], 1, "nothing not found");
    check(&["explain", "x"], 1, "no deployment is named");
    check(
        &["explain", "x", "--demo", "--lake", "y"],
        2,
        "cannot be used",
    );
}

#[test]
fn costs_are_divided_in_three_forms_and_add_up() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(&[&["costs"], line].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
        text(&output.stdout).to_owned()
    };
    check(&["--demo"], 0, "Costs by pipeline, 2026-02-24");
    check(&["--demo", "--by", "user,pipeline"], 0, "ana");
    check(
        &["--demo", "--month", "2025-01"],
        0,
        "No day of 2025-01 is in the report",
    );
    check(&["--demo", "--by", "team"], 2, "choose run, pipeline, step");
    check(&["--demo", "--by", "run,step"], 2, "choose one of them");
    check(&["--demo", "--month", "march"], 2, "write it as 2026-10");
    check(
        &["--demo", "--by", "cost_centre"],
        1,
        "set `cost_centre_tag`",
    );
    check(&[], 2, "ebb costs --demo");
    check(
        &["--demo", "--format", "focus"],
        0,
        "AvailabilityZone,BilledCost",
    );
    let json = check(&["--demo", "--format", "json"], 0, "\"ebb.costs/1\"");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let csv = check(
        &["--demo", "--format", "csv"],
        0,
        "day,kind,origin,pipeline,tasks",
    );
    let costs = csv
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(',').next());
    let micros = |usd: &str| Usd::parse(usd).expect("an amount").micros();
    let sum: i64 = costs.map(micros).sum();
    let total = json["costs"]["total_usd"].as_str().expect("an amount");
    assert_eq!(sum, micros(total));
}

#[test]
fn the_tasks_of_a_run_are_listed_in_three_forms() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(line);
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["runs", "cohort-7"], 2, "ebb runs --demo");
    check(&["runs", "cohort-7", "--demo"], 0, "align-sample-17");
    let name = "Run nextflow i-0a3c5e7f9b1d2e468/0a3c5e7f/run-0: 25 tasks\n";
    check(&["runs", "/run-0", "--demo"], 0, name);
    let csv = ["runs", "cohort-7", "--demo", "--format", "csv"];
    check(&csv, 0, "task,step,name");
    let json = ["runs", "cohort-7", "--demo", "--format", "json"];
    check(&json, 0, "\"ebb.run_tasks/1\"");
    check(
        &["runs", "cohort-8", "--demo"],
        1,
        "no run 'cohort-8'\n  similar: cohort-7\n",
    );
    check(
        &["runs", "cohort-7", "--pipeline", "align", "--demo"],
        2,
        "cannot be used with",
    );
}

#[test]
fn probes_are_listed_in_three_forms() {
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(&[&["probes"], line].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["--demo"], 0, "i-0b7d3f5a9c1e2d406  eBPF");
    check(
        &["--demo", "--mode", "procfs"],
        0,
        "No probe has this mode; ",
    );
    check(&["--demo", "--format", "csv"], 0, "node,mode,heard_at");
    check(&["--demo", "--format", "json"], 0, "\"ebb.probe_list/1\"");
    check(&["--demo", "--mode", "perf"], 2, "ebpf, procfs");
    check(&[], 2, "ebb probes --demo");
}

/// A build without an HTTP client says how to get one.
#[test]
fn an_api_is_asked_if_the_program_has_a_client() {
    let (mut server, address) = start_server(ebb(&["serve", "--demo"]));
    let address = format!("http://{address}");
    let ask = |line: &[&str]| {
        let output = run(&[line, &["--api", &address]].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        (output.status.code(), all)
    };
    let id = "idle_node/eu-central-1/i-0b7d3f5a9c1e2d406";
    let check = |line: &[&str], status: i32, expect: &str| {
        let (code, all) = ask(line);
        let (status, expect) = match cfg!(feature = "http") {
            true => (status, expect),
            false => (1, "built without an HTTP client"),
        };
        assert!(
            code == Some(status) && all.contains(expect),
            "{line:?}: {all}"
        );
    };
    check(&["scan"], 0, "in 8 findings with");
    check(&["tune"], 0, "variant-call");
    check(&["runs"], 0, "cohort-7");
    check(&["costs", "--by", "user"], 0, "Costs by user");
    check(&["pages"], 1, "`ebb serve` needs no link");
    check(&["runs", "cohort-7"], 0, "align-sample-17");
    check(&["runs", "cohort-8"], 1, "similar: cohort-7");
    check(&["probes"], 0, "i-0b7d3f5a9c1e2d406  eBPF");
    let node = "i-0b7d3f5a9c1e2d406";
    check(&["explain", node], 0, "As of the sweep of 2026-03-04");
    check(
        &["explain", "align-sample-17"],
        0,
        "\nFound: Stuck Batch job",
    );
    check(
        &["explain", "i-0b7d3f5a9c1e2d407"],
        1,
        "similar: i-0b7d3f5a9c1e2d406",
    );
    check(&["findings", "list"], 0, id);
    check(
        &["findings", "dismiss", id, "--reason", "a course"],
        0,
        "is dismissed",
    );
    check(&["findings", "reopen", id], 0, "Reopened");
    check(&["findings", "reopen", id], 1, "HTTP 404");
    server.kill().expect("it ends");
    server.wait().expect("it ended");
    let open = run(&["runs", "--api", "http://example.com"]);
    assert!(text(&open.stderr).contains("must be https"), "{open:?}");
}

#[cfg(feature = "sweep")]
#[test]
fn the_first_sweep_of_a_folder_tells_that_it_is_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = folder.path().join("mispelt").display().to_string();
    for is_new in [true, false] {
        let output = run(&["sweep", "--lake", &lake]);
        assert!(output.status.success(), "{output:?}");
        let is_announced = text(&output.stderr).contains("mispelt is new");
        assert_eq!(is_announced, is_new, "{output:?}");
    }
}

#[cfg(feature = "sweep")]
#[test]
fn a_watch_sweeps_again_and_stores_one_report_under_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = format!("file://{}", folder.path().display());
    let mut watch = ebb(&["sweep", "--lake", &lake, "--watch", "2"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("it starts");
    let output = BufReader::new(watch.stdout.take().expect("its output"));
    let summaries: Vec<serde_json::Value> = output
        .lines()
        .take(2)
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
        .collect();
    watch.kill().expect("it ends");
    watch.wait().expect("it ended");
    let at = |summary: &serde_json::Value| summary["at"].as_str().map(str::to_owned);
    assert!(at(&summaries[0]) < at(&summaries[1]), "{summaries:#?}");
    let written = |summary: &serde_json::Value| summary["published"].as_array().map(Vec::len);
    assert_eq!(written(&summaries[0]), Some(6));
    assert_eq!(written(&summaries[1]), Some(3));
}

#[cfg(feature = "sweep")]
#[test]
fn rows_of_the_lake_are_shown_and_queried() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = format!("file://{}", folder.path().display());
    let check = |line: &[&str], status: i32, expect: &str| {
        let output = run(&[line, &["--lake", &lake]].concat());
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(output.status.code(), Some(status), "{line:?}: {all}");
        assert!(all.contains(expect), "{line:?} should say {expect}: {all}");
    };
    check(&["explain", "host7"], 1, "host7 not found");
    check(&["sweep"], 0, "\"batches\": 0");
    check(&["lake", "tables"], 0, "steps: Finished tasks");
    check(&["lake", "tables", "--format", "json"], 0, "\"ebb.rows/1\"");
    let count = "SELECT COUNT(*) AS n FROM findings";
    check(
        &["lake", "query", count, "--format", "csv"],
        0,
        "n\r\n0\r\n",
    );
    check(&["lake", "query", "DROP TABLE steps"], 1, "must only read");
    check(
        &["lake", "query", "SELECT x FROM steps"],
        1,
        "no such column: x",
    );
    check(
        &["lake", "show", "steps", "--columns", "node,cpu_ns"],
        0,
        "node  cpu_ns",
    );
    check(
        &["lake", "show", "steps", "--where", "x=1"],
        1,
        "has no column x",
    );
    check(
        &["lake", "show", "steps", "--where", "x"],
        2,
        "COLUMN=VALUE",
    );
    check(
        &["lake", "show", "nothing"],
        2,
        "heartbeats, steps, findings",
    );
    check(
        &["lake", "show", "steps", "--from", "2100-01-01"],
        1,
        "is later than",
    );
}

#[test]
fn completions_and_manual_pages_name_each_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = text(&output.stdout);
        assert!(
            script.contains("findings") && script.contains("min-saving"),
            "{shell}"
        );
    }
    let page = run(&["man"]);
    assert!(text(&page.stdout).contains(".TH ebb 1"), "{page:?}");

    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let name = pages.display().to_string();
    let output = run(&["man", &name]);
    assert!(
        text(&output.stderr).contains("Wrote manual pages to"),
        "{output:?}"
    );
    for page in ["ebb.1", "ebb-scan.1", "ebb-policy-check.1"] {
        let written = fs::read_to_string(pages.join(page)).expect(page);
        assert!(written.contains(".SH SYNOPSIS"), "{page}: {written}");
    }
    let output = run(&["man", "/dev/null/man1"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("failed to write manual pages to /dev/null/man1"),
        "{stderr}"
    );
}

#[test]
fn the_schema_of_a_policy_is_json() {
    let output = run(&["policy", "schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let after = &schema["properties"]["idle"]["properties"]["after_seconds"];
    assert_eq!(after["default"], 1800);
    assert_eq!(after["minimum"], 1);
}

#[test]
fn metrics_are_read_from_a_file_and_from_standard_input() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let rows = (0..24).map(|hour| format!("2026-09-01T{hour:02}:00:00Z,rack-3,2.5\n"));
    let csv: String = iter::once("timestamp,resource_id,cpu_pct\n".to_owned())
        .chain(rows)
        .collect();
    fs::write(&file, csv).expect("written");
    let path = file.path().to_str().expect("text");
    let findings = |mut command: Command| {
        let output = command.output().expect("it runs");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        report["findings"].clone()
    };
    let line = |source| ["scan", "--metrics", source, "--format", "json"];
    let mut piped = ebb(&line("-"));
    piped.stdin(fs::File::open(&file).expect("the file"));
    let of_file = findings(ebb(&line(path)));
    assert_eq!(of_file[0]["resource"]["id"], "rack-3");
    assert_eq!(findings(piped), of_file);
}

/// On premises: a folder with FOCUS files in the policy gives the prices of machines.
#[cfg(feature = "cost-exports")]
#[test]
fn an_export_in_a_folder_gives_the_price_of_a_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let samples: String = (1..=10)
        .flat_map(|day| (0..24).map(move |hour| (day, hour)))
        .map(|(day, hour)| format!("2026-09-{day:02}T{hour:02}:00:00Z,rack-3,2.5,10,10\n"))
        .collect();
    let head = "timestamp,resource_id,cpu_pct,net_in_bytes,net_out_bytes\n";
    let metrics = write("metrics.csv", &format!("{head}{samples}"));
    let rows: String = (1..=10)
        .map(|day| {
            let (from, to) = (
                format!("2026-09-{day:02}"),
                format!("2026-09-{:02}", day + 1),
            );
            format!("{from},{to},12,USD,Machines,Compute,Usage,rack-3\n")
        })
        .collect();
    let head = "ChargePeriodStart,ChargePeriodEnd,EffectiveCost,BillingCurrency,ServiceName,\
                ServiceCategory,ChargeCategory,ResourceId\n";
    write(
        "bills/september.csv",
        &format!("{head}{rows}2026-09-01,,much,USD,M,,Usage,\n"),
    );
    let place = folder.path().join("bills");
    let policy = write("policy.toml", &format!("[costs]\nexport = {place:?}\n"));
    let line = [
        "scan",
        "--metrics",
        &metrics,
        "--policy",
        &policy,
        "--format",
        "json",
    ];
    let output = run(&line);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let node = &report["nodes"][0];
    assert_eq!(node["basis"], "bill", "{node}");
    assert_eq!(node["per_hour_usd"], "0.50", "{node}");
    let gaps = report["gaps"].to_string();
    assert!(gaps.contains("september.csv:12: EffectiveCost"), "{gaps}");
    let policy = write("policy.toml", "[costs]\nexport = \"/no/such/folder\"\n");
    let output = run(&["scan", "--metrics", &metrics, "--policy", &policy]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("the folder /no/such/folder of [costs] export does not exist"),
        "{stderr}"
    );
}

/// Answers each request to Slack with `status` until the test ends; the bodies arrive at the receiver.
#[cfg(feature = "sweep")]
fn slack_stand_in(status: &'static str) -> (String, std::sync::mpsc::Receiver<String>) {
    use std::io::Write;

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/services/x", listener.local_addr().expect("one"));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let header = line.to_lowercase();
                let value = header.strip_prefix("content-length:");
                length = value.map_or(length, |value| value.trim().parse().expect("a number"));
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body");
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            stream.write_all(answer.as_bytes()).expect("it is sent");
            if sender.send(String::from_utf8(body).expect("text")).is_err() {
                return;
            }
        }
    });
    (url, receiver)
}

#[cfg(feature = "sweep")]
#[test]
fn a_test_message_reaches_slack_and_a_refusal_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = format!("file://{}", folder.path().display());
    let doctor = |slack: Option<&str>, more: &[&str]| {
        let line = ["doctor", "deployment", "--lake", &lake];
        let mut command = ebb(&[&line, more].concat());
        command.envs(slack.map(|url| ("EBB_SLACK_WEBHOOK_URL", url)));
        let output = command.output().expect("the program starts");
        (output.status.code(), text(&output.stdout).to_owned())
    };
    let (url, bodies) = slack_stand_in("200 OK");
    let (_, table) = doctor(Some(&url), &[]);
    assert!(!table.contains("test message"), "only on request: {table}");
    assert!(bodies.try_recv().is_err(), "nothing was sent");

    let (_, table) = doctor(Some(&url), &["--send-test"]);
    assert!(table.contains("test message  slack: accepted"), "{table}");
    let body = bodies.try_recv().expect("a message");
    assert!(body.contains("Ebb test message of "), "{body}");
    assert!(bodies.try_recv().is_err(), "one message");

    let (url, _bodies) = slack_stand_in("404 Not Found");
    let (status, table) = doctor(Some(&url), &["--send-test"]);
    assert_eq!(status, Some(1), "{table}");
    let first = "fix first: sweep: no sweep has written a report";
    assert!(table.ends_with(&format!("{first}\n")), "{table}");
    let line = table.lines().find(|line| line.contains("test message"));
    let line = line.unwrap_or_default();
    assert!(
        line.contains("missing") && line.contains("slack: "),
        "{table}"
    );
    assert!(
        line.contains("404") && !line.contains("services"),
        "{table}"
    );

    let (_, table) = doctor(None, &["--send-test"]);
    assert!(table.contains("no channel is configured"), "{table}");
    let (status, table) = doctor(Some("ftp://x"), &["--send-test"]);
    assert_eq!(status, Some(1), "{table}");
    assert!(table.contains("invalid EBB_SLACK_WEBHOOK_URL"), "{table}");
}
