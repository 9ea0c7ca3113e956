//! Reports for tests, written by hand.

use std::time::Duration;

use ebb_model::advice::offer::Offers;
use ebb_model::advice::placement::Placement;
use ebb_model::advice::sized_request::{Risk, SizedRequest};
use ebb_model::confidence::{Confidence, Level};
use ebb_model::cost::{Cost, PriceBasis};
use ebb_model::decision::{Decision, Verb};
use ebb_model::finding::evidence::batch::{Stuck, StuckJob};
use ebb_model::finding::evidence::idle::{IdleNode, KeptAliveBy, SeenBy};
use ebb_model::finding::evidence::{Evidence, Overprovisioned};
use ebb_model::finding::{Action, Finding, Recommendation, Remedy, Resource, StepLink};
use ebb_model::finding_history::ending::Ending;
use ebb_model::finding_history::trend::Past;
use ebb_model::finding_history::{History, Resolved, Saved, SetAside, Stage, Standing};
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::{Controller, Market};
use ebb_model::report::cost_shares::{
    CostDay, CostDimension, CostName, CostShare, CostShares, CostSource, DayShare, RestKind,
};
use ebb_model::report::timeline::{NodeHours, Timeline};
use ebb_model::report::{NotEvaluated, Report, Totals};
use ebb_model::visibility_gap::Gap;
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use ebb_telemetry::money::{Usd, UsdPerHour};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{MemorySource, PeakMemory, Requested, StepId, StepKind};
use ebb_telemetry::time::Window;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

pub fn empty() -> Report {
    report(Vec::new(), Vec::new())
}

pub fn small() -> Report {
    let mut report = report(
        vec![idle(), overprovisioned(), stuck()],
        vec![
            not_evaluated(
                "i-0ccc",
                Some("db-1"),
                "coverage 41 %, at least 95 % is needed",
            ),
            not_evaluated("i-0ddd", None, "coverage 41 %, at least 95 % is needed"),
            not_evaluated("i-0eee", Some("spare"), "tagged ebb:standby=true"),
        ],
    );
    report.gaps.push(Gap::new(
        "us-east-1: batch:DescribeJobs",
        "AccessDenied: not authorized",
    ));
    report
}

/// A report whose external text tries to break out of its context.
pub fn hostile() -> Report {
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
    let mut report = report(vec![finding], vec![not_evaluated(evil, Some(evil), evil)]);
    report.gaps.push(Gap::new(evil.to_owned(), evil.to_owned()));
    report.costs = costs(evil);
    report
}

pub fn many(n: usize) -> Report {
    let findings = (0..n).map(|i| {
        let mut finding = idle();
        finding.resource.id = format!("i-{i:017x}");
        finding.resource.name = Some(format!("a-rather-long-name-of-a-machine-{i}"));
        finding.resource.owner = Some(format!("owner-with-a-long-name-{}", i % 40));
        finding.id = Finding::id_of(finding.kind, &region(), &finding.resource.id);
        finding
    });
    let skipped = (0..n).map(|i| not_evaluated(&format!("i-{i}"), None, "too young"));
    report(findings.collect(), skipped.collect())
}

/// A report with hostile names of 4 KB in every finding.
pub fn many_hostile(n: usize) -> Report {
    let mut report = many(n);
    let evil = "<script>alert('x')</script><!channel> *b* \u{202e}\u{1f4a5}\r\n\"";
    let evil = evil.repeat(4_096 / evil.len() + 1);
    for finding in &mut report.findings {
        finding.id.push_str(&evil);
        finding.resource.id.push_str(&evil);
        finding.resource.name = Some(evil.clone());
        finding.resource.owner = Some(evil.clone());
        finding.confidence.reason.clone_from(&evil);
        finding.remedy.advice.clone_from(&evil);
        finding.remedy.command = Some(evil.clone());
    }
    for one in &mut report.not_evaluated {
        one.reason = format!("{evil}{}", one.resource);
        one.name = Some(evil.clone());
    }
    report
}

