//! Who hears of which findings: the policy's routes by owner, and everybody else's
//! place for the rest. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::report::Report;

/// A channel or recipient; `None` for the chat's default channel.
pub(crate) type Place = Option<String>;

/// Where findings go in one medium.
pub(crate) struct Routing {
    /// Of owners without a route, and of what has no owner.
    rest: BTreeSet<Place>,
    by_owner: BTreeMap<String, BTreeSet<Place>>,
}

impl Routing {
    /// Of the places for the rest, and of routes by owner; one without a place is none.
    pub(crate) fn new<'a>(
        rest: impl IntoIterator<Item = Place>,
        routes: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut by_owner: BTreeMap<String, BTreeSet<Place>> = BTreeMap::new();
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
    pub(crate) fn places(&self) -> BTreeSet<&Place> {
        self.rest
            .iter()
            .chain(self.by_owner.values().flatten())
            .collect()
    }

    /// True where what nobody is routed goes.
    pub(crate) fn is_for_the_rest(&self, place: &Place) -> bool {
        self.rest.contains(place)
    }

    /// What of a report goes to a place. What was not judged and not seen goes with the
    /// rest.
    pub(crate) fn part(&self, report: &Report, place: &Place) -> Report {
        let mut part = report.part(|owner| {
            let routed = owner.and_then(|owner| self.by_owner.get(owner));
            routed.unwrap_or(&self.rest).contains(place)
        });
        if self.is_for_the_rest(place) {
            part.not_judged.clone_from(&report.not_judged);
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
        let heard = |routing: &Routing, at: &Place| {
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
