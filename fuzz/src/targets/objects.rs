//! Objects of the bucket or folder: caches, decisions, prices, reports and the lake's log.

use std::path::Path;

use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_cloud::ports::PutIf;
use ebb_ingest::state_store::format::Stored;
use ebb_ingest::state_store::hourly_activity::Hours;
use ebb_lake::{Commits, Lake};
use ebb_model::policy::Policy;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_notify::delivery_state::Remembered;
use ebb_sweep::collect::cache::AnswerCache;
use ebb_sweep::scan::Known;

use ebb_telemetry::shard::Shard;
use jiff::Timestamp;

use crate::Outcome;
use crate::evaluate::{Before, evaluate, render_all};
use crate::support::{block_on, zstd};
use ebb_cloud::documents::{decisions, prices, task_records};
use ebb_ingest::state_store;
use ebb_ingest::state_store::hourly_activity;
use ebb_notify::delivery_state;
use ebb_report::{json, report_file};
use ebb_sweep::collect::cache;

/// Where the answers of the cloud are stored.
const METERED_ANSWERS: &str = "state/v1/paid.zst";

const NOW_SECOND: i64 = 1_790_000_000;

fn now() -> Timestamp {
    Timestamp::from_second(NOW_SECOND).expect("a time of this century")
}

fn bucket() -> FakeObjects {
    FakeObjects::new(FakeClock::at(now()))
}

/// A bucket with one object of the schema of `example`. The content below the schema line is
/// compressed here, so that the fuzzer changes its fields and not its compression. An object with a
/// schema line is used unchanged.
fn bucket_with(key: &str, example: &[u8], input: &[u8]) -> FakeObjects {
    let objects = bucket();
    let bytes = match input.starts_with(b"ebb.") {
        true => input.to_vec(),
        false => [divided(example).0, &zstd(input)].concat(),
    };
    objects.insert(key, bytes);
    objects
}

/// The schema line of an object, and what is under it.
fn divided(object: &[u8]) -> (&[u8], &[u8]) {
    let end = object.iter().position(|byte| *byte == b'\n');
    object.split_at(end.expect("a schema line") + 1)
}

/// Content of an object below its schema line.
fn unpacked(object: &[u8]) -> Vec<u8> {
    zstd::bulk::decompress(divided(object).1, 64 << 20).expect("zstd")
}

/// The bytes that `write` puts under `key`.
fn written(key: &str, write: impl AsyncFnOnce(&FakeObjects)) -> Vec<u8> {
    let objects = bucket();
    block_on(write(&objects));
    objects.stored(key).expect("an object").bytes
}

/// The state of a shard: read, evaluated and written again.
pub(super) fn state(input: &[u8]) -> Outcome {
    let activity = Policy::default().activity;
    let (example, _) = Stored::empty(&activity).pack().expect("a small state");
    let objects = bucket_with(&state_store::key(Shard::ONLY), &example, input);
    let loaded = block_on(state_store::load(&objects, Shard::ONLY, &activity));
    let mut loaded = loaded.expect("the bucket answers");
    if loaded.unusable.is_some() {
        return Outcome::Refused;
    }
    let fleet = &loaded.stored.fleet;
    let known = Known {
        state: fleet.clone(),
        memory: loaded.stored.memory.clone(),
        ..Known::default()
    };
    let report = evaluate(&known, &Policy::default(), now());
    render_all(&report, &Before::default());
    let saved = state_store::save(&objects, Shard::ONLY, &mut loaded.stored, &loaded.replaces);
    block_on(saved).expect("a state that was read can be written");
    Outcome::Accepted
}

pub(super) fn states() -> Vec<Vec<u8>> {
    let with_nodes = |input: &Vec<u8>| {
        let mut stored = Stored::empty(&Policy::default().activity);
        stored.fleet = crate::targets::wire::known_of_story(input).state;
        unpacked(&stored.pack().expect("a small state").0)
    };
    crate::targets::wire::stories()
        .iter()
        .take(4)
        .map(with_nodes)
        .collect()
}

/// The hours of a shard.
pub(super) fn hours(input: &[u8]) -> Outcome {
    let activity = Policy::default().activity;
    let key = hourly_activity::key(Shard::ONLY);
    let objects = bucket_with(&key, &packed_hours(FleetHours::default()), input);
    let loaded = block_on(Hours::load(&objects, Shard::ONLY, &activity));
    let mut loaded = loaded.expect("the bucket answers");
    if loaded.fleet().nodes.is_empty() {
        return Outcome::Refused;
    }
    let known = Known {
        hours: loaded.fleet().clone(),
        ..Known::default()
    };
    let report = evaluate(&known, &Policy::default(), now());
    render_all(&report, &Before::default());
    for node in loaded.fleet().nodes.values() {
        let _ = (node.hours().count(), node.by_hour_of_week());
    }
    loaded.folding(Some(u64::MAX));
    block_on(loaded.keep(&objects, Shard::ONLY)).expect("hours that were read can be written");
    Outcome::Accepted
}

