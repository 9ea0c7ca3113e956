//! The hourly activity of each node over 15 days. The state of a node covers only about a day,
//! which is too short to find recurring use. The hours are separate from the state, so that the
//! state stays small.
//!
//! Like the state, the hours form a semilattice. An hour is two sets and a maximum, so that order,
//! repeats and delays change nothing.

pub mod hour;
pub mod idle_periods;
pub mod packed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

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

use crate::hourly_activity::hour::{Hour, SLOTS, part};
use crate::retention::take_oldest;

/// Hours stored for each node, the newest ones: the current day, and the 14 days before it that a
/// bill contains. The cost of a day that is partly forgotten would count as time without a probe.
pub const KEPT_HOURS: usize = FORTNIGHT_HOURS + 24;

/// Hours that rules evaluate, the newest ones: two weeks, so that every hour of the week occurs
/// twice. Data is accepted up to the same age.
pub const FORTNIGHT_HOURS: usize = 2 * WEEK_HOURS;

/// Hours of a week.
pub const WEEK_HOURS: usize = 7 * 24;

const SLOT_SECONDS: i64 = 3600 / SLOTS as i64;

/// One hour of the week, over the stored weeks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeekHour {
    /// Number of weeks in which the hour was observed.
    pub weeks_seen: u8,
    /// Number of weeks in which the workload was active in the hour.
    pub weeks_active: u8,
    observed_slots: u32,
    active: u32,
}

impl WeekHour {
    /// The active share of its observed slots; `None` without observation.
    pub fn active(self) -> Option<Share> {
        part(self.active, self.observed_slots)
    }
}

/// The hour of the week of a time in UTC, from 0 to 167; hour 0 begins on Monday.
pub fn hour_of_week(at: Timestamp) -> usize {
    // 1970 began on a Thursday.
    let hour = (hour_of(at.as_second()) + 3 * 24).rem_euclid(WEEK_HOURS as i64);
    usize::try_from(hour).unwrap_or(0)
}

/// The hours of one node, at most [`KEPT_HOURS`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeHours {
    /// The number of the first stored hour since 1970.
    #[serde(deserialize_with = "packed::hour_number")]
    first: i64,
    /// Consecutive hours from `first`; the first and the last hour are not empty.
    #[serde(with = "packed")]
    hours: Vec<Hour>,
}

impl NodeHours {
    /// Adds one heartbeat; ignores a heartbeat whose probe did not observe the required signals.
    pub fn fold(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        let h = &placed.heartbeat;
        let Some(start) = placed.start().filter(|_| h.is_observed()) else {
            return;
        };
        let activity = activity::classify(h, policy);
        let window = Window {
            from: start,
            to: placed.end,
        };
        self.mark(window, activity, peak_class(h));
    }

    /// Adds an interval from metrics that show the whole activity of a node.
    pub fn fold_metric(&mut self, window: Window, activity: Activity) {
        self.mark(window, activity, None);
    }

    /// Marks the slots whose middle is within `window` as observed, and as active if the interval
    /// was active.
    fn mark(&mut self, window: Window, activity: Activity, peak: Option<u32>) {
        let is_active = activity != Activity::Quiet;
        let (start, end) = (window.from.as_second(), window.to.as_second());
        let half = (end - start).min(SLOT_SECONDS) / 2;
        let last = (end - half).div_euclid(SLOT_SECONDS);
        let oldest = last - KEPT_HOURS as i64 * i64::from(SLOTS);
        let first = (start + half).div_euclid(SLOT_SECONDS).max(oldest);
        // The newest slot comes first, so that no later slot drops an earlier one.
        for slot in (first..=last).rev() {
            let within = u32::try_from(slot.rem_euclid(SLOTS.into())).unwrap_or(0);
            let hour = slot.div_euclid(SLOTS.into());
            self.put(hour, Hour::new(within, is_active, peak));
        }
    }

