//! Converts heartbeats and tasks to metrics. Pure.

use std::collections::BTreeMap;

use ebb_telemetry::heartbeat::{Heartbeat, Usage};
use ebb_telemetry::identity::NodeId;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::step::{StepKind, StepUsage};
use ebb_telemetry::time::BootClock;
use ebb_telemetry::units::{Bytes, CpuTime, Share};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::CounterSums;

/// The owner of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProcessGroup {
    Workload,
    Background,
    /// The probe itself.
    Probe,
}

/// The instrument kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Gauge,
    /// A monotonic sum.
    Counter,
    UpDown,
}

/// The time of a value, and the start of its sum.
#[derive(Debug, Clone, Copy)]
struct TimeSpan {
    start: Timestamp,
    end: Timestamp,
}

type Attribute<'a> = (&'a str, &'a str);

/// Metrics by name, unit and kind, with their data points.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    points: BTreeMap<(&'static str, &'static str, Kind), Vec<Value>>,
}

impl Gathered {
    fn point(
        &mut self,
        (name, unit, kind): (&'static str, &'static str, Kind),
        span: TimeSpan,
        value: f64,
        attributes: &[Attribute<'_>],
    ) {
        let mut point = json!({
            "timeUnixNano": nanos(span.end),
            "asDouble": value,
            "attributes": attributes_of(attributes),
        });
        if kind != Kind::Gauge {
            point["startTimeUnixNano"] = nanos(span.start);
        }
        self.points
            .entry((name, unit, kind))
            .or_default()
            .push(point);
    }

    /// Adds one interval of the node; `sums` contains the earlier intervals.
    pub(super) fn node(&mut self, h: &Heartbeat, sums: &mut CounterSums) {
        let start = before(h.wall_at_end, h.end, h.start);
        let span = TimeSpan {
            start: *sums.since.get_or_insert(start),
            end: h.wall_at_end,
        };
        for (side, name, usage) in [
            (ProcessGroup::Workload, "workload", &h.workload),
            (ProcessGroup::Background, "background", &h.background),
        ] {
            for (metric, unit, more) in used(usage) {
                let sum = sums.add(metric, side, more);
                let of_side = [("ebb.side", name)];
                self.point((metric, unit, Kind::Counter), span, sum, &of_side);
            }
        }
        let own_cpu = sums.add(
            "process.cpu.time",
            ProcessGroup::Probe,
            h.probe.cpu.as_secs_f64(),
        );
        for (metric, unit, sum) in [
            ("process.cpu.time", "s", own_cpu),
            // These counters already start at the start of the probe.
            (
                "ebb.probe.events.lost",
                "{event}",
                h.probe.events_lost as f64,
            ),
            (
                "ebb.probe.records.dropped",
                "{record}",
                h.probe.records_dropped as f64,
            ),
        ] {
            self.point((metric, unit, Kind::Counter), span, sum, &[]);
        }
        self.levels(h, span);
        self.coverage(h, span);
        self.gpus(h, span);
    }

    fn levels(&mut self, h: &Heartbeat, span: TimeSpan) {
        let cores = h.hardware.cores.0 as f64 / 1000.0;
        let connections = h.detail.network.and_then(|network| network.connections);
        for (metric, unit, value) in [
            ("system.cpu.logical.count", "{cpu}", Some(cores)),
            ("system.memory.limit", "By", bytes(Some(h.hardware.memory))),
            ("process.memory.usage", "By", bytes(h.probe.resident)),
            (
                "ebb.probe.spool.size",
                "By",
                bytes(Some(h.probe.spool_depth)),
            ),
            (
                "system.network.connection.count",
                "{connection}",
                connections.map(|n| n as f64),
            ),
        ] {
            if let Some(value) = value {
                self.point((metric, unit, Kind::UpDown), span, value, &[]);
            }
        }
        if let Some(used) = bytes(h.detail.memory_used) {
            let metric = ("system.memory.usage", "By", Kind::UpDown);
            self.point(metric, span, used, &[("system.memory.state", "used")]);
        }
    }

    fn coverage(&mut self, h: &Heartbeat, span: TimeSpan) {
        let coverage = &h.coverage;
        for (signal, share) in [
            ("cpu", coverage.cpu),
            ("memory", coverage.memory),
            ("disk", coverage.disk),
            ("network", coverage.network),
            ("gpu", coverage.gpu),
            ("short_processes", coverage.short_processes),
        ] {
            if let Some(share) = share {
                let metric = ("ebb.coverage", "1", Kind::Gauge);
                self.point(metric, span, ratio(share), &[("ebb.signal", signal)]);
            }
        }
    }

    fn gpus(&mut self, h: &Heartbeat, span: TimeSpan) {
        for gpu in &h.detail.gpus {
            let number = gpu.number.to_string();
            let which = [("hw.id", number.as_str()), ("hw.name", gpu.model.as_str())];
            for (metric, unit, kind, value) in [
                ("hw.gpu.utilization", "1", Kind::Gauge, gpu.busy.map(ratio)),
                (
                    "hw.gpu.memory.usage",
                    "By",
                    Kind::UpDown,
                    bytes(gpu.memory_held),
                ),
                ("hw.gpu.memory.limit", "By", Kind::UpDown, bytes(gpu.memory)),
            ] {
                if let Some(value) = value {
                    self.point((metric, unit, kind), span, value, &which);
                }
            }
        }
    }

    /// Adds a task so far. The boot-time clock was `clock` when the wall clock was `wall`.
    pub(super) fn step(&mut self, step: &StepUsage, wall: Timestamp, clock: BootClock) {
        let span = TimeSpan {
            start: before(wall, clock, step.started),
            end: before(wall, clock, step.observed),
        };
        let names = MetricNames::for_kind(step.id.kind);
        let kind = word(step.id.kind);
        let mut which: Vec<Attribute<'_>> = vec![
            ("ebb.step.kind", &kind),
            ("ebb.step.key", &step.id.key),
            ("ebb.step.name", step.step_name()),
        ];
        which.extend(names.id.map(|id| (id, step.id.key.as_str())));
        if let Some(run) = step.detail.run.as_deref() {
            which.push(("ebb.run.launcher", &run.launcher));
            which.push(("ebb.run.key", &run.key));
        }
        let network = step.detail.network;
        let (disk, way) = ("disk.io.direction", "network.io.direction");
        let received = bytes(network.map(|n| n.received));
        let sent = bytes(network.map(|n| n.sent));
        for (metric, unit, value, more) in [
            (names.cpu, "s", Some(step.cpu.as_secs_f64()), None),
            (
                names.disk,
                "By",
                bytes(step.disk_read),
                Some((disk, "read")),
            ),
            (
                names.disk,
                "By",
                bytes(step.disk_written),
                Some((disk, "write")),
            ),
            (names.network, "By", received, Some((way, "receive"))),
            (names.network, "By", sent, Some((way, "transmit"))),
            (
                "ebb.step.process.created",
                "{process}",
                Some(step.processes as f64),
                None,
            ),
        ] {
            if let Some(value) = value {
                let which: Vec<_> = which.iter().copied().chain(more).collect();
                self.point((metric, unit, Kind::Counter), span, value, &which);
            }
        }
        for (metric, value) in [
            (
                "ebb.step.memory.peak",
                step.peak_memory.map(|peak| peak.bytes),
            ),
            ("ebb.step.memory.usage", step.detail.memory_now),
        ] {
            if let Some(value) = bytes(value) {
                self.point((metric, "By", Kind::UpDown), span, value, &which);
            }
        }
    }

