//! Tests of sizing by metrics alone.

use ebb_model::confidence::Level;
use ebb_model::finding::Finding;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::node::MetricSize;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::instance::{Controller, Instance, Market};
use ebb_model::metric_series::{MetricPoint, MetricSeries};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::Usd;
use ebb_telemetry::testing::{at, node};
use ebb_telemetry::units::{Bytes, Share};

use crate::rules::trace::Speaks;
use crate::testing::{World, instance};

const A_DAY: u64 = 288;

fn percent(percent: f64) -> Option<Share> {
    Some(Share::from_ppm((percent * 10_000.0) as u32))
}

/// A sample of a machine with constant network traffic.
fn sample(n: u64, cpu: f64, memory: Option<f64>) -> MetricPoint {
    MetricPoint {
        cpu_max: percent(cpu),
        network_bytes: Some(30_000_000),
        disk_bytes: Some(3_000_000),
        memory: memory.and_then(percent),
        ..MetricPoint::new(at((n + 1) * 300), 300)
    }
}

/// A machine of type `kind` with `samples` samples.
fn world(kind: &str, samples: u64, of: impl Fn(u64) -> MetricPoint) -> World {
    let mut machine = instance(1);
    machine.instance_type = InstanceType::new(kind).expect("a type");
    of_machine(machine, samples, of)
}

fn of_machine(machine: Instance, samples: u64, of: impl Fn(u64) -> MetricPoint) -> World {
    let mut world = World::with([machine]);
    let series: MetricSeries = (0..samples).map(of).collect();
    world.metrics.insert(node(1), series);
    world.now = at(samples * 300);
    world
}

/// The finding about the size of the machine, and its evidence with the recommended type.
fn size(world: &World) -> Option<(Finding, MetricSize)> {
    let finding = world.evaluate().findings.into_iter().next()?;
    let Evidence::MetricSize(size) = finding.evidence.clone() else {
        panic!("another finding: {finding:?}")
    };
    Some((finding, size))
}

fn kind_and_type(world: &World) -> Option<(FindingKind, Option<String>)> {
    let (finding, size) = size(world)?;
    let instead = size.instead.map(|larger| larger.instance_type.to_string());
    Some((finding.kind, instead))
}

const FORTNIGHT: u64 = 14 * A_DAY;

#[test]
fn a_machine_is_too_large_too_small_or_little_used_by_percentiles_of_its_samples() {
    use ebb_model::finding_kind::FindingKind::{
        OverprovisionedNode, UnderprovisionedNode, UnderutilizedNode,
    };
    let check = |name: &str, world: World, expect: Option<FindingKind>| {
        let got = kind_and_type(&world).map(|(kind, _)| kind);
        assert_eq!(got, expect, "{name}");
    };
    let steady = |cpu: f64, memory: Option<f64>| {
        world("m5.4xlarge", FORTNIGHT, move |n| sample(n, cpu, memory))
    };
    check(
        "a tenth",
        steady(10.0, Some(15.0)),
        Some(OverprovisionedNode),
    );
    check("half", steady(45.0, Some(15.0)), None);
    check("full", steady(97.0, Some(15.0)), Some(UnderprovisionedNode));
    check(
        "full memory",
        steady(50.0, Some(96.0)),
        Some(UnderprovisionedNode),
    );
    let busy = |share: u64, cpu: f64| {
        world("m5.4xlarge", FORTNIGHT, move |n| {
            sample(n, if n % 1000 < share { cpu } else { 8.0 }, Some(15.0))
        })
    };
    // The mean is the same within a percent; the frequency decides.
    check(
        "4 of 1,000 samples",
        busy(4, 99.0),
        Some(OverprovisionedNode),
    );
    check("20 of 1,000 samples", busy(20, 99.0), None);
    check("150 of 1,000 samples", busy(150, 99.0), None);
    check(
        "300 of 1,000 samples",
        busy(300, 99.0),
        Some(UnderprovisionedNode),
    );
    let one_day = world("m5.4xlarge", FORTNIGHT, |n| {
        sample(n, if n > 11 * A_DAY { 97.0 } else { 60.0 }, Some(15.0))
    });
    check("full on three days of fourteen", one_day, None);
    let unknown = |n: u64| sample(n, if n.is_multiple_of(50) { 99.0 } else { 3.0 }, None);
    let spiky = world("m5.4xlarge", FORTNIGHT, unknown);
    check("spikes, memory unknown", spiky, Some(UnderutilizedNode));
    let short = |hours: u64| world("m5.4xlarge", hours * 12, |n| sample(n, 8.0, Some(15.0)));
    check("23 hours", short(23), None);
    check("25 hours", short(25), Some(OverprovisionedNode));
}

