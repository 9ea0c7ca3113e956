//! Routes of findings to the recipients of their owner.

use serde::{Deserialize, Serialize};

use crate::policy::error::PolicyError;

/// Maximum number of routes; each is a separate message.
const MAX_ROUTES: usize = 200;

/// Recipients of the findings of one owner. A medium without a recipient here uses the default
/// recipient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Owner of the findings: the value of the owner tag.
    pub owner: String,
    /// Name of a channel in the Slack secret.
    #[serde(default)]
    pub slack: Option<String>,
    /// Email recipients.
    #[serde(default)]
    pub email: Vec<String>,
}

/// Whether a text is one plain email address.
pub(crate) fn is_address(text: &str) -> bool {
    let parts = text.split_once('@');
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !",;<>".contains(c);
    parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
        && text.chars().all(plain)
}

impl Route {
    pub(crate) fn check_all(routes: &[Self]) -> Result<(), PolicyError> {
        if routes.len() > MAX_ROUTES {
            return Err(PolicyError::Value {
                key: "route".to_owned(),
                value: i64::try_from(routes.len()).unwrap_or(i64::MAX),
                problem: "at most 200 routes are allowed",
            });
        }
        let mut routes = routes.iter().enumerate();
        routes.try_for_each(|(index, route)| route.check(index))
    }

    fn check(&self, index: usize) -> Result<(), PolicyError> {
        let refused = |problem| {
            Err(PolicyError::Route {
                index,
                owner: self.owner.clone(),
                problem,
            })
        };
        if self.owner.trim().is_empty() {
            return refused("the owner is empty");
        }
        if self.slack.is_none() && self.email.is_empty() {
            return refused("it has neither slack nor email");
        }
        if self
            .slack
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return refused("the channel is empty");
        }
        match self.email.iter().all(|text| is_address(text)) {
            true => Ok(()),
            false => refused("email must contain addresses only, such as team@example.org"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn a_route_names_an_owner_and_a_place() {
        let check = |body: &str, expect: Result<usize, &str>| {
            let got = Policy::parse(&format!("[[route]]\n{body}"));
            let got = got.map(|policy| policy.route.len());
            let got = got.map_err(|error| error.to_string());
            match (got, expect) {
                (Err(error), Err(expect)) => assert!(error.contains(expect), "{error}"),
                (got, expect) => assert_eq!(got, expect.map_err(str::to_owned)),
            }
        };
        check("owner = \"ana\"\nslack = \"lab\"", Ok(1));
        check("owner = \"ana\"\nemail = [\"ana@example.org\"]", Ok(1));
        check("owner = \"ana\"", Err("neither slack nor email"));
        check("owner = \" \"\nslack = \"lab\"", Err("the owner is empty"));
        check("owner = \"ana\"\nslack = \"\"", Err("the channel is empty"));
        let many = "owner = \"ana\"\nemail = [\"Ana <ana@example.org>\"]";
        check(many, Err("addresses only"));
        check("slack = \"lab\"", Err("missing field `owner`"));
    }
}
