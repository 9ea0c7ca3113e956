//! Ebb's result for a history: its heartbeats are folded and evaluated as in a sweep, with the
//! default thresholds.

use std::collections::BTreeMap;
use std::time::Duration;

use ebb_analysis::evaluate::evaluate;
use ebb_analysis::facts::Facts;
use ebb_catalog::catalog::Catalogue;
use ebb_model::finding_kind::FindingKind;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market, Provider};
use ebb_model::policy::Policy;
use ebb_model::sweep_memory::Memory;
use ebb_node_state::fleet_state::FleetState;
use ebb_node_state::hourly_activity::FleetHours;
use ebb_telemetry::arrival::Placed;
use ebb_telemetry::heartbeat::node_signals::NodeDetail;
use ebb_telemetry::heartbeat::{Coverage, Hardware, Heartbeat, ProbeCost, Usage};
use ebb_telemetry::identity::{BootId, InstanceType, NodeId, ProbeStart, Region};
use ebb_telemetry::origin::Origin;
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, MilliCores, Share};
use jiff::Timestamp;

use super::Says;
use super::history::{History, Interval, Set};

/// An arbitrary time: no rule depends on the date.
const BEGIN: Timestamp = Timestamp::UNIX_EPOCH;

pub(super) fn says(set: &Set, history: &History) -> Says {
    let policy = Policy::default();
    let node = NodeId::new("i-history").expect("a name");
    let (mut state, mut hours) = (FleetState::default(), FleetHours::default());
    let mut placed = before(&node);
    for interval in set.minutes(history) {
        next(&mut placed, interval);
        state.fold_heartbeat(&placed, &policy.activity);
        hours.fold_heartbeat(&placed, &policy.activity);
    }
    let mut inventory = Inventory::default();
    inventory.instances.insert(node.clone(), instance(&node));
    let now = placed.end + Duration::from_secs(5);
    let report = evaluate(&Facts {
        now,
        state: &state,
        hours: &hours,
        inventory: &inventory,
        metrics: &BTreeMap::new(),
        bill: &BTreeMap::new(),
        billed: &[],
        finished: &[],
        left_out: &[],
        records: &[],
        memory: &Memory::default(),
        policy: &policy,
        catalogue: Catalogue::built_in(),
    });
    let is_idle = |kind| kind == FindingKind::IdleNode;
    if report.findings.iter().any(|f| is_idle(f.kind)) {
        return Says::Idle;
    }
    match report.not_evaluated.is_empty() {
        true => Says::Used,
        false => Says::Undetermined,
    }
}

/// An empty heartbeat at the start.
fn before(node: &NodeId) -> Placed {
    let nothing = Coverage {
        cpu: None,
        memory: None,
        disk: None,
        network: None,
        gpu: None,
        short_processes: None,
    };
    Placed {
        node: node.clone(),
        end: BEGIN,
        heartbeat: Heartbeat {
            node: node.clone(),
            boot: BootId::new("boot").expect("a name"),
            probe_start: ProbeStart::new("start").expect("a name"),
            sequence: 0,
            start: BootClock::default(),
            end: BootClock::default(),
            wall_at_end: BEGIN,
            origin: Origin::Measured,
            coverage: nothing,
            hardware: Hardware {
                cores: MilliCores::cores(2),
                memory: Bytes::gib(8),
                gpus: Some(0),
            },
            workload: Usage::default(),
            background: Usage::default(),
            typed_ago: None,
            steps: Vec::new(),
            probe: ProbeCost::default(),
            detail: NodeDetail::default(),
        },
    }
}

/// Changes the last heartbeat into that of the next interval.
fn next(placed: &mut Placed, interval: Interval) {
    let length = Duration::from_secs(interval.seconds);
    let h = &mut placed.heartbeat;
    let coverage = Some(Share::from_ppm(interval.coverage_ppm));
    h.sequence += 1;
    h.start = h.end;
    h.end = BootClock::from_nanos(h.end.as_nanos() + interval.seconds * 1_000_000_000);
    h.wall_at_end += length;
    h.coverage = Coverage {
        cpu: coverage,
        memory: coverage,
        disk: coverage,
        network: coverage,
        gpu: interval.gpu_ppm.and(coverage),
        short_processes: coverage,
    };
    h.hardware.cores = MilliCores(interval.cores_milli);
    h.hardware.gpus = Some(interval.gpu_ppm.map_or(0, |_| 1));
    h.workload = Usage {
        cpu: interval.workload_cpu_ms.map(CpuTime::from_millis),
        disk: interval.workload_disk_bytes.map(Bytes),
        network: interval.network_bytes.map(Bytes),
        gpu: interval.gpu_ppm.map(Share::from_ppm),
        processes_started: 0,
    };
    let background = interval
        .all_cpu_ms
        .saturating_sub(interval.workload_cpu_ms.unwrap_or(0));
    h.background.cpu = Some(CpuTime::from_millis(background));
    h.typed_ago = interval.typed_ago_seconds.map(Duration::from_secs);
    placed.end += length;
}

fn instance(node: &NodeId) -> Instance {
    Instance {
        id: node.clone(),
        account: None,
        region: Region::new("us-east-1").expect("a region"),
        instance_type: InstanceType::new("m5.large").expect("a type"),
        state: InstanceState::Running,
        launched_at: Some(BEGIN),
        state_since: None,
        is_taken_back: false,
        image: None,
        market: Market::OnDemand,
        controller: None,
        tags: BTreeMap::new(),
        hardware: None,
        provider: Provider::Aws,
    }
}
