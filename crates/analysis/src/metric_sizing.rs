//! Decides by metrics whether a machine without a probe is too large, too small or little used. The
//! rules use percentiles of samples, never means alone. They keep the size of resources without
//! metrics (above all memory) and name them.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::Cost;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::node::{LargerType, MetricSize, SizeFit};
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, InstanceState};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_sizing::core_speed::{Family, Speeds};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, HumanDuration, MilliCores, Share};

use crate::advice::node::{MemoryNeeds, SizeNeeds, cheapest_alike};
use crate::facts::Facts;
use crate::metric_activity::{DAY, WEEK, begin};

use crate::metric_activity;
use crate::rules::node::idle;
use crate::rules::node::idle::by_metrics;
use crate::rules::node::undersized::remedy as larger_remedy;
use crate::rules::other_findings::{OtherFindings, covers_size};
use crate::rules::remedy::{change_type, larger};
use crate::rules::trace::{Check, RuleTrace};
use crate::rules::verdict::Verdict;

/// Rules in order of priority; at most one of them has a result for a machine.
const RULES: [SizeRule; 3] = [
    (FindingKind::UnderprovisionedNode, too_small),
    (FindingKind::OverprovisionedNode, too_large),
    (FindingKind::UnderutilizedNode, little_used),
];

type SizeRule = (
    FindingKind,
    fn(&Machine<'_>, &mut RuleTrace) -> Option<Finding>,
);

/// Known time for medium confidence, if memory and network are known too.
const ALMOST_A_FORTNIGHT: Duration = Duration::from_secs(13 * 86_400);

/// A machine with its demand from metrics.
struct Machine<'a> {
    facts: &'a Facts<'a>,
    speeds: &'a Speeds,
    instance: &'a Instance,
    spec: Option<&'a TypeSpec>,
    demand: Demand,
}

/// Demand from the samples. A value that is unknown for most of the time is `None`.
struct Demand {
    window: Window,
    cpu: Samples,
    /// Share of the days on which the CPU was full at some time.
    full_days: Share,
    memory: Option<Samples>,
    /// Bytes per second.
    network: Option<Samples>,
    disk: Option<Samples>,
}

/// Values with the length of their samples in seconds, in ascending order. Never empty.
struct Samples {
    values: Vec<(u64, u64)>,
    seconds: u64,
}

/// Evaluates machines without a probe and without a finding of another rule.
pub(crate) fn evaluate(
    facts: &Facts<'_>,
    speeds: &Speeds,
    found: &OtherFindings<'_>,
) -> Vec<Verdict> {
    let metrics = facts.metrics.iter();
    let uncovered = metrics.filter(|(id, _)| about_size(found, id).next().is_none());
    let verdicts = uncovered.filter_map(|(id, series)| {
        let machine = Machine::new(facts, speeds, (facts.instance(id)?, series))?;
        let finding = RULES.iter().find_map(|(kind, rule)| {
            let q = &mut RuleTrace::unwritten(*kind);
            is_evaluated(&machine, q).then(|| rule(&machine, q))?
        });
        Some(Verdict::Waste(Box::new(finding?)))
    });
    verdicts.collect()
}

/// Questions about one machine, rule by rule up to the first rule with a result.
pub(crate) fn explain(
    facts: &Facts<'_>,
    speeds: &Speeds,
    found: &OtherFindings<'_>,
    instance: &Instance,
) -> Vec<Check> {
    let Some(series) = facts.metrics.get(&instance.id) else {
        return Vec::new();
    };
    let Some(machine) = Machine::new(facts, speeds, (instance, series)) else {
        return Vec::new();
    };
    let ours = |finding: &&Finding| RULES.iter().any(|(kind, _)| finding.kind == *kind);
    let other = about_size(found, &instance.id).find(|finding| !ours(finding));
    let mut checks = Vec::new();
    for (kind, rule) in RULES {
        let mut speaks = false;
        checks.extend(RuleTrace::written(kind, |q| {
            let is_uncovered = q.holds(
                "Does another finding cover this resource?",
                (
                    other.map_or_else(|| "no".to_owned(), |other| other.kind.to_string()),
                    "no",
                ),
                other.is_none(),
            );
            speaks = is_uncovered && is_evaluated(&machine, q) && rule(&machine, q).is_some();
        }));
        if speaks {
            break;
        }
    }
    checks
}

