//! The lake on S3 as MiniStack plays it: conditional puts decide races there.
//! The store reads its endpoint from the environment, so this test runs itself
//! again with the environment set.

#[expect(dead_code, reason = "the samples of the other tests of the lake")]
#[path = "lake/sample.rs"]
mod sample;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use ebb_lake::{Appended, Batch, Cleanup, Commits, Lake, LakeError, Table, Upkeep, UpkeepCounts};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::shard::Shard;
use ebb_test_support::{run, skip, tests};
use jiff::Timestamp;

use sample::{bare_heartbeat, heartbeat};

const NAME: &str = "a_lake_on_s3_commits_once_and_reads_back";
const BUCKET: &str = "ebb-lake-test";

fn a_lake_on_s3_commits_once_and_reads_back() {
    if std::env::var_os("EBB_TEST_ON_S3").is_some() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let one_thread = runtime.enable_all().build().expect("a runtime");
        let refused = one_thread.block_on(Lake::open(&url()));
        assert!(matches!(refused, Err(LakeError::OneThread { .. })));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        runtime.expect("a runtime").block_on(async {
            on_s3().await;
            past_checkpoints().await;
        });
        return;
    }
    let server = Server::start().unwrap_or_else(|reason| skip(reason));
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", NAME, "--nocapture"])
        .env("EBB_TEST_ON_S3", "1")
        .env("AWS_ENDPOINT_URL_S3", &server.endpoint)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_REGION", "us-east-1")
        .status()
        .expect("runs");
    assert!(status.success());
}

async fn on_s3() {
    let (one, other) = (open().await, open().await);
    let number = 1;
    let rows: Vec<Placed> = (0..1_000).map(|node| heartbeat(node, number)).collect();
    let raced_for = batch(number);
    let began = Instant::now();
    let (a, b) = futures::join!(
        one.append_heartbeats(&rows, &raced_for),
        other.append_heartbeats(&rows, &raced_for),
    );
    let raced = began.elapsed();
    let both = [a.expect("appends"), b.expect("appends")];
    let commits = both.iter().filter(|a| matches!(a, Appended::Committed(_)));
    assert_eq!(commits.count(), 1, "{both:?}");

    let began = Instant::now();
    let rows: Vec<Placed> = (0..1_000)
        .map(|node| bare_heartbeat(node, number))
        .collect();
    let made = one.append_heartbeats(&rows, &batch(number + 1)).await;
    let appended = began.elapsed();
    let Appended::Committed(version) = made.expect("appends") else {
        panic!("nobody else has batch {}", number + 1);
    };
    let began = Instant::now();
    let since = other
        .heartbeats_since(Commits::after(Some(version - 1)))
        .await
        .expect("reads");
    println!(
        "1,000 rows on S3: two writers {raced:?}, append {appended:?}, read {:?}",
        began.elapsed()
    );
    assert_eq!(since.rows, rows);
    upkeep_on_s3(&one).await;
}

/// Each tenth commit writes a checkpoint, which blocks a thread.
async fn past_checkpoints() {
    let lake = open().await;
    let before = all_rows(&lake).await;
    let numbers = 100..125;
    for number in numbers.clone() {
        let rows = [heartbeat(1, number)];
        let made = lake.append_heartbeats(&rows, &batch(number)).await;
        assert!(matches!(made, Ok(Appended::Committed(_))), "{made:?}");
    }
    let rows = all_rows(&lake).await;
    assert_eq!(rows.len(), before.len() + numbers.count());
}

/// Merges all files and deletes those of the commits, as eight days later.
async fn upkeep_on_s3(lake: &Lake) {
    let before = all_rows(lake).await;
    let day = Duration::from_secs(86_400);
    let now = Timestamp::now().saturating_add(8 * day).expect("a time");
    let cleanup = Cleanup {
        keep_days: None,
        unreferenced: 7 * day,
    };
    let mut all = UpkeepCounts::default();
    for cleanup in [None, Some(cleanup)] {
        let upkeep = Upkeep {
            now,
            cleanup,
            is_over: &|| false,
        };
        all.add(
            lake.keep_up(Table::Heartbeats, &upkeep)
                .await
                .expect("upkeep"),
        );
    }
    assert!(all.merged_files >= 2, "{all:?}");
    // Of two writers of a batch, one leaves a file without a commit.
    assert!(all.deleted_files >= all.merged_files, "{all:?}");
    assert!(before == all_rows(lake).await, "other rows");
}

async fn all_rows(lake: &Lake) -> Vec<Placed> {
    let since = lake.heartbeats_since(Commits::after(None)).await;
    let since = since.expect("reads");
    assert!(since.is_complete());
    let mut rows = since.rows;
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

async fn open() -> Lake {
    Lake::open(&url()).await.expect("a lake")
}

fn url() -> String {
    format!("s3://{BUCKET}/some/lake")
}

struct Server {
    process: Child,
    endpoint: String,
}

impl Server {
    fn start() -> Result<Self, String> {
        let home = std::env::var("HOME").map_err(|_| "no HOME".to_owned())?;
        let python = PathBuf::from(home).join(".cache/ebb/venv/bin/python");
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/sim/ministack_server.py"
        );
        for needed in [&python, &PathBuf::from(script)] {
            if !needed.exists() {
                return Err(format!("{} is not there", needed.display()));
            }
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let address = free.map_err(|e| format!("no free port: {e}"))?;
        let process = Command::new(python)
            .args([script, "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("the simulator does not start: {e}"))?;
        let mut server = Self {
            process,
            endpoint: format!("http://{address}"),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let ended = server.process.try_wait().expect("a child");
            assert!(ended.is_none(), "the simulator ended: {ended:?}");
            assert!(Instant::now() < deadline, "the simulator does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        server.make_bucket();
        Ok(server)
    }

    fn make_bucket(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let url = format!("{}/{BUCKET}", self.endpoint);
        let put = reqwest::Client::new().put(url).send();
        let answer = runtime
            .expect("a runtime")
            .block_on(put)
            .expect("an answer");
        assert!(answer.status().is_success(), "{answer:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, and nothing can handle an error here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const fn batch(number: u64) -> Batch {
    Batch {
        shard: Shard::ONLY,
        number,
        known: None,
    }
}

fn main() -> ExitCode {
    run(tests![a_lake_on_s3_commits_once_and_reads_back])
}
