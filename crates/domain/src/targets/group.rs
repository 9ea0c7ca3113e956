//! What the steps of a pipeline or an environment would cost together, by a replay of
//! their runs.

mod seen;
mod then;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::gather::Group;
use super::{GroupAdvice, Member, Together};
use crate::finding::{Level, Window};
use crate::fleet::SpotScore;
use crate::heartbeat::Origin;
use crate::judge::{Facts, labelled};
use crate::placement::pack::{Packed, Room, Wanted};
use crate::profile::advice::should_ask;
use crate::profile::gather::{Profiled, Profiles};
use crate::profile::most_at_once;
use crate::profile::place::{Basis, Placing, SPOT_TYPES};
use crate::sizing::SizedRequest;
use crate::units::{Bytes, MilliCores, Usd};

use seen::Seen;
use then::Then;

/// A replay that is off by more than this factor does not describe what the platform
/// does, and so no saving is told by it.
const FAR_OFF: f64 = 2.0;

/// What a run takes up of a machine.
type Size = (MilliCores, Bytes);

/// A step of the group.
struct Step<'p, 'a> {
    profiled: &'p Profiled<'a>,
    member: Member,
    /// What its runs are placed by now; `None` where that is not known.
    now: Option<Size>,
    /// The same with what it should ask for.
    then: Option<Size>,
}

/// What is looked at together.
struct Looked<'g, 'p, 'a> {
    group: &'g Group<'p, 'a>,
    steps: Vec<Step<'p, 'a>>,
    /// The step of each run.
    step_of: Vec<usize>,
    /// The most of its runs at one time.
    at_once: u32,
    /// How long a machine is kept when nothing runs on it.
    kept: Duration,
}

/// Advises on a group; `None` for one without runs. `room` is for how many more steps
/// offers may be looked for.
pub(super) fn advise(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    group: &Group<'_, '_>,
    room: &mut usize,
) -> Option<GroupAdvice> {
    let looked = Looked::at(facts, group);
    let mut told = looked.told()?;
    told.list_as_of = facts.catalogue.prices_as_of(&told.region);
    told.refused = fleets(facts, profiles, (&looked, room), &mut told).err();
    Some(told)
}

