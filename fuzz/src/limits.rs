//! Limits on what one input may cost. Memory of Ebb's own allocations is refused beyond a
//! bound; CPU time is measured, because wall time depends on what else the machine does.

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use rustix::time::{ClockId, clock_gettime};

/// An allocator that counts and refuses.
pub type LimitedAllocator = Cap<System>;

/// A limited allocator without a limit yet; the program must use it as its global one.
pub const fn allocator() -> LimitedAllocator {
    Cap::new(System, usize::MAX)
}

/// Limits of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory on top of what was allocated before, for an empty input.
    pub memory_bytes: usize,
    /// Memory for each byte of the input, in addition.
    pub memory_bytes_an_input_byte: usize,
    /// CPU time of all threads.
    pub cpu_time: Duration,
}

impl Default for Limits {
    /// A reader unpacks at most a few MiB, and takes milliseconds. The time is that of a
    /// build without optimisation on a slow machine, so that only growth is reported.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memory_bytes_an_input_byte: 64,
            cpu_time: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Runs `reader` on `input` within these limits.
    ///
    /// # Panics
    /// If it takes more CPU time. If it allocates more memory, the process ends.
    pub fn run<T>(
        self,
        allocator: &LimitedAllocator,
        input: &[u8],
        reader: impl FnOnce(&[u8]) -> T,
    ) -> T {
        let memory = input
            .len()
            .saturating_mul(self.memory_bytes_an_input_byte)
            .saturating_add(self.memory_bytes);
        let before = cpu_time();
        let limit = allocator.allocated().saturating_add(memory);
        allocator
            .set_limit(limit)
            .expect("it is above what is allocated");
        let outcome = reader(input);
        allocator.set_limit(usize::MAX).expect("no limit");
        let taken = cpu_time().saturating_sub(before);
        assert!(
            taken <= self.cpu_time,
            "an input of {} bytes took {taken:?} of CPU time, more than {:?}",
            input.len(),
            self.cpu_time
        );
        outcome
    }
}

/// CPU time of the process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
