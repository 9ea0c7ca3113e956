//! Requirements on a machine, and the reasons why an offer is not ranked.

use std::fmt;

use ebb_catalog::machine_type::{Devices, TypeSpec};
use serde::{Deserialize, Serialize};

use crate::cheapest_type::usable;
use crate::core_speed::Family;
use crate::ranking::offer::{Limits, Offer, Step};

/// The reason why an offer is not ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfit {
    /// Fewer vCPUs than the step requests.
    Cores,
    /// Too little memory without the part that the system keeps.
    Memory,
    /// A program of the step is not known to exist for its architecture.
    Architecture,
    /// Not the required GPU, or a GPU that is not required.
    Gpu,
    /// Too little local disk.
    LocalDisk,
    /// Less sustained network bandwidth than required.
    Network,
    /// Less sustained EBS bandwidth than required.
    Ebs,
    /// The policy excludes the family, region or market.
    Policy,
    /// Not offered in an allowed zone, or its zones are unknown.
    Zone,
    /// A licence restricts the step to other types.
    Licence,
    /// Its vCPUs deliver full performance only while it is mostly idle.
    Burstable,
    /// Bare metal, a type for HPC, or an accelerator that no step here uses.
    Special,
    /// Its speed is unknown.
    SpeedUnknown,
    /// The price of the data transfer is unknown.
    TransferUnknown,
    /// Its interruption rate is unknown.
    InterruptionsUnknown,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cores => "too few vCPUs",
            Self::Memory => "too little memory",
            Self::Architecture => "its programs may not exist for this architecture",
            Self::Gpu => "another GPU than required",
            Self::LocalDisk => "too little local disk",
            Self::Network => "too little network",
            Self::Ebs => "too little bandwidth to EBS",
            Self::Policy => "excluded by the policy",
            Self::Zone => "no known offer in an allowed zone",
            Self::Licence => "bound by a licence",
            Self::Burstable => "burstable",
            Self::Special => "bare metal or special hardware",
            Self::SpeedUnknown => "unknown speed",
            Self::TransferUnknown => "unknown cost of the data transfer",
            Self::InterruptionsUnknown => "unknown interruption rate",
        })
    }
}

impl Misfit {
    /// The stable name.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memory => "memory",
            Self::Architecture => "architecture",
            Self::Gpu => "gpu",
            Self::LocalDisk => "local_disk",
            Self::Network => "network",
            Self::Ebs => "ebs",
            Self::Policy => "policy",
            Self::Zone => "zone",
            Self::Licence => "licence",
            Self::Burstable => "burstable",
            Self::Special => "special",
            Self::SpeedUnknown => "speed_unknown",
            Self::TransferUnknown => "transfer_unknown",
            Self::InterruptionsUnknown => "interruptions_unknown",
        }
    }
}

/// Whether a type meets the requirements, independent of price and region.
pub(crate) fn fits(step: &Step<'_>, spec: &TypeSpec, limits: &Limits) -> Result<(), Misfit> {
    let has_gpu = |wanted: &Devices| {
        let gpus = spec.gpus.as_ref();
        gpus.is_some_and(|gpus| {
            let same = gpus.name.eq_ignore_ascii_case(&wanted.name);
            same && gpus.memory_each() >= wanted.memory_each()
        })
    };
    let gpu = limits.gpu.as_ref().map_or(spec.gpus.is_none(), has_gpu);
    let family = Family::from_name(&spec.name);
    let families = limits.families.as_ref();
    let licensed = limits.licensed_for.as_ref();
    let checks = [
        (
            Misfit::Architecture,
            limits.architectures.contains(&spec.architecture),
        ),
        (
            Misfit::Licence,
            licensed.is_none_or(|all| all.contains(&spec.name)),
        ),
        (
            Misfit::Special,
            !spec.metal && !spec.is_hpc() && spec.accelerators.is_none(),
        ),
        (Misfit::Burstable, !spec.burstable),
        (Misfit::Gpu, gpu),
        (
            Misfit::Policy,
            families.is_none_or(|all| all.contains(&family)),
        ),
        (Misfit::Cores, u64::from(spec.vcpus) * 1000 >= step.cores.0),
        (Misfit::Memory, usable(spec.memory) >= step.memory),
        (Misfit::LocalDisk, spec.local_disk >= limits.local_disk),
        // An unknown value does not meet a requirement.
        (
            Misfit::Network,
            spec.network_baseline_mbps >= limits.network_mbps,
        ),
        (Misfit::Ebs, spec.ebs_baseline_mbps >= limits.ebs_mbps),
    ];
    match checks.into_iter().find(|(_, holds)| !holds) {
        Some((misfit, _)) => Err(misfit),
        None => Ok(()),
    }
}

/// Whether an offer is allowed by its region and zones.
pub(crate) fn may_be_taken(offer: &Offer<'_>, limits: &Limits) -> Result<(), Misfit> {
    let regions = limits.regions.as_ref();
    if !regions.is_none_or(|all| all.contains(offer.region)) {
        return Err(Misfit::Policy);
    }
    let Some(wanted) = limits.zones.as_ref() else {
        return Ok(());
    };
    let sold = offer.zones.is_some_and(|sold| !sold.is_disjoint(wanted));
    sold.then_some(()).ok_or(Misfit::Zone)
}
