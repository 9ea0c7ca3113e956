use ebb_model::report::Report;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::diff::Changes;

/// Changes for a channel without earlier notifications.
pub(crate) fn all_new(report: &Report) -> Changes {
    Changes {
        new: report.findings.iter().map(|f| f.id.clone()).collect(),
        ..Changes::default()
    }
}

/// Reads one request with a JSON body.
pub(crate) async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4_096];
    while !bytes.ends_with(b"}") {
        let n = stream.read(&mut piece).await.expect("a request");
        assert!(n > 0, "incomplete request");
        bytes.extend_from_slice(&piece[..n]);
    }
    String::from_utf8(bytes).expect("text")
}
