//! Compute services on which no probe can run and which Ebb does not query. The rule lists their
//! billed cost as not evaluated, so that a missing finding is not a good result. This cost is
//! neither waste nor a saving.

use std::collections::BTreeMap;

use ebb_model::finding_kind::FindingKind;
use ebb_telemetry::money::Usd;

use crate::facts::Facts;
use crate::rules::verdict::Verdict;

/// Names of these services on bills, without the name of the cloud. Fargate is billed as Elastic
/// Container Service. EMR Serverless and the EMR fee on top of its machines are billed as Elastic
/// MapReduce. Work on machines of the inventory (Batch, EKS, Dataproc) is evaluated there.
///
/// Source: Cost Explorer's dimension `SERVICE`, and `service.description` of Google's billing
/// export; HealthOmics was called Omics.
const SERVICES: [&str; 15] = [
    "App Runner",
    "Cloud Build",
    "Cloud Dataflow",
    "Cloud Functions",
    "Cloud Run",
    "Cloud Run Functions",
    "CodeBuild",
    "Elastic Container Service",
    "Elastic MapReduce",
    "Glue",
    "HealthOmics",
    "Lambda",
    "Omics",
    "SageMaker",
    "Vertex AI",
];

/// Minimum reported cost: half a cent.
const LEAST: Usd = Usd::from_micros(5_000);

/// Reports each such service with a cost.
pub(crate) fn evaluate(facts: &Facts<'_>) -> Vec<Verdict> {
    let mut spent: BTreeMap<&str, Usd> = BTreeMap::new();
    for (service, usd) in facts.billed.iter().flat_map(|day| &day.by_service) {
        let own_name = ["Amazon ", "AWS "]
            .iter()
            .find_map(|cloud| service.strip_prefix(cloud))
            .unwrap_or(service);
        if SERVICES.contains(&own_name) {
            let sum = spent.entry(service).or_default();
            *sum = *sum + *usd;
        }
    }
    let open = facts.billed.iter().filter(|day| day.estimated).count();
    let open = match open {
        0 => String::new(),
        open => format!(" ({open} of them estimated)"),
    };
    let days = facts.billed.len();
    let paid_for = spent.into_iter().filter(|(_, usd)| *usd >= LEAST);
    paid_for
        .map(|(service, usd)| {
            let why =
                format!("{usd} in the last {days} days{open}; no probe can run on this service");
            Verdict::undetermined(FindingKind::IdleNode, service, None, why)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;
    use ebb_model::bill::BilledDay;

    /// A day with the cost of these services in cents.
    fn day(number: usize, services: &[(&str, i64)]) -> BilledDay {
        let services = services.iter();
        let by_service: BTreeMap<String, Usd> = services
            .map(|(name, cents)| ((*name).to_owned(), Usd::from_micros(cents * 10_000)))
            .collect();
        BilledDay {
            day: format!("2026-09-{number:02}"),
            total: by_service.values().copied().sum(),
            by_service,
            ..BilledDay::default()
        }
    }

    #[test]
    fn what_was_spent_where_no_probe_can_run_is_listed_and_is_neither_waste_nor_a_saving() {
        let check = |billed: Vec<BilledDay>, expect: &[(&str, &str)]| {
            let world = World {
                billed,
                ..World::default()
            };
            let report = world.evaluate();
            let reasons: Vec<_> = report
                .not_evaluated
                .iter()
                .map(|one| (one.resource.as_str(), one.reason.as_str()))
                .collect();
            assert_eq!(reasons, expect);
            assert!(report.findings.is_empty());
            assert_eq!(report.totals.saving_a_month, Usd::ZERO);
        };
        check(Vec::new(), &[]);
        let sage = ("Amazon SageMaker", 123_456);
        let stored = ("Amazon Simple Storage Service", 900);
        check(vec![day(1, &[stored])], &[]);
        check(
            vec![
                day(1, &[sage, stored]),
                day(2, &[sage, ("AWS HealthOmics", 150)]),
            ],
            &[
                (
                    "AWS HealthOmics",
                    "$1.50 in the last 2 days; no probe can run on this service",
                ),
                (
                    "Amazon SageMaker",
                    "$2,469.12 in the last 2 days; no probe can run on this service",
                ),
            ],
        );
        let open = BilledDay {
            estimated: true,
            ..day(2, &[("CodeBuild", 20), ("Vertex AI", 0)])
        };
        check(
            vec![day(1, &[("CodeBuild", 5)]), open],
            &[(
                "CodeBuild",
                "$0.25 in the last 2 days (1 of them estimated); no probe can run on this service",
            )],
        );
        // A credit covers the cost.
        check(
            vec![day(1, &[("AWS Glue", 50)]), day(2, &[("AWS Glue", -50)])],
            &[],
        );
    }
}
