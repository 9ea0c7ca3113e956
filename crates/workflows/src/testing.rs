//! Steps and offers for tests.

use std::time::Duration;

use ebb_model::advice::bottleneck::Boundness;
use ebb_model::advice::offer::Offers;
use ebb_model::advice::sized_request::{Risk, SizedRequest};
use ebb_model::advice::step::{NameForm, StepAdvice};
use ebb_model::step_profile::tasks::PresentRequest;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::Usd;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::StepKind;
use ebb_telemetry::units::{Bytes, MilliCores};
use jiff::Timestamp;

/// A step that requests 16 vCPU and 56 GiB, and should request 3 vCPU and 4.75 GiB.
pub fn step(name: &str) -> StepAdvice {
    let request = |cores, mib| SizedRequest {
        cores: Some(MilliCores::cores(cores)),
        memory: Some(Bytes::mib(mib)),
    };
    StepAdvice {
        step: name.to_owned(),
        name_form: NameForm::Exact,
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
        mean_cores: Some(MilliCores(1_900)),
        peak_memory: Some(Bytes::mib(4_000)),
        peak_is_upper_bound: false,
        fullest: None,
        exhausted_memory: None,
        parallel_tasks: 1,
        attempts: 1,
        machines: Vec::new(),
        asks: request(16, 57_344),
        present: PresentRequest::default(),
        should_ask: request(3, 4_864),
        risk: Risk {
            oom_ppm: Some(8_300),
            attempts: vec![Bytes::mib(5_120), Bytes::mib(7_680)],
            samples_needed: 0,
            oom_between: None,
            basis: None,
        },
        slowdown_ppm: None,
        time_limit: None,
        self_sizing: None,
        failures: Vec::new(),
        usage: None,
        by_input: Vec::new(),
        on_fargate: None,
        bound: Boundness::default(),
        offers: Offers::default(),
        saving_a_month: Some(Usd::from_micros(12_000_000)),
        saving_at_most_a_month: None,
        finding: None,
    }
}

/// Recommended types of a step, the best first.
pub fn offers(types: &[&str]) -> Offers {
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

/// A name that no real step has; it tries to break out of strings.
pub const HOSTILE: &str = "x'}\"; ${rm}\n\\ \u{1b}[31m\u{202e}<é>";
