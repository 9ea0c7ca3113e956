//! The kernel namespaces of a task that differ from those of its node.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A kind of namespace. Source: `namespaces(7)`. The time namespace is left out because it changes
/// only clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    /// Mounts.
    Mount,
    /// Process ids.
    Pid,
    /// Network devices, addresses and ports.
    Network,
    /// Users, groups and capabilities.
    User,
    /// Host names.
    Uts,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// The root of the cgroup hierarchy.
    Cgroup,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Network => "network",
            Self::User => "user",
            Self::Uts => "uts",
            Self::Ipc => "ipc",
            Self::Cgroup => "cgroup",
        })
    }
}

/// A set of namespaces. It identifies a container without a cgroup of its own, such as an Apptainer
/// container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Namespaces(u8);

impl Namespaces {
    const ALL: [Namespace; 7] = [
        Namespace::Mount,
        Namespace::Pid,
        Namespace::Network,
        Namespace::User,
        Namespace::Uts,
        Namespace::Ipc,
        Namespace::Cgroup,
    ];

    /// One bit for each kind; `Mount` is the lowest. Bits that a later probe may send are dropped.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & ((1 << Self::ALL.len()) - 1)) as u8)
    }

    /// One bit for each kind; see [`Self::from_bits`].
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// The kinds in the set.
    pub fn kinds(self) -> impl Iterator<Item = Namespace> {
        (Self::ALL.into_iter()).filter(move |kind| self.0 & (1 << *kind as u8) != 0)
    }
}

impl FromIterator<Namespace> for Namespaces {
    fn from_iter<I: IntoIterator<Item = Namespace>>(kinds: I) -> Self {
        let bits = |sum: u8, kind: Namespace| sum | 1 << kind as u8;
        Self(kinds.into_iter().fold(0, bits))
    }
}

/// Names in readable formats, one byte in binary formats.
impl Serialize for Namespaces {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.collect_seq(self.kinds())
        } else {
            to.serialize_u8(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Namespaces {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            Ok(Vec::<Namespace>::deserialize(from)?.into_iter().collect())
        } else {
            u8::deserialize(from).map(|bits| Self::from_bits(bits.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_is_read_back_from_names_bytes_and_bits() {
        let check = |bits: u32, names: &str| {
            let set = Namespaces::from_bits(bits);
            let json = serde_json::to_string(&set).expect("it is written");
            assert_eq!(json, names);
            assert_eq!(serde_json::from_str::<Namespaces>(&json).ok(), Some(set));
            let packed = postcard::to_allocvec(&set).expect("it is packed");
            assert_eq!(
                (packed.len(), postcard::from_bytes(&packed).ok()),
                (1, Some(set))
            );
            assert_eq!(set.kinds().collect::<Namespaces>(), set);
        };
        check(0, "[]");
        check(1, r#"["mount"]"#);
        check(0b000_1011, r#"["mount","pid","user"]"#);
        check(
            0b111_1111,
            r#"["mount","pid","network","user","uts","ipc","cgroup"]"#,
        );
        // Sent by a later probe.
        check(0b1000_0100, r#"["network"]"#);
        check(u32::MAX << 7, "[]");
    }

    #[test]
    fn what_either_had_is_in_both() {
        let or = Namespaces::from_bits(0b11).or(Namespaces::from_bits(0b110));
        assert_eq!(or.bits(), 0b111);
    }
}
