//! Pools of machine types for steps, as a compute environment or an Auto Scaling group uses them. A
//! pool has one region, one architecture and one market. Each type is large enough for every step
//! of the pool, because the platform may start any type.

use std::collections::{BTreeMap, BTreeSet};

use ebb_catalog::catalog::Catalogue;
use ebb_catalog::machine_type::{Architecture, TypeSpec};
use ebb_model::advice::group::{Fleet, GroupAdvice};
use ebb_model::advice::offer::Offered;
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::spot_wish::SPOT_TYPES;
use ebb_model::advice::step::StepAdvice;
use ebb_model::inventory::instance::Market;
use ebb_sizing::cheapest_type::usable;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::units::{Bytes, MilliCores};

/// The most types of one group.
///
/// Source: "Auto Scaling groups with multiple instance types", at most 40 overrides.
const MAX_TYPES: usize = 40;

/// Machine types of one group.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    pub(super) name: String,
    pub(super) architecture: Architecture,
    pub(super) market: Market,
    /// The cheapest type of each step first, then the alternatives.
    pub(super) types: Vec<&'a str>,
    /// The present machine types of these steps.
    pub(super) now: BTreeSet<&'a str>,
    /// Types and families that an environment may start now; empty if they are unknown.
    pub(super) allowed: Vec<&'a str>,
    pub(super) steps: usize,
    pub(super) origin: Origin,
}

impl<'a> Pool<'a> {
    /// The pool of a pipeline or an environment; `None` without recommended types.
    pub(super) fn of_group(group: &'a GroupAdvice) -> Option<Self> {
        let offered = group.offered();
        let best = offered.first()?;
        let architecture = architecture_of(best)?;
        let types = offered.iter();
        // An environment starts one kind of image.
        let types = types.filter(|fleet| architecture_of(fleet) == Some(architecture));
        let now = group.now.iter().map(|now| now.instance_type.as_str());
        Some(Self {
            name: group.name.clone(),
            architecture,
            market: best.market,
            types: types.map(|fleet| fleet.instance_type.as_str()).collect(),
            now: now.collect(),
            allowed: group.allowed.iter().map(String::as_str).collect(),
            steps: group.steps.len(),
            origin: group.origin,
        })
    }

    pub(super) fn is_spot(&self) -> bool {
        self.market == Market::Spot
    }

    /// The architecture, if it differs from that of the present machines.
    pub(super) fn new_architecture(&self) -> Option<&'static str> {
        let known = self.now.iter().filter_map(|name| spec(name));
        let differs = known
            .into_iter()
            .any(|now| now.architecture != self.architecture);
        differs.then(|| named(self.architecture))
    }

    /// Its purpose in one line.
    pub(super) fn description(&self) -> String {
        match self.steps {
            1 => format!("{}: each type holds its step", self.name),
            steps => format!(
                "{}: each type holds the largest of its {steps} steps",
                self.name
            ),
        }
    }
}

/// All pools for steps with recommended types. Architectures and markets have separate pools, and
/// so do steps for which no common type is large enough.
pub(super) fn pools(steps: &[StepAdvice]) -> Vec<Pool<'_>> {
    let mut by_key: BTreeMap<(&str, Architecture, Market), Vec<Member<'_>>> = BTreeMap::new();
    for member in steps.iter().filter_map(Member::new) {
        let best = member.offers[0].offer;
        let key = (
            best.region.as_str(),
            member.offers[0].architecture,
            best.market,
        );
        by_key.entry(key).or_default().push(member);
    }
    let mut pools = Vec::new();
    for ((region, architecture, market), mut members) in by_key {
        members.sort_by(|a, b| {
            let size = |one: &Member<'_>| (one.need.cores, one.need.memory);
            (size(b), &a.step.step).cmp(&(size(a), &b.step.step))
        });
        let spot = if market == Market::Spot { "-spot" } else { "" };
        let name = format!("tuned-{region}-{}{spot}", named(architecture));
        for (number, together) in grouped(members).into_iter().enumerate() {
            let name = match number {
                0 => name.clone(),
                more => format!("{name}-{}", more + 1),
            };
            pools.push(together.pool(name, architecture, market));
        }
    }
    pools
}

/// A step with recommended types.
struct Member<'a> {
    step: &'a StepAdvice,
    need: SizedRequest,
    /// The types with the architecture of the best one.
    offers: Vec<SizedOffer<'a>>,
}

#[derive(Clone, Copy)]
struct SizedOffer<'a> {
    offer: &'a Offered,
    architecture: Architecture,
    vcpus: u32,
    memory: Bytes,
}

