//! Exact amounts of money. Exports have more decimal places than millionths of a dollar, and many
//! rows are smaller than that. Sums are rounded once, at the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use ebb_telemetry::money::Usd;

/// Decimal places that are kept.
const PLACES: i32 = 12;

/// Millionths of a millionth of a dollar in a millionth.
const PER_MICRO: i128 = 1_000_000;

/// The largest amount of a row, exclusive: a billion dollars.
const LIMIT: i128 = 1_000_000_000 * PER_MICRO * PER_MICRO;

/// Dollars in units of 10^-12. A sum of 10^17 rows does not overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Amount(i128);

impl Amount {
    pub(super) const ZERO: Self = Self(0);

    /// Parses a decimal such as `-0.0123` or `1.2E-7`, rounded to twelve places. `None` if the text
    /// is no decimal, or at least a billion dollars.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (is_negative, digits) = match number.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_plain = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_plain(whole) || !is_plain(fraction) {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes());
        let mut digits = digits.skip_while(|b| *b == b'0').peekable();
        // More digits than these are below the precision, or above the limit.
        let (mut value, mut dropped) = (0_i128, 0_i32);
        while let Some(digit) = digits.next_if(|_| value < i128::MAX / 100) {
            value = value * 10 + i128::from(digit - b'0');
        }
        dropped += i32::try_from(digits.count()).ok()?;
        let places = i32::try_from(fraction.len()).ok()?;
        let scale = places.checked_sub(dropped)?.checked_sub(exponent)?;
        Self::from_scaled(if is_negative { -value } else { value }, scale)
    }

    /// `value` x 10^-`scale` dollars.
    pub(super) fn from_scaled(value: i128, scale: i32) -> Option<Self> {
        if value == 0 {
            return Some(Self::ZERO);
        }
        let shift = PLACES.checked_sub(scale)?;
        let power = |n: i32| 10_i128.checked_pow(n.unsigned_abs());
        let amount = match shift {
            0.. => value.checked_mul(power(shift)?)?,
            _ => match power(shift) {
                Some(divisor) => div_rounded(value, divisor),
                None => 0,
            },
        };
        (amount.abs() < LIMIT).then_some(Self(amount))
    }

    /// `None` if the number is not finite, or at least a billion dollars.
    pub(super) fn from_f64(dollars: f64) -> Option<Self> {
        let scaled = (dollars * 1e12).round();
        (scaled.is_finite() && scaled.abs() < LIMIT as f64).then_some(Self(scaled as i128))
    }

    /// The part `numerator / denominator`, rounded towards zero; zero if the denominator is zero.
    pub(super) fn part(self, numerator: i128, denominator: i128) -> Self {
        let product = self.0.saturating_mul(numerator);
        Self(product.checked_div(denominator).unwrap_or(0))
    }

    /// This amount in the ratio of two others; `None` if there is no such ratio.
    pub(super) fn in_ratio(self, numerator: Self, denominator: Self) -> Option<Self> {
        let product = self.0.checked_mul(numerator.0)?;
        let amount = product.checked_div(denominator.0)?;
        (amount.abs() < LIMIT).then_some(Self(amount))
    }

    /// Rounded to the nearest millionth of a dollar.
    pub(super) fn to_usd(self) -> Usd {
        of_micros(div_rounded(self.0, PER_MICRO))
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// Rounds amounts so that they add up to their rounded sum: each one is rounded down, and those with
/// the largest remainders get one more millionth. Parts of zero are left out.
pub(super) fn round_together<K: Ord + Clone>(amounts: &BTreeMap<K, Amount>) -> BTreeMap<K, Usd> {
    let sum: Amount = amounts.values().copied().sum();
    let down: i128 = amounts
        .values()
        .map(|one| one.0.div_euclid(PER_MICRO))
        .sum();
    let missing = div_rounded(sum.0, PER_MICRO) - down;
    let mut order: Vec<(&K, Amount)> = amounts.iter().map(|(key, one)| (key, *one)).collect();
    order.sort_by_key(|(_, one)| Reverse(one.0.rem_euclid(PER_MICRO)));
    let rounded = order.into_iter().enumerate().map(|(at, (key, one))| {
        let more = i128::from((at as i128) < missing);
        (key.clone(), of_micros(one.0.div_euclid(PER_MICRO) + more))
    });
    rounded.filter(|(_, usd)| *usd != Usd::ZERO).collect()
}

/// Half away from zero.
fn div_rounded(value: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    match remainder.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2) {
        true => quotient + value.signum(),
        false => quotient,
    }
}

fn of_micros(micros: i128) -> Usd {
    let limit = if micros < 0 { i64::MIN } else { i64::MAX };
    Usd::from_micros(i64::try_from(micros).unwrap_or(limit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_exact_and_other_text_is_refused() {
        let check = |text: &str, expect: Option<i128>| {
            assert_eq!(Amount::parse(text).map(|amount| amount.0), expect, "{text}");
        };
        check("1", Some(1_000_000_000_000));
        check("-0.0000000123", Some(-12_300));
        check("1.2E-7", Some(120_000));
        check("+2.5e3", Some(2_500_000_000_000_000));
        check(".5", Some(500_000_000_000));
        check("0.0000000000005", Some(1));
        check("0.00000000000049", Some(0));
        check("1e-400", Some(0));
        check("0e999999999", Some(0));
        check(&format!("0.1{}", "0".repeat(100)), Some(100_000_000_000));
        check("999999999.999999999999", Some(LIMIT - 1));
        for wrong in [
            "",
            "-",
            ".",
            "much",
            "1,5",
            "0x1",
            "NaN",
            "inf",
            "1e",
            "1e9999999999",
            "1000000000",
            "-1000000000",
            "1 000",
            "1e30",
            "--1",
            "1.2.3",
        ] {
            check(wrong, None);
        }
        check(&"9".repeat(1_000), None);
        assert_eq!(
            Amount::from_f64(0.1).map(|one| one.0),
            Some(100_000_000_000)
        );
        for wrong in [f64::NAN, f64::INFINITY, 1e9, -1e300] {
            assert_eq!(Amount::from_f64(wrong), None);
        }
    }

    #[test]
    fn money_is_rounded_to_the_nearest_millionth() {
        let check = |amount, micros| assert_eq!(Amount(amount).to_usd().micros(), micros);
        check(1_499_999, 1);
        check(1_500_000, 2);
        check(-1_500_000, -2);
        check(-1_499_999, -1);
    }

    proptest! {
        #[test]
        fn parts_that_are_rounded_together_add_up(
            amounts in prop::collection::vec(-10_000_000_i128..10_000_000, 0..20),
        ) {
            let amounts: BTreeMap<usize, Amount> =
                amounts.into_iter().map(Amount).enumerate().collect();
            let rounded = round_together(&amounts);
            let sum: Amount = amounts.values().copied().sum();
            prop_assert_eq!(rounded.values().copied().sum::<Usd>(), sum.to_usd());
            for (key, one) in &amounts {
                let usd = rounded.get(key).copied().unwrap_or_default();
                prop_assert!((i128::from(usd.micros()) * PER_MICRO - one.0).abs() <= PER_MICRO);
            }
        }
    }
}