/// Findings about a machine that leave no room for one about its size.
fn about_size<'a>(
    found: &OtherFindings<'a>,
    machine: &NodeId,
) -> impl Iterator<Item = &'a Finding> {
    let about = found.about(machine.as_str());
    about.filter(move |one| one.resource.id == machine.as_str() && covers_size(one.kind))
}

impl<'a> Machine<'a> {
    /// `None` for a machine with a probe, or without CPU metrics.
    fn new(
        facts: &'a Facts<'a>,
        speeds: &'a Speeds,
        (instance, series): (&'a Instance, &'a MetricSeries),
    ) -> Option<Self> {
        let node = facts.state.nodes.get(&instance.id);
        if node.is_some_and(|node| node.latest.is_some()) {
            return None;
        }
        Some(Self {
            facts,
            speeds,
            instance,
            spec: facts.catalogue.spec(&instance.instance_type),
            demand: Demand::new(facts, instance, series)?,
        })
    }

    fn cores(&self) -> Option<MilliCores> {
        metric_activity::cores(self.facts, self.instance)
    }

    fn memory(&self) -> Option<Bytes> {
        let by_type = self.spec.map(|spec| spec.memory);
        by_type.or_else(|| Some(self.instance.hardware?.memory))
    }

    fn known(&self) -> Duration {
        Duration::from_secs(self.demand.cpu.seconds)
    }

    /// The percentile of CPU use that determines the size.
    fn cpu(&self) -> Share {
        let percentile = self.facts.policy.metrics.size_percentile_ppm;
        Share::from_ppm(ppm(self.demand.cpu.percentile(percentile)))
    }

    /// A value with the headroom of the policy.
    fn with_headroom(&self, value: u64) -> u64 {
        let parts = 1_000_000 + u128::from(self.facts.policy.sizing.memory_headroom_ppm);
        let with = (u128::from(value) * parts).div_ceil(1_000_000);
        u64::try_from(with).unwrap_or(u64::MAX)
    }

    /// Minimum size of another type for the work of the machine.
    fn needs(&self, spec: &TypeSpec) -> SizeNeeds {
        let all = u64::from(spec.vcpus) * 1000;
        let cores = |share: u64| (all * share).div_ceil(1_000_000).max(1);
        let percentile = self.facts.policy.metrics.size_percentile_ppm;
        // The machine may burst above the baseline of its type; the new type needs at most the same
        // baseline.
        let mbps = |samples: &Option<Samples>, letter: char, now: Option<u32>| {
            let Some(samples) = samples else {
                // Somebody chose a family with much bandwidth, and nothing shows that it is unused.
                let is_chosen = Family::from_name(&spec.name).has_letter(letter);
                return now.filter(|_| is_chosen).unwrap_or(0);
            };
            let rate = samples.percentile(percentile);
            let mbps = self.with_headroom(rate.saturating_mul(8)) / 1_000_000;
            u32::try_from(mbps)
                .unwrap_or(u32::MAX)
                .min(now.unwrap_or(u32::MAX))
        };
        let ebs = match spec.local_disk {
            None => mbps(&self.demand.disk, 'b', spec.ebs_baseline_mbps),
            Some(_) => 0,
        };
        let used = cores(self.cpu().ppm().into());
        SizeNeeds {
            used: MilliCores(used),
            cores: MilliCores(self.with_headroom(used)),
            // On one vCPU an agent and the work would wait for each other.
            least_vcpus: spec.vcpus.min(2),
            memory: match &self.demand.memory {
                Some(memory) => {
                    let bytes = u128::from(spec.memory.0) * u128::from(memory.greatest());
                    let bytes = u64::try_from(bytes / 1_000_000).unwrap_or(u64::MAX);
                    MemoryNeeds::Holds(Bytes(self.with_headroom(bytes)))
                }
                None => MemoryNeeds::AsNow,
            },
            network_mbps: mbps(&self.demand.network, 'n', spec.network_baseline_mbps),
            ebs_mbps: ebs,
            steady: Some(MilliCores(
                self.with_headroom(cores(self.demand.cpu.percentile(950_000))),
            )),
        }
    }

