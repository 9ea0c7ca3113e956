//! From path and query to what is asked for.

use ebb_workflows::export::{Form, RetryPolicy, TextOptions};
use url::form_urlencoded;

use super::decide::Act;
use super::http::{Request, unescape};
use super::list::List;
use super::problem::Problem;
use super::target::Target;

pub(super) const DEFAULT_LIMIT: usize = 100;

/// A finding takes a few kilobytes, and a gateway takes six megabytes.
pub(super) const MAX_LIMIT: usize = 500;

pub(super) const OPENAPI: &str = "/v1/openapi.json";
/// What the path of advice on one thing ends with.
pub(super) const ADVICE: &str = "/recommendation";
/// What tells apart those of one name.
pub(super) const PLACE: [&str; 2] = ["region", "account"];
pub(super) const RECOMMENDATION: &str = "/v1/steps/{step}/recommendation";
pub(super) const TEXT: &str = "/v1/texts/{form}";
/// Whether a text for Nextflow replaces the pipeline's own retry policy.
pub(super) const WITH_RETRY: &str = "with_retry";
pub(super) const FINDING: &str = "/v1/findings/{finding}";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// The document that describes the API.
    OpenApi,
    /// A page of a list.
    List(List, Page),
    /// What one step should ask for and run on.
    Recommendation {
        /// Job definition, job or step name.
        step: String,
        /// Where and whose it is, for a step that is in several regions or accounts.
        only: Only,
    },
    /// What is advised for a pipeline, an environment or a node.
    Target {
        /// Which kind of thing.
        target: Target,
        /// Its name or id.
        name: String,
        /// Where and whose it is, for one that is in several regions or accounts.
        only: Only,
    },
    /// What is to change about steps, as text that can be pasted.
    Text(Form, Only, TextOptions),
    /// What is decided about a finding.
    Decide(String, Act),
}

/// Which part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    /// Entries at most.
    pub(super) limit: usize,
    /// The entry that the page before ended with.
    pub(super) after: Option<String>,
    /// What it is filtered by.
    pub(super) only: Only,
}

/// What entries must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Only(Vec<(&'static str, String)>);

impl Only {
    /// True where nothing is asked of entries.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is asked of entries under `name`.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(asked, _)| *asked == name);
        found.map(|(_, wanted)| wanted.as_str())
    }

    /// Whether an entry has what is asked of it under `name`.
    pub(super) fn lets(&self, name: &str, value: Option<&str>) -> bool {
        let mut asked = self.0.iter().filter(|(asked, _)| *asked == name);
        asked.all(|(_, wanted)| value == Some(wanted))
    }
}

impl Route {
    /// Reads a request.
    pub(super) fn of(request: &Request) -> Result<Self, Problem> {
        let path = request.path.as_str();
        let query = Query::of(&request.query);
        let between = |head: &str, tail: &str| {
            let rest = path.strip_prefix(head)?.strip_suffix(tail)?;
            (!rest.is_empty()).then(|| unescape(rest))
        };
        let read_only = || match request.method() {
            "GET" => Ok(()),
            _ => Err(Problem::Method("GET")),
        };
        if path == OPENAPI {
            read_only()?;
            query.only(&[])?;
            return Ok(Self::OpenApi);
        }
        if let Some(list) = List::at(path) {
            read_only()?;
            return Ok(Self::List(list, query.page(list)?));
        }
        if let Some(step) = between("/v1/steps/", ADVICE) {
            read_only()?;
            query.only(&PLACE)?;
            let only = query.filled(PLACE);
            return Ok(Self::Recommendation { step, only });
        }
        for target in Target::ALL {
            if let Some(name) = between(target.head(), ADVICE) {
                read_only()?;
                let place = target.place();
                query.only(place)?;
                let only = query.filled(place.iter().copied());
                return Ok(Self::Target { target, name, only });
            }
        }
        if let Some(form) = between("/v1/texts/", "").and_then(|slug| Form::of(&slug)) {
            read_only()?;
            let names = ["step", "region", "account", "owner"];
            query.only(&[names.as_slice(), &[WITH_RETRY]].concat())?;
            let options = query.text_options()?;
            return Ok(Self::Text(form, query.filled(names), options));
        }
        for act in Act::ALL {
            let tail = format!("/{}", act.slug());
            if let Some(finding) = between("/v1/findings/", &tail) {
                if request.method() != "POST" {
                    return Err(Problem::Method("POST"));
                }
                query.only(&[])?;
                return Ok(Self::Decide(finding, act));
            }
        }
        Err(Problem::Path(path.to_owned()))
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

    fn filled(&self, names: impl IntoIterator<Item = &'static str>) -> Only {
        let filled = names
            .into_iter()
            .filter_map(|name| Some((name, self.value(name)?.to_owned())));
        Only(filled.collect())
    }

    fn text_options(&self) -> Result<TextOptions, Problem> {
        let retry = match self.value(WITH_RETRY) {
            None | Some("false") => RetryPolicy::Unchanged,
            Some("true") => RetryPolicy::Replaced,
            Some(_) => {
                let said = format!("{WITH_RETRY} is true or false.");
                return Err(Problem::Query(said));
            }
        };
        Ok(TextOptions { retry })
    }

    fn page(&self, list: List) -> Result<Page, Problem> {
        let filters = list.filters();
        let names = filters.iter().map(|filter| filter.name);
        let all: Vec<&str> = ["limit", "after"].into_iter().chain(names).collect();
        self.only(&all)?;
        for filter in &filters {
            self.value(filter.name)
                .map_or(Ok(()), |v| filter.check(v))?;
        }
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
            only: self.filled(filters.iter().map(|filter| filter.name)),
        })
    }
}
