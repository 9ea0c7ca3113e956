//! The kinds of findings: each variant, its doc, the name that travels and its label
//! stand here once.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident = $slug:literal, $label:literal;)+) => {
        /// What kind of waste it is; one variant a rule.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum FindingKind {
            $($(#[$doc])+ #[serde(rename = $slug)] $variant,)+
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name that travels: in JSON, ids and file names.
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
    /// A node that runs and does nothing.
    IdleNode = "idle_node", "Idle node";
    /// A Batch job or worker that gets nowhere.
    StuckBatchJob = "stuck_batch_job", "Stuck in Batch";
    /// A step that asks for far more than it uses.
    OverprovisionedStep = "overprovisioned_step", "Overprovisioned step";
    /// A node of which its work needs but a part.
    OverprovisionedNode = "overprovisioned_node", "Overprovisioned node";
    /// A node that has less than its work needs.
    UnderprovisionedNode = "underprovisioned_node", "Underprovisioned node";
    /// A node that works for a few minutes of the day.
    LowDutyNode = "low_duty_node", "Low-duty node";
    /// A volume that no machine has.
    UnattachedVolume = "unattached_volume", "Unattached volume";
    /// A volume whose machine has been stopped for long.
    StoppedMachinesVolume = "stopped_machines_volume", "Stopped machine's volume";
    /// A volume of a type that a cheaper one has replaced.
    OldVolumeType = "old_volume_type", "Old volume type";
    /// An address that is associated with nothing.
    IdleAddress = "idle_address", "Idle address";
    /// A machine whose GPUs compute nothing while its cores work.
    IdleGpu = "idle_gpu", "Idle GPU";
    /// GPU memory that is held and computes nothing.
    HeldGpuMemory = "held_gpu_memory", "GPU memory held";
    /// A node that is used in the same hours of each week, and runs in all.
    OffHoursNode = "off_hours_node", "Off hours";
    /// A snapshot whose volume and images are gone.
    OldSnapshot = "old_snapshot", "Old snapshot";
    /// A machine of a type that a newer one does better for less.
    OldGeneration = "old_generation", "Old generation";
    /// Machines on demand whose work spot would carry.
    SpotWouldCarry = "spot_would_carry", "Spot would carry";
    /// A commitment of which more is paid than is used.
    UnusedCommitment = "unused_commitment", "Commitment unused";
    /// A job that waits far longer for a machine than others of its kind did.
    LongQueuedJob = "long_queued_job", "Queued for long";
    /// A step that the kernel killed for want of memory.
    OutOfMemoryStep = "out_of_memory_step", "Out of memory";
    /// A step that fails again and again.
    RetryStorm = "retry_storm", "Retry storm";
    /// A step that runs and makes no progress.
    StalledStep = "stalled_step", "Stalled step";
    /// A step that waits for cores which its neighbours keep busy.
    StarvedStep = "starved_step", "Starved of CPU";
    /// A step that mostly waits for disk, pages or network.
    WaitingStep = "waiting_step", "Waiting step";
    /// A step that computes for far longer than it ever did, and nothing comes of it.
    SpinningStep = "spinning_step", "May be spinning";
    /// A step that takes far longer than its own history.
    SlowStep = "slow_step", "Slow step";
    /// A step that is about to run out of its memory.
    MemoryPressure = "memory_pressure", "Memory pressure";
    /// A step that asks for less than its runs need.
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