    /// Merges another history of the same node.
    pub fn absorb(&mut self, other: &Self) {
        for (hour, known) in other.numbered().rev() {
            if known != Hour::default() {
                self.put(hour, known);
            }
        }
    }

    /// The newest two weeks of hours with their begin times, oldest first. Hours without data in
    /// between are unobserved; the first hour is observed.
    pub fn hours(&self) -> impl DoubleEndedIterator<Item = (Timestamp, Hour)> {
        let older = self.hours.len().saturating_sub(FORTNIGHT_HOURS);
        let empty_hours = self.hours[older..].iter();
        let empty_hours = empty_hours
            .take_while(|hour| **hour == Hour::default())
            .count();
        let newest = self.numbered().skip(older + empty_hours);
        newest.filter_map(|(number, hour)| {
            let begin = Timestamp::from_second(number * 3600).ok()?;
            Some((begin, hour))
        })
    }

    /// The hour that contains `at`; unobserved if there is no data.
    pub fn at(&self, at: Timestamp) -> Hour {
        let index = usize::try_from(hour_of(at.as_second()) - self.first).ok();
        let known = index.and_then(|index| self.hours.get(index));
        known.copied().unwrap_or_default()
    }

    /// The active slots of five minutes, in the hours that overlap a window.
    pub fn worked(&self, window: Window) -> impl Iterator<Item = Window> {
        self.slots(window, Hour::active_slots)
    }

    /// The same for the slots that a probe observed.
    pub fn observed_slots(&self, window: Window) -> impl Iterator<Item = Window> {
        self.slots(window, Hour::observed_slots)
    }

    fn slots(&self, window: Window, marked: fn(Hour) -> u32) -> impl Iterator<Item = Window> {
        let index = |at: Timestamp, beyond: i64| {
            let index = hour_of(at.as_second()) + beyond - self.first;
            usize::try_from(index).unwrap_or(0).min(self.hours.len())
        };
        let (first, last) = (index(window.from, 0), index(window.to, 1));
        let within = self.hours.get(first..last).unwrap_or_default().iter();
        within.enumerate().flat_map(move |(i, hour)| {
            let number = self.first + (first + i) as i64;
            let slots = marked(*hour);
            let slots = (0..SLOTS).filter(move |slot| slots >> slot & 1 == 1);
            slots.filter_map(move |slot| {
                let begin = number * 3600 + i64::from(slot) * SLOT_SECONDS;
                Some(Window {
                    from: Timestamp::from_second(begin).ok()?,
                    to: Timestamp::from_second(begin + SLOT_SECONDS).ok()?,
                })
            })
        })
    }

    /// The time in the five-minute slots of a window that a probe observed.
    pub fn observed(&self, window: Window) -> Duration {
        let slot = Duration::from_secs(SLOT_SECONDS.unsigned_abs());
        let (from, to) = (window.from.as_second(), window.to.as_second());
        let within = self.first.max(hour_of(from))..(self.newest() + 1).min(hour_of(to) + 1);
        let of_hour = |number: i64| {
            let index = usize::try_from(number - self.first).ok();
            let observed_slots = index
                .and_then(|index| self.hours.get(index))
                .map_or(0, |hour| hour.observed_slots());
            let begin = number * 3600;
            if from <= begin && begin + 3600 <= to {
                return slot * observed_slots.count_ones();
            }
            let parts = (0..SLOTS)
                .filter(|slot| observed_slots >> slot & 1 == 1)
                .map(|slot| {
                    let begin = begin + i64::from(slot) * SLOT_SECONDS;
                    let part = (begin + SLOT_SECONDS).min(to) - begin.max(from);
                    Duration::from_secs(u64::try_from(part).unwrap_or(0))
                });
            parts.sum()
        };
        within.map(of_hour).sum()
    }