/// Fills in what the machines are and would be; errs with the reason why no more is
/// told.
fn fleets(
    facts: &Facts<'_>,
    profiles: &Profiles<'_>,
    (looked, room): (&Looked<'_, '_, '_>, &mut usize),
    told: &mut GroupAdvice,
) -> Result<(), String> {
    let unknown = looked
        .steps
        .iter()
        .find(|s| s.now.is_none() || s.then.is_none());
    if let Some(step) = unknown {
        return Err(format!(
            "how many cores and how much memory {} asks for or needs is not known",
            step.member.step
        ));
    }
    let seen = Seen::of(facts, looked)?;
    told.now = Some(seen.fleet.clone());
    if looked.steps.len() > *room {
        return Err("the report has no room for offers of so many steps".to_owned());
    }
    *room -= looked.steps.len();
    let factor = seen.by_replayed(looked);
    told.seen_by_replayed_ppm = factor.map(|factor| (factor * 1e6).round() as u32);
    let placing = Placing::of(facts, profiles);
    let then = Then {
        placing: &placing,
        looked,
        seen: &seen,
        factor: factor.unwrap_or(1.0),
    };
    told.resized = then.resized();
    let offers = then.offers();
    (told.offers, told.spot) = (offers.on_demand, offers.spot);
    let markets = &facts.inventory.markets;
    told.spot_score = told.spot_wish().and_then(|wish| wish.told(markets));
    told.confidence = confidence(told, factor);
    let Some(best) = told.offered().first() else {
        return Err(match told.is_on_spot() {
            true => format!(
                "it runs on spot, and spot prices are known for fewer than {SPOT_TYPES} types that \
                 hold all of its steps"
            ),
            false => "no one type is known to hold all of its steps".to_owned(),
        });
    };
    let saved = seen.paid.map(|paid| paid - best.usd);
    let close = factor.is_some_and(|factor| (1.0 / FAR_OFF..=FAR_OFF).contains(&factor));
    match (saved, close) {
        (None, _) => Err("what its machines really cost is not known".to_owned()),
        (_, false) => Err(
            "a replay of its runs comes to other machine hours than were seen, so no saving is told"
                .to_owned(),
        ),
        (Some(saved), true) => {
            told.saving_a_month = Some(a_month(
                saved,
                Window {
                    from: told.from,
                    to: facts.now,
                },
            ));
            Ok(())
        }
    }
}

/// If its runs come as often as since the first.
fn a_month(saved: Usd, known: Window) -> Usd {
    Usd::from_micros((saved.micros() as f64 * known.times_a_month()).round() as i64)
}

/// By what the times rest on, how well the replay meets what was seen, whether every step's
/// risk can be told, and what AWS says of the machines.
fn confidence(told: &GroupAdvice, factor: Option<f64>) -> Level {
    if told.spot_score.as_ref().is_some_and(SpotScore::is_low) {
        return Level::Low;
    }
    let by_time = match told.offered().first().and_then(|best| best.basis) {
        Some(Basis::Observed) => Level::High,
        Some(Basis::Learned) => Level::Medium,
        Some(Basis::Published) | None => Level::Low,
    };
    let by_replay = match factor {
        Some(factor) if (0.8..=1.25).contains(&factor) => Level::High,
        Some(factor) if (1.0 / FAR_OFF..=FAR_OFF).contains(&factor) => Level::Medium,
        _ => Level::Low,
    };
    let by_samples = match told.steps.iter().all(|step| step.samples_needed == 0) {
        true => Level::High,
        false => Level::Medium,
    };
    by_time.min(by_replay).min(by_samples)
}

impl<'g, 'p, 'a> Looked<'g, 'p, 'a> {
    fn at(facts: &Facts<'_>, group: &'g Group<'p, 'a>) -> Self {
        let mut walls: BTreeMap<&str, (u32, Duration, &'p Profiled<'a>)> = BTreeMap::new();
        for run in &group.runs {
            let seen = walls.entry(run.step);
            let seen = seen.or_insert((0, Duration::ZERO, run.profiled));
            seen.0 += 1;
            seen.1 += run.run.wall();
        }
        let mut steps: Vec<Step<'p, 'a>> = walls
            .into_iter()
            .map(|(name, (runs, wall, profiled))| Step::of(facts, name, (runs, wall), profiled))
            .collect();
        steps.sort_by(|a, b| {
            let (a, b) = (&a.member, &b.member);
            (b.wall, &a.step).cmp(&(a.wall, &b.step))
        });
        let by_name: BTreeMap<&str, usize> = (steps.iter().enumerate())
            .map(|(at, step)| (step.member.step.as_str(), at))
            .collect();
        let step_of = group.runs.iter();
        let step_of = step_of.filter_map(|run| by_name.get(run.step).copied());
        let minutes = group.environment.and_then(|e| e.scale_down_delay_minutes);
        Self {
            step_of: step_of.collect(),
            at_once: at_once(group),
            group,
            steps,
            kept: Duration::from_secs(60 * u64::from(minutes.unwrap_or(0))),
        }
    }

    /// What is known before anything is reckoned; `None` for a group without runs.
    fn told(&self) -> Option<GroupAdvice> {
        let runs = || self.group.runs.iter().map(|run| run.run);
        let newest = runs().max_by_key(|run| run.step.observed_at)?;
        let machines: BTreeSet<_> = runs().map(|run| &run.instance.id).collect();
        let labels = runs().map(|run| run.step.origin.max(labelled(&run.instance.tags)));
        let environment = self.group.environment;
        Some(GroupAdvice {
            name: self.group.name.clone(),
            region: self.group.region.clone(),
            account: self.group.account.clone(),
            owner: newest.owner(),
            origin: labels.max().unwrap_or(Origin::Measured),
            from: runs().map(|run| run.step.started_at).min()?,
            to: newest.step.observed_at,
            runs: count(self.group.runs.len()),
            steps: self.steps.iter().map(|step| step.member.clone()).collect(),
            allowed: environment.map_or_else(Vec::new, |e| e.instance_types.clone()),
            allocation: environment.and_then(|e| e.allocation.clone()),
            now: None,
            resized: None,
            offers: Vec::new(),
            spot: Vec::new(),
            spot_score: None,
            saving_a_month: None,
            seen_by_replayed_ppm: None,
            list_as_of: None,
            confidence: Level::Low,
            assumed: assumed(machines.len()),
            refused: None,
        })
    }

    /// The runs as they want a place, each so large and so long.
    fn wanted(
        &self,
        size: impl Fn(&Step<'p, 'a>) -> Option<Size>,
        wall: impl Fn(usize, usize) -> Duration,
    ) -> Vec<Wanted> {
        let from = self.group.runs.first().map(|run| run.run.step.started_at);
        let all = self.group.runs.iter().zip(&self.step_of).enumerate();
        let wanted = all.filter_map(|(at, (run, step))| {
            let (cores, memory) = size(self.steps.get(*step)?)?;
            let since = run.run.step.started_at.duration_since(from?);
            Some(Wanted {
                step: *step,
                at: Duration::try_from(since).unwrap_or_default(),
                wall: wall(at, *step),
                cores,
                memory,
            })
        });
        wanted.collect()
    }

    fn room(&self, spec: &crate::catalogue::TypeSpec) -> Room {
        Room {
            cores: MilliCores::cores(spec.vcpus.into()),
            memory: crate::placement::usable(spec.memory),
            kept: self.kept,
        }
    }

    /// The runs of the fullest machine, by the names of their steps.
    fn together(&self, packed: &Packed) -> Vec<Together> {
        let fullest = packed.fullest.iter();
        let named = fullest.filter_map(|(step, runs)| {
            let step = self.steps.get(*step)?.member.step.clone();
            Some(Together { step, runs: *runs })
        });
        named.collect()
    }
}

impl<'p, 'a> Step<'p, 'a> {
    fn of(
        facts: &Facts<'_>,
        name: &str,
        (runs, wall): (u32, Duration),
        profiled: &'p Profiled<'a>,
    ) -> Self {
        let asks = profiled.requested();
        let need = &profiled.need;
        let (should, risk) = should_ask(asks, need, profiled.profile.oom_kills());
        // Of one that asks for nothing, what it used says how it could be placed.
        let size = |request: SizedRequest| {
            let cores = request.cores.or(need.cores);
            cores.zip(request.memory.or(need.shrink_to))
        };
        let confident = facts.policy.sizing.confident_samples;
        let samples = profiled.profile.samples(facts.policy).len();
        Self {
            profiled,
            now: size(asks),
            then: size(should),
            member: Member {
                step: name.to_owned(),
                runs,
                wall,
                samples_needed: risk
                    .samples_needed
                    .max(confident.saturating_sub(count(samples))),
                asks,
                should_ask: should,
            },
        }
    }
}

fn at_once(group: &Group<'_, '_>) -> u32 {
    let runs = group.runs.iter().map(|run| run.run.step);
    most_at_once(runs.map(|run| (run.started_at, run.observed_at))).max(1)
}

fn assumed(machines: usize) -> Vec<String> {
    vec![
        "runs begin when they began, and are placed as ECS packs them (binpack)".to_owned(),
        format!(
            "machines that were seen ({machines}) count for as long as these runs were on them"
        ),
        "list prices are paid for what is offered".to_owned(),
    ]
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
