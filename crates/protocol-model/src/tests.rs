use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::*;

fn protocol(variant: Variant) -> Protocol {
    Protocol {
        heartbeats: 2,
        remembered: 1,
        variant,
    }
}

#[test]
fn the_protocol_keeps_its_promises_in_every_order() {
    let begun = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = protocol(Variant::Sound).checker().threads(cores);
    let checker = checker.spawn_bfs().join();
    eprintln!(
        "{} states, {} unique, in {:.1} s",
        checker.state_count(),
        checker.unique_state_count(),
        begun.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

#[test]
fn each_wrong_protocol_is_refuted() {
    let check = |variant: Variant, promise: &'static str| {
        let checker = protocol(variant).checker();
        let checker = checker.finish_when(HasDiscoveries::AnyFailures);
        let checker = checker.spawn_bfs().join();
        let path = checker.discovery(promise);
        let path = path.unwrap_or_else(|| panic!("{variant:?} is not refuted"));
        let actions = path.into_actions();
        eprintln!("{variant:?}: not true that {promise}: {actions:?}");
        assert!(actions.len() > 2, "{variant:?}: {actions:?}");
    };
    check(Variant::DeleteFirst, "nothing is lost");
    check(Variant::IgnoreBatchNumbers, "nothing is doubled");
    check(Variant::AcceptForgotten, "nothing is doubled");
    check(Variant::CheckForgottenOnce, "nothing is doubled");
    check(Variant::DeleteRefusedFirst, "nothing is lost");
    check(Variant::FoldedTooFar, "a state is what the lake folds to");
    check(Variant::OverlappingShardNumbers, "nothing is doubled");
}
