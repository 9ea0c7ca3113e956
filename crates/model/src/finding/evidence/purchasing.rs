//! Evidence that machines have a more expensive purchase option than necessary.

use std::fmt;
use std::time::Duration;

use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::units::{HumanDuration, Share};
use serde::{Deserialize, Serialize};

use crate::inventory::spot_market::SpotScore;

/// The purchase option of machines, with the evidence that it is too expensive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum PurchaseOption {
    /// On demand, although spot is suitable for the work.
    OnDemand {
        /// Number of machines.
        machines: u32,
        /// Their cost together, averaged over the window.
        #[serde(rename = "now_per_hour_usd", alias = "now")]
        now: UsdPerHour,
        /// Their cost on spot, including work that is repeated after interruptions.
        #[serde(rename = "spot_per_hour_usd", alias = "spot")]
        spot: UsdPerHour,
        /// Number of tasks that were observed on them.
        runs: u32,
        /// The duration of the longest task.
        longest: Duration,
        /// The chance that such a task is interrupted.
        interrupted: Share,
        /// Whether this chance is only a lower bound. The highest band of the Spot Instance Advisor
        /// has no upper end.
        #[serde(default)]
        interrupted_at_least: bool,
        /// The AWS spot placement score for machines that fit its steps; `None` if AWS was not
        /// asked or refused.
        #[serde(default)]
        score: Option<SpotScore>,
    },
    /// A commitment that is not fully used.
    Unused {
        /// The price that the account pays.
        #[serde(rename = "paid_per_hour_usd", alias = "paid")]
        paid: UsdPerHour,
        /// The on-demand price of the machines that the commitment pays for.
        #[serde(rename = "used_per_hour_usd", alias = "used")]
        used: UsdPerHour,
    },
    /// A Savings Plan that is not fully used according to the bill.
    UnusedPlan {
        /// The commitment.
        #[serde(rename = "committed_per_hour_usd", alias = "committed")]
        committed: UsdPerHour,
        /// The used part of the commitment.
        #[serde(rename = "used_per_hour_usd", alias = "used")]
        used: UsdPerHour,
    },
}

impl fmt::Display for PurchaseOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnDemand {
                machines,
                now,
                spot,
                runs,
                longest,
                interrupted,
                interrupted_at_least,
                score,
            } => {
                let (least, about) = match interrupted_at_least {
                    true => ("at least ", "more than"),
                    false => ("", "about"),
                };
                write!(
                    f,
                    "{machines} on-demand machines cost {now} on average, and {least}{spot} on \
                     spot including repeated work; the longest of {runs} tasks took {}, and \
                     {about} {interrupted} of such tasks are interrupted",
                    HumanDuration(*longest)
                )?;
                match score {
                    Some(score) => write!(f, "; {score}"),
                    None => Ok(()),
                }
            }
            Self::Unused { paid, used } => write!(
                f,
                "the commitment costs {paid}, but the machines that it covers would cost {used} on \
                 demand"
            ),
            Self::UnusedPlan { committed, used } => {
                write!(
                    f,
                    "the commitment is {committed}, but only {used} of it is used"
                )
            }
        }
    }
}
