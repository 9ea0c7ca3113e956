//! The instance id of this machine, from the metadata server of the cloud. It is requested only if
//! the firmware identifies the cloud, so that other machines do not wait for an answer.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ebb_telemetry::identity::{IdentityError, NodeId};
use thiserror::Error;

/// The same address in every cloud.
///
/// Source: EC2 user guide, "Access instance metadata"; Compute Engine, "Query VM metadata".
pub(super) const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// Time limit of one request.
const LONGEST: Duration = Duration::from_secs(1);
const TRIES: u32 = 3;
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// Why the metadata server returned no instance id.
#[derive(Debug, Error)]
pub(super) enum MetadataError {
    /// The server does not answer.
    #[error("timed out waiting for the metadata server")]
    Silent(#[from] io::Error),
    /// The server refuses the request.
    #[error("unexpected answer from the metadata server: '{0}'")]
    Refused(String),
    /// Another server answers.
    #[error("the answer is not from Google's metadata server: no header Metadata-Flavor: Google")]
    Stranger,
    /// The answer is not a valid node id.
    #[error(transparent)]
    Name(#[from] IdentityError),
}

/// A cloud with instance ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloudVendor {
    Ec2,
    ComputeEngine,
}

impl CloudVendor {
    /// Identifies the cloud from the firmware vendor; `root` is the directory of `sys`. Older EC2
    /// machines have Xen firmware, and their id in another file.
    pub(super) fn of_machine(root: &Path) -> Option<Self> {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let vendor = text("sys/class/dmi/id/sys_vendor");
        match vendor.trim() {
            "Amazon EC2" => Some(Self::Ec2),
            "Google" => Some(Self::ComputeEngine),
            _ if text("sys/hypervisor/uuid").starts_with("ec2") => Some(Self::Ec2),
            _ => None,
        }
    }

    /// The instance id, as in the inventory.
    pub(super) fn instance(self, server: SocketAddr) -> Result<NodeId, MetadataError> {
        let mut tried = 1;
        loop {
            match self.ask(server) {
                Err(MetadataError::Silent(_)) if tried < TRIES => tried += 1,
                result => return result,
            }
        }
    }

    fn ask(self, server: SocketAddr) -> Result<NodeId, MetadataError> {
        let answer = match self {
            Self::Ec2 => {
                let lifetime = "X-aws-ec2-metadata-token-ttl-seconds: 60";
                let token = request(server, "PUT /latest/api/token", lifetime)?.body;
                let header = format!("X-aws-ec2-metadata-token: {token}");
                request(server, "GET /latest/meta-data/instance-id", &header)?
            }
            Self::ComputeEngine => {
                let path = "GET /computeMetadata/v1/instance/id";
                let answer = request(server, path, "Metadata-Flavor: Google")?;
                let flavor = |line: &str| line.eq_ignore_ascii_case("metadata-flavor: google");
                if !answer.head.lines().any(flavor) {
                    return Err(MetadataError::Stranger);
                }
                answer
            }
        };
        Ok(NodeId::new(answer.body.trim())?)
    }
}

struct Answer {
    head: String,
    body: String,
}

fn request(server: SocketAddr, what: &str, header: &str) -> Result<Answer, MetadataError> {
    let until = Instant::now() + LONGEST;
    let mut stream = TcpStream::connect_timeout(&server, LONGEST)?;
    let left = until.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    write!(
        stream,
        "{what} HTTP/1.0\r\nHost: {}\r\n{header}\r\nContent-Length: 0\r\n\r\n",
        server.ip()
    )?;
    let mut text = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(MetadataError::Refused(status.escape_default().to_string()));
    }
    Ok(Answer {
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers as the cloud documents it, and refuses requests without the required header.
    fn server(answer: fn(&[String]) -> String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let request_lines: Vec<String> =
                    lines.take_while(|line| !line.is_empty()).collect();
                let _ = stream.write_all(answer(&request_lines).as_bytes());
            }
        });
        address
    }

    fn ok(headers: &str, body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\n{headers}\r\n{body}")
    }

    fn google(request_lines: &[String]) -> String {
        let named = request_lines.contains(&"Metadata-Flavor: Google".to_owned());
        match request_lines[0].starts_with("GET /computeMetadata/v1/instance/id ") && named {
            true => ok("Metadata-Flavor: Google\r\n", "4520031799277581759"),
            false => "HTTP/1.1 403 Forbidden\r\n\r\n".into(),
        }
    }

    fn amazon(request_lines: &[String]) -> String {
        let has = |header: &str| request_lines.iter().any(|line| line == header);
        let token = request_lines[0].starts_with("PUT /latest/api/token ")
            && has("X-aws-ec2-metadata-token-ttl-seconds: 60");
        let id = request_lines[0].starts_with("GET /latest/meta-data/instance-id ")
            && has("X-aws-ec2-metadata-token: abc=");
        match (token, id) {
            (true, _) => ok("", "abc="),
            (_, true) => ok("", "i-0abc12"),
            _ => "HTTP/1.1 401 Unauthorized\r\n\r\n".into(),
        }
    }

    #[test]
    fn each_cloud_tells_the_instances_id() {
        let check =
            |cloud: CloudVendor, answer: fn(&[String]) -> String, expect: Result<&str, &str>| {
                let instance = cloud.instance(server(answer)).map_err(|e| e.to_string());
                let instance = instance.as_ref().map(NodeId::as_str);
                assert_eq!(instance.map_err(String::as_str), expect);
            };
        check(
            CloudVendor::ComputeEngine,
            google,
            Ok("4520031799277581759"),
        );
        check(CloudVendor::Ec2, amazon, Ok("i-0abc12"));
        check(
            CloudVendor::Ec2,
            google,
            Err("unexpected answer from the metadata server: 'HTTP/1.1 403 Forbidden'"),
        );
        let stranger = |_: &[String]| ok("", "7");
        let words =
            "the answer is not from Google's metadata server: no header Metadata-Flavor: Google";
        check(CloudVendor::ComputeEngine, stranger, Err(words));
    }

    #[test]
    fn a_server_that_never_answers_is_given_up() {
        // The server accepts the connection and sends nothing.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let began = Instant::now();
        let result = CloudVendor::ComputeEngine.instance(address);
        assert!(
            matches!(result, Err(MetadataError::Silent(_))),
            "{result:?}"
        );
        assert!(began.elapsed() < (TRIES + 2) * LONGEST);
    }

    #[test]
    fn only_a_machine_whose_firmware_names_a_cloud_is_of_it() {
        let check = |path: &str, text: &str, expect: Option<CloudVendor>| {
            let root = tempfile::tempdir().expect("a folder");
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(file, text).expect("a file");
            assert_eq!(CloudVendor::of_machine(root.path()), expect, "{text}");
        };
        let vendor = "sys/class/dmi/id/sys_vendor";
        check(vendor, "Amazon EC2\n", Some(CloudVendor::Ec2));
        check(vendor, "Google\n", Some(CloudVendor::ComputeEngine));
        check(vendor, "Dell Inc.\n", None);
        check("sys/hypervisor/uuid", "ec2e1916\n", Some(CloudVendor::Ec2));
        check("elsewhere", "", None);
    }
}
