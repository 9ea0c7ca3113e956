//! Input of the probe on its node: the label socket, the spool, the rules and the configuration.

use std::collections::BTreeMap;
use std::fs;

use ebb_probe::config::Config;
use ebb_probe::container_names::{docker, ecs, podman};
use ebb_probe::kernel::snakemake::{self, Snakemake};
use ebb_probe::label;
use ebb_probe::label_rules::{Rules, Subject};
use ebb_probe::spool::Spool;
use ebb_telemetry::step::resource_usage::SchedulerLabels;
use ebb_telemetry::units::Bytes;

use crate::Outcome;
use crate::support::with_file;

/// A request of the label socket.
pub(super) fn label_request(input: &[u8]) -> Outcome {
    let parsed = label::parse(input);
    match &parsed {
        Ok(request) => {
            let labels = &request.labels;
            assert!(label::bytes_of(labels) <= input.len());
            let merged = label::merge(&SchedulerLabels::default(), labels);
            assert_eq!(merged.as_ref(), Ok(labels));
        }
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(!text.contains('\u{1b}'), "{text:?}");
            assert!(
                text.len() < 2 * label::MAX_REQUEST_BYTES,
                "{} bytes",
                text.len()
            );
        }
    }
    Outcome::from_result(&parsed)
}

pub(super) fn labels() -> Vec<Vec<u8>> {
    let labels = [
        r#"{"trace_id":"4bf9","labels":{"run":"r7"}}"#,
        r#"{"labels":{"pipeline":"rnaseq","sample":"S 1"}}"#,
        r#"{"pid":4711,"labels":{"step":"align","task":"sample=S1"}}"#,
    ];
    labels.map(|request| request.as_bytes().to_vec()).to_vec()
}

/// Arguments of a process, separated by NUL, any of which a local user can choose.
pub(super) fn snakemake_arguments(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let parsed = snakemake::parse(text.split('\0'));
    if let Some(Snakemake::Job(job)) = &parsed {
        let labels = job.labels(str::to_owned).labels;
        assert!(labels.len() <= 4, "{labels:?}");
        for value in labels.values() {
            assert!(!value.is_empty() && value.len() <= SchedulerLabels::MAX_VALUE_BYTES);
            assert!(!value.chars().any(char::is_control), "{value:?}");
        }
    }
    Outcome::from_result(&parsed.ok_or(()))
}

pub(super) fn arguments() -> Vec<Vec<u8>> {
    let start = "/opt/bin/python3\0-m\0snakemake\0--snakefile\0/p/Snakefile\0--target-jobs\0";
    let ends = [
        "map:sample=S1,n=\"1,2\"\0--allowed-rules\0map\0--attempt\x001\0--mode\0remote",
        "a:\0b:s=x\0--allowed-rules\0b\0a\0--local-groupid\x009295d96b\0--attempt\x002",
    ];
    ends.map(|end| format!("{start}{end}").into_bytes())
        .to_vec()
}

/// The answers of Docker and of the agent of Amazon ECS, the list of the storage of Podman, and the
/// arguments of its monitor.
pub(super) fn container_names(input: &[u8]) -> Outcome {
    let parsed = docker::parse(input)
        .or_else(|_| ecs::parse(input))
        .or_else(|_| podman::parse_storage(input));
    for container in parsed.iter().flat_map(|all| all.values()) {
        let labels = container.scheduler_labels(str::to_owned).labels;
        assert!(labels.len() <= SchedulerLabels::MAX_LABELS, "{labels:?}");
        for value in labels.values() {
            assert!(!value.is_empty() && value.len() <= SchedulerLabels::MAX_VALUE_BYTES);
            assert!(!value.chars().any(char::is_control), "{value:?}");
        }
    }
    let name = podman::name_in_monitor(input, CONTAINER);
    assert!(name.is_none_or(|name| name.len() <= SchedulerLabels::MAX_VALUE_BYTES));
    Outcome::from_result(&parsed)
}

const CONTAINER: &str = "ab2a67ba7496a32bee534a9a9a3d61c2ac001ac0fa13313e350bd292e8a3d053";

