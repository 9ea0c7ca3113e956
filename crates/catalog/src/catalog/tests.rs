//! Checks over the whole built-in catalogue.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::list_price::*;
use crate::machine_type::*;
use ebb_telemetry::units::Bytes;

const DROPPED: &str = include_str!("../data/dropped.csv");

fn region(name: &str) -> Region {
    Region::new(name).expect("a region")
}

fn machine(name: &str) -> InstanceType {
    InstanceType::new(name).expect("a type")
}

fn price(in_region: &str, name: &str) -> Option<ListPrice> {
    Catalogue::built_in().list_price(&region(in_region), &machine(name))
}

/// The part of a type's name before the dot.
fn family(spec: &TypeSpec) -> &str {
    spec.name.as_str().split('.').next().unwrap_or_default()
}

fn dropped() -> impl Iterator<Item = [&'static str; 4]> {
    let rows = DROPPED.lines().filter(|l| !l.starts_with('#')).skip(1);
    rows.map(|line| {
        let fields: Vec<_> = line.split(',').collect();
        fields.try_into().expect("four fields")
    })
}

#[test]
fn types_have_the_specs_and_prices_that_their_users_know() {
    let check = |name: &str, vcpus: u32, memory: Bytes, arch, usd: &str| {
        let catalogue = Catalogue::built_in();
        let spec = catalogue.spec(&machine(name)).expect(name);
        assert_eq!(
            (spec.vcpus, spec.memory, spec.architecture),
            (vcpus, memory, arch),
            "{name}"
        );
        let paid = catalogue.on_demand(&region("us-east-1"), &machine(name));
        assert_eq!(paid, Usd::parse(usd).map(UsdPerHour), "{name}");
    };
    check(
        "m5.xlarge",
        4,
        Bytes::gib(16),
        Architecture::X86_64,
        "0.192",
    );
    check("c6g.large", 2, Bytes::gib(4), Architecture::Arm64, "0.068");
    check(
        "r5.2xlarge",
        8,
        Bytes::gib(64),
        Architecture::X86_64,
        "0.504",
    );
    check("t3.micro", 2, Bytes::gib(1), Architecture::X86_64, "0.0104");
    check(
        "g4dn.xlarge",
        4,
        Bytes::gib(16),
        Architecture::X86_64,
        "0.526",
    );
}

#[test]
fn gpus_burst_and_metal_are_known() {
    let spec = |name: &str| Catalogue::built_in().spec(&machine(name)).expect("known");
    let gpus = spec("g4dn.12xlarge").gpus.as_ref().expect("has GPUs");
    assert_eq!((gpus.count, gpus.name.as_str()), (4, "T4"));
    assert_eq!(gpus.memory, Some(Bytes::gib(64)));
    assert_eq!(spec("m5.large").gpus, None);
    assert!(spec("inf2.xlarge").accelerators.is_some());
    assert!(spec("t4g.nano").burstable && !spec("m5.large").burstable);
    assert!(spec("m5.metal").metal && !spec("m5.large").metal);
    assert_eq!(spec("c6gd.medium").local_disk, Some(Bytes(59_000_000_000)));
    let m5 = spec("m5.xlarge");
    assert_eq!(m5.processor.as_deref(), Some("Intel"));
    assert_eq!(
        (m5.network_baseline_mbps, m5.network_burst_mbps),
        (Some(1_250), Some(10_000))
    );
    assert_eq!(
        (m5.ebs_baseline_mbps, m5.ebs_burst_mbps),
        (Some(1_150), Some(4_750))
    );
}

#[test]
fn a_price_says_where_it_comes_from() {
    let check = |in_region: &str, name: &str, basis: Option<PriceBasis>| {
        let got = price(in_region, name).map(|p| p.basis);
        assert_eq!(got, basis, "{name} in {in_region}");
    };
    check("us-east-1", "m5.large", Some(PriceBasis::Listed));
    check("us-east-1", "m5.xlarge", Some(PriceBasis::FromFamily));
    check("us-east-1", "p5.48xlarge", Some(PriceBasis::FromFamily));
    check("us-east-1", "vt1.24xlarge", Some(PriceBasis::Unchecked));
    check("us-east-1", "g4dn.8xlarge", Some(PriceBasis::Earlier));
    check("us-east-1", "p4d.24xlarge", Some(PriceBasis::FromFamily));
    check("us-east-1", "m5.nosuch", None);
    check("atlantis-1", "m5.large", None);
}

