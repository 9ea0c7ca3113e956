//! Evidence about what a pipeline or a cost centre costs.

use std::fmt;

use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::counted;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::finding::evidence::optional;
use crate::report::cost_table::CostMonth;
use crate::report::run_cost::CostCause;

/// A month that costs more than its budget, or will. All amounts are of closed days of the bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverBudget {
    /// The month.
    pub month: CostMonth,
    /// The budget of the month.
    #[serde(rename = "budget_usd")]
    pub budget: Usd,
    /// The cost of the month up to `through`.
    #[serde(rename = "to_date_usd")]
    pub to_date: Usd,
    /// The newest closed day.
    pub through: Date,
    /// Number of days of the month up to `through` whose cost is not known. The amounts do not
    /// contain them.
    pub unknown_days: u32,
    /// The cost to date, and the mean of the last 7 closed days for each day that is left. `None` with
    /// fewer closed days in the month.
    #[serde(rename = "forecast_usd")]
    pub forecast: Option<Usd>,
}

/// A day that cost far more than the days before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnusualCost {
    /// The day.
    pub day: Date,
    /// Its cost.
    #[serde(rename = "cost_usd")]
    pub cost: Usd,
    /// The median cost of the days before.
    #[serde(rename = "usual_usd")]
    pub usual: Usd,
    /// The median absolute deviation of these days from the median.
    #[serde(rename = "deviation_usd")]
    pub deviation: Usd,
    /// Number of days before with costs, of 28.
    pub earlier_days: u32,
    /// The largest cause of the difference to a day with a usual cost; `None` if the bill contains no
    /// such day, or if no cause adds to the cost.
    pub cause: Option<CostCause>,
}

impl OverBudget {
    /// Whether the cost to date exceeds the budget. Otherwise only the forecast does.
    pub fn is_spent(&self) -> bool {
        self.to_date > self.budget
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            month,
            budget,
            to_date,
            through,
            ..
        } = self;
        match self.forecast {
            forecast if self.is_spent() => {
                let forecast = optional("; forecast of the month ", forecast);
                write!(
                    f,
                    "{to_date} in {month} through {through}, more than the budget of \
                     {budget}{forecast}"
                )?;
            }
            Some(forecast) if forecast > *budget => write!(
                f,
                "forecast of {forecast} for {month}, more than the budget of {budget}; {to_date} \
                 through {through}"
            )?,
            forecast => write!(
                f,
                "{to_date} in {month} through {through}; the forecast was more than the budget of \
                 {budget}{}",
                optional(" and is now ", forecast)
            )?,
        }
        match usize::try_from(self.unknown_days) {
            Ok(days) if days > 0 => {
                let days = counted(days, "day", "days");
                write!(f, "; without {days} of unknown cost")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for UnusualCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            day,
            cost,
            usual,
            earlier_days,
            ..
        } = self;
        write!(
            f,
            "{cost} on {day}, usually {usual} (the median of {earlier_days} days with costs)"
        )?;
        match self.cause {
            Some(cause) => write!(f, "; largest cause: {cause} (+{})", cause.amount),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::run_cost::CauseKind;
    use jiff::civil::date;

    #[test]
    fn a_budget_is_spent_or_will_be_and_the_text_says_which() {
        let check = |to_date: i64, forecast: Option<i64>, unknown_days: u32, expect: &str| {
            let evidence = OverBudget {
                month: "2026-11".parse().expect("a month"),
                budget: Usd::from_micros(500_000_000),
                to_date: Usd::from_micros(to_date * 1_000_000),
                through: date(2026, 11, 20),
                unknown_days,
                forecast: forecast.map(|usd| Usd::from_micros(usd * 1_000_000)),
            };
            assert_eq!(evidence.to_string(), expect);
            let json = serde_json::to_string(&evidence).expect("JSON");
            assert_eq!(
                serde_json::from_str::<OverBudget>(&json).ok(),
                Some(evidence)
            );
        };
        let spent = "$612.00 in 2026-11 through 2026-11-20, more than the budget of $500.00";
        check(612, None, 0, spent);
        check(
            612,
            Some(910),
            0,
            &format!("{spent}; forecast of the month $910.00"),
        );
        check(
            400,
            Some(610),
            2,
            "forecast of $610.00 for 2026-11, more than the budget of $500.00; $400.00 through \
             2026-11-20; without 2 days of unknown cost",
        );
        check(
            400,
            Some(490),
            1,
            "$400.00 in 2026-11 through 2026-11-20; the forecast was more than the budget of \
             $500.00 and is now $490.00; without 1 day of unknown cost",
        );
    }

    #[test]
    fn an_unusual_cost_is_shown_next_to_the_usual_one_with_its_cause() {
        let mut evidence = UnusualCost {
            day: date(2026, 11, 20),
            cost: Usd::from_micros(84_100_000),
            usual: Usd::from_micros(21_300_000),
            deviation: Usd::from_micros(2_000_000),
            earlier_days: 19,
            cause: Some(CostCause {
                kind: CauseKind::Tasks,
                amount: Usd::from_micros(52_000_000),
            }),
        };
        let text = "$84.10 on 2026-11-20, usually $21.30 (the median of 19 days with costs)";
        let cause = "; largest cause: more tasks (+$52.00)";
        assert_eq!(evidence.to_string(), format!("{text}{cause}"));
        evidence.cause = None;
        assert_eq!(evidence.to_string(), text);
    }
}
