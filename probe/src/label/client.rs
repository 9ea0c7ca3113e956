//! Client of the label socket: sends labels for the task of this process.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use ebb_telemetry::step::SchedulerLabels;

use super::{RequestJson, check};

/// Time limit of a request; the probe needs less time to see a new process.
const PATIENCE: Duration = Duration::from_secs(90);

/// Parses `key=value` labels, with an optional trace id.
pub fn parse_labels(
    trace_id: Option<String>,
    labels: &[String],
) -> anyhow::Result<SchedulerLabels> {
    let label = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => bail!("'{text}' is not a label; use KEY=VALUE"),
    };
    let labels = labels.iter().map(label).collect::<anyhow::Result<_>>()?;
    let labels = SchedulerLabels { trace_id, labels };
    check(&labels)?;
    Ok(labels)
}

/// Sends the labels and waits for the answer.
pub fn send_labels(socket: &Path, labels: SchedulerLabels) -> anyhow::Result<()> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).with_context(|| {
        format!("failed to connect to the probe at {shown}; set label_socket in its configuration")
    })?;
    let SchedulerLabels { trace_id, labels } = labels;
    let request = serde_json::to_vec(&RequestJson {
        pid: None,
        trace_id,
        labels,
    })?;
    let mut answer = String::new();
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all(&request))
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.read_to_string(&mut answer))
        .with_context(|| format!("failed to get an answer from {shown}"))?;
    match answer.trim_end() {
        "ok" => Ok(()),
        "" => bail!("{shown} has too many requests; try again later"),
        refused => bail!("{refused}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_key_and_value() {
        let check = |label: &str, expect: Option<(&str, &str)>| {
            let got = parse_labels(None, &[label.to_owned()]).ok();
            let got = got.and_then(|labels| labels.labels.into_iter().next());
            let expect = expect.map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(got, expect, "{label}");
        };
        check("run=r7", Some(("run", "r7")));
        check("query=a=b", Some(("query", "a=b")));
        check("run", None);
        check("run=", None);
        check("=r7", None);
    }
}
