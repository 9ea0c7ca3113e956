//! The environment that the deployment gives, `terraform/sweeper.tf`, as one value
//! that cannot be wrong.

use anyhow::{Context, Result, anyhow, ensure};
use ebb_cloud::aws::{MemberRole, MemberScope, SPOT_ADVISOR};
use ebb_notify::digest::Addresses;
use ebb_telemetry::identity::Region;
use ebb_telemetry::shard::Shard;

/// Settings of a sweep from the deployment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) bucket: String,
    pub(crate) queue_url: String,
    pub(crate) dead_letter_queue_url: String,
    pub(crate) policy_key: String,
    /// None means all that are enabled.
    pub(crate) regions: Vec<Region>,
    /// Accounts that are looked at too, and the role that is assumed in each; none for a
    /// shard that does not report, for what it folds is its own account's.
    pub(crate) members: MemberScope,
    pub(crate) member_role: MemberRole,
    pub(crate) shard: Shard,
    pub(crate) slack_secret_arn: Option<String>,
    pub(crate) events_secret_arn: Option<String>,
    pub(crate) webhooks_secret_arn: Option<String>,
    pub(crate) email: Option<Addresses>,
    pub(crate) email_contact_list: Option<String>,
    pub(crate) topic_arn: Option<String>,
    /// Address of the pages, unless the policy has one. The sweep checks it.
    pub(crate) pages_url: Option<String>,
    pub(crate) spot_advisor_url: String,
    /// Minutes between two sweeps; `None` if no schedule is enabled. The sweep checks it.
    pub(crate) interval_minutes: Option<String>,
    /// Whether each sweep prints its metrics for CloudWatch, which cost money.
    pub(crate) metrics: bool,
}

impl Settings {
    /// Reads them by name; an empty variable is taken for none.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let optional = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &'static str, what: &'static str| {
            optional(name).with_context(|| format!("{name} is not set: {what}"))
        };
        let listed = |name: &str| -> Vec<String> {
            let all = optional(name).unwrap_or_default();
            let parts = all.split(',').map(|part| part.trim().to_owned());
            parts.filter(|part| !part.is_empty()).collect()
        };
        let regions = listed("EBB_REGIONS")
            .into_iter()
            .map(|name| {
                Region::new(&name)
                    .with_context(|| format!("invalid region '{name}' in EBB_REGIONS"))
            })
            .collect::<Result<_>>()?;
        let members = MemberScope::parse(&optional("EBB_ACCOUNTS").unwrap_or_default());
        let members = members.map_err(|what| anyhow!("invalid EBB_ACCOUNTS: {what}"))?;
        let shard = shard(optional("EBB_SHARD"), optional("EBB_SHARDS"))?;
        let members = match shard.reports() {
            true => members,
            false => MemberScope::Nobody,
        };
        let member_role = MemberRole {
            name: optional("EBB_ACCOUNT_ROLE").unwrap_or_else(|| "ebb-member".to_owned()),
            external_id: optional("EBB_ACCOUNT_EXTERNAL_ID"),
        };
        Ok(Self {
            bucket: needed("EBB_BUCKET", "the bucket of the deployment")?,
            queue_url: needed("EBB_QUEUE_URL", "the queue for heartbeats")?,
            dead_letter_queue_url: needed(
                "EBB_DEAD_LETTER_QUEUE_URL",
                "the queue for dead letters",
            )?,
            policy_key: needed("EBB_POLICY_KEY", "the key of the policy file in the bucket")?,
            regions,
            members,
            member_role,
            shard,
            slack_secret_arn: optional("EBB_SLACK_WEBHOOK_SECRET_ARN"),
            events_secret_arn: optional("EBB_EVENTS_SECRET_ARN"),
            webhooks_secret_arn: optional("EBB_WEBHOOKS_SECRET_ARN"),
            email: Addresses::new(optional("EBB_EMAIL_FROM"), listed("EBB_EMAIL_TO"))?,
            email_contact_list: optional("EBB_EMAIL_CONTACT_LIST"),
            topic_arn: optional("EBB_TOPIC_ARN"),
            pages_url: optional("EBB_PAGES_URL"),
            // A copy of the public file, where a network lets nothing out.
            spot_advisor_url: optional("EBB_SPOT_ADVISOR_URL")
                .unwrap_or_else(|| SPOT_ADVISOR.to_owned()),
            interval_minutes: optional("EBB_INTERVAL_MINUTES"),
            metrics: switch("EBB_METRICS", optional("EBB_METRICS"))?,
        })
    }
}

/// Off unless the variable is `true`.
fn switch(name: &str, value: Option<String>) -> Result<bool> {
    match value.as_deref() {
        Some("true") => Ok(true),
        None | Some("false") => Ok(false),
        Some(other) => Err(anyhow!("{name} is '{other}', expected true or false")),
    }
}

