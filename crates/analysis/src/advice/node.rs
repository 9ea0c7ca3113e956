//! The cheapest type that fits the observed work of a node: with headroom, or as large as its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::node::{MAX_NODES, NodeAdvice, NodeOffer, Used};
use ebb_model::cost::PriceBasis;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_node_state::hourly_activity::NodeHours;
use ebb_sizing::cheapest_type::usable;
use ebb_sizing::core_speed::{Cores, Family, Speeds};
use ebb_telemetry::identity::{InstanceType, NodeId};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::{Origin, labelled};
use ebb_telemetry::step::{PlacedStep, StepEnd};
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

use crate::advice::placement::inputs::MAX_OFFERS;
use crate::facts::Facts;
use crate::step_history::by_step::Profiles;

/// Minimum number of observed hours. One full day covers work at night and by day.
const HOURS: u32 = 24;

/// Returns advice on the most expensive running nodes with a probe, and the number of nodes left
/// out.
pub(crate) fn nodes(facts: &Facts<'_>, profiles: &Profiles<'_>) -> (Vec<NodeAdvice>, usize) {
    let running = facts.inventory.instances.values();
    let running = running.filter(|instance| instance.state == InstanceState::Running);
    let mut watched: Vec<(Option<UsdPerHour>, &Instance)> = running
        .filter(|instance| facts.state.nodes.contains_key(&instance.id))
        .map(|instance| (facts.price_of(instance).map(|p| p.per_hour), instance))
        .collect();
    watched.sort_by(|a, b| (b.0, &a.1.id).cmp(&(a.0, &b.1.id)));
    let left_out = watched.len().saturating_sub(MAX_NODES);
    watched.truncate(MAX_NODES);
    let mut finished: BTreeMap<&NodeId, Vec<&PlacedStep>> = BTreeMap::new();
    for step in facts.finished {
        finished.entry(&step.node).or_default().push(step);
    }
    let mut advice: Vec<NodeAdvice> = watched
        .into_iter()
        .map(|(_, instance)| {
            let finished = finished.remove(&instance.id).unwrap_or_default();
            advise(facts, &profiles.speeds, instance, finished)
        })
        .collect();
    advice.sort_by(|a, b| {
        (b.saving_a_month.cmp(&a.saving_a_month)).then_with(|| a.node.cmp(&b.node))
    });
    (advice, left_out)
}

fn advise(
    facts: &Facts<'_>,
    speeds: &Speeds,
    instance: &Instance,
    finished: Vec<&PlacedStep>,
) -> NodeAdvice {
    let state = facts.state.nodes.get(&instance.id);
    let hours = facts.hours.nodes.get(&instance.id);
    let observed_hours = hours.map_or(0, |h| {
        h.hours().filter(|(_, h)| h.seen() > Share::NONE).count()
    });
    let kept: Vec<_> = state.map_or_else(Vec::new, |node| node.steps(&instance.id).collect());
    let steps = newest(finished.into_iter().chain(&kept));
    let spec = facts.catalogue.spec(&instance.instance_type);
    let used = Used {
        cores: spec.and_then(|spec| cores(spec, hours?, &steps)),
        memory: memory(&steps),
    };
    let price = facts.price_of(instance);
    let latest = state.and_then(|node| node.latest.as_ref());
    let origin = latest.map_or(Origin::Measured, |latest| latest.origin);
    let mut advice = NodeAdvice {
        node: instance.id.to_string(),
        name: instance.name().map(str::to_owned),
        region: instance.region.clone(),
        instance_type: instance.instance_type.clone(),
        market: instance.market,
        owner: instance.owner().map(str::to_owned),
        origin: origin.max(labelled(&instance.tags)),
        hours_seen: u32::try_from(observed_hours).unwrap_or(u32::MAX),
        used,
        needs: with_headroom(used, facts.policy.sizing.memory_headroom_ppm),
        per_hour: price.map(|price| price.per_hour),
        basis: price.map(|price| price.basis),
        list_per_hour: price.and_then(|price| price.list),
        list_as_of: facts.catalogue.prices_as_of(&instance.region),
        offers: Vec::new(),
        saving_a_month: None,
        assumed: Vec::new(),
        refused: None,
    };
    let is_short = is_short(facts, &steps);
    advice.refused = offer(facts, speeds, (instance, spec, is_short), &mut advice).err();
    advice
}

