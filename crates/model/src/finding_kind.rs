//! The kinds of findings. This module is the only place with the variants, their docs, labels,
//! plurals, stable names, and names in earlier releases.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{EnumAccess, Error as _, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident = $slug:literal, $label:literal, $plural:literal;)+) => {
        /// The kind of a finding; one variant for each rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum FindingKind {
            $($(#[$doc])+ #[serde(rename = $slug)] $variant,)+
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            const SLUGS: &'static [&'static str] = &[$($slug),+];

            /// The stable name in JSON, ids and file names.
            pub const fn slug(self) -> &'static str {
                match self {
                    $(Self::$variant => $slug,)+
                }
            }

            /// Several findings of the kind, within a sentence.
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$variant => $plural,)+
                }
            }

            const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }
        }
    };
}

kinds! {
    /// A node that runs without activity.
    IdleNode = "idle_node", "Idle node", "idle nodes";
    /// A Batch job or worker without progress.
    StuckBatchJob = "stuck_batch_job", "Stuck Batch job", "stuck Batch jobs or workers";
    /// A step that requests far more than it uses.
    OverprovisionedStep = "overprovisioned_step", "Overprovisioned step", "overprovisioned steps";
    /// A node whose work needs only a part of it.
    OverprovisionedNode = "overprovisioned_node", "Overprovisioned node", "overprovisioned nodes";
    /// A node that has less than its work needs.
    UnderprovisionedNode = "underprovisioned_node", "Underprovisioned node",
        "underprovisioned nodes";
    /// A node with a few active minutes a day, or with low CPU usage.
    UnderutilizedNode = "underutilized_node", "Underutilized node", "underutilized nodes";
    /// A volume that no machine has attached.
    UnattachedVolume = "unattached_volume", "Unattached volume", "unattached volumes";
    /// A volume whose machine has been stopped for a long time.
    StoppedMachinesVolume = "stopped_machines_volume", "Volume of a stopped machine",
        "volumes of stopped machines";
    /// A volume of a type that a cheaper type has replaced.
    OldVolumeType = "old_volume_type", "Old volume type", "volumes of an old type";
    /// An address that is not associated.
    IdleAddress = "idle_address", "Idle address", "idle addresses";
    /// A machine whose GPUs compute nothing while its cores work.
    IdleGpu = "idle_gpu", "Idle GPU", "machines with idle GPUs";
    /// GPU memory that is allocated but not used for computation.
    GpuMemoryHeld = "gpu_memory_held", "GPU memory held",
        "machines with allocated but unused GPU memory";
    /// A node that is used in the same hours of each week, and runs all the time.
    OffHoursNode = "off_hours_node", "Off-hours node", "nodes that run outside working hours";
    /// A snapshot whose volume and images were deleted.
    OldSnapshot = "old_snapshot", "Old snapshot", "old snapshots";
    /// A machine of a type that a newer, cheaper type has replaced.
    OldGeneration = "old_generation", "Old generation", "machines of an old generation";
    /// Machines on demand whose work is suitable for spot.
    SpotCandidate = "spot_candidate", "Spot candidate", "spot candidates";
    /// A commitment that is not fully used.
    UnusedCommitment = "unused_commitment", "Unused commitment", "unused commitments";
    /// A pipeline or cost centre whose month costs more than its budget, or will.
    BudgetExceeded = "budget_exceeded", "Budget exceeded", "exceeded budgets";
    /// A pipeline or cost centre that cost far more on a day than on the days before.
    CostAnomaly = "cost_anomaly", "Cost anomaly", "cost anomalies";
    /// A job that waits far longer for a machine than other jobs of its definition did.
    LongQueuedJob = "long_queued_job", "Long-queued job", "jobs queued for a long time";
    /// A step whose tasks the kernel OOM-killed.
    OutOfMemoryStep = "out_of_memory_step", "Out of memory", "steps that ran out of memory";
    /// A step whose tasks fail repeatedly.
    RetryStorm = "retry_storm", "Retry storm", "retry storms";
    /// A step that runs without progress.
    StalledStep = "stalled_step", "Stalled step", "stalled steps";
    /// A step that waits for cores that its neighbours keep busy.
    StarvedStep = "starved_step", "Starved of CPU", "steps starved of CPU";
    /// A step that mostly waits for disk, pages or network.
    WaitingStep = "waiting_step", "Waiting step", "waiting steps";
    /// A step that uses CPU without other activity for far longer than before.
    SpinningStep = "spinning_step", "Possibly spinning step", "steps that may be spinning";
    /// A step that takes far longer than its own history.
    SlowStep = "slow_step", "Slow step", "slow steps";
    /// A step that is about to exceed its memory limit.
    MemoryPressure = "memory_pressure", "Memory pressure", "steps under memory pressure";
    /// A step that requests less than its tasks need.
    UnderprovisionedStep = "underprovisioned_step", "Underprovisioned step",
        "underprovisioned steps";
}

impl FindingKind {
    /// Whether a finding of the kind is waste, which has a saving. Other kinds are about spending,
    /// and their evidence contains the amounts. A job that waits holds no machine.
    pub const fn is_waste(self) -> bool {
        !matches!(
            self,
            Self::BudgetExceeded | Self::CostAnomaly | Self::LongQueuedJob
        )
    }