/// A report of a deployment with sweeps over several days.
#[expect(clippy::too_many_lines, reason = "one value with all its fields")]
pub fn several_days() -> Report {
    let mut report = small();
    report.costs = costs("rnaseq");
    let past = |text: &str, dollars: i64, findings: usize| Past {
        at: at(text),
        findings,
        without_price: 0,
        saving_a_month: Usd::from_micros(dollars * 1_000_000),
        waste_per_hour: UsdPerHour::from_micros(0),
        running_instances: 12,
        with_probe: 8,
    };
    let gone = &report.findings[0];
    let history = &mut report.history;
    history.trend = vec![
        past("2026-03-02T12:00:00Z", 100, 4),
        past("2026-03-03T12:00:00Z", 50, 2),
        past("2026-03-04T12:00:00Z", 80, 3),
    ];
    for (n, finding) in report.findings.iter().enumerate() {
        let stage = if n == 0 { Stage::New } else { Stage::Ongoing };
        let first_seen = report.at;
        let standing = Standing { stage, first_seen };
        history.life.insert(finding.id.clone(), standing);
    }
    history.set_aside.push(SetAside {
        finding: gone.clone(),
        decision: Decision {
            verb: Verb::Snooze,
            reason: "a course".to_owned(),
            by: "ana".to_owned(),
            at: report.at,
            until: Some(at("2026-04-01T00:00:00Z")),
        },
    });
    history.saved_so_far = Usd::from_micros(12_000_000);
    history.resolved.push(Resolved {
        id: gone.id.clone(),
        kind: gone.kind,
        resource: gone.resource.id.clone(),
        name: gone.resource.name.clone(),
        owner: gone.resource.owner.clone(),
        region: gone.resource.region.to_string(),
        origin: gone.resource.origin,
        first_seen: report.at,
        resolved_at: report.at,
        ending: Ending::Stopped,
        saved: Some(Saved {
            a_month: Usd::from_micros(884_760_000),
            basis: PriceBasis::Bill,
            so_far: history.saved_so_far,
        }),
    });
    report.timeline = Timeline {
        from: Some(at("2026-03-04T00:00:00Z")),
        nodes: vec![NodeHours {
            node: NodeId::new("i-0aaa").expect("a node"),
            name: Some("gpu-notebook".to_owned()),
            hours: vec![None, Some(0), Some(60), Some(0)],
        }],
        left_out: 0,
    };
    report
}

fn report(findings: Vec<Finding>, not_evaluated: Vec<NotEvaluated>) -> Report {
    let mut totals = Totals {
        running_instances: 12,
        with_probe: 8,
        on_metrics: 3,
        jobs: 6,
        ..Totals::default()
    };
    totals.sum_up(&findings);
    Report {
        schema: Report::SCHEMA.to_owned(),
        at: at("2026-03-04T12:00:00Z"),
        origin: Origin::Simulated,
        findings,
        exempt: Vec::new(),
        not_evaluated,
        gaps: Vec::new(),
        totals,
        steps: Vec::new(),
        steps_left_out: 0,
        targets: Default::default(),
        nodes: Vec::new(),
        nodes_left_out: 0,
        timeline: Timeline::default(),
        history: History::default(),
        ledger: Vec::new(),
        billed: Default::default(),
        costs: Default::default(),
        own_cost: Default::default(),
        second_opinions: Vec::new(),
        price_ages: Vec::new(),
        runs: Default::default(),
        probes: Vec::new(),
        probes_left_out: 0,
        probe_problems: Default::default(),
        unwatched: Default::default(),
        fargate: Default::default(),
        selected: None,
        shared_costs: Vec::new(),
    }
}

