//! The connection to the probe. Lines from the socket are bounded and checked.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ebb_telemetry::watch::{MAX_LINE_BYTES, SCHEMA, WatchRefusal, WatchSnapshot};
use serde::Deserialize;
use tokio::net::UnixStream;

/// Snapshots from a probe.
pub(crate) struct ProbeConnection {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl ProbeConnection {
    pub(crate) async fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                    "start the probe: systemctl start ebb-probe, or by hand: ebb-probe run \
                     --sink DIR --watch-socket PATH"
                }
                ErrorKind::PermissionDenied => {
                    "allow users to reach the socket: its folder needs mode 0755, as with \
                     RuntimeDirectoryMode=0755 of the unit"
                }
                _ => "check the path with --socket",
            };
            let shown = path.display();
            anyhow!("failed to connect to the probe at {shown}: {error}\n{remedy}")
        };
        let stream = UnixStream::connect(path).await.map_err(failed)?;
        Ok(Self {
            stream,
            bytes: Vec::new(),
        })
    }

    /// The next snapshot. If the future is dropped, no byte is lost.
    pub(crate) async fn next(&mut self) -> Result<WatchSnapshot> {
        loop {
            if let Some(line) = take_line(&mut self.bytes)? {
                return parse(&line);
            }
            self.stream.readable().await?;
            let mut room = [0; 16 << 10];
            match self.stream.try_read(&mut room) {
                Ok(0) => bail!(
                    "the probe closed the connection; it stopped, or this program read too slowly"
                ),
                Ok(count) => self.bytes.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("failed to read from the probe"),
            }
        }
    }
}

/// The first whole line, without its end.
fn take_line(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    if end.unwrap_or(bytes.len()) >= MAX_LINE_BYTES {
        bail!("failed to read from the probe: a line has more than {MAX_LINE_BYTES} bytes");
    }
    Ok(end.map(|end| {
        let mut line: Vec<u8> = bytes.drain(..=end).collect();
        line.pop();
        line
    }))
}

fn parse(line: &[u8]) -> Result<WatchSnapshot> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let failed = "failed to read from the probe: not a snapshot";
    let head: Head = serde_json::from_slice(line).context(failed)?;
    if head.schema != SCHEMA {
        let schema = head.schema;
        bail!(
            "failed to read from the probe: schema {schema:?} is not {SCHEMA}\n\
             install ebb and ebb-probe of the same version"
        );
    }
    if let Ok(refusal) = serde_json::from_slice::<WatchRefusal>(line) {
        bail!("the probe refused the connection: {}", refusal.refused);
    }
    serde_json::from_slice(line).context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_bounded() {
        let mut bytes = b"one\ntwo\nthr".to_vec();
        assert_eq!(take_line(&mut bytes).expect("short"), Some(b"one".to_vec()));
        assert_eq!(take_line(&mut bytes).expect("short"), Some(b"two".to_vec()));
        assert_eq!(take_line(&mut bytes).expect("short"), None);
        assert_eq!(bytes, b"thr");
        let error = take_line(&mut vec![b'x'; MAX_LINE_BYTES]).expect_err("too long");
        assert!(error.to_string().contains("more than 1048576 bytes"));
    }

    #[test]
    fn what_is_no_snapshot_of_this_schema_is_an_error_in_words() {
        let check = |line: &str, expect: &str| {
            let error = format!("{:#}", parse(line.as_bytes()).expect_err(line));
            assert!(error.contains(expect), "{line}: {error}");
        };
        check("", "not a snapshot");
        check("\u{1b}[2J", "not a snapshot");
        check(
            r#"{"schema":"ebb.watch/2"}"#,
            "install ebb and ebb-probe of the same version",
        );
        check(r#"{"schema":"ebb.watch/1"}"#, "not a snapshot");
        check(
            r#"{"schema":"ebb.watch/1","refused":"at most 8"}"#,
            "refused the connection: at most 8",
        );
        check(&"[".repeat(10_000), "not a snapshot");
    }
}