#[test]
fn the_type_instead_holds_cores_memory_and_bandwidth_and_memory_is_not_guessed() {
    let check = |name: &str, kind: &str, of: fn(u64) -> MetricPoint, expect: Option<&str>| {
        let got = kind_and_type(&world(kind, FORTNIGHT, of));
        let got = got.and_then(|(_, instead)| instead);
        assert_eq!(got.as_deref(), expect, "{name}");
    };
    // In percent of 16 cores and 64 GiB.
    check(
        "10 % of both",
        "m5.4xlarge",
        |n| sample(n, 10.0, Some(10.0)),
        Some("r7a.large"),
    );
    check(
        "half of the memory",
        "m5.4xlarge",
        |n| sample(n, 10.0, Some(50.0)),
        // 38.4 GiB with headroom.
        Some("r5a.2xlarge"),
    );
    check(
        "memory unknown",
        "m5.4xlarge",
        |n| sample(n, 10.0, None),
        Some("r5a.2xlarge"),
    );
    let wide = |n| MetricPoint {
        // 250 MB/s are 2,000 Mbit/s.
        network_bytes: Some(75_000_000_000),
        ..sample(n, 10.0, Some(10.0))
    };
    check("much network", "m5.4xlarge", wide, Some("c5n.xlarge"));
    check(
        "burstable",
        "t3.large",
        |n| sample(n, 3.0, Some(15.0)),
        Some("t3.small"),
    );
    // With headroom the machine always uses more than 20 %, the baseline of t3.medium.
    check(
        "above the baseline",
        "t3.large",
        |n| sample(n, 19.0, Some(15.0)),
        Some("c6a.large"),
    );
    check(
        "memory of a small one",
        "t3.large",
        |n| sample(n, 3.0, None),
        None,
    );
    check(
        "more cores",
        "m5.xlarge",
        |n| sample(n, 97.0, Some(15.0)),
        Some("c6a.2xlarge"),
    );
}

#[test]
fn what_is_said_names_the_evidence_the_risk_and_what_is_not_known() {
    let spiky = |n: u64| {
        sample(
            n,
            if n.is_multiple_of(500) { 60.0 } else { 8.0 },
            Some(10.0),
        )
    };
    let (finding, size) = size(&world("m5.4xlarge", FORTNIGHT, spiky)).expect("it is too large");
    assert_eq!(
        finding.evidence.to_string(),
        "for 99.5 % of 14 d 0 h, CPU usage was at most 8.0 % of its 16 cores (1.5 with headroom); \
         memory usage at most 10 % of 64.0 GiB, 97.7 KiB/s of network; r6a.large is large enough \
         and costs $0.1134/h instead of $0.7680/h; for 0.2 % of the time, the work needed \
         more cores than this type has"
    );
    assert_eq!(size.beyond.map(Share::ppm), Some(2_232));
    assert_eq!(finding.confidence.level, Level::Medium);
    let cost = finding.cost.expect("a price is known");
    assert_eq!(cost.saving_a_month, Usd::from_micros(654_600 * 730));

    let world = world("m5.4xlarge", 3 * A_DAY, |n| MetricPoint {
        network_bytes: None,
        ..sample(n, 8.0, None)
    });
    let finding = world
        .evaluate()
        .findings
        .into_iter()
        .next()
        .expect("it is too large");
    let reason = &finding.confidence.reason;
    assert!(
        reason.ends_with("unknown: memory in use, network; metrics cover only 3 d 0 h"),
        "{reason}"
    );
    assert_eq!(finding.confidence.level, Level::Low);
    let cost = finding.cost.expect("a price is known");
    assert_eq!(
        cost.saving_a_month, cost.spent,
        "three days seen, three days saved"
    );
    let checks = crate::explain::explain(&world.facts(), node(1).as_str()).checks;
    let of_rule = checks.iter().filter(|check| check.rule == finding.kind);
    assert!(of_rule.clone().count() >= 5 && of_rule.clone().all(|c| c.speaks == Speaks::ForWaste));
}

