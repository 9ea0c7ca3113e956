//! Routes: where the word about an owner's findings goes, instead of to everybody.

use serde::{Deserialize, Serialize};

use crate::policy::error::PolicyError;

/// Routes at most: each is a message of its own.
const MAX_ROUTES: usize = 200;

/// Where the word about one owner's findings goes. What it names no place for goes
/// where the rest goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The owner as findings name it: the value of the tag.
    pub owner: String,
    /// The chat's channel, by the name that the secret gives it.
    #[serde(default)]
    pub slack: Option<String>,
    /// Recipients of email.
    #[serde(default)]
    pub email: Vec<String>,
}

impl Route {
    pub(crate) fn check_all(routes: &[Self]) -> Result<(), PolicyError> {
        if routes.len() > MAX_ROUTES {
            return Err(PolicyError::Value {
                key: "route".to_owned(),
                value: i64::try_from(routes.len()).unwrap_or(i64::MAX),
                problem: "there are at most 200 routes",
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
        let is_address = |text: &String| {
            let parts = text.split_once('@');
            let plain = |c: char| !c.is_whitespace() && !c.is_control() && !",;<>".contains(c);
            parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
                && text.chars().all(plain)
        };
        if self.owner.trim().is_empty() {
            return refused("its owner is empty");
        }
        if self.slack.is_none() && self.email.is_empty() {
            return refused("it names neither slack nor email");
        }
        if self
            .slack
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return refused("its channel is empty");
        }
        match self.email.iter().all(is_address) {
            true => Ok(()),
            false => refused("email holds bare addresses, such as team@example.org"),
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
        check("owner = \" \"\nslack = \"lab\"", Err("its owner is empty"));
        check("owner = \"ana\"\nslack = \"\"", Err("its channel is empty"));
        let many = "owner = \"ana\"\nemail = [\"Ana <ana@example.org>\"]";
        check(many, Err("bare addresses"));
        check("slack = \"lab\"", Err("missing field `owner`"));
    }
}
