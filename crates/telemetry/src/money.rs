//! Money in fixed point: sums are exact and equal on every machine.

pub mod json;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// US dollars in millionths. JSON contains a decimal string, such as `"12.34"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Usd {
    micros: i64,
}

impl Usd {
    /// No money.
    pub const ZERO: Self = Self { micros: 0 };

    /// From millionths of a dollar.
    pub const fn from_micros(micros: i64) -> Self {
        Self { micros }
    }

    /// In millionths of a dollar.
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// Rounds a number of dollars to the nearest millionth; `None` if it is not finite or is at
    /// least 1,000,000,000 dollars.
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let micros = (dollars * 1e6).round();
        let kept = micros.is_finite() && micros.abs() < 1e15;
        kept.then(|| Self::from_micros(micros as i64))
    }

    /// The exact amount as a plain decimal, with two to six decimal places: `12.00`,
    /// `0.0104`.
    pub fn to_decimal(self) -> String {
        let sign = if self.micros < 0 { "-" } else { "" };
        let micros = self.micros.unsigned_abs();
        let mut text = format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        let places = text.len() - 4;
        let zeros = text[places..].len() - text[places..].trim_end_matches('0').len();
        text.truncate(text.len() - zeros);
        text
    }

    /// A decimal with `places` decimal places, at most six, rounded to the nearest: `0.0105` with
    /// four.
    pub fn to_rounded(self, places: u32) -> String {
        let unit = 10_u64.pow(6_u32.saturating_sub(places));
        let rounded = (self.micros.unsigned_abs() + unit / 2) / unit;
        let sign = if self.micros < 0 && rounded > 0 {
            "-"
        } else {
            ""
        };
        let (whole, width) = (10_u64.pow(places.min(6)), places.min(6) as usize);
        match width {
            0 => format!("{sign}{rounded}"),
            _ => format!("{sign}{}.{:0width$}", rounded / whole, rounded % whole),
        }
    }

    /// `numerator / denominator` of this amount, rounded to the nearest millionth; zero if the
    /// denominator is zero.
    pub fn part(self, numerator: u128, denominator: u128) -> Self {
        let (Ok(n), Ok(d)) = (i128::try_from(numerator), i128::try_from(denominator)) else {
            return Self::ZERO;
        };
        if d == 0 {
            return Self::ZERO;
        }
        let product = i128::from(self.micros).saturating_mul(n);
        let rounded = product.saturating_add(product.signum() * d / 2) / d;
        Self::from_micros(i64::try_from(rounded).unwrap_or(i64::MAX))
    }

    /// Parses a plain decimal such as `0.0104` exactly, to the millionth; further digits round half
    /// up. `None` if the text is not a plain decimal.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.trim().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.trim()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !plain(whole) || !plain(fraction) {
            return None;
        }
        let mut micros = whole.parse::<i64>().ok()?.checked_mul(1_000_000)?;
        let padded = format!("{fraction:0<7}");
        micros = micros.checked_add(padded[..6].parse::<i64>().ok()?)?;
        if padded.as_bytes()[6] >= b'5' {
            micros = micros.checked_add(1)?;
        }
        Some(Self::from_micros(if negative { -micros } else { micros }))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_micros(self.micros.saturating_add(other.micros))
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::from_micros(self.micros.saturating_sub(other.micros))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = (self.micros.unsigned_abs() + 5_000) / 10_000;
        let sign = if self.micros < 0 && cents > 0 {
            "-"
        } else {
            ""
        };
        f.pad(&format!(
            "{sign}${}.{:02}",
            grouped(cents / 100),
            cents % 100
        ))
    }
}

/// An integer with thousands separators: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A price in US dollars an hour.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct UsdPerHour(pub Usd);

impl UsdPerHour {
    /// Hours of an average month: 365.25 days / 12, which AWS's pricing pages and Cost Optimization
    /// Hub round to 730.
    pub const HOURS_A_MONTH: u64 = 730;