#[test]
fn every_priced_type_has_specs_and_a_price_above_zero() {
    let catalogue = Catalogue::built_in();
    let mut prices = 0;
    for region in catalogue.regions() {
        let mut last = None;
        for (spec, usd) in catalogue.types_in(region) {
            assert!(usd > UsdPerHour::default(), "{} in {region}", spec.name);
            assert!(spec.vcpus > 0 && spec.memory > Bytes(0), "{}", spec.name);
            assert!(last < Some(&spec.name), "sorted at {}", spec.name);
            assert_eq!(catalogue.on_demand(region, &spec.name), Some(usd));
            last = Some(&spec.name);
            prices += 1;
        }
    }
    assert!(prices > 10_000, "{prices} prices");
    assert_eq!(catalogue.types_in(&region("atlantis-1")).count(), 0);
}

#[test]
fn in_even_families_twice_the_size_costs_twice_the_money_in_every_region() {
    let catalogue = Catalogue::built_in();
    let even = |spec: &TypeSpec| {
        let letters = family(spec).as_bytes();
        letters.len() > 1 && b"mcr".contains(&letters[0]) && letters[1].is_ascii_digit()
    };
    let mut memory: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for spec in catalogue.types.iter().filter(|s| even(s)) {
        let per_vcpu = spec.memory.0 / u64::from(spec.vcpus);
        memory.entry(family(spec)).or_default().insert(per_vcpu);
    }
    memory.retain(|_, per_vcpu| per_vcpu.len() == 1);
    assert!(memory.len() > 50, "{} families", memory.len());
    for region in catalogue.regions() {
        let mut lowest: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for (spec, usd) in catalogue.types_in(region) {
            if !memory.contains_key(family(spec)) {
                continue;
            }
            // In billionths of a dollar per vCPU and hour, which is a whole number.
            let unit = usd.0.micros() * 1000 / i64::from(spec.vcpus);
            let (low, high) = lowest.entry(family(spec)).or_insert((unit, unit));
            (*low, *high) = (unit.min(*low), unit.max(*high));
            // Prices are rounded to a tenth of a cent: up to 1.2 % of the smallest price.
            assert!(
                *high * 1000 <= *low * 1015,
                "{} in {region}: {low} to {high}",
                spec.name
            );
        }
    }
}

#[test]
fn what_was_dropped_is_nowhere_in_the_catalogue() {
    let catalogue = Catalogue::built_in();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for [name, in_region, listed, reason] in dropped() {
        *counts.entry(reason).or_default() += 1;
        let is_other =
            |p: &ListPrice| matches!(p.basis, PriceBasis::FromFamily | PriceBasis::Earlier);
        let kept = |name| price(in_region, name).filter(|p| !is_other(p));
        match reason {
            "zero" => assert_eq!(kept(name), None, "{name} in {in_region}"),
            "dedicated" | "reduced" => {
                assert_eq!(kept(name), None, "{name} in {in_region}");
                let listed = UsdPerHour(Usd::parse(listed).expect("a price"));
                let cheaper = price(in_region, name).is_none_or(|p| p.usd_per_hour < listed);
                assert!(cheaper, "{name} in {in_region}");
            }
            "no-specs" => assert_eq!(catalogue.spec(&machine(name)), None, "{name}"),
            "local-zone" => assert!(catalogue.regions().all(|r| r.as_str() != in_region)),
            other => panic!("reason {other}"),
        }
    }
    for reason in ["zero", "dedicated", "no-specs", "local-zone", "reduced"] {
        assert!(counts.contains_key(reason), "{reason}");
    }
}

#[test]
fn a_price_from_outside_the_list_replaces_one_that_was_dropped() {
    let gone: BTreeSet<_> = dropped().map(|[name, at, ..]| (name, at)).collect();
    let catalogue = Catalogue::built_in();
    for region in catalogue.regions() {
        for (spec, _) in catalogue.types_in(region) {
            let basis = catalogue.list_price(region, &spec.name).map(|p| p.basis);
            let at = (spec.name.as_str(), region.as_str());
            assert_eq!(
                matches!(basis, Some(PriceBasis::FromFamily | PriceBasis::Earlier)),
                gone.contains(&at),
                "{at:?}"
            );
        }
    }
}

#[test]
fn each_price_says_of_which_day_it_is() {
    let check = |in_region: &str, name: &str, expect: Option<&str>| {
        let at = Catalogue::built_in().price_as_of(&region(in_region), &machine(name));
        let day = at.map(|at| at.strftime("%Y-%m-%d").to_string());
        assert_eq!(day.as_deref(), expect, "{name} in {in_region}");
    };
    check("us-east-1", "m5.large", Some("2025-03-02"));
    check("us-east-1", "m5.xlarge", Some("2025-03-02"));
    check("us-east-1", "g4dn.8xlarge", Some("2022-05-22"));
    check("us-east-1", "m5.nosuch", None);
}

