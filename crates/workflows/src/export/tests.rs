//! The texts, with names that anyone may have written.

use ebb_domain::catalogue::Architecture;
use ebb_domain::fleet::Market;
use ebb_domain::heartbeat::Origin;
use ebb_domain::identity::{AccountId, InstanceType};
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::units::Bytes;

use super::Form;
use crate::testing::{HOSTILE, offers, step};

#[test]
fn nextflow_text() {
    insta::assert_snapshot!(Form::Nextflow.write(&[step("RNASEQ:STAR"), step(HOSTILE)]));
}

#[test]
fn snakemake_text() {
    insta::assert_snapshot!(Form::Snakemake.write(&[step("star"), step(HOSTILE)]));
}

#[test]
fn terraform_text() {
    insta::assert_snapshot!(Form::Terraform.write(&[
        step("arn:aws:batch:us-east-1:1:job-definition/star:7"),
        step(HOSTILE)
    ]));
}

#[test]
fn batch_text() {
    insta::assert_snapshot!(Form::Batch.write(&[step("star")]));
    let both = Form::Batch.write(&[step("star"), step(HOSTILE)]);
    let parsed: serde_json::Value = serde_json::from_str(&both).expect("JSON");
    let name = parsed[1]["jobDefinitionName"].as_str().expect("a name");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    assert!(name.chars().all(allowed) && name.len() <= 128, "{name}");
}

#[test]
fn steps_that_need_no_change_are_in_no_text() {
    let mut well = step("well");
    well.should_ask = well.asks;
    for form in Form::ALL {
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
    for form in Form::ALL {
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
    let text = Form::Nextflow.write(&all);
    assert_eq!(text.matches("withName").count(), 1);
    assert!(text.contains("9000.MB"));
    // What the other needs is not taken from it by what this one may give back.
    more.asks = more.should_ask;
    let text = Form::Nextflow.write(&[step("star"), more]);
    assert_eq!(text.matches("withName").count(), 0, "{text}");
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
    insta::assert_snapshot!(Form::BatchEnvironment.write(&two_kinds()));
    insta::assert_snapshot!(Form::LaunchTemplate.write(&two_kinds()[..1]));
    insta::assert_snapshot!(Form::AutoScalingGroup.write(&two_kinds()[..1]));
}

#[test]
fn a_type_that_came_after_the_program_is_offered_where_its_architecture_was_told() {
    let check = |architecture: Option<Architecture>, expect: bool| {
        let mut one = step("align");
        one.offers = offers(&["x99.large"]);
        one.offers.best[0].architecture = architecture;
        let text = Form::BatchEnvironment.write(&[one]);
        assert_eq!(text.contains("x99.large"), expect, "{text}");
    };
    check(Some(Architecture::Arm64), true);
    check(None, false);
}

#[test]
fn terraform_text_of_machines() {
    insta::assert_snapshot!(Form::Terraform.write(&two_kinds()[..1]));
    insta::assert_snapshot!(Form::TerraformGroup.write(&two_kinds()[..1]));
}

#[test]
fn forms_are_found_by_their_names() {
    for form in Form::ALL {
        assert_eq!(Form::of(form.slug()), Some(form));
    }
    assert_eq!(Form::of("cobol"), None);
}

#[test]
fn spot_is_offered_where_it_is_cheaper_for_a_step() {
    let mut step = step("align");
    step.offers = offers(&["c7a.large"]);
    step.offers.spot = offers(&["c6a.large", "c6i.large", "m6a.large"]).best;
    for offer in &mut step.offers.spot {
        offer.market = Market::Spot;
    }
    let check = |form: Form, expect: &str| {
        let text = form.write(std::slice::from_ref(&step));
        assert!(text.contains(expect) && !text.contains("c7a"), "{text}");
    };
    check(Form::BatchEnvironment, "\"SPOT_PRICE_CAPACITY_OPTIMIZED\"");
    check(Form::AutoScalingGroup, "\"price-capacity-optimized\"");
    check(Form::Terraform, "type = \"SPOT\"");
    check(Form::TerraformGroup, "above_base_capacity = 0");
}
