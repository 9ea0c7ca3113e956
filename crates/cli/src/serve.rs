//! `ebb serve`: the pages and the API on loopback, for a deployment or one report. It uses the router of the Lambda
//! function. One report is in a bucket in memory, so that decisions last until the program ends. This
//! module contains only the limits of the server; hyper speaks HTTP.

mod client_user;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ebb_analysis::evaluate::Details;
use ebb_api::service::Service;
use ebb_api::slack_signature::SigningSecret;
use ebb_cloud::documents::report_files::LATEST_JSON;
use ebb_cloud::ports::{Objects, PutOptions};
use ebb_cloud::store::StoreObjects;
use ebb_model::report::Report;
use ebb_sweep::publish_details;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::{sleep, timeout};

use crate::args::ServeArgs;
use crate::deployment::Place;
use crate::deployment::{self, Deployment, Source, newest_report};
use crate::output::Outcome;
use crate::tune;

/// The most open connections. Another one closes the oldest connection that is still sending its
/// request, so that slow clients cannot block others.
const MAX_CONNECTIONS: usize = 32;

/// The most bytes of a request without its body.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most bytes of a body; no route accepts more.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Time limits, however the bytes are spread.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// To receive a whole request.
    request: Duration,
    /// To send a whole answer. A report may have 256 MiB.
    answer: Duration,
}

/// How often open pages look for a new report in a bucket. Each time is a request: 9 US cents a day for
/// a page that is open all day.
const REFRESH: Duration = Duration::from_secs(5);

/// The same in a folder, where it costs nothing.
const REFRESH_OF_A_FOLDER: Duration = Duration::from_secs(1);

/// Sweeps of the demo account before its last one, in minutes before it.
const DEMO_SWEEPS: [u64; 6] = [60, 50, 40, 30, 20, 10];

const LIMITS: Limits = Limits {
    request: Duration::from_secs(5),
    answer: Duration::from_secs(30),
};

pub(crate) fn run(args: &ServeArgs) -> Result<Outcome> {
    let source = deployment::source(&args.of)?;
    if let Source::Missing = source {
        return Ok(tune::needs_a_report("serve"));
    }
    // The demo has a runtime of its own.
    let (latest, details) = match &source {
        Source::Deployment(_) => (None, Vec::new()),
        Source::Demo => of_demo()?,
        of_one_report => (tune::report(of_one_report)?, Vec::new()),
    };
    let serve = async {
        let mut refresh = REFRESH;
        let objects = match source {
            Source::Deployment(target) => {
                let Deployment::Stored(at) = deployment::open(&target).await? else {
                    bail!(
                        "{} is an API already\n  give --bucket NAME or --lake URL",
                        target.place
                    );
                };
                newest_report(at.objects.as_ref()).await?;
                if matches!(&target.place.value, Place::Lake(url) if url.starts_with("file://")) {
                    refresh = REFRESH_OF_A_FOLDER;
                }
                at.objects
            }
            _ => in_memory(latest, details).await?,
        };
        let slack = std::env::var("EBB_SLACK_SIGNING_SECRET").ok();
        let slack = slack.as_deref().and_then(SigningSecret::new);
        let api = Service::refreshed_every(objects, refresh, slack);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
            .await
            .with_context(|| format!("failed to listen on 127.0.0.1:{}", args.port))?;
        let address = listener
            .local_addr()
            .context("failed to get the local address")?;
        println!("{}", addresses(address));
        accept(&listener, api, LIMITS).await;
        Ok(Outcome::Done)
    };
    crate::runtime::runtime()?.block_on(LocalSet::new().run_until(serve))
}

/// Where a person finds the pages, and a program the API. Each line begins with an address.
fn addresses(at: SocketAddr) -> String {
    format!("http://{at}/  pages, for a browser\nhttp://{at}/v1/openapi.json  API")
}