    /// The observed share of the five-minute slots within a window. `None` if the window contains
    /// no whole slot, or begins before the stored hours.
    pub fn observed_share(&self, window: Window) -> Option<Share> {
        let first = (window.from.as_second() + SLOT_SECONDS - 1).div_euclid(SLOT_SECONDS);
        let end = window.to.as_second().div_euclid(SLOT_SECONDS);
        // The window comes from a node, so the loop is limited to the stored hours.
        if first < self.first * i64::from(SLOTS) {
            return None;
        }
        let kept_end = (self.newest() + 1) * i64::from(SLOTS);
        let is_observed = |slot: &i64| {
            let index = usize::try_from(slot.div_euclid(SLOTS.into()) - self.first).ok();
            let hour = index.and_then(|index| self.hours.get(index).copied());
            let within = u32::try_from(slot.rem_euclid(SLOTS.into())).unwrap_or(0);
            hour.is_some_and(|hour| hour.observed_slots() >> within & 1 == 1)
        };
        let observed_slots = (first..end.min(kept_end)).filter(is_observed).count();
        let all = u64::try_from(end - first).ok()?;
        Share::from_parts(u64::try_from(observed_slots).ok()?, all)
    }

    /// The hours of the week in UTC, from Monday 0:00.
    pub fn by_hour_of_week(&self) -> [WeekHour; WEEK_HOURS] {
        let mut week = [WeekHour::default(); WEEK_HOURS];
        for (begin, hour) in self.hours() {
            let sum = &mut week[hour_of_week(begin)];
            let (observed_slots, active) = (
                hour.observed_slots().count_ones(),
                hour.active_slots().count_ones(),
            );
            sum.weeks_seen += u8::from(observed_slots > 0);
            sum.weeks_active += u8::from(active > 0);
            sum.observed_slots += observed_slots;
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
            // Too old to be stored.
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

    /// Adds an hour that is newer than all others, and drops hours that are then too old.
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
        let empty_hours = self.hours[old..].iter();
        let empty_hours = empty_hours
            .take_while(|hour| **hour == Hour::default())
            .count();
        self.hours.drain(..old + empty_hours);
        self.first += (old + empty_hours) as i64;
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
    /// A copy with these nodes only.
    #[must_use]
    pub fn of_nodes(&self, is_in: impl Fn(&NodeId) -> bool) -> Self {
        let nodes = self.nodes.iter().filter(|(node, _)| is_in(node));
        Self {
            nodes: nodes
                .map(|(id, hours)| (id.clone(), hours.clone()))
                .collect(),
        }
    }

    /// Adds heartbeats.
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

    /// Adds one heartbeat.
    pub fn fold_heartbeat(&mut self, placed: &Placed, policy: &ActivityPolicy) {
        self.fold_heartbeats(std::slice::from_ref(placed), policy);
    }

    /// Drops hours older than [`KEPT_HOURS`] before the newest hour of any node, so that terminated
    /// nodes are removed. The result is the same before and after merging.
    pub fn forget_old(&mut self) {
        let newest = self.nodes.values().map(NodeHours::newest).max();
        let oldest = newest.map_or(i64::MIN, |newest| newest - KEPT_HOURS as i64 + 1);
        self.nodes.retain(|_, hours| {
            hours.forget_before(oldest);
            !hours.hours.is_empty()
        });
    }

    /// Keeps the `max` nodes with the newest hours, and returns the number of removed nodes.
    pub fn keep_newest(&mut self, max: usize) -> usize {
        take_oldest(&mut self.nodes, max, NodeHours::newest).len()
    }

    /// Keeps the nodes of one shard.
    pub fn keep_shard(&mut self, shard: Shard) {
        self.nodes.retain(|id, _| shard.holds(id));
    }

    /// Merges the hours of two fleets; see the module.
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

/// The class of the total CPU use of an interval, counted from 1; `None` when unknown.
fn peak_class(h: &Heartbeat) -> Option<u32> {
    let used = h.workload.cpu?.saturating_add(h.background.cpu?);
    let cores = used.cores_over(h.end.since(h.start)?)?;
    Hour::peak_class(Share::from_parts(cores.0, h.hardware.cores.0)?)
}
