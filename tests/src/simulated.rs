//! Simulators for a test: a Python program that fills them, prints its result as one line of JSON,
//! and ends with its standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use ebb_test_support::skip;
use serde::Serialize;
use serde_json::Value;

/// A filled simulator.
#[derive(Debug)]
pub struct Simulated {
    child: Child,
    /// The result of the program.
    pub result: Value,
}

impl Simulated {
    /// Starts `tests/sim/NAME` and waits until it has filled its simulators. Skips the test if its
    /// Python is not installed.
    ///
    /// # Errors
    /// If it does not start, or ends without a result.
    pub fn start(name: &str) -> Result<Self> {
        let python = crate::python().context("no HOME")?;
        if !python.exists() {
            skip(format_args!(
                "no {} (scripts/setup test makes it)",
                python.display()
            ));
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sim");
        let mut child = Command::new(python)
            .arg(name)
            .current_dir(folder)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let stdout = child.stdout.take().context("it has no output")?;
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("told ").map(str::to_owned));
        let line = line.with_context(|| format!("{name} ended without a word"))?;
        let result = serde_json::from_str(&line).context("the result of a simulator")?;
        Ok(Self { child, result })
    }

    /// The text with this key in the result.
    pub fn text(&self, key: &str) -> &str {
        self.result[key].as_str().unwrap_or_default()
    }

    /// Calls one of the endpoints of `tests/sim/extensions`.
    ///
    /// # Errors
    /// If the answer is not a success.
    pub fn extension(&self, path: &str, body: &impl Serialize) -> Result<Value> {
        let place = self.text("moto").trim_start_matches("http://");
        let body = serde_json::to_string(body)?;
        let mut stream = TcpStream::connect(place).with_context(|| place.to_owned())?;
        write!(
            stream,
            "POST /moto-api/ebb/{path} HTTP/1.0\r\nHost: {place}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer of HTTP")?;
        ensure!(head.split(' ').nth(1) == Some("200"), "{path}: {head}");
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
