//! What shows that machines are bought dearer than they need be.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{Share, Spoken};
use serde::{Deserialize, Serialize};

use crate::inventory::spot_market::SpotScore;

/// How machines are bought, and what shows that it is too dear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Bought {
    /// On demand, though spot would carry what they run.
    OnDemand {
        /// How many machines.
        machines: u32,
        /// What they cost together, on the average of the window.
        #[serde(rename = "now_per_hour_usd", alias = "now")]
        now: UsdPerHour,
        /// What they would on spot, with what interruptions make run again.
        #[serde(rename = "spot_per_hour_usd", alias = "spot")]
        spot: UsdPerHour,
        /// Runs that were seen on them.
        runs: u32,
        /// The longest of them.
        longest: Duration,
        /// The chance that such a run is interrupted.
        interrupted: Share,
        /// What AWS says of the chance to get spot machines that would hold its steps;
        /// `None` where it was not asked or refused.
        #[serde(default)]
        score: Option<SpotScore>,
    },
    /// Committed to, and not used up.
    Unused {
        /// What is paid.
        #[serde(rename = "paid_per_hour_usd", alias = "paid")]
        paid: UsdPerHour,
        /// What the machines that it pays for would cost on demand.
        #[serde(rename = "used_per_hour_usd", alias = "used")]
        used: UsdPerHour,
    },
    /// A Savings Plan of which the bill says that it is not used up.
    UnusedPlan {
        /// What is committed to.
        #[serde(rename = "committed_per_hour_usd", alias = "committed")]
        committed: UsdPerHour,
        /// What of it was used.
        #[serde(rename = "used_per_hour_usd", alias = "used")]
        used: UsdPerHour,
    },
}

impl fmt::Display for Bought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnDemand {
                machines,
                now,
                spot,
                runs,
                longest,
                interrupted,
                score,
            } => {
                write!(
                    f,
                    "{machines} on demand for {now} on average, {spot} on spot with what would \
                     run again: \
                     the longest of {runs} runs took {}, and {interrupted} of such are interrupted",
                    Spoken(*longest)
                )?;
                match score {
                    Some(told) => write!(f, "; {told}"),
                    None => Ok(()),
                }
            }
            Self::Unused { paid, used } => write!(
                f,
                "{paid} is paid, and the machines that it is for would cost {used}"
            ),
            Self::UnusedPlan { committed, used } => {
                write!(f, "{committed} is committed to, and {used} of it was used")
            }
        }
    }
}
