//! A report with 10,000 steps, as a large deployment would have, and questions about it.
//! Written as a program reads it, so that a field more is no change here.

use ebb_model::report::Report;
use serde_json::{Value, json};

pub(crate) const STEPS: u32 = 10_000;
const NODES: u32 = 2_000;
/// One step in five asks for far too much.
const FINDING_EVERY: u32 = 5;

const REGIONS: [&str; 3] = ["us-east-1", "eu-central-1", "ap-southeast-2"];
const AT: &str = "2026-01-01T00:00:00Z";

pub(crate) fn report() -> Report {
    let wasteful = (0..STEPS).filter(|n| n % FINDING_EVERY == 0);
    let value = json!({
        "schema": Report::SCHEMA,
        "at": AT,
        "origin": "simulated",
        "findings": wasteful.map(finding).collect::<Vec<_>>(),
        "not_evaluated": [],
        "gaps": [],
        "totals": {
            "running_instances": NODES, "with_probe": NODES, "on_metrics": 0, "jobs": 0,
            "waste_per_hour": 0, "spent": 0, "saving_a_month": 0, "without_price": 0,
            "price_bases": [],
        },
        "steps": (0..STEPS).map(step).collect::<Vec<_>>(),
        "nodes": (0..NODES).map(node).collect::<Vec<_>>(),
    });
    serde_json::from_value(value).expect("a report")
}

/// Questions as people and programs ask them, over all that the API has.
pub(crate) fn target(n: u32) -> String {
    let step = n * 2_371 % STEPS / FINDING_EVERY * FINDING_EVERY;
    let (name, region) = (name(step), region(step));
    match n % 8 {
        0 => format!("/v1/steps/{name}/recommendation?region={region}"),
        1 => "/v1/findings".to_owned(),
        2 => format!("/v1/recommendations?owner=team-{}", n % 12),
        3 => format!("/v1/steps?after={region}/{name}"),
        4 => "/v1/nodes?region=us-east-1".to_owned(),
        5 => "/v1/prices?family=c7a&region=eu-central-1".to_owned(),
        6 => format!("/v1/texts/nextflow?step={name}"),
        _ => "/v1/steps?region=eu-central-1".to_owned(),
    }
}

fn name(n: u32) -> String {
    format!("NFCORE_PIPELINE_{}:SUBWORKFLOW:STEP_{n}", n % 40)
}

fn region(n: u32) -> &'static str {
    REGIONS[(n % 3) as usize]
}

fn id(n: u32) -> String {
    format!("overprovisioned_step/{}/{}", region(n), name(n))
}

fn request(cores: u32, mib: u64) -> Value {
    json!({"cores": cores * 1000, "memory": mib << 20})
}

fn risk() -> Value {
    json!({
        "oom_ppm": 8_300, "samples_needed": 0,
        "attempts": [7_424_u64 << 20, 11_264_u64 << 20],
    })
}

fn offers(n: u32) -> Value {
    let offered = |name| {
        json!({
            "instance_type": name, "region": region(n), "per_hour": 153_000,
            "wall": {"secs": 60 + n, "nanos": 0}, "usd_a_run": 37_800,
            "runs_a_machine": 1 + n % 8, "held_up_by": "work", "basis": "published",
        })
    };
    let best = ["c6a.xlarge", "c7i.xlarge", "m7a.xlarge"].map(offered);
    json!({
        "best": best,
        "left_out": {"memory": 120, "cores": 80, "architecture": 300},
    })
}

fn step(n: u32) -> Value {
    json!({
        "step": name(n), "region": region(n), "kind": "nextflow_task",
        "owner": format!("team-{}", n % 12), "origin": "simulated", "last_seen": AT,
        "runs": 64, "samples": 60, "failed": 4, "oom_kills": n % 3,
        "mean_wall": {"secs": n, "nanos": 0},
        "machines": ["m5.4xlarge", "r5.2xlarge"],
        "asks": request(16, 57_344),
        "should_ask": request(3, 4_864 + u64::from(n)),
        "risk": risk(),
        "bound": {
            "by": "compute", "computing": 930_000, "waiting": 70_000, "disk": 30_000,
            "cores_used": 190_000, "memory_used": 80_000, "underused": ["cores", "memory"],
        },
        "offers": offers(n),
        "saving_a_month": i64::from(STEPS - n) * 10_000,
        "finding": n.is_multiple_of(FINDING_EVERY).then(|| id(n)),
    })
}

fn finding(n: u32) -> Value {
    json!({
        "id": id(n), "kind": "overprovisioned_step",
        "resource": {
            "id": name(n), "name": format!("STEP_{n}"), "region": region(n), "node": null,
            "owner": format!("team-{}", n % 12), "instance_type": "m5.4xlarge",
            "market": "on_demand", "controller": null, "origin": "simulated",
        },
        "window": {"from": AT, "to": AT},
        "coverage": null,
        "evidence": {
            "type": "overprovisioned",
            "requested": request(16, 57_344), "peak_cores": 2_700, "mean_cores": 1_900,
            "peak_memory": null, "samples": 60, "observed_for": {"secs": 360_000, "nanos": 0},
        },
        "confidence": {"level": "high", "reason": "60 runs were seen by the probe"},
        "cost": {
            "per_hour": 534_000, "basis": "list_price", "list_per_hour": 534_000,
            "spent": 53_400_000, "saving_a_month": 389_820_000,
        },
        "remedy": {
            "action": "Rightsize", "command": null,
            "advice": "Ask for 3 vCPU and 4.8 GiB: no run needed more.",
        },
        "recommendation": {
            "current": request(16, 57_344), "recommended": request(3, 4_864), "samples": 60,
            "placement": null, "risk": risk(), "offers": offers(n),
            "current_per_hour": 768_000, "recommended_per_hour": 153_000,
            "assumptions": ["later runs are like those seen"],
        },
    })
}

fn node(n: u32) -> Value {
    json!({
        "id": format!("i-{n:017x}"), "name": format!("worker-{n}"), "region": region(n),
        "instance_type": "m5.4xlarge", "market": "on_demand", "state": "running",
        "owner": format!("team-{}", n % 12), "controller": null, "origin": "simulated",
        "heard_at": AT, "per_hour": 768_000, "basis": "list_price", "findings": [],
    })
}
