//! Many calls, a bounded number of them at once.

use std::future::Future;

use tokio::task::JoinSet;

/// How many calls to one service are under way at once; more only throttle.
pub(crate) const AT_ONCE: usize = 8;

/// Runs all `calls`, [`AT_ONCE`] of them at a time. Answers come in the order in
/// which they end, so callers sort what they show.
pub(crate) async fn in_turns<T, F>(calls: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut waiting = calls.into_iter();
    let mut running = JoinSet::new();
    for call in waiting.by_ref().take(AT_ONCE) {
        running.spawn(call);
    }
    let mut answers = Vec::new();
    while let Some(ended) = running.join_next().await {
        if let Some(call) = waiting.next() {
            running.spawn(call);
        }
        answers.push(ended.expect("a call to the cloud does not panic"));
    }
    answers
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
                let beside = running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                assert!(beside < AT_ONCE);
                n
            }
        });
        let mut answers = in_turns(calls).await;
        answers.sort_unstable();
        assert_eq!(answers, (0..50).collect::<Vec<_>>());
    }
}
