//! Retention of a place of `ebb sweep`. On AWS, the rules of the bucket do the same; `terraform/bucket.tf`
//! lists them.

use ebb_cloud::ports::{CloudResult, Objects};
use jiff::{SignedDuration, Timestamp};

use crate::lake_upkeep::is_first_of_day;

/// Prefixes, and the days after which their objects are deleted. Dated reports begin with the year,
/// whereas `reports/latest/` stays. The days are the defaults of the Terraform module.
const RETENTION: [(&str, i64); 4] = [
    ("reports/2", 90),
    ("dead-letter/", 30),
    ("details/", 30),
    ("names/", 30),
];

/// Entries in one request, and the maximum number of requests for one prefix a day. The next day
/// continues.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 1_000;

/// Deletes expired objects, with the first sweep of a day. `previous` is the time of the sweep before.
/// Returns the number of deleted objects.
///
/// # Errors
/// If a request fails. The next day tries again.
pub async fn expire(
    objects: &dyn Objects,
    previous: Option<Timestamp>,
    now: Timestamp,
) -> CloudResult<usize> {
    if !is_first_of_day(previous, now) {
        return Ok(0);
    }
    let mut deleted = 0;
    for (prefix, days) in RETENTION {
        let oldest = now.saturating_sub(SignedDuration::from_hours(24 * days));
        let oldest = oldest.unwrap_or(Timestamp::MIN);
        deleted += expire_prefix(objects, prefix, oldest).await?;
    }
    Ok(deleted)
}

async fn expire_prefix(
    objects: &dyn Objects,
    prefix: &str,
    oldest: Timestamp,
) -> CloudResult<usize> {
    let (mut deleted, mut last) = (0, None);
    for _ in 0..MAX_PAGES {
        let page = objects.list(prefix, last.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        last = page.last().map(|listed| listed.key.clone());
        let expired = page
            .into_iter()
            .filter(|listed| listed.modified_at < oldest);
        let expired: Vec<String> = expired.map(|listed| listed.key).collect();
        if !expired.is_empty() {
            objects.delete(&expired).await?;
            deleted += expired.len();
        }
        if is_last {
            break;
        }
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_cloud::fake::{FakeClock, FakeObjects};

    #[tokio::test]
    async fn dated_reports_and_refused_data_expire_and_the_latest_report_and_the_state_stay() {
        let day =
            |days: i64| Timestamp::from_second(1_790_000_000 + days * 86_400).expect("a time");
        let clock = FakeClock::at(day(0));
        let objects = FakeObjects::new(clock.clone());
        let keys = [
            "reports/2026-09-21T00-00-00Z/report.json",
            "reports/latest/report.json",
            "dead-letter/messages/1.msg",
            "details/index.json",
            "names/v1/a.json",
            "state/v1/0",
            "decisions/a.json",
            "config/policy.toml",
            "lake/heartbeats/a.parquet",
        ];
        for key in keys {
            objects.insert(key, *b"x");
        }
        let check = async |days: i64, previous: i64, expect: usize| {
            let deleted = expire(&objects, Some(day(previous)), day(days)).await;
            assert_eq!(deleted, Ok(expect), "day {days}");
        };
        check(29, 28, 0).await;
        check(31, 31, 0).await;
        check(31, 30, 3).await;
        check(91, 90, 1).await;
        let left: Vec<&str> = keys
            .into_iter()
            .filter(|key| objects.stored(key).is_some())
            .collect();
        assert_eq!(
            left,
            [
                "reports/latest/report.json",
                "state/v1/0",
                "decisions/a.json",
                "config/policy.toml",
                "lake/heartbeats/a.parquet"
            ]
        );
    }
}
