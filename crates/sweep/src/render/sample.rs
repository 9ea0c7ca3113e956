//! Reports made by hand for tests.

use std::time::Duration;

use ebb_domain::finding::{
    Action, Confidence, Cost, Evidence, Finding, FindingKind, IdleNode, KeptAliveBy, Level,
    Overprovisioned, PriceBasis, Recommendation, Remedy, Resource, SeenBy, Stuck, StuckJob, Window,
};
use ebb_domain::fleet::{Controller, Gap, JobStatus, Market};
use ebb_domain::heartbeat::Origin;
use ebb_domain::identity::{InstanceType, Region};
use ebb_domain::life::History;
use ebb_domain::placement::Placement;
use ebb_domain::profile::place::Offers;
use ebb_domain::report::{NotJudged, Report, Totals};
use ebb_domain::sizing::{Risk, SizedRequest};
use ebb_domain::step::{MemorySource, PeakMemory, Requested};
use ebb_domain::timeline::Timeline;
use ebb_domain::units::{Bytes, CpuTime, MilliCores, Share, UsdPerHour};
use jiff::Timestamp;

pub(crate) fn empty() -> Report {
    report(Vec::new(), Vec::new())
}

pub(crate) fn small() -> Report {
    let mut report = report(
        vec![idle(), overprovisioned(), stuck()],
        vec![
            not_judged(
                "i-0ccc",
                Some("db-1"),
                "coverage 41 %, at least 95 % is needed",
            ),
            not_judged("i-0ddd", None, "coverage 41 %, at least 95 % is needed"),
            not_judged("i-0eee", Some("spare"), "tagged ebb:standby=true"),
        ],
    );
    report.gaps.push(Gap {
        scope: "us-east-1: batch:DescribeJobs".to_owned(),
        reason: "AccessDenied: not authorized".to_owned(),
    });
    report
}

/// Everything that comes from outside tries to leave its place.
pub(super) fn hostile() -> Report {
    let evil = "<script>alert(1)</script> *bold* `x` &amp; \"q\"\nsecond line\x1b[31m =cmd()";
    let mut finding = stuck();
    finding.id = format!("=cmd()/{evil}");
    finding.resource.id = evil.to_owned();
    finding.resource.name = Some("=cmd()|'/C calc'!A0".to_owned());
    finding.resource.owner = Some(evil.to_owned());
    finding.resource.node = Some(evil.to_owned());
    finding.resource.controller = Some(Controller::BatchEnvironment(evil.to_owned()));
    finding.confidence.reason = evil.to_owned();
    finding.remedy.advice = evil.to_owned();
    finding.remedy.command = Some(evil.to_owned());
    finding.evidence = Evidence::StuckJob(StuckJob {
        job: Some(evil.to_owned()),
        status: Some(JobStatus::Runnable),
        stuck_for: None,
        stuck: Stuck::Blocked {
            reason: evil.to_owned(),
        },
    });
    let mut report = report(vec![finding], vec![not_judged(evil, Some(evil), evil)]);
    report.gaps.push(Gap {
        scope: evil.to_owned(),
        reason: evil.to_owned(),
    });
    report
}

pub(super) fn many(n: usize) -> Report {
    let findings = (0..n).map(|i| {
        let mut finding = idle();
        finding.resource.id = format!("i-{i:017x}");
        finding.resource.name = Some(format!("a-rather-long-name-of-a-machine-{i}"));
        finding.resource.owner = Some(format!("owner-with-a-long-name-{}", i % 40));
        finding.id = Finding::id_of(finding.kind, &region(), &finding.resource.id);
        finding
    });
    let skipped = (0..n).map(|i| not_judged(&format!("i-{i}"), None, "too young"));
    report(findings.collect(), skipped.collect())
}

fn report(findings: Vec<Finding>, not_judged: Vec<NotJudged>) -> Report {
    let costs = || findings.iter().filter_map(|f| f.cost.as_ref());
    let totals = Totals {
        running_instances: 12,
        with_probe: 8,
        on_metrics: 3,
        jobs: 6,
        waste_per_hour: UsdPerHour(costs().map(|c| c.per_hour.0).sum()),
        spent: costs().map(|c| c.spent).sum(),
        saving_a_month: costs().map(|c| c.saving_a_month).sum(),
        without_price: findings.len() - costs().count(),
        price_bases: Vec::new(),
    };
    Report {
        schema: Report::SCHEMA.to_owned(),
        at: at("2026-03-04T12:00:00Z"),
        origin: Origin::Simulated,
        findings,
        not_judged,
        gaps: Vec::new(),
        totals,
        steps: Vec::new(),
        steps_left_out: 0,
        nodes: Vec::new(),
        nodes_left_out: 0,
        timeline: Timeline::default(),
        history: History::default(),
    }
}

