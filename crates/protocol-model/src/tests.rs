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

#[test]
fn the_protocol_keeps_its_promises_in_every_order() {
    for protocol in [TWO_SWEEPS, THREE_HEARTBEATS] {
        let begun = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let checker = protocol.clone().checker().threads(cores);
        let checker = checker.spawn_bfs().join();
        eprintln!(
            "{protocol:?}: {} states, {} of them different, in {:.1} s",
            checker.state_count(),
            checker.unique_state_count(),
            begun.elapsed().as_secs_f64()
        );
        checker.assert_properties();
    }
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
