//! Access of browsers to the pages of a deployment. A browser can neither sign a request for AWS nor
//! send a bearer token when a person opens an address. So a caller of the API, whom the gateway
//! verified, gets a link. The link sets a cookie, and pages need the cookie. Both are signed by a
//! secret of the deployment, name the caller, and end.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::COOKIE;
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;

use crate::caller::Caller;

/// A link is opened at once; an old one may be in a history or a log.
pub(crate) const LINK_TIME: SignedDuration = SignedDuration::from_mins(15);

/// One working day.
pub(crate) const COOKIE_TIME: SignedDuration = SignedDuration::from_hours(12);

/// The prefix `__Host-` makes a browser refuse the cookie without TLS, for a part of the paths, or for
/// other hosts of the domain.
const COOKIE_NAME: &str = "__Host-ebb";

/// A secret can be searched for offline by anyone who has a link.
const MIN_SECRET_CHARS: usize = 32;

/// Limit on a token; the name of a role session has at most 2 KB.
const MAX_TOKEN_BYTES: usize = 4_096;

/// The people that may see the pages.
#[derive(Debug, Clone)]
pub enum PageAccess {
    /// Everybody who can send a request: the server listens on loopback.
    Everybody,
    /// Nobody: the pages do not exist.
    Nobody,
    /// Those with a link.
    WithLink(PagesSecret),
}

/// The secret that signs links and cookies.
#[derive(Clone)]
pub struct PagesSecret(Hmac<Sha256>);

impl fmt::Debug for PagesSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PagesSecret")
    }
}

/// The purpose of a token. A token of one sort is not valid as the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUse {
    Link,
    Cookie,
}

impl PagesSecret {
    /// Takes the secret; `None` if it is too short.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let key = Hmac::new_from_slice(text.as_bytes()).ok()?;
        (text.chars().count() >= MIN_SECRET_CHARS).then_some(Self(key))
    }

    /// `END.CALLER.SIGNATURE`, with the end in seconds since the epoch.
    pub(crate) fn token(&self, of: TokenUse, caller: &Caller, end: Timestamp) -> String {
        let caller = BASE64_URL_SAFE_NO_PAD.encode(&caller.0);
        let signed = format!("{}.{caller}", end.as_second());
        let signature = self.signature(of, &signed).finalize().into_bytes();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }

    /// The caller of a token that is valid at `now`. The comparison takes the same time for every
    /// wrong signature.
    pub(crate) fn caller(&self, of: TokenUse, token: &str, now: Timestamp) -> Option<Caller> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.signature(of, signed).verify_slice(&signature).ok()?;
        let (end, caller) = signed.split_once('.')?;
        let end: i64 = end.parse().ok()?;
        let caller = BASE64_URL_SAFE_NO_PAD.decode(caller).ok()?;
        let caller = String::from_utf8(caller).ok()?;
        (now.as_second() < end).then_some(Caller(caller))
    }

    fn signature(&self, of: TokenUse, signed: &str) -> Hmac<Sha256> {
        let of = match of {
            TokenUse::Link => "ebb-link:",
            TokenUse::Cookie => "ebb-cookie:",
        };
        self.0.clone().chain_update(of).chain_update(signed)
    }

    /// The value of the header that stores a cookie for this caller.
    ///
    /// `SameSite=Strict` would also withhold the cookie from a person who follows a link to a page in
    /// a chat. With `Lax`, other sites can only open pages, which changes nothing; decisions are
    /// POST requests with JSON, which other sites cannot send.
    pub(crate) fn set_cookie(&self, caller: &Caller, now: Timestamp) -> String {
        let end = now.saturating_add(COOKIE_TIME).unwrap_or(now);
        let token = self.token(TokenUse::Cookie, caller, end);
        let seconds = COOKIE_TIME.as_secs();
        format!("{COOKIE_NAME}={token}; Path=/; Max-Age={seconds}; HttpOnly; Secure; SameSite=Lax")
    }

    /// The caller of the cookie of a request.
    pub(crate) fn caller_of_cookie(&self, headers: &HeaderMap, now: Timestamp) -> Option<Caller> {
        let lines = headers.get_all(COOKIE).into_iter();
        let mut cookies = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'));
        cookies.find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == COOKIE_NAME).then(|| self.caller(TokenUse::Cookie, value, now))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> PagesSecret {
        PagesSecret::new("0123456789abcdef0123456789abcdef").expect("a secret")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn a_token_is_valid_until_its_end_for_its_use_and_secret() {
        let caller = Caller("arn:aws:sts::1:assumed-role/a.b/ána".to_owned());
        let token = secret().token(TokenUse::Link, &caller, at(100));
        let check = |token: &str, of, now, is_valid: bool| {
            let found = secret().caller(of, token, at(now)).map(|caller| caller.0);
            assert_eq!(found, is_valid.then(|| caller.0.clone()), "{token}");
        };
        check(&token, TokenUse::Link, 99, true);
        check(&token, TokenUse::Link, 100, false);
        check(&token, TokenUse::Cookie, 99, false);
        check(&token.replace("100.", "101."), TokenUse::Link, 99, false);
        check(&format!("{token}A"), TokenUse::Link, 99, false);
        check(&token[..token.len() - 1], TokenUse::Link, 99, false);
        check("", TokenUse::Link, 99, false);
        check("..", TokenUse::Link, 99, false);
        check(&"9.".repeat(10_000), TokenUse::Link, 0, false);
        let other = PagesSecret::new(&"x".repeat(32)).expect("a secret");
        assert!(other.caller(TokenUse::Link, &token, at(99)).is_none());
        assert!(PagesSecret::new(&"x".repeat(31)).is_none());
        assert!(PagesSecret::new(&" ".repeat(64)).is_none());
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let set = secret().set_cookie(&Caller("ana".to_owned()), at(0));
        assert!(set.ends_with("; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax"));
        let cookie = set.split(';').next().expect("a cookie");
        let check = |lines: &[&str], now: i64, is_valid: bool| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().expect("a header"));
            }
            let found = secret().caller_of_cookie(&headers, at(now));
            assert_eq!(found.is_some(), is_valid, "{lines:?}");
        };
        check(&[cookie], 43_199, true);
        check(&[cookie], 43_200, false);
        check(&[&format!("a=b; {cookie}; c=d")], 1, true);
        check(&["a=b", cookie], 1, true);
        check(&[&format!("__Host-ebb=x; {cookie}")], 1, true);
        check(&["a=b", "__Host-ebb=x", "__Host-ebb", ";;="], 1, false);
        check(&[], 1, false);
    }
}
