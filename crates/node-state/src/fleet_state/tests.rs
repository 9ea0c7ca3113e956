//! Tests of merging, forgetting, and accepted sequence numbers.

use ebb_telemetry::testing;
use ebb_telemetry::testing::{placed, placed_step};
use proptest::prelude::*;

use super::*;

fn folded(heartbeats: &[(u8, u64)], steps: &[(u8, u64)]) -> FleetState {
    let mut state = FleetState::default();
    for (node, sequence) in heartbeats {
        state.fold_heartbeat(&placed(*node, *sequence), &ActivityPolicy::default());
    }
    for (node, sequence) in steps {
        state.fold_step(&placed_step(*node, *sequence));
    }
    state
}

fn accepted(state: &FleetState, placed: &Placed) -> bool {
    let mut lives = state.lives(&placed.node);
    lives.any(|life| life.accepted_heartbeat(&placed.heartbeat))
}

type Arrivals = Vec<(u8, u64)>;

fn arrivals() -> impl Strategy<Value = Arrivals> {
    // Some of the times are far apart, so that a node has several lives.
    let minute = prop_oneof![0u64..3_000, 0u64..90_000];
    proptest::collection::vec((0u8..3, minute), 0..40)
}

proptest! {
    #[test]
    fn merging_is_commutative_associative_and_idempotent(
        a in (arrivals(), arrivals()), b in (arrivals(), arrivals()), c in (arrivals(), arrivals()),
    ) {
        let [a, b, c] = [a, b, c].map(|(h, s)| folded(&h, &s));
        prop_assert_eq!(a.clone().merge(b.clone()), b.clone().merge(a.clone()));
        prop_assert_eq!(
            a.clone().merge(b.clone()).merge(c.clone()),
            a.clone().merge(b.clone().merge(c))
        );
        prop_assert_eq!(a.clone().merge(a.clone()), a);
    }

    #[test]
    fn order_and_repeats_change_nothing(mut arrived in arrivals(), steps in arrivals()) {
        let once = folded(&arrived, &steps);
        arrived.reverse();
        let again: Arrivals = arrived.iter().chain(&arrived).copied().collect();
        prop_assert_eq!(folded(&again, &steps), once);
    }

    #[test]
    fn folding_is_merging_with_the_state_of_one_heartbeat(arrived in arrivals()) {
        let policy = ActivityPolicy::default();
        let all: Vec<Placed> = arrived.iter().map(|(node, n)| placed(*node, *n)).collect();
        let mut together = FleetState::default();
        together.fold_heartbeats(&all, &policy);
        let merged = arrived.iter().map(|one| folded(&[*one], &[]));
        prop_assert_eq!(merged.fold(FleetState::default(), FleetState::merge), together);
    }

    #[test]
    fn what_was_folded_is_known_as_accepted(arrived in arrivals()) {
        let state = folded(&arrived, &[]);
        for (node, sequence) in arrived {
            prop_assert!(accepted(&state, &placed(node, sequence)));
        }
    }
}

#[test]
fn every_node_is_held_by_the_same_one_shard_and_together_they_are_the_whole() {
    let nodes: Vec<_> = (0..200u8).map(testing::node).collect();
    let used: std::collections::BTreeSet<Shard> =
        nodes.iter().map(|node| Shard::of_node(node, 16)).collect();
    assert_eq!(used.len(), 16);
    let one = NodeId::new("i-0abc").expect("a node id");
    assert_eq!(Shard::of_node(&one, 16), Shard { index: 15, of: 16 });
    assert!(Shard::ONLY.holds(&one) && Shard::ONLY.reports());
    let whole = folded(&[(0, 1), (1, 1), (2, 5), (2, 90_000), (3, 1), (4, 2)], &[]);
    let part = |shard: Shard| {
        let mut part = whole.clone();
        part.keep_shard(shard);
        part
    };
    let of_four = Shard { index: 0, of: 4 };
    let parts: Vec<_> = of_four.all().map(part).collect();
    assert_eq!(parts.iter().map(|part| part.nodes.len()).sum::<usize>(), 5);
    let again = parts.into_iter().reduce(FleetState::merge);
    assert_eq!(again, Some(whole));
}

const DAY_MINUTES: u64 = 24 * 60;

/// The minutes with data of nodes, with the delay of each arrival, in order of arrival.
fn history() -> impl Strategy<Value = Arrivals> {
    let heard = (0u8..4, 0u64..150 * DAY_MINUTES, 0u64..14 * DAY_MINUTES);
    let now = (0u8..4, 0u64..150 * DAY_MINUTES, Just(0));
    proptest::collection::vec(prop_oneof![heard, now], 0..80).prop_map(|mut heard| {
        heard.sort_by_key(|(_, minute, late)| minute + late);
        let heard = heard.into_iter();
        heard.map(|(node, minute, _)| (node, minute)).collect()
    })
}

fn forgotten(mut state: FleetState) -> FleetState {
    state.forget();
    state
}

proptest! {
    #[test]
    fn forgetting_sooner_or_later_comes_to_the_same(
        heard in history(), often in 1usize..9, cut in 0usize..80,
    ) {
        let whole = forgotten(folded(&heard, &[]));
        let mut sooner = FleetState::default();
        for part in heard.chunks(often) {
            sooner = forgotten(sooner.merge(folded(part, &[])));
        }
        prop_assert_eq!(&sooner, &whole);
        let (before, after) = heard.split_at(cut.min(heard.len()));
        let (before, after) = (forgotten(folded(before, &[])), folded(after, &[]));
        prop_assert_eq!(&forgotten(after.clone().merge(before.clone())), &whole);
        prop_assert_eq!(&forgotten(before.merge(after)), &whole);
        prop_assert_eq!(&forgotten(whole.clone()), &whole);
    }

    #[test]
    fn what_is_late_by_a_fortnight_at_most_is_never_refused(heard in history()) {
        let mut state = FleetState::default();
        for one in heard {
            prop_assert_eq!(state.check_age(&placed(one.0, one.1).node, placed(one.0, one.1).end), Ok(()));
            state = forgotten(state.merge(folded(&[one], &[])));
        }
    }
}

