//! The version of a probe.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Three numbers, as in `0.2.0`. Probes have no other versions, and their order is clear.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct ProbeVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

/// Why a text is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a version has three numbers up to 65535, such as 0.2.0")]
pub struct InvalidVersion;

impl ProbeVersion {
    /// The version of this program; `None` for a build whose version is not three numbers.
    pub fn of_this_program() -> Option<Self> {
        env!("CARGO_PKG_VERSION").parse().ok()
    }
}

impl FromStr for ProbeVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.').map(|part| {
            // `parse` also accepts a sign and leading zeros.
            let is_plain = part.bytes().all(|b| b.is_ascii_digit());
            let number = part.parse::<u16>().ok().filter(|_| is_plain);
            number.filter(|_| part == "0" || !part.starts_with('0'))
        });
        let mut next = || parts.next().flatten().ok_or(InvalidVersion);
        let version = Self {
            major: next()?,
            minor: next()?,
            patch: next()?,
        };
        match parts.next() {
            None => Ok(version),
            Some(_) => Err(InvalidVersion),
        }
    }
}

impl TryFrom<String> for ProbeVersion {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProbeVersion> for String {
    fn from(version: ProbeVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for ProbeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_plain_numbers_in_their_order() {
        let version = |text: &str| text.parse::<ProbeVersion>();
        for text in ["0.2.0", "1.10.3", "65535.0.65535"] {
            assert_eq!(version(text).expect(text).to_string(), text);
        }
        let refused = [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1..3",
            "v1.2.3",
            "1.2.3-rc1",
            "+1.2.3",
            "01.2.3",
            "1.2.65536",
            "1.2.3\n",
            "../1.2.3",
        ];
        for text in refused {
            assert_eq!(version(text), Err(InvalidVersion), "{text}");
        }
        assert!(version("0.10.0").expect("ten") > version("0.9.9").expect("nine"));
        assert!(ProbeVersion::of_this_program().is_some());
    }
}
