//! A local test server that answers as in Google's documentation.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::GcpConfig;

/// A server and its requests.
pub(super) struct Server {
    address: String,
    targets: Arc<Mutex<Vec<String>>>,
}

/// Status and body.
pub(super) type Answer = (u16, String);

impl Server {
    /// Answers each path and query with `answer`, until the test ends.
    pub(super) fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let targets = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&targets);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if let Some(target) = target(&stream) {
                    let (status, body) = answer(&target);
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push(target);
                    drop(log);
                    reply(stream, status, &body);
                }
            }
        });
        Self { address, targets }
    }

    /// A configuration for the project `lab` on this server.
    pub(super) fn config(&self) -> GcpConfig {
        let config = GcpConfig::new("lab").expect("a project id");
        config.at(&self.address)
    }

    /// Paths and queries of the requests, in order.
    pub(super) fn targets(&self) -> Vec<String> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.clone()
    }
}

/// The target of a request without a body.
fn target(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    // Reads the whole head, because otherwise the client's connection would be reset.
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    first.split(' ').nth(1).map(str::to_owned)
}

fn reply(mut stream: TcpStream, status: u16, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    // A client that closed the connection needs no answer.
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
}

/// An error in the format of Google's services.
///
/// Source: "Cloud APIs: Errors", HTTP mapping.
pub(super) fn refusal(code: u16, status: &str, message: &str) -> Answer {
    let body = serde_json::json!({
        "error": {"code": code, "message": message, "status": status}
    });
    (code, body.to_string())
}
