//! The shared HTTP client. Every binary is static, and glibc's resolver does not work without its
//! shared objects, so names are resolved in Rust.

use std::env;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
#[cfg(feature = "inventory")]
use std::time::Duration;

use aws_smithy_dns::HickoryDnsResolver;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Connector, ConnectorBuilder};
#[cfg(feature = "inventory")]
use aws_smithy_runtime_api::client::http::HttpConnector;
#[cfg(feature = "aws")]
use aws_smithy_runtime_api::client::http::SharedHttpClient;
#[cfg(feature = "inventory")]
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
#[cfg(feature = "aws")]
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
#[cfg(feature = "inventory")]
use aws_smithy_types::byte_stream::ByteStream;

#[cfg(feature = "inventory")]
use crate::error_chain::reason;

/// Variables of the environment with the proxy for HTTPS, in the order in which they count. Requests
/// without TLS never use it: they go to metadata services of the machine, or to this machine.
const PROXY: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Variables with the hosts that are reached without the proxy.
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];

#[cfg(any(feature = "http-post", feature = "http-api", feature = "inventory"))]
pub(crate) fn connector() -> Connector {
    with_proxy(Connector::builder(), proxy())
}

fn with_proxy(builder: ConnectorBuilder, proxy: ProxyConfig) -> Connector {
    builder
        .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
        .proxy_config(proxy)
        .build_with_resolver(resolver())
}

/// The client of the SDK, with its settings.
#[cfg(feature = "aws")]
pub(crate) fn client() -> SharedHttpClient {
    let proxy = proxy();
    aws_smithy_http_client::Builder::new().build_with_connector_fn(move |settings, components| {
        let mut builder = Connector::builder();
        builder.set_connector_settings(settings.cloned());
        builder.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        with_proxy(builder, proxy.clone())
    })
}

/// The variable of the environment that names the proxy for HTTPS; `None` without a proxy.
#[cfg(feature = "aws")]
pub fn proxy_variable() -> Option<&'static str> {
    first_set(&PROXY).map(|(name, _)| name)
}

/// The first variable with a value, and the value.
fn first_set(names: &[&'static str]) -> Option<(&'static str, String)> {
    let values = names
        .iter()
        .filter_map(|name| Some((*name, env::var(name).ok()?)));
    values
        .map(|(name, value)| (name, value.trim().to_owned()))
        .find(|(_, value)| !value.is_empty())
}

/// The proxy of the environment. Its URL may contain a password, so it is in no error.
fn proxy() -> ProxyConfig {
    let Some((_, url)) = first_set(&PROXY) else {
        return ProxyConfig::disabled();
    };
    // Other tools also accept a host without a scheme.
    let url = match url.contains("://") {
        true => url,
        false => format!("http://{url}"),
    };
    match ProxyConfig::https(url) {
        Ok(proxy) => {
            let hosts = first_set(&NO_PROXY).map(|(_, hosts)| hosts);
            proxy.no_proxy(hosts.unwrap_or_default())
        }
        Err(_) => {
            tracing::warn!("https_proxy is not the URL of an HTTP proxy; it is not used");
            ProxyConfig::disabled()
        }
    }
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

    #[cfg(feature = "inventory")]
    #[tokio::test]
    async fn requests_with_tls_use_the_proxy_and_others_do_not() {
        use std::io::{BufRead, BufReader, Write};
        use std::net::TcpListener;

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let proxy = ProxyConfig::https(format!("http://ana:secret@{at}")).expect("a proxy");
        let server = std::thread::spawn(move || {
            let answer = |status: &str| {
                let (mut client, _) = listener.accept().expect("a client");
                let mut lines = BufReader::new(client.try_clone().expect("a client")).lines();
                let first = lines.next().expect("a line").expect("a line");
                let has_password = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .any(|line| {
                        line.to_lowercase()
                            .starts_with("proxy-authorization: basic ")
                    });
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                client.write_all(head.as_bytes()).expect("it listens");
                (first, has_password)
            };
            [answer("502 Bad Gateway"), answer("200 OK")]
        });
        let connector = with_proxy(Connector::builder(), proxy);
        for url in ["https://queue.example/", &format!("http://{at}/latest")] {
            let mut request = HttpRequest::empty();
            request.set_uri(url).expect("a URL");
            let answer = connector.call(request).await;
            assert_eq!(answer.is_ok(), url.starts_with("http:"), "{answer:?}");
        }
        let requests = server.join().expect("both were answered");
        let expect = [
            ("CONNECT queue.example:443 HTTP/1.1".to_owned(), true),
            ("GET /latest HTTP/1.1".to_owned(), false),
        ];
        assert_eq!(requests, expect);
    }

    #[test]
    fn a_configuration_without_a_server_is_none() {
        let check = |text: &str, expect: bool| assert_eq!(names_a_server(text), expect, "{text}");
        check("search example.com\nnameserver 10.0.0.2\n", true);
        check("# nameserver 10.0.0.2\n", false);
        check("nameserver\n", false);
        check("", false);
    }
}
