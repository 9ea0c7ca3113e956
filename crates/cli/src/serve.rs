//! `ebb serve`: the recommendation API on loopback, from a report at hand. The router
//! is the one of the Lambda, over a bucket in memory, so that what is decided is kept
//! until the program ends; here is only as much HTTP as it needs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_cloud::fake::{FakeClock, FakeObjects};
use ebb_sweep::publish::LATEST_JSON;
use ebb_sweep::tune::api::{Answer, Request, Service};
use jiff::Timestamp;

use crate::args::ServeArgs;
use crate::output::Outcome;
use crate::tune;

/// Requests that are answered at one time; more are turned away.
const AT_ONCE: usize = 32;

/// What a request may be long, without its body.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// What is read of a body, so that the answer arrives.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// A client that says nothing for so long has gone.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome> {
    let Some(report) = tune::report(args.source())? else {
        return Ok(tune::needs_a_report("serve"));
    };
    let bucket = FakeObjects::new(FakeClock::at(report.at));
    bucket.insert(LATEST_JSON, serde_json::to_vec(&report)?);
    drop(report);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("cannot listen on 127.0.0.1:{}", args.port))?;
    let address = listener.local_addr().context("no address")?;
    println!("http://{address}/v1/openapi.json");
    let (api, runtime) = (Service::new(&bucket), crate::scan::runtime()?);
    let under_way = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            if under_way.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                under_way.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (api, runtime, under_way) = (&api, &runtime, &under_way);
            scope.spawn(move || {
                // A client that goes away needs no answer.
                let _ = serve(&stream, |request| {
                    let answer = api.answer(&request, Instant::now(), Timestamp::now());
                    runtime.block_on(answer)
                });
                under_way.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Ok(Outcome::Done)
}

fn serve(stream: &TcpStream, api: impl Fn(Request) -> Answer) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let answer = match head(&mut reader)? {
        Head::Request {
            method,
            target,
            headers,
        } => {
            let body = body(&mut reader, &headers)?;
            api(Request::new(&method, &target, headers).with_body(body))
        }
        Head::Refused(status) => plain(status),
    };
    write(stream, &answer)
}

enum Head {
    Request {
        method: String,
        target: String,
        headers: BTreeMap<String, String>,
    },
    /// With which status.
    Refused(u16),
}

fn head(reader: &mut impl BufRead) -> std::io::Result<Head> {
    let mut reader = reader.take(MAX_HEAD_BYTES);
    let mut line = || -> std::io::Result<Option<String>> {
        let mut bytes = Vec::new();
        reader.read_until(b'\n', &mut bytes)?;
        if bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    };
    let Some(first) = line()? else {
        return Ok(Head::Refused(400));
    };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(_), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Ok(Head::Refused(400));
    };
    let mut headers = BTreeMap::new();
    loop {
        let Some(header) = line()? else {
            return Ok(Head::Refused(400));
        };
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    // A page of another site may send requests here under its own name.
    let host = headers.get("host").map(|host| host.as_str());
    let name = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
    if !matches!(name, Some("127.0.0.1" | "localhost")) {
        return Ok(Head::Refused(421));
    }
    Ok(Head::Request {
        method: method.to_owned(),
        target: target.to_owned(),
        headers,
    })
}

/// As much of a body as is taken, which is more than any route wants.
fn body(reader: &mut impl Read, headers: &BTreeMap<String, String>) -> std::io::Result<Vec<u8>> {
    let length = headers.get("content-length");
    let length = length.and_then(|length| length.parse::<u64>().ok());
    let mut body = Vec::new();
    let bound = length.unwrap_or(0).min(MAX_BODY_BYTES);
    reader.take(bound).read_to_end(&mut body)?;
    Ok(body)
}

fn plain(status: u16) -> Answer {
    Answer {
        status,
        headers: BTreeMap::from([("content-type", "text/plain".to_owned())]),
        body: "This is no request to Ebb on loopback.\n".to_owned(),
    }
}

fn write(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    let mut text = format!("HTTP/1.1 {} -\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if answer.status != 304 {
        text.push_str(&format!("content-length: {}\r\n", answer.body.len()));
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes())?;
    stream.write_all(answer.body.as_bytes())?;
    stream.flush()
}
