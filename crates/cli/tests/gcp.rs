//! A scan of a project as a server on this machine plays it.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

/// Two running instances; `quiet` does nothing for eight hours, `busy` computes.
fn answer(target: &str) -> Value {
    let zone = "https://www.googleapis.com/compute/v1/projects/lab/zones/europe-west6-a";
    if target.contains("/aggregated/instances") {
        let instance = |id: &str, name: &str| {
            json!({
                "id": id, "name": name, "status": "RUNNING",
                "machineType": format!("{zone}/machineTypes/n2-standard-8"),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            })
        };
        let instances = [instance("11", "quiet"), instance("12", "busy")];
        return json!({"items": {"zones/europe-west6-a": {"instances": instances}}});
    }
    if target.contains("/machineTypes/") {
        return json!({"name": "n2-standard-8", "guestCpus": 8, "memoryMb": 32768});
    }
    let series = |id: &str, value: &Value| {
        // Periods end on the clock, whichever metric is asked for.
        let newest = Timestamp::now().as_second() / 300 * 300;
        let newest = Timestamp::from_second(newest).expect("a time");
        let points = (0..96).map(|n| {
            let end = newest - (n * 5).minutes();
            let end = end.to_string();
            json!({"interval": {"startTime": end, "endTime": end}, "value": value})
        });
        let points: Vec<Value> = points.collect();
        json!({
            "resource": {"type": "gce_instance", "labels": {"instance_id": id}},
            "points": points,
        })
    };
    let of = |quiet: Value, busy: Value| json!({"timeSeries": [series("11", &quiet), series("12", &busy)]});
    if target.contains("utilization") {
        return of(json!({"doubleValue": 0.01}), json!({"doubleValue": 0.8}));
    }
    if target.contains("percent_used") {
        return of(json!({"doubleValue": 12.0}), json!({"doubleValue": 60.0}));
    }
    of(
        json!({"int64Value": "2000"}),
        json!({"int64Value": "90000000"}),
    )
}

/// Serves until the test ends.
fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let body = answer(&first).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

fn scan(more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.args(["scan", "--gcp", "lab", "--format", "json"]);
    command.args(more).env_clear();
    command.output().expect("the program starts")
}

#[test]
fn a_quiet_instance_of_a_project_is_idle_and_is_stopped_by_gcloud() {
    let address = start();
    let output = scan(&["--gcp-endpoint", &address, "--price-per-hour", "0.4"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("Project lab."), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["totals"]["running_instances"], 2);
    let findings = report["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let found = &findings[0];
    assert_eq!(found["id"], "idle_node/europe-west6/11");
    assert_eq!(found["resource"]["name"], "quiet");
    assert_eq!(found["cost"]["basis"], "command_line");
    let command = "gcloud compute instances stop --project 'lab' --zone 'europe-west6-a' 'quiet'";
    assert_eq!(found["remedy"]["command"], command);
}

/// Hourly cost of both instances up to the present hour, and one invalid row.
fn billing() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for hour in 0..120 {
        let at = Timestamp::now() - (hour * 60).minutes();
        for (id, cost) in [("11", 0.5), ("12", 2.0)] {
            let name = "//compute.googleapis.com/projects/4/zones/europe-west6-a/instances";
            let row = json!({
                "service": {"description": "Compute Engine"},
                "usage_start_time": at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
                "resource": {"name": "a", "global_name": format!("{name}/{id}")},
                "cost": cost, "currency": "USD", "credits": [{"amount": -0.1}],
            });
            writeln!(file, "{row}").expect("written");
        }
    }
    writeln!(file, "{{}}").expect("written");
    file
}

#[test]
fn an_instance_costs_what_the_billing_export_says_else_the_report_says_how_to_give_it() {
    let address = start();
    let file = billing();
    let path = file.path().display().to_string();
    let output = scan(&["--gcp-endpoint", &address, "--billing", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let bad = format!("{path}:241: service.description: is missing; skipped");
    assert!(stderr.contains(&bad), "{stderr}");
    assert!(
        stderr.contains("prices are from the billing export"),
        "{stderr}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let cost = &report["findings"][0]["cost"];
    assert_eq!(cost["basis"], "bill", "{report:#}");
    assert_eq!(cost["per_hour_usd"], "0.40");
    let days = report["ledger"].as_array().expect("days");
    assert!(days.len() >= 3, "{days:?}");
    let whole = days.iter().filter(|day| day["billed_usd"] == "55.20");
    assert!(whole.count() >= 2, "{days:?}");

    let output = scan(&["--gcp-endpoint", &address]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["findings"][0]["cost"], Value::Null);
    let gap = &report["gaps"][0];
    assert_eq!(gap["scope"], "lab: prices", "{report:#}");
    let reason = gap["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("--billing FILE"), "{reason}");
}

#[test]
fn a_project_that_does_not_answer_fails_and_says_what_it_takes() {
    let output = scan(&["--gcp-endpoint", "http://127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("roles/compute.viewer"), "{stderr}");
    let output = scan(&["--region", "europe-west6", "--metrics", "x.csv"]);
    assert_eq!(output.status.code(), Some(2));
}