/// Fills in the offers. The error is the reason why no offer exists.
fn offer(
    facts: &Facts<'_>,
    speeds: &Speeds,
    (instance, spec, is_short): (&Instance, Option<&TypeSpec>, bool),
    advice: &mut NodeAdvice,
) -> Result<(), String> {
    let kind = &instance.instance_type;
    let spec = spec.ok_or_else(|| format!("instance type {kind} is not in the catalogue"))?;
    if advice.hours_seen < HOURS {
        let hours_seen = advice.hours_seen;
        return Err(format!(
            "its probe observed {hours_seen} of the required {HOURS} hours"
        ));
    }
    let (Some(cores), Some(memory)) = (advice.needs.cores, advice.needs.memory) else {
        return Err("the cores or memory that its tasks used were not observed".to_owned());
    };
    // A machine as large as the present one holds the same work, with less headroom.
    let (cores, memory) = match is_short {
        true => (cores, memory),
        false => (
            cores.min(MilliCores::cores(spec.vcpus.into())),
            memory.min(usable(spec.memory)),
        ),
    };
    let needs = SizeNeeds {
        used: advice.used.cores.unwrap_or(cores).min(cores),
        cores,
        least_vcpus: 1,
        memory: MemoryNeeds::Holds(memory),
        network_mbps: 0,
        ebs_mbps: 0,
        steady: None,
    };
    let fitting = cheapest_alike(facts, speeds, instance, (spec, &needs));
    let paid = advice.per_hour.filter(|_| is_paid(advice.basis));
    if paid.is_none() {
        return Err("its effective price is unknown".to_owned());
    }
    advice.offers = (fitting.into_iter().take(MAX_OFFERS))
        .map(|(per_hour, other)| NodeOffer {
            instance_type: other.name.clone(),
            per_hour,
            saves_an_hour: paid.map(|paid| UsdPerHour(paid.0 - per_hour.0)),
        })
        .collect();
    advice.assumed = assumed(instance.market, speeds.cores(spec).is_some());
    if (Some(cores), Some(memory)) != (advice.needs.cores, advice.needs.memory) {
        advice.assumed.push(
            "a type as large as the present one is suitable: it holds the used amount, with less headroom"
                .to_owned(),
        );
    }
    let Some(best) = advice.offers.first() else {
        return Err(no_offer(instance.market).to_owned());
    };
    let saves = best.saves_an_hour;
    let saves = saves.ok_or("its effective price is unknown")?;
    if saves <= UsdPerHour::default() {
        advice.offers.clear();
        return Err("no cheaper instance type fits the observed work".to_owned());
    }
    advice.saving_a_month = Some(saves.a_month());
    Ok(())
}

fn no_offer(market: Market) -> &'static str {
    match market {
        Market::Spot => "no instance type with a known spot price fits the observed work",
        Market::OnDemand | Market::Reserved => "no known instance type fits the observed work",
    }
}

fn is_paid(basis: Option<PriceBasis>) -> bool {
    basis.is_some_and(|basis| !basis.is_bound())
}

/// Minimum size of another type for the work of a node.
pub(crate) struct SizeNeeds {
    /// Peak cores that the node used.
    pub(crate) used: MilliCores,
    /// Peak cores with headroom.
    pub(crate) cores: MilliCores,
    /// Minimum number of vCPUs, regardless of their speed.
    pub(crate) least_vcpus: u32,
    pub(crate) memory: MemoryNeeds,
    /// Network and EBS bandwidth in Mbit/s; 0 if none is required.
    pub(crate) network_mbps: u32,
    pub(crate) ebs_mbps: u32,
    /// Cores that are used for most of the time, headroom included. The baseline of a burstable
    /// type must provide them. `None` if unknown.
    pub(crate) steady: Option<MilliCores>,
}

pub(crate) enum MemoryNeeds {
    /// Minimum usable memory.
    Holds(Bytes),
    /// Need is unknown: at least the memory of the current type.
    AsNow,
}

