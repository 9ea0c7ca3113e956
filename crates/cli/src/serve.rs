//! `ebb serve`: the recommendation API on loopback for a given report. It uses the router of the
//! Lambda function over a bucket in memory, so that decisions last until the program ends. This
//! module contains only the required part of HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ebb_api::http::{Answer, Request};
use ebb_api::service::Service;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::fake::{FakeClock, FakeObjects};
use jiff::Timestamp;

use crate::args::ServeArgs;
use crate::output::Outcome;
use crate::tune;

/// The most open connections. Another one closes the oldest connection that is still sending its
/// request, so that slow clients cannot block others.
const MAX_CONNECTIONS: usize = 32;

/// The most bytes of a request without its body.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// The most bytes of a body; no route accepts more.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Time limit to receive a whole request, however its bytes are spread.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Time limit to send a whole answer. A report may have 256 MiB.
const ANSWER_TIME: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome> {
    let Some(report) = tune::report(args.source())? else {
        return Ok(tune::needs_a_report("serve"));
    };
    let bucket = FakeObjects::new(FakeClock::at(report.at));
    bucket.insert(LATEST_JSON, serde_json::to_vec(&report)?);
    drop(report);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .with_context(|| format!("failed to listen on 127.0.0.1:{}", args.port))?;
    let address = listener
        .local_addr()
        .context("failed to get the local address")?;
    println!("http://{address}/v1/openapi.json");
    let (api, runtime) = (Service::new(&bucket), crate::scan::runtime()?);
    accept(&listener, &|request| {
        let answer = api.answer(&request, Instant::now(), Timestamp::now());
        runtime.block_on(answer)
    });
    Ok(Outcome::Done)
}

/// Answers each connection on its own thread, until the listener ends.
fn accept(listener: &TcpListener, api: &(impl Fn(Request) -> Answer + Sync)) {
    let connections = &Connections::default();
    std::thread::scope(|scope| {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let Ok(stream) = stream else {
                // Most likely there are no free file descriptors: wait until some are closed.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            if !connections.admit(number, &stream) {
                continue;
            }
            scope.spawn(move || {
                // A client that disconnects needs no answer.
                let _ = serve(&stream, REQUEST_TIME, |request| {
                    connections.set_answering(number);
                    api(request)
                });
                connections.end(number);
            });
        }
    });
}

/// The open connections by number, the oldest first.
#[derive(Default)]
struct Connections(Mutex<BTreeMap<u64, Connection>>);

enum Connection {
    /// Its request is not complete; a shutdown of the stream ends it.
    Receiving(TcpStream),
    Answering,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a connection; false if all are being answered.
    fn admit(&self, number: u64, stream: &TcpStream) -> bool {
        let Ok(stream) = stream.try_clone() else {
            return false;
        };
        let mut open = self.open();
        if open.len() >= MAX_CONNECTIONS {
            let oldest = open
                .iter()
                .find_map(|(number, connection)| match connection {
                    Connection::Receiving(stream) => Some((*number, stream)),
                    Connection::Answering => None,
                });
            let Some((oldest, slow)) = oldest else {
                return false;
            };
            // It may have ended by itself.
            let _ = slow.shutdown(Shutdown::Both);
            open.remove(&oldest);
        }
        open.insert(number, Connection::Receiving(stream));
        true
    }

    fn set_answering(&self, number: u64) {
        if let Some(connection) = self.open().get_mut(&number) {
            *connection = Connection::Answering;
        }
    }

    fn end(&self, number: u64) {
        self.open().remove(&number);
    }
}

/// A stream with one time limit for all reads and writes.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn new(stream: &TcpStream, time: Duration) -> Timed<'_> {
        let until = Instant::now() + time;
        Timed { stream, until }
    }

    /// The remaining time.
    fn left(&self) -> std::io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn serve(
    stream: &TcpStream,
    time: Duration,
    api: impl Fn(Request) -> Answer,
) -> std::io::Result<()> {
    let answer = match request(&mut BufReader::new(Timed::new(stream, time))) {
        Ok(Ok(request)) => api(request),
        Ok(Err(status)) => plain(status),
        // The time is over: an incomplete request also gets an answer.
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            plain(408)
        }
        Err(error) => return Err(error),
    };
    write(Timed::new(stream, ANSWER_TIME), &answer)
}

