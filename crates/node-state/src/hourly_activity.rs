//! What each node did by the hour, for a fortnight: what a day's state is too short
//! to tell, recurring use above all. It is kept apart from the state, so that the
//! state stays small.
//!
//! Like the state it is a semilattice: an hour is two sets and a greatest value, so
//! order, repeats and lateness change nothing.

pub mod hour;
pub mod packed;
pub mod rests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ebb_telemetry::activity;
use ebb_telemetry::activity::{Activity, ActivityPolicy};
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::Heartbeat;
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hourly_activity::hour::{Hour, PEAK_PERCENT, SLOTS, part};
use crate::retention::take_oldest;

/// Hours kept a node, the newest first of all: a fortnight, so that every hour of
/// the week was there twice, and the age up to which anything is accepted.
pub const KEPT_HOURS: usize = 14 * 24;

/// Hours of a week.
pub const WEEK_HOURS: usize = 7 * 24;

const SLOT_SECONDS: i64 = 3600 / SLOTS as i64;

/// One hour of the week, over the weeks that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeekHour {
    /// Weeks in which it was seen at all.
    pub weeks_seen: u8,
    /// Weeks in which the workload was active in it.
    pub weeks_active: u8,
    seen: u32,
    active: u32,
}

impl WeekHour {
    /// The share of its seen slots in which the workload was active; `None` when
    /// nothing was seen.
    pub fn active(self) -> Option<Share> {
        part(self.active, self.seen)
    }
}

/// The hour of the week of a time, in UTC; 0 begins with Monday.
pub fn hour_of_week(at: Timestamp) -> usize {
    // 1970 began on a Thursday.
    let hour = (hour_of(at.as_second()) + 3 * 24).rem_euclid(WEEK_HOURS as i64);
    usize::try_from(hour).unwrap_or(0)
}

/// The hours of one node, at most [`KEPT_HOURS`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeHours {
    /// The first kept hour since 1970.
    #[serde(deserialize_with = "packed::hour_number")]
    first: i64,
    /// One after the other from `first` on; neither end is empty.
    #[serde(with = "packed")]
    hours: Vec<Hour>,
}

impl NodeHours {
    /// Takes in one heartbeat; nothing where it did not see what it is there to see.
    pub fn fold(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        let h = &placed.heartbeat;
        let Some(start) = placed.start().filter(|_| h.was_seen()) else {
            return;
        };
        let activity = activity::of(h, policy);
        let window = Window {
            from: start,
            to: placed.end,
        };
        self.mark(window, activity, peak_class(h));
    }

    /// Takes in an interval of which metrics show all that a node does.
    pub fn fold_metric(&mut self, window: Window, activity: Activity) {
        self.mark(window, activity, None);
    }

    /// Marks the slots whose middle is within `window` as seen, and as active if the
    /// interval was.
    fn mark(&mut self, window: Window, activity: Activity, peak: Option<u32>) {
        let is_active = activity != Activity::Quiet;
        let (start, end) = (window.from.as_second(), window.to.as_second());
        let half = (end - start).min(SLOT_SECONDS) / 2;
        let last = (end - half).div_euclid(SLOT_SECONDS);
        let oldest = last - KEPT_HOURS as i64 * i64::from(SLOTS);
        let first = (start + half).div_euclid(SLOT_SECONDS).max(oldest);
        // The last first: then there is room for all.
        for slot in (first..=last).rev() {
            let within = u32::try_from(slot.rem_euclid(SLOTS.into())).unwrap_or(0);
            let hour = slot.div_euclid(SLOTS.into());
            self.put(hour, Hour::of(within, is_active, peak));
        }
    }

    /// Takes in what another history of the same node knows.
    pub fn absorb(&mut self, other: &Self) {
        for (hour, known) in other.numbered().rev() {
            if known != Hour::default() {
                self.put(hour, known);
            }
        }
    }

