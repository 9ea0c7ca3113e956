//! Pages about single tasks, over documents as a sweep writes them.

use std::collections::BTreeMap;

use ebb_cloud::documents::run_opening::read_opening;
use ebb_cloud::documents::run_tasks::{PART_TASKS, run_key};
use ebb_cloud::documents::task_lists::{
    DetailFolder, DetailIndex, SHARED_SCHEMA, ShardCount, SharedDocument, encode, write_index,
    write_packed,
};
use ebb_cloud::fake::objects::FakeObjects;
use ebb_cloud::fake::run_parts::insert_run;
use ebb_model::report::Report;
use ebb_model::report::cost_shares::{CostDimension, CostName, CostShare, DayShare};
use ebb_model::report::probe_problem::ProbeProblem;
use ebb_model::report::probe_summary::{ProbeMode, ProbeSummary};
use ebb_model::report::task_detail::ToolDetail;
use ebb_report::testing;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::units::Share;

use super::walk::{ask, bucket};
use super::*;
use crate::pages::view::segment;

/// Text that tries to break out of an element, an attribute, a script and a terminal.
const EVIL: &str = "<mark onload='x'>\"q\" --><script>\u{1b}[31m\u{202e}{{ 7*7 }}";

async fn put(bucket: &FakeObjects, key: String, value: &impl serde::Serialize) {
    let packed = encode(value).expect("it encodes").expect("it fits");
    write_packed(bucket, key, packed).await.expect("written");
}

/// The documents of one run, node and step that have these tasks.
async fn detailed(report: &Report, run: &str, list: &TaskList) -> FakeObjects {
    let bucket = bucket(Some(report));
    put(&bucket, run_key(run), list).await;
    let first = list.tasks.first().expect("a task");
    for (folder, name) in [
        (DetailFolder::Nodes, first.node.as_str()),
        (DetailFolder::Steps, &first.step),
    ] {
        let document = SharedDocument {
            schema: SHARED_SCHEMA.to_owned(),
            at: list.at,
            entries: BTreeMap::from([(name, list)]),
        };
        put(&bucket, folder.key(0), &document).await;
    }
    let one = ShardCount::from_counts(1, 1);
    let index = DetailIndex {
        schema: DetailIndex::SCHEMA.to_owned(),
        at: list.at,
        nodes: one,
        steps: one,
        explanations: one,
        explanations_left_out: 0,
        runs: BTreeMap::new(),
        runs_left_out: 0,
    };
    write_index(&bucket, &index).await.expect("written");
    bucket
}

fn report(list: &TaskList) -> Report {
    Report {
        at: list.at,
        ..testing::empty()
    }
}

#[tokio::test]
async fn a_run_a_node_and_a_step_show_their_tasks() {
    let list = task_list();
    let report = report(&list);
    let check = async |path: &str, expect: &[&str]| {
        let (status, _, text) = ask(detailed(&report, "r", &list).await, path).await;
        assert_eq!(status, 200, "{path}: {text}");
        let text = text.replace("&#x2f;", "/");
        for one in expect {
            assert!(text.contains(one), "{path} has no {one}: {text}");
        }
    };
    let task = segment(&list.tasks[0].id);
    let killed = "align of sample S1 failed after 39 min: OOM-killed at 15.9 GiB of 16.0 GiB";
    let run = format!("/runs/r?task={task}");
    check(
        &run,
        &[
            killed,
            "data-timeline=\"/runs/r/timeline.json\"",
            "data-usage=\"",
            "state stalled",
            "sort makes no progress since this time",
            "no task has a known price and request",
            "href=\"/data/runs/r\"",
            "href=\"/runs/r?format=csv\"",
        ],
    )
    .await;
    check("/runs/r?task=1", &["attempt 2"]).await;
    check("/runs/r?task=nothing", &["The run has no such task."]).await;
    check("/runs/r?show=problems", &[killed, "everything"]).await;
    check(
        "/nodes/i-0aaa",
        &[
            "15.9 GiB of 16.0 GiB",
            "href=\"/data/nodes/i%2D0aaa/activity\"",
        ],
    )
    .await;
    check(
        "/steps/align",
        &["state failed", "href=\"/data/steps/align/tasks\""],
    )
    .await;
    check(
        &format!("/runs/r/usage.json?task={task}"),
        &[
            "\"cores\":[2.0,4.0]",
            "\"disk_bytes_per_second\":[100.0,null]",
        ],
    )
    .await;
    let row = "align,align,S1,1,r,i-0aaa,,failed,";
    for path in ["/runs/r", "/nodes/i-0aaa", "/steps/align"] {
        check(&format!("{path}?format=csv"), &[row, ",stalled,runs,"]).await;
    }
}