/// Returns the types of the region that fit the work of the node, the cheapest first, one for each
/// family. Prices are of the market of the node.
pub(crate) fn cheapest_alike<'f>(
    facts: &Facts<'f>,
    speeds: &Speeds,
    instance: &Instance,
    (spec, needs): (&TypeSpec, &SizeNeeds),
) -> Vec<(UsdPerHour, &'f TypeSpec)> {
    let from = speeds.cores(spec);
    let wanted = Wanted {
        spec,
        needs,
        // A machine cannot do more work than with all vCPUs busy, so headroom is applied last.
        rate: from.map(|from| {
            let headroom = needs.cores.0 as f64 / needs.used.0.max(1) as f64;
            from.rate(needs.used.as_cores()) * headroom
        }),
    };
    let allowed = &facts.policy.placement.families;
    let may_be = |other: &TypeSpec| {
        let family = Family::from_name(&other.name);
        (allowed.is_empty() || allowed.contains(family.as_str()))
            && wanted.fits(other, speeds.cores(other))
    };
    let mut fitting: Vec<(UsdPerHour, &TypeSpec)> = (facts.catalogue.types_in(&instance.region))
        .filter(|(other, _)| may_be(other))
        .filter_map(|(other, list)| Some((facts.price_as(instance, &other.name, list)?, other)))
        .collect();
    fitting.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let mut families = BTreeSet::new();
    fitting.retain(|(_, other)| families.insert(Family::from_name(&other.name)));
    fitting
}

struct Wanted<'a> {
    spec: &'a TypeSpec,
    needs: &'a SizeNeeds,
    /// Work rate of the used cores with headroom; `None` if their speed is unknown.
    rate: Option<f64>,
}

impl Wanted<'_> {
    /// Properties without measurement stay the same: architecture, GPUs and local disk.
    fn fits(&self, other: &TypeSpec, cores: Option<Cores>) -> bool {
        let vcpus = MilliCores::cores(other.vcpus.into());
        let is_fast = match (self.rate, cores) {
            (Some(rate), Some(cores)) => cores.rate(f64::from(other.vcpus)) >= rate,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let memory = match self.needs.memory {
            MemoryNeeds::Holds(memory) => usable(other.memory) >= memory,
            MemoryNeeds::AsNow => other.memory >= self.spec.memory,
        };
        let carries = |baseline: Option<u32>, wanted: u32| {
            wanted == 0 || baseline.is_some_and(|baseline| baseline >= wanted)
        };
        // Faster cores do not replace missing cores, because concurrent threads need one core each.
        vcpus >= self.needs.cores
            && is_fast
            && other.vcpus >= self.needs.least_vcpus
            && memory
            && carries(other.network_baseline_mbps, self.needs.network_mbps)
            && carries(other.ebs_baseline_mbps, self.needs.ebs_mbps)
            && other.architecture == self.spec.architecture
            && other.gpus == self.spec.gpus
            && other.accelerators == self.spec.accelerators
            && keeps_local_disk(self.spec, other)
            && other.current_generation
            && (!other.burstable || self.is_held_by_baseline(other))
            && !other.metal
            && (!other.is_hpc() || self.spec.is_hpc())
    }

    /// A burstable type is offered only within its own family, and only if its baseline covers the
    /// steady use. Above the baseline the list price does not apply.
    fn is_held_by_baseline(&self, other: &TypeSpec) -> bool {
        let is_alike = Family::from_name(&other.name) == Family::from_name(&self.spec.name);
        let steady = self.needs.steady.filter(|_| is_alike);
        let percent = baseline_percent(&other.name);
        steady.zip(percent).is_some_and(|(steady, percent)| {
            steady.0 <= u64::from(other.vcpus) * percent * 1000 / 100
        })
    }
}

/// Local disks of other families may be of another kind (HDD instead of NVMe). Therefore the
/// replacement of a type with local disks is of the same family.
pub(crate) fn keeps_local_disk(spec: &TypeSpec, other: &TypeSpec) -> bool {
    let is_alike = || Family::from_name(&other.name) == Family::from_name(&spec.name);
    spec.local_disk.is_none() || other.local_disk >= spec.local_disk && is_alike()
}

