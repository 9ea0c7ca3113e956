//! The progress of a scan on standard error, if the scan takes long.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ebb_cloud::ports::{CloudResult, InventorySource};
use ebb_model::inventory::Inventory;
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::Region;
use tokio::time::{Instant, interval_at};

use crate::output;

const PATIENCE: Duration = Duration::from_secs(2);

/// Interval at which the line of a terminal is rewritten.
const REWRITTEN: Duration = Duration::from_millis(500);

/// Interval of lines in a log, where they remain.
const REPEATED: Duration = Duration::from_secs(10);

/// An inventory that counts the regions that answered.
pub(super) struct Progress<'a> {
    inventory: &'a dyn InventorySource,
    regions: AtomicUsize,
    answered: AtomicUsize,
    refused: AtomicUsize,
    refusal: Mutex<Option<String>>,
}

impl<'a> Progress<'a> {
    /// `regions` is the number of regions, or 0 if the account lists them.
    pub(super) fn new(inventory: &'a dyn InventorySource, regions: usize) -> Self {
        Self {
            inventory,
            regions: AtomicUsize::new(regions),
            answered: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            refusal: Mutex::new(None),
        }
    }

    /// Waits for `work`, and shows the progress if it takes long.
    pub(super) async fn show_during<T>(&self, work: impl Future<Output = T>) -> T {
        let line = io::stderr().is_terminal();
        let every = if line { REWRITTEN } else { REPEATED };
        let begun = Instant::now();
        let mut ticks = interval_at(begun + PATIENCE, every);
        let mut work = pin!(work);
        let mut shown = false;
        loop {
            tokio::select! {
                done = &mut work => {
                    if shown && line {
                        output::progress("");
                    }
                    return done;
                }
                _ = ticks.tick() => {
                    let text = self.words(begun.elapsed());
                    match line {
                        true => output::progress(&text),
                        false => eprintln!("{text}"),
                    }
                    shown = true;
                }
            }
        }
    }

    /// The reason if no region answered.
    pub(super) fn nothing_answered(&self) -> Option<String> {
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match self.answered.load(Ordering::Relaxed) {
            0 => refusal.clone(),
            _ => None,
        }
    }

    fn words(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs();
        let refused = self.refused.load(Ordering::Relaxed);
        let done = self.answered.load(Ordering::Relaxed) + refused;
        match self.regions.load(Ordering::Relaxed) {
            0 => format!("{seconds} s: listing the enabled regions"),
            all if done < all => format!("{seconds} s: read {done} of {all} regions"),
            all => format!("{seconds} s: read {all} regions; requesting metrics and the bill"),
        }
    }

    fn count<T>(&self, answer: &CloudResult<T>, answered: &AtomicUsize) {
        match answer {
            Ok(_) => _ = answered.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                let mut first = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

#[async_trait]
impl InventorySource for Progress<'_> {
    async fn regions(&self) -> CloudResult<Vec<Region>> {
        let answer = self.inventory.regions().await;
        self.count(&answer, &AtomicUsize::new(0));
        if let Ok(regions) = &answer {
            self.regions.store(regions.len(), Ordering::Relaxed);
        }
        answer
    }

    async fn gather(&self, region: &Region) -> CloudResult<Inventory> {
        let answer = self.inventory.gather(region).await;
        self.count(&answer, &self.answered);
        answer
    }

    fn not_entered(&self) -> Vec<Gap> {
        self.inventory.not_entered()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebb_cloud::fake::FakeInventory;
    use ebb_cloud::ports::CloudError;

    use super::*;

    fn region(name: &str) -> Region {
        Region::new(name).expect("a region")
    }

    #[tokio::test]
    async fn regions_are_counted_and_one_answer_is_enough() {
        let (a, b) = (region("eu-west-1"), region("us-east-1"));
        let inventory = FakeInventory::new(BTreeMap::from([(a.clone(), Inventory::default())]));
        inventory.set(
            b.clone(),
            Err(CloudError::Denied {
                operation: "ec2:DescribeInstances".to_owned(),
                message: "no".to_owned(),
            }),
        );
        let progress = Progress::new(&inventory, 0);
        assert_eq!(progress.words(PATIENCE), "2 s: listing the enabled regions");
        assert_eq!(progress.regions().await.map(|all| all.len()), Ok(2));
        assert!(progress.gather(&b).await.is_err());
        let reason = progress.nothing_answered().expect("only a refusal so far");
        assert!(reason.contains("ec2:DescribeInstances"), "{reason}");
        assert_eq!(progress.words(PATIENCE), "2 s: read 1 of 2 regions");
        assert!(progress.gather(&a).await.is_ok());
        assert_eq!(progress.nothing_answered(), None);
        let words = progress.words(PATIENCE);
        assert!(words.starts_with("2 s: read 2 regions"), "{words}");
    }
}