#[tokio::test]
async fn the_cost_of_a_run_is_the_allocated_one_or_an_estimate() {
    let list = task_list();
    let mut report = report(&list);
    let names = [(CostDimension::Run, CostName::Name("r".to_owned()))].into();
    let day = DayShare {
        tasks: 3,
        used: Usd::from_micros(12_340_000),
        ..DayShare::default()
    };
    let share = |names| CostShare {
        names,
        by_day: [("2026-03-04".to_owned(), day)].into(),
    };
    let check = async |report: &Report, path: &str, expect: &[&str]| {
        let (status, _, text) = ask(detailed(report, "r", &list).await, path).await;
        assert_eq!(status, 200, "{path}: {text}");
        for one in expect {
            assert!(text.contains(one), "{path} has no {one}: {text}");
        }
    };
    check(&report, "/runs/r", &["Cost, estimate"]).await;
    report.costs.by_run = vec![share(names)];
    check(&report, "/runs/r", &["<h2>Cost</h2>", "$12.34"]).await;
    // The other runs together say nothing about one of them.
    report.costs.by_run = vec![share([(CostDimension::Run, CostName::Others)].into())];
    check(&report, "/runs/r", &["Cost, estimate"]).await;
}

#[tokio::test]
async fn what_no_sweep_wrote_is_a_page_that_names_the_list() {
    let list = task_list();
    let check = async |path: &str, status: u16, expect: &str| {
        let bucket = detailed(&report(&list), "r", &list).await;
        let (found, kind, text) = ask(bucket, path).await;
        assert_eq!(
            (found, &*kind),
            (status, "text/html; charset=utf-8"),
            "{path}"
        );
        assert!(text.contains(expect), "{path}: {text}");
    };
    check("/runs/q", 404, "runs lists all runs").await;
    check("/nodes/q", 404, "nodes lists all nodes").await;
    check("/steps/q", 404, "steps lists all steps").await;
    check("/runs/q/timeline.json", 404, "runs lists all runs").await;
    check("/runs/r/usage.json?task=q", 404, "has no task").await;
    check("/runs/r/usage.json", 400, "missing field").await;
    check("/runs/r?show=q", 400, "show is problems").await;
    check("/runs/r?format=xml", 400, "format is csv").await;
    check("/runs/r?page=-1", 400, "invalid digit").await;
}

