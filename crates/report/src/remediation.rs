//! Commands and settings that fix a gap: a permission or an opt-in of the account.

use ebb_model::visibility_gap::{BY_RESOURCE, Gap};

/// Setting that enables cost by resource.
pub const COST_OPT_IN: &str = "in the console: Billing and Cost Management > Cost Management \
     preferences > Resource-level data at daily granularity (of EC2)";

/// Command that moves an account out of the SES sandbox.
pub const SES_PRODUCTION: &str = "aws sesv2 put-account-details --production-access-enabled \
     --mail-type TRANSACTIONAL --website-url https://YOUR-SITE";

/// IAM policy statement that allows an action.
pub fn statement(action: &str) -> String {
    format!(r#"{{"Effect": "Allow", "Action": "{action}", "Resource": "*"}}"#)
}

/// Fix of a gap in a report; `None` if no single line fixes it.
pub fn of_gap(gap: &Gap) -> Option<String> {
    let is_bill = gap.scope == BY_RESOURCE;
    // Other clouds name their permissions without a colon.
    match gap.denied.as_ref().filter(|action| action.contains(':')) {
        Some(action) if is_bill => Some(format!("{}   and {COST_OPT_IN}", statement(action))),
        Some(action) => Some(statement(action)),
        None => is_bill.then(|| COST_OPT_IN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_denied_is_mended_by_a_statement() {
        let check = |scope: &str, denied: Option<&str>, expect: Option<&str>| {
            let gap = Gap {
                scope: scope.to_owned(),
                reason: "us-east-1: ec2:DescribeVolumes was denied".to_owned(),
                denied: denied.map(str::to_owned),
            };
            match (of_gap(&gap).as_deref(), expect) {
                (Some(got), Some(expect)) => assert!(got.contains(expect), "{got}"),
                (got, expect) => assert_eq!(got, expect),
            }
        };
        let volumes = "us-east-1: ec2:DescribeVolumes";
        let expect = r#""Action": "ec2:DescribeVolumes""#;
        check(volumes, Some("ec2:DescribeVolumes"), Some(expect));
        check(volumes, None, None);
        check("p: zones", Some("compute.zones.list"), None);
        let bill = Some("ce:GetCostAndUsageWithResources");
        check(BY_RESOURCE, bill, Some("Resource-level data"));
        check(BY_RESOURCE, bill, Some("ce:GetCostAndUsageWithResources"));
        check(BY_RESOURCE, None, Some("Resource-level data"));
    }
}