pub(super) fn all_hours() -> Vec<Vec<u8>> {
    let of_story = |input: &Vec<u8>| {
        unpacked(&packed_hours(
            crate::targets::wire::known_of_story(input).hours,
        ))
    };
    crate::targets::wire::stories()
        .iter()
        .take(4)
        .map(of_story)
        .collect()
}

fn packed_hours(fleet: FleetHours) -> Vec<u8> {
    let activity = Policy::default().activity;
    written(&hourly_activity::key(Shard::ONLY), async |objects| {
        let hours = Hours::load(objects, Shard::ONLY, &activity).await;
        let mut hours = hours.expect("the bucket answers");
        *hours.folding(Some(1)) = fleet;
        hours.keep(objects, Shard::ONLY).await.expect("written");
    })
}

/// The delivery state: read, used for the report of the demo and written again.
pub(super) fn finding_memory(input: &[u8]) -> Outcome {
    let example = written(&delivery_state::key(0), async |objects| {
        let nothing = Remembered::default();
        delivery_state::save(objects, 0, &nothing, PutIf::Absent).await;
    });
    let objects = bucket_with(&delivery_state::key(0), &example, input);
    let (remembered, condition) =
        block_on(delivery_state::load(&objects, 0)).expect("the bucket answers");
    if remembered == Remembered::default() {
        return Outcome::Refused;
    }
    let before = Before {
        lives: remembered.lives.clone(),
        decisions: remembered.decisions.clone(),
    };
    render_all(&crate::targets::files::demo_report(), &before);
    let stored = block_on(delivery_state::save(&objects, 0, &remembered, condition));
    assert!(
        matches!(stored, delivery_state::Stored::Done(_)),
        "{stored:?}"
    );
    Outcome::Accepted
}

pub(super) fn finding_memories() -> Vec<Vec<u8>> {
    let mut remembered = Remembered::default();
    let mut report = crate::targets::files::demo_report();
    let inventory = ebb_model::inventory::Inventory::default();
    let with = (&inventory, ebb_catalog::catalog::Catalogue::built_in());
    remembered
        .lives
        .advance(&mut report, with, &Default::default());
    remembered.trend.take(&report);
    remembered.greeted.insert("slack".to_owned());
    let whole = serde_json::to_vec(&remembered).expect("JSON");
    remembered.lives.known = remembered.lives.known.into_iter().take(2).collect();
    vec![serde_json::to_vec(&remembered).expect("JSON"), whole]
}

/// Answers of the cloud that were paid for.
pub(super) fn metered_answers(input: &[u8]) -> Outcome {
    let objects = bucket_with(
        METERED_ANSWERS,
        &packed_answers(&AnswerCache::default()),
        input,
    );
    let answers = block_on(cache::load(&objects));
    if answers == AnswerCache::default() {
        return Outcome::Refused;
    }
    block_on(cache::save(&objects, &answers));
    assert_eq!(block_on(cache::load(&objects)), answers);
    Outcome::Accepted
}

pub(super) fn all_metered_answers() -> Vec<Vec<u8>> {
    let mut answers = serde_json::to_value(AnswerCache::default()).expect("JSON");
    answers["paid"]["day"] = "2026-09-20".into();
    answers["paid"]["with_history"] = serde_json::json!(["i-0abc123"]);
    let answers = serde_json::from_value(answers).expect("answers");
    vec![unpacked(&packed_answers(&answers))]
}

fn packed_answers(answers: &AnswerCache) -> Vec<u8> {
    written(METERED_ANSWERS, async |objects| {
        cache::save(objects, answers).await
    })
}

/// Decisions of users, which the API and the terminal change.
pub(super) fn decisions(input: &[u8]) -> Outcome {
    let objects = bucket();
    objects.insert(decisions::KEY, input);
    let loaded = block_on(decisions::load(&objects));
    if let Ok(decisions) = &loaded {
        let before = Before {
            decisions: decisions.clone(),
            ..Before::default()
        };
        render_all(&crate::targets::files::demo_report(), &before);
    }
    Outcome::from_result(&loaded)
}

pub(super) fn all_decisions() -> Vec<Vec<u8>> {
    let report = crate::targets::files::demo_report();
    let finding = report.findings.first().expect("the demo has findings");
    let id = serde_json::to_string(&finding.id).expect("JSON");
    let decisions = format!(
        r#"{{"schema":"ebb.decisions/1.0","findings":{{{id}:{{"verb":"snooze","until":"2026-12-01T00:00:00Z","reason":"licence server","by":"kim@example.org","at":"2026-11-01T00:00:00Z"}}}}}}"#
    );
    vec![decisions.into_bytes()]
}