    /// From millionths of a dollar an hour.
    pub const fn from_micros(micros: i64) -> Self {
        Self(Usd::from_micros(micros))
    }

    /// The cost of `time` at this price, rounded to the nearest millionth.
    pub fn over(self, time: Duration) -> Usd {
        self.0.part(time.as_nanos(), 3_600_000_000_000)
    }

    /// The cost of a month of 730 hours at this price.
    pub fn a_month(self) -> Usd {
        self.0.part(u128::from(Self::HOURS_A_MONTH), 1)
    }

    /// `numerator / denominator` of this price, rounded to the nearest millionth; zero if the
    /// denominator is zero.
    pub fn part(self, numerator: u64, denominator: u64) -> Self {
        Self(self.0.part(u128::from(numerator), u128::from(denominator)))
    }
}

impl fmt::Display for UsdPerHour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.micros();
        // For the total rate of many machines, fractions of a cent are not significant.
        if micros.unsigned_abs() >= 100_000_000 {
            return f.pad(&format!("{}/h", self.0));
        }
        let sign = if micros < 0 { "-" } else { "" };
        let tenths_of_a_mill = (micros.unsigned_abs() + 50) / 100;
        let text = format!(
            "{sign}${}.{:04}/h",
            grouped(tenths_of_a_mill / 10_000),
            tenths_of_a_mill % 10_000
        );
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly() {
        let check = |text: &str, micros: Option<i64>| {
            assert_eq!(Usd::parse(text).map(Usd::micros), micros, "{text}");
        };
        check("0.0104", Some(10_400));
        check("12", Some(12_000_000));
        check("0.00000051", Some(1));
        check("-3.5", Some(-3_500_000));
        check("1e-3", None);
        check("", None);
        check(".5", None);
    }

    #[test]
    fn a_decimal_is_exact_and_reads_back_as_the_same_amount() {
        let check = |micros: i64, expect: &str| {
            let usd = Usd::from_micros(micros);
            assert_eq!(usd.to_decimal(), expect);
            assert_eq!(Usd::parse(expect), Some(usd));
        };
        check(0, "0.00");
        check(12_000_000, "12.00");
        check(12_340_000, "12.34");
        check(10_400, "0.0104");
        check(-1, "-0.000001");
        check(1_234_567_891_234_567, "1234567891.234567");
    }

    #[test]
    fn a_rounded_amount_is_the_nearest() {
        let check = |micros: i64, places: u32, expect: &str| {
            assert_eq!(Usd::from_micros(micros).to_rounded(places), expect);
        };
        check(10_449, 4, "0.0104");
        check(10_450, 4, "0.0105");
        check(1_999_999, 4, "2.0000");
        check(-10_450, 4, "-0.0105");
        check(-1, 2, "0.00");
        check(2_806, 5, "0.00281");
        check(1_500_000, 0, "2");
        check(1_234_567, 6, "1.234567");
        check(1_234_567, 9, "1.234567");
    }

    #[test]
    fn money_is_shown_in_cents_and_prices_in_hundredths_of_a_cent() {
        assert_eq!(
            Usd::from_micros(1_234_567_890_000).to_string(),
            "$1,234,567.89"
        );
        assert_eq!(Usd::from_micros(-5_000).to_string(), "-$0.01");
        assert_eq!(Usd::from_micros(1_995_000).to_string(), "$2.00");
        assert_eq!(Usd::from_micros(-4_999).to_string(), "$0.00");
        assert_eq!(UsdPerHour::from_micros(10_400).to_string(), "$0.0104/h");
        let thousands = UsdPerHour::from_micros(12_120_000_000);
        assert_eq!(thousands.to_string(), "$12,120.00/h");
    }

    #[test]
    fn a_price_over_time_rounds_to_the_nearest_millionth() {
        let price = UsdPerHour::from_micros(192_000);
        assert_eq!(price.a_month(), Usd::from_micros(140_160_000));
        assert_eq!(price.over(Duration::from_secs(1)), Usd::from_micros(53));
        assert_eq!(price.part(1, 0), UsdPerHour::default());
    }
}