#[tokio::test]
async fn hostile_names_are_text_on_every_page() {
    let mut list = task_list();
    for task in &mut list.tasks {
        EVIL.clone_into(&mut task.step);
        EVIL.clone_into(&mut task.name);
        task.run = Some(EVIL.to_owned());
        task.sample = Some(EVIL.to_owned());
        task.job = Some(EVIL.to_owned());
        task.states = BTreeMap::from([(EVIL.to_owned(), 1.0)]);
        task.id.push_str(EVIL);
        task.tools = vec![ToolDetail {
            name: EVIL.to_owned(),
            processes: 1,
            cpu_seconds: f64::MAX,
            peak_memory_bytes: Some(u64::MAX),
            disk_bytes: None,
            started_after_seconds: Some(-1.0),
            ended_after_seconds: None,
            failed: Some(1),
            oom_kills: Some(1),
        }];
    }
    let report = report(&list);
    let name = segment(EVIL);
    let task = segment(&list.tasks[0].id);
    for path in [
        format!("/runs/{name}"),
        format!("/runs/{name}?task={task}"),
        format!("/runs/{name}?task={name}&show=problems"),
        format!("/steps/{name}"),
        "/nodes/i-0aaa".to_owned(),
        format!("/runs/nothing{name}"),
        format!("/nodes/{name}"),
        format!("/steps/nothing{name}"),
        format!("/search?q={name}"),
        format!("/probes?q={name}"),
        format!("/probes?{name}=1"),
    ] {
        let (_, kind, text) = ask(detailed(&report, EVIL, &list).await, &path).await;
        assert_eq!(kind, "text/html; charset=utf-8", "{path}");
        for raw in ["<mark", "onload='", "q\" --", "<script>"] {
            let at = text.find(raw).map(|at| &text[at.saturating_sub(20)..]);
            assert!(at.is_none(), "{path} has {raw}: {at:?}");
        }
        assert!(
            !text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_greatest_run_is_pages_of_bounded_size() {
    // As many tasks as a sweep has.
    let list = many_tasks(100_000);
    let report = report(&list);
    let newest = TaskList {
        tasks: list.tasks[99_500..].to_vec(),
        ..list.clone()
    };
    let bucket = detailed(&report, "r", &newest).await;
    insert_run(&bucket, ("r", &list), PART_TASKS);
    let service = crate::service::Service::new(std::sync::Arc::new(bucket));
    for (path, limit) in [
        ("/runs/r", 300_000),
        ("/runs/r?page=1000&log=2000&task=77777", 300_000),
        ("/runs/r/usage.json?task=99999", 300_000),
        ("/runs/r?show=problems", 300_000),
        ("/runs/r/timeline.json", 1_500_000),
        ("/runs/r/timeline.json?from=0&to=4294967295", 1_500_000),
        ("/steps/count?page=2", 300_000),
        ("/nodes/i-0aaa", 300_000),
        ("/v1/runs/r?limit=500&state=failed", 1_500_000),
    ] {
        let request = http::Request::get(path).body(axum::body::Bytes::new());
        let (now, at) = (std::time::Instant::now(), list.at);
        let answer = service.answer(request.expect("a request"), now, at).await;
        assert_eq!(answer.status(), 200, "{path}");
        let bytes = answer.body().len();
        assert!(bytes < limit, "{path}: {bytes} bytes");
    }
    let request = http::Request::get("/runs/r?format=csv").body(axum::body::Bytes::new());
    let now = std::time::Instant::now();
    let answer = service
        .answer(request.expect("a request"), now, list.at)
        .await;
    let text = String::from_utf8_lossy(answer.body());
    assert_eq!(answer.status(), 400);
    assert!(text.contains("ebb runs RUN --format csv"), "{text}");
}

/// A run with a retry, tasks that run, stalled and were lost, and a request on a node with a price.
fn eventful_run() -> TaskList {
    let mut list = many_tasks(250);
    list.at += SignedDuration::from_hours(1);
    let at = list.at;
    let tasks = &mut list.tasks;
    tasks[5].attempt = Some(1);
    tasks[5].end = StepEnd::Exited(3);
    tasks[5].observed_at = tasks[5].started_at + SignedDuration::from_secs(9);
    tasks[5].last_progress_at = tasks[5].observed_at;
    tasks[200].attempt = Some(2);
    tasks[120].requested_cores = Some(2.0);
    for (n, ago) in [(240, 0), (241, 100), (242, 1)] {
        tasks[n].end = StepEnd::Running;
        tasks[n].observed_at = at - SignedDuration::from_mins(ago);
        tasks[n].last_progress_at = tasks[n].started_at;
    }
    tasks[242].findings = vec!["stalled_step/us-east-1/count".to_owned()];
    list
}

#[tokio::test]
async fn the_first_view_from_the_opening_is_the_one_from_all_tasks() {
    let list = eventful_run();
    let mut node = node_summary("i-0aaa");
    node.instance_type = Some(InstanceType::new("m5.xlarge").expect("a type"));
    node.per_hour = Some(UsdPerHour::from_micros(768_000));
    let report = Report {
        nodes: vec![node],
        ..report(&list)
    };
    let of_list = detailed(&report, "r", &list).await;
    let of_opening = detailed(&report, "r", &list).await;
    insert_run(&of_opening, ("r", &list), 50);
    let opening = read_opening(&of_opening, "r").await.expect("no error");
    assert!(opening.is_some());
    let (status, _, first) = ask(of_opening.clone(), "/runs/r").await;
    assert_eq!(status, 200);
    for expect in [
        "count failed after 9 s: exit status 3; attempt 2 started 08:01:40",
        "249 of 250 tasks have no known price or request",
        "1–100 of 499",
    ] {
        assert!(first.contains(expect), "{expect}: {first}");
    }
    let (_, _, same) = ask(of_list, "/runs/r").await;
    assert_eq!(first, same);
    // A later part of a list is read from all tasks.
    let (_, _, later) = ask(of_opening, "/runs/r?page=3&log=5").await;
    assert!(later.contains("201–250 of 250"), "{later}");
}

#[tokio::test]
async fn probes_show_losses_and_what_they_cannot_observe() {
    let probe = |node: &str, mode, events_lost| ProbeSummary {
        node: NodeId::new(node).expect("a node id"),
        origin: Origin::Measured,
        mode,
        heard_at: at("09:29:00"),
        events_lost,
        records_dropped: 0,
        spool_bytes: Bytes::gib(1),
        resident_bytes: None,
        cpu_share: Share::from_parts(1, 1_000),
        clock_ahead_seconds: -180,
        version: None,
        problems: match events_lost {
            0 => Vec::new(),
            _ => vec![ProbeProblem::EventsLost, ProbeProblem::WrongClock],
        },
    };
    let mut report = report(&task_list());
    report.probes = vec![
        probe("i-0bad", ProbeMode::Procfs, 4_321),
        probe("i-0good", ProbeMode::Ebpf, 0),
    ];
    let check = async |path: &str, expect: &[&str], missing: &str| {
        let (status, _, text) = ask(bucket(Some(&report)), path).await;
        assert_eq!(status, 200, "{path}");
        for one in expect {
            assert!(text.contains(one), "{path} has no {one}: {text}");
        }
        assert!(!text.contains(missing), "{path}: {text}");
    };
    let row = [
        "2 probes",
        "4321",
        "limited",
        "1.0 GiB",
        "0.10 %",
        "3 min behind",
        "lost kernel events in the last day; with a clock wrong by more than a minute",
        "timedatectl set-ntp true",
    ];
    check("/probes", &row, "simulated").await;
    check("/probes?mode=ebpf", &["1 probe,", "i-0good"], "i-0bad").await;
    check("/probes?q=BAD", &["1 probe,", "i-0bad"], "i-0good").await;
    check(
        "/probes?q=nothing",
        &["No probe matches the filter."],
        "i-0bad",
    )
    .await;
    let csv = "i-0bad,procfs,2026-03-04T09:29:00Z,4321,0,1073741824,,0.001,-180,,\
               events_lost wrong_clock\r\n";
    check("/probes?format=csv", &[csv], "<").await;
    check("/", &["1 lost data", "1 without eBPF"], "none lost data").await;
}