/// Names of tasks, which `ebb names push` stores. The content is compressed here, so that the fuzzer
/// changes its fields and not its compression.
pub(super) fn task_names(input: &[u8]) -> Outcome {
    let objects = bucket();
    objects.insert(
        format!("names/v1/2026-09-21/{}.jsonl.zst", "0".repeat(32)),
        zstd(input),
    );
    let loaded = block_on(task_records::load(&objects, now()));
    match loaded.gaps.is_empty() {
        true => Outcome::Accepted,
        false => Outcome::Refused,
    }
}

pub(super) fn all_task_names() -> Vec<Vec<u8>> {
    let names = r#"ebb.names/1
{"source":"sacct","keys":["slurm:7","nextflow:ab/cdef12"],"step":"RNA_ALIGN","form":"nextflow_job","name":"nf-RNA_ALIGN_(S1)","sample":"S1","from":"2026-09-20T00:00:00Z","until":"2026-09-20T01:00:00Z"}
{"source":"nextflow_trace","keys":["nextflow:ab/cdef12"],"step":"RNA:ALIGN","form":"exact","name":"RNA:ALIGN (S1)","attempt":2,"run":"r1","pipeline":"rna","from":"2026-09-20T00:00:00Z","until":"2026-09-20T01:00:00Z"}
"#;
    vec![
        names.as_bytes().to_vec(),
        b"ebb.names/1
"
        .to_vec(),
    ]
}

/// Refreshed prices and machine types.
pub(super) fn prices(input: &[u8]) -> Outcome {
    let objects = bucket();
    objects.insert(prices::KEY, input);
    let loaded = block_on(prices::load(&objects));
    if let Ok(prices) = &loaded {
        let known = Known {
            prices: prices.clone(),
            ..crate::targets::wire::known_of_story(&crate::targets::wire::stories()[0])
        };
        let report = evaluate(&known, &Policy::default(), now());
        render_all(&report, &Before::default());
    }
    Outcome::from_result(&loaded)
}

pub(super) fn all_prices() -> Vec<Vec<u8>> {
    let prices = r#"{"regions":{"us-east-1":{"at":"2026-09-20T00:00:00Z","on_demand":{"m5.4xlarge":768000,"c6a.large":76500},"spot":{}}}}"#;
    vec![prices.as_bytes().to_vec(), br#"{"regions":{}}"#.to_vec()]
}

/// A report as a file: `ebb tune`, `ebb serve` and the API read it.
pub(super) fn report(input: &[u8]) -> Outcome {
    let read = report_file::read(input);
    if let Ok(report) = &read {
        render_all(report, &Before::default());
    }
    Outcome::from_result(&read)
}

pub(super) fn reports() -> Vec<Vec<u8>> {
    let mut report = crate::targets::files::demo_report();
    let whole = json::json(&report).into_bytes();
    report.findings.truncate(2);
    report.nodes.truncate(2);
    report.steps.truncate(1);
    vec![json::json(&report).into_bytes(), whole]
}

/// The log of the lake's table of heartbeats, as another writer of the folder leaves it.
pub(super) fn lake_log(input: &[u8]) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("heartbeats/_delta_log");
    std::fs::create_dir_all(&log).expect("the temporary folder is writable");
    write_commits(&log, input);
    let url = format!("file://{}", folder.path().display());
    block_on(async {
        let Ok(lake) = Lake::open(&url).await else {
            return Outcome::Refused;
        };
        Outcome::from_result(&lake.heartbeats_since(Commits::after(None)).await)
    })
}

/// Commits are divided by empty lines.
fn write_commits(log: &Path, input: &[u8]) {
    const MAX_COMMITS: usize = 4;
    let text = String::from_utf8_lossy(input);
    for (version, commit) in text.split("\n\n").take(MAX_COMMITS).enumerate() {
        let path = log.join(format!("{version:020}.json"));
        std::fs::write(path, commit).expect("the temporary folder is writable");
    }
}

pub(super) fn lake_logs() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("file://{}", folder.path().display());
    let commits = block_on(async {
        let lake = Lake::open(&url).await.expect("a lake");
        let rows = crate::targets::wire::rows_of_story(&crate::targets::wire::stories()[0]);
        let batch = ebb_lake::Batch {
            shard: Shard::ONLY,
            number: 1,
            known: None,
        };
        lake.append_heartbeats(&rows, &batch)
            .await
            .expect("appended");
        let log = folder.path().join("heartbeats/_delta_log");
        let mut commits: Vec<_> = std::fs::read_dir(log)
            .expect("a log")
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "json"))
            .collect();
        commits.sort();
        let texts = commits
            .iter()
            .map(|path| std::fs::read_to_string(path).expect("a commit"));
        texts
            .map(|text| text.trim_end().to_owned())
            .collect::<Vec<_>>()
    });
    // Its files are gone, so that the reader finds what a log of a lost table says.
    let first = commits.first().expect("a commit").clone().into_bytes();
    vec![commits.join("\n\n").into_bytes(), first]
}
