//! Identities of nodes, machines, accounts and probes. The identity that AWS attests decides to
//! whom a heartbeat belongs; a claim in the message does not.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use thiserror::Error;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// The name is empty.
    #[error("{what} is empty")]
    Empty {
        /// The kind of name.
        what: &'static str,
    },
    /// The name begins with `-`, and a command could read it as an option.
    #[error("{what} '{shown}' begins with '-'")]
    Option {
        /// The kind of name.
        what: &'static str,
        /// The name with control characters escaped.
        shown: String,
    },
    /// The name is longer than any valid name.
    #[error("{what} has {len} bytes; at most {max} are accepted")]
    TooLong {
        /// The kind of name.
        what: &'static str,
        /// Length in bytes.
        len: usize,
        /// The maximum in bytes.
        max: usize,
    },
    /// The name contains a character that is not valid.
    #[error("{what} '{shown}' holds a character outside A-Z a-z 0-9 . _ : / @ = + -")]
    BadCharacter {
        /// The kind of name.
        what: &'static str,
        /// The name with control characters escaped.
        shown: String,
    },
    /// The sender is not a role session, so it does not identify a node.
    #[error(
        "sender '{sender}' is not a role session (AROA…:session), so it does not identify a node"
    )]
    NotARoleSession {
        /// The sender with control characters escaped.
        sender: String,
    },
}

// Every record of a node contains a name, and it is looked up among a hundred thousand names. A
// short name is stored inline, and copies of a longer name share one allocation.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(try_from = "SmolStr", into = "SmolStr")]
        pub struct $name(SmolStr);

        impl $name {
            /// Checks a name and stores it. A name has 1 to 256 bytes of the accepted characters
            /// and does not begin with `-`.
            pub fn new(name: impl AsRef<str>) -> Result<Self, IdentityError> {
                checked($what, name.as_ref()).map(|name| Self(SmolStr::new(name)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdentityError;

            fn from_str(name: &str) -> Result<Self, IdentityError> {
                Self::new(name)
            }
        }

        impl TryFrom<SmolStr> for $name {
            type Error = IdentityError;

            fn try_from(name: SmolStr) -> Result<Self, IdentityError> {
                checked($what, &name)?;
                Ok(Self(name))
            }
        }

        impl From<$name> for SmolStr {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into()
            }
        }
    )*};
}

names! {
    /// A machine with a probe or in an inventory; for EC2, the instance id.
    NodeId, "node id";
    /// A cloud region such as `eu-central-1`.
    Region, "region";
    /// A cloud account.
    AccountId, "account id";
    /// A machine type such as `m5.xlarge`.
    InstanceType, "instance type";
    /// One boot of a node: the kernel's random boot id.
    BootId, "boot id";
    /// One start of a probe: a random id, generated at each start.
    ProbeStart, "probe start";
}

