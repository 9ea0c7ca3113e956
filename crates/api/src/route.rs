//! Parses path and query of a request.

use ebb_workflows::export::{Form, TextOptions};

use crate::decisions::Act;
use crate::http::{Request, unescape};
use crate::list::List;
use crate::problem::Problem;
use crate::query::{Only, PLACE, Page, Query, WITH_RETRY};
use crate::targets::Target;

pub(crate) const OPENAPI: &str = "/v1/openapi.json";

/// The last part of the path of a recommendation.
pub(crate) const ADVICE: &str = "/recommendation";

pub(crate) const RECOMMENDATION: &str = "/v1/steps/{step}/recommendation";

pub(crate) const TEXT: &str = "/v1/texts/{form}";

pub(crate) const FINDING: &str = "/v1/findings/{finding}";

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// The document that describes the API.
    OpenApi,
    /// A page of a list.
    List(List, Page),
    /// The recommended request and machine of one step.
    Recommendation {
        /// Name of the job definition, job or step.
        step: String,
        /// Region and account, for a step that several regions or accounts have.
        only: Only,
    },
    /// The recommendation for a pipeline, an environment or a node.
    Target {
        /// The kind of target.
        target: Target,
        /// Its name or id.
        name: String,
        /// Region and account, for a name that several regions or accounts have.
        only: Only,
    },
    /// Changes of steps as text to paste.
    Text(Form, Only, TextOptions),
    /// A decision about a finding.
    Decide(String, Act),
}

impl Route {
    /// Parses a request.
    pub(crate) fn of(request: &Request) -> Result<Self, Problem> {
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
