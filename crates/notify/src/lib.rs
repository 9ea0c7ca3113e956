//! Notifications: the difference to the last report, its form for each channel, and
//! what was delivered.

pub mod cloud_event;
pub mod delivery_state;
pub mod diff;
pub mod digest;
pub mod email_digest;
#[cfg(test)]
mod form_snapshots;
pub mod retry;
pub mod routing;
pub mod slack_digest;
#[cfg(test)]
mod testing;
pub mod welcome;
