//! Requests the names of kernel addresses on stacks, and decides when.

use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::{Array, MapData};

use super::{KernelError, iterate};

pub(super) const PROGRAM: &str = "name_addresses";
const MAP: &str = "addresses";

/// Requests names from the kernel.
pub(super) struct KernelSymbols {
    addresses: Array<MapData, u64>,
    /// Number of addresses in the last request.
    before: usize,
    times: u32,
    last: Option<Instant>,
    is_unavailable: bool,
}

impl KernelSymbols {
    /// The first few scans request all common names; after that, one scan a minute is enough.
    const AT_ONCE: u32 = 5;
    const LATER: Duration = Duration::from_secs(60);

    /// Requests names through this map, or never if stacks are not reported.
    pub(super) const fn new(addresses: Array<MapData, u64>, reports_stacks: bool) -> Self {
        Self {
            addresses,
            before: 0,
            times: 0,
            last: None,
            is_unavailable: !reports_stacks,
        }
    }

    pub(super) const fn is_unavailable(&self) -> bool {
        self.is_unavailable
    }

    pub(super) fn is_due(&mut self) -> bool {
        let waited = self.last.is_none_or(|last| last.elapsed() > Self::LATER);
        let due = !self.is_unavailable && (self.times < Self::AT_ONCE || waited);
        if due {
            self.times = self.times.saturating_add(1);
            self.last = Some(Instant::now());
        }
        due
    }

    /// Lines with an address and its name. Their number is limited by the size of the map and the
    /// number of tasks; the remaining addresses can be requested again.
    pub(super) fn resolve(
        &mut self,
        ebpf: &mut Ebpf,
        addresses: &[u64],
    ) -> Result<Vec<u8>, KernelError> {
        let blanks = self.before.saturating_sub(addresses.len());
        let wanted = addresses
            .iter()
            .copied()
            .chain(std::iter::repeat_n(0, blanks));
        for (place, address) in (0..self.addresses.len()).zip(wanted) {
            let set = self.addresses.set(place, address, 0);
            set.map_err(|source| KernelError::Map { name: MAP, source })?;
        }
        self.before = addresses.len();
        let mut names = Vec::new();
        iterate(ebpf, PROGRAM, &mut names)?;
        Ok(names)
    }
}