    /// Its hours with their begins, oldest first; those of which nothing is known
    /// lie between as unseen ones.
    pub fn hours(&self) -> impl DoubleEndedIterator<Item = (Timestamp, Hour)> {
        self.numbered().filter_map(|(number, hour)| {
            let begin = Timestamp::from_second(number * 3600).ok()?;
            Some((begin, hour))
        })
    }

    /// The hour that holds `at`; an unseen one where nothing is known of it.
    pub fn at(&self, at: Timestamp) -> Hour {
        let index = usize::try_from(hour_of(at.as_second()) - self.first).ok();
        let known = index.and_then(|index| self.hours.get(index));
        known.copied().unwrap_or_default()
    }

    /// The slots of five minutes in which the workload was active, of the hours that a
    /// window touches.
    pub fn worked(&self, window: Window) -> impl Iterator<Item = Window> {
        let index = |at: Timestamp, beyond: i64| {
            let index = hour_of(at.as_second()) + beyond - self.first;
            usize::try_from(index).unwrap_or(0).min(self.hours.len())
        };
        let (first, last) = (index(window.from, 0), index(window.to, 1));
        let within = self.hours.get(first..last).unwrap_or_default().iter();
        within.enumerate().flat_map(move |(i, hour)| {
            let number = self.first + (first + i) as i64;
            let active = (0..SLOTS).filter(move |slot| hour.active_slots() >> slot & 1 == 1);
            active.filter_map(move |slot| {
                let begin = number * 3600 + i64::from(slot) * SLOT_SECONDS;
                Some(Window {
                    from: Timestamp::from_second(begin).ok()?,
                    to: Timestamp::from_second(begin + SLOT_SECONDS).ok()?,
                })
            })
        })
    }

    /// The share of the slots of five minutes within a window in which the probe saw what it
    /// is there to see; `None` where no whole slot lies in it, or it begins before what is
    /// kept.
    pub fn seen_in(&self, window: Window) -> Option<Share> {
        let first = (window.from.as_second() + SLOT_SECONDS - 1).div_euclid(SLOT_SECONDS);
        let end = window.to.as_second().div_euclid(SLOT_SECONDS);
        // Windows come from nodes: no more than what is kept is ever walked.
        if first < self.first * i64::from(SLOTS) {
            return None;
        }
        let kept_end = (self.newest() + 1) * i64::from(SLOTS);
        let is_seen = |slot: &i64| {
            let index = usize::try_from(slot.div_euclid(SLOTS.into()) - self.first).ok();
            let hour = index.and_then(|index| self.hours.get(index).copied());
            let within = u32::try_from(slot.rem_euclid(SLOTS.into())).unwrap_or(0);
            hour.is_some_and(|hour| hour.seen_slots() >> within & 1 == 1)
        };
        let seen = (first..end.min(kept_end)).filter(is_seen).count();
        let all = u64::try_from(end - first).ok()?;
        Share::of(u64::try_from(seen).ok()?, all)
    }

    /// The hours of the week in UTC, Monday's first one first.
    pub fn by_hour_of_week(&self) -> [WeekHour; WEEK_HOURS] {
        let mut week = [WeekHour::default(); WEEK_HOURS];
        for (begin, hour) in self.hours() {
            let sum = &mut week[hour_of_week(begin)];
            let (seen, active) = (
                hour.seen_slots().count_ones(),
                hour.active_slots().count_ones(),
            );
            sum.weeks_seen += u8::from(seen > 0);
            sum.weeks_active += u8::from(active > 0);
            sum.seen += seen;
            sum.active += active;
        }
        week
    }

    fn numbered(&self) -> impl DoubleEndedIterator<Item = (i64, Hour)> + ExactSizeIterator {
        let first = self.first;
        let hours = self.hours.iter().enumerate();
        hours.map(move |(i, hour)| (first + i as i64, *hour))
    }

