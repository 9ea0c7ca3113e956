//! The line that mends what is missing: a permission, an opt-in of the account.

use ebb_domain::fleet::Gap;

/// How cost by resource is switched on.
pub const COST_OPT_IN: &str = "in the console: Billing and Cost Management > Cost Management \
     preferences > Resource-level data at daily granularity (of EC2)";

/// How an account leaves the sandbox of SES.
pub const SES_PRODUCTION: &str = "aws sesv2 put-account-details --production-access-enabled \
     --mail-type TRANSACTIONAL --website-url https://YOUR-SITE";

/// What a policy of IAM has to say.
pub fn statement(action: &str) -> String {
    format!(r#"{{"Effect": "Allow", "Action": "{action}", "Resource": "*"}}"#)
}

/// What mends a gap of a report; `None` where there is no one line for it.
pub fn of_gap(gap: &Gap) -> Option<String> {
    let denied = gap
        .reason
        .split_once(" was denied")
        .map(|(action, _)| action);
    let is_action = |action: &&str| {
        let parts = action.split_once(':');
        let plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        parts.is_some_and(|(service, verb)| plain(service) && plain(verb))
    };
    let is_bill = gap.scope == "bill by resource";
    match denied.filter(is_action) {
        Some(action) if is_bill => Some(format!("{}   and {COST_OPT_IN}", statement(action))),
        Some(action) => Some(statement(action)),
        None => is_bill.then(|| COST_OPT_IN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_denied_is_mended_by_a_statement_and_a_name_from_outside_makes_none() {
        let check = |scope: &str, reason: &str, expect: Option<&str>| {
            let gap = Gap {
                scope: scope.to_owned(),
                reason: reason.to_owned(),
            };
            let got = of_gap(&gap);
            match (got.as_deref(), expect) {
                (Some(got), Some(expect)) => assert!(got.contains(expect), "{got}"),
                (got, expect) => assert_eq!(got, expect),
            }
        };
        let denied = "ec2:DescribeVolumes was denied: no";
        check(
            "us-east-1: volumes",
            denied,
            Some(r#""Action": "ec2:DescribeVolumes""#),
        );
        let denied = "ce:GetCostAndUsageWithResources was denied: no";
        check("bill by resource", denied, Some("Resource-level data"));
        check("bill by resource", "failed", Some("Resource-level data"));
        check("us-east-1: volumes", "throttled", None);
        check("x", r#"a", "b:c" was denied"#, None);
    }
}
