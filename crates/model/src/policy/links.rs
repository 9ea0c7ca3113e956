//! Links of notifications.

use serde::{Deserialize, Serialize};

use crate::pages_url::PagesUrl;

/// Links of notifications to pages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LinksPolicy {
    /// Public address of the pages, such as "https://ebb.example.org". Notifications link to the
    /// overview and to each finding. Without it, they contain no links, unless the environment
    /// variable `EBB_PAGES_URL` is set.
    pub pages_url: Option<PagesUrl>,
}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn the_address_is_checked_with_its_line() {
        let policy = Policy::parse("[links]\npages_url = \"https://ebb.example.org/\"\n");
        let url = policy.expect("valid").links.pages_url.expect("an address");
        assert_eq!(url.to_string(), "https://ebb.example.org");
        let error = Policy::parse("[links]\npages_url = \"ebb\"\n");
        let error = error.expect_err("no URL").to_string();
        assert!(
            error.contains("line 2") && error.contains("http or https"),
            "{error}"
        );
    }
}