    /// The text in place of a saving.
    pub const fn without_saving(self) -> &'static str {
        match self.is_waste() {
            true => "price not known",
            false => "no saving estimated",
        }
    }
}

/// The names that kinds had in earlier releases. Policy files, stored decisions, stored reports and
/// scripts may contain them.
const EARLIER_SLUGS: [(&str, FindingKind); 3] = [
    ("low_duty_node", FindingKind::UnderutilizedNode),
    ("held_gpu_memory", FindingKind::GpuMemoryHeld),
    ("spot_would_carry", FindingKind::SpotCandidate),
];

/// A text that is not the name of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown finding kind '{0}'")]
pub struct UnknownKind(String);

impl FromStr for FindingKind {
    type Err = UnknownKind;

    /// Parses a name in JSON, or the name in an earlier release.
    fn from_str(slug: &str) -> Result<Self, UnknownKind> {
        let present = Self::ALL.iter().find(|kind| kind.slug() == slug).copied();
        let earlier = || {
            let mut earlier = EARLIER_SLUGS.iter();
            earlier
                .find(|(before, _)| *before == slug)
                .map(|(_, kind)| *kind)
        };
        present
            .or_else(earlier)
            .ok_or_else(|| UnknownKind(slug.to_owned()))
    }
}

impl<'de> Deserialize<'de> for FindingKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_enum("FindingKind", Self::SLUGS, SlugVisitor)
    }
}

/// Reads the name of a kind. The list of names that the deserializer gets has no earlier names, so
/// that documents that are derived from it show the present ones only.
struct SlugVisitor;

impl<'de> Visitor<'de> for SlugVisitor {
    type Value = FindingKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a finding kind")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<FindingKind, A::Error> {
        let (slug, variant) = data.variant::<String>()?;
        variant.unit_variant()?;
        slug.parse()
            .map_err(|_| A::Error::unknown_variant(&slug, FindingKind::SLUGS))
    }
}

/// The id of a finding in this release, for an id that an earlier release stored: the id begins
/// with the name of the kind.
pub fn current_id(id: &str) -> Cow<'_, str> {
    let Some((head, rest)) = id.split_once('/') else {
        return Cow::Borrowed(id);
    };
    match head.parse::<FindingKind>() {
        Ok(kind) if kind.slug() != head => Cow::Owned(format!("{}/{rest}", kind.slug())),
        _ => Cow::Borrowed(id),
    }
}

/// Deserializes the id of a finding; see [`current_id`].
pub(crate) fn read_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    Ok(current_id(&id).into_owned())
}

/// Deserializes ids of findings; see [`current_id`].
pub(crate) fn read_ids<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<String>::deserialize(deserializer)?;
    Ok(ids.iter().map(|id| current_id(id).into_owned()).collect())
}

/// Deserializes a map by the ids of findings; see [`current_id`].
///
/// # Errors
/// If the input is not such a map.
pub fn read_by_id<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let stored = BTreeMap::<String, T>::deserialize(deserializer)?;
    let current = stored.into_iter();
    Ok(current
        .map(|(id, value)| (current_id(&id).into_owned(), value))
        .collect())
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_travels_under_its_own_name() {
        let slugs: std::collections::BTreeSet<&str> =
            FindingKind::ALL.iter().map(|kind| kind.slug()).collect();
        assert_eq!(slugs.len(), FindingKind::ALL.len());
        for kind in FindingKind::ALL {
            let text = serde_json::to_string(kind).expect("JSON");
            assert_eq!(text, format!("\"{}\"", kind.slug()));
            assert!(!kind.to_string().is_empty());
            let plural = kind.plural();
            assert!(plural.contains('s') && plural.starts_with(char::is_lowercase));
            assert_eq!(serde_json::from_str(&text).ok(), Some(*kind));
        }
    }

    #[test]
    fn names_of_earlier_releases_are_read_and_never_written() {
        let check = |earlier: &str, kind: FindingKind| {
            assert_eq!(earlier.parse(), Ok(kind));
            let json = format!("\"{earlier}\"");
            assert_eq!(serde_json::from_str(&json).ok(), Some(kind));
            assert!(FindingKind::ALL.iter().all(|kind| kind.slug() != earlier));
            assert_eq!(
                current_id(&format!("{earlier}/us-east-1/i-1")),
                format!("{}/us-east-1/i-1", kind.slug())
            );
        };
        check("low_duty_node", FindingKind::UnderutilizedNode);
        check("held_gpu_memory", FindingKind::GpuMemoryHeld);
        check("spot_would_carry", FindingKind::SpotCandidate);
        for id in [
            "idle_node/us-east-1/i-1",
            "other/low_duty_node",
            "low_duty_node",
        ] {
            assert_eq!(current_id(id), id);
        }
        let error = serde_json::from_str::<FindingKind>("\"no_such\"").map_err(|e| e.to_string());
        let error = error.expect_err("there is no such kind");
        assert!(error.contains("idle_node"), "{error}");
        assert!(!error.contains("low_duty_node"), "{error}");
    }
}
