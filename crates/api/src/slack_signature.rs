//! The signature of Slack on a request. Nothing else of the API is used here.
//!
//! Source: Slack, "Verifying requests from Slack".

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use jiff::Timestamp;
use sha2::Sha256;

/// Maximum difference between the clocks of Slack and of this machine, with the time on the way.
const MAX_AGE_SECONDS: u64 = 300;

/// The secret with which Slack signs requests for an app.
#[derive(Clone)]
pub struct SigningSecret(Hmac<Sha256>);

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

impl SigningSecret {
    /// Takes the secret; `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let key = Hmac::new_from_slice(text.as_bytes()).ok()?;
        (!text.is_empty()).then_some(Self(key))
    }

    /// The signature of a request, if it is valid and recent. The comparison takes the same time
    /// for every wrong signature.
    pub(crate) fn verified<'a>(
        &self,
        headers: &'a HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Option<&'a str> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let at = header("x-slack-request-timestamp")?;
        let signature = header("x-slack-signature")?;
        let seconds: i64 = at.parse().ok()?;
        let bytes = from_hex(signature.strip_prefix("v0=")?)?;
        let signed = self.0.clone().chain_update(format!("v0:{at}:"));
        signed.chain_update(body).verify_slice(&bytes).ok()?;
        let is_recent = now.as_second().abs_diff(seconds) <= MAX_AGE_SECONDS;
        is_recent.then_some(signature)
    }
}

/// 32 bytes from 64 hexadecimal digits.
fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = digit(pair[0])? * 16 + digit(pair[1])?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(bytes)
}
