//! The one HTTP client. Every binary is static, and glibc's resolver does not
//! work without its shared objects, so names are resolved in Rust.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use aws_smithy_dns::HickoryDnsResolver;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;

pub(crate) fn tls() -> Provider {
    Provider::Rustls(CryptoMode::AwsLc)
}

/// The resolver of the machine's configuration, or Amazon's own where the
/// machine has none: without either, every program here would be blind.
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
