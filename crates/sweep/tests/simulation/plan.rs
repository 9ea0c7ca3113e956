//! The events of a week, drawn from a seed: how nodes work, when sweeps run, and the faults.

use fastrand::Rng;

use crate::ports::{Fault, Moment};

/// Hours of a week.
pub(crate) const HOURS: u32 = 7 * 24;

/// The most nodes of a week.
const MAX_NODES: u32 = 3;

/// The most shards of a week.
const MAX_SHARDS: u16 = 3;

/// One sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SweepPlan {
    /// The shard; the remainder of a division by the number of shards counts.
    pub(crate) shard: u16,
    pub(crate) fault: Fault,
}

/// Events in addition to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Sweeps one after the other.
    Sweeps(Vec<SweepPlan>),
    /// Sweeps at the same time; the seed chooses which continues at each call.
    SweepsAtOnce {
        sweeps: Vec<SweepPlan>,
        seed: u64,
        /// Every second sweep works with this number of shards, which is an earlier or later
        /// number.
        other_shards: Option<u16>,
    },
    /// The probe restarts at the end of each of these hours. The interval before the last restart
    /// is lost.
    ProbeRestarts { node: u32, hours: u32 },
    /// The machine is down for this number of hours; its spool stays.
    Reboot { node: u32, down_hours: u32 },
    /// The node has no network for this number of hours.
    Offline { node: u32, hours: u32 },
    /// The node's wall clock jumps.
    ClockJump { node: u32, seconds: i64 },
    /// The next message arrives after this delay.
    SlowNetwork { node: u32, seconds: u64 },
    /// The next message arrives, but the probe gets no answer.
    LostAnswer { node: u32 },
    /// The queue shows the next message this number of hours later.
    QueueDelay { node: u32, hours: u32 },
    /// The queue shows the next message twice, the second time this number of hours later.
    QueueRepeat { node: u32, hours: u32 },
    /// Half of the next object of steps is written, and the whole object later.
    TornUpload { node: u32 },
    /// A message that no probe would write.
    Garbage { node: u32 },
    /// The number of shards changes; probes learn of it this number of hours later.
    Reshard { of: u16, known_after_hours: u32 },
}

/// One event and the hour that it happens in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) hour: u32,
    pub(crate) event: Event,
}

/// A week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// For each node, the hours in which it works.
    pub(crate) works: Vec<Vec<bool>>,
    pub(crate) shards: u16,
    /// Messages of one batch.
    pub(crate) batch_messages: usize,
    /// Rows that one read of the lake returns.
    pub(crate) lake_rows: usize,
    pub(crate) events: Vec<Timed>,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let nodes = rng.u32(1..=MAX_NODES);
        let mut plan = Self {
            seed,
            works: (0..nodes).map(|_| work_hours(&mut rng)).collect(),
            shards: if rng.u32(0..3) == 0 {
                rng.u16(2..=MAX_SHARDS)
            } else {
                1
            },
            batch_messages: rng.usize(1..=40),
            lake_rows: if rng.bool() { 5 } else { 200_000 },
            events: Vec::new(),
        };
        plan.add_sweeps(&mut rng);
        plan.add_faults(&mut rng, nodes);
        plan.events.sort_by_key(|timed| timed.hour);
        plan
    }

    /// Adds sweeps of all shards several times a day; more than half of them have no fault.
    fn add_sweeps(&mut self, rng: &mut Rng) {
        let mut hour = rng.u32(1..8);
        while hour < HOURS {
            let count = rng.u16(1..=3);
            let mut sweeps: Vec<SweepPlan> = (0..count)
                .map(|shard| SweepPlan {
                    shard,
                    fault: fault(rng),
                })
                .collect();
            rng.shuffle(&mut sweeps);
            let event = match rng.u32(0..4) {
                0 => Event::SweepsAtOnce {
                    sweeps,
                    seed: rng.u64(..),
                    other_shards: (rng.u32(0..3) == 0).then(|| rng.u16(1..=MAX_SHARDS)),
                },
                _ => {
                    // With one shard, more sweeps only repeat the first.
                    sweeps.truncate(usize::from(self.shards.max(1)));
                    Event::Sweeps(sweeps)
                }
            };
            self.events.push(Timed { hour, event });
            hour += rng.u32(8..28);
        }
    }

    fn add_faults(&mut self, rng: &mut Rng, nodes: u32) {
        for _ in 0..rng.u32(0..16) {
            let node = rng.u32(0..nodes);
            let event = match rng.u32(0..12) {
                0 | 1 => Event::ProbeRestarts {
                    node,
                    hours: if rng.u32(0..3) == 0 {
                        rng.u32(70..HOURS)
                    } else {
                        rng.u32(1..4)
                    },
                },
                2 => Event::Reboot {
                    node,
                    down_hours: rng.u32(0..6),
                },
                3 => Event::Offline {
                    node,
                    hours: rng.u32(1..60),
                },
                4 => Event::ClockJump {
                    node,
                    seconds: rng.i64(-90_000..90_000),
                },
                5 => Event::SlowNetwork {
                    node,
                    seconds: rng.u64(1..=120),
                },
                6 => Event::LostAnswer { node },
                7 => Event::QueueDelay {
                    node,
                    hours: rng.u32(1..80),
                },
                8 => Event::QueueRepeat {
                    node,
                    hours: rng.u32(1..80),
                },
                9 => Event::TornUpload { node },
                10 => Event::Garbage { node },
                _ => Event::Reshard {
                    of: rng.u16(1..=MAX_SHARDS),
                    known_after_hours: rng.u32(0..20),
                },
            };
            let hour = rng.u32(0..HOURS);
            self.events.push(Timed { hour, event });
        }
    }
}

/// Stretches of work and of idle time.
fn work_hours(rng: &mut Rng) -> Vec<bool> {
    let mut hours = Vec::new();
    let mut works = rng.bool();
    while hours.len() < HOURS as usize {
        let stretch = if works {
            rng.usize(1..12)
        } else {
            rng.usize(1..50)
        };
        hours.extend(std::iter::repeat_n(works, stretch));
        works = !works;
    }
    hours.truncate(HOURS as usize);
    hours
}

fn fault(rng: &mut Rng) -> Fault {
    let moment = match rng.u32(0..3) {
        0 => Moment::Before,
        1 => Moment::During,
        _ => Moment::After,
    };
    match rng.u32(0..40) {
        0..=13 => Fault::Crash {
            call: rng.u32(0..60),
            moment,
        },
        14..=17 => Fault::Throttle {
            call: rng.u32(0..40),
            calls: rng.u32(1..6),
            moment,
        },
        18 => Fault::ChannelsDown,
        _ => Fault::None,
    }
}