    /// Evidence from the samples.
    fn size(&self, fit: SizeFit) -> MetricSize {
        let share = |value: u64| Share::from_ppm(ppm(value));
        let percentile = self.facts.policy.metrics.size_percentile_ppm;
        let rate = |samples: &Option<Samples>| {
            samples
                .as_ref()
                .map(|rate| Bytes(rate.percentile(percentile)))
        };
        let full = self.facts.policy.metrics.full_cpu();
        MetricSize {
            fit,
            watched: self.known(),
            percentile: Share::from_ppm(percentile),
            cpu: self.cpu(),
            cpu_p95: share(self.demand.cpu.percentile(950_000)),
            full: self.demand.cpu.share_from(full.ppm().into()),
            needs: self.cores().map(|all| {
                let used = u128::from(all.0) * u128::from(self.cpu().ppm()) / 1_000_000;
                MilliCores(self.with_headroom(u64::try_from(used).unwrap_or(u64::MAX)))
            }),
            of_cores: self.cores(),
            memory: self.demand.memory.as_ref().map(|m| share(m.greatest())),
            of_memory: self.memory(),
            network_a_second: rate(&self.demand.network),
            disk_a_second: rate(&self.demand.disk),
            instead: None,
            beyond: None,
        }
    }

    fn finding(&self, kind: FindingKind, size: MetricSize, remedy: Remedy) -> Finding {
        let controller = self.facts.controller(self.instance);
        let origin = ebb_telemetry::origin::labelled(&self.instance.tags);
        let (window, instance) = (self.demand.window, self.instance);
        Finding {
            id: Finding::id_of(kind, &instance.region, instance.id.as_str()),
            kind,
            window,
            coverage: Share::from_parts(self.known().as_secs(), window.length().as_secs()),
            evidence: Evidence::MetricSize(size),
            confidence: self.confidence(),
            cost: None,
            remedy,
            recommendation: None,
            steps: Vec::new(),
            resource: Resource::of_instance(instance, controller, origin),
        }
    }

    fn confidence(&self) -> Confidence {
        let demand = &self.demand;
        let unknown: Vec<&str> = [
            ("memory in use", demand.memory.is_none()),
            ("network", demand.network.is_none()),
            ("disk", demand.disk.is_none()),
        ]
        .into_iter()
        .filter_map(|(what, is_unknown)| is_unknown.then_some(what))
        .collect();
        let is_long = self.known() >= ALMOST_A_FORTNIGHT;
        let is_known = demand.memory.is_some() && demand.network.is_some();
        let mut reason =
            "no probe; metrics may hide peaks shorter than their sampling period".to_owned();
        if !unknown.is_empty() {
            reason += &format!("; unknown: {}", unknown.join(", "));
        }
        if !is_long {
            reason += &format!("; metrics cover only {}", HumanDuration(self.known()));
        }
        Confidence {
            level: if is_long && is_known {
                Level::Medium
            } else {
                Level::Low
            },
            reason,
        }
    }

    /// Saving of a change. With less than a week of data the cost covers only the window.
    fn saving(&self, saves: UsdPerHour) -> Option<Cost> {
        let price = self.facts.price_of(self.instance)?;
        let cost = price
            .scaled(saves, price.per_hour)
            .wasted_over(self.demand.window);
        Some(match self.known() >= WEEK.unsigned_abs() {
            true => cost,
            false => Cost {
                saving_a_month: cost.spent,
                ..cost
            },
        })
    }
}

