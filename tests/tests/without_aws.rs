//! Without AWS: the real probe writes to an object store, and `ebb sweep --lake` evaluates its
//! data. The stores are a folder, a simulator of S3 and a mock of Google Cloud Storage.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ebb_model::report::Report;
use ebb_telemetry::origin::Origin;
use ebb_test_support::{run, skip, tests};
use serde_json::Value;

/// Seconds of an interval. Five heartbeats are one message; the rest is sent at the end.
const INTERVAL: u64 = 1;
/// On a busy machine a probe takes seconds to start.
const WATCHED: Duration = Duration::from_secs(20);

const REPORT: &str = "reports/latest/report.json";

/// Credentials that the simulators accept.
const KEYS: [(&str, &str); 4] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_REGION", "us-east-1"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];

/// A program of the workspace, next to the program of this package.
fn program(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ebb-demo")).with_file_name(name);
    if !path.exists() {
        skip(format_args!("{} is not built", path.display()));
    }
    path
}

/// A program that ends with its test.
struct Running(Child);

impl Running {
    fn stop(&mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A place, and the environment variables that programs need to reach it.
struct Place {
    url: String,
    environment: Vec<(&'static str, String)>,
}

impl Place {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        command
    }

    fn sweep(&self, ebb: &Path, policy: &Path) -> Result<Value> {
        let mut sweep = self.command(ebb);
        let swept = sweep.args(["sweep", "--lake", &self.url, "--policy"]);
        let swept = swept.arg(policy).output()?;
        let words = String::from_utf8_lossy(&swept.stderr);
        ensure!(swept.status.success(), "{words}");
        Ok(serde_json::from_slice(&swept.stdout)?)
    }
}

/// The probe observes for some seconds. Two sweeps evaluate its data, each heartbeat once.
fn watched_and_swept(place: &Place, report: impl Fn() -> Result<Vec<u8>>) -> Result<()> {
    let (probe, ebb) = (program("ebb-probe"), program("ebb"));
    let folder = tempfile::tempdir()?;
    let (config, policy) = (
        folder.path().join("probe.toml"),
        folder.path().join("policy.toml"),
    );
    let spool = folder.path().join("spool");
    fs::write(
        &config,
        format!(
            "place = {:?}\nspool_dir = {spool:?}\ninterval_seconds = {INTERVAL}\nsample_seconds = 1\n",
            place.url
        ),
    )?;
    fs::write(
        &policy,
        "[[prices]]\nnode = \"*\"\nusd_micros_per_hour = 350000\n",
    )?;
    let watch = place
        .command(&probe)
        .args(["run", "--config"])
        .arg(&config)
        .spawn();
    let mut watch = Running(watch.context("the probe")?);
    sleep(WATCHED);
    watch.stop()?;

    let swept = place.sweep(&ebb, &policy)?;
    assert!(swept["heartbeats"].as_u64() >= Some(1), "{swept:#}");
    assert_eq!(swept["refused"], serde_json::json!({}), "{swept:#}");
    let stored_report: Report = serde_json::from_slice(&report()?)?;
    let [node] = &stored_report.nodes[..] else {
        bail!(
            "this host alone is in the report: {:?}",
            stored_report.nodes
        );
    };
    assert_eq!(node.origin, Origin::Measured);
    assert_eq!(node.per_hour.map(|price| price.0.micros()), Some(350_000));
    assert!(
        stored_report.gaps.is_empty(),
        "nobody was asked: {:?}",
        stored_report.gaps
    );

    let again = place.sweep(&ebb, &policy)?;
    assert_eq!(again["heartbeats"], 0, "{again:#}");
    Ok(())
}

fn a_host_that_pushes_to_a_folder_is_judged_from_there() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = Place {
        url: format!("file://{}", folder.path().display()),
        environment: Vec::new(),
    };
    watched_and_swept(&place, || Ok(fs::read(folder.path().join(REPORT))?))
}

/// The simulator of S3 requires a signature but does not check it.
const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
     SignedHeaders=host, Signature=0";

/// Sends one request to the simulator; returns the body of the answer.
fn request(port: u16, line: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(
        stream,
        "{line} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: {SIGNED}\r\nContent-Length: 0\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.context("an answer of HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    ensure!(head.split(' ').nth(1) == Some("200"), "{line}: {head}");
    Ok(answer.split_off(end + 4))
}

/// The simulator with an empty bucket.
fn with_bucket(script: &str) -> Result<(Running, u16)> {
    let python = ebb_tests::python().context("no HOME")?;
    if !python.exists() {
        skip(format_args!(
            "no {} (scripts/setup test makes it)",
            python.display()
        ));
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let server = Command::new(python)
        .args([script, "--port", &port.to_string()])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sim"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = Running(server.context("the simulator")?);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not start"
        );
        sleep(Duration::from_millis(200));
    }
    request(port, "PUT /ebb-place")?;
    Ok((server, port))
}

fn a_host_that_pushes_to_s3_is_judged_from_there() -> Result<()> {
    let (_server, port) = with_bucket("moto_server.py")?;
    let keys = KEYS.map(|(name, value)| (name, value.to_owned()));
    let endpoint = ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
    let place = Place {
        url: "s3://ebb-place/site".to_owned(),
        environment: keys.into_iter().chain([endpoint]).collect(),
    };
    let report = format!("GET /ebb-place/site/{REPORT}");
    watched_and_swept(&place, || request(port, &report))
}

fn a_host_that_pushes_to_google_cloud_storage_is_judged_from_there() -> Result<()> {
    let (_server, port) = with_bucket("gcs_server.py")?;
    let folder = tempfile::tempdir()?;
    let account = folder.path().join("account.json");
    let nobody = serde_json::json!({
        "gcs_base_url": format!("http://127.0.0.1:{port}"), "disable_oauth": true,
        "client_email": "", "private_key": "", "private_key_id": "",
    });
    fs::write(&account, nobody.to_string())?;
    let account = account.display().to_string();
    let place = Place {
        url: "gs://ebb-place/site".to_owned(),
        environment: vec![("GOOGLE_SERVICE_ACCOUNT", account)],
    };
    let report = format!("GET /ebb-place/site/{REPORT}");
    watched_and_swept(&place, || request(port, &report))
}

fn main() -> ExitCode {
    run(tests![
        a_host_that_pushes_to_a_folder_is_judged_from_there,
        a_host_that_pushes_to_s3_is_judged_from_there,
        a_host_that_pushes_to_google_cloud_storage_is_judged_from_there
    ])
}