impl<'a> SizedOffer<'a> {
    /// Reports of earlier versions contain no size and name only built-in types.
    fn new(offer: &'a Offered) -> Option<Self> {
        let built_in = spec(offer.instance_type.as_str());
        Some(Self {
            offer,
            architecture: offer
                .architecture
                .or(built_in.map(|spec| spec.architecture))?,
            vcpus: offer.vcpus.or(built_in.map(|spec| spec.vcpus))?,
            memory: offer.memory.or(built_in.map(|spec| spec.memory))?,
        })
    }

    fn holds(&self, need: SizedRequest) -> bool {
        let vcpus = MilliCores::cores(self.vcpus.into());
        need.cores.is_some_and(|cores| cores <= vcpus)
            && need
                .memory
                .is_some_and(|memory| memory <= usable(self.memory))
    }
}

impl<'a> Member<'a> {
    fn new(step: &'a StepAdvice) -> Option<Self> {
        let need = step.should_ask;
        let offers = step.offers.offered().iter().filter_map(SizedOffer::new);
        let mut offers: Vec<_> = offers.filter(|offer| offer.holds(need)).collect();
        let architecture = offers.first()?.architecture;
        offers.retain(|offer| offer.architecture == architecture);
        Some(Self { step, need, offers })
    }
}

/// Steps that share recommended types.
struct Together<'a> {
    members: Vec<Member<'a>>,
    /// The largest need of cores and the largest need of memory.
    need: SizedRequest,
}

impl<'a> Together<'a> {
    fn need_with(&self, member: &Member<'a>) -> SizedRequest {
        SizedRequest {
            cores: self.need.cores.max(member.need.cores),
            memory: self.need.memory.max(member.need.memory),
        }
    }

    /// Whether enough recommended types are large enough for these steps and another one.
    fn may_take(&self, member: &Member<'a>) -> bool {
        let need = self.need_with(member);
        let least = match member.offers[0].offer.market {
            Market::Spot => SPOT_TYPES,
            Market::OnDemand | Market::Reserved => 1,
        };
        let offers = self.members.iter().chain([member]);
        let holding = offers.flat_map(|one| &one.offers);
        let holding = holding.filter(|offer| offer.holds(need));
        let names: BTreeSet<&str> = holding
            .map(|offer| offer.offer.instance_type.as_str())
            .collect();
        names.len() >= least
    }

    fn take(&mut self, member: Member<'a>) {
        self.need = self.need_with(&member);
        self.members.push(member);
    }

    /// Types that are large enough for all steps. They are taken rank by rank, so that the limit
    /// does not remove the best type of a step.
    fn types(&self) -> Vec<&'a str> {
        let ranks = self.members.iter().map(|member| member.offers.len()).max();
        let mut types = Vec::new();
        for rank in 0..ranks.unwrap_or(0) {
            let offers = self.members.iter();
            for offer in offers.filter_map(|member| member.offers.get(rank)) {
                let name = offer.offer.instance_type.as_str();
                if offer.holds(self.need) && !types.contains(&name) && types.len() < MAX_TYPES {
                    types.push(name);
                }
            }
        }
        types
    }

    fn pool(&self, name: String, architecture: Architecture, market: Market) -> Pool<'a> {
        let origins = self.members.iter().map(|member| member.step.origin);
        let machines = self.members.iter().flat_map(|member| &member.step.machines);
        Pool {
            name,
            architecture,
            market,
            types: self.types(),
            now: machines.map(InstanceType::as_str).collect(),
            allowed: Vec::new(),
            steps: self.members.len(),
            origin: origins.max().unwrap_or(Origin::Measured),
        }
    }
}

/// The largest steps come first; each joins the first suitable group.
fn grouped(members: Vec<Member<'_>>) -> Vec<Together<'_>> {
    let mut groups: Vec<Together<'_>> = Vec::new();
    for member in members {
        match groups.iter_mut().find(|group| group.may_take(&member)) {
            Some(group) => group.take(member),
            None => groups.push(Together {
                need: member.need,
                members: vec![member],
            }),
        }
    }
    groups
}

fn spec(name: &str) -> Option<&'static TypeSpec> {
    Catalogue::built_in().spec(&InstanceType::new(name).ok()?)
}

/// Reports of earlier versions contain no architecture and name only built-in types.
fn architecture_of(fleet: &Fleet) -> Option<Architecture> {
    let built_in = || spec(fleet.instance_type.as_str());
    fleet
        .architecture
        .or_else(|| Some(built_in()?.architecture))
}

fn named(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "x86_64",
        Architecture::Arm64 => "arm64",
    }
}
