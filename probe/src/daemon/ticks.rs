//! Schedules scans. The kernel's timer wakes the program once for each scan. For a wait of ten
//! seconds, the timer of the async runtime wakes it three times. Its resolution goes from coarse to
//! fine.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One tick each period, on a clock that continues during suspend.
pub(super) struct Ticks(AsyncFd<OwnedFd>);

impl Ticks {
    /// The first tick comes after one period.
    pub(super) fn every(period: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let period = Timespec::try_from(period).map_err(io::Error::other)?;
        let times = Itimerspec {
            it_interval: period,
            it_value: period,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        // SAFETY: from here on the timer owns the descriptor and closes it.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) };
        Ok(Self(timer?))
    }

    /// Waits for the next tick. Several missed ticks, for example after a suspend, count as one.
    pub(super) async fn next(&self) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|timer| Ok(rustix::io::read(timer, &mut [0_u8; 8])?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn ticks_come_by_the_period_and_those_missed_are_one() {
        let period = Duration::from_millis(50);
        let began = Instant::now();
        let ticks = Ticks::every(period).expect("a timer");
        ticks.next().await.expect("a tick");
        assert!(began.elapsed() >= period);
        std::thread::sleep(period * 4);
        ticks.next().await.expect("those missed");
        ticks.next().await.expect("another");
        // The first tick, at least four missed ticks, and one more.
        assert!(began.elapsed() >= period * 6);
    }
}
