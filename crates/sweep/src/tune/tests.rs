//! The table and the texts, with names that anyone may have written.

use std::time::Duration;

use ebb_domain::catalogue::Architecture;
use ebb_domain::fleet::Market;
use ebb_domain::heartbeat::Origin;
use ebb_domain::identity::{AccountId, InstanceType, Region};
use ebb_domain::profile::place::Offers;
use ebb_domain::sizing::{Risk, SizedRequest};
use ebb_domain::units::{Bytes, MilliCores, Usd};
use jiff::Timestamp;

use super::*;

pub(super) fn step(name: &str) -> StepAdvice {
    let request = |cores, mib| SizedRequest {
        cores: Some(MilliCores::cores(cores)),
        memory: Some(Bytes::mib(mib)),
    };
    StepAdvice {
        step: name.to_owned(),
        region: Region::new("us-east-1").ok(),
        account: None,
        kind: StepKind::EcsTask,
        owner: None,
        origin: Origin::Measured,
        last_seen: Timestamp::UNIX_EPOCH,
        runs: 30,
        samples: 25,
        failed: 5,
        oom_kills: 0,
        mean_wall: Some(Duration::from_secs(60)),
        machines: Vec::new(),
        asks: request(16, 57_344),
        should_ask: request(3, 4_864),
        risk: Risk {
            oom_ppm: Some(8_300),
            attempts: vec![Bytes::mib(5_120), Bytes::mib(7_680)],
            samples_needed: 0,
            oom_between: None,
        },
        by_input: Vec::new(),
        on_fargate: None,
        bound: Boundness::default(),
        offers: Offers::default(),
        saving_a_month: Some(Usd::from_micros(12_000_000)),
        finding: None,
    }
}

/// The types a step would run on, the best first.
pub(super) fn offers(types: &[&str]) -> Offers {
    let offered = |name: &&str| {
        serde_json::json!({
            "instance_type": name, "region": "us-east-1", "per_hour": 80_000,
            "wall": {"secs": 60, "nanos": 0}, "usd_a_run": 1_300, "runs_a_machine": 1,
            "held_up_by": "work", "basis": "published",
        })
    };
    let best: Vec<_> = types.iter().map(offered).collect();
    let all = serde_json::json!({"best": best, "left_out": {"memory": 12}});
    serde_json::from_value(all).expect("offers")
}

const HOSTILE: &str = "x'}\"; ${rm}\n\\ \u{1b}[31m\u{202e}<é>";

#[test]
fn the_table_shows_request_advice_and_risk() {
    let mut few = step("fastqc");
    few.risk = Risk {
        samples_needed: 15,
        ..Risk::default()
    };
    few.samples = 5;
    few.saving_a_month = None;
    insta::assert_snapshot!(table(&[step("align"), few], None));
}

#[test]
fn a_narrow_terminal_cuts_names_only() {
    let wide = table(&[step(&"long".repeat(40))], None);
    let narrow = table(&[step(&"long".repeat(40))], Some(80));
    let longest = |text: &str| text.lines().map(|l| l.chars().count()).max();
    assert!(longest(&narrow) < longest(&wide));
    assert!(narrow.contains("longlong  ") && narrow.contains("$12.00"));
    assert!(longest(&narrow) <= Some(80), "{narrow}");
    assert_eq!(table(&[], None), "No step was seen.\n");
}

#[test]
fn names_move_no_cursor_in_the_table() {
    let shown = table(&[step(HOSTILE)], None);
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    assert!(
        shown.lines().skip(2).all(|line| line.starts_with("  ")),
        "{shown}"
    );
}

#[test]
fn nextflow_text() {
    insta::assert_snapshot!(text::Form::Nextflow.write(&[step("RNASEQ:STAR"), step(HOSTILE)]));
}

#[test]
fn snakemake_text() {
    insta::assert_snapshot!(text::Form::Snakemake.write(&[step("star"), step(HOSTILE)]));
}

#[test]
fn terraform_text() {
    insta::assert_snapshot!(text::Form::Terraform.write(&[
        step("arn:aws:batch:us-east-1:1:job-definition/star:7"),
        step(HOSTILE)
    ]));
}

#[test]
fn batch_text() {
    insta::assert_snapshot!(text::Form::Batch.write(&[step("star")]));
    let both = text::Form::Batch.write(&[step("star"), step(HOSTILE)]);
    let parsed: serde_json::Value = serde_json::from_str(&both).expect("JSON");
    let name = parsed[1]["jobDefinitionName"].as_str().expect("a name");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    assert!(name.chars().all(allowed) && name.len() <= 128, "{name}");
}

