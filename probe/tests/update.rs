//! `ebb-probe update` from its command line. It runs as any user, because a dry run changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/update");

/// The status and the output of a dry run with this configuration.
fn dry_run(config: &Path) -> (bool, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_ebb-probe"))
        .args(["update", "--dry-run", "--config"])
        .arg(config)
        .output()
        .expect("it runs");
    let text = [run.stdout, run.stderr].concat();
    (
        run.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_dry_run_verifies_the_manifest_and_prints_the_decision() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("probe.toml");
    let write = |manifest: &str, key: &str| {
        let text = format!(
            "place = \"file:///srv/ebb\"\n[update]\nmanifest = \"{manifest}\"\npublic_key = \"{key}\"\n"
        );
        fs::write(&config, text).expect("written");
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).expect("changed");
    };
    let key = |name: &str| {
        let text = fs::read_to_string(format!("{FILES}/{name}.pub.base64"));
        text.expect("a key").trim().to_owned()
    };
    let manifest = format!("file://{FILES}/manifest.json");
    write(&manifest, &key("key"));
    let (is_done, text) = dry_run(&config);
    assert!(is_done, "{text}");
    let expect = match std::env::consts::ARCH {
        "x86_64" => "ebb-probe-99.0.0-linux-x86_64 is to be installed",
        _ => "has no program for this architecture",
    };
    assert!(text.contains(expect), "{text}");

    write(&manifest, &key("other"));
    let (is_done, text) = dry_run(&config);
    assert!(
        !is_done && text.contains("the signature of the manifest is not valid"),
        "{text}"
    );

    fs::set_permissions(&config, fs::Permissions::from_mode(0o666)).expect("changed");
    let (is_done, text) = dry_run(&config);
    assert!(!is_done && text.contains("other users can write"), "{text}");

    fs::write(&config, "place = \"file:///srv/ebb\"\n").expect("written");
    let (is_done, text) = dry_run(&config);
    assert!(is_done && text.contains("updates are off"), "{text}");
}
