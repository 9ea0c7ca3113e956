//! Rows of the table `node_hours` of the lake: what each node did in each hour of a day that is over.

use ebb_telemetry::identity::{AccountId, NodeId};
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::shard::Shard;
use ebb_telemetry::units::Share;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};

use crate::cost::PriceBasis;

/// One hour of a node. Hours that no probe observed have no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeHourRecord {
    /// The node.
    pub node: NodeId,
    /// The begin of the hour.
    pub hour: Timestamp,
    /// Whether the evidence was measured or made by a generator.
    pub origin: Origin,
    /// The account; `None` when unknown.
    pub account: Option<AccountId>,
    /// The instance type; `None` when unknown.
    pub instance_type: Option<String>,
    /// The part of the hour that the probe observed.
    pub observed: Share,
    /// The active part of the observed time; the other part of it is idle.
    pub active: Share,
    /// The part of the hour in which at least one task ran.
    pub with_tasks: Share,
    /// The price of the node when the row was written; `None` when unknown.
    pub price: Option<UsdPerHour>,
    /// The source of the price.
    pub price_basis: Option<PriceBasis>,
}

/// Some nodes on one day, which are one commit. The number of the commit follows from them, so that no
/// commit is made twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourBatch {
    /// The UTC day.
    pub day: Date,
    /// The part of the nodes, by the hash of their id.
    pub part: Shard,
}

impl HourBatch {
    /// Nodes of a part, on average; each has at most 24 rows.
    const NODES: usize = 1_500;

    /// Days that are written after a pause. The hourly activity goes back 14 days.
    const MAX_DAYS: i64 = 13;

    /// More than the parts of any day.
    const PARTS: u64 = 100_000;

    /// The number of the commit. Later days and later parts have greater numbers.
    pub fn number(self) -> u64 {
        let days = self.day.since(Date::constant(1970, 1, 1));
        let days = days.map_or(0, |span| span.get_days());
        let days = u64::try_from(days).unwrap_or(0);
        let (index, of) = (u64::from(self.part.index), u64::from(self.part.of));
        (days * Self::PARTS + of) * Self::PARTS + index
    }

    /// The batch with this number; `None` if there is no such batch.
    pub fn of_number(number: u64) -> Option<Self> {
        let (rest, index) = (number / Self::PARTS, number % Self::PARTS);
        let (days, of) = (rest / Self::PARTS, rest % Self::PARTS);
        let days = i64::try_from(days).ok()?;
        Some(Self {
            day: Date::constant(1970, 1, 1).checked_add(days.days()).ok()?,
            part: Shard {
                index: u16::try_from(index).ok()?,
                of: u16::try_from(of).ok()?,
            },
        })
    }

    /// The batch after the newest one of the table, up to the day `through`; `None` if all are there.
    /// A new table begins with this day.
    pub fn next(newest: Option<u64>, through: Date, nodes: usize) -> Option<Self> {
        let newest = newest.and_then(Self::of_number);
        if let Some(newest) = newest
            && newest.part.index + 1 < newest.part.of
        {
            let index = newest.part.index + 1;
            let part = Shard {
                index,
                ..newest.part
            };
            return Some(Self { part, ..newest });
        }
        let after = newest.and_then(|newest| newest.day.tomorrow().ok());
        let oldest = through.checked_sub((Self::MAX_DAYS - 1).days()).ok()?;
        let day = after.map_or(through, |day| day.max(oldest));
        let of = u16::try_from(nodes.div_ceil(Self::NODES).max(1)).unwrap_or(u16::MAX);
        let part = Shard { index: 0, of };
        (day <= through && nodes > 0).then_some(Self { day, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn batches_follow_each_other_by_part_and_day_and_no_number_occurs_twice() {
        let through = date(2026, 11, 20);
        let mut newest = None;
        let mut batches = Vec::new();
        while let Some(batch) = HourBatch::next(newest, through, 4_000) {
            assert!(newest < Some(batch.number()), "{batch:?}");
            assert_eq!(HourBatch::of_number(batch.number()), Some(batch));
            newest = Some(batch.number());
            batches.push((batch.day.day(), batch.part.index, batch.part.of));
        }
        assert_eq!(batches, [(20, 0, 3), (20, 1, 3), (20, 2, 3)]);
        // The number of nodes changes within a day, and a day passes.
        let next = |nodes| HourBatch::next(newest, date(2026, 11, 21), nodes);
        assert_eq!(next(10).map(|batch| batch.part), Some(Shard::ONLY));
        assert_eq!(next(0), None, "no probe");
    }

    #[test]
    fn after_a_long_pause_only_the_days_with_data_are_written() {
        let long_ago = HourBatch {
            day: date(2026, 1, 1),
            part: Shard::ONLY,
        };
        let next = HourBatch::next(Some(long_ago.number()), date(2026, 11, 20), 1);
        assert_eq!(next.map(|batch| batch.day), Some(date(2026, 11, 8)));
    }
}