/// Baseline of each vCPU of a burstable type in percent; use up to it spends no credits.
///
/// Source: EC2 user guide, "Key concepts for burstable performance instances".
fn baseline_percent(kind: &InstanceType) -> Option<u64> {
    let (family, size) = kind.as_str().split_once('.')?;
    Some(match (family, size) {
        ("t2" | "t3" | "t3a" | "t4g", "nano") => 5,
        ("t2" | "t3" | "t3a" | "t4g", "micro") => 10,
        ("t2" | "t3" | "t3a" | "t4g", "small" | "medium") => 20,
        ("t2" | "t3" | "t3a" | "t4g", "large") => 30,
        ("t3" | "t3a" | "t4g", "xlarge" | "2xlarge") => 40,
        _ => return None,
    })
}

/// Use of the busiest minute of all hours, rounded up, system processes included. The result is at
/// least the greatest peak of one task.
fn cores(spec: &TypeSpec, hours: &NodeHours, steps: &[&PlacedStep]) -> Option<MilliCores> {
    let peak = hours
        .hours()
        .filter_map(|(_, hour)| hour.peak_cpu())
        .max()?;
    let all = u64::from(spec.vcpus) * 1000;
    let by_hour = all * u64::from(peak.ppm()) / 1_000_000;
    let by_step = steps.iter().filter_map(|step| step.usage.peak_cores);
    let by_step = by_step.max().map_or(0, |cores| cores.0);
    Some(MilliCores(by_hour.max(by_step)))
}

/// Greatest sum of the peaks of concurrent tasks. `None` without tasks, or if the peak of one task
/// is unknown.
fn memory(steps: &[&PlacedStep]) -> Option<Bytes> {
    let mut turns: Vec<(Timestamp, bool, u64)> = Vec::with_capacity(2 * steps.len());
    for step in steps {
        let bytes = step.usage.peak_memory?.bytes.0;
        turns.push((step.started_at, true, bytes));
        turns.push((step.observed_at, false, bytes));
    }
    turns.sort_unstable();
    let (mut now, mut most) = (0_u64, None);
    for (_, begins, bytes) in turns {
        now = match begins {
            true => now.saturating_add(bytes),
            false => now.saturating_sub(bytes),
        };
        most = most.max(Some(now));
    }
    most.map(Bytes)
}

/// Whether tasks lacked memory or cores on their node, so that a machine as large would lack them too.
fn is_short(facts: &Facts<'_>, steps: &[&PlacedStep]) -> bool {
    let (mut waited, mut ran) = (Duration::ZERO, CpuTime::default());
    for step in steps {
        waited = waited.saturating_add(step.usage.detail.run_queue.unwrap_or_default());
        ran = ran.saturating_add(step.usage.cpu);
    }
    let starved = Share::from_ppm(facts.policy.step.starved_ppm);
    ran.share_waited(waited) >= Some(starved)
        || steps
            .iter()
            .any(|step| step.usage.end == StepEnd::OutOfMemory)
}

/// Keeps the last observation of each task.
fn newest<'s>(steps: impl Iterator<Item = &'s PlacedStep>) -> Vec<&'s PlacedStep> {
    let mut newest: BTreeMap<_, &PlacedStep> = BTreeMap::new();
    for step in steps {
        let entry = newest.entry((&step.boot, &step.usage.id)).or_insert(step);
        if step.usage.order() > entry.usage.order() {
            *entry = step;
        }
    }
    newest.into_values().collect()
}

fn with_headroom(used: Used, ppm: u32) -> Used {
    let more = |value: u64| {
        let parts = 1_000_000 + u128::from(ppm);
        let with = (u128::from(value) * parts).div_ceil(1_000_000);
        u64::try_from(with).unwrap_or(u64::MAX)
    };
    Used {
        cores: used.cores.map(|cores| MilliCores(more(cores.0).max(1))),
        memory: used.memory.map(|memory| Bytes(more(memory.0))),
    }
}

fn assumed(market: Market, speed_is_known: bool) -> Vec<String> {
    let mut all = vec![
        "the node runs all month with the same work".to_owned(),
        "the peaks of concurrent tasks coincide, and only tasks use memory".to_owned(),
        match market {
            Market::Spot => "the recommended type costs its spot price in the cheapest zone",
            Market::OnDemand | Market::Reserved => "the recommended type costs its list price",
        }
        .to_owned(),
        "network and volumes are fast enough; their peak demand is not measured".to_owned(),
    ];
    if !speed_is_known {
        all.push("the cores of the recommended type are at least as fast".to_owned());
    }
    all
}
