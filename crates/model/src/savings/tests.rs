use ebb_telemetry::identity::Region;
use ebb_telemetry::testing::at;
use proptest::prelude::*;

use crate::confidence::{Confidence, Level};
use crate::cost::PriceBasis;
use crate::finding::evidence::{Evidence, Unused};
use crate::finding::{Action, Remedy, Resource};
use crate::finding_kind::FindingKind;

use super::*;

const HOUR: u64 = 3_600;

/// A finding with a waste per hour in millionths of a dollar, in a window of hours.
fn finding(id: &str, per_hour: i64, from: u64, to: u64) -> Finding {
    let region = Region::new("us-east-1").expect("a region");
    let window = Window {
        from: at(from * HOUR),
        to: at(to * HOUR),
    };
    let per_hour = UsdPerHour::from_micros(per_hour);
    Finding {
        id: id.to_owned(),
        kind: FindingKind::IdleAddress,
        resource: Resource::named(id.to_owned(), id, &region),
        window,
        coverage: None,
        evidence: Evidence::Unused(Unused::Address { public_ip: None }),
        confidence: Confidence {
            level: Level::High,
            reason: "a test".into(),
        },
        cost: Some(Cost {
            per_hour,
            basis: PriceBasis::ListPrice,
            list_per_hour: None,
            spent: per_hour.over(window.length()),
            saving_a_month: per_hour.a_month(),
            counted: None,
            price_as_of: None,
            list_as_of: None,
        }),
        remedy: Remedy {
            action: Action::Delete,
            advice: "Delete it.".into(),
            command: None,
        },
        recommendation: None,
        steps: Vec::new(),
    }
}

fn claim(finding: &str, lever: Lever, part_ppm: u32) -> Claim {
    Claim {
        finding: finding.to_owned(),
        lever,
        part_ppm,
    }
}

/// A resource with a price per hour in millionths of a dollar.
fn pool(per_hour: i64, claims: Vec<Claim>) -> SharedCost {
    let per_hour = UsdPerHour::from_micros(per_hour);
    SharedCost {
        per_hour,
        a_month: per_hour.a_month(),
        claims,
    }
}

fn counted(finding: &Finding) -> Sums {
    finding.cost.as_ref().expect("a price").in_totals()
}

#[test]
fn changes_are_composed_and_never_exceed_the_cost() {
    use crate::savings::Lever::{Purchase, Time, Type, Use};
    let check = |name: &str, claims: &[(Lever, i64)], expect: &[i64]| {
        let claims: Vec<_> = claims
            .iter()
            .map(|(lever, micros)| (*lever, Usd::from_micros(*micros)))
            .collect();
        let counted = compose(Usd::from_micros(100), &claims);
        let counted: Vec<i64> = counted.into_iter().map(Usd::micros).collect();
        assert_eq!(counted, expect, "{name}");
    };
    check("one alone", &[(Time, 60)], &[60]);
    check("more than it costs", &[(Time, 160)], &[100]);
    check("the largest of a kind", &[(Time, 40), (Time, 60)], &[0, 60]);
    check("of equals the first", &[(Type, 40), (Type, 40)], &[40, 0]);
    check("steps add up", &[(Use, 30), (Use, 20)], &[30, 20]);
    check(
        "steps up to the machine",
        &[(Use, 90), (Use, 60)],
        &[60, 40],
    );
    check(
        "idle takes all",
        &[(Time, 100), (Use, 30), (Type, 50)],
        &[100, 0, 0],
    );
    check(
        "half off, then spot",
        &[(Time, 50), (Purchase, 40)],
        &[50, 20],
    );
    check(
        "each of what is left",
        &[(Use, 50), (Type, 50), (Purchase, 50)],
        &[50, 25, 12],
    );
    check("nothing saved", &[(Time, 0), (Type, 0)], &[0, 0]);
}

#[test]
fn each_dollar_is_counted_once_and_the_rest_says_where() {
    let mut findings = [
        finding("idle", 192_000, 10, 13),
        finding("step", 96_000, 0, 8),
        finding("volume", 10_000, 0, 20),
    ];
    let shared = [pool(
        192_000,
        vec![
            claim("step", Lever::Use, 500_000),
            claim("idle", Lever::Time, 1_000_000),
        ],
    )];
    count_once(&mut findings, &shared);
    let [idle, step, volume] = &findings;
    let usd = |micros| UsdPerHour::from_micros(micros).a_month();
    assert_eq!(counted(idle).saving_a_month, usd(192_000));
    // Half of the step ran on other machines.
    assert_eq!(counted(step).saving_a_month, usd(48_000));
    assert_eq!(
        counted(volume),
        volume.cost.as_ref().expect("a price").whole()
    );
    let by = |finding: &Finding| {
        let counted = finding.cost.as_ref().and_then(|cost| cost.counted.as_ref());
        counted.and_then(|counted| counted.rest_counted_by.clone())
    };
    assert_eq!((by(idle), by(step)), (None, Some("idle".to_owned())));
    // They wasted at different times, so both amounts were spent.
    assert_eq!(counted(idle).spent, Usd::from_micros(3 * 192_000));
    assert_eq!(counted(step).spent, Usd::from_micros(8 * 96_000));
}

#[test]
fn without_the_finding_that_counted_it_the_other_counts() {
    let shared = [pool(
        100_000,
        vec![
            claim("a", Lever::Time, 1_000_000),
            claim("b", Lever::Use, 1_000_000),
        ],
    )];
    let mut both = [finding("a", 100_000, 0, 1), finding("b", 30_000, 0, 1)];
    count_once(&mut both, &shared);
    assert_eq!(counted(&both[1]).saving_a_month, Usd::ZERO);
    let [_, b] = both;
    let mut alone = [b];
    count_once(&mut alone, &shared);
    assert_eq!(
        counted(&alone[0]),
        alone[0].cost.as_ref().expect("a price").whole()
    );
}