#[test]
fn gpu_types_have_a_price_in_the_main_regions() {
    let catalogue = Catalogue::built_in();
    let regions = [
        "us-east-1",
        "us-east-2",
        "us-west-2",
        "eu-west-1",
        "eu-central-1",
        "ap-northeast-1",
        "ap-southeast-2",
    ];
    for name in regions {
        let there = region(name);
        for (prefix, least) in [("g4dn.", 7), ("g5.", 8), ("inf2.", 4)] {
            let priced = catalogue.types_in(&there);
            let of_family = priced.filter(|(spec, _)| spec.name.as_str().starts_with(prefix));
            assert!(of_family.count() >= least, "{prefix} in {name}");
        }
        assert!(
            price(name, "p4d.24xlarge").is_some() || name == "us-east-2",
            "{name}"
        );
    }
}

#[test]
fn what_a_type_is_built_on_is_known() {
    let check = |name: &str, expect: Hypervisor| {
        let spec = Catalogue::built_in().spec(&machine(name)).expect(name);
        assert_eq!(spec.hypervisor, Some(expect), "{name}");
    };
    for name in [
        "i4i.large",
        "p4d.24xlarge",
        "g4dn.xlarge",
        "inf2.xlarge",
        "inf1.xlarge",
        "trn1.2xlarge",
        "a1.large",
        "t3.micro",
        "m5.large",
        "i3en.large",
        "m5.metal",
        "z1d.large",
        "x2idn.16xlarge",
    ] {
        check(name, Hypervisor::Nitro);
    }
    for name in [
        "m4.large",
        "c4.large",
        "r4.large",
        "t2.micro",
        "i3.large",
        "d2.xlarge",
        "h1.2xlarge",
        "x1.16xlarge",
        "m1.small",
    ] {
        check(name, Hypervisor::Xen);
    }
    let all = Catalogue::built_in().types();
    assert!(all.iter().all(|spec| spec.hypervisor.is_some()));
}

#[test]
fn source_and_day_are_named() {
    insta::assert_snapshot!(
        Catalogue::built_in().as_of(),
        @"apache-libcloud 3.9.1 (PyPI, Apache-2.0), libcloud/data/pricing.json of 2025-03-02"
    );
}

#[test]
fn a_bad_file_is_refused_with_its_line() {
    let head = "# source\ntype,arch,vcpus,cores,memory_mib,clock_mhz,gpus,gpu_name,\
        gpu_memory_mib,accelerators,accelerator_name,network_baseline_mbps,\
        network_burst_mbps,ebs_baseline_mbps,ebs_burst_mbps,local_disk_gb,processor,traits\n";
    let good = "a1.large,arm64,2,2,4096,,,,,,,,,,,,,spot\n";
    let check = |types: &str, prices: &str, expect: &str| {
        let refused = Catalogue::parse(types, prices).expect_err(expect);
        let shown = format!("{}:{}: {}", refused.file, refused.line, refused.problem);
        assert!(shown.starts_with(expect), "{shown}");
    };
    let types = |rows: &str| format!("{head}{rows}");
    check("type\n", "", "types.csv:1: a first line");
    check("# x\n", "", "types.csv:1: a header");
    check("# x\ntype\n", "", "types.csv:2: the header");
    check(&types("a1.large,arm64\n"), "", "types.csv:3: 2 fields");
    check(
        &types(&good.repeat(2)),
        "",
        "types.csv:4: 'a1.large' is out of order",
    );
    check(
        &types(&good.replace(",2,2,", ",,2,")),
        "",
        "types.csv:3: vcpus",
    );
    check(
        &types(&good.replace("arm64", "vax")),
        "",
        "types.csv:3: arch",
    );
    check(
        &types(&good.replace("spot", "lucky")),
        "",
        "types.csv:3: traits",
    );
    let prices = |row: &str| format!("# x\n# y\ntype,us-east-1\n{row}");
    let check = |row: &str, expect: &str| check(&types(good), &prices(row), expect);
    check("a1.large,0.051,1\n", "prices.csv:4: 3 fields");
    check("a1.large,0.0\n", "prices.csv:4: 'a1.large' has a price");
    check("a1.large,cheap\n", "prices.csv:4: price 'cheap'");
    check("b1.large,0.1\n", "prices.csv:4: 'b1.large' has no specs");
    check(
        "a1.large,1\na1.large,1\n",
        "prices.csv:5: 'a1.large' is out of order",
    );
}
