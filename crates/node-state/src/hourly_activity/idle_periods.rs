//! The idle periods of a node between two periods of work, in steps of five minutes.

use ebb_telemetry::units::Share;
use jiff::Timestamp;

use crate::hourly_activity::hour::SLOTS;
use crate::hourly_activity::{NodeHours, SLOT_SECONDS};

/// An idle period, with work before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdlePeriod {
    /// Its begin.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// The share of it that was observed.
    pub seen: Share,
}

impl IdlePeriod {
    /// The length in seconds.
    pub fn seconds(&self) -> i64 {
        self.to.as_second() - self.from.as_second()
    }
}

impl NodeHours {
    /// The idle periods, oldest first; a period that has not ended is not included.
    pub fn idle_periods(&self) -> impl Iterator<Item = IdlePeriod> {
        let slots = self.numbered().flat_map(|(number, hour)| {
            (0..SLOTS).map(move |slot| {
                let is = |slots: u32| slots >> slot & 1 == 1;
                let begin = number * 3600 + i64::from(slot) * SLOT_SECONDS;
                (begin, is(hour.observed_slots()), is(hour.active_slots()))
            })
        });
        let (mut worked_until, mut observed_slots) = (None, 0);
        slots.filter_map(move |(begin, is_observed, is_active)| {
            if !is_active {
                observed_slots += u64::from(is_observed);
                return None;
            }
            let from: i64 = worked_until.replace(begin + SLOT_SECONDS)?;
            let observed_slots = std::mem::take(&mut observed_slots);
            let slots = u64::try_from((begin - from) / SLOT_SECONDS).ok()?;
            Some(IdlePeriod {
                from: Timestamp::from_second(from).ok()?,
                to: Timestamp::from_second(begin).ok()?,
                seen: Share::from_parts(observed_slots, slots)?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hourly_activity::hour::Hour;

    #[test]
    fn a_rest_lies_between_work_and_says_how_much_of_it_was_seen() {
        let hours = |slots: &str| {
            let mut hours = NodeHours::default();
            for (slot, word) in (0..).zip(slots.chars()) {
                if word != ' ' {
                    hours.put(slot / 12, Hour::new((slot % 12) as u32, word == 'x', None));
                }
            }
            hours
        };
        let check = |slots: &str, expect: &[(i64, i64, u32)]| {
            let known = hours(slots);
            let periods = known.idle_periods().map(|period| {
                let minute = |at: Timestamp| at.as_second() / 60;
                (minute(period.from), minute(period.to), period.seen.ppm())
            });
            assert_eq!(periods.collect::<Vec<_>>(), expect, "{slots:?}");
        };
        check("..x..x.", &[(15, 25, 1_000_000)]);
        check("xx", &[]);
        check("....", &[]);
        check("x.  x.........x", &[(5, 20, 333_333), (25, 70, 1_000_000)]);
    }
}