/// Whether a text is a UUID: five groups of hexadecimal digits.
pub fn is_uuid(text: &str) -> bool {
    text.len() == UUID_BYTES
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Splits a name into the part before a UUID at its end, and the UUID; `None` without one.
pub fn split_uuid(name: &str) -> Option<(&str, &str)> {
    let parts = name.split_at_checked(name.len().checked_sub(UUID_BYTES)?)?;
    is_uuid(parts.1).then_some(parts)
}

const UUID_BYTES: usize = 36;

impl Region {
    /// The region of charges that AWS assigns to no region.
    pub fn global() -> Self {
        Self(SmolStr::new_static("global"))
    }
}

impl AccountId {
    /// The account in an ARN; `None` if the ARN contains no account or the text is not an ARN.
    pub fn of_arn(arn: &str) -> Option<Self> {
        Self::new(arn.strip_prefix("arn:")?.split(':').nth(3)?).ok()
    }

    /// Whether two resources can belong to the same account. An unknown account can be any.
    pub fn may_be_one(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.zip(other).is_none_or(|(one, other)| one == other)
    }
}

impl InstanceType {
    const UNLISTED: &str = "unlisted";

    /// The type of a machine that is in no list of types, such as an on-premises host.
    pub fn unlisted() -> Self {
        Self(SmolStr::new_static(Self::UNLISTED))
    }

    /// Whether the letters of its family stand for GPUs or other accelerators. This is for types
    /// that are not in the catalogue.
    ///
    /// Source: "Amazon EC2 instance type naming conventions": accelerated computing is `dl`,
    /// `f`, `g`, `gr`, `inf`, `p`, `trn` and `vt`.
    pub fn is_accelerated_by_name(&self) -> bool {
        let letters = self.as_str().find(|c: char| !c.is_ascii_alphabetic());
        let family = letters.and_then(|end| self.as_str().get(..end));
        let accelerated = ["dl", "f", "g", "gr", "inf", "p", "trn", "vt"];
        self.as_str().contains('.') && family.is_some_and(|family| accelerated.contains(&family))
    }

    /// Whether the type can be in a list of types.
    pub fn is_listed(&self) -> bool {
        self.as_str() != Self::UNLISTED
    }
}

const MAX_NAME_BYTES: usize = 256;

/// Whether a name may contain this byte. A table, because every byte of every name is checked.
const IS_REAL: [bool; 256] = {
    let mut is_real = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        is_real[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut others = b"._:/@=+-".as_slice();
    while let [byte, rest @ ..] = others {
        is_real[*byte as usize] = true;
        others = rest;
    }
    is_real
};

fn checked<'a>(what: &'static str, name: &'a str) -> Result<&'a str, IdentityError> {
    if name.is_empty() {
        return Err(IdentityError::Empty { what });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(IdentityError::TooLong {
            what,
            len: name.len(),
            max: MAX_NAME_BYTES,
        });
    }
    if !name.bytes().all(|byte| IS_REAL[usize::from(byte)]) {
        return Err(IdentityError::BadCharacter {
            what,
            shown: name.escape_default().to_string(),
        });
    }
    if name.starts_with('-') {
        let shown = name.to_owned();
        return Err(IdentityError::Option { what, shown });
    }
    Ok(name)
}

/// The unique id of an IAM role (`AROA…`); AWS never assigns it to another role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(Box<str>);

impl fmt::Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identity of a sender as AWS attests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attested {
    /// The role of the sender's credentials.
    pub role: RoleId,
    /// The session name, which is the node id.
    pub node: NodeId,
}

/// The role and node that AWS attests for a sender.
///
/// `sender` is `SenderId` of SQS or `aws:userid` of IAM, which are the same string: `<role
/// id>:<session name>`. EC2 sets the session name of an instance profile to the instance id. For
/// EKS Pod Identity or IAM Roles Anywhere, the issuer of the credentials sets the session name, and
/// this name is the node id. The credentials of a user (`AIDA…`) or an account root do not identify
/// a node.
///
/// Source: "AWS global condition context keys", table of `aws:userid` values,
/// and the SQS API reference of `ReceiveMessage` (`SenderId`).
pub fn attested(sender: &str) -> Result<Attested, IdentityError> {
    let refused = || IdentityError::NotARoleSession {
        sender: sender.escape_default().to_string(),
    };
    let (role, session) = sender.split_once(':').ok_or_else(refused)?;
    let is_role = role.starts_with("AROA") && role.bytes().all(|b| b.is_ascii_alphanumeric());
    if !is_role || role.len() > MAX_NAME_BYTES || session.is_empty() {
        return Err(refused());
    }
    Ok(Attested {
        role: RoleId(role.into()),
        node: NodeId::new(session)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_role_session_attests_a_node() {
        let check = |sender: &str, node: Option<&str>| {
            let got = attested(sender).ok().map(|attested| attested.node);
            assert_eq!(got.as_ref().map(NodeId::as_str), node, "{sender}");
        };
        check("AROAEXAMPLEID:i-0abc12", Some("i-0abc12"));
        check(
            "AROAEXAMPLEID:eks-cluster-pod-7f",
            Some("eks-cluster-pod-7f"),
        );
        check("AROAEXAMPLEID:0123456789abcdef", Some("0123456789abcdef"));
        check("AIDAEXAMPLEID", None);
        check("123456789012", None);
        check("AROAEXAMPLEID:", None);
        check("AROAEXAMPLEID:i-0 drop", None);
        check("AROAEXAMPLEID:-oProxyCommand=x", None);
        check("", None);
    }

    #[test]
    fn a_name_from_outside_is_bounded_and_plain() {
        assert!(NodeId::new("i-0abc").is_ok());
        assert!(NodeId::new("x".repeat(257)).is_err());
        assert!(NodeId::new("<script>").is_err());
        assert!(NodeId::new("-oProxyCommand=x").is_err());
        assert!(NodeId::new("rack-3").is_ok());
        assert!(serde_json::from_str::<NodeId>("\"a\\nb\"").is_err());
    }

    #[test]
    fn the_name_of_a_type_tells_of_accelerators() {
        let check = |name: &str, expect: bool| {
            let kind = InstanceType::new(name).expect("a type");
            assert_eq!(kind.is_accelerated_by_name(), expect, "{name}");
        };
        for name in [
            "p3.2xlarge",
            "g4ad.xlarge",
            "gr6.4xlarge",
            "dl2q.24xlarge",
            "f1.2xlarge",
        ] {
            check(name, true);
        }
        for name in [
            "m5.large",
            "hpc6a.48xlarge",
            "i4i.large",
            "t3.micro",
            "gpu",
            "u-6tb1.metal",
        ] {
            check(name, false);
        }
    }
}