fn ppm(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Demand {
    /// Uses only samples since the launch, because earlier work may have run on another type.
    /// `None` without any CPU sample.
    fn new(facts: &Facts<'_>, instance: &Instance, series: &MetricSeries) -> Option<Self> {
        let is_own = |point: &MetricPoint| begin(*point) >= instance.launched_at;
        let points: Vec<MetricPoint> = series.points().filter(is_own).collect();
        let length: u64 = points.iter().map(|p| u64::from(p.period_seconds)).sum();
        let samples = |of: fn(&MetricPoint) -> Option<u64>| {
            let known = points
                .iter()
                .filter_map(|p| Some((of(p)?, p.period_seconds.into())));
            Samples::new(known.collect())
        };
        let mostly = |samples: &Samples| samples.seconds * 2 > length;
        let full = facts.policy.metrics.full_cpu();
        let day = |point: &MetricPoint| point.end.as_second().div_euclid(86_400);
        let is_full = |p: &&MetricPoint| p.cpu_max.is_some_and(|cpu| cpu >= full);
        let days: BTreeSet<i64> = points.iter().map(day).collect();
        let full_days: BTreeSet<i64> = points.iter().filter(is_full).map(day).collect();
        Some(Self {
            window: Window {
                from: begin(*points.first()?)?,
                to: points.last()?.end,
            },
            cpu: samples(|p| Some(p.cpu_max?.ppm().into()))?,
            full_days: Share::from_parts(full_days.len() as u64, days.len() as u64)?,
            memory: samples(|p| Some(p.memory?.ppm().into())).filter(mostly),
            network: samples(|p| Some(a_second(p.network_bytes?, p))).filter(mostly),
            disk: samples(|p| Some(a_second(p.disk_bytes?, p))).filter(mostly),
        })
    }
}

fn a_second(bytes: u64, point: &MetricPoint) -> u64 {
    bytes / u64::from(point.period_seconds.max(1))
}

impl Samples {
    /// `None` if the samples have no length.
    fn new(mut values: Vec<(u64, u64)>) -> Option<Self> {
        values.sort_unstable();
        let seconds = values.iter().map(|(_, seconds)| seconds).sum();
        (seconds > 0).then_some(Self { values, seconds })
    }

    /// The smallest value that is not exceeded for this share of the time; `ppm` is in parts per
    /// million.
    fn percentile(&self, ppm: u32) -> u64 {
        let wanted = u128::from(self.seconds) * u128::from(ppm);
        let mut seconds = 0_u128;
        let found = self.values.iter().find(|(_, length)| {
            seconds += u128::from(*length) * 1_000_000;
            seconds >= wanted
        });
        found.map_or_else(|| self.greatest(), |(value, _)| *value)
    }

    fn greatest(&self) -> u64 {
        self.values.last().map_or(0, |(value, _)| *value)
    }

    /// Share of the time with at least this value.
    fn share_from(&self, value: u64) -> Share {
        let first = self.values.partition_point(|(other, _)| *other < value);
        let seconds = self.values[first..]
            .iter()
            .map(|(_, seconds)| seconds)
            .sum();
        Share::from_parts(seconds, self.seconds).unwrap_or(Share::NONE)
    }
}

/// Questions that every rule asks first.
fn is_evaluated(machine: &Machine<'_>, q: &mut RuleTrace) -> bool {
    let (facts, instance) = (machine.facts, machine.instance);
    let silent = facts.now.duration_since(machine.demand.window.to);
    let silent = Duration::try_from(silent).unwrap_or_default();
    let late = facts.policy.metrics.idle_after();
    let controller = facts.controller(instance);
    let is_batchs = matches!(controller, Some(Controller::BatchEnvironment(_)));
    let has_devices = metric_activity::gpus(facts, instance).is_some_and(|gpus| gpus > 0)
        || machine.spec.is_some_and(|spec| spec.accelerators.is_some())
        || by_metrics::is_unknown_accelerator(facts, instance);
    let is_metal = instance.instance_type.as_str().contains(".metal");
    q.holds(
        "Is the instance running, and are its metrics current?",
        (
            format_args!("{}, {} ago", instance.state, HumanDuration(silent)),
            format_args!("running, at most {} ago", HumanDuration(late)),
        ),
        instance.state == InstanceState::Running && silent <= late,
    ) && idle::check_standby(facts, instance, q).is_none()
        && q.holds(
            "Do its CPU cores determine the size of the instance?",
            (
                match (is_batchs, has_devices, is_metal) {
                    (true, ..) => "no: AWS Batch chooses its type",
                    (_, true, _) => "no: it has GPUs or accelerators",
                    (.., true) => "no: it is bare metal",
                    _ => "yes",
                },
                "",
            ),
            !is_batchs && !has_devices && !is_metal,
        )
        && q.holds(
            "For how long is CPU usage known?",
            (
                HumanDuration(machine.known()),
                format_args!("at least {}", HumanDuration(DAY.unsigned_abs())),
            ),
            (machine.known() >= DAY.unsigned_abs()).then_some(true),
        )
}

fn too_small(machine: &Machine<'_>, q: &mut RuleTrace) -> Option<Finding> {
    let (facts, instance) = (machine.facts, machine.instance);
    let lack = full_resource(machine, q)?;
    let instead = machine.spec.and_then(|spec| {
        let vcpus = lack.with_cores(spec.vcpus.into());
        let vcpus = u32::try_from(vcpus).unwrap_or(u32::MAX);
        let memory = Bytes(lack.with_memory(spec.memory.0));
        larger(facts, instance, spec, (vcpus, memory))
    });
    let kind = &instance.instance_type;
    let instead = instead.map(|larger| LargerType {
        now: facts.catalogue.on_demand(&instance.region, kind),
        then: larger.per_hour,
        instance_type: larger.instance_type,
    });
    let controller = facts.controller(instance);
    let remedy = match machine.spec {
        Some(_) => larger_remedy(facts, instance, controller.as_ref(), instead.as_ref()),
        None => Remedy {
            action: Action::Rightsize,
            advice: "Increase the fully used resource by half, or run less work on this node."
                .to_owned(),
            command: None,
        },
    };
    let size = MetricSize {
        instead,
        ..machine.size(match lack {
            Lack::CoresAndMemory => SizeFit::CoresAndMemoryFull,
            Lack::Cores => SizeFit::CoresFull,
            Lack::Memory => SizeFit::MemoryFull,
        })
    };
    let mut finding = machine.finding(FindingKind::UnderprovisionedNode, size, remedy);
    finding.confidence.level = Level::Low;
    finding.confidence.reason +=
        "; a batch job uses every core it gets, so more cores may only shorten it";
    // The fix increases the cost, so the saving is zero.
    let price = facts.price_of(instance);
    let nothing = price.map(|price| price.scaled(UsdPerHour::default(), price.per_hour));
    finding.cost = nothing.map(|nothing| nothing.wasted_over(machine.demand.window));
    Some(finding)
}

/// The resources of a machine that are fully used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lack {
    Cores,
    Memory,
    CoresAndMemory,
}

