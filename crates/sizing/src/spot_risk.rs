//! The cost of interruptions, and the run time from which spot does not pay off.

use ebb_catalog::spot_terms::SpotTerms;
use ebb_telemetry::money::UsdPerHour;

/// The hours of a month, over which a monthly share of interruptions is spread.
const HOURS_A_MONTH: f64 = UsdPerHour::HOURS_A_MONTH as f64;

/// The interruption rate of a type's spot machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interruptions {
    per_hour: f64,
}

impl Interruptions {
    /// The rate from the share of machines that are interrupted in a month, as the Spot Instance
    /// Advisor reports it. The hazard is constant. `None` unless the share is at least 0 and less
    /// than 1.
    pub fn from_monthly_share(share: f64) -> Option<Self> {
        (0.0..1.0).contains(&share).then(|| Self {
            per_hour: -(1.0 - share).ln() / HOURS_A_MONTH,
        })
    }

    /// The rate with the account's own interruptions: a Poisson process with the monthly share as
    /// its prior, which counts as one machine-month.
    #[must_use]
    pub fn and_own(self, count: u32, machine_hours: u64) -> Self {
        let hours = HOURS_A_MONTH + machine_hours as f64;
        Self {
            per_hour: (self.per_hour * HOURS_A_MONTH + f64::from(count)) / hours,
        }
    }

    /// The chance that a task of so many hours is interrupted.
    pub fn chance_within(self, hours: f64) -> f64 {
        -(-self.per_hour * hours).exp_m1()
    }

    /// Expected machine hours until a task of `hours` ends, if each interruption restarts it. The
    /// formula is `(exp(l h) - 1) / l`, the mean time to the first gap of `h` in a Poisson process
    /// of rate `l`.
    pub fn hours_to_end(self, hours: f64) -> f64 {
        let exponent = self.per_hour * hours;
        match exponent < 1e-9 {
            true => hours,
            false => exponent.exp_m1() / self.per_hour,
        }
    }

    /// The same for a task that continues from its last checkpoint. `checkpoint` is the interval in
    /// hours; the task counts as a sequence of tasks of that length.
    pub fn hours_to_end_from(self, hours: f64, checkpoint: Option<f64>) -> f64 {
        match checkpoint.filter(|every| *every > 0.0 && *every < hours) {
            Some(every) => self.hours_to_end(every) * hours / every,
            None => self.hours_to_end(hours),
        }
    }

    /// The run time in hours from which on demand is cheaper, if spot costs `part` of on demand;
    /// `None` if on demand is never cheaper.
    pub fn break_even_hours(self, part: f64) -> Option<f64> {
        if part >= 1.0 {
            return Some(0.0);
        }
        if self.per_hour <= 0.0 || part <= 0.0 {
            return None;
        }
        let dearer = |hours: f64| self.hours_to_end(hours) * part >= hours;
        let (mut low, mut high) = (0.0, 1.0);
        while !dearer(high) {
            low = high;
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match dearer(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }
}

/// The interruption rate of a spot machine; `None` without data from the advisor or from the
/// account itself.
pub fn interruptions(terms: &SpotTerms) -> Option<Interruptions> {
    let share = terms.taken_back_ppm.map(|ppm| f64::from(ppm) / 1e6);
    let by_advisor = share.and_then(Interruptions::from_monthly_share);
    match (by_advisor, terms.own) {
        (by_advisor, None) => by_advisor,
        (Some(by_advisor), Some(own)) => Some(by_advisor.and_own(own.count, own.machine_hours)),
        (None, Some(own)) if own.machine_hours > 0 => {
            let never = Interruptions::from_monthly_share(0.0)?;
            // One more than observed: interruptions that did not happen yet may happen.
            Some(never.and_own(own.count.saturating_add(1), own.machine_hours))
        }
        (None, Some(_)) => None,
    }
}

/// The lowest interruption rate of a type in the highest band of the Spot Instance Advisor, which
/// has no upper end; `None` for a type of another band. The real rate is higher.
pub fn least_interruptions(terms: &SpotTerms) -> Option<Interruptions> {
    let above = terms.taken_back_above_ppm?;
    let least = Interruptions::from_monthly_share(f64::from(above) / 1e6)?;
    Some(match terms.own {
        Some(own) => least.and_own(own.count, own.machine_hours),
        None => least,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_hardly_meet_an_interruption_and_long_ones_pay_for_many() {
        let often = Interruptions::from_monthly_share(0.5).expect("a share");
        assert!((often.hours_to_end(1.0) - 1.0).abs() < 0.001);
        assert!(often.hours_to_end(2_000.0) > 5_000.0);
        let never = Interruptions::from_monthly_share(0.0).expect("a share");
        assert_eq!(never.hours_to_end(100.0), 100.0);
        assert_eq!(Interruptions::from_monthly_share(1.0), None);
    }

    #[test]
    fn from_a_checkpoint_only_what_came_after_it_is_done_again() {
        let often = Interruptions::from_monthly_share(0.9).expect("a share");
        let whole = often.hours_to_end(500.0);
        let from = |every| often.hours_to_end_from(500.0, every);
        assert_eq!(
            (from(None), from(Some(500.0)), from(Some(0.0))),
            (whole, whole, whole)
        );
        let hourly = from(Some(1.0));
        assert!(hourly > 500.0 && hourly < 501.0, "{hourly}");
        assert!(from(Some(1.0)) < from(Some(100.0)) && from(Some(100.0)) < whole);
    }

    #[test]
    fn own_interruptions_count_as_far_as_they_were_watched_for() {
        let by_advisor = Interruptions::from_monthly_share(0.1).expect("a share");
        let check = |count, hours, expect: f64| {
            let own = by_advisor.and_own(count, hours);
            let chance = own.chance_within(HOURS_A_MONTH);
            assert!(
                (chance - expect).abs() < 0.005,
                "{count} in {hours} h: {chance}"
            );
        };
        check(0, 0, 0.1);
        check(0, 7_300, 0.0095);
        check(100, 73_000, 0.629);
    }

    #[test]
    fn at_the_break_even_length_both_cost_the_same() {
        let often = Interruptions::from_monthly_share(0.2).expect("a share");
        let hours = often.break_even_hours(0.4).expect("there is one");
        assert!((often.hours_to_end(hours) * 0.4 - hours).abs() < 1e-6 * hours);
        assert_eq!(often.break_even_hours(1.0), Some(0.0));
        let never = Interruptions::from_monthly_share(0.0).expect("a share");
        assert_eq!(never.break_even_hours(0.4), None);
    }
}
