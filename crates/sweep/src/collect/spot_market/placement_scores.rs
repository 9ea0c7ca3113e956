//! Spot placement scores of what the last report offers on spot. AWS bounds how many new
//! questions a day it answers, so that few are asked, and the same again.

use std::time::Duration;

use ebb_cloud::ports::MarketSource;
use ebb_model::inventory::spot_market::{SpotScore, SpotWish};
use ebb_model::visibility_gap::Gap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::is_older;
use crate::collect::spot_market::answer::{Asked, DAILY};

/// Sets of spot machines that are asked about, those with the greatest saving first.
const SETS: usize = 5;

/// Of those, sets for whole environments: an answer tells of all that runs there, and steps
/// that run elsewhere are left some.
pub(crate) const ENVIRONMENTS: usize = 2;

/// New questions within a day. AWS names no number; it answers repeated ones for longer.
///
/// Source: EC2 user guide, "Spot placement score", "Request configurations limit".
const NEW_A_DAY: usize = 5;

/// Capacity changes from hour to hour, and a report that is read in the morning should say
/// what held that night.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// An answer is told for twice as long.
const HOLDS: Duration = Duration::from_secs(12 * 3600);

/// What is asked about, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Scores {
    wishes: Vec<Kept>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    wish: SpotWish,
    /// Whether the last report offers it.
    is_wanted: bool,
    /// When it was asked for the first time; `None` while it waits for its turn.
    first: Option<Timestamp>,
    /// `None` where AWS answered and had no score for the region.
    score: Asked<Option<u8>>,
}

impl Scores {
    /// Takes up what is offered, the most valuable first; what is offered no more is asked
    /// about no more, and is remembered for as long as it counts.
    pub(crate) fn want(&mut self, offered: impl Iterator<Item = SpotWish>, now: Timestamp) {
        for kept in &mut self.wishes {
            kept.is_wanted = false;
        }
        let mut wanted = 0;
        for wish in offered {
            if wanted == SETS {
                break;
            }
            match self.wishes.iter_mut().find(|kept| kept.wish.answers(&wish)) {
                Some(kept) if kept.is_wanted => continue,
                Some(kept) => kept.is_wanted = true,
                None => self.wishes.push(Kept {
                    wish,
                    is_wanted: true,
                    first: None,
                    score: Asked::default(),
                }),
            }
            wanted += 1;
        }
        let counts = |kept: &Kept| kept.first.is_some_and(|first| !is_older(first, now, DAILY));
        self.wishes.retain(|kept| kept.is_wanted || counts(kept));
    }

    /// Asks for what is due, one after the other: there are few.
    pub(crate) async fn refresh(&mut self, source: &dyn MarketSource, now: Timestamp) {
        let firsts = self.wishes.iter().filter_map(|kept| kept.first);
        let today = firsts.filter(|first| !is_older(*first, now, DAILY));
        let mut new = NEW_A_DAY.saturating_sub(today.count());
        for kept in self.wishes.iter_mut().filter(|kept| kept.is_wanted) {
            if kept.first.is_none() {
                if new == 0 {
                    continue;
                }
                new -= 1;
                kept.first = Some(now);
            }
            let ask = source.spot_score(&kept.wish);
            kept.score.renew(EVERY, now, ask).await;
        }
    }

    /// What was answered and still holds.
    pub(crate) fn told(&self, now: Timestamp) -> impl Iterator<Item = SpotScore> {
        self.wishes.iter().filter_map(move |kept| {
            let (at, score) = kept.score.told?;
            Some(SpotScore {
                wish: kept.wish.clone(),
                score: score.filter(|_| !is_older(at, now, HOLDS))?,
                at,
            })
        })
    }

    /// Refusals, one a region, and questions that wait for another day.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = Gap> {
        let wanted = || self.wishes.iter().filter(|kept| kept.is_wanted);
        let refused = wanted().filter_map(|kept| {
            let scope = || format!("{}: spot placement scores", kept.wish.region);
            kept.score.gap(scope)
        });
        let mut refused: Vec<Gap> = refused.collect();
        refused.sort();
        refused.dedup_by(|a, b| a.scope == b.scope);
        let waiting = wanted().filter(|kept| kept.first.is_none()).count();
        let waiting = (waiting > 0).then(|| {
            Gap::new(
                format!("spot placement scores of {waiting} more sets of machines"),
                format!("only {NEW_A_DAY} new ones are asked about within a day"),
            )
        });
        refused.into_iter().chain(waiting)
    }
}
