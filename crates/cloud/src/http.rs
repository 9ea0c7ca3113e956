//! The shared HTTP client. Every binary is static, and glibc's resolver does not work without its
//! shared objects, so names are resolved in Rust.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
#[cfg(feature = "inventory")]
use std::time::Duration;

use aws_smithy_dns::HickoryDnsResolver;
#[cfg(any(feature = "http-post", feature = "http-api", feature = "inventory"))]
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
#[cfg(feature = "inventory")]
use aws_smithy_runtime_api::client::http::HttpConnector;
#[cfg(feature = "inventory")]
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
#[cfg(feature = "inventory")]
use aws_smithy_types::byte_stream::ByteStream;

#[cfg(feature = "inventory")]
use crate::error_chain::reason;

pub(crate) fn tls() -> Provider {
    Provider::Rustls(CryptoMode::AwsLc)
}

#[cfg(any(feature = "http-post", feature = "http-api", feature = "inventory"))]
pub(crate) fn connector() -> Connector {
    Connector::builder()
        .tls_provider(tls())
        .build_with_resolver(resolver())
}

/// Downloads a public file of at most `max_bytes`; the error states why it failed within
/// `patience`.
#[cfg(feature = "inventory")]
pub(crate) async fn get(
    url: &str,
    max_bytes: usize,
    patience: Duration,
) -> Result<Vec<u8>, String> {
    let mut request = HttpRequest::empty();
    request.set_uri(url).map_err(|error| reason(&error))?;
    let read = async {
        let answer = connector().call(request).await;
        let answer = answer.map_err(|error| reason(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("HTTP {}", status.as_u16()));
        }
        let mut body = ByteStream::new(answer.into_body());
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece.map_err(|error| reason(&error))?);
            if bytes.len() > max_bytes {
                return Err(format!("the response has more than {max_bytes} bytes"));
            }
        }
        Ok(bytes)
    };
    let host = url.split('/').nth(2).unwrap_or(url);
    let seconds = patience.as_secs();
    let late = |_| format!("timed out waiting for a response from {host} after {seconds} s");
    tokio::time::timeout(patience, read).await.map_err(late)?
}

/// A resolver with the machine's configuration, or with Amazon's DNS server if there is none.
///
/// Source: VPC user guide, "Amazon DNS server" (169.254.169.253).
pub(crate) fn resolver() -> HickoryDnsResolver {
    const AMAZON: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 253));
    const PORT: u16 = 53;
    let configured = fs::read_to_string("/etc/resolv.conf").is_ok_and(|text| names_a_server(&text));
    let builder = HickoryDnsResolver::builder();
    if configured {
        return builder.build();
    }
    builder.nameservers(&[AMAZON], PORT).build()
}

fn names_a_server(resolv_conf: &str) -> bool {
    resolv_conf
        .lines()
        .map(str::split_whitespace)
        .any(|mut words| words.next() == Some("nameserver") && words.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_a_server_is_none() {
        let check = |text: &str, expect: bool| assert_eq!(names_a_server(text), expect, "{text}");
        check("search example.com\nnameserver 10.0.0.2\n", true);
        check("# nameserver 10.0.0.2\n", false);
        check("nameserver\n", false);
        check("", false);
    }
}
