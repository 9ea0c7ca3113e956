//! Properties of machine types, as EC2 describes them.

use std::collections::BTreeSet;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::types::{
    ArchitectureType, Filter, GpuInfo, InstanceTypeInfo, NetworkCardInfo, UsageClassType,
};
use ebb_catalog::machine_type::{Architecture, Devices, Hypervisor, TypeSpec};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::units::Bytes;

use crate::aws::error::cloud_error;
use crate::permissions::DESCRIBE_INSTANCE_TYPES;
use crate::ports::CloudResult;

/// Maximum number of types in one page, and of values in one filter.
///
/// Source: EC2 API reference, `DescribeInstanceTypes`, "MaxResults"; a filter takes 200.
const PAGE: usize = 100;

/// Describes machine types. It uses a filter, because a filter ignores an unknown name, whereas the
/// list of names makes the region refuse all of them.
pub(super) async fn described(
    client: &Client,
    named: Option<&BTreeSet<String>>,
) -> CloudResult<Vec<TypeSpec>> {
    let names: Option<Vec<String>> = named.map(|names| names.iter().cloned().collect());
    let parts: Vec<Option<&[String]>> = match &names {
        Some(names) => names.chunks(PAGE).map(Some).collect(),
        None => vec![None],
    };
    let mut found = Vec::new();
    for part in parts {
        let filter = part.map(|part| {
            let filter = Filter::builder().name("instance-type");
            vec![filter.set_values(Some(part.to_vec())).build()]
        });
        let call = client.describe_instance_types().set_filters(filter);
        let mut pages = call.into_paginator().page_size(PAGE as i32).send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|e| cloud_error(DESCRIBE_INSTANCE_TYPES, "types", &e))?;
            found.extend(page.instance_types().iter().filter_map(spec));
        }
    }
    Ok(found)
}

/// One type; `None` if the answer does not contain its size or architecture.
///
/// Source: EC2 API reference, `InstanceTypeInfo`; `scripts/catalogue` reads the same for the
/// built-in catalogue.
fn spec(info: &InstanceTypeInfo) -> Option<TypeSpec> {
    let cpu = info.v_cpu_info()?;
    let processor = info.processor_info()?;
    let memory_mib = info.memory_info()?.size_in_mib().and_then(positive)?;
    let ebs = info.ebs_info().and_then(|ebs| ebs.ebs_optimized_info());
    let network = info.network_info();
    let cards = network.map_or(&[][..], |network| network.network_cards());
    let disks_gb = info
        .instance_storage_info()
        .and_then(|disks| disks.total_size_in_gb().and_then(positive));
    Some(TypeSpec {
        name: InstanceType::new(info.instance_type()?.as_str()).ok()?,
        vcpus: cpu.default_v_cpus().and_then(number)?,
        cores: cpu.default_cores().and_then(number),
        memory: Bytes::mib(memory_mib),
        architecture: architecture(processor.supported_architectures())?,
        clock_mhz: processor.sustained_clock_speed_in_ghz().and_then(thousands),
        gpus: info.gpu_info().and_then(gpus),
        accelerators: accelerators(info),
        network_baseline_mbps: together(cards, NetworkCardInfo::baseline_bandwidth_in_gbps),
        network_burst_mbps: together(cards, NetworkCardInfo::peak_bandwidth_in_gbps),
        ebs_baseline_mbps: ebs
            .and_then(|ebs| ebs.baseline_bandwidth_in_mbps())
            .and_then(number),
        ebs_burst_mbps: ebs
            .and_then(|ebs| ebs.maximum_bandwidth_in_mbps())
            .and_then(number),
        // Disk sizes are in powers of ten.
        local_disk: disks_gb.and_then(|gb| gb.checked_mul(1_000_000_000).map(Bytes)),
        processor: processor.manufacturer().map(str::to_owned),
        burstable: info.burstable_performance_supported()?,
        metal: info.bare_metal()?,
        current_generation: info.current_generation()?,
        spot: info
            .supported_usage_classes()
            .contains(&UsageClassType::Spot),
        hypervisor: hypervisor(info),
    })
}

/// Bare metal has no hypervisor, and is built on the Nitro System.
fn hypervisor(info: &InstanceTypeInfo) -> Option<Hypervisor> {
    match info.hypervisor().map(|one| one.as_str()) {
        Some("nitro") => Some(Hypervisor::Nitro),
        Some("xen") => Some(Hypervisor::Xen),
        _ => info.bare_metal()?.then_some(Hypervisor::Nitro),
    }
}

/// The 64-bit architecture of a type that may also support 32 bits.
fn architecture(architectures: &[ArchitectureType]) -> Option<Architecture> {
    architectures.iter().find_map(|one| match one {
        ArchitectureType::Arm64 | ArchitectureType::Arm64Mac => Some(Architecture::Arm64),
        ArchitectureType::X8664 | ArchitectureType::X8664Mac => Some(Architecture::X86_64),
        _ => None,
    })
}

/// The name of a device, and its number.
type Named<'a> = (Option<&'a str>, Option<i32>);

fn gpus(info: &GpuInfo) -> Option<Devices> {
    let each = info.gpus().iter().map(|gpu| (gpu.name(), gpu.count()));
    let mib = info.total_gpu_memory_in_mib().and_then(number);
    devices(each.collect(), mib.map(|mib| Bytes::mib(mib.into())))
}

