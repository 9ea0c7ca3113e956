//! A scan of an account over the real SDKs: the simulated one, filled by its seed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};

use ebb_test_support::{run, skip, tests};
use serde_json::Value;

/// Starts the simulators and fills them, prints their addresses on one line, and stops them at the
/// end of its input.
const FILL: &str = "
import json, sys
from filled import filled
f = filled()
fixture = {'moto': f.sim.moto_url, 'ministack': f.sim.ministack_url, 'world': f.world, 'planted': f.planted}
print('fixture ' + json.dumps(fixture), flush=True)
sys.stdin.read()
";

const ON_MOTO: [&str; 9] = [
    "AUTO_SCALING",
    "BATCH",
    "CLOUDWATCH",
    "COMPUTE_OPTIMIZER",
    "COST_OPTIMIZATION_HUB",
    "COST_EXPLORER",
    "EC2",
    "ECS",
    "PRICING",
];

struct Account {
    simulators: Child,
    fixture: Value,
}

impl Account {
    fn start() -> Result<Self, String> {
        let home = std::env::var_os("EBB_CACHE").map(PathBuf::from);
        let home =
            home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/ebb")));
        let python = home.ok_or("no HOME")?.join("venv/bin/python");
        if !python.exists() {
            return Err(format!(
                "no {} (scripts/setup test makes it)",
                python.display()
            ));
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/sim");
        let mut simulators = Command::new(python)
            .args(["-c", FILL])
            .current_dir(folder)
            .env("PYTHONPATH", folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let stdout = simulators.stdout.take().expect("it is a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("fixture ").map(str::to_owned));
        let fixture = line.expect("the simulators are there and filled");
        Ok(Self {
            simulators,
            fixture: serde_json::from_str(&fixture).expect("JSON"),
        })
    }

    fn ebb(&self, line: &[&str]) -> Output {
        let url = |name: &str| self.fixture[name].as_str().expect("a URL").to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.args(line).env_clear().env("HOME", "/nowhere");
        for service in ON_MOTO {
            command.env(format!("AWS_ENDPOINT_URL_{service}"), url("moto"));
        }
        command
            .env("AWS_ENDPOINT_URL", url("ministack"))
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .output()
            .expect("the program starts")
    }

    /// Findings of a scan by kind and resource.
    fn scan(&self, more: &[&str]) -> (Value, String) {
        let line = [&["scan", "--format", "json"], more].concat();
        let output = self.ebb(&line);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line:?}: {stderr}");
        (
            serde_json::from_slice(&output.stdout).expect("JSON"),
            stderr,
        )
    }

    fn planted(&self, kind: &str, variant: &Value) -> Vec<&str> {
        let planted = self.fixture["planted"].as_array().expect("a list");
        let of_it = planted
            .iter()
            .filter(|p| p["kind"] == kind && &p["variant"] == variant);
        of_it.filter_map(|p| p["resource"].as_str()).collect()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        drop(self.simulators.stdin.take());
        let _ = self.simulators.wait();
    }
}

fn find_resources<'a>(report: &'a Value, kind: &str) -> Vec<&'a str> {
    let findings = report["findings"].as_array().expect("a list");
    let of_it = findings.iter().filter(|finding| finding["kind"] == kind);
    of_it
        .filter_map(|finding| finding["resource"]["id"].as_str())
        .collect()
}

#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
fn an_account_is_scanned_with_the_users_credentials_and_without_a_probe() {
    let account = Account::start().unwrap_or_else(|reason| skip(reason));
    let folder = tempfile::tempdir().expect("a folder");
    let policy = folder.path().join("policy.toml");
    // The simulated metrics reach back two hours.
    std::fs::write(&policy, "[metrics]\nidle_after_seconds = 3600\n").expect("a file");
    let policy = policy.to_str().expect("a name");

    let (report, stderr) = account.scan(&["--policy", policy]);
    assert_eq!(report["origin"], "simulated");
    // The simulators have no public file of the Spot Instance Advisor.
    let gaps = report["gaps"].as_array().expect("a list");
    let others = gaps
        .iter()
        .filter(|gap| gap["scope"] != "Spot Instance Advisor");
    assert_eq!(others.count(), 0, "{gaps:?}");
    let idle = find_resources(&report, "idle_node");
    for planted in account.planted("idle_node", &Value::Null) {
        assert!(idle.contains(&planted), "{planted} is idle");
    }
    let stuck = find_resources(&report, "stuck_batch_job");
    for planted in account.planted("stuck_batch_job", &"runnable_blocked".into()) {
        assert!(stuck.contains(&planted), "{planted} is blocked");
    }
    let bases: Vec<&Value> = report["findings"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|finding| finding["cost"].get("basis"))
        .collect();
    // A node that has not run for a full day yet is not on the bill.
    assert!(bases.iter().any(|basis| **basis == "bill"), "{bases:?}");
    assert!(
        stderr.contains("Account 123456789012 as arn:aws:iam::123456789012:root."),
        "{stderr}"
    );
    assert!(stderr.contains("Requested "), "{stderr}");

    let region = account.fixture["world"]["batch"]["region"]
        .as_str()
        .expect("a region");
    let (narrow, stderr) = account.scan(&["--no-bill", "--no-metrics", "--region", region]);
    assert!(find_resources(&narrow, "idle_node").is_empty());
    assert!(
        narrow["totals"]["running_instances"].as_u64()
            < report["totals"]["running_instances"].as_u64()
    );
    assert!(
        stderr.contains("No CloudWatch requests; no Cost Explorer requests."),
        "{stderr}"
    );

    let doctor = account.ebb(&["doctor", "account", "--region", region, "--format", "json"]);
    let sections: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    assert!(doctor.status.success(), "{sections:#}");
    let checks = sections[0]["checks"].as_array().expect("checks");
    let others: Vec<&Value> = checks
        .iter()
        .filter(|check| check["state"] != "ok")
        .map(|check| &check["name"])
        .collect();
    // The regions are named, so that one permission is not tried, nor are questions of which
    // AWS answers few; and there are no snapshots, so that no images are asked for.
    assert_eq!(
        others,
        [
            "ec2:DescribeRegions",
            "ec2:DescribeImages",
            "ec2:GetSpotPlacementScores",
        ],
        "{sections:#}"
    );
}

fn main() -> ExitCode {
    run(tests![
        an_account_is_scanned_with_the_users_credentials_and_without_a_probe
    ])
}