    fn put(&mut self, number: i64, hour: Hour) {
        let newest = self.newest();
        if self.hours.is_empty() || number > newest {
            self.append(number, hour);
        } else if number <= newest - KEPT_HOURS as i64 {
            // Too old to be kept.
        } else if number < self.first {
            let before = usize::try_from(self.first - number).unwrap_or(0);
            self.hours.splice(0..0, vec![Hour::default(); before]);
            self.hours[0] = hour;
            self.first = number;
        } else {
            let known = usize::try_from(number - self.first).unwrap_or(0);
            self.hours[known] = self.hours[known].join(hour);
        }
    }

    /// A newer hour than all: what it makes too old goes.
    fn append(&mut self, number: i64, hour: Hour) {
        self.forget_before(number - KEPT_HOURS as i64 + 1);
        if self.hours.is_empty() {
            self.first = number;
        }
        let before = usize::try_from(number - self.first).unwrap_or(0);
        self.hours.resize(before, Hour::default());
        self.hours.push(hour);
    }

    fn forget_before(&mut self, oldest: i64) {
        let old = usize::try_from(oldest.saturating_sub(self.first)).unwrap_or(0);
        let old = old.min(self.hours.len());
        let unseen = self.hours[old..].iter();
        let unseen = unseen.take_while(|hour| **hour == Hour::default()).count();
        self.hours.drain(..old + unseen);
        self.first += (old + unseen) as i64;
    }

    fn newest(&self) -> i64 {
        self.first + self.hours.len() as i64 - 1
    }
}

/// The hours of all nodes of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FleetHours {
    /// By node.
    pub nodes: BTreeMap<NodeId, NodeHours>,
}

impl FleetHours {
    /// Takes in heartbeats.
    pub fn fold_heartbeats(&mut self, placed: &[Placed], policy: &ActivityPolicy) {
        for of_one in placed.chunk_by(|a, b| a.node == b.node) {
            let Some(first) = of_one.first() else {
                continue;
            };
            let fold = |hours: &mut NodeHours| of_one.iter().for_each(|h| hours.fold(h, policy));
            match self.nodes.get_mut(&first.node) {
                Some(known) => fold(known),
                None => fold(self.nodes.entry(first.node.clone()).or_default()),
            }
        }
    }

    /// Takes in one heartbeat.
    pub fn fold_heartbeat(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        self.fold_heartbeats(std::slice::from_ref(placed), policy);
    }

    /// Drops what is older than [`KEPT_HOURS`] before the newest hour of any node, so
    /// that nodes which are gone do not stay for ever. Dropping before or after
    /// merging comes to the same.
    pub fn forget_old(&mut self) {
        let newest = self.nodes.values().map(NodeHours::newest).max();
        let oldest = newest.map_or(i64::MIN, |newest| newest - KEPT_HOURS as i64 + 1);
        self.nodes.retain(|_, hours| {
            hours.forget_before(oldest);
            !hours.hours.is_empty()
        });
    }

    /// Keeps the `max` nodes that were seen last, for want of room; tells how many
    /// others went.
    pub fn keep_newest(&mut self, max: usize) -> usize {
        take_oldest(&mut self.nodes, max, NodeHours::newest).len()
    }

    /// Keeps the nodes of one shard.
    pub fn keep_shard(&mut self, shard: Shard) {
        self.nodes.retain(|id, _| shard.holds(id));
    }

    /// Joins two; see the module.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        for (node, hours) in other.nodes {
            self.nodes.entry(node).or_default().absorb(&hours);
        }
        self
    }
}

fn hour_of(second: i64) -> i64 {
    second.div_euclid(3600)
}

/// The class of all CPU that an interval used, counted from 1.
fn peak_class(h: &Heartbeat) -> Option<u32> {
    let used = h.workload.cpu?.saturating_add(h.background.cpu?);
    let cores = used.cores_over(h.end.since(h.start)?)?;
    let share = Share::of(cores.0, h.hardware.cores.0)?;
    let class = PEAK_PERCENT.partition_point(|percent| percent * 10_000 < share.ppm());
    u32::try_from(class.min(PEAK_PERCENT.len() - 1) + 1).ok()
}