impl Lack {
    /// The cores to have instead, half as many more if they are full.
    fn with_cores(self, cores: u64) -> u64 {
        match self {
            Self::Memory => cores,
            Self::Cores | Self::CoresAndMemory => half_more(cores),
        }
    }

    /// The memory to have instead, half as much more if it is full.
    fn with_memory(self, memory: u64) -> u64 {
        match self {
            Self::Cores => memory,
            Self::Memory | Self::CoresAndMemory => half_more(memory),
        }
    }
}

fn half_more(value: u64) -> u64 {
    value.saturating_mul(3).div_ceil(2)
}

/// Asks whether the CPU or the memory of a machine is fully used.
fn full_resource(machine: &Machine<'_>, q: &mut RuleTrace) -> Option<Lack> {
    let (policy, demand) = (&machine.facts.policy.metrics, &machine.demand);
    let full = demand.cpu.share_from(policy.full_cpu().ppm().into());
    let half = Share::from_ppm(500_000);
    let lacks_cores = full >= policy.full_share() && demand.full_days >= half;
    let memory = demand.memory.as_ref();
    let memory = memory.map(|memory| Share::from_ppm(ppm(memory.percentile(950_000))));
    let lacks_memory = memory.is_some_and(|memory| memory >= policy.full_memory());
    let shown = memory.map_or_else(|| "unknown".to_owned(), |memory| memory.to_string());
    let lack = match (lacks_cores, lacks_memory) {
        (true, true) => Some(Lack::CoresAndMemory),
        (true, false) => Some(Lack::Cores),
        (false, true) => Some(Lack::Memory),
        (false, false) => None,
    };
    q.holds(
        "Is its CPU or memory fully used?",
        (
            format_args!("CPU full for {full} of the time; memory: {shown}"),
            format_args!(
                "CPU above {} for {} on half of the days, or memory above {} for 95 %",
                policy.full_cpu(),
                policy.full_share(),
                policy.full_memory()
            ),
        ),
        lack.is_some(),
    );
    lack
}