/// Reads one request; the inner `Err` is the status of a refusal.
fn request(reader: &mut impl BufRead) -> std::io::Result<Result<Request, u16>> {
    let (method, target, headers) = match head(reader)? {
        Head::Request {
            method,
            target,
            headers,
        } => (method, target, headers),
        Head::Refused(status) => return Ok(Err(status)),
    };
    Ok(body(reader, &headers)?.map(|body| Request::new(&method, &target, headers).with_body(body)))
}

enum Head {
    Request {
        method: String,
        target: String,
        headers: BTreeMap<String, String>,
    },
    /// The status of a refusal.
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
    // A page of another site may send requests to this address under its own host name.
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

/// The body, or the status of a refusal.
fn body(
    reader: &mut impl Read,
    headers: &BTreeMap<String, String>,
) -> std::io::Result<Result<Vec<u8>, u16>> {
    if headers.contains_key("transfer-encoding") {
        return Ok(Err(411));
    }
    let length = match headers.get("content-length").map(|length| length.parse()) {
        None => 0_u64,
        Some(Ok(length)) if length > MAX_BODY_BYTES => return Ok(Err(413)),
        Some(Ok(length)) => length,
        Some(Err(_)) => return Ok(Err(400)),
    };
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    match body.len() as u64 == length {
        true => Ok(Ok(body)),
        false => Ok(Err(400)),
    }
}

fn plain(status: u16) -> Answer {
    Answer {
        status,
        headers: BTreeMap::from([("content-type", "text/plain".to_owned())]),
        body: "Not a request to ebb serve on the loopback address.\n".to_owned(),
    }
}

fn write(mut stream: Timed<'_>, answer: &Answer) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;

    /// A server that answers each request with its method.
    fn start() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            accept(&listener, &|request| Answer {
                body: format!("{request:?}"),
                ..plain(200)
            });
        });
        address
    }

    /// The answer to a client that sends these bytes and waits.
    fn answer(address: std::net::SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(bytes).expect("it is sent");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    const GOOD: &[u8] = b"GET /v1/findings HTTP/1.1\r\nhost: localhost\r\n\r\n";

    #[test]
    fn a_request_is_answered_or_refused_with_a_status() {
        let address = start();
        let check = |rest: &str, status: u16| {
            let text = answer(address, format!("POST /x HTTP/1.1\r\n{rest}").as_bytes());
            let line = format!("HTTP/1.1 {status} ");
            assert!(text.starts_with(&line), "{rest}: {text}");
        };
        let host = "host: 127.0.0.1\r\n";
        check(&format!("{host}\r\n"), 200);
        check(&format!("{host}content-length: 2\r\n\r\nab"), 200);
        check(&format!("{host}content-length: two\r\n\r\nab"), 400);
        check(&format!("{host}content-length: -2\r\n\r\nab"), 400);
        check(&format!("{host}content-length: 9999999999\r\n\r\n"), 413);
        check(
            &format!("{host}transfer-encoding: chunked\r\n\r\n0\r\n"),
            411,
        );
        check("host: evil.example\r\n\r\n", 421);
        check("\r\n", 421);
        check(&format!("{host}x: {}", "y".repeat(70_000)), 400);
    }

    #[test]
    fn a_client_that_sends_slowly_is_ended_at_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let check = |begin: &'static [u8]| {
            let slow = thread::spawn(move || {
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.write_all(begin).expect("it is sent");
                // A byte at intervals: each arrives within the limit of a single read.
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(50));
                }
            });
            let (stream, _) = listener.accept().expect("a connection");
            let begun = Instant::now();
            let served = serve(&stream, Duration::from_millis(500), |_| plain(200));
            drop(stream);
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(5), "{took:?} {served:?}");
            slow.join().expect("it ends");
        };
        check(b"GET /");
        check(b"POST / HTTP/1.1\r\nhost: localhost\r\nx: ");
        check(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n");
    }

    #[test]
    fn many_slow_clients_keep_nobody_out() {
        let address = start();
        let slow: Vec<TcpStream> = (0..MAX_CONNECTIONS * 2)
            .map(|_| {
                let mut stream = TcpStream::connect(address).expect("a connection");
                stream.write_all(b"GET / HTTP/1.1\r\n").expect("it is sent");
                stream
            })
            .collect();
        let begun = Instant::now();
        let text = answer(address, GOOD);
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        drop(slow);
    }
}
