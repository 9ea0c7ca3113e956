//! The simulated world: its true values, and the values that the estimator sees.

mod spot;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_sizing::cheapest_type::usable;
use ebb_sizing::core_speed::{Family, Observed, Speeds};
use ebb_sizing::ranking::offer::{Limits, Market, ObservedTasks, Offer, Step};
use ebb_sizing::ranking::{Ranking, rank};
use ebb_sizing::work::{Phase, Work};
use ebb_telemetry::identity::{InstanceType, Region};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Bytes, MilliCores};
use fastrand::Rng;

use spot::{Spot, spot};

const REGIONS: [&str; 3] = ["us-east-1", "us-west-2", "eu-west-1"];

/// The spread of true values around the published ones: standard deviations of logarithms.
const FAMILY_SPREAD: f64 = 0.08;
const MAKER_SPREAD: f64 = 0.05;
const RUN_NOISE: f64 = 0.05;

/// The share of steps that are also observed on another family, and the number of runs in the mean
/// of an observation.
const SHARE_ON_TWO_FAMILIES: f64 = 0.4;
const RUNS_PER_OBSERVATION: u32 = 5;

pub(crate) struct World {
    pub(crate) home: Region,
    regions: Vec<Region>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) speeds: Speeds,
    /// Types with a known speed, and their true speed.
    types: Vec<(&'static TypeSpec, f64)>,
    speed_of: HashMap<&'static InstanceType, f64>,
    spot: BTreeMap<(Region, Family), Spot>,
}

/// A step and its true properties.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) observed_on: &'static TypeSpec,
    pub(crate) memory: Bytes,
    pub(crate) peak_cores: f64,
    cores: MilliCores,
    at_once: u32,
    moved: Bytes,
    arm: bool,
    /// The observation on `observed_on`.
    work: Work,
    /// The observation on another family; `None` if there is none.
    second_observation: Option<(&'static TypeSpec, Work)>,
    /// Seconds on one core of speed 1, by the number of busy cores.
    demand: Vec<(f64, f64)>,
    waiting: f64,
    disk: Bytes,
    second_thread: f64,
    crowding: f64,
    makers: [f64; 3],
}