/// Generated machines with their price per hour, and findings about them.
#[derive(Debug, Clone)]
struct Fleet {
    prices: Vec<i64>,
    findings: Vec<MadeUp>,
}

/// A finding with a waste per hour, in a window of hours.
#[derive(Debug, Clone)]
struct MadeUp {
    per_hour: i64,
    from: u64,
    hours: u64,
    on: Vec<On>,
}

/// A machine that a finding claims, and the part of the finding that is about it.
#[derive(Debug, Clone)]
struct On {
    machine: usize,
    lever: Lever,
    weight: u32,
}

impl Fleet {
    fn build(&self, skip: Option<usize>) -> (Vec<Finding>, Vec<SharedCost>) {
        let mut claims: BTreeMap<usize, Vec<Claim>> = BTreeMap::new();
        let mut findings = Vec::new();
        for (n, made_up) in self.findings.iter().enumerate() {
            if skip == Some(n) {
                continue;
            }
            let id = format!("finding-{n:02}");
            let end = made_up.from + made_up.hours;
            findings.push(finding(&id, made_up.per_hour, made_up.from, end));
            // A finding claims each machine only once.
            let on: BTreeMap<usize, &On> = made_up.on.iter().map(|on| (on.machine, on)).collect();
            let sum: u32 = on.values().map(|on| on.weight).sum();
            for (machine, on) in on {
                let ppm = u64::from(on.weight) * 1_000_000 / u64::from(sum.max(1));
                let ppm = u32::try_from(ppm).expect("a share");
                claims
                    .entry(machine)
                    .or_default()
                    .push(claim(&id, on.lever, ppm));
            }
        }
        let shared = claims.into_iter();
        let shared = shared.map(|(machine, claims)| pool(self.prices[machine], claims));
        (findings, shared.collect())
    }
}

fn fleet() -> impl Strategy<Value = Fleet> {
    let lever = prop::sample::select(Lever::ALL.to_vec());
    prop::collection::vec(0..5_000_000i64, 1..6).prop_flat_map(move |prices| {
        let on = (0..prices.len(), lever.clone(), 1..100u32);
        let on = on.prop_map(|(machine, lever, weight)| On {
            machine,
            lever,
            weight,
        });
        let on = prop::collection::vec(on, 1..4);
        let one = (0..8_000_000i64, 0..100u64, 0..50u64, on);
        let one = one.prop_map(|(per_hour, from, hours, on)| MadeUp {
            per_hour,
            from,
            hours,
            on,
        });
        prop::collection::vec(one, 1..9).prop_map(move |findings| Fleet {
            prices: prices.clone(),
            findings,
        })
    })
}

fn total(findings: &[Finding]) -> Sums {
    let mut total = Sums::default();
    for finding in findings {
        total.add(&counted(finding));
    }
    total
}

/// The amounts that findings claim from no machine, because parts are rounded down.
fn unclaimed(findings: &[Finding], shared: &[SharedCost]) -> Usd {
    let of = |finding: &Finding| {
        let whole = finding.cost.as_ref().expect("a price").saving_a_month;
        let claims = shared.iter().flat_map(|pool| &pool.claims);
        let claims = claims.filter(|claim| claim.finding == finding.id);
        whole - claims.map(|claim| claim.part_of(whole)).sum()
    };
    findings.iter().map(of).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_total_is_at_most_what_the_machines_cost(fleet in fleet()) {
        let (mut findings, shared) = fleet.build(None);
        count_once(&mut findings, &shared);
        let cost: Usd = shared.iter().map(|pool| pool.a_month).sum();
        let rest = unclaimed(&findings, &shared);
        prop_assert!(total(&findings).saving_a_month <= cost + rest);
        for finding in &findings {
            let (part, whole) = (counted(finding), finding.cost.as_ref().expect("a price").whole());
            prop_assert!(part.saving_a_month >= Usd::ZERO && part.saving_a_month <= whole.saving_a_month);
            prop_assert!(part.spent >= Usd::ZERO && part.spent <= whole.spent);
            prop_assert!(part.per_hour.0 >= Usd::ZERO && part.per_hour <= whole.per_hour);
        }
    }

    #[test]
    fn the_order_of_findings_and_machines_changes_nothing(fleet in fleet(), seed in any::<u64>()) {
        let (mut findings, mut shared) = fleet.build(None);
        count_once(&mut findings, &shared);
        let (mut shuffled, _) = fleet.build(None);
        let key = |text: &str| text.bytes().fold(seed, |sum, byte| sum.rotate_left(7) ^ u64::from(byte).wrapping_mul(0x9E37_79B9));
        shuffled.sort_by_key(|finding| key(&finding.id));
        shared.reverse();
        for pool in &mut shared {
            pool.claims.sort_by_key(|claim| key(&claim.finding));
        }
        count_once(&mut shuffled, &shared);
        shuffled.sort_by(|a, b| a.id.cmp(&b.id));
        for (a, b) in findings.iter().zip(&shuffled) {
            prop_assert_eq!(counted(a), counted(b));
        }
    }

    #[test]
    fn one_more_finding_never_lowers_the_total_beyond_rounding(fleet in fleet(), n in 0..9usize) {
        let n = n % fleet.findings.len();
        let (mut with, shared) = fleet.build(None);
        count_once(&mut with, &shared);
        let (mut without, shared) = fleet.build(Some(n));
        count_once(&mut without, &shared);
        let rounding = Usd::from_micros(4 * 4 * 6);
        let (more, less) = (total(&with).saving_a_month, total(&without).saving_a_month);
        prop_assert!(more + rounding >= less, "{} {}", more, less);
    }
}