/// The first kind of accelerator, without its memory, which is not used for decisions.
fn accelerators(info: &InstanceTypeInfo) -> Option<Devices> {
    let neuron = info.neuron_info().into_iter().flat_map(|all| {
        let each = all.neuron_devices().iter();
        each.map(|one| (one.name(), one.count()))
    });
    let inference = info.inference_accelerator_info().into_iter();
    let inference = inference.flat_map(|all| {
        let each = all.accelerators().iter();
        each.map(|one| (one.name(), one.count()))
    });
    let fpgas = info.fpga_info().into_iter().flat_map(|all| {
        let each = all.fpgas().iter();
        each.map(|one| (one.name(), one.count()))
    });
    let media = info.media_accelerator_info().into_iter().flat_map(|all| {
        let each = all.accelerators().iter();
        each.map(|one| (one.name(), one.count()))
    });
    let kinds: [Vec<Named<'_>>; 4] = [
        neuron.collect(),
        inference.collect(),
        fpgas.collect(),
        media.collect(),
    ];
    kinds.into_iter().find_map(|each| devices(each, None))
}

/// Devices of one kind; a device without a count counts once.
fn devices(each: Vec<Named<'_>>, memory: Option<Bytes>) -> Option<Devices> {
    let name = each.first()?.0.unwrap_or("unknown").to_owned();
    let counts = each
        .iter()
        .map(|(_, count)| count.and_then(number).unwrap_or(1));
    Some(Devices {
        count: counts.fold(0, u32::saturating_add),
        name,
        memory,
    })
}

/// The sum over all network cards; `None` if a card has no value.
fn together(
    cards: &[NetworkCardInfo],
    gbps: impl Fn(&NetworkCardInfo) -> Option<f64>,
) -> Option<u32> {
    let sum: Option<f64> = cards.iter().map(gbps).sum();
    sum.and_then(thousands)
}

/// Thousandths of GHz or Gbit/s; `None` for zero.
fn thousands(value: f64) -> Option<u32> {
    let thousands = (value * 1000.0).round();
    (1.0..=f64::from(u32::MAX))
        .contains(&thousands)
        .then_some(thousands as u32)
}

fn number(value: i32) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| *value > 0)
}

fn positive(value: i64) -> Option<u64> {
    u64::try_from(value).ok().filter(|value| *value > 0)
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::types::builders::InstanceTypeInfoBuilder;
    use aws_sdk_ec2::types::{
        EbsInfo, EbsOptimizedInfo, GpuDeviceInfo, InstanceStorageInfo,
        InstanceType as Ec2InstanceType, InstanceTypeHypervisor, MemoryInfo, NetworkInfo,
        ProcessorInfo, VCpuInfo,
    };
    use ebb_catalog::catalog::Catalogue;

    use super::*;

    fn network(gbps: Option<(f64, f64)>) -> NetworkInfo {
        let card = NetworkCardInfo::builder()
            .set_baseline_bandwidth_in_gbps(gbps.map(|both| both.0))
            .set_peak_bandwidth_in_gbps(gbps.map(|both| both.1));
        NetworkInfo::builder().network_cards(card.build()).build()
    }

    fn g4dn() -> InstanceTypeInfoBuilder {
        let gpu = GpuDeviceInfo::builder().name("T4").count(1).build();
        let gpus = GpuInfo::builder().gpus(gpu).total_gpu_memory_in_mib(16_384);
        let ebs = EbsOptimizedInfo::builder()
            .baseline_bandwidth_in_mbps(950)
            .maximum_bandwidth_in_mbps(3_500);
        let processor = ProcessorInfo::builder()
            .supported_architectures(ArchitectureType::X8664)
            .sustained_clock_speed_in_ghz(2.5)
            .manufacturer("Intel");
        let cpu = VCpuInfo::builder().default_v_cpus(4).default_cores(2);
        let disks = InstanceStorageInfo::builder().total_size_in_gb(125);
        InstanceTypeInfo::builder()
            .instance_type(Ec2InstanceType::G4dnXlarge)
            .current_generation(true)
            .bare_metal(false)
            .hypervisor(InstanceTypeHypervisor::Nitro)
            .burstable_performance_supported(false)
            .supported_usage_classes(UsageClassType::Spot)
            .processor_info(processor.build())
            .v_cpu_info(cpu.build())
            .memory_info(MemoryInfo::builder().size_in_mib(16_384).build())
            .instance_storage_info(disks.build())
            .ebs_info(EbsInfo::builder().ebs_optimized_info(ebs.build()).build())
            .network_info(network(Some((5.0, 25.0))))
            .gpu_info(gpus.build())
    }

    #[test]
    fn a_type_is_read_as_the_built_in_catalogue_has_it() {
        let type_spec = spec(&g4dn().build()).expect("it says what it has");
        assert_eq!(
            Catalogue::built_in().spec(&type_spec.name),
            Some(&type_spec)
        );
    }

    #[test]
    fn what_does_not_say_how_large_it_is_is_left_out_and_the_rest_may_be_unknown() {
        let check = |builder: InstanceTypeInfoBuilder, expect: bool| {
            assert_eq!(spec(&builder.build()).is_some(), expect);
        };
        check(g4dn(), true);
        check(g4dn().set_v_cpu_info(None), false);
        let nothing = MemoryInfo::builder().size_in_mib(0);
        check(g4dn().memory_info(nothing.build()), false);
        check(g4dn().set_processor_info(None), false);
        check(g4dn().set_current_generation(None), false);
        check(g4dn().set_network_info(None).set_ebs_info(None), true);
        let type_spec = spec(&g4dn().network_info(network(None)).build());
        assert_eq!(type_spec.and_then(|spec| spec.network_baseline_mbps), None);
    }
}
