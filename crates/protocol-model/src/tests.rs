use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::*;

/// Few enough for every order to be visited.
const TWO_SWEEPS: Protocol = Protocol {
    heartbeats: 2,
    sweeps: 2,
    remembered: 1,
    variant: Variant::Sound,
};

/// One more heartbeat, so that one is refused that was never accepted.
const THREE_HEARTBEATS: Protocol = Protocol {
    heartbeats: 3,
    sweeps: 1,
    ..TWO_SWEEPS
};

/// Every wrong protocol is refuted by fewer.
const FEW_ACTIONS: usize = 36;

/// Visits the orders of at most `depth` actions, or all.
fn check_promises(protocol: &Protocol, depth: Option<usize>) {
    let begun = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = protocol.clone().checker().threads(cores);
    let checker = match depth {
        Some(depth) => checker.target_max_depth(depth),
        None => checker,
    };
    let checker = checker.spawn_bfs().join();
    eprintln!(
        "{protocol:?}: {} states, {} of them different, {} actions deep, in {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

#[test]
fn the_protocol_keeps_its_promises_in_every_order_of_few_actions() {
    check_promises(&TWO_SWEEPS, Some(FEW_ACTIONS));
    check_promises(&THREE_HEARTBEATS, Some(FEW_ACTIONS));
}

#[test]
#[ignore = "two minutes; `make prove` runs it"]
fn the_protocol_keeps_its_promises_in_every_order() {
    check_promises(&TWO_SWEEPS, None);
    check_promises(&THREE_HEARTBEATS, None);
}

#[test]
fn each_wrong_protocol_is_refuted() {
    let check = |bounds: Protocol, variant: Variant, promise: &'static str| {
        let checker = Protocol { variant, ..bounds }.checker();
        let checker = checker.finish_when(HasDiscoveries::AnyFailures);
        let path = checker.spawn_bfs().join().discovery(promise);
        let path = path.unwrap_or_else(|| panic!("{variant:?} is not refuted"));
        eprintln!(
            "{variant:?}: not true that {promise}: {:?}",
            path.into_actions()
        );
    };
    let (lost, doubled) = ("nothing is lost", "nothing is doubled");
    check(TWO_SWEEPS, Variant::DeleteFirst, lost);
    check(TWO_SWEEPS, Variant::IgnoreBatchNumbers, doubled);
    check(TWO_SWEEPS, Variant::AcceptForgotten, doubled);
    check(TWO_SWEEPS, Variant::CheckForgottenOnce, doubled);
    check(TWO_SWEEPS, Variant::IgnoreOtherShards, doubled);
    check(THREE_HEARTBEATS, Variant::DeleteRefusedFirst, lost);
    let folds = "a state is what the lake folds to";
    check(TWO_SWEEPS, Variant::FoldedTooFar, folds);
}
