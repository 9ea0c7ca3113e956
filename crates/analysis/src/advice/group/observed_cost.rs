//! Observed cost of a group: its machines, the time on each machine and the effective price.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_catalog::machine_type::TypeSpec;
use ebb_model::advice::group::Fleet;
use ebb_model::inventory::instance::{Instance, Market};
use ebb_model::step_profile::most_at_once;
use ebb_sizing::packing::pack;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::money::{Usd, UsdPerHour};
use jiff::Timestamp;

use crate::advice::group::replayed_runs::ReplayGroup;
use crate::facts::Facts;

/// Observed machines and cost of a group.
pub(crate) struct ObservedCost<'a> {
    /// The type with the longest use; it represents all types of the group.
    pub(crate) base: &'a TypeSpec,
    pub(crate) market: Market,
    /// Effective price of one machine of the base type.
    pub(crate) base_per_hour: Option<UsdPerHour>,
    pub(crate) fleet: Fleet,
    /// Cost of the observed machines; `None` if a price is unknown or only an upper bound.
    pub(crate) paid: Option<Usd>,
    /// Whether one of the prices is only an upper bound.
    pub(crate) is_bound: bool,
    /// vCPU seconds of all machines.
    vcpu_seconds: f64,
}

/// One machine during the tasks of the group.
struct MachineTime<'i> {
    instance: &'i Instance,
    /// Disjoint intervals in order of time.
    times: Vec<(Timestamp, Timestamp)>,
}

impl MachineTime<'_> {
    fn time(&self) -> Duration {
        let each = self.times.iter().map(|(from, to)| to.duration_since(*from));
        each.filter_map(|time| Duration::try_from(time).ok()).sum()
    }
}

impl<'a> ObservedCost<'a> {
    pub(crate) fn new(facts: &Facts<'a>, replay: &ReplayGroup<'_, '_, '_>) -> Result<Self, String> {
        let held = held(replay);
        let mut by_type: BTreeMap<_, Duration> = BTreeMap::new();
        let (mut usd, mut vcpu_seconds, mut is_bound) = (Usd::ZERO, 0.0, false);
        let mut known = true;
        for one in &held {
            let instance = one.instance;
            let kind = &instance.instance_type;
            let spec = facts.catalogue.spec(kind);
            let spec =
                spec.ok_or_else(|| format!("instance type {kind} is not in the catalogue"))?;
            let time = one.time();
            *by_type.entry((kind, instance.market)).or_default() += time;
            vcpu_seconds += f64::from(spec.vcpus) * time.as_secs_f64();
            match facts.price_of(instance) {
                Some(price) => {
                    usd = usd + price.per_hour.over(time);
                    is_bound |= price.basis.is_bound();
                }
                None => known = false,
            }
        }
        let longest = by_type.iter().max_by_key(|(_, time)| **time);
        let ((kind, market), _) = longest.ok_or("none of its tasks has a known duration")?;
        let base = facts
            .catalogue
            .spec(kind)
            .ok_or("its instance type is unknown")?;
        let machine_time: Duration = held.iter().map(MachineTime::time).sum();
        let hours = machine_time.as_secs_f64() / 3600.0;
        Ok(Self {
            base,
            market: *market,
            base_per_hour: held
                .iter()
                .filter(|one| one.instance.instance_type == **kind)
                .find_map(|one| Some(facts.price_of(one.instance)?.per_hour)),
            paid: (known && !is_bound).then_some(usd),
            is_bound,
            fleet: Fleet {
                instance_type: base.name.clone(),
                architecture: Some(base.architecture),
                market: *market,
                per_hour: UsdPerHour::from_micros((usd.micros() as f64 / hours).round() as i64),
                machine_time,
                machines: most_at_once(held.iter().flat_map(|held| held.times.iter().copied())),
                usd,
                basis: None,
                together: together(replay),
            },
            vcpu_seconds,
        })
    }

    /// Observed vCPU hours divided by those of a replay of the same tasks on the base type. `None`
    /// if the tasks do not fit on this type.
    pub(crate) fn by_replayed(&self, replay: &ReplayGroup<'_, '_, '_>) -> Option<f64> {
        let wall = |at: usize, _| replay.group.runs.get(at).map(|run| run.run.wall());
        let wanted = replay.wanted(
            |step| step.now,
            |at, step| wall(at, step).unwrap_or_default(),
        );
        let kept = ebb_sizing::packing::Room {
            // The observed intervals do not contain the time that a machine is kept without tasks.
            kept: Duration::ZERO,
            ..replay.room(self.base)
        };
        let packed = pack(&wanted, kept).ok()?;
        let replayed = packed.machine_time.as_secs_f64() * f64::from(self.base.vcpus);
        (replayed > 0.0).then(|| self.vcpu_seconds / replayed)
    }
}

fn held<'a>(replay: &ReplayGroup<'_, '_, 'a>) -> Vec<MachineTime<'a>> {
    let mut by_machine: BTreeMap<&NodeId, MachineTime<'a>> = BTreeMap::new();
    // Tasks are in order of their start, so each interval overlaps the last or follows it.
    for run in replay.group.runs.iter().map(|run| run.run) {
        let (from, to) = (run.step.started_at, run.step.observed_at);
        let held = by_machine.entry(&run.instance.id).or_insert(MachineTime {
            instance: run.instance,
            times: Vec::new(),
        });
        match held.times.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => held.times.push((from, to)),
        }
    }
    by_machine.into_values().collect()
}

/// Tasks by step on the machine with the most concurrent tasks, at that time.
fn together(replay: &ReplayGroup<'_, '_, '_>) -> Vec<ebb_model::advice::group::Together> {
    let mut by_machine: BTreeMap<&NodeId, Vec<(Timestamp, i32, usize)>> = BTreeMap::new();
    for (run, step) in replay.group.runs.iter().zip(&replay.step_of) {
        let turns = by_machine.entry(&run.run.instance.id).or_default();
        turns.push((run.run.step.started_at, 1, *step));
        turns.push((run.run.step.observed_at, -1, *step));
    }
    let mut most = (0, BTreeMap::new());
    for mut turns in by_machine.into_values() {
        turns.sort_unstable();
        let mut now: BTreeMap<usize, u32> = BTreeMap::new();
        for (_, turn, step) in turns {
            let runs = now.entry(step).or_default();
            *runs = runs.saturating_add_signed(turn);
            now.retain(|_, runs| *runs > 0);
            let all: u32 = now.values().sum();
            if all > most.0 {
                most = (all, now.clone());
            }
        }
    }
    let packed = ebb_sizing::packing::Packed {
        fullest: most.1,
        ..Default::default()
    };
    replay.together(&packed)
}