/// The report of the demo account, and the details of its sweeps. Each sweep adds a point to the use of
/// running tasks.
fn of_demo() -> Result<(Option<Report>, Vec<Details>)> {
    let earlier = DEMO_SWEEPS.map(|minutes| tune::of_demo(minutes).map(|(_, details)| details));
    let mut all = earlier.into_iter().collect::<Result<Vec<Details>>>()?;
    let (report, details) = tune::of_demo(0)?;
    all.push(details);
    Ok((Some(report), all))
}

/// A bucket that contains only this report and these details, the oldest first.
async fn in_memory(report: Option<Report>, details: Vec<Details>) -> Result<Arc<dyn Objects>> {
    let bucket = StoreObjects::in_memory();
    let latest = serde_json::to_vec(&report)?;
    bucket
        .put(LATEST_JSON, latest, PutOptions::default())
        .await?;
    for details in details {
        publish_details::write(&bucket, &details).await?;
    }
    Ok(Arc::new(bucket))
}

/// Answers each connection in its own task, without end.
async fn accept(listener: &TcpListener, api: Service, limits: Limits) {
    let connections = Rc::new(Connections::default());
    for number in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Most likely there are no free file descriptors: wait until some are closed.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        if !connections.make_room() {
            continue;
        }
        let is_answering = Arc::new(AtomicBool::new(false));
        let connection = connection(stream, api.clone(), limits, Arc::clone(&is_answering));
        let entry = OpenEntry {
            connections: Rc::clone(&connections),
            number,
        };
        let task = tokio::task::spawn_local(async move {
            connection.await;
            drop(entry);
        });
        let abort = task.abort_handle();
        connections.open().insert(
            number,
            Connection {
                abort,
                is_answering,
            },
        );
    }
}

/// The open connections by number, the oldest first.
#[derive(Default)]
struct Connections(Mutex<BTreeMap<u64, Connection>>);

struct Connection {
    abort: AbortHandle,
    /// False until its request is complete.
    is_answering: Arc<AtomicBool>,
}

/// The entry of one connection; removed when its task ends, also by a panic.
struct OpenEntry {
    connections: Rc<Connections>,
    number: u64,
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
    }
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a connection; false if all are being answered.
    fn make_room(&self) -> bool {
        let mut open = self.open();
        if open.len() < MAX_CONNECTIONS {
            return true;
        }
        let is_receiving = |c: &Connection| !c.is_answering.load(Ordering::Relaxed);
        let mut all = open.iter();
        let oldest = all.find_map(|(number, c)| is_receiving(c).then_some(*number));
        let Some(slow) = oldest.and_then(|number| open.remove(&number)) else {
            return false;
        };
        slow.abort.abort();
        true
    }
}

