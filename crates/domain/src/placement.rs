//! Where a step should run: the cheapest fitting machine type.

use serde::{Deserialize, Serialize};

use crate::catalogue::{Architecture, Catalogue, TypeSpec};
use crate::identity::{InstanceType, Region};
use crate::sizing::SizedRequest;
use crate::units::{Bytes, MilliCores, UsdPerHour};

/// A machine type to run on, at its list price.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// The type.
    pub instance_type: InstanceType,
    /// Where.
    pub region: Region,
    /// Its list price on demand.
    pub per_hour: UsdPerHour,
}

/// What a machine must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// What the step asks for.
    pub request: SizedRequest,
    /// What its programs are built for.
    pub architecture: Architecture,
}

/// What ECS keeps of a machine's memory for itself and the system: Batch offers
/// a job less than the type's memory, or it would stay RUNNABLE for ever.
///
/// Source: AWS Batch "Compute resource memory management": 32 MiB for the agent,
/// and the kernel's own share, of which 5 % is the bound used here.
fn usable(memory: Bytes) -> Bytes {
    Bytes((memory.0 - memory.0 / 20).saturating_sub(Bytes::mib(32).0))
}

/// The cheapest type of the region that holds the request; burstable types are
/// left out, because their price holds only while the step mostly idles, and so
/// are types of earlier generations. `None` when nothing fits or the request is
/// not known.
pub fn cheapest(catalogue: &Catalogue, region: &Region, needs: Needs) -> Option<Placement> {
    let (cores, memory) = (needs.request.cores?, needs.request.memory?);
    let fits = |spec: &TypeSpec| {
        MilliCores::cores(u64::from(spec.vcpus)) >= cores
            && usable(spec.memory) >= memory
            && spec.architecture == needs.architecture
            && spec.gpus.is_none()
            && !spec.burstable
            && spec.current_generation
    };
    catalogue
        .types_in(region)
        .filter(|(spec, _)| fits(spec))
        .min_by(|(a, a_price), (b, b_price)| (a_price, &a.name).cmp(&(b_price, &b.name)))
        .map(|(spec, per_hour)| Placement {
            instance_type: spec.name.clone(),
            region: region.clone(),
            per_hour,
        })
}

/// The part of a machine's price that a request occupies: the greater of its
/// shares of cores and of memory, at most all of it. `None` when the request is
/// not known.
pub fn share_of_price(
    spec: &TypeSpec,
    per_hour: UsdPerHour,
    request: SizedRequest,
) -> Option<UsdPerHour> {
    let by_cores = request.cores.map(|cores| {
        let all = MilliCores::cores(u64::from(spec.vcpus));
        per_hour.part(cores.0.min(all.0), all.0)
    });
    let by_memory = request.memory.map(|memory| {
        let all = usable(spec.memory);
        per_hour.part(memory.0.min(all.0), all.0)
    });
    by_cores.into_iter().chain(by_memory).max()
}