fn idle() -> Finding {
    let mut finding = base(FindingKind::IdleNode, "i-0aaa", "gpu-notebook");
    finding.resource.instance_type = InstanceType::new("g5.2xlarge").ok();
    finding.resource.market = Some(Market::OnDemand);
    finding.cost = Some(cost(1_212_000, PriceBasis::Bill));
    finding.evidence = Evidence::IdleNode(IdleNode {
        idle_for: Duration::from_secs(11_100),
        never_active: None,
        background_cores: Some(MilliCores(20)),
        kept_alive_by: Some(KeptAliveBy::QuietStep("session of ana".to_owned())),
        seen_by: SeenBy::Probe,
    });
    finding.remedy = Remedy {
        action: Action::Stop,
        advice: "Stop it; its volumes stay.".to_owned(),
        command: Some("aws ec2 stop-instances --region eu-central-1 --instance-ids i-0aaa".into()),
    };
    finding
}

fn stuck() -> Finding {
    let mut finding = base(FindingKind::StuckBatchJob, "job-17", "align-sample-17");
    finding.resource.node = Some("i-0bbb".to_owned());
    finding.resource.owner = None;
    finding.resource.origin = Origin::Measured;
    finding.coverage = None;
    finding.evidence = Evidence::StuckJob(StuckJob {
        job: Some("align-sample-17".to_owned()),
        status: Some(JobStatus::Running),
        stuck_for: Some(Duration::from_secs(2_520)),
        stuck: Stuck::NoProgress {
            cpu: CpuTime::from_millis(1_250),
            processes: 3,
        },
    });
    finding
}

fn overprovisioned() -> Finding {
    let mut finding = base(
        FindingKind::OverprovisionedStep,
        "variant-call",
        "variant-call",
    );
    finding.resource.name = None;
    finding.cost = Some(cost(384_000, PriceBasis::ListPriceAsUpperBound));
    let requested = Requested {
        cores: Some(MilliCores::cores(16)),
        memory: Some(Bytes::gib(64)),
    };
    finding.evidence = Evidence::Overprovisioned(Overprovisioned {
        requested,
        peak_cores: Some(MilliCores(2_100)),
        mean_cores: Some(MilliCores(1_400)),
        peak_memory: Some(PeakMemory {
            bytes: Bytes::mib(4_000),
            source: MemorySource::CgroupSampled,
        }),
        samples: 1,
        observed_for: Duration::from_secs(3_600),
    });
    finding.remedy.action = Action::Rightsize;
    finding.recommendation = Some(Recommendation {
        current: requested.into(),
        recommended: SizedRequest {
            cores: Some(MilliCores::cores(3)),
            memory: Some(Bytes::mib(4_864)),
        },
        samples: 1,
        placement: Some(Placement {
            instance_type: InstanceType::new("c6i.xlarge").expect("a type"),
            region: region(),
            per_hour: UsdPerHour::from_micros(194_000),
        }),
        current_per_hour: Some(UsdPerHour::from_micros(384_000)),
        recommended_per_hour: Some(UsdPerHour::from_micros(96_000)),
        risk: Risk::default(),
        offers: Offers::default(),
        assumptions: vec!["later runs are like the ones seen".to_owned()],
    });
    finding
}

fn base(kind: FindingKind, id: &str, name: &str) -> Finding {
    Finding {
        id: Finding::id_of(kind, &region(), id),
        kind,
        resource: Resource {
            id: id.to_owned(),
            name: Some(name.to_owned()),
            region: region(),
            node: None,
            owner: Some("ana".to_owned()),
            instance_type: None,
            market: None,
            controller: None,
            origin: Origin::Simulated,
        },
        window: Window {
            from: at("2026-03-04T08:55:00Z"),
            to: at("2026-03-04T12:00:00Z"),
        },
        coverage: Some(Share::from_ppm(990_000)),
        evidence: Evidence::StuckJob(StuckJob {
            job: None,
            status: None,
            stuck_for: None,
            stuck: Stuck::AgentDisconnected,
        }),
        confidence: Confidence {
            level: Level::High,
            reason: "seen by the probe".to_owned(),
        },
        cost: None,
        remedy: Remedy {
            action: Action::Investigate,
            advice: "Look at what it waits for.".to_owned(),
            command: None,
        },
        recommendation: None,
        steps: Vec::new(),
    }
}

fn cost(micros_an_hour: i64, basis: PriceBasis) -> Cost {
    let per_hour = UsdPerHour::from_micros(micros_an_hour);
    Cost {
        per_hour,
        basis,
        list_per_hour: Some(per_hour),
        spent: per_hour.over(Duration::from_secs(11_100)),
        saving_a_month: per_hour.a_month(),
    }
}

fn not_judged(resource: &str, name: Option<&str>, reason: &str) -> NotJudged {
    NotJudged {
        resource: resource.to_owned(),
        name: name.map(str::to_owned),
        rule: "idle_node".to_owned(),
        reason: reason.to_owned(),
    }
}

fn region() -> Region {
    Region::new("eu-central-1").expect("a region")
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}
