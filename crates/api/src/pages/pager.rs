//! Pages of lists by number, and addresses with parameters.

use std::fmt;
use std::ops::Range;

use ebb_model::report::run_opening::FIRST_ENTRIES;
use serde::Serialize;

use crate::pages::view::segment;

/// Number of rows on a page.
pub(crate) const ROWS: usize = FIRST_ENTRIES;

/// An address with its parameters.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    path: String,
    parameters: Vec<(&'static str, String)>,
}

impl Link {
    pub(crate) fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            parameters: Vec::new(),
        }
    }

    /// The same address with this parameter; an empty or missing value is left out.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: Option<&str>) -> Self {
        self.parameters.retain(|(other, _)| *other != name);
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.parameters.push((name, value.to_owned()));
        }
        self
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        for (n, (name, value)) in self.parameters.iter().enumerate() {
            let sign = if n == 0 { '?' } else { '&' };
            write!(f, "{sign}{name}={}", segment(value))?;
        }
        Ok(())
    }
}

/// The links below a list.
#[derive(Debug, Serialize)]
pub(crate) struct Pager {
    total: usize,
    first: usize,
    last: usize,
    previous: Option<String>,
    next: Option<String>,
}

impl Pager {
    /// The rows of one page, counted from 1. `parameter` is the name of the number in the address.
    pub(crate) fn cut<T>(
        all: Vec<T>,
        numbered: (&'static str, Option<usize>),
        link: &Link,
    ) -> (Vec<T>, Self) {
        let (range, pager) = Self::range(all.len(), numbered, link);
        let rows = all.into_iter().skip(range.start).take(range.len());
        (rows.collect(), pager)
    }

    /// The positions of one page in a list of `total` rows.
    pub(crate) fn range(
        total: usize,
        (parameter, number): (&'static str, Option<usize>),
        link: &Link,
    ) -> (Range<usize>, Self) {
        let pages = total.div_ceil(ROWS).max(1);
        let number = number.unwrap_or(1).clamp(1, pages);
        let skipped = (number - 1) * ROWS;
        let end = total.min(skipped + ROWS);
        let to = |number: usize| {
            let number = number.to_string();
            link.clone().with(parameter, Some(&number)).to_string()
        };
        let pager = Self {
            total,
            first: total.min(skipped + 1),
            last: end,
            previous: (number > 1).then(|| to(number - 1)),
            next: (number < pages).then(|| to(number + 1)),
        };
        (skipped..end, pager)
    }
}

/// A parameter of a form; an empty field is no filter.
pub(crate) fn given(parameter: Option<&String>) -> Option<&String> {
    parameter.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_rows_and_links_to_its_neighbours() {
        let link = Link::new("/nodes").with("q", Some("a&b=<c>"));
        let check = |total: usize, number, rows: usize, shown: (usize, usize), links: [bool; 2]| {
            let all: Vec<usize> = (0..total).collect();
            let (part, pager) = Pager::cut(all, ("page", number), &link);
            assert_eq!(part.len(), rows, "{total} {number:?}");
            assert_eq!((pager.first, pager.last), shown, "{total} {number:?}");
            let found = [pager.previous.is_some(), pager.next.is_some()];
            assert_eq!(found, links, "{total} {number:?}");
        };
        check(0, None, 0, (0, 0), [false, false]);
        check(100, None, 100, (1, 100), [false, false]);
        check(101, None, 100, (1, 100), [false, true]);
        check(101, Some(2), 1, (101, 101), [true, false]);
        check(101, Some(usize::MAX), 1, (101, 101), [true, false]);
        check(101, Some(0), 100, (1, 100), [false, true]);
        let (_, pager) = Pager::cut(vec![0; 101], ("page", None), &link);
        let next = "/nodes?q=a%26b%3D%3Cc%3E&page=2";
        assert_eq!(pager.next.as_deref(), Some(next));
    }
}