    /// All metrics as one resource.
    pub(super) fn resource(self, node: &NodeId, origin: Origin) -> Value {
        let metrics: Vec<Value> = self.points.into_iter().map(metric).collect();
        let version = env!("CARGO_PKG_VERSION");
        json!({
            "resource": { "attributes": attributes_of(&[
                ("service.name", "ebb-probe"),
                ("service.version", version),
                ("host.id", node.as_str()),
                ("os.type", "linux"),
                ("ebb.origin", &word(origin)),
            ]) },
            "scopeMetrics": [{
                "scope": { "name": "ebb-probe", "version": version },
                "metrics": metrics,
            }],
        })
    }
}

fn metric(((name, unit, kind), points): ((&str, &str, Kind), Vec<Value>)) -> Value {
    const CUMULATIVE: u8 = 2;
    if kind == Kind::Gauge {
        return json!({ "name": name, "unit": unit, "gauge": { "dataPoints": points } });
    }
    let sum = json!({
        "dataPoints": points,
        "aggregationTemporality": CUMULATIVE,
        "isMonotonic": kind == Kind::Counter,
    });
    json!({ "name": name, "unit": unit, "sum": sum })
}

/// MetricNames of a task's metrics, and of the attribute for its key.
struct MetricNames {
    id: Option<&'static str>,
    cpu: &'static str,
    disk: &'static str,
    network: &'static str,
}

impl MetricNames {
    /// OpenTelemetry has names for containers, and fewer for pods.
    const fn for_kind(kind: StepKind) -> Self {
        let ours = Self {
            id: None,
            cpu: "ebb.step.cpu.time",
            disk: "ebb.step.disk.io",
            network: "ebb.step.network.io",
        };
        match kind {
            StepKind::Container => Self {
                id: Some("container.id"),
                cpu: "container.cpu.time",
                disk: "container.disk.io",
                network: "container.network.io",
            },
            StepKind::Pod => Self {
                id: Some("k8s.pod.uid"),
                cpu: "k8s.pod.cpu.time",
                network: "k8s.pod.network.io",
                ..ours
            },
            StepKind::EcsTask => Self {
                id: Some("aws.ecs.task.id"),
                ..ours
            },
            _ => ours,
        }
    }
}

/// The serialized name of a variant.
fn word(variant: impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The resource use of one side: metric, unit and value. Unknown values are left out.
fn used(usage: &Usage) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
    let started = usage.processes_started as f64;
    [
        ("system.cpu.time", "s", usage.cpu.map(CpuTime::as_secs_f64)),
        ("system.disk.io", "By", bytes(usage.disk)),
        ("system.network.io", "By", bytes(usage.network)),
        ("system.process.created", "{process}", Some(started)),
    ]
    .into_iter()
    .filter_map(|(metric, unit, value)| Some((metric, unit, value?)))
}

/// 64-bit integers are strings in the JSON encoding.
fn nanos(at: Timestamp) -> Value {
    Value::String(at.as_nanosecond().max(0).to_string())
}

fn before(wall: Timestamp, clock: BootClock, at: BootClock) -> Timestamp {
    let ago = clock.since(at).unwrap_or_default();
    wall.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn bytes(bytes: Option<Bytes>) -> Option<f64> {
    bytes.map(|bytes| bytes.0 as f64)
}

fn ratio(share: Share) -> f64 {
    f64::from(share.ppm()) / 1e6
}

fn attributes_of(pairs: &[Attribute<'_>]) -> Value {
    let one =
        |(key, value): &Attribute<'_>| json!({ "key": key, "value": { "stringValue": value } });
    pairs.iter().map(one).collect()
}
