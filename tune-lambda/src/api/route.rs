//! From path and query to what is asked for.

use url::form_urlencoded;

use crate::http::{Request, unescape};
use crate::problem::Problem;

const DEFAULT_LIMIT: usize = 100;

/// A finding takes a few kilobytes, and a gateway takes six megabytes.
const MAX_LIMIT: usize = 500;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// Findings of every kind.
    Findings(Page),
    /// What to ask for and run on instead, of all steps.
    Recommendations(Page),
    /// The same of one step.
    Recommendation {
        /// Job definition, job or step name.
        step: String,
        /// Where it runs, for a step that runs in several regions.
        region: Option<String>,
    },
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// Entries at most.
    pub(super) limit: usize,
    /// The finding that the page before ended with.
    pub(super) after: Option<String>,
}

impl Route {
    /// Reads a request.
    pub(super) fn of(request: &Request) -> Result<Self, Problem> {
        let path = request.path.as_str();
        let step = path
            .strip_prefix("/v1/steps/")
            .and_then(|rest| rest.strip_suffix("/recommendation"))
            .filter(|step| !step.is_empty());
        let query = Query::of(&request.query);
        let route = match (path, step) {
            ("/v1/findings", _) => Self::Findings(query.page()?),
            ("/v1/recommendations", _) => Self::Recommendations(query.page()?),
            (_, Some(step)) => Self::Recommendation {
                step: unescape(step),
                region: query.region()?,
            },
            _ => return Err(Problem::Path(path.to_owned())),
        };
        match request.method() {
            "GET" => Ok(route),
            _ => Err(Problem::Method),
        }
    }
}

struct Query(Vec<(String, String)>);

impl Query {
    fn of(raw: &str) -> Self {
        let pairs = form_urlencoded::parse(raw.as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// A misspelt parameter must not pass for one that holds.
    fn only(&self, known: &[&str]) -> Result<(), Problem> {
        let mut names = self.0.iter().map(|(name, _)| name.as_str());
        match names.find(|name| !known.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Problem::Query(format!(
                "'{name}' is none of: {}.",
                known.join(", ")
            ))),
        }
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    fn page(&self) -> Result<Page, Problem> {
        self.only(&["limit", "after"])?;
        let limit = match self.value("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
                .ok_or_else(|| Problem::Query(format!("limit is between 1 and {MAX_LIMIT}.")))?,
        };
        Ok(Page {
            limit,
            after: self.value("after").map(str::to_owned),
        })
    }

    fn region(&self) -> Result<Option<String>, Problem> {
        self.only(&["region"])?;
        Ok(self.value("region").map(str::to_owned))
    }
}