#[test]
fn a_host_without_a_type_is_told_which_part_of_its_cores_it_needs_and_no_dollars() {
    let host = Instance::host(node(1));
    let world = of_machine(host, FORTNIGHT, |n| sample(n, 15.0, Some(30.0)));
    let (finding, size) = size(&world).expect("it is too large");
    assert_eq!(finding.kind, FindingKind::OverprovisionedNode);
    assert_eq!((finding.cost, size.instead), (None, None));
    let advice = "Reduce the machine to a quarter of its cores. Set its memory by its measured \
                  usage.";
    assert_eq!(finding.remedy.advice, advice);
}

#[test]
fn nothing_is_said_where_another_chooses_or_another_rule_speaks_or_prices_are_not_known() {
    let check = |name: &str, change: fn(&mut World)| {
        let mut world = world("m5.4xlarge", FORTNIGHT, |n| sample(n, 10.0, Some(10.0)));
        assert!(size(&world).is_some());
        change(&mut world);
        let found = world.evaluate().findings;
        let of_size = found
            .iter()
            .any(|f| f.kind == FindingKind::OverprovisionedNode);
        assert!(!of_size, "{name}: {found:?}");
    };
    fn machine(world: &mut World) -> &mut Instance {
        let mut machines = world.inventory.instances.values_mut();
        machines.next().expect("it is there")
    }
    check("a group chooses its type", |world| {
        machine(world).controller = Some(Controller::AutoScalingGroup("web".into()));
    });
    check("it has GPUs", |world| {
        machine(world).instance_type = InstanceType::new("g4dn.4xlarge").expect("a type");
    });
    check("spot without a price", |world| {
        machine(world).market = Market::Spot
    });
    check("it was started today", |world| {
        machine(world).launched_at = Some(at(13 * 86_400 + 7_200));
    });
    check("not worth a change", |world| {
        world.policy.overprovisioned.min_saving_usd_micros = 1_000_000_000_000;
    });
    check("its metrics have ended", |world| {
        world.now = at(15 * 86_400)
    });
    check("it stands by", |world| {
        let tag = ("ebb:standby".to_owned(), "true".to_owned());
        machine(world).tags.extend([tag]);
    });
}

#[test]
fn a_machine_of_an_old_generation_that_is_too_large_gets_one_new_type() {
    let world = world("m4.4xlarge", FORTNIGHT, |n| sample(n, 10.0, Some(10.0)));
    let kinds: Vec<_> = world.evaluate().findings.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::OverprovisionedNode]);
}

#[test]
fn more_use_never_leads_to_a_smaller_machine() {
    let catalogue = ebb_catalog::catalog::Catalogue::built_in();
    let mut before: Option<(u32, Bytes)> = None;
    for cpu in [2.0, 4.0, 8.0, 16.0, 32.0, 41.0] {
        let world = world("m5.4xlarge", FORTNIGHT, |n| sample(n, cpu, Some(cpu)));
        let Some((_, Some(instead))) = kind_and_type(&world) else {
            continue;
        };
        let kind = InstanceType::new(instead.as_str()).expect("a type");
        let spec = catalogue.spec(&kind).expect("it is known");
        let now = (spec.vcpus, spec.memory);
        if let Some(before) = before {
            assert!(now.0 >= before.0 && now.1 >= before.1, "{cpu} %: {instead}");
        }
        before = Some(now);
    }
    assert!(before.is_some());
}