fn too_large(machine: &Machine<'_>, q: &mut RuleTrace) -> Option<Finding> {
    let (facts, instance) = (machine.facts, machine.instance);
    let needed = Share::from_ppm(ppm(machine.with_headroom(machine.cpu().ppm().into())));
    if !is_roomy(machine, needed, q) {
        return None;
    }
    let Some(spec) = machine.spec else {
        return Some(too_large_of_unknown_type(machine, needed));
    };
    let needs = machine.needs(spec);
    let fitting = cheapest_alike(facts, machine.speeds, instance, (spec, &needs));
    let paid = facts
        .price_of(instance)
        .filter(|price| !price.basis.is_bound());
    let best = fitting.first().copied();
    let saving = best
        .zip(paid)
        .map(|((per_hour, _), paid)| UsdPerHour(paid.per_hour.0 - per_hour.0));
    let shown = best.filter(|_| saving.is_some());
    if !q.holds(
        "Which cheaper instance type fits this?",
        (shown.map_or("none", |(_, other)| other.name.as_str()), ""),
        saving.map(|saving| saving > UsdPerHour::default()),
    ) {
        return None;
    }
    let (per_hour, other) = best?;
    let cost = machine.saving(saving?)?;
    if !q.saves_enough(facts, &cost) {
        return None;
    }
    let size = MetricSize {
        instead: Some(LargerType {
            instance_type: other.name.clone(),
            now: facts
                .catalogue
                .on_demand(&instance.region, &spec.name)
                .and_then(|list| facts.price_as(instance, &spec.name, list)),
            then: per_hour,
        }),
        beyond: Some(beyond(machine, spec, other)),
        ..machine.size(SizeFit::TooLarge)
    };
    let remedy = change_type(facts, instance, Action::Rightsize, &other.name);
    let mut finding = machine.finding(FindingKind::OverprovisionedNode, size, remedy);
    finding.cost = Some(cost);
    Some(finding)
}

/// Asks whether the type of a machine may change, and its work needs few of its cores.
fn is_roomy(machine: &Machine<'_>, needed: Share, q: &mut RuleTrace) -> bool {
    let bound = Share::from_ppm(machine.facts.policy.overprovisioned.needed_share_ppm);
    q.owner_chooses_type(machine.facts, machine.instance)
        && q.holds(
            "Which share of its cores does the node need, with headroom?",
            (needed.compared_with(bound), format_args!("at most {bound}")),
            needed <= bound,
        )
}

