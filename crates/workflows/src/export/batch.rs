//! AWS Batch: input of `aws batch register-job-definition --cli-input-json`.

use ebb_domain::heartbeat::Origin;
use ebb_domain::profile::advice::StepAdvice;
use serde_json::{Map, Value, json};

use super::{Ask, IMAGE, asks, mib, one_or_all, plain_name};

/// One job definition, or a list of them where several steps are to change.
pub(super) fn batch(steps: &[StepAdvice]) -> String {
    one_or_all(asks(steps).iter().map(definition).collect())
}

fn definition(ask: &Ask<'_>) -> Value {
    let cores = ask.cores.or_else(|| ask.now.cores.map(super::whole));
    let memory = ask.sizes.first().copied().or(ask.now.memory).map(mib);
    let requirement =
        |kind: &str, value: Option<u64>| Some(json!({"type": kind, "value": value?.to_string()}));
    let requirements = [requirement("VCPU", cores), requirement("MEMORY", memory)];
    let requirements: Vec<Value> = requirements.into_iter().flatten().collect();
    let mut all = Map::new();
    all.insert("jobDefinitionName".into(), plain_name(ask.name).into());
    all.insert("type".into(), "container".into());
    all.insert(
        "containerProperties".into(),
        json!({"image": IMAGE, "resourceRequirements": requirements}),
    );
    // Batch asks for the same again at each attempt, so a retry helps only where
    // the machine was lost.
    all.insert(
        "retryStrategy".into(),
        json!({
            "attempts": 3,
            "evaluateOnExit": [
                {"onStatusReason": "Host EC2*", "action": "RETRY"},
                {"onReason": "*", "action": "EXIT"},
            ],
        }),
    );
    if ask.origin == Origin::Simulated {
        all.insert("tags".into(), json!({"ebb:simulated": "true"}));
    }
    Value::Object(all)
}
