//! The real program: from its start to its first answer, its answers once it is warm,
//! and the memory that it took at most.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebb_model::report::Report;
use serde_json::json;

use crate::answers::{P50, P99};
use crate::made_up::{STEPS, target};
use crate::play::{Did, Played};
use crate::{Spread, line, print_result};

const COLD: Duration = Duration::from_millis(150);
const MEMORY_MB: u64 = 128;
const STARTS: usize = 10;
const REQUESTS: u32 = 2_000;
/// Whatever takes longer has gone wrong.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn measure(report: &Report, program: &Path) {
    let bytes = serde_json::to_vec(report).expect("plain values");
    let megabytes = bytes.len() >> 20;
    let (mut ready, mut first) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let started = Started::new(program, &bytes);
        ready.push(started.ready);
        first.push(started.answer(1).0 + started.ready);
    }
    line(
        &format!("program: from start to ready, median of {STARTS}"),
        Spread::of(ready).percentile(50),
        Some(COLD),
    );
    line(
        &format!("  to its first answer, of a report of {megabytes} MB"),
        Spread::of(first).percentile(50),
        None,
    );
    let started = Started::new(program, &bytes);
    let warm: Vec<Duration> = (0..REQUESTS).map(|n| started.answer(n).0).collect();
    let warm = Spread::of(warm.into_iter().skip(1).collect());
    line(
        &format!("program warm over {STEPS} profiles, median"),
        warm.percentile(50),
        Some(P50),
    );
    line("  99th percentile", warm.percentile(99), Some(P99));
    let peak = started.peak_megabytes();
    print_result(
        "program: memory at most",
        &format!("{peak} MB"),
        Some((format!("{MEMORY_MB} MB"), peak <= MEMORY_MB)),
    );
}

/// The program, ready for events; it ends when this does.
struct Started {
    child: Child,
    played: Played,
    ready: Duration,
}

impl Started {
    fn new(program: &Path, report: &[u8]) -> Self {
        let played = Played::start(report.to_vec());
        let address = played.address.clone();
        let begin = Instant::now();
        let child = Command::new(program)
            .env_clear()
            .envs([
                ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
                ("AWS_LAMBDA_FUNCTION_NAME", "ebb-tune"),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
                ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
                ("AWS_REGION", "us-east-1"),
                ("AWS_ACCESS_KEY_ID", "made-up"),
                ("AWS_SECRET_ACCESS_KEY", "made-up"),
                ("AWS_ENDPOINT_URL", &format!("http://{address}")),
                ("EBB_BUCKET", "made-up"),
            ])
            .stdout(Stdio::null())
            .spawn()
            .expect("EBB_TUNE is the program");
        let asked = match played.did.recv_timeout(PATIENCE) {
            Ok(Did::Asked(at)) => at,
            _ => panic!("it did not ask for an event"),
        };
        Self {
            child,
            played,
            ready: asked - begin,
        }
    }

    /// How long it takes to answer, and what it says.
    fn answer(&self, n: u32) -> (Duration, Vec<u8>) {
        let target = target(n);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let event = json!({
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query,
            "headers": {},
            "requestContext": {"http": {"method": "GET"}},
        });
        let begin = Instant::now();
        self.played.send(event.to_string());
        loop {
            match self.played.did.recv_timeout(PATIENCE) {
                Ok(Did::Answered(at, body)) => {
                    let is_good = body.windows(16).any(|w| w == b"\"statusCode\":200");
                    let said = String::from_utf8_lossy(&body);
                    assert!(is_good, "{target}: {}", &said[..said.len().min(500)]);
                    return (at - begin, body);
                }
                Ok(Did::Asked(_)) => {}
                Err(error) => panic!("{target}: {error}"),
            }
        }
    }

    fn peak_megabytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.expect("the kernel reports it").div_ceil(1 << 10)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
