//! The output for the built-in demo account.

use clap::Parser;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::batch::Stuck;
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::inventory::instance::Controller;
use ebb_report::terminal_style::Colour;

use super::*;
use crate::args::{Args, Command};

fn report(more: &[&str]) -> Report {
    let line = ["ebb", "scan", "--demo"].iter().chain(more);
    let Command::Scan(args) = Args::parse_from(line).command else {
        unreachable!("the line says scan");
    };
    let scanned = async { of_demo(&args, &Policy::default()).await };
    runtime()
        .expect("it starts")
        .block_on(scanned)
        .expect("a report")
        .0
}

fn table(columns: usize) -> String {
    let style = TerminalStyle {
        columns: Some(columns),
        colour: Colour::Plain,
    };
    rendered(&report(&[]), Format::Table, &style, &Zone::utc())
}

#[test]
fn the_demo_account_reads_well_at_80_columns() {
    insta::assert_snapshot!(table(80));
}

#[test]
fn the_demo_account_reads_well_at_120_columns() {
    insta::assert_snapshot!(table(120));
}

#[test]
fn the_demo_account_is_a_csv_of_one_row_a_finding() {
    insta::assert_snapshot!(rendered(
        &report(&[]),
        Format::Csv,
        &TerminalStyle::PLAIN,
        &Zone::utc()
    ));
}

#[test]
fn the_demo_account_shows_every_kind_of_finding_and_of_ignorance() {
    let report = report(&[]);
    let has = |what: &str, wanted: &dyn Fn(&Evidence, Option<&Controller>) -> bool| {
        let mut all = report.findings.iter();
        assert!(
            all.any(|f| wanted(&f.evidence, f.resource.controller.as_ref())),
            "no {what}"
        );
    };
    has(
        "idle node that a probe saw",
        &|e, _| matches!(e, Evidence::IdleNode(idle) if idle.seen_by == SeenBy::Probe),
    );
    has("idle node of an Auto Scaling group", &|e, c| {
        matches!(
            (e, c),
            (Evidence::IdleNode(_), Some(Controller::AutoScalingGroup(_)))
        )
    });
    has(
        "job that cannot start",
        &|e, _| matches!(e, Evidence::StuckJob(job) if matches!(job.stuck, Stuck::Blocked { .. })),
    );
    has(
        "job without progress",
        &|e, _| matches!(e, Evidence::StuckJob(job) if matches!(job.stuck, Stuck::NoProgress { .. })),
    );
    has(
        "lost agent",
        &|e, _| matches!(e, Evidence::StuckJob(job) if job.stuck == Stuck::AgentDisconnected),
    );
    has("overprovisioned step", &|e, _| {
        matches!(e, Evidence::Overprovisioned(_))
    });
    let advised = report
        .findings
        .iter()
        .filter_map(|f| f.recommendation.as_ref());
    assert!(advised.into_iter().any(|advice| advice.placement.is_some()));
    let gpu = report
        .findings
        .iter()
        .find(|f| f.resource.name.as_deref() == Some("notebook-gpu"));
    assert!(gpu.is_some_and(|f| f.cost.is_some()));
    assert!(!report.not_evaluated.is_empty() && !report.gaps.is_empty());
}

#[test]
fn without_bill_or_metrics_less_is_known_and_nothing_is_made_up() {
    let (all, no_bill) = (report(&[]), report(&["--no-bill"]));
    assert_eq!(no_bill.findings.len(), all.findings.len());
    assert_ne!(no_bill.totals.price_bases, all.totals.price_bases);
    let no_metrics = report(&["--no-metrics"]);
    assert!(no_metrics.findings.len() < all.findings.len());
    assert!(no_metrics.not_evaluated.len() > all.not_evaluated.len());
    assert_eq!(no_metrics.totals.on_metrics, 0);
}

#[test]
fn one_region_is_a_part_of_the_account() {
    let (all, one) = (report(&[]), report(&["--region", "us-east-1"]));
    assert!(one.totals.running_instances < all.totals.running_instances);
    let mut regions = one.findings.iter().map(|f| f.resource.region.as_str());
    assert!(regions.all(|region| region == "us-east-1"));
}

#[test]
fn the_form_follows_the_word_of_the_user_and_else_the_file() {
    let check = |requested_format: Option<Format>, output: Option<&str>, expect: Format| {
        let found = format(requested_format, output.map(Path::new)).expect("a format");
        assert_eq!(found, expect);
    };
    check(None, None, Format::Table);
    check(None, Some("a/waste.html"), Format::Html);
    check(None, Some("waste.json"), Format::Json);
    check(None, Some("waste.csv"), Format::Csv);
    check(None, Some("waste"), Format::Table);
    check(None, Some("WASTE.HTML"), Format::Html);
    check(None, Some("waste.md"), Format::Markdown);
    check(None, Some("waste.txt"), Format::Table);
    check(Some(Format::Json), Some("waste.html"), Format::Json);
    check(Some(Format::Table), Some("waste.pdf"), Format::Table);
    for name in ["waste.pdf", "waste.xlsx", "a.b/waste.htmll"] {
        let error = format(None, Some(Path::new(name))).expect_err(name);
        assert!(
            error
                .to_string()
                .starts_with("unknown format for the extension ."),
            "{error}"
        );
    }
}
