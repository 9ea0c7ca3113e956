//! Constraints on the machine of a step, from its tags, the policy and its last machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_sizing::core_speed::Family;
use ebb_sizing::ranking::offer::Limits;
use ebb_telemetry::identity::Region;
use ebb_telemetry::units::Bytes;

use crate::advice::placement::inputs::{Arm, Placing, StepInputs};

/// Tags of a job or its machine that state a requirement.
const LICENCE: &str = "ebb:licence";

const LOCAL_DISK: &str = "ebb:local-disk-gib";

const NETWORK: &str = "ebb:network-mbps";

const EBS: &str = "ebb:ebs-mbps";

const ARM: &str = "ebb:arm64";

const CHECKPOINT: &str = "ebb:checkpoint-minutes";

/// Limit on reported executables without a known Arm build.
const MAX_IN_THE_WAY: usize = 20;

/// Returns the limits and the obstacles to Arm.
pub(crate) fn limits(
    placing: &Placing<'_>,
    step: &StepInputs<'_>,
    (tags, arm): (&BTreeMap<String, String>, Arm<'_>),
) -> (Limits, Vec<String>) {
    let policy = &placing.policy.placement;
    let number = |tag: &str| {
        tags.get(tag)
            .and_then(|value| value.trim().parse::<u32>().ok())
    };
    let ran_on: BTreeSet<_> = step
        .work_by_type
        .iter()
        .map(|work| work.on.name.clone())
        .collect();
    let mut architectures: BTreeSet<Architecture> = step
        .work_by_type
        .iter()
        .map(|work| work.on.architecture)
        .collect();
    let in_the_way = in_the_way_of_arm(placing, tags, arm);
    let is_there = architectures.contains(&Architecture::Arm64);
    if in_the_way.is_empty() && !arm.tools.is_empty() {
        architectures.insert(Architecture::Arm64);
    }
    let families = policy.families.iter().map(|name| Family::named(name));
    let regions = policy
        .regions
        .iter()
        .filter_map(|name| Region::new(name.as_str()).ok());
    let limits = Limits {
        architectures,
        families: (!policy.families.is_empty()).then(|| families.collect()),
        regions: (!policy.regions.is_empty()).then(|| regions.chain([step.home.clone()]).collect()),
        zones: (!policy.zones.is_empty()).then(|| policy.zones.clone()),
        licensed_for: tags.contains_key(LICENCE).then_some(ran_on),
        local_disk: number(LOCAL_DISK).map(|gib| Bytes::gib(gib.into())),
        network_mbps: number(NETWORK),
        ebs_mbps: number(EBS),
        gpu: step.now.gpus.clone(),
        spot: policy.spot,
        checkpoint: number(CHECKPOINT)
            .filter(|minutes| *minutes > 0)
            .map(|minutes| Duration::from_secs(60 * u64::from(minutes))),
    };
    match is_there {
        true => (limits, Vec::new()),
        false => (limits, in_the_way),
    }
}

/// Obstacles to Arm: executables without a known Arm build that never ran on Arm in this account,
/// and the image. A tag can declare support for Arm. The result is empty if the executables are
/// unknown.
fn in_the_way_of_arm(
    placing: &Placing<'_>,
    tags: &BTreeMap<String, String>,
    arm: Arm<'_>,
) -> Vec<String> {
    let is_declared = tags.get(ARM).is_some_and(|value| value == "true");
    if is_declared || arm.tools.is_empty() {
        return Vec::new();
    }
    let known = |tool: &&String| {
        placing.on_arm.contains(*tool) || placing.policy.placement.arm_programs.contains(*tool)
    };
    let mut names: Vec<String> = arm
        .tools
        .iter()
        .filter(|tool| !known(tool))
        .cloned()
        .collect();
    names.truncate(MAX_IN_THE_WAY);
    if arm.in_container {
        names.push(format!(
            "its container image (the tag {ARM}=true states that an Arm image exists)"
        ));
    }
    names
}
