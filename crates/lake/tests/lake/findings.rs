//! Findings come back whole, and finding nothing is an answer.

use std::time::Duration;

use ebb_lake::{Appended, EvaluatedFinding};
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::{IdleNode, SeenBy};
use ebb_model::finding::{Action, Finding, Remedy, Resource};
use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::identity::Region;
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::Window;
use ebb_telemetry::units::Share;

use crate::local::{batch, lake};
use crate::sample::{EVENING_NS, at};

pub(crate) fn evaluated_finding(resource: &str, cost: Option<Cost>) -> EvaluatedFinding {
    let region = Region::new("eu-central-1").expect("a name");
    let finding = Finding {
        id: Finding::id_of(FindingKind::IdleNode, &region, resource),
        kind: FindingKind::IdleNode,
        resource: Resource {
            tags: Default::default(),
            id: resource.to_owned(),
            name: None,
            region,
            account: None,
            node: None,
            owner: Some("ada".to_owned()),
            instance_type: None,
            market: None,
            controller: None,
            origin: Origin::Simulated,
        },
        window: Window {
            from: at(EVENING_NS - 3_600_000_000_001),
            to: at(EVENING_NS),
        },
        coverage: Some(Share::from_ppm(990_001)),
        evidence: Evidence::IdleNode(IdleNode {
            idle_for: Duration::from_nanos(3_600_000_000_001),
            is_longer: false,
            never_active: None,
            background_cores: None,
            kept_alive_by: None,
            seen_by: SeenBy::Probe,
        }),
        confidence: Confidence {
            level: Level::High,
            reason: "the probe saw it".to_owned(),
        },
        cost,
        remedy: Remedy {
            action: Action::Stop,
            advice: "Stop it.".to_owned(),
            command: None,
        },
        recommendation: None,
        steps: Vec::new(),
    };
    EvaluatedFinding {
        at: at(EVENING_NS),
        finding,
    }
}

#[tokio::test]
async fn the_newest_sweep_answers_also_when_it_found_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let lake = lake(&folder).await;
    let cost = Cost {
        per_hour: UsdPerHour::from_micros(192_000),
        basis: PriceBasis::ListPrice,
        list_per_hour: None,
        spent: Usd::from_micros(0),
        saving_a_month: Usd::from_micros(140_160_000),
        counted: None,
        price_as_of: None,
        list_as_of: None,
    };
    let sweeps = [
        vec![
            evaluated_finding("i-1", Some(cost)),
            evaluated_finding("i-2", None),
        ],
        vec![evaluated_finding("i-2", None)],
        Vec::new(),
    ];
    for (number, found) in (1..).zip(sweeps) {
        let appended = lake.append_findings(&found, &batch(number)).await;
        assert_eq!(appended.expect("appends"), Appended::Committed(number));
        let latest = lake.findings_latest().await.expect("reads");
        assert_eq!(latest, Some(found), "sweep {number}");
    }
}
