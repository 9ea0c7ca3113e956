//! One hour of one node.

use ebb_telemetry::units::Share;
use serde::{Deserialize, Serialize};

/// Number of five-minute slots in an hour.
pub(crate) const SLOTS: u32 = 12;

const SLOT_MASK: u32 = (1 << SLOTS) - 1;

/// Classes to which the peak CPU of an hour is rounded up, in percent, numbered from 1. Classes need
/// a tenth of the space of exact values. They are narrow between 10 and 50 percent, where the size of
/// a machine is decided. Version 0.1 stored the first seven only; its hours stay readable.
const PEAK_PERCENT: [u8; 19] = [
    1, 2, 5, 10, 20, 50, 100, // version 0.1
    1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 70, 100,
];

/// Number of classes that version 0.1 stored.
const OLD_CLASSES: usize = 7;

const PEAK_SHIFT: u32 = 2 * SLOTS;

/// One hour of one node: observed and active slots of five minutes, and the class of the peak CPU.
/// An interval marks the slots whose middle it contains, so that a minute of work marks one slot
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hour(pub u32);

impl Hour {
    /// The share of its slots in which the probe observed the required signals.
    pub fn seen(self) -> Share {
        part(self.observed_slots().count_ones(), SLOTS).unwrap_or(Share::NONE)
    }

    /// The active share of its observed slots; `None` without observation.
    pub fn active(self) -> Option<Share> {
        part(
            self.active_slots().count_ones(),
            self.observed_slots().count_ones(),
        )
    }

    /// An upper bound of the peak CPU of its intervals, including background processes, as a share
    /// of all cores. `None` when unknown.
    pub fn peak_cpu(self) -> Option<Share> {
        Some(Share::from_ppm(u32::from(self.peak_percent()?) * 10_000))
    }

    fn peak_percent(self) -> Option<u8> {
        let class = (self.0 >> PEAK_SHIFT).checked_sub(1)?;
        PEAK_PERCENT.get(usize::try_from(class).ok()?).copied()
    }

    /// The class of a peak CPU, as [`Self::new`] takes it.
    pub(crate) fn peak_class(peak: Share) -> Option<u32> {
        let classes = &PEAK_PERCENT[OLD_CLASSES..];
        let class = classes.partition_point(|percent| u32::from(*percent) * 10_000 < peak.ppm());
        u32::try_from(OLD_CLASSES + class.min(classes.len() - 1) + 1).ok()
    }

    pub(crate) fn new(slot: u32, is_active: bool, peak: Option<u32>) -> Self {
        let slot = 1 << slot;
        let active = if is_active { slot << SLOTS } else { 0 };
        Self(slot | active | peak.unwrap_or(0) << PEAK_SHIFT)
    }

    pub(crate) fn observed_slots(self) -> u32 {
        self.0 & SLOT_MASK
    }

    pub(crate) fn active_slots(self) -> u32 {
        self.0 >> SLOTS & SLOT_MASK
    }

    pub(crate) fn join(self, other: Self) -> Self {
        let slots = (self.0 | other.0) & ((1 << PEAK_SHIFT) - 1);
        let by_peak = |hour: &Self| (hour.peak_percent(), hour.0 >> PEAK_SHIFT);
        let peak = std::cmp::max_by_key(self, other, by_peak).0 >> PEAK_SHIFT;
        Self(slots | peak << PEAK_SHIFT)
    }
}

pub(crate) fn part(part: u32, whole: u32) -> Option<Share> {
    Share::from_parts(part.into(), whole.into())
}