fn too_large_of_unknown_type(machine: &Machine<'_>, needed: Share) -> Finding {
    let size = MetricSize {
        beyond: Some(machine.demand.cpu.share_from(500_001)),
        ..machine.size(SizeFit::TooLarge)
    };
    let remedy = Remedy {
        action: Action::Rightsize,
        advice: advice_without_type(machine, needed),
        command: None,
    };
    machine.finding(FindingKind::OverprovisionedNode, size, remedy)
}

/// Share of the time in which the work needs more than all cores of another type.
fn beyond(machine: &Machine<'_>, spec: &TypeSpec, other: &TypeSpec) -> Share {
    let (from, to) = (machine.speeds.cores(spec), machine.speeds.cores(other));
    let vcpus = f64::from(spec.vcpus);
    let is_beyond = |used: u64| {
        let busy = used as f64 / 1e6 * vcpus;
        match (&from, &to) {
            (Some(from), Some(to)) => from.rate(busy) > to.rate(f64::from(other.vcpus)),
            _ => busy > f64::from(other.vcpus),
        }
    };
    let samples = &machine.demand.cpu;
    let beyond = samples.values.iter().filter(|(used, _)| is_beyond(*used));
    let seconds = beyond.map(|(_, seconds)| seconds).sum();
    Share::from_parts(seconds, samples.seconds).unwrap_or(Share::NONE)
}

fn advice_without_type(machine: &Machine<'_>, needed: Share) -> String {
    let quarter = Share::from_ppm(250_000);
    let part = if needed <= quarter {
        "a quarter"
    } else {
        "half"
    };
    match &machine.demand.memory {
        Some(_) => format!(
            "Reduce the machine to {part} of its cores. Set its memory by its measured usage."
        ),
        None => format!("Reduce the machine to {part} of its cores and keep its memory."),
    }
}

/// Finds a machine with little use for which neither its type nor its memory suggests another size.
fn little_used(machine: &Machine<'_>, q: &mut RuleTrace) -> Option<Finding> {
    let (facts, instance) = (machine.facts, machine.instance);
    let p95 = Share::from_ppm(ppm(machine.demand.cpu.percentile(950_000)));
    let bound = Share::from_ppm(facts.policy.hours.low_p95_ppm);
    let is_little = q.holds(
        "What is the 95th percentile of its CPU usage?",
        (p95.compared_with(bound), format_args!("at most {bound}")),
        p95 <= bound,
    ) && q.holds(
        "Is the best instance type unknown?",
        (
            match (machine.spec, &machine.demand.memory) {
                (Some(_), Some(_)) => "no: no cheaper type has enough memory",
                (Some(_), None) => "yes: memory usage is unknown",
                (None, _) => "yes: its type is not in the catalogue",
            },
            "",
        ),
        machine.spec.is_none() || machine.demand.memory.is_none(),
    );
    if !is_little {
        return None;
    }
    let controller = facts.controller(instance);
    let kind = instance.instance_type.as_str();
    let advice = match (machine.spec, &controller) {
        (Some(_), Some(controller)) => {
            format!("Configure {controller} to launch a smaller type than {kind}.")
        }
        (Some(_), None) => format!(
            "Measure its memory usage with the CloudWatch agent. Then change to a smaller type \
             than {kind}."
        ),
        (None, _) => "Move its work to a smaller or shared machine.".to_owned(),
    };
    let region = &instance.region;
    let command = machine.spec.map(|_| {
        format!("aws ec2 describe-instance-types --region {region} --instance-types {kind}")
    });
    let remedy = Remedy {
        action: Action::Rightsize,
        advice,
        command,
    };
    let size = machine.size(SizeFit::LittleUsed);
    Some(machine.finding(FindingKind::UnderutilizedNode, size, remedy))
}
