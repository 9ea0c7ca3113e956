//! Tests of the rest of machines by cost centre.

use ebb_model::report::cost_shares::CostSource;

use super::*;

fn usd(micros: i64) -> Usd {
    Usd::from_micros(micros)
}

#[test]
fn cost_centres_are_bounded_and_their_sums_stay() {
    let names: Vec<String> = (0..60).map(|n| format!("team-{n:02}")).collect();
    let mut rests = CentreRests::default();
    for (cost, name) in (1..).zip(&names) {
        let machine = MachineDay {
            idle: usd(cost),
            unwatched: usd(-1),
            ..MachineDay::default()
        };
        rests.add("2026-10-02", name, &machine);
        rests.add("2026-10-02", name, &machine);
    }
    let mut days = [CostDay {
        day: "2026-10-02".to_owned(),
        source: CostSource::Bill,
        estimated: false,
        total: usd(0),
        upper_bound: usd(0),
        rest: BTreeMap::new(),
        rest_by_centre: Vec::new(),
        machines_without_price: 0,
    }];
    rests.put_into(&mut days);
    let found = &days[0].rest_by_centre;
    assert_eq!(found.len(), MAX_CENTRES + 1);
    let others = found.iter().find(|one| one.name == CostName::Others);
    assert_eq!(others.expect("others").rest[&RestKind::Idle], usd(2 * 55));
    let sum = |kind| found.iter().map(|one| one.rest[&kind]).sum::<Usd>();
    assert_eq!(sum(RestKind::Idle), usd(2 * 1_830));
    assert_eq!(sum(RestKind::Unwatched), usd(-120));
}