/// Answers the one request of a connection.
async fn connection(
    stream: TcpStream,
    api: Service,
    limits: Limits,
    is_answering: Arc<AtomicBool>,
) {
    let refused = client_user::refused(&stream).await;
    let answer = service_fn(async |request: Request<Incoming>| {
        let answer = match refused {
            Some(user) => Service::refuse(&request, user).await,
            None => match whole(request, limits.request).await {
                Ok(request) => {
                    is_answering.store(true, Ordering::Relaxed);
                    api.answer(request, Instant::now(), Timestamp::now()).await
                }
                Err(status) => refusal(status),
            },
        };
        Ok::<_, Infallible>(answer.map(Full::new))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    // The head, the body and the answer each have their time. A client that disconnects needs no
    // answer.
    let _ = timeout(limits.request * 2 + limits.answer, served).await;
}

/// The request with its body, or the status of a refusal.
async fn whole(request: Request<Incoming>, time: Duration) -> Result<Request<Bytes>, StatusCode> {
    let headers = request.headers();
    // A page of another site may send requests to this address under its own host name.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(is_own) {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    let length = headers.get(CONTENT_LENGTH).map(HeaderValue::to_str);
    let length = length.and_then(|length| length.ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let (parts, body) = request.into_parts();
    match timeout(time, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Request::from_parts(parts, body.to_bytes())),
        // A body in chunks has no length to check before.
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => Err(StatusCode::BAD_REQUEST),
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
    }
}

/// Whether a host is this machine, with or without a port.
fn is_own(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let names = ["127.0.0.1", "localhost"];
    is_port && names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn refusal(status: StatusCode) -> Response<Bytes> {
    let text = match status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            format!("The body is larger than {MAX_BODY_BYTES} bytes.\n")
        }
        StatusCode::REQUEST_TIMEOUT => "The body did not arrive in time.\n".to_owned(),
        StatusCode::BAD_REQUEST => "The body cannot be read.\n".to_owned(),
        _ => "Not a request to ebb serve on the loopback address.\n".to_owned(),
    };
    let mut answer = Response::new(Bytes::from(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    /// A server of an empty bucket, on its own thread.
    fn start(limits: Limits) -> SocketAddr {
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let serve = async {
                let bucket = StoreObjects::in_memory();
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let address = listener.local_addr().expect("an address");
                sender.send(address).expect("the test waits");
                accept(&listener, Service::new(Arc::new(bucket)), limits).await;
            };
            let runtime = crate::runtime::runtime().expect("a runtime");
            runtime.block_on(LocalSet::new().run_until(serve));
        });
        receiver.recv().expect("it listens")
    }

    /// The answer to a client that sends these bytes and waits.
    fn answer(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.write_all(bytes).expect("it is sent");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    const GOOD: &[u8] = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n";

    #[test]
    fn a_request_is_answered_or_refused_with_a_status() {
        let address = start(LIMITS);
        let check = |rest: &str, status: u16| {
            let head = "GET /v1/openapi.json HTTP/1.1\r\n";
            let text = answer(address, format!("{head}{rest}").as_bytes());
            let line = format!("HTTP/1.1 {status} ");
            assert!(text.starts_with(&line), "{rest}: {text}");
        };
        let host = "host: 127.0.0.1\r\n";
        check(&format!("{host}\r\n"), 200);
        check("host: localhost:8080\r\n\r\n", 200);
        check(&format!("{host}content-length: 2\r\n\r\nab"), 200);
        check(&format!("{host}content-length: two\r\n\r\nab"), 400);
        check(&format!("{host}content-length: -2\r\n\r\nab"), 400);
        check(&format!("{host}content-length: 9999999999\r\n\r\n"), 413);
        let chunked = format!("{host}transfer-encoding: chunked\r\n\r\n");
        check(&format!("{chunked}0\r\n\r\n"), 200);
        check(&format!("{chunked}2\r\nab\r\n0\r\n\r\n"), 200);
        check(&format!("{chunked}two\r\nab\r\n0\r\n\r\n"), 400);
        let chunk = format!("100000\r\n{}\r\n", "x".repeat(MAX_BODY_BYTES));
        check(&format!("{chunked}{chunk}1\r\nx\r\n0\r\n\r\n"), 413);
        check("host: LocalHost:8080\r\n\r\n", 200);
        for other in [
            "evil.example",
            "localhost:evil",
            "localhost:",
            "localhost:1:2",
        ] {
            check(&format!("host: {other}\r\n\r\n"), 421);
        }
        check("host: 127.0.0.1:99999\r\n\r\n", 421);
        check("\r\n", 421);
        check(&format!("{host}x: {}", "y".repeat(70_000)), 431);
    }

    #[test]
    fn a_client_that_sends_slowly_is_ended_at_its_time() {
        let request = Duration::from_millis(500);
        let address = start(Limits { request, ..LIMITS });
        let check = |begin: &[u8]| {
            let begun = Instant::now();
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(begin).expect("it is sent");
            // A byte at intervals: each arrives within the limit of a single read.
            while stream.write_all(b"x").is_ok() {
                assert!(begun.elapsed() < Duration::from_secs(5), "it is still open");
                thread::sleep(Duration::from_millis(50));
            }
        };
        check(b"GET /");
        check(b"POST / HTTP/1.1\r\nhost: localhost\r\nx: ");
        check(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n");
    }

    #[test]
    fn many_slow_clients_keep_nobody_out() {
        let address = start(LIMITS);
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
