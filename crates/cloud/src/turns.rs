//! Runs many calls with a limited concurrency.

use futures::{StreamExt, stream};

#[cfg(any(feature = "inventory", feature = "accounts", feature = "queue"))]
/// Number of parallel calls to one service; more would only be throttled.
pub(crate) const AT_ONCE: usize = 8;

#[cfg(feature = "account")]
/// Number of accounts read in parallel. AWS limits calls by account and region, so accounts do not
/// throttle each other if each has its own retry partition.
pub(crate) const ACCOUNTS_AT_ONCE: usize = 16;

#[cfg(any(feature = "inventory", feature = "accounts", feature = "queue"))]
/// Runs all `calls`, [`AT_ONCE`] at a time. Results are in the order of completion, so callers sort
/// their output.
pub(crate) async fn in_turns<T>(
    calls: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    in_turns_of(AT_ONCE, calls).await
}

/// Runs all `calls`, `at_once` at a time. Results are in the order of completion, so callers sort
/// their output.
pub(crate) async fn in_turns_of<T>(
    at_once: usize,
    calls: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    let calls = stream::iter(calls);
    calls.buffer_unordered(at_once).collect().await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn every_call_runs_and_never_too_many_at_once() {
        let running = Arc::new(AtomicUsize::new(0));
        let calls = (0..50).map(|n| {
            let running = Arc::clone(&running);
            async move {
                let others = running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                assert!(others < 8);
                n
            }
        });
        let mut answers = in_turns_of(8, calls).await;
        answers.sort_unstable();
        assert_eq!(answers, (0..50).collect::<Vec<_>>());
    }
}
