//! The cheapest instance type that fits a step.

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_model::advice::placement::Placement;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};

/// The requirements on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The request of the step.
    pub request: SizedRequest,
    /// The CPU architecture of its programs.
    pub architecture: Architecture,
}

/// The memory of a machine that jobs can use. ECS and the system keep the remainder. A job that
/// requests more stays RUNNABLE forever.
///
/// Source: AWS Batch "Compute resource memory management": 32 MiB for the agent, and the share of
/// the kernel, for which 5 % is the bound used here.
pub fn usable(memory: Bytes) -> Bytes {
    Bytes((memory.0 - memory.0 / 20).saturating_sub(Bytes::mib(32).0))
}

/// The cheapest type of the region that fits the request; `None` when no type fits or the request
/// is unknown. Burstable types are excluded, because their price holds only while the step is
/// mostly idle. Bare metal, types for HPC and types of earlier generations are excluded too.
pub fn cheapest(catalogue: &Catalogue, region: &Region, needs: Needs) -> Option<Placement> {
    let (cores, memory) = (needs.request.cores?, needs.request.memory?);
    let fits = |spec: &TypeSpec| {
        MilliCores::cores(u64::from(spec.vcpus)) >= cores
            && usable(spec.memory) >= memory
            && spec.architecture == needs.architecture
            && spec.gpus.is_none()
            && spec.accelerators.is_none()
            && !spec.burstable
            && !spec.metal
            && !spec.is_hpc()
            && spec.current_generation
    };
    cheapest_with(catalogue, region, fits)
}

/// The cheapest type of the region that meets a condition; with equal prices, the first by name.
pub fn cheapest_with(
    catalogue: &Catalogue,
    region: &Region,
    fits: impl Fn(&TypeSpec) -> bool,
) -> Option<Placement> {
    catalogue
        .types_in(region)
        .filter(|(spec, _)| fits(spec))
        .min_by(|(a, a_price), (b, b_price)| (a_price, &a.name).cmp(&(b_price, &b.name)))
        .map(|(spec, per_hour)| Placement {
            instance_type: spec.name.clone(),
            region: region.clone(),
            per_hour,
            price_as_of: catalogue.price_as_of(region, &spec.name),
        })
}

/// Resources of a machine for tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSize {
    /// Cores.
    pub cores: MilliCores,
    /// Memory for tasks.
    pub memory: Bytes,
    /// Number of GPUs.
    pub gpus: u32,
}

impl MachineSize {
    /// The size of a machine type.
    pub fn from_spec(spec: &TypeSpec) -> Self {
        Self {
            cores: MilliCores::cores(u64::from(spec.vcpus)),
            memory: usable(spec.memory),
            gpus: spec.gpu_count(),
        }
    }

    /// The part of the machine's price that a request with so many GPUs occupies. It is the largest
    /// of its shares of cores, memory and GPUs, at most the whole price. `None` when the request is
    /// unknown.
    pub fn share_of_price(
        self,
        per_hour: UsdPerHour,
        request: SizedRequest,
        gpus: u32,
    ) -> Option<UsdPerHour> {
        let part = |of: u64, all: u64| per_hour.part(of.min(all), all);
        let by_cores = request.cores.map(|cores| part(cores.0, self.cores.0));
        let by_memory = request.memory.map(|memory| part(memory.0, self.memory.0));
        let by_gpus = part(gpus.into(), self.gpus.into());
        let known = by_cores.into_iter().chain(by_memory).max();
        known.map(|part| part.max(by_gpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_telemetry::identity::InstanceType;

    fn needs(cores: u64, memory: Bytes, architecture: Architecture) -> Needs {
        let request = SizedRequest {
            cores: Some(MilliCores::cores(cores)),
            memory: Some(memory),
        };
        Needs {
            request,
            architecture,
        }
    }

    fn region() -> Region {
        Region::new("us-east-1").expect("a region")
    }

    #[test]
    fn the_cheapest_type_holds_the_request_and_the_memory_that_ecs_keeps() {
        let check = |cores: u64, gib: u64, architecture: Architecture| {
            let wanted = needs(cores, Bytes::gib(gib), architecture);
            let placed = cheapest(Catalogue::built_in(), &region(), wanted).expect("one fits");
            let spec = Catalogue::built_in()
                .spec(&placed.instance_type)
                .expect("it has specs");
            assert!(
                u64::from(spec.vcpus) >= cores && spec.memory > Bytes::gib(gib),
                "{placed:?}"
            );
            assert_eq!(spec.architecture, architecture);
            assert!(!spec.burstable && spec.gpus.is_none());
            for (other, per_hour) in Catalogue::built_in().types_in(&region()) {
                let fits =
                    u64::from(other.vcpus) >= cores && usable(other.memory) >= Bytes::gib(gib);
                let eligible = other.architecture == architecture
                    && other.gpus.is_none()
                    && other.accelerators.is_none()
                    && !other.burstable
                    && !other.metal
                    && !other.is_hpc()
                    && other.current_generation;
                assert!(
                    !(fits && eligible && per_hour < placed.per_hour),
                    "{other:?} is cheaper"
                );
            }
        };
        check(2, 4, Architecture::X86_64);
        check(3, 8, Architecture::Arm64);
        check(16, 100, Architecture::X86_64);
    }

    #[test]
    fn what_nothing_holds_or_is_not_known_has_no_placement() {
        let place = |wanted| cheapest(Catalogue::built_in(), &region(), wanted);
        assert_eq!(
            place(needs(10_000, Bytes::gib(1), Architecture::X86_64)),
            None
        );
        let unknown = SizedRequest {
            cores: None,
            memory: Some(Bytes::gib(1)),
        };
        assert_eq!(
            place(Needs {
                request: unknown,
                architecture: Architecture::X86_64
            }),
            None
        );
    }

    #[test]
    fn a_step_occupies_the_greater_of_its_shares() {
        let m5 = InstanceType::new("m5.4xlarge").expect("a type");
        let spec = Catalogue::built_in().spec(&m5).expect("it has specs");
        let g4 = InstanceType::new("g4dn.12xlarge").expect("a type");
        let with_four = Catalogue::built_in().spec(&g4).expect("it has specs");
        let check = |spec, (cores, gib, gpus), micros: i64| {
            let request = SizedRequest {
                cores: Some(MilliCores::cores(cores)),
                memory: Some(Bytes::gib(gib)),
            };
            let part = MachineSize::from_spec(spec).share_of_price(
                UsdPerHour::from_micros(768_000),
                request,
                gpus,
            );
            assert_eq!(part, Some(UsdPerHour::from_micros(micros)));
        };
        check(spec, (4, 1, 0), 192_000);
        check(spec, (16, 1, 0), 768_000);
        check(spec, (99, 1, 0), 768_000);
        check(spec, (1, 64, 0), 768_000);
        check(spec, (4, 1, 1), 192_000);
        check(with_four, (12, 1, 1), 192_000);
        check(with_four, (12, 1, 3), 576_000);
        check(with_four, (12, 1, 9), 768_000);
    }
}
