//! Spot placement scores of the spot recommendations in the last report. AWS limits the number of
//! new configurations a day, so few are requested, and the same ones again.

use std::time::Duration;

use ebb_cloud::ports::MarketSource;
use ebb_model::inventory::spot_market::{SpotScore, SpotWish};
use ebb_model::visibility_gap::Gap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::collect::account::is_older;
use crate::collect::spot_market::answer::{DAILY, StoredAnswer};

/// The most sets of spot machines that are requested; the greatest savings come first.
const SETS: usize = 5;

/// How many of these sets are for whole environments. The limit leaves some sets for steps that run
/// elsewhere.
pub(crate) const ENVIRONMENTS: usize = 2;

/// The most new configurations in a day. AWS publishes no number; repeated configurations have a
/// higher limit.
///
/// Source: EC2 user guide, "Spot placement score", "Request configurations limit".
const NEW_A_DAY: usize = 5;

/// Capacity changes from hour to hour. A report that is read in the morning should show a score of
/// the same night.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// How long an answer counts: twice the interval between requests.
const HOLDS: Duration = Duration::from_secs(12 * 3600);

/// The requested configurations and their answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Scores {
    wishes: Vec<Kept>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    wish: SpotWish,
    /// Whether the last report recommends it.
    is_wanted: bool,
    /// When it was requested for the first time; `None` while it waits.
    first: Option<Timestamp>,
    /// `None` if AWS answered without a score for the region.
    score: StoredAnswer<Option<u8>>,
}

impl Scores {
    /// Notes the recommended configurations; the most valuable come first. A configuration that is
    /// no longer recommended is not requested again, but is stored while it counts towards the
    /// limit of a day.
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
                    score: StoredAnswer::default(),
                }),
            }
            wanted += 1;
        }
        let counts = |kept: &Kept| kept.first.is_some_and(|first| !is_older(first, now, DAILY));
        self.wishes.retain(|kept| kept.is_wanted || counts(kept));
    }

    /// Requests what is due, one after the other: there are few.
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

    /// The scores that still count.
    pub(crate) fn current_scores(&self, now: Timestamp) -> impl Iterator<Item = SpotScore> {
        self.wishes.iter().filter_map(move |kept| {
            let (at, score) = kept.score.last?;
            Some(SpotScore {
                wish: kept.wish.clone(),
                score: score.filter(|_| !is_older(at, now, HOLDS))?,
                at,
            })
        })
    }

    /// One gap for each region that refused, and one for the configurations that wait.
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
                format!("only {NEW_A_DAY} new sets are requested a day"),
            )
        });
        refused.into_iter().chain(waiting)
    }
}
