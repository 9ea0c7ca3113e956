//! Parts of the inventory, of the bill, or of the data from nodes that could not be read.

use ebb_telemetry::identity::AccountId;
use serde::{Deserialize, Serialize};

/// The scope of a gap in the costs by resource, after the account if there are several.
pub const BY_RESOURCE: &str = "bill by resource";

/// The same for the costs by service, which are those of whole days.
pub const BY_SERVICE: &str = "bill by service";

/// Prefix of the scope of a gap in a call that covers all regions.
pub const ALL_REGIONS: &str = "all regions";

/// The call in the scope of a gap in the whole inventory of a region.
pub const WHOLE_INVENTORY: &str = "inventory";

/// The call in the scope of a gap in a list of ended jobs that is too long. It hides no job that still
/// runs.
pub const ENDED_JOBS: &str = "batch:ListJobs of ended jobs";

/// Prefix of the scope of a gap in the list of accounts.
pub const ALL_ACCOUNTS: &str = "accounts of the organization";

/// The scope of a gap in the heartbeats and finished tasks from nodes.
pub const INGESTION: &str = "ingestion";

/// A part of the inventory, of the bill, or of the data from nodes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// The region and call, such as `eu-central-1: batch:DescribeJobs`. For another account the
    /// scope begins with the account: `account 123456789012 eu-central-1: batch:DescribeJobs`.
    pub scope: String,
    /// The reason.
    pub reason: String,
    /// The missing permission, such as `ec2:DescribeVolumes`; `None` if the reason is another.
    #[serde(default)]
    pub denied: Option<String>,
}

/// The reason of a failed request, before the scope of the gap is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refused {
    /// The reason as text.
    pub reason: String,
    /// As [`Gap::denied`].
    #[serde(default)]
    pub denied: Option<String>,
}

impl Refused {
    /// A reason other than a missing permission.
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            denied: None,
        }
    }

    /// A gap with this scope.
    pub fn gap(self, scope: impl Into<String>) -> Gap {
        Gap {
            scope: scope.into(),
            reason: self.reason,
            denied: self.denied,
        }
    }

    /// Appends text to the reason.
    #[must_use]
    pub fn and(mut self, words: &str) -> Self {
        self.reason.push_str(words);
        self
    }
}

impl Gap {
    /// A gap with a reason other than a missing permission.
    pub fn new(scope: impl Into<String>, reason: impl Into<String>) -> Self {
        Refused::because(reason).gap(scope)
    }

    /// The scope in one of several accounts, which begins with the account.
    pub fn of_account(account: &AccountId, scope: &str) -> String {
        format!("account {account} {scope}")
    }

    /// The scope of data from one sender.
    pub fn of_sender(name: &str) -> String {
        format!("{INGESTION}: {name}")
    }

    /// Whether data from nodes are missing, of all senders or of one.
    pub fn is_of_ingestion(&self) -> bool {
        let rest = self.scope.strip_prefix(INGESTION);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
    }

    /// The scope of an account that could not be accessed with this call.
    pub fn not_entered(account: &AccountId, call: &str) -> String {
        format!("account {account}: {call}")
    }

    /// Whether this gap may hide a resource of this account and region. If `account` is `None`, a
    /// gap of any account may hide it.
    pub fn may_hide(&self, account: Option<&AccountId>, region: &str) -> bool {
        let (of, place) = self.parts();
        let is_anothers = of
            .zip(account)
            .is_some_and(|(of, known)| of != known.as_str());
        if is_anothers {
            return false;
        }
        let is_all = |all| place.starts_with(all);
        let is_whole_account = of.is_some() && place.starts_with(':');
        is_whole_account
            || is_all(ALL_REGIONS)
            || is_all(ALL_ACCOUNTS)
            || self.in_region(region).is_some()
    }

    /// Whether this gap may hide what one of these calls lists in an account and region: a gap of
    /// prices or metrics hides no resource. A gap of the whole inventory hides every resource.
    pub fn may_hide_from(&self, account: Option<&AccountId>, region: &str, calls: &[&str]) -> bool {
        let is_one = |failed: &str| {
            failed.is_empty() || failed == WHOLE_INVENTORY || calls.contains(&failed)
        };
        self.may_hide(account, region) && self.in_region(region).is_none_or(is_one)
    }

    /// Whether this gap may hide what one of these calls lists in some account and region.
    pub fn may_hide_anywhere(&self, calls: &[&str]) -> bool {
        let (account, place) = self.parts();
        let (region, failed) = place.split_once(": ").unwrap_or((place, ""));
        let is_whole_account = account.is_some() && region.is_empty();
        is_whole_account
            || region.starts_with(ALL_REGIONS)
            || region.starts_with(ALL_ACCOUNTS)
            || failed == WHOLE_INVENTORY
            || calls.contains(&failed)
    }

    /// Whether the scope is the bill: of Cost Explorer, or of an export.
    pub fn is_of_bill(&self) -> bool {
        let (_, place) = self.parts();
        let mut begins = ["bill by ", "billing export ", "cost export "].iter();
        begins.any(|begin| place.starts_with(begin)) || place.contains("ce:Get")
    }

    /// Whether the costs of whole days may lack an account, or all services but machines. The bill of
    /// an account is added only if its costs by resource are known.
    pub fn is_of_whole_days(&self) -> bool {
        let (account, place) = self.parts();
        place == BY_SERVICE || (account.is_some() && place == BY_RESOURCE)
    }