fn shard(shard: Option<String>, shards: Option<String>) -> Result<Shard> {
    let number = |name: &str, value: Option<String>, default: u16| match value {
        None => Ok(default),
        Some(text) => text
            .trim()
            .parse()
            .with_context(|| format!("{name} is '{text}', expected a number from 0 to 65535")),
    };
    let of = number("EBB_SHARDS", shards, 1)?;
    ensure!(
        (1..=Shard::MOST).contains(&of),
        "EBB_SHARDS is {of}, expected 1 to {}",
        Shard::MOST
    );
    let index = number("EBB_SHARD", shard, 0)?;
    ensure!(
        index < of,
        "EBB_SHARD is {index}, expected less than EBB_SHARDS ({of})"
    );
    Ok(Shard { index, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, &str); 5] = [
        ("EBB_BUCKET", "bucket"),
        ("EBB_QUEUE_URL", "https://queue"),
        ("EBB_DEAD_LETTER_QUEUE_URL", "https://dead"),
        ("EBB_POLICY_KEY", "config/policy.toml"),
        ("EBB_REGIONS", ""),
    ];

    fn read(changes: &[(&str, &str)]) -> Result<Settings> {
        let changed = |name: &str| changes.iter().find(|(n, _)| *n == name);
        let given = |name: &str| WHOLE.iter().find(|(n, _)| *n == name);
        Settings::read(|name| {
            let (_, value) = changed(name).or_else(|| given(name))?;
            Some((*value).to_owned())
        })
    }

    #[test]
    fn what_terraform_sets_is_read() {
        let settings = read(&[
            ("EBB_REGIONS", "eu-central-1, us-east-1"),
            ("EBB_SHARDS", "1"),
            ("EBB_ACCOUNTS", "organization"),
            ("EBB_EMAIL_FROM", "ebb@example.com"),
            ("EBB_EMAIL_TO", "a@example.com,b@example.com"),
            ("EBB_SLACK_WEBHOOK_SECRET_ARN", "arn:aws:secretsmanager:x"),
        ]);
        let settings = settings.expect("whole");
        let regions: Vec<_> = settings.regions.iter().map(Region::as_str).collect();
        assert_eq!(regions, ["eu-central-1", "us-east-1"]);
        assert_eq!(settings.email.map(|email| email.to.len()), Some(2));
        assert_eq!(settings.members, MemberScope::Organization);
        assert_eq!(settings.member_role.name, "ebb-member");
        // Without links, everything else of a sweep is possible.
        let pages = read(&[("EBB_PAGES_URL", "ftp://x")]).expect("whole");
        assert_eq!(pages.pages_url.as_deref(), Some("ftp://x"));
        let metrics = read(&[("EBB_METRICS", "true")]).expect("whole");
        assert!(metrics.metrics);
        let bare = read(&[]).expect("whole");
        assert!(!bare.metrics);
        assert_eq!((bare.regions.len(), bare.email), (0, None));
        assert_eq!(bare.shard, Shard::ONLY);
        let third = read(&[("EBB_SHARD", "2"), ("EBB_SHARDS", "4")]);
        assert_eq!(third.expect("whole").shard, Shard { index: 2, of: 4 });
    }

    #[test]
    fn only_the_shard_that_reports_enters_other_accounts() {
        let check = |shard: &str, expect: MemberScope| {
            let settings = read(&[
                ("EBB_SHARD", shard),
                ("EBB_SHARDS", "4"),
                ("EBB_ACCOUNTS", "organization"),
            ]);
            assert_eq!(settings.expect("whole").members, expect, "shard {shard}");
        };
        check("0", MemberScope::Organization);
        check("1", MemberScope::Nobody);
        check("3", MemberScope::Nobody);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let check = |changes: &[(&str, &str)], expect: &str| {
            let error = read(changes).expect_err(expect);
            let words = format!("{error:#}");
            assert!(words.starts_with(expect), "{words}");
        };
        check(&[("EBB_BUCKET", "")], "EBB_BUCKET is not set");
        check(&[("EBB_QUEUE_URL", " ")], "EBB_QUEUE_URL is not set");
        check(&[("EBB_POLICY_KEY", "")], "EBB_POLICY_KEY is not set");
        check(
            &[("EBB_REGIONS", "eu-central-1,a b")],
            "invalid region 'a b' in EBB_REGIONS",
        );
        check(
            &[("EBB_ACCOUNTS", "12")],
            "invalid EBB_ACCOUNTS: '12' is not an account id",
        );
        check(&[("EBB_SHARDS", "0")], "EBB_SHARDS is 0");
        check(&[("EBB_SHARDS", "100")], "EBB_SHARDS is 100");
        check(&[("EBB_SHARD", "1")], "EBB_SHARD is 1");
        check(&[("EBB_SHARD", "x")], "EBB_SHARD is 'x'");
        check(&[("EBB_METRICS", "yes")], "EBB_METRICS is 'yes'");
        check(&[("EBB_EMAIL_FROM", "a@b")], "EBB_EMAIL_TO is not set");
        check(&[("EBB_EMAIL_TO", "a@b")], "EBB_EMAIL_FROM is not set");
    }
}
