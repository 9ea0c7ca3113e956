//! The output of `ebb catalog`.

use clap::Parser;

use super::*;
use crate::args::{Args, CatalogCommand, Command};

const NOW: &str = "2026-11-22T12:00:00Z";

fn make_refreshed() -> Refreshed {
    let document = serde_json::json!({"regions": {"us-east-1": {
        "at": "2026-11-22T00:00:00Z",
        "on_demand": {"m5.large": 90_000},
        "spot": {"m5.large": {"per_hour": 31_500, "as_of": "2026-11-21T23:00:00Z"}},
    }}});
    serde_json::from_value(document).expect("prices")
}

fn shown(line: &[&str]) -> Result<String> {
    let words = ["ebb", "catalog", "show"].iter().chain(line);
    let args = Args::try_parse_from(words)?;
    let Command::Catalog(args) = args.command else {
        bail!("another command");
    };
    let CatalogCommand::Show(args) = args.command else {
        bail!("another command");
    };
    let refreshed = make_refreshed();
    let catalogue = Catalogue::built_in().with(&refreshed);
    written(&catalogue, &refreshed, &args, NOW.parse().expect("a time"))
}

#[test]
fn a_type_is_shown_with_its_prices_and_their_age() {
    let text = shown(&["m5.large", "--region", "us-east-1"]).expect("it is known");
    insta::assert_snapshot!(text, @r"
    m5.large
      vCPUs       2
      cores       1
      memory      8.0 GiB
      processor   Intel x86_64 at 3.1 GHz
      GPUs        none
      network     0.75 to 10.0 Gbit/s
      EBS         0.65 to 4.8 Gbit/s
      local disks none
      kind        earlier generation

    region     on demand    spot  source
    us-east-1     0.0900  0.0315  refresh of 2026-11-22

    Prices: apache-libcloud 3.9.1 (PyPI, Apache-2.0), libcloud/data/pricing.json of 2025-03-02 (630 days old).
    Last refresh 12 hours ago.
    ");
}

#[test]
fn types_that_fit_are_shown_the_cheapest_first() {
    let line = [
        "--family",
        "m5",
        "--min-vcpus",
        "4",
        "--max-price",
        "0.5",
        "--limit",
        "2",
    ];
    let text = shown(&line).expect("they are known");
    insta::assert_snapshot!(text, @r"
    type        arch    vCPUs    memory  GPUs  on demand  spot  region
    m5.xlarge   x86_64      4  16.0 GiB     -     0.1920     -  us-east-1
    m5.2xlarge  x86_64      8  32.0 GiB     -     0.3840     -  us-east-1

    Prices: apache-libcloud 3.9.1 (PyPI, Apache-2.0), libcloud/data/pricing.json of 2025-03-02 (630 days old).
    Last refresh 12 hours ago.
    ");
    let none = shown(&["--gpu", "Voodoo"]).expect("no error");
    assert!(none.contains("remove a filter"), "{none}");
}

#[test]
fn json_has_every_value_and_what_is_not_known_is_null() {
    let text = shown(&["m5.large", "--format", "json"]).expect("it is known");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let one = &document["types"][0];
    assert_eq!(
        (&one["vcpus"], &one["gpu"]),
        (&2.into(), &serde_json::Value::Null)
    );
    let prices = one["prices"].as_array().expect("a list");
    assert!(prices.len() > 20);
    let home = prices.iter().find(|price| price["region"] == "us-east-1");
    let home = home.expect("it is sold there");
    assert_eq!(
        (&home["basis"], &home["on_demand_usd_per_hour"]),
        (&"refresh".into(), &"0.09".into())
    );
    assert_eq!(home["spot_usd_per_hour"], "0.0315");
    assert_eq!(home["as_of"], "2026-11-22T00:00:00Z");
}

#[test]
fn what_is_not_known_says_what_is() {
    let check = |line: &[&str], expect: &str| {
        let error = shown(line).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&["m5.larg"], "types of its family: m5.12xlarge, ");
    check(&["zx81"], "`ebb catalog show` lists all types");
    check(
        &["--region", "eu-west-9"],
        "regions with prices: af-south-1, ",
    );
    check(&["--family", "m99"], "no family 'm99' in the catalogue");
    check(&["m5.large", "--gpu", "T4"], "cannot be used with");
}

#[test]
fn names_are_read_in_either_case() {
    let check = |upper: &[&str], lower: &[&str]| {
        let [upper, lower] = [upper, lower].map(|line| shown(line).expect("it is known"));
        assert_eq!(upper, lower);
        assert!(lower.contains("m5.large"), "{lower}");
    };
    check(&["--family", "M5"], &["--family", "m5"]);
    check(&["M5.Large"], &["m5.large"]);
}
