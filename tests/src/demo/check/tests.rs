//! Findings compared with manifests.

use super::*;

fn world() -> World {
    serde_json::from_str(
        r#"{"seed": 1, "regions": ["us-east-1"], "probe_node": "i-0real", "nodes": [{
            "instance_id": "i-0real", "region": "us-east-1", "name": "n", "profile": "probe",
            "quiet_after_seconds": 0, "vcpus": 4, "memory_bytes": 1, "gpus": 0, "age_seconds": 9,
            "finished_steps": [], "credentials": null, "steps": [{
                "step_id": "t", "job_id": "job-1", "job_name": "demo-silent",
                "requested_memory_bytes": 1, "cpu_cores": null, "memory_bytes": null,
                "disk_bytes_per_second": null, "started_age_seconds": 9,
                "stopped_age_seconds": null, "exit_code": null}]}]}"#,
    )
    .expect("a world")
}

fn planted(kind: FindingKind, variant: Option<&str>, resource: &str) -> Planted {
    Planted {
        kind,
        variant: variant.map(str::to_owned),
        resource: resource.to_owned(),
    }
}

/// A report of idle nodes and hanging jobs by id, each measured or simulated.
fn report(idle: &[(&str, &str)], hanging: &[(&str, &str)]) -> Report {
    let finding = |kind: &str, id: &str, origin: &str, evidence: &str| {
        format!(
            r#"{{"id": "{kind}/us-east-1/{id}", "kind": "{kind}",
            "resource": {{"id": "{id}", "name": null, "region": "us-east-1", "node": null,
                "owner": null, "instance_type": null, "market": null, "controller": null,
                "origin": "{origin}"}},
            "window": {{"from": "2026-09-20T10:00:00Z", "to": "2026-09-20T11:00:00Z"}},
            "coverage": null, "evidence": {evidence},
            "confidence": {{"level": "high", "reason": ""}}, "cost": null,
            "remedy": {{"action": "Stop", "advice": "", "command": null}},
            "recommendation": null}}"#
        )
    };
    let time = r#"{"secs": 60, "nanos": 0}"#;
    let idle = idle.iter().map(|(id, origin)| {
        let evidence = format!(
            r#"{{"type": "idle_node", "idle_for": {time}, "never_active": null,
            "background_cores": null, "kept_alive_by": null, "seen_by": "probe"}}"#
        );
        finding("idle_node", id, origin, &evidence)
    });
    let hanging = hanging.iter().map(|(id, origin)| {
        let evidence = format!(
            r#"{{"type": "stuck_job", "job": "j", "status": null, "stuck_for": {time},
            "stuck": {{"how": "no_progress", "cpu": 0, "processes": 1}}}}"#
        );
        finding("stuck_batch_job", id, origin, &evidence)
    });
    let findings: Vec<String> = idle.chain(hanging).collect();
    let json = format!(
        r#"{{"schema": "{}", "at": "2026-09-20T11:00:00Z", "origin": "simulated",
        "findings": [{}], "not_evaluated": [], "gaps": [], "totals": {{"running_instances": 1,
        "with_probe": 1, "on_metrics": 0, "jobs": 1, "waste_per_hour": 0, "spent": 0,
        "saving_a_month": 0, "without_price": 0, "price_bases": []}}}}"#,
        Report::SCHEMA,
        findings.join(","),
    );
    serde_json::from_str(&json).expect("a report")
}

#[test]
fn only_the_findings_that_were_planted_are_good() {
    let idle = || planted(FindingKind::IdleNode, None, "i-1");
    let hanging = || planted(FindingKind::StuckBatchJob, Some("no_progress"), "job-1");
    let check =
        |report: &Report, planted: &[Planted], probe, expect: (usize, usize, usize, usize)| {
            let verdict = Verdict::new(report, planted, &world(), probe);
            let Verdict {
                found,
                missing,
                extra,
                skipped,
                ..
            } = &verdict;
            let got = (found.len(), missing.len(), extra.len(), skipped.len());
            assert_eq!(got, expect);
            assert_eq!(verdict.is_good(), missing.len() + extra.len() == 0);
        };
    let both = report(&[("i-1", "simulated")], &[("job-1", "measured")]);
    let one = report(&[("i-1", "simulated")], &[]);
    let none = report(&[], &[]);
    use RealProbe::{Ran, Skipped};
    check(&both, &[idle(), hanging()], Ran, (2, 0, 0, 0));
    check(&none, &[], Ran, (0, 0, 0, 0));
    check(&one, &[idle(), hanging()], Ran, (1, 1, 0, 0));
    check(&both, &[idle()], Ran, (1, 0, 1, 0));
    check(&one, &[idle(), hanging()], Skipped, (1, 0, 0, 1));
    // A skipped waste that is found anyway counts as extra.
    check(&both, &[idle(), hanging()], Skipped, (1, 0, 1, 1));
    let otherwise = planted(
        FindingKind::StuckBatchJob,
        Some("runnable_blocked"),
        "job-1",
    );
    check(&both, &[idle(), otherwise], Ran, (1, 1, 1, 0));
}

#[test]
fn only_what_the_real_probe_saw_may_be_called_measured() {
    let check = |report: &Report, expect: &[&str]| {
        let verdict = Verdict::new(report, &[], &world(), RealProbe::Ran);
        assert_eq!(verdict.mislabelled, expect);
    };
    check(
        &report(&[("i-1", "simulated")], &[("job-1", "measured")]),
        &[],
    );
    check(
        &report(&[("i-1", "measured")], &[]),
        &["idle_node/us-east-1/i-1"],
    );
    let hidden = report(&[], &[("job-1", "simulated")]);
    check(&hidden, &["stuck_batch_job/us-east-1/job-1"]);
}