fn idle() -> Finding {
    let mut finding = base(FindingKind::IdleNode, "i-0aaa", "gpu-notebook");
    finding.resource.instance_type = InstanceType::new("g5.2xlarge").ok();
    finding.resource.market = Some(Market::OnDemand);
    finding.cost = Some(cost(1_212_000, PriceBasis::Bill));
    finding.evidence = Evidence::IdleNode(IdleNode {
        idle_for: Duration::from_secs(11_100),
        is_longer: false,
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
    finding.steps.push(StepLink {
        name: "align".to_owned(),
        id: StepId {
            kind: StepKind::EcsTask,
            key: "1f0e".to_owned(),
        },
        node: "i-0bbb".to_owned(),
        job: Some("job-17".to_owned()),
    });
    finding.evidence = Evidence::StuckJob(StuckJob {
        job: Some("align-sample-17".to_owned()),
        status: Some(JobStatus::Running),
        stuck_for: Some(Duration::from_secs(2_520)),
        stuck: Stuck::NoProgress {
            cpu: CpuTime::from_millis(1_250),
            processes: 3,
            causes: None,
            tool: None,
            waiter: None,
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
            price_as_of: Some(at("2026-02-01T00:00:00Z")),
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
            tags: Default::default(),
            id: id.to_owned(),
            name: Some(name.to_owned()),
            region: region(),
            account: None,
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
        counted: None,
        price_as_of: Some(at("2026-02-27T00:00:00Z")),
        list_as_of: Some(at("2025-03-02T00:00:00Z")),
    }
}

fn not_evaluated(resource: &str, name: Option<&str>, reason: &str) -> NotEvaluated {
    NotEvaluated {
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

/// Twelve findings of three owners; the totals count some of them only in part or not at all.
pub fn overlapping() -> Report {
    let mut report = many(12);
    let bases = [
        ebb_model::cost::PriceBasis::Bill,
        ebb_model::cost::PriceBasis::ListPrice,
        ebb_model::cost::PriceBasis::ListPriceAsUpperBound,
    ];
    for (n, finding) in report.findings.iter_mut().enumerate() {
        finding.resource.owner = Some(format!("owner-{}", n % 3));
        let Some(cost) = &mut finding.cost else {
            continue;
        };
        let cents = i64::try_from(n).expect("few") * 333_333 + 5_000;
        cost.saving_a_month = Usd::from_micros(cents * 7);
        cost.basis = bases[n / 2 % 3];
        cost.counted = (n % 2 == 1).then(|| ebb_model::savings::Counted {
            sums: ebb_model::savings::Sums {
                saving_a_month: Usd::from_micros(cents * i64::from(n % 4 == 1)),
                ..ebb_model::savings::Sums::default()
            },
            rest_counted_by: Some("idle_node/eu-central-1/i-0aaa".into()),
        });
    }
    let findings = report.findings.clone();
    report.totals.sum_up(&findings);
    report
}

/// Costs of a day of $10: $6 of tasks with this name in each dimension, and $4 of idle time.
pub fn costs(name: &str) -> CostShares {
    let usd = |dollars: i64| Usd::from_micros(dollars * 1_000_000);
    let day = "2026-03-03".to_owned();
    let share = |first: CostDimension| {
        let dimensions = [
            first,
            CostDimension::Pipeline,
            CostDimension::User,
            CostDimension::CostCentre,
        ];
        let named = dimensions.map(|one| (one, CostName::Name(name.to_owned())));
        let share = DayShare {
            tasks: 3,
            tasks_without_price: 1,
            used: usd(6),
            unused: usd(2),
        };
        CostShare {
            names: named.into(),
            by_day: [(day.clone(), share)].into(),
        }
    };
    CostShares {
        cost_centre_tag: Some("Team".to_owned()),
        days: vec![CostDay {
            day: day.clone(),
            source: CostSource::Bill,
            estimated: false,
            total: usd(10),
            rest: [(RestKind::Idle, usd(4))].into(),
            upper_bound: Usd::ZERO,
            rest_by_centre: Vec::new(),
            machines_without_price: 0,
        }],
        by_run: vec![share(CostDimension::Run)],
        by_step: vec![share(CostDimension::Step)],
        ..CostShares::default()
    }
}
