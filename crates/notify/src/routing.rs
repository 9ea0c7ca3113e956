//! Recipients of findings: the routes of the policy by owner, and a default place for all others.
//! The module performs no I/O.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::report::Report;

/// A channel or recipient; `None` for the default channel of the chat.
pub(crate) type Destination = Option<String>;

/// Routes of findings in one medium.
pub(crate) struct Routing {
    /// Places for findings of owners without a route and for findings without an owner.
    rest: BTreeSet<Destination>,
    by_owner: BTreeMap<String, BTreeSet<Destination>>,
}

impl Routing {
    /// Builds the routes from the default places and the routes by owner.
    pub(crate) fn new<'a>(
        rest: impl IntoIterator<Item = Destination>,
        routes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut by_owner: BTreeMap<String, BTreeSet<Destination>> = BTreeMap::new();
        for (owner, place) in routes {
            let places = by_owner.entry(owner.to_owned()).or_default();
            places.insert(Some(place.to_owned()));
        }
        Self {
            rest: rest.into_iter().collect(),
            by_owner,
        }
    }

    /// All places.
    pub(crate) fn places(&self) -> BTreeSet<&Destination> {
        self.rest
            .iter()
            .chain(self.by_owner.values().flatten())
            .collect()
    }

    /// Whether a place receives findings without a route.
    pub(crate) fn is_for_the_rest(&self, place: &Destination) -> bool {
        self.rest.contains(place)
    }

    /// Part of a report for a place. Results that were not evaluated and gaps go to the default
    /// places.
    pub(crate) fn part(&self, report: &Report, place: &Destination) -> Report {
        let mut part = report.part(|owner| {
            let routed = owner.and_then(|owner| self.by_owner.get(owner));
            routed.unwrap_or(&self.rest).contains(place)
        });
        if self.is_for_the_rest(place) {
            part.not_evaluated.clone_from(&report.not_evaluated);
            part.gaps.clone_from(&report.gaps);
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_report::testing;

    #[test]
    fn an_owners_findings_go_where_its_route_says_and_the_rest_to_everybody() {
        let report = testing::small();
        let place = |name: &str| Some(name.to_owned());
        let heard = |routing: &Routing, at: &Destination| {
            let part = routing.part(&report, at);
            (part.findings.len(), part.gaps.len())
        };
        let routing = Routing::new([None], [("ana", "lab"), ("ana", "ops"), ("ben", "ops")]);
        assert_eq!(routing.places().len(), 3);
        assert_eq!(heard(&routing, &None), (1, 1), "what has no owner");
        assert_eq!(heard(&routing, &place("lab")), (2, 0));
        assert_eq!(heard(&routing, &place("ops")), (2, 0));
        let nobody = Routing::new([None], []);
        assert_eq!(heard(&nobody, &None), (3, 1));
        let sums = routing.part(&report, &None).totals;
        assert_eq!((sums.without_price, sums.saving_a_month.micros()), (1, 0));
    }
}
