//! The built probe with simulated SQS, S3 and STS, and the credentials of an instance role. The
//! tests are skipped, with the reason, if the simulator is not set up or eBPF does not load.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ebb_telemetry::step::StepEnd;
use ebb_test_support::skip;
use serde::Deserialize;

use crate::machine::{Task, needs_ebpf};
use crate::probe::Probe;

#[derive(Deserialize)]
struct Account {
    queue_url: String,
    bucket: String,
    node: String,
    user_id: String,
    environment: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Arrived {
    messages: Vec<Message>,
    objects: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Message {
    sender: String,
    body: String,
}

/// The simulator, which ends with the test.
struct Cloud {
    process: Child,
    url: String,
}

impl Cloud {
    fn start() -> Result<Self, String> {
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sim/ministack_server.py");
        for needed in [python()?, server.clone()] {
            if !needed.exists() {
                return Err(format!(
                    "{} is not there; scripts/setup test makes it",
                    needed.display()
                ));
            }
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let address = free.map_err(|error| format!("no free port: {error}"))?;
        let process = Command::new(python()?)
            .arg(server)
            .args(["--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("the simulator does not start: {error}"))?;
        let url = format!("http://{address}");
        let mut cloud = Self { process, url };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let ended = cloud.process.try_wait().expect("a child");
            assert!(ended.is_none(), "the simulator ended: {ended:?}");
            assert!(Instant::now() < deadline, "the simulator does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(cloud)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&self, command: &str) -> T {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/account.py");
        let mut python = Command::new(python().expect("asked before"));
        let output = python.arg(script).args([command, &self.url]).output();
        let output = output.expect("python starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn python() -> Result<PathBuf, String> {
    let cache = match std::env::var_os("EBB_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => Path::new(&std::env::var_os("HOME").ok_or("no HOME")?).join(".cache/ebb"),
    };
    Ok(cache.join("venv/bin/python"))
}

/// The probe's configuration and environment on a node of the account.
struct Node<'a> {
    config: PathBuf,
    cloud: &'a Cloud,
    environment: BTreeMap<String, String>,
}

impl Node<'_> {
    fn probe(&self, command: &str) -> Command {
        let mut probe = Command::new(crate::program());
        probe
            .args([command, "--config"])
            .arg(&self.config)
            .env("AWS_ENDPOINT_URL", &self.cloud.url)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .envs(&self.environment);
        probe
    }

    fn answer(&self, command: &str) -> (Output, String) {
        let output = self.probe(command).output().expect("the probe is built");
        let text = [&output.stdout[..], &output.stderr].concat();
        (output, String::from_utf8_lossy(&text).into_owned())
    }
}

/// A restart while no AWS endpoint answers: the probe uses the identity of the run before.
fn observes_while_aws_does_not_answer(node: &Node<'_>) {
    let mut command = node.probe("run");
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    let probe = Probe::spawn(command);
    let log = probe.log();
    assert!(log.contains("the earlier one is used"), "{log}");
    probe.kill();
}

#[expect(
    clippy::too_many_lines,
    reason = "one scenario, read from top to bottom"
)]
pub(crate) fn heartbeats_and_steps_arrive_under_the_attested_name() {
    needs_ebpf();
    let cloud = Cloud::start().unwrap_or_else(|reason| skip(reason));
    let account: Account = cloud.ask("make");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let config = folder.path().join("probe.toml");
    let text = format!(
        "queue_url = \"{}\"\nbucket = \"{}\"\nregion = \"us-east-1\"\nspool_dir = \"{}\"\n\
         interval_seconds = 1\nsample_seconds = 1\nsteps_seconds = 1\n",
        account.queue_url,
        account.bucket,
        folder.path().join("spool").display(),
    );
    std::fs::write(&config, text).expect("a file");
    let mut node = Node {
        config,
        cloud: &cloud,
        environment: account.environment.clone(),
    };

    let (checked, text) = node.answer("check");
    assert!(checked.status.success(), "{text}");
    assert!(
        text.contains(&format!("attested as {}", account.user_id)),
        "{text}"
    );

    let probe = Probe::spawn(node.probe("run"));
    let task = Task::new(None);
    task.start("exit 9").wait().expect("the shell ends");
    std::thread::sleep(Duration::from_secs(6));
    probe.stop();

    let arrived: Arrived = cloud.ask("read");
    let (mut sequences, mut ended) = (Vec::new(), Vec::new());
    for message in &arrived.messages {
        assert_eq!(message.sender, account.user_id);
        if ebb_wire::is_steps_message(&message.body) {
            let steps = ebb_wire::decode_steps_message(&message.body).expect("a message");
            assert_eq!(steps.batch.node.as_str(), account.node);
            let steps = steps.batch.steps.iter();
            let of_task = steps.filter(|step| step.id.key == task.id);
            ended.extend(of_task.map(|step| step.end));
            continue;
        }
        let decoded = ebb_wire::decode_heartbeats(&message.body).expect("a message");
        for heartbeat in decoded.heartbeats {
            assert_eq!(heartbeat.node.as_str(), account.node);
            sequences.push(heartbeat.sequence);
        }
    }
    sequences.sort_unstable();
    let expect: Vec<u64> = (0..sequences.len() as u64).collect();
    assert_eq!(sequences, expect, "each one once");
    assert!(sequences.len() >= 4, "{sequences:?}");
    // An object costs ten times as much.
    assert!(arrived.objects.is_empty(), "{:?}", arrived.objects.keys());
    assert_eq!(ended, [StepEnd::Exited(9)]);

    observes_while_aws_does_not_answer(&node);

    // The key of a user identifies no node. Without a key and a known identity there is none.
    std::fs::remove_dir_all(folder.path().join("spool")).expect("removed");
    for (key, expect) in [
        ("test", "the credentials do not belong to a role session"),
        ("", "ebb-probe: failed to get the identity"),
    ] {
        node.environment = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
            .map(|name| (name.to_owned(), key.to_owned()))
            .into();
        let (refused, text) = node.answer("run");
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains(expect), "{text}");
    }
}
