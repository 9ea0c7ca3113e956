//! The command line of the built program: its output and exit status.

use std::process::Command;

fn answer(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ebb-probe"))
        .args(arguments)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output()
        .expect("the probe is built");
    let bytes = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text)
}

#[test]
fn what_is_asked_wrongly_ends_with_two_and_says_what_mends_it() {
    let check = |arguments: &[&str], expect: &str| {
        let (status, text) = answer(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expect), "{arguments:?}: {text}");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let unknown = file("unknown.toml", "bucket = \"b\"\nintervall_seconds = 3\n");
    let nothing = file("nothing.toml", "");
    check(&["walk"], "unrecognized subcommand 'walk'");
    check(&["snapshot", "--interval", "0"], "interval_seconds is 0");
    // The earlier name of the command.
    check(&["once", "--interval", "0"], "interval_seconds is 0");
    check(&["run", "--config", "/nowhere"], "failed to read /nowhere");
    check(
        &["run", "--config", &unknown],
        "line 2: unknown field `intervall_seconds`",
    );
    // Without AWS no queue is required.
    if cfg!(feature = "aws") {
        check(
            &["run", "--config", &nothing],
            "queue_url is not set; set it from `terraform output`",
        );
    }
}

#[test]
fn help_shows_examples_and_the_statuses() {
    let (status, text) = answer(&["--help"]);
    assert_eq!(status, Some(0));
    for expect in [
        "Examples:",
        "ebb-probe run --sink",
        "Exit status: 0 success",
    ] {
        assert!(text.contains(expect), "{text}");
    }
}

#[test]
fn manual_pages_of_all_commands_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let (status, text) = answer(&["man", pages.to_str().expect("a name")]);
    assert_eq!(status, Some(0), "{text}");
    for command in ["", "-run", "-snapshot", "-label", "-check", "-man"] {
        let page = std::fs::read_to_string(pages.join(format!("ebb-probe{command}.1")));
        assert!(page.expect("a page").starts_with(".ie"), "{command}");
    }
}

#[test]
fn a_check_that_finds_something_missing_ends_with_one() {
    let (status, text) = answer(&["check", "--config", "/nowhere"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("LACKS configuration failed to read /nowhere"),
        "{text}"
    );
}

#[test]
fn the_readme_says_of_kernels_what_make_kernels_saw() {
    let (page, readme) = (include_str!("../KERNELS.md"), include_str!("../README.md"));
    let row = |start: &str| page.lines().find(|line| line.starts_with(start));
    let version = |cell: &str| {
        let mut parts = cell.trim().split('.').map(|part| part.parse::<u32>().ok());
        Some((parts.next()??, parts.next()??))
    };
    let heads = row("| |").expect("a table");
    let (major, minor) = heads.split('|').filter_map(version).min().expect("kernels");
    let promise = format!("Linux {major}.{minor} or later");
    assert!(readme.contains(&promise), "not in the readme: {promise}");
    let half = row("| kernel half |").expect("asked of each");
    assert!(!half.contains("less"), "{half}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    for (shell, expect) in [
        ("bash", "ebb-probe"),
        ("zsh", "#compdef ebb-probe"),
        ("fish", "-c ebb-probe"),
    ] {
        let (status, text) = answer(&["completions", shell]);
        assert_eq!(status, Some(0), "{text}");
        assert!(text.contains(expect), "{shell}: {text}");
    }
}
