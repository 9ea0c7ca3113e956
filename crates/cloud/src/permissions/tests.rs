//! Checks the list against the calls of the adapters and against the policies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// The adapters that read the user's account.
const READERS: [(&str, Adapter); 6] = [
    ("accounts", Adapter::Accounts),
    ("bill", Adapter::Bill),
    ("inventory", Adapter::Inventory),
    ("metrics", Adapter::Metrics),
    ("prices", Adapter::Prices),
    ("second_opinion", Adapter::SecondOpinion),
];

#[test]
fn what_is_not_ebbs_own_is_only_read() {
    let others = PERMISSIONS.iter().filter(|p| {
        !matches!(
            p.adapter,
            Adapter::Queue | Adapter::Objects | Adapter::Email | Adapter::Topic
        )
    });
    for permission in others {
        let (_, verb) = permission.action.split_once(':').expect("service:Verb");
        let reads = ["Describe", "List", "Get", "Assume"]
            .iter()
            .any(|v| verb.starts_with(v));
        assert!(reads, "{}", permission.action);
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// An SDK operation is a method without arguments and with the operation's name. These are the
/// verbs of all operations in this crate.
const VERBS: [&str; 14] = [
    "assume",
    "batch",
    "change",
    "delete",
    "describe",
    "get",
    "head",
    "list",
    "put",
    "receive",
    "send",
    "start",
    "stop",
    "terminate",
];

/// Operations with one word.
const ONE_WORD: [&str; 1] = ["publish"];

/// Methods of builders and answers that look like an operation.
const NO_CALLS: [&str; 1] = ["start_time"];

fn calls(source: &str) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for part in source.split('.').skip(1) {
        let name: String = part
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_')
            .collect();
        let called = part[name.len()..].starts_with("()");
        let verb = name.split('_').next().unwrap_or_default();
        let operation = name.contains('_') && VERBS.contains(&verb);
        if called && (operation || ONE_WORD.contains(&name.as_str())) {
            calls.insert(name);
        }
    }
    calls
}

/// `DescribeJobs` as the method name in the SDK.
fn snake(verb: &str) -> String {
    let mut name = String::new();
    for c in verb.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

/// Calls whose IAM action has another name than the API operation.
///
/// Source: "Actions, resources, and condition keys for AWS services".
fn action_of(call: &str) -> &str {
    match call {
        "delete_message_batch" => "delete_message",
        "send_message_batch" => "send_message",
        "delete_objects" => "delete_object",
        "head_object" => "get_object",
        "list_objects_v2" => "list_bucket",
        "get_ec2_instance_recommendations" => "get_e_c2_instance_recommendations",
        other => other,
    }
}

#[test]
fn every_call_of_an_adapter_is_on_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/aws");
    let mut files = vec![folder.with_extension("rs")];
    sources(&folder, &mut files);
    let listed: BTreeSet<String> = PERMISSIONS
        .iter()
        .filter_map(|p| Some(snake(p.action.split_once(':')?.1)))
        .collect();
    let mut made = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(&file).expect("a source");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for call in calls(source) {
            if NO_CALLS.contains(&call.as_str()) {
                continue;
            }
            let action = action_of(&call);
            assert!(listed.contains(action), "{} calls {call}", file.display());
            made.insert(action.to_owned());
        }
    }
    // The credentials provider assumes the role, not an adapter.
    made.insert("assume_role".to_owned());
    let unused: Vec<_> = listed.difference(&made).collect();
    assert!(unused.is_empty(), "listed and never called: {unused:?}");
}

#[test]
fn an_unlisted_call_is_found() {
    let source = "let a = client\n    .terminate_instances()\n .set_x(y); b.found.get(z)";
    assert_eq!(
        calls(source),
        BTreeSet::from(["terminate_instances".to_owned()])
    );
}

fn holds(path: &str, expect: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("EBB_WRITE_POLICIES").is_some() {
        fs::write(&file, expect).expect("it can be written");
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    let how = "EBB_WRITE_POLICIES=1 cargo test -p ebb-cloud --lib permissions";
    assert!(
        found == expect,
        "{path} is not what the code calls; write it again: {how}"
    );
}

/// A scan has no measured tasks, so that it asks for no placement scores. `scripts/check-rights` finds
/// actions that a scan never calls.
const SWEEPS_ONLY: [&str; 1] = [GET_SPOT_PLACEMENT_SCORES];

#[test]
fn the_policies_are_made_from_the_list() {
    let actions = |wanted: Adapter| -> BTreeSet<&str> {
        let mine = PERMISSIONS.iter().filter(|p| p.adapter == wanted);
        mine.map(|p| p.action).collect()
    };
    let by_adapter: BTreeMap<&str, _> = READERS
        .map(|(name, adapter)| (name, actions(adapter)))
        .into();
    let json = serde_json::to_string_pretty(&by_adapter).expect("JSON");
    holds("terraform/permissions.json", &format!("{json}\n"));
    let reads = [
        Adapter::Inventory,
        Adapter::Metrics,
        Adapter::Bill,
        Adapter::SecondOpinion,
        Adapter::Prices,
    ];
    let mut all: BTreeSet<&str> = reads.into_iter().flat_map(actions).collect();
    all.retain(|action| !SWEEPS_ONLY.contains(action));
    let policy = serde_json::json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Sid": "EbbScanReads",
            "Effect": "Allow",
            "Action": all,
            "Resource": "*",
        }],
    });
    let json = serde_json::to_string_pretty(&policy).expect("JSON");
    holds("infra/scan-policy.json", &format!("{json}\n"));
}
