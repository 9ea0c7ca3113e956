//! The Lambda runtime and the bucket, played on loopback for one program.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// Action of the program, with its time.
pub(crate) enum Did {
    /// It asked for an event, which it does once it is ready.
    Asked(Instant),
    /// It answered one.
    Answered(Instant, Vec<u8>),
}

/// Both services on one port.
pub(crate) struct Played {
    pub(crate) address: String,
    pub(crate) did: Receiver<Did>,
    events: Sender<String>,
}

impl Played {
    /// Serves `report` as the only object of the bucket.
    pub(crate) fn start(report: Vec<u8>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (calls, did) = channel();
        let (events, waiting) = channel();
        let (report, waiting) = (Arc::new(report), Arc::new(Mutex::new(waiting)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (report, waiting) = (Arc::clone(&report), Arc::clone(&waiting));
                let calls = calls.clone();
                thread::spawn(move || serve(&stream, &report, &waiting, &calls));
            }
        });
        Self {
            address,
            did,
            events,
        }
    }

    pub(crate) fn send(&self, event: String) {
        self.events.send(event).expect("the server runs");
    }
}

/// One connection, which the program may keep for many requests.
fn serve(
    stream: &TcpStream,
    report: &[u8],
    waiting: &Mutex<Receiver<String>>,
    calls: &Sender<Did>,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (line, body) = request(&mut reader)?;
        let path = line.split(' ').nth(1)?;
        if path.ends_with("/invocation/next") {
            calls.send(Did::Asked(Instant::now())).ok()?;
            let event = waiting.lock().ok()?.recv().ok()?;
            let deadline = "lambda-runtime-deadline-ms: 9999999999999\r\n";
            let head = format!("lambda-runtime-aws-request-id: 1\r\n{deadline}");
            answer(stream, "200 OK", &head, event.as_bytes())?;
        } else if path.ends_with("/response") {
            calls.send(Did::Answered(Instant::now(), body)).ok()?;
            answer(stream, "202 Accepted", "", b"")?;
        } else if path.contains("list-type=2") {
            answer(
                stream,
                "200 OK",
                "content-type: application/xml\r\n",
                &listed(report),
            )?;
        } else {
            let when = "last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
            answer(
                stream,
                "200 OK",
                &format!("etag: \"made-up\"\r\n{when}"),
                report,
            )?;
        }
    }
}

fn listed(report: &[u8]) -> Vec<u8> {
    let bytes = report.len();
    format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents>\
         <Key>reports/latest/report.json</Key><Size>{bytes}</Size><ETag>\"made-up\"</ETag>\
         <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
    )
    .into_bytes()
}

/// The first line of a request and its body.
fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut line = || {
        let mut text = String::new();
        reader.read_line(&mut text).ok().filter(|read| *read > 0)?;
        Some(text.trim_end().to_owned())
    };
    let first = line()?;
    let mut length = None;
    loop {
        let header = line()?.to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().ok();
        } else if header.starts_with("transfer-encoding:") {
            length = None;
        }
    }
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((first, body))
}

fn answer(mut stream: &TcpStream, status: &str, head: &str, body: &[u8]) -> Option<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()
}
