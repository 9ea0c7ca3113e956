//! The retry policy: pauses that double, with jitter, so that the nodes of a fleet do not all retry
//! at the same time.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// The number of consecutive failures.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause after one more failure: between half and all of the doubled pause. `jitter`
    /// selects the point, from 0 to 255.
    pub(super) fn next(&mut self, jitter: u8) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        let step = FIRST.saturating_mul(doubled).min(LONGEST);
        step / 2 + step / 2 * u32::from(jitter) / 255
    }
}

/// A random byte; 255, for the longest pause, if the kernel has no randomness.
pub(super) fn jitter() -> u8 {
    let mut byte = [u8::MAX];
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::NONBLOCK);
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_bound_and_are_spread_over_their_upper_half() {
        let check = |failures: u32, jitter: u8, expect_ms: u128| {
            let mut backoff = Backoff { failures };
            assert_eq!(
                backoff.next(jitter).as_millis(),
                expect_ms,
                "{failures} {jitter}"
            );
            assert_eq!(backoff.failures, failures.saturating_add(1));
        };
        check(0, 0, 500);
        check(0, 255, 1_000);
        check(1, 255, 2_000);
        check(4, 0, 8_000);
        check(9, 255, 300_000);
        check(u32::MAX, 0, 150_000);
    }
}