#[test]
fn a_node_that_is_gone_is_forgotten_after_four_weeks_at_most() {
    let check = |days: u64, expect: usize| {
        let state = forgotten(folded(&[(0, 0), (1, days * DAY_MINUTES)], &[]));
        assert_eq!(state.nodes.len(), expect, "after {days} days");
    };
    check(14, 2);
    check(20, 2);
    check(29, 1);
}

#[test]
fn a_node_stopped_for_a_month_begins_a_new_life_and_one_stopped_for_days_goes_on() {
    let check = |days: &[u64], expect_first: u64| {
        let heard: Vec<_> = days.iter().map(|day| (0, day * DAY_MINUTES)).collect();
        let state = forgotten(folded(&heard, &[]));
        let first = testing::at(expect_first * 86_400);
        assert_eq!(
            state.nodes[&testing::node(0)].first_seen,
            Some(first),
            "{days:?}"
        );
    };
    check(&[0, 5, 10, 15, 20, 25, 30, 60, 65, 95], 95);
    check(&[0, 30, 35, 40, 45, 50, 55, 60], 30);
    check(&[0, 5, 10, 15, 20, 25, 30, 35, 40], 0);
}

#[test]
fn what_comes_for_a_closed_week_is_refused_as_too_late() {
    let state = folded(&[(0, 40 * DAY_MINUTES)], &[]);
    let check = |day: u64, expect: bool| {
        let at = placed(1, day * DAY_MINUTES).end;
        assert_eq!(
            state.check_age(&testing::node(1), at).is_ok(),
            expect,
            "of day {day}"
        );
    };
    check(40, true);
    check(27, true);
    check(18, false);
    check(0, false);
    assert_eq!(
        FleetState::default().check_age(&testing::node(1), testing::at(0)),
        Ok(())
    );
}

#[test]
fn a_repeat_of_what_was_before_a_silence_is_known_until_its_week_is_closed() {
    let state = forgotten(folded(&[(0, 0), (0, 15 * DAY_MINUTES)], &[]));
    assert!(accepted(&state, &placed(0, 0)));
    assert_eq!(
        state.nodes[&testing::node(0)].first_seen,
        Some(testing::at(15 * DAY_MINUTES * 60))
    );
}

#[test]
fn for_want_of_room_those_heard_of_longest_ago_go_first() {
    let mut state = folded(&[(0, 9), (1, 5), (2, 7), (1, 6)], &[]);
    assert_eq!((state.keep_newest(5), state.keep_newest(2)), (0, 1));
    let left: Vec<_> = state.nodes.keys().cloned().collect();
    assert_eq!(left, [testing::node(0), testing::node(2)]);
}

/// With 5,000 new nodes a day, each with data on one day only, at most the nodes of four weeks are
/// stored.
#[test]
fn a_fleet_of_5000_new_nodes_a_day_does_not_grow_for_ever() {
    let mut state = FleetState::default();
    let mut most = 0;
    for day in 0..60u64 {
        let mut today = placed(0, day * DAY_MINUTES);
        for n in 0..5_000 {
            today.node = NodeId::new(format!("i-{day:02x}{n:06x}")).expect("a node id");
            state.fold_heartbeat(&today, &ActivityPolicy::default());
        }
        state.forget();
        most = most.max(state.nodes.len());
    }
    assert!((22 * 5_000..=29 * 5_000).contains(&most), "{most}");
}

/// A heartbeat of the probe start with the given number, an hour after the previous start.
fn of_start(start: u64) -> Placed {
    let mut placed = placed(1, start * 60);
    let name = format!("start-{start}");
    placed.heartbeat.probe_start = ProbeStart::new(&name).expect("a name");
    placed
}

#[test]
fn nothing_of_a_forgotten_probe_start_is_ever_accepted_again() {
    let policy = ActivityPolicy::default();
    for starts in [1_u64, 31, 33, 64, 65, 200, 300] {
        let mut state = FleetState::default();
        let all: Vec<Placed> = (0..starts).map(of_start).collect();
        state.fold_heartbeats(&all, &policy);
        for (number, placed) in (0..starts).zip(&all) {
            // A repeat may be placed some seconds later.
            let again = placed.end + jiff::SignedDuration::from_secs(90);
            let refused = state.check_age(&placed.node, again).is_err();
            assert!(
                state.accepted_heartbeat(placed) || refused,
                "start {number} of {starts} would be counted twice"
            );
        }
        let next = of_start(starts);
        assert!(!state.accepted_heartbeat(&next));
        assert_eq!(state.check_age(&next.node, next.end), Ok(()), "{starts}");
    }
}

#[test]
fn what_a_node_remembers_is_bounded_however_often_its_probe_starts() {
    let size = |starts: u64, gaps: u64| {
        let mut state = FleetState::default();
        for start in 0..starts {
            state.fold_heartbeat(&of_start(start), &ActivityPolicy::default());
        }
        for gap in 0..gaps {
            state.fold_heartbeat(&placed(1, 2 * gap), &ActivityPolicy::default());
        }
        postcard::to_allocvec(&state).expect("it is written").len()
    };
    assert!(size(2_000, 0) < 10_000, "{}", size(2_000, 0));
    assert!(size(1, 3_000) < 10_000, "{}", size(1, 3_000));
}
