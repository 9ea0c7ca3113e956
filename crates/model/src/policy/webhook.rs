//! Webhooks of other programs, with a template for the body of each request.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::finding_kind::FindingKind;
use crate::policy::error::PolicyError;

/// Maximum number of webhooks; each change is one request to each of them.
const MAX_WEBHOOKS: usize = 20;

/// Maximum size of a template in bytes.
const MAX_TEMPLATE_BYTES: usize = 16 << 10;

/// Maximum number of parameters, and of characters of each.
const MAX_PARAMETERS: usize = 20;
const MAX_PARAMETER_CHARS: usize = 500;

/// A webhook. The secret of the deployment contains the URL and the tokens under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Name of the webhook in the secret: 1 to 40 lower-case letters, digits, "-" and "_".
    pub name: String,
    /// Built-in template: "teams", "pagerduty", "jira", "slack" or "generic".
    #[serde(default)]
    pub template: Option<BuiltinTemplate>,
    /// Template of your own, in the syntax of Jinja; its output must be JSON.
    #[serde(default)]
    pub body: Option<String>,
    /// Values for the template, such as the project of Jira. Not for secrets.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Only findings of these kinds; empty for all.
    #[serde(default)]
    pub kinds: BTreeSet<FindingKind>,
    /// Only findings of these owners; empty for all.
    #[serde(default)]
    pub owners: BTreeSet<String>,
    /// Only these changes. Without it, all except "set_aside".
    #[serde(default = "all_changes")]
    pub on: BTreeSet<WebhookChange>,
}

/// A template of Ebb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BuiltinTemplate {
    /// A card of Microsoft Teams, for the Workflows app.
    Teams,
    /// An alert of PagerDuty, which the end of the finding resolves, or its dismissal or snooze.
    #[serde(rename = "pagerduty")]
    PagerDuty,
    /// An issue of Jira for each new finding; needs the parameters `project` and `issue_type`.
    Jira,
    /// A message for an incoming webhook of Slack.
    Slack,
    /// All values as plain JSON.
    Generic,
}

/// A change of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WebhookChange {
    /// New, back, or no longer set aside.
    New,
    /// More expensive.
    Grown,
    /// Dismissed or snoozed.
    SetAside,
    /// Resolved.
    Resolved,
}

fn all_changes() -> BTreeSet<WebhookChange> {
    use WebhookChange::{Grown, New, Resolved};
    BTreeSet::from([New, Grown, Resolved])
}

impl Webhook {
    /// Whether a change of a finding is sent.
    pub fn wants(&self, change: WebhookChange, kind: FindingKind, owner: Option<&str>) -> bool {
        // An issue has no later changes: another one would be created.
        let is_issue = self.template == Some(BuiltinTemplate::Jira);
        // An alert that nobody is to act on must not stay open.
        let ends_alert = self.template == Some(BuiltinTemplate::PagerDuty)
            && change == WebhookChange::SetAside
            && self.on.contains(&WebhookChange::Resolved);
        (self.on.contains(&change) || ends_alert)
            && (!is_issue || change == WebhookChange::New)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.owners.is_empty() || owner.is_some_and(|owner| self.owners.contains(owner)))
    }

    pub(crate) fn check_all(webhooks: &[Self]) -> Result<(), PolicyError> {
        let mut names = BTreeSet::new();
        for (index, webhook) in webhooks.iter().enumerate() {
            let problem = match () {
                () if index >= MAX_WEBHOOKS => Some("at most 20 webhooks are allowed"),
                () if !names.insert(&webhook.name) => Some("another webhook has the same name"),
                () => webhook.problem(),
            };
            if let Some(problem) = problem {
                let name = webhook.name.chars().take(40).collect();
                return Err(PolicyError::Webhook {
                    index,
                    name,
                    problem,
                });
            }
        }
        Ok(())
    }

    fn problem(&self) -> Option<&'static str> {
        let is_name = |text: &str| {
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
            (1..=40).contains(&text.len()) && text.chars().all(is_part)
        };
        let mut parameters = self.parameters.iter();
        let is_long = |(name, value): (&String, &String)| {
            !is_name(name) || value.chars().count() > MAX_PARAMETER_CHARS
        };
        let has = |name: &str| self.parameters.contains_key(name);
        let is_jira = self.template == Some(BuiltinTemplate::Jira);
        match () {
            () if !is_name(&self.name) => {
                Some("the name must be 1 to 40 lower-case letters, digits, \"-\" and \"_\"")
            }
            () if self.template.is_some() == self.body.is_some() => {
                Some("set either template or body")
            }
            () if (self.body.as_ref()).is_some_and(|body| body.len() > MAX_TEMPLATE_BYTES) => {
                Some("the body has more than 16 KiB")
            }
            () if self.parameters.len() > MAX_PARAMETERS || parameters.any(is_long) => Some(
                "at most 20 parameters are allowed, with names like those of webhooks and values \
                 of at most 500 characters",
            ),
            () if is_jira && !(has("project") && has("issue_type")) => {
                Some("the template jira needs parameters.project and parameters.issue_type")
            }
            () if self.on.is_empty() => Some("on is empty, so nothing would be sent"),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn a_webhook_has_a_name_and_one_template() {
        let check = |file: &str, expect: Result<usize, &str>| {
            let got = Policy::parse(&format!("[[webhooks]]\n{file}"));
            let got = got.map(|policy| policy.webhooks.len());
            match (got.map_err(|error| error.to_string()), expect) {
                (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
                (got, expect) => assert_eq!(got, expect.map_err(str::to_owned), "{file}"),
            }
        };
        check("name = \"ops\"\ntemplate = \"pagerduty\"", Ok(1));
        check("name = \"ops\"\nbody = \"{}\"\non = [\"new\"]", Ok(1));
        let jira = "name = \"ops\"\ntemplate = \"jira\"";
        check(jira, Err("needs parameters.project"));
        let parameters = "parameters = { project = \"OPS\", issue_type = \"Task\" }";
        check(&format!("{jira}\n{parameters}"), Ok(1));
        check("name = \"ops\"", Err("set either template or body"));
        check(
            "name = \"Ops\"\ntemplate = \"teams\"",
            Err("the name must be"),
        );
        check("name = \"ops\"\ntemplate = \"irc\"", Err("unknown variant"));
        check("name = \"ops\"\nbody = \"{}\"\non = []", Err("on is empty"));
        check("name = \"ops\"\nurl = \"https://x\"", Err("unknown field"));
        let twice = "name = \"a\"\nbody = \"1\"\n[[webhooks]]\nname = \"a\"\nbody = \"1\"";
        check(twice, Err("the same name"));
        let long = format!("name = \"a\"\nbody = \"{}\"", "x".repeat(16_385));
        check(&long, Err("more than 16 KiB"));
    }

    #[test]
    fn filters_select_changes_kinds_and_owners() {
        let file = "[[webhooks]]\nname = \"a\"\nbody = \"1\"\nkinds = [\"idle_node\"]\n\
            owners = [\"ana\"]\non = [\"new\"]";
        let webhook = Policy::parse(file).expect("valid").webhooks.remove(0);
        let idle = FindingKind::IdleNode;
        assert!(webhook.wants(WebhookChange::New, idle, Some("ana")));
        assert!(!webhook.wants(WebhookChange::Grown, idle, Some("ana")));
        assert!(!webhook.wants(WebhookChange::New, idle, Some("ben")));
        assert!(!webhook.wants(WebhookChange::New, idle, None));
        assert!(!webhook.wants(WebhookChange::New, FindingKind::RetryStorm, Some("ana")));
    }
}
