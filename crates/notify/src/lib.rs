//! Notifications: the changes since the last report, their form for each channel, and the record of
//! deliveries.

pub mod cloud_event;
pub mod delivery_state;
pub mod diff;
pub mod digest;
pub mod email_digest;
#[cfg(test)]
mod form_snapshots;
pub mod hook_secrets;
pub mod message_form;
pub mod retry;
pub mod routing;
pub mod slack;
pub mod slack_digest;
pub mod test_message;
#[cfg(test)]
mod testing;
mod threads;
pub mod webhook;
pub mod webhook_template;
pub mod weekly;
pub mod welcome;
