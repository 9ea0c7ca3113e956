//! The generated texts, also for hostile names.

use std::time::Duration;

use ebb_catalog::machine_type::Architecture;
use ebb_model::advice::group::{Fleet, GroupAdvice};
use ebb_model::advice::sized_request::SizedRequest;
use ebb_model::advice::step::{NameForm, StepAdvice, TimeLimit};
use ebb_model::confidence::Level;
use ebb_model::inventory::instance::Market;
use ebb_model::step_profile::failure::{FailureCount, FailureKind};
use ebb_model::step_profile::tasks::{RequestBasis, RequestCount};
use ebb_telemetry::identity::{AccountId, InstanceType, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

use crate::export::environment::update as environment_update;
use crate::export::request::{NoAdvice, RetryPolicy};
use crate::export::{Form, GroupSubject, TextOptions};
use crate::testing::{HOSTILE, offers, step};

fn text(form: Form, steps: &[StepAdvice]) -> String {
    form.write(steps, TextOptions::default())
}

/// A step that also requests too much time.
fn limited(name: &str, hours: (u64, u64)) -> StepAdvice {
    let limit = |hours| Duration::from_secs(3_600 * hours);
    StepAdvice {
        time_limit: Some(TimeLimit {
            asks: limit(hours.0),
            should_ask: limit(hours.1),
        }),
        ..step(name)
    }
}

#[test]
fn nextflow_text() {
    let mut of_jobs = limited("NFCORE_RNASEQ_STAR", (48, 3));
    of_jobs.name_form = NameForm::NextflowJob;
    let steps = [of_jobs, step("RNASEQ:STAR"), step(HOSTILE)];
    insta::assert_snapshot!(text(Form::Nextflow, &steps));
}

#[test]
fn a_step_that_its_executables_name_is_left_out_with_a_note() {
    let mut unnamed = step("bwa+samtools");
    unnamed.name_form = NameForm::Executables;
    let steps = [step("STAR"), unnamed];
    assert_eq!(super::changed_steps(&steps).collect::<Vec<_>>(), ["STAR"]);
    for form in [
        Form::Nextflow,
        Form::Snakemake,
        Form::Slurm,
        Form::Terraform,
    ] {
        let text = text(form, &steps);
        let note = "Left out: 1 step without a name of the engine (bwa+samtools).";
        assert!(text.contains(note), "{text}");
        assert_eq!(text.matches("bwa+samtools").count(), 1, "{text}");
    }
    let script = text(Form::Batch, &steps);
    assert_eq!(script.matches("bwa+samtools").count(), 1, "{script}");
}

#[test]
fn nextflow_text_leaves_the_retry_policy_unless_asked() {
    let steps = [step("STAR")];
    let retry = |retry| {
        Form::Nextflow.write(
            &steps,
            TextOptions {
                retry,
                ..TextOptions::default()
            },
        )
    };
    let unchanged = retry(RetryPolicy::Unchanged);
    assert!(!unchanged.contains("errorStrategy ="), "{unchanged}");
    assert!(!unchanged.contains("maxRetries ="), "{unchanged}");
    assert!(unchanged.contains("task.attempt"), "{unchanged}");
    let replaced = retry(RetryPolicy::Replaced);
    let policy = "        errorStrategy = { task.exitStatus in ((130..145) + [104, 175]) ? \
                  'retry' : 'finish' }\n        maxRetries = 2\n";
    assert!(replaced.contains(policy), "{replaced}");
}

#[test]
fn nextflow_retries_what_was_retried_or_ran_out_of_memory() {
    let failures = |kind, exit_status, retried| FailureCount {
        kind,
        exit_status,
        attempts: 6,
        retried,
        ignored: 0,
        lost_seconds: 60,
    };
    let mut step = step("STAR");
    step.failures = vec![
        failures(FailureKind::SuspectedOutOfMemory, Some(1), 0),
        failures(FailureKind::NoExitStatus, None, 1),
        failures(FailureKind::OutOfMemory, Some(137), 6),
        failures(FailureKind::Error, Some(2), 0),
    ];
    let options = TextOptions {
        retry: RetryPolicy::Replaced,
        ..TextOptions::default()
    };
    let written = Form::Nextflow.write(std::slice::from_ref(&step), options);
    let expect = "task.exitStatus in ((130..145) + [104, 175, 1, Integer.MAX_VALUE]) ?";
    assert!(written.contains(expect), "{written}");
    // A task needed six attempts, and one failure was ignored.
    step.attempts = 6;
    step.failures[3].ignored = 1;
    let written = Form::Nextflow.write(std::slice::from_ref(&step), options);
    assert!(written.contains("? 'retry' : 'ignore' }"), "{written}");
    assert!(written.contains("maxRetries = 5"), "{written}");
    let written = Form::Snakemake.write(&[step], options);
    assert!(written.contains("\nretries: 5\n"), "{written}");
}

#[test]
fn requests_that_differ_by_sample_and_stay_are_left_alone() {
    let mut fewer_cores = step("star");
    fewer_cores.should_ask.memory = fewer_cores.asks.memory;
    fewer_cores.present.basis = RequestBasis::Median;
    let smaller = SizedRequest {
        cores: Some(MilliCores::cores(4)),
        memory: Some(Bytes::gib(16)),
    };
    let count = |request| RequestCount {
        request,
        tasks: 10,
        out_of_memory: 0,
    };
    fewer_cores.present.counts = vec![count(fewer_cores.asks), count(smaller)];
    let written = text(Form::Nextflow, &[fewer_cores.clone()]);
    assert!(!written.contains("memory ="), "{written}");
    assert!(written.contains("cpus = 3"), "{written}");
    for form in [Form::Nextflow, Form::Snakemake, Form::Slurm] {
        let written = text(form, std::slice::from_ref(&fewer_cores));
        assert!(written.contains("First attempts have"), "{written}");
    }
    // The values that change are the same for all tasks.
    let memory_differs = SizedRequest {
        memory: Some(Bytes::gib(16)),
        ..fewer_cores.asks
    };
    fewer_cores.present.counts = vec![count(fewer_cores.asks), count(memory_differs)];
    let written = text(Form::Slurm, std::slice::from_ref(&fewer_cores));
    assert!(!written.contains("First attempts have"), "{written}");
    // A request that stays is not written, so that the pipeline keeps its sizes for retries.
    fewer_cores.present.basis = RequestBasis::Same;
    let written = text(Form::Nextflow, &[fewer_cores]);
    assert!(written.contains("cpus = 3"), "{written}");
    assert!(!written.contains("memory ="), "{written}");
}

#[test]
fn a_time_limit_alone_is_a_change_for_those_that_have_one() {
    let mut step = limited("star", (48, 3));
    step.should_ask = step.asks;
    let has = |form: Form| text(form, std::slice::from_ref(&step)).contains("star");
    assert!(has(Form::Nextflow) && has(Form::Snakemake) && has(Form::Slurm));
    assert!(!has(Form::Batch) && !has(Form::Terraform));
}

#[test]
fn snakemake_text() {
    let steps = [limited("star", (8, 2)), step(HOSTILE)];
    insta::assert_snapshot!(text(Form::Snakemake, &steps));
}

#[test]
fn a_profile_for_snakemake_7_has_numbers_only() {
    let options = TextOptions {
        numbers_only: true,
        retry: RetryPolicy::Replaced,
    };
    let written = Form::Snakemake.write(&[limited("star", (8, 2))], options);
    let values = written.lines().filter(|line| !line.starts_with('#'));
    let values: Vec<&str> = values.collect();
    let expect = [
        "set-threads:",
        "  \"star\": 3",
        "set-resources:",
        "  \"star\":",
        "    mem_mb: 5101",
        "    runtime: 120",
    ];
    assert_eq!(values, expect, "{written}");
}

#[test]
fn slurm_text() {
    let mut of_jobs = step("RNASEQ_STAR");
    of_jobs.name_form = NameForm::NextflowJob;
    let steps = [limited("align", (48, 27)), step(HOSTILE), of_jobs];
    let written = text(Form::Slurm, &steps);
    // A name is in its own comment line: no line of it is an option.
    let options = written.lines().filter(|line| line.starts_with("#SBATCH"));
    let known = ["--cpus-per-task=", "--mem=", "--time="];
    for option in options {
        let value = option.trim_start_matches("#SBATCH ");
        assert!(known.iter().any(|name| value.starts_with(name)), "{option}");
    }
    insta::assert_snapshot!(written);
}

#[test]
fn fewer_cores_of_a_slurm_job_keep_its_memory() {
    let mut job = step("align");
    job.should_ask.memory = job.asks.memory;
    let written = text(Form::Slurm, &[job]);
    assert!(written.contains("\n#SBATCH --mem=57344M\n"), "{written}");
    assert!(!written.contains("runs out of memory"), "{written}");
}

#[test]
fn snakemake_counts_memory_of_slurm_jobs_in_mebibytes() {
    let mut job = step("align");
    job.kind = StepKind::SlurmJob;
    let written = text(Form::Snakemake, &[job]);
    assert!(written.contains("mem_mb: \"[4864, "), "{written}");
}

#[test]
fn terraform_text() {
    insta::assert_snapshot!(text(
        Form::Terraform,
        &[
            step("arn:aws:batch:us-east-1:1:job-definition/star:7"),
            step(HOSTILE)
        ]
    ));
}

#[test]
fn batch_text() {
    let mut elsewhere = step("star");
    elsewhere.region = Region::new("eu-west-1").ok();
    elsewhere.account = AccountId::new("111122223333").ok();
    elsewhere.should_ask.cores = None;
    let arn = step("arn:aws:batch:us-east-1:1:job-definition/star:7");
    let steps = [step("star"), arn, elsewhere, step(HOSTILE)];
    insta::assert_snapshot!(text(Form::Batch, &steps));
}

#[test]
fn processes_and_rules_of_engines_are_no_job_definitions() {
    let mut process = step("align");
    process.kind = StepKind::NextflowTask;
    let written = text(Form::Batch, &[process]);
    let expect = "# Skipped, because it is not the name of a job definition: align\n";
    assert_eq!(written, expect);
}

#[test]
fn steps_that_need_no_change_are_in_no_text() {
    let mut well = step("well");
    well.should_ask = well.asks;
    for form in Form::ALL {
        let text = text(form, &[well.clone()]);
        let nothing = match form {
            _ if form.is_json() => "[]",
            Form::TerraformGroup => "# No instance type is recommended.",
            _ => "No request needs a change.",
        };
        assert!(text.trim_end().ends_with(nothing), "{text}");
    }
}

#[test]
fn made_up_runs_are_labelled() {
    let mut made_up = step("star");
    made_up.origin = Origin::Simulated;
    made_up.offers = offers(&["c7a.xlarge"]);
    for form in Form::ALL {
        let text = text(form, &[made_up.clone()]);
        assert!(text.to_lowercase().contains("simulated"), "{text}");
    }
}

#[test]
fn of_regions_and_accounts_the_one_that_needs_more_memory_counts() {
    let mut more = step("star");
    more.account = AccountId::new("000000000001").ok();
    more.should_ask.memory = Some(Bytes::mib(9_000));
    let all = [step("star"), more.clone()];
    let written = text(Form::Nextflow, &all);
    assert_eq!(written.matches("withName").count(), 1);
    assert!(written.contains("9000.MB"));
    // A step keeps the memory that it needs, even if another step of the same name needs less.
    more.asks = more.should_ask;
    let written = text(Form::Nextflow, &[step("star"), more]);
    assert_eq!(written.matches("withName").count(), 0, "{written}");
}

/// Two steps that ran on Intel; one of them could run on Arm.
fn two_kinds() -> [StepAdvice; 2] {
    let mut x86 = step("align");
    x86.machines = vec![InstanceType::new("m5.4xlarge").expect("a type")];
    x86.offers = offers(&["c7a.xlarge", "m7i.xlarge"]);
    let mut both = step("sort");
    both.machines.clone_from(&x86.machines);
    both.offers = offers(&["c7g.xlarge", "m7i.xlarge"]);
    [x86, both]
}

#[test]
fn machines_of_one_architecture_are_offered_together_the_best_of_each_step_first() {
    insta::assert_snapshot!(text(Form::BatchEnvironment, &two_kinds()));
    insta::assert_snapshot!(text(Form::LaunchTemplate, &two_kinds()));
    insta::assert_snapshot!(text(Form::AutoScalingGroup, &two_kinds()[..1]));
}

#[test]
fn each_type_holds_the_largest_step_that_runs_there() {
    let sized = |name: &str, cores: u64, gib: u64, types: &[&str]| {
        let mut step = step(name);
        step.should_ask.cores = Some(MilliCores::cores(cores));
        step.should_ask.memory = Some(Bytes::gib(gib));
        step.offers = offers(types);
        step
    };
    let check = |steps: &[StepAdvice], expect: &[&[&str]]| {
        let documents = Form::BatchEnvironment.documents(steps).expect("it is JSON");
        let types: Vec<Vec<String>> = documents
            .iter()
            .map(|one| {
                let types = one.value["computeResources"]["instanceTypes"].clone();
                serde_json::from_value(types).expect("names")
            })
            .collect();
        assert_eq!(types, expect);
    };
    let small = || sized("small", 2, 3, &["c6a.large", "c7i.large", "m7i.4xlarge"]);
    check(&[small()], &[&["c6a.large", "c7i.large", "m7i.4xlarge"]]);
    // A group whose steps need 16 vCPU was once offered a c6a.large.
    let large = || sized("large", 16, 50, &["m6a.4xlarge", "m7i.4xlarge"]);
    check(&[small(), large()], &[&["m6a.4xlarge", "m7i.4xlarge"]]);
    // The memory that the system reserves from 64 GiB does not leave 63.
    let nearly = sized("nearly", 16, 63, &["m6a.4xlarge", "r6a.4xlarge"]);
    check(&[nearly, small()], &[&["r6a.4xlarge"]]);
    // No offered type is large enough for both, so they get separate pools.
    let of_memory = sized("of memory", 2, 100, &["r6a.4xlarge"]);
    let of_cores = sized("of cores", 48, 60, &["c6a.12xlarge"]);
    check(
        &[of_memory, of_cores, small()],
        &[&["c6a.12xlarge"], &["r6a.4xlarge"]],
    );
}

#[test]
fn a_type_that_came_after_the_program_is_offered_where_its_size_was_told() {
    let check = |vcpus: Option<u32>, expect: bool| {
        let mut one = step("align");
        one.offers = offers(&["x99.large"]);
        let offer = &mut one.offers.best[0];
        offer.architecture = Some(Architecture::Arm64);
        (offer.vcpus, offer.memory) = (vcpus, Some(Bytes::gib(64)));
        let text = text(Form::BatchEnvironment, &[one]);
        assert_eq!(text.contains("x99.large"), expect, "{text}");
    };
    check(Some(4), true);
    check(Some(2), false);
    check(None, false);
}

#[test]
fn terraform_text_of_machines() {
    insta::assert_snapshot!(text(Form::Terraform, &two_kinds()[..1]));
    insta::assert_snapshot!(text(Form::TerraformGroup, &two_kinds()[1..]));
}

#[test]
fn forms_are_found_by_their_names() {
    for form in Form::ALL {
        assert_eq!(Form::from_slug(form.slug()), Some(form));
    }
    assert_eq!(Form::from_slug("cobol"), None);
}

const SPOT: [&str; 3] = ["c6a.xlarge", "c6i.xlarge", "m6a.xlarge"];

#[test]
fn spot_is_offered_where_it_is_cheaper_for_a_step() {
    let mut step = step("align");
    step.offers = offers(&["c7a.xlarge"]);
    step.offers.spot = offers(&SPOT).best;
    for offer in &mut step.offers.spot {
        offer.market = Market::Spot;
    }
    let check = |form: Form, expect: &str| {
        let text = text(form, std::slice::from_ref(&step));
        assert!(text.contains(expect) && !text.contains("c7a"), "{text}");
    };
    check(Form::BatchEnvironment, "\"SPOT_PRICE_CAPACITY_OPTIMIZED\"");
    check(Form::AutoScalingGroup, "\"price-capacity-optimized\"");
    check(Form::Terraform, "type = \"SPOT\"");
    check(Form::TerraformGroup, "above_base_capacity = 0");
}

#[test]
fn a_step_on_spot_is_not_moved_from_it() {
    let mut step = step("align");
    step.offers = offers(&["c7a.xlarge"]);
    step.offers.now = offers(&["m5.4xlarge"]).best.pop();
    assert!(text(Form::BatchEnvironment, &[step.clone()]).contains("c7a.xlarge"));
    if let Some(now) = &mut step.offers.now {
        now.market = Market::Spot;
    }
    assert_eq!(text(Form::BatchEnvironment, &[step]), "[]\n");
}

/// A group that saves money with these types, with the present market.
fn group(types: &[&str], market: Market) -> GroupAdvice {
    let fleet = |name: &&str| Fleet {
        instance_type: InstanceType::new(name).expect("a type"),
        architecture: None,
        market,
        per_hour: UsdPerHour::from_micros(100_000),
        machine_time: Duration::from_secs(3_600),
        machines: 1,
        usd: Usd::from_micros(100_000),
        basis: None,
        together: Vec::new(),
    };
    let fleets: Vec<Fleet> = types.iter().map(fleet).collect();
    let (offers, spot) = match market {
        Market::Spot => (Vec::new(), fleets),
        Market::OnDemand | Market::Reserved => (fleets, Vec::new()),
    };
    GroupAdvice {
        list_as_of: None,
        name: "align".to_owned(),
        region: Region::new("us-east-1").expect("a region"),
        account: None,
        owner: None,
        origin: Origin::Measured,
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::UNIX_EPOCH,
        runs: 20,
        steps: Vec::new(),
        allowed: vec!["m5".to_owned()],
        allocation: Some("BEST_FIT_PROGRESSIVE".to_owned()),
        now: Some(fleet(&"m5.4xlarge")),
        resized: None,
        offers,
        spot,
        spot_score: None,
        saving_a_month: Some(Usd::from_micros(1_000_000)),
        seen_by_replayed_ppm: Some(1_000_000),
        confidence: Level::Medium,
        assumed: Vec::new(),
        refused: None,
    }
}

#[test]
fn all_forms_for_one_environment_agree() {
    let check = |market: Market, expect: [&str; 4]| {
        // An Arm type cannot be mixed with the others.
        let types = ["m6a.4xlarge", "m7g.4xlarge", "m7i.4xlarge", "m7a.4xlarge"];
        let group = group(&types, market);
        // Its steps have their own machine types, which the environment does not use.
        let mut member = step("align");
        member.offers = offers(&["c6a.xlarge"]);
        let forms = [
            Form::BatchEnvironment,
            Form::AutoScalingGroup,
            Form::Terraform,
            Form::TerraformGroup,
            Form::LaunchTemplate,
        ];
        for (at, form) in forms.into_iter().enumerate() {
            let subject = GroupSubject::Environment(&group);
            let members = std::slice::from_ref(&member);
            let written = form.write_group(subject, members, TextOptions::default());
            let written = written.expect("there is advice");
            let named = |name: &&&str| written.contains(**name);
            let found: Vec<&&str> = types.iter().filter(named).collect();
            let all = [&"m6a.4xlarge", &"m7i.4xlarge", &"m7a.4xlarge"];
            let expected = if at < 4 { &all[..] } else { &all[..1] };
            assert_eq!(found, expected, "{written}");
            assert!(!written.contains("c6a.xlarge"), "{written}");
            if let Some(expect) = expect.get(at) {
                assert!(written.contains(expect), "{written}");
            }
        }
    };
    check(
        Market::OnDemand,
        [
            "BEST_FIT_PROGRESSIVE",
            "\"OnDemandPercentageAboveBaseCapacity\": 100",
            "type = \"EC2\"",
            "on_demand_percentage_above_base_capacity = 100",
        ],
    );
    check(
        Market::Spot,
        [
            "SPOT_PRICE_CAPACITY_OPTIMIZED",
            "\"OnDemandPercentageAboveBaseCapacity\": 0",
            "type = \"SPOT\"",
            "on_demand_percentage_above_base_capacity = 0",
        ],
    );
}

#[test]
fn why_no_machines_are_advised_is_said() {
    let check = |change: fn(&mut GroupAdvice), expect: Option<NoAdvice>| {
        let mut group = group(
            &["m6a.4xlarge", "m7i.4xlarge", "m7a.4xlarge"],
            Market::OnDemand,
        );
        change(&mut group);
        assert_eq!(environment_update(&group).err(), expect);
    };
    check(|_| (), None);
    let nothing = Some(NoAdvice::NothingCheaper);
    check(|group| group.saving_a_month = Some(Usd::ZERO), nothing);
    check(
        |group| group.allocation = Some("BEST_FIT".to_owned()),
        Some(NoAdvice::BestFit),
    );
    // It runs on spot, and only on-demand prices are known.
    check(
        |group| {
            if let Some(now) = &mut group.now {
                now.market = Market::Spot;
            }
            group.refused = Some("its machines are spot".to_owned());
        },
        Some(NoAdvice::Refused("its machines are spot".to_owned())),
    );
}