pub(super) fn container_answers() -> Vec<Vec<u8>> {
    let answers = [
        r#"[{"Id":"ID","Names":["/align"],"Image":"lab/bwa:1","Labels":{"nf.process":"A:B"}}]"#,
        r#"[{"id":"ID","names":["align"],"metadata":"{\"image-name\":\"lab/bwa:1\"}"}]"#,
        r#"{"Tasks":[{"Arn":"arn:aws:ecs:eu-west-1:0:task/default/7","Family":"align"}]}"#,
        "conmon\0-c\0ID\0-u\0ID\0-n\0align\0--exit-dir\0/run",
    ];
    answers
        .map(|answer| answer.replace("ID", CONTAINER).into_bytes())
        .to_vec()
}

/// A file of the spool, between two good ones: whatever it holds, those are sent.
pub(super) fn spool_record(input: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let limit = Bytes::mib(16);
    let mut spool = Spool::open(folder.path(), limit);
    for record in ["one", "two", "three"] {
        spool.push(record.as_bytes().to_vec());
    }
    drop(spool);
    let mut files: Vec<_> = fs::read_dir(folder.path())
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "rec"))
        .collect();
    files.sort();
    fs::write(&files[1], input).expect("the temporary folder is writable");
    let mut spool = Spool::open(folder.path(), limit);
    let mut records = BTreeMap::new();
    // A record that cannot be read is set aside, and then the next are returned.
    for _ in 0..3 {
        let oldest = spool.oldest(3);
        for (number, record) in oldest {
            records.insert(number, record);
            spool.remove(number);
        }
    }
    let records: Vec<Vec<u8>> = records.into_values().collect();
    assert!(records.contains(&b"one".to_vec()) && records.contains(&b"three".to_vec()));
    assert!(spool.is_empty(), "{} records are left", spool.len());
    match records.len() {
        3 => Outcome::Accepted,
        _ => Outcome::Refused,
    }
}

pub(super) fn records() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut spool = Spool::open(folder.path(), Bytes::mib(16));
    spool.push(b"a record".to_vec());
    spool.push(Vec::new());
    let files = fs::read_dir(folder.path()).expect("the folder").flatten();
    let records = files.map(|entry| entry.path());
    let records = records.filter(|path| path.extension().is_some_and(|suffix| suffix == "rec"));
    records
        .map(|path| fs::read(path).expect("a record"))
        .collect()
}

/// Rules for names and background, which an administrator or the bucket gives.
pub(super) fn probe_rules(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let rules = Rules::parse(&text);
    if let Ok(rules) = &rules {
        let rules = rules.clone().before(Rules::built_in());
        let long = "*a".repeat(2_000);
        for program in ["python3", "salmon-index-3", &long, "ä"] {
            let subject = Subject {
                program,
                script: Some("align.py"),
                cgroup: Some("/system.slice/docker-0123.scope"),
            };
            let _ = (rules.by_cgroup(&subject), rules.by_program(&subject));
            let _ = (rules.show_program(program), rules.shown_path(&long));
        }
    }
    Outcome::from_result(&rules)
}

pub(super) fn rules() -> Vec<Vec<u8>> {
    let own = "mask = [\"secret-*\", \"*patient*\"]\n\n[[rule]]\nname = \"ours\"\nprogram = [\"salmon*\"]\n\
               cgroup = [\"/system.slice/*\"]\nclass = \"workload\"\nchildren = \"judged\"\n";
    let built_in = include_bytes!("../../../probe/src/label_rules/default.toml");
    vec![own.as_bytes().to_vec(), built_in.to_vec()]
}

/// The probe's configuration.
pub(super) fn probe_configuration(input: &[u8]) -> Outcome {
    let config = with_file(input, Config::read);
    if let Ok(config) = &config {
        let _ = (config.state_dir(), config.scans(), config.cloud());
    }
    Outcome::from_result(&config)
}

pub(super) fn configurations() -> Vec<Vec<u8>> {
    let configurations = [
        "queue_url = \"https://sqs.us-east-1.amazonaws.com/111122223333/ebb\"\nbucket = \"ebb-lab\"\n",
        "interval_seconds = 60\n",
        "",
    ];
    configurations.map(|text| text.as_bytes().to_vec()).to_vec()
}