    /// The call that failed in a region, in any account; `None` for a gap of another region, or of
    /// none.
    pub fn in_region(&self, region: &str) -> Option<&str> {
        let (_, place) = self.parts();
        let call = place.strip_prefix(region)?;
        // `us-east-11` is not `us-east-1`.
        let ends = !call.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        ends.then(|| call.trim_start_matches([':', ' ']))
    }

    /// The account; `None` if the scope contains none.
    pub fn account(&self) -> Option<AccountId> {
        let (account, _) = self.parts();
        account.and_then(|account| AccountId::new(account).ok())
    }

    /// The account, if the scope contains one, and the remaining text.
    fn parts(&self) -> (Option<&str>, &str) {
        let Some(scope) = self.scope.strip_prefix("account ") else {
            return (None, &self.scope);
        };
        let end = scope.find([' ', ':']).unwrap_or(scope.len());
        let (account, place) = scope.split_at(end);
        (Some(account), place.trim_start_matches(' '))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_stored_and_read_back() {
        let denied = Gap {
            denied: Some("ec2:DescribeVolumes".to_owned()),
            ..Gap::new("us-east-1: volumes", "no")
        };
        let gaps = vec![Gap::new("bill", "no"), denied];
        let stored = postcard::to_allocvec(&gaps).expect("it is encoded");
        assert_eq!(postcard::from_bytes(&stored), Ok(gaps));
        let earlier = r#"{"scope": "bill", "reason": "no"}"#;
        assert_eq!(
            serde_json::from_str(earlier).ok(),
            Some(Gap::new("bill", "no"))
        );
    }

    #[test]
    fn gaps_of_a_bill_are_known_by_their_scope() {
        let check = |scope: &str, expect: bool| {
            assert_eq!(Gap::new(scope, "no").is_of_bill(), expect, "{scope}");
        };
        check(BY_RESOURCE, true);
        check("bill by service", true);
        check("account 000000000001 bill by service", true);
        check("us-east-1: ce:GetCostAndUsage", true);
        check("cost export s3://bills/ebb 2026-11-03", true);
        check("billing export bill.csv:7: cost", true);
        check("us-east-1: ec2:DescribeVolumes", false);
        check("fleet.csv:7: resource:", false);
    }

    #[test]
    fn days_lack_what_is_missing_by_service_and_an_account_without_resources() {
        let check = |scope: &str, expect: bool| {
            assert_eq!(Gap::new(scope, "no").is_of_whole_days(), expect, "{scope}");
        };
        check(BY_SERVICE, true);
        check("account 000000000001 bill by service", true);
        check("account 000000000001 bill by resource", true);
        check(BY_RESOURCE, false);
        check("bill by service, newest data", false);
    }

    #[test]
    fn a_gap_hides_what_its_call_lists_and_no_prices() {
        let check = |scope: &str, expect: bool| {
            let gap = Gap::new(scope, "denied");
            let got = gap.may_hide_from(None, "us-east-1", &["ec2:DescribeVolumes"]);
            assert_eq!(got, expect, "{scope}");
        };
        check("us-east-1: ec2:DescribeVolumes", true);
        check("us-east-1: inventory", true);
        check("us-east-1", true);
        check(ALL_REGIONS, true);
        check("us-east-1: ec2:DescribeAddresses", false);
        check("us-east-1: list prices", false);
        check("us-east-1: metrics", false);
        check("us-west-2: ec2:DescribeVolumes", false);
    }

    #[test]
    fn a_gap_of_any_region_or_account_may_hide_what_its_call_lists() {
        let check = |scope: &str, expect: bool| {
            let got = Gap::new(scope, "denied").may_hide_anywhere(&["ec2:DescribeVolumes"]);
            assert_eq!(got, expect, "{scope}");
        };
        check("us-east-1: ec2:DescribeVolumes", true);
        check("account 000000000002 us-east-1: ec2:DescribeVolumes", true);
        check("us-east-1: inventory", true);
        check("account 000000000002: sts:AssumeRole", true);
        check(ALL_REGIONS, true);
        check(ALL_ACCOUNTS, true);
        check("us-east-1: ec2:DescribeAddresses", false);
        check("us-east-1: list prices", false);
        check("Savings Plans", false);
        check(INGESTION, false);
    }

    #[test]
    fn what_is_hidden_is_of_the_gaps_account_and_region_or_may_be() {
        let of = |n: u8| AccountId::new(format!("{n:012}")).expect("an account");
        let check = |scope: &str, account: Option<u8>, expect: bool| {
            let gap = Gap::new(scope.to_owned(), "denied");
            let account = account.map(of);
            let got = gap.may_hide(account.as_ref(), "us-east-1");
            assert_eq!(got, expect, "{scope} of {account:?}");
        };
        check("us-east-1: inventory", Some(1), true);
        check("us-east-1: inventory", None, true);
        check("us-east-11: inventory", None, false);
        check("us-east-1-x: inventory", None, false);
        check("all regions", Some(1), true);
        check("accounts of the organization", Some(1), true);
        check("Savings Plans", None, false);
        let there = Gap::of_account(&of(2), "us-east-1: ec2:DescribeVolumes");
        check(&there, Some(2), true);
        check(&there, Some(1), false);
        check(&there, None, true);
        check(
            &Gap::of_account(&of(2), "eu-west-1: inventory"),
            None,
            false,
        );
        check(&Gap::of_account(&of(2), "Savings Plans"), Some(2), false);
        let shut = Gap::not_entered(&of(2), "sts:AssumeRole");
        check(&shut, Some(2), true);
        check(&shut, Some(1), false);
        check(&shut, None, true);
    }
}
