//! From path and query to what is asked for.

use ebb_domain::finding::FindingKind;
use ebb_domain::step::StepKind;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::http::{Request, unescape};
use super::problem::Problem;

pub(super) const DEFAULT_LIMIT: usize = 100;

/// A finding takes a few kilobytes, and a gateway takes six megabytes.
pub(super) const MAX_LIMIT: usize = 500;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// The document that describes the API.
    OpenApi,
    /// Findings of every kind.
    Findings(Page<FindingKind>),
    /// What to ask for and run on instead, of all steps.
    Recommendations(Page<FindingKind>),
    /// All steps with what they ask for and should ask for.
    Steps(Page<StepKind>),
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
pub(super) struct Page<K> {
    /// Entries at most.
    pub(super) limit: usize,
    /// The entry that the page before ended with.
    pub(super) after: Option<String>,
    /// Only of this region.
    pub(super) region: Option<String>,
    /// Only of this kind.
    pub(super) kind: Option<K>,
    /// Only of this owner.
    pub(super) owner: Option<String>,
}

pub(super) const OPENAPI: &str = "/v1/openapi.json";
pub(super) const FINDINGS: &str = "/v1/findings";
pub(super) const RECOMMENDATIONS: &str = "/v1/recommendations";
pub(super) const STEPS: &str = "/v1/steps";
pub(super) const RECOMMENDATION: &str = "/v1/steps/{step}/recommendation";

impl Route {
    /// Reads a request.
    pub(super) fn of(request: &Request) -> Result<Self, Problem> {
        let path = request.path.as_str();
        let step = path
            .strip_prefix("/v1/steps/")
            .and_then(|rest| rest.strip_suffix("/recommendation"))
            .filter(|step| !step.is_empty());
        let query = Query::of(&request.query);
        let is_get = request.method() == "GET";
        let route = match (path, step) {
            (OPENAPI | FINDINGS | RECOMMENDATIONS | STEPS, _) | (_, Some(_)) if !is_get => {
                return Err(Problem::Method);
            }
            (OPENAPI, _) => {
                query.only(&[])?;
                Self::OpenApi
            }
            (FINDINGS, _) => Self::Findings(query.page()?),
            (RECOMMENDATIONS, _) => Self::Recommendations(query.page()?),
            (STEPS, _) => Self::Steps(query.page()?),
            (_, Some(step)) => Self::Recommendation {
                step: unescape(step),
                region: query.region()?,
            },
            _ => return Err(Problem::Path(path.to_owned())),
        };
        Ok(route)
    }
}

struct Query(Vec<(String, String)>);

impl Query {
    fn of(raw: &str) -> Self {
        let pairs = form_urlencoded::parse(raw.as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// A misspelt parameter must not pass for one that holds, nor one of two.
    fn only(&self, known: &[&str]) -> Result<(), Problem> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                let said = format!("'{name}' is none of the parameters: {known}.");
                return Err(Problem::Query(said));
            }
            if self.0[..at].iter().any(|(other, _)| other == name) {
                return Err(Problem::Query(format!("'{name}' is given twice.")));
            }
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(given, _)| given == name);
        found.map(|(_, value)| value.as_str())
    }

    fn page<K: DeserializeOwned>(&self) -> Result<Page<K>, Problem> {
        self.only(&["limit", "after", "region", "kind", "owner"])?;
        let limit = match self.value("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=MAX_LIMIT).contains(limit))
                .ok_or_else(|| Problem::Query(format!("limit is between 1 and {MAX_LIMIT}.")))?,
        };
        let kind = self.value("kind").map(|kind| {
            serde_json::from_value(kind.into())
                .map_err(|_| Problem::Query(format!("kind: there is none called '{kind}'.")))
        });
        let text = |name| self.value(name).map(str::to_owned);
        Ok(Page {
            limit,
            after: text("after"),
            region: text("region"),
            kind: kind.transpose()?,
            owner: text("owner"),
        })
    }

    fn region(&self) -> Result<Option<String>, Problem> {
        self.only(&["region"])?;
        Ok(self.value("region").map(str::to_owned))
    }
}