#[test]
fn steps_that_need_no_change_are_in_no_text() {
    let mut well = step("well");
    well.should_ask = well.asks;
    for form in text::Form::ALL {
        let text = form.write(&[well.clone()]);
        let nothing = text == "[]\n" || text.contains("No step's request is to be changed");
        assert!(nothing, "{text}");
    }
}

#[test]
fn made_up_runs_are_labelled() {
    let mut made_up = step("star");
    made_up.origin = Origin::Simulated;
    made_up.offers = offers(&["c7a.large"]);
    for form in text::Form::ALL {
        let text = form.write(&[made_up.clone()]);
        assert!(text.to_lowercase().contains("simulated"), "{text}");
    }
}

#[test]
fn of_regions_and_accounts_the_one_that_needs_more_memory_speaks() {
    let mut more = step("star");
    more.account = AccountId::new("000000000001").ok();
    more.should_ask.memory = Some(Bytes::mib(9_000));
    let all = [step("star"), more.clone()];
    let text = text::Form::Nextflow.write(&all);
    assert_eq!(text.matches("withName").count(), 1);
    assert!(text.contains("9000.MB"));
    // What the other needs is not taken from it by what this one may give back.
    more.asks = more.should_ask;
    let text = text::Form::Nextflow.write(&[step("star"), more]);
    assert_eq!(text.matches("withName").count(), 0, "{text}");
    let shown = table(&all, None);
    assert!(shown.contains("us-east-1, account 000000000001"), "{shown}");
    assert!(!table(&all[..1], None).contains("where"));
}

/// Two steps that ran on Intel, of which one may as well run on Arm.
fn two_kinds() -> [StepAdvice; 2] {
    let mut x86 = step("align");
    x86.machines = vec![InstanceType::new("m5.4xlarge").expect("a type")];
    x86.offers = offers(&["c7a.large", "m7i.large"]);
    let mut both = step("sort");
    both.offers = offers(&["c7g.large", "m7i.large"]);
    [x86, both]
}

#[test]
fn machines_of_one_architecture_are_offered_together_the_best_of_each_step_first() {
    insta::assert_snapshot!(text::Form::BatchEnvironment.write(&two_kinds()));
    insta::assert_snapshot!(text::Form::LaunchTemplate.write(&two_kinds()[..1]));
    insta::assert_snapshot!(text::Form::AutoScalingGroup.write(&two_kinds()[..1]));
}

#[test]
fn a_type_that_came_after_the_program_is_offered_where_its_architecture_was_told() {
    let check = |architecture: Option<Architecture>, expect: bool| {
        let mut one = step("align");
        one.offers = offers(&["x99.large"]);
        one.offers.best[0].architecture = architecture;
        let text = text::Form::BatchEnvironment.write(&[one]);
        assert_eq!(text.contains("x99.large"), expect, "{text}");
    };
    check(Some(Architecture::Arm64), true);
    check(None, false);
}

#[test]
fn terraform_text_of_machines() {
    insta::assert_snapshot!(text::Form::Terraform.write(&two_kinds()[..1]));
    insta::assert_snapshot!(text::Form::TerraformGroup.write(&two_kinds()[..1]));
}

#[test]
fn forms_are_found_by_their_names() {
    for form in text::Form::ALL {
        assert_eq!(text::Form::of(form.slug()), Some(form));
    }
    assert_eq!(text::Form::of("cobol"), None);
}

#[test]
fn spot_is_offered_where_it_is_cheaper_for_a_step() {
    let mut step = step("align");
    step.offers = offers(&["c7a.large"]);
    step.offers.spot = offers(&["c6a.large", "c6i.large", "m6a.large"]).best;
    for offer in &mut step.offers.spot {
        offer.market = Market::Spot;
    }
    let check = |form: text::Form, expect: &str| {
        let text = form.write(std::slice::from_ref(&step));
        assert!(text.contains(expect) && !text.contains("c7a"), "{text}");
    };
    check(
        text::Form::BatchEnvironment,
        "\"SPOT_PRICE_CAPACITY_OPTIMIZED\"",
    );
    check(text::Form::AutoScalingGroup, "\"price-capacity-optimized\"");
    check(text::Form::Terraform, "type = \"SPOT\"");
    check(text::Form::TerraformGroup, "above_base_capacity = 0");
    let shown = table(&[step], None);
    assert!(shown.contains("  on spot   c6a.large $"), "{shown}");
}
