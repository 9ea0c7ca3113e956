//! Division of an amount of money by weights, without a remainder.

use ebb_telemetry::money::Usd;

/// Divides an amount in proportion to the weights. The parts add up to the amount to the millionth
/// of a dollar: each part is rounded towards zero, and the parts with the largest remainders get one
/// more millionth. With equal remainders, the first parts get it. `None` if all weights are zero.
pub fn apportion(amount: Usd, weights: &[u128]) -> Option<Vec<Usd>> {
    let micros = u128::from(amount.micros().unsigned_abs());
    let sum = weights
        .iter()
        .fold(0_u128, |sum, one| sum.saturating_add(*one));
    // Without the last bits of very large weights, each product fits.
    let shift = 128_u32.saturating_sub(sum.leading_zeros() + micros.leading_zeros());
    let weights = weights.iter().map(|weight| weight >> shift);
    let whole: u128 = weights.clone().sum();
    if whole == 0 {
        return None;
    }
    let products = weights.map(|weight| micros * weight);
    let mut parts: Vec<(u128, u128)> = products
        .map(|product| (product / whole, product % whole))
        .collect();
    let given: u128 = parts.iter().map(|(part, _)| part).sum();
    let missing = usize::try_from(micros - given).unwrap_or(usize::MAX);
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(parts[*at].1), *at));
    for at in order.into_iter().take(missing) {
        parts[at].0 += 1;
    }
    let sign = amount.micros().signum();
    let part = |(part, _): (u128, u128)| {
        let micros = i64::try_from(part).unwrap_or(i64::MAX);
        Usd::from_micros(micros * sign)
    };
    Some(parts.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_proportional_and_add_up() {
        let check = |micros: i64, weights: &[u128], expect: &[i64]| {
            let parts = apportion(Usd::from_micros(micros), weights).expect("weights");
            let parts: Vec<i64> = parts.into_iter().map(Usd::micros).collect();
            assert_eq!(parts, expect);
        };
        check(10, &[1, 1, 1], &[4, 3, 3]);
        check(-10, &[1, 1, 1], &[-4, -3, -3]);
        check(10, &[0, 5], &[0, 10]);
        check(7, &[2, 1, 1], &[3, 2, 2]);
        check(0, &[2, 1], &[0, 0]);
        check(
            i64::MAX,
            &[1 << 63, 1 << 63],
            &[i64::MAX / 2 + 1, i64::MAX / 2],
        );
        check(i64::MAX, &[u128::MAX / 2, 0], &[i64::MAX, 0]);
        assert_eq!(apportion(Usd::from_micros(1), &[0, 0]), None);
        assert_eq!(apportion(Usd::from_micros(1), &[]), None);
    }
}
