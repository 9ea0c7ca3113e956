//! The kinds of findings. This module is the only place with the variants, their docs, stable names
//! and labels.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident = $slug:literal, $label:literal;)+) => {
        /// The kind of a finding; one variant for each rule.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum FindingKind {
            $($(#[$doc])+ #[serde(rename = $slug)] $variant,)+
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable name in JSON, ids and file names.
            pub const fn slug(self) -> &'static str {
                match self {
                    $(Self::$variant => $slug,)+
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
    IdleNode = "idle_node", "Idle node";
    /// A Batch job or worker without progress.
    StuckBatchJob = "stuck_batch_job", "Stuck in Batch";
    /// A step that requests far more than it uses.
    OverprovisionedStep = "overprovisioned_step", "Overprovisioned step";
    /// A node whose work needs only a part of it.
    OverprovisionedNode = "overprovisioned_node", "Overprovisioned node";
    /// A node that has less than its work needs.
    UnderprovisionedNode = "underprovisioned_node", "Underprovisioned node";
    /// A node with a few active minutes a day.
    LowDutyNode = "low_duty_node", "Low-duty node";
    /// A volume that no machine has attached.
    UnattachedVolume = "unattached_volume", "Unattached volume";
    /// A volume whose machine has been stopped for a long time.
    StoppedMachinesVolume = "stopped_machines_volume", "Stopped machine's volume";
    /// A volume of a type that a cheaper type has replaced.
    OldVolumeType = "old_volume_type", "Old volume type";
    /// An address that is not associated.
    IdleAddress = "idle_address", "Idle address";
    /// A machine whose GPUs compute nothing while its cores work.
    IdleGpu = "idle_gpu", "Idle GPU";
    /// GPU memory that is allocated but not used for computation.
    HeldGpuMemory = "held_gpu_memory", "GPU memory held";
    /// A node that is used in the same hours of each week, and runs all the time.
    OffHoursNode = "off_hours_node", "Off hours";
    /// A snapshot whose volume and images were deleted.
    OldSnapshot = "old_snapshot", "Old snapshot";
    /// A machine of a type that a newer, cheaper type has replaced.
    OldGeneration = "old_generation", "Old generation";
    /// Machines on demand whose work is suitable for spot.
    SpotWouldCarry = "spot_would_carry", "Spot would carry";
    /// A commitment that is not fully used.
    UnusedCommitment = "unused_commitment", "Commitment unused";
    /// A job that waits far longer for a machine than other jobs of its definition did.
    LongQueuedJob = "long_queued_job", "Queued for long";
    /// A step whose tasks the kernel OOM-killed.
    OutOfMemoryStep = "out_of_memory_step", "Out of memory";
    /// A step whose tasks fail repeatedly.
    RetryStorm = "retry_storm", "Retry storm";
    /// A step that runs without progress.
    StalledStep = "stalled_step", "Stalled step";
    /// A step that waits for cores that its neighbours keep busy.
    StarvedStep = "starved_step", "Starved of CPU";
    /// A step that mostly waits for disk, pages or network.
    WaitingStep = "waiting_step", "Waiting step";
    /// A step that uses CPU without other activity for far longer than before.
    SpinningStep = "spinning_step", "May be spinning";
    /// A step that takes far longer than its own history.
    SlowStep = "slow_step", "Slow step";
    /// A step that is about to exceed its memory limit.
    MemoryPressure = "memory_pressure", "Memory pressure";
    /// A step that requests less than its tasks need.
    UnderprovisionedStep = "underprovisioned_step", "Underprovisioned step";
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
        }
    }
}
