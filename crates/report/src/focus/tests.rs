use std::collections::BTreeMap;

use ebb_model::report::billed_resources::{Billed, BilledResource};
use ebb_model::report::cost_shares::CentreRest;
use ebb_telemetry::money::UsdPerHour;

use crate::testing;

use super::*;

/// The rows by column, without null cells.
fn rows(report: &Report) -> Vec<BTreeMap<String, String>> {
    rows_of(&focus(report))
}

fn rows_of(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let records = reader.records().map(|record| {
        let record = record.expect("a row");
        let cells = header.iter().zip(record.iter());
        let known = cells.filter(|(_, cell)| !cell.is_empty());
        let known = known.map(|(column, cell)| (column.to_owned(), cell.to_owned()));
        known.collect()
    });
    records.collect()
}

fn lines(row: &BTreeMap<String, String>) -> String {
    let lines = row.iter().map(|(column, cell)| format!("{column} {cell}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn usd(dollars: f64) -> Usd {
    Usd::from_f64(dollars).expect("an amount")
}

/// A day from the bill of a week, with an existing machine, a terminated machine and services.
fn billed() -> Report {
    let mut report = testing::small();
    let machine = |id: &str, dollars: f64| BilledResource {
        id: id.to_owned(),
        name: None,
        account: None,
        region: None,
        instance_type: None,
        market: None,
        owner: None,
        tags: BTreeMap::new(),
        origin: ebb_telemetry::origin::Origin::Simulated,
        per_hour: None,
        list_per_hour: None,
        by_day: BTreeMap::from([("2026-02-28".to_owned(), usd(dollars))]),
    };
    let there = &report.findings[0].resource;
    let there = BilledResource {
        name: there.name.clone(),
        account: AccountId::new("111122223333").ok(),
        region: Some(there.region.clone()),
        instance_type: there.instance_type.clone(),
        market: there.market,
        owner: there.owner.clone(),
        tags: BTreeMap::from([("team".to_owned(), "genomics".to_owned())]),
        per_hour: Some(UsdPerHour::from_micros(1_000_000)),
        list_per_hour: Some(UsdPerHour::from_micros(1_500_000)),
        ..machine(&there.id, 24.0)
    };
    report.billed = Billed {
        resources: vec![there, machine("i-0gone", 6.0)],
        left_out: 0,
    };
    let services = [
        ("Amazon Elastic Compute Cloud - Compute", 31.5),
        ("Amazon Simple Storage Service", 4.25),
        ("Refunds", -1.0),
        ("Tax", 3.0),
    ];
    let services = services.map(|(name, dollars)| (name.to_owned(), usd(dollars)));
    report.ledger = vec![BilledDayShares {
        day: "2026-02-28".to_owned(),
        billed: usd(37.76),
        by_service: services.into(),
        ..BilledDayShares::default()
    }];
    report
}

#[test]
fn a_machine_on_a_day_is_a_row_of_the_bill() {
    let rows = rows(&billed());
    let machine = rows.iter().find(|row| row["x_RowKind"] == "machine");
    insta::assert_snapshot!(lines(machine.expect("a machine")), @r#"
    BilledCost 24.000000
    BillingAccountId 111122223333
    BillingAccountName 111122223333
    BillingAccountType Billing Account
    BillingCurrency USD
    BillingPeriodEnd 2026-03-01T00:00:00Z
    BillingPeriodStart 2026-02-01T00:00:00Z
    ChargeCategory Usage
    ChargeDescription g5.2xlarge, one day
    ChargeFrequency Usage-Based
    ChargePeriodEnd 2026-03-01T00:00:00Z
    ChargePeriodStart 2026-02-28T00:00:00Z
    ContractedCost 24.000000
    EffectiveCost 24.000000
    InvoiceIssuerName AWS
    ListCost 36.000000
    PricingCategory Standard
    PricingCurrency USD
    PricingCurrencyEffectiveCost 24.000000
    ProviderName AWS
    PublisherName AWS
    RegionId eu-central-1
    RegionName eu-central-1
    ResourceId i-0aaa
    ResourceName gpu-notebook
    ResourceType Instance
    ServiceCategory Compute
    ServiceName Amazon Elastic Compute Cloud - Compute
    ServiceSubcategory Virtual Machines
    SubAccountId 111122223333
    SubAccountName 111122223333
    SubAccountType Account
    Tags {"team":"genomics"}
    x_Estimated false
    x_InstanceType g5.2xlarge
    x_ListPricePerHour 1.500000
    x_Origin simulated
    x_Owner ana
    x_RowKind machine
    "#);
}

#[test]
fn a_finding_is_a_row_without_a_charge() {
    let report = billed();
    let rows = rows(&report);
    let finding = rows.iter().find(|row| row["x_RowKind"] == "finding");
    insta::assert_snapshot!(lines(finding.expect("a finding")), @r"
    BilledCost 0.000000
    BillingAccountId 111122223333
    BillingAccountName 111122223333
    BillingAccountType Billing Account
    BillingCurrency USD
    BillingPeriodEnd 2026-04-01T00:00:00Z
    BillingPeriodStart 2026-03-01T00:00:00Z
    ChargeCategory Adjustment
    ChargeDescription Idle node: no activity for 3 h 05 min; background processes use 0.02 cores; task session of ana exists without activity
    ChargeFrequency One-Time
    ChargePeriodEnd 2026-03-04T12:00:00Z
    ChargePeriodStart 2026-03-04T08:55:00Z
    ContractedCost 0.000000
    EffectiveCost 0.000000
    InvoiceIssuerName AWS
    ListCost 0.000000
    PricingCurrency USD
    PricingCurrencyEffectiveCost 0.000000
    ProviderName AWS
    PublisherName AWS
    RegionId eu-central-1
    RegionName eu-central-1
    ResourceId i-0aaa
    ResourceName gpu-notebook
    ResourceType Instance
    ServiceCategory Compute
    ServiceName Amazon Elastic Compute Cloud - Compute
    ServiceSubcategory Virtual Machines
    x_CountedSavingPerMonth 884.760000
    x_FindingId idle_node/eu-central-1/i-0aaa
    x_FindingKind idle_node
    x_InstanceType g5.2xlarge
    x_ListPricePerHour 1.212000
    x_Origin simulated
    x_Owner ana
    x_PriceAsOf 2026-02-27T00:00:00Z
    x_PriceBasis bill
    x_RecommendedAction Stop
    x_RowKind finding
    x_SavingIsUpperBound false
    x_SavingPerMonth 884.760000
    x_WastedCost 3.737000
    x_WastedPerHour 1.212000
    ");
    let unpriced = rows.last().expect("a row");
    assert!(
        report
            .findings
            .last()
            .is_some_and(|last| last.cost.is_none())
    );
    assert!(!unpriced.contains_key("x_SavingPerMonth") && unpriced["BilledCost"] == "0.000000");
}

#[test]
fn the_rows_of_a_day_add_up_to_its_bill() {
    let rows = rows(&billed());
    let lines: Vec<String> = rows
        .iter()
        .filter(|row| row["x_RowKind"] != "finding")
        .map(|row| {
            let resource = row.get("ResourceId").map_or("", String::as_str);
            format!(
                "{} {} {} {resource} {}",
                row["x_RowKind"], row["ChargeCategory"], row["ServiceName"], row["BilledCost"]
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    service Usage Amazon Elastic Compute Cloud - Compute  1.500000
    service Usage Amazon Simple Storage Service  4.250000
    service Adjustment Refunds  -1.000000
    service Tax Tax  3.000000
    machine Usage Amazon Elastic Compute Cloud - Compute i-0aaa 24.000000
    machine Usage Amazon Elastic Compute Cloud - Compute i-0gone 6.000000
    rest Adjustment unknown  0.010000
    ");
    let sum = |column: &str| -> f64 {
        let cells = rows.iter().map(|row| row[column].parse::<f64>());
        cells.map(|cell| cell.expect("a number")).sum()
    };
    assert!((sum("BilledCost") - 37.76).abs() < 1e-9);
    assert!((sum("EffectiveCost") - 37.76).abs() < 1e-9);
    assert!(
        (sum("ListCost") - 49.76).abs() < 1e-9,
        "half as much again for the machine"
    );
}

#[test]
fn what_several_accounts_cost_is_billed_to_one_that_is_not_known() {
    let mut report = billed();
    assert_eq!(rows(&report)[0]["BillingAccountId"], "111122223333");
    report.billed.resources[1].account = AccountId::new("444455556666").ok();
    let rows = rows(&report);
    assert_eq!(rows[0]["BillingAccountId"], "unknown");
    assert!(rows.iter().any(|row| {
        row.get("SubAccountId")
            .is_some_and(|id| id == "444455556666")
    }));
}

#[test]
fn each_row_has_every_column_whatever_its_name() {
    for (report, findings) in [
        (testing::empty(), 0),
        (testing::hostile(), 1),
        (testing::many(1_000), 1_000),
    ] {
        let text = focus(&report);
        assert_eq!(text.matches("\r\n").count(), findings + 1);
        assert_eq!(text.matches('\n').count(), findings + 1);
        assert!(!text.contains(",=") && !text.contains("\u{1b}"));
    }
}

#[test]
fn a_day_that_is_not_a_date_is_an_error_of_its_rows() {
    let mut report = billed();
    report.ledger[0].day = "28/02/2026".to_owned();
    let rows = rows(&report);
    let of_bill = rows.iter().filter(|row| row["x_RowKind"] != "finding");
    let of_bill: Vec<_> = of_bill.collect();
    assert!(!of_bill.is_empty());
    for row in of_bill {
        let description = &row["ChargeDescription"];
        assert!(
            description.starts_with("error: '28/02/2026' is not a date; "),
            "{description}"
        );
        for column in ["ChargePeriodStart", "BillingPeriodEnd"] {
            assert_eq!(row.get(column), None);
        }
    }
    assert!(!focus(&report).contains("0000-"));
}

#[test]
fn costs_by_the_names_of_tasks_add_up_to_the_bill_of_a_day() {
    let mut report = billed();
    report.costs = testing::costs("=rna");
    let day = report.ledger[0].day.clone();
    report.costs.days[0].day.clone_from(&day);
    for share in &mut report.costs.by_run {
        let costs = std::mem::take(&mut share.by_day);
        share.by_day = costs
            .into_values()
            .map(|cost| (day.clone(), cost))
            .collect();
    }
    let rows = rows_of(&focus_of_costs(&report, None));
    let cents = rows
        .iter()
        .map(|row| Usd::parse(&row["BilledCost"]).expect("an amount"));
    assert_eq!(cents.sum::<Usd>(), report.ledger[0].billed);
    let of = |kind: &str| {
        rows.iter()
            .find(|row| row["x_RowKind"] == kind)
            .expect("a row")
    };
    assert_eq!(of("tasks")["BilledCost"], "6.000000");
    assert_eq!(of("idle")["BilledCost"], "4.000000");
    let tags = r#"{"cost_centre":"=rna","pipeline":"=rna","run":"=rna","user":"=rna"}"#;
    assert_eq!(of("tasks")["Tags"], tags);
    assert_eq!(of("tasks")["ChargeCategory"], "Usage");
    report.costs.days[0].rest_by_centre = vec![CentreRest {
        name: CostName::Name("rna".to_owned()),
        rest: BTreeMap::from([(RestKind::Idle, usd(3.0))]),
    }];
    let rows = rows_of(&focus_of_costs(&report, None));
    let idle = rows.iter().filter(|row| row["x_RowKind"] == "idle");
    let idle = idle.map(|row| {
        (
            row["BilledCost"].as_str(),
            row.get("Tags").map(String::as_str),
        )
    });
    let centre = r#"{"cost_centre":"rna"}"#;
    let expect = [("1.000000", None), ("3.000000", Some(centre))];
    assert_eq!(idle.collect::<Vec<_>>(), expect);
    let other_month = "2025-01".parse().expect("a month");
    assert!(rows_of(&focus_of_costs(&report, Some(&other_month))).is_empty());
}
