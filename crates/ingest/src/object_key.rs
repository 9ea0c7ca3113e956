//! Key of an object of finished tasks, which contains its sender.

use ebb_telemetry::identity::{BootId, NodeId, ProbeStart, RoleId, attested};
use ebb_telemetry::step::StepBatch;

use crate::refusal::Refusal;

/// Prefix for the finished tasks of nodes; no other objects are allowed there.
pub const INGEST_PREFIX: &str = "ingest/v1/";

const SUFFIX: &str = ".steps.zst";

/// Parsed form of `ingest/v1/<aws:userid>/<boot>/<probe start>/<sequence>.steps.zst`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepKey {
    /// The node that the bucket policy attests.
    pub node: NodeId,
    /// The role whose credentials wrote the object.
    pub role: RoleId,
    /// Boot in the key.
    pub boot: BootId,
    /// Start of the probe process.
    pub probe_start: ProbeStart,
    /// Sequence number of the object since that start.
    pub sequence: u64,
}

impl StepKey {
    /// Parses a key.
    ///
    /// # Errors
    /// `ForeignKey` if no probe writes such a key, `NotANode` if its prefix is not a node.
    pub fn parse(key: &str) -> Result<Self, Refusal> {
        let rest = key.strip_prefix(INGEST_PREFIX).ok_or(Refusal::ForeignKey)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let [user, boot, probe_start, name] = parts[..] else {
            return Err(Refusal::ForeignKey);
        };
        let number = name.strip_suffix(SUFFIX).ok_or(Refusal::ForeignKey)?;
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Refusal::ForeignKey);
        }
        let attested = attested(user)?;
        Ok(Self {
            node: attested.node,
            role: attested.role,
            boot: BootId::new(boot)?,
            probe_start: ProbeStart::new(probe_start)?,
            sequence: number.parse().map_err(|_| Refusal::ForeignKey)?,
        })
    }

    /// Compares boot, probe start and sequence of the body with the key; the claim check compares
    /// the node.
    pub(crate) fn check(&self, batch: &StepBatch) -> Result<(), Refusal> {
        let of = |boot: &BootId, probe_start: &ProbeStart, sequence: u64| {
            format!("{boot}/{probe_start}/{sequence}")
        };
        let key = of(&self.boot, &self.probe_start, self.sequence);
        let body = of(&batch.boot, &batch.probe_start, batch.sequence);
        if key == body {
            return Ok(());
        }
        Err(Refusal::KeyMismatch { key, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_of_a_probe_names_a_node() {
        let check = |key: &str, expect: Option<(&str, u64)>| {
            let parsed = StepKey::parse(key).ok();
            let got = parsed.as_ref().map(|k| (k.node.as_str(), k.sequence));
            assert_eq!(got, expect, "{key}");
        };
        let good = "ingest/v1/AROAX:i-1/boot/start/00000007.steps.zst";
        check(good, Some(("i-1", 7)));
        check(
            "ingest/v1/AROAX:i-1/boot/start/7.steps.zst",
            Some(("i-1", 7)),
        );
        check("ingest/v1/AIDAX/boot/start/7.steps.zst", None);
        check("ingest/v1/AROAX:i-1/boot/7.steps.zst", None);
        check("ingest/v1/AROAX:i-1/boot/start/7.zst", None);
        check("ingest/v1/AROAX:i-1/boot/start/+7.steps.zst", None);
        check("ingest/v1/AROAX:i-1/../start/7/7.steps.zst", None);
        check("ingest/v2/AROAX:i-1/boot/start/7.steps.zst", None);
        check("notes.txt", None);
    }
}
