//! Converts the SDK's time type.

use aws_smithy_types::DateTime;
use jiff::{SignedDuration, Timestamp};

/// `None` if the time is outside the range of a timestamp.
pub(super) fn timestamp(time: &DateTime) -> Option<Timestamp> {
    let whole = Timestamp::from_second(time.secs()).ok()?;
    let rest = SignedDuration::from_nanos(i64::from(time.subsec_nanos()));
    whole.checked_add(rest).ok()
}
