//! Query parameters.

use ebb_model::finding_kind::FindingKind;
use ebb_workflows::export::TextOptions;
use ebb_workflows::export::request::RetryPolicy;
use url::form_urlencoded;

use crate::list::List;
use crate::problem::Problem;

pub(crate) const DEFAULT_LIMIT: usize = 100;

/// The most entries of a page: a finding takes a few kilobytes, and the gateway allows six
/// megabytes.
pub(crate) const MAX_LIMIT: usize = 500;

/// The parameters that distinguish entries of the same name.
pub(crate) const PLACE: [&str; 2] = ["region", "account"];

/// The requested part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// The most entries.
    pub(crate) limit: usize,
    /// The last entry of the page before; `None` for the first page.
    pub(crate) after: Option<String>,
    /// The filters.
    pub(crate) only: Only,
}

/// Filters by name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Only(Vec<(&'static str, String)>);

impl Only {
    /// True without filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the filter `name`; `None` without this filter.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(asked, _)| *asked == name);
        found.map(|(_, wanted)| wanted.as_str())
    }

    /// Whether an entry with this value passes the filter `name`.
    pub(crate) fn lets(&self, name: &str, value: Option<&str>) -> bool {
        let mut asked = self.0.iter().filter(|(asked, _)| *asked == name);
        asked.all(|(_, wanted)| value == Some(wanted))
    }
}

/// Replaces the name of a finding kind in an earlier release by the present one.
fn with_current_kind((name, value): (String, String)) -> (String, String) {
    let kind = value.parse::<FindingKind>().ok();
    match kind.filter(|_| name == "kind") {
        Some(kind) => (name, kind.slug().to_owned()),
        None => (name, value),
    }
}

pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(raw: &str) -> Self {
        let pairs = form_urlencoded::parse(raw.as_bytes());
        Self(pairs.into_owned().map(with_current_kind).collect())
    }

    /// Refuses unknown and repeated parameters: a misspelt filter must not be ignored.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Problem> {
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

    pub(crate) fn filled(&self, names: impl IntoIterator<Item = &'static str>) -> Only {
        let filled = names
            .into_iter()
            .filter_map(|name| Some((name, self.value(name)?.to_owned())));
        Only(filled.collect())
    }

    pub(crate) fn text_options(&self) -> Result<TextOptions, Problem> {
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

    pub(crate) fn page(&self, list: List) -> Result<Page, Problem> {
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

/// Whether a Nextflow configuration replaces the pipeline's own retry policy.
pub(crate) const WITH_RETRY: &str = "with_retry";