fn normal(rng: &mut Rng) -> f64 {
    let (u, v) = (rng.f64().max(1e-12), rng.f64());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn spread(rng: &mut Rng, deviation: f64) -> f64 {
    (deviation * normal(rng)).exp()
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.f64()
}

fn maker(spec: &TypeSpec) -> usize {
    match spec.architecture {
        Architecture::Arm64 => 0,
        _ if Family::from_name(&spec.name).as_str().contains('a') => 1,
        _ => 2,
    }
}

impl World {
    pub(crate) fn new(seed: u64, steps: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let regions: Vec<Region> = REGIONS
            .iter()
            .filter_map(|r| Region::new(*r).ok())
            .collect();
        let home = regions[0].clone();
        let catalogue = Catalogue::built_in();
        let mut family_truth: BTreeMap<Family, f64> = BTreeMap::new();
        let mut types = Vec::new();
        for (spec, _) in catalogue.types_in(&home) {
            let family = Family::from_name(&spec.name);
            let plain = !spec.metal && !spec.burstable && spec.gpus.is_none();
            let Some(published) = family.published().filter(|_| plain) else {
                continue;
            };
            let truth = family_truth
                .entry(family)
                .or_insert_with(|| published * spread(&mut rng, FAMILY_SPREAD));
            types.push((spec, *truth));
        }
        let mut world = Self {
            spot: spot(&mut rng, &regions, &family_truth),
            home,
            regions,
            tasks: Vec::new(),
            speeds: Speeds::default(),
            speed_of: types
                .iter()
                .map(|(spec, truth)| (&spec.name, *truth))
                .collect(),
            types,
        };
        world.tasks = (0..steps).map(|_| world.task(&mut rng)).collect();
        world.speeds = world.lake(&mut rng);
        world
    }

    fn task(&self, rng: &mut Rng) -> Task {
        let cores = [1u32, 2, 4, 8, 16][rng.usize(..5)];
        let memory = Bytes((f64::from(cores) * between(rng, 1.0, 12.0) * 1e9) as u64);
        let seconds = 1200.0 * spread(rng, 1.0);
        let (serial, waiting) = (between(rng, 0.0, 0.6), between(rng, 0.0, 0.3));
        let busy = (f64::from(cores) * between(rng, 0.5, 1.0)).max(1.0);
        let mut task = Task {
            observed_on: self.types[0].0,
            memory,
            peak_cores: busy,
            cores: MilliCores::cores(u64::from(cores)),
            at_once: rng.u32(1..40),
            moved: Bytes((1e9 * spread(rng, 1.5)) as u64),
            arm: rng.f64() < 0.7,
            work: Work::default(),
            second_observation: None,
            demand: vec![
                (1.0, seconds * serial),
                (busy, seconds * (1.0 - serial - waiting).max(0.05) * busy),
            ],
            waiting: seconds * waiting,
            disk: Bytes((5e9 * spread(rng, 1.0)) as u64),
            second_thread: between(rng, 0.15, 0.45),
            crowding: between(rng, 0.0, 0.08),
            makers: [0u8; 3].map(|_| spread(rng, MAKER_SPREAD)),
        };
        let fitting: Vec<&(&'static TypeSpec, f64)> = self
            .types
            .iter()
            .filter(|(spec, _)| self.fits(&task, spec) && spec.vcpus <= 4 * cores.max(2))
            .collect();
        task.observed_on = fitting
            .get(rng.usize(..fitting.len().max(1)))
            .map_or(self.types[0].0, |t| t.0);
        task.work = self.observe(rng, &task);
        task
    }

    /// The observation of a probe, with noise: the phases on that machine while it is full.
    fn observe(&self, rng: &mut Rng, task: &Task) -> Work {
        let noise: f64 = (0..RUNS_PER_OBSERVATION)
            .map(|_| spread(rng, RUN_NOISE))
            .sum::<f64>()
            / f64::from(RUNS_PER_OBSERVATION);
        self.observed(task, task.observed_on, noise)
    }

    fn observed(&self, task: &Task, on: &TypeSpec, noise: f64) -> Work {
        let runs = task.runs_a_machine(on);
        let mut phases = vec![Phase {
            cores: MilliCores(0),
            wall: Duration::from_secs_f64(task.waiting * noise),
        }];
        for (cores, demand) in &task.demand {
            let rate = self.rate(task, on, *cores, runs);
            phases.push(Phase {
                cores: MilliCores((cores * 1000.0) as u64),
                wall: Duration::from_secs_f64(demand / rate * noise),
            });
        }
        Work {
            phases,
            disk: Some(task.disk),
            ..Work::default()
        }
    }

    /// Speeds from the user's own lake, learned from steps that ran on two families.
    fn lake(&mut self, rng: &mut Rng) -> Speeds {
        let mut observed = Vec::new();
        let mut second_observations = Vec::new();
        for (i, task) in self.tasks.iter().enumerate() {
            if rng.f64() > SHARE_ON_TWO_FAMILIES {
                continue;
            }
            let fitting: Vec<&(&'static TypeSpec, f64)> = self
                .types
                .iter()
                .filter(|(spec, _)| self.fits(task, spec))
                .collect();
            let Some(&&(other, _)) = fitting.get(rng.usize(..fitting.len().max(1))) else {
                continue;
            };
            let noise = spread(rng, RUN_NOISE / f64::from(RUNS_PER_OBSERVATION).sqrt());
            let truth = self.seconds(task, other) * noise;
            second_observations.push((i, other, self.observed(task, other, noise)));
            let offer = Offer {
                spec: other,
                region: &self.home,
                market: Market::OnDemand,
                per_hour: UsdPerHour::from_micros(1_000_000),
                zones: None,
            };
            let ranking = self.rank(task, [offer], &task.limits(false));
            let Some(predicted) = ranking.ranked.first() else {
                continue;
            };
            observed.push(Observed {
                from: Family::from_name(&task.observed_on.name),
                to: Family::from_name(&other.name),
                log_excess: (truth / predicted.wall.as_secs_f64()).ln(),
                crowding: crowded(task, other) - crowded(task, task.observed_on),
            });
        }
        for (i, other, work) in second_observations {
            self.tasks[i].second_observation = Some((other, work));
        }
        Speeds::learned(&observed)
    }

    /// Ebb's ranking of offers from the observations.
    pub(crate) fn rank<'a>(
        &self,
        task: &Task,
        offers: impl IntoIterator<Item = Offer<'a>>,
        limits: &Limits,
    ) -> Ranking<'a> {
        let first = (task.observed_on, &task.work);
        let too = task.second_observation.iter().map(|(on, work)| (*on, work));
        let observations = std::iter::once(first)
            .chain(too)
            .map(|(on, work)| ObservedTasks {
                work,
                on,
                among_others: task.runs_a_machine(on) > 1,
                runs: RUNS_PER_OBSERVATION,
            });
        let step = Step {
            seen: &observations.collect::<Vec<_>>(),
            cores: task.cores,
            memory: task.memory,
            at_once: task.at_once,
            home: &self.home,
            moved: Some(task.moved),
            committed: None,
        };
        rank(&step, offers, limits, &self.speeds)
    }

    /// All offers with their published values.
    pub(crate) fn offers(&self) -> impl Iterator<Item = Offer<'_>> {
        let catalogue = Catalogue::built_in();
        self.regions.iter().flat_map(move |region| {
            catalogue
                .types_in(region)
                .flat_map(move |(spec, per_hour)| {
                    let on_demand = Offer {
                        spec,
                        region,
                        market: Market::OnDemand,
                        per_hour,
                        zones: None,
                    };
                    let spot = self
                        .spot
                        .get(&(region.clone(), Family::from_name(&spec.name)));
                    let spot = spot.map(|spot| Offer {
                        market: Market::Spot(spot.published_interruptions),
                        per_hour: UsdPerHour::from_micros(
                            (per_hour.0.micros() as f64 * spot.part_of_list) as i64,
                        ),
                        ..on_demand
                    });
                    std::iter::once(on_demand).chain(spot)
                })
        })
    }

    pub(crate) fn on_demand_at_home(&self) -> impl Iterator<Item = Offer<'_>> {
        self.offers().filter(|offer| {
            offer.region == &self.home
                && offer.market == Market::OnDemand
                && self.speed_of.contains_key(&offer.spec.name)
        })
    }

    pub(crate) fn fits(&self, task: &Task, spec: &TypeSpec) -> bool {
        task.runs_on(spec)
            && u64::from(spec.vcpus) * 1000 >= task.cores.0
            && usable(spec.memory) >= task.memory
    }

    /// The lowest true cost of a run on any of these offers.
    pub(crate) fn best<'a>(&self, task: &Task, offers: impl Iterator<Item = Offer<'a>>) -> f64 {
        let known = |offer: &Offer<'_>| self.speed_of.contains_key(&offer.spec.name);
        offers
            .filter(|offer| known(offer) && self.fits(task, offer.spec))
            .map(|offer| self.truth(task, &offer))
            .fold(f64::INFINITY, f64::min)
    }

    /// The true cost of a run.
    pub(crate) fn truth(&self, task: &Task, offer: &Offer<'_>) -> f64 {
        let hours = self.seconds(task, offer.spec) / 3600.0;
        let family = (offer.region.clone(), Family::from_name(&offer.spec.name));
        let machine_hours = match offer.market {
            Market::OnDemand => hours,
            Market::Spot(_) => self.spot[&family].truth.hours_to_end(hours),
        };
        let moving = match offer.region == &self.home {
            true => 0.0,
            false => task.moved.0 as f64 / 1e9 * 0.02,
        };
        let per_hour = offer.per_hour.0.micros() as f64 / 1e6;
        per_hour * machine_hours / f64::from(task.runs_a_machine(offer.spec)) + moving
    }

    fn seconds(&self, task: &Task, spec: &TypeSpec) -> f64 {
        let runs = task.runs_a_machine(spec);
        let busy: f64 = task
            .demand
            .iter()
            .map(|(cores, demand)| demand / self.rate(task, spec, *cores, runs))
            .sum();
        let disk = spec.ebs_baseline_mbps.map_or(0.0, |mbps| {
            task.disk.0 as f64 * 8.0 * f64::from(runs) / (f64::from(mbps) * 1e6)
        });
        (busy + task.waiting).max(disk)
    }

    fn rate(&self, task: &Task, spec: &TypeSpec, busy: f64, runs: u32) -> f64 {
        let family = self.speed_of.get(&spec.name).copied();
        let loaded = family.unwrap_or(1.0) * task.makers[maker(spec)];
        let (vcpus, cores) = (
            f64::from(spec.vcpus),
            f64::from(spec.cores.unwrap_or(spec.vcpus)),
        );
        if runs > 1 {
            let share = vcpus / f64::from(runs);
            return loaded * busy.min(share) * (1.0 - task.crowding);
        }
        let threads = (vcpus / cores).max(1.0);
        let alone = loaded * threads / (1.0 + task.second_thread * (threads - 1.0));
        let second = (busy.min(vcpus) - cores).max(0.0);
        alone * (busy.min(cores) + task.second_thread * second)
    }
}

fn crowded(task: &Task, spec: &TypeSpec) -> f64 {
    f64::from(u8::from(task.runs_a_machine(spec) > 1))
}

impl Task {
    /// The same step, known only from its first machine.
    pub(crate) fn known_from_one(&self) -> Self {
        Self {
            second_observation: None,
            ..self.clone()
        }
    }

    pub(crate) fn limits(&self, spot: bool) -> Limits {
        let mut architectures = BTreeSet::from([Architecture::X86_64]);
        if self.arm {
            architectures.insert(Architecture::Arm64);
        }
        Limits {
            architectures,
            spot,
            ..Limits::default()
        }
    }

    pub(crate) fn runs_on(&self, spec: &TypeSpec) -> bool {
        self.arm || spec.architecture == Architecture::X86_64
    }

    fn runs_a_machine(&self, spec: &TypeSpec) -> u32 {
        let by_cores = u64::from(spec.vcpus) * 1000 / self.cores.0;
        let by_memory = usable(spec.memory).0 / self.memory.0.max(1);
        let runs = by_cores.min(by_memory).min(u64::from(self.at_once));
        u32::try_from(runs).unwrap_or(u32::MAX).max(1)
    }
}
