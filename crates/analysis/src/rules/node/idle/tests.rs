//! Test cases of the idle rule.

#[cfg(test)]
mod keepers;

use std::time::Duration;

use ebb_model::finding::Action;
use ebb_model::finding::evidence::Evidence;
use ebb_model::finding::evidence::idle::SeenBy;
use ebb_model::inventory::batch::job::JobStatus;
use ebb_model::inventory::instance::Controller;
use ebb_model::metric_series::{Credits, MetricPoint, MetricSeries};
use ebb_telemetry::heartbeat::{Heartbeat, Usage};
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::testing::{at, node};
use ebb_telemetry::units::{CpuTime, Share};

use crate::testing::{World, instance, requested};

fn quiet(_: u64, _: &mut Heartbeat) {}

fn busy_until(minute: u64) -> impl Fn(u64, &mut Heartbeat) {
    move |now, h| {
        if now < minute {
            h.workload.cpu = Some(CpuTime::from_millis(30_000));
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_node_is_idle_only_when_nothing_ran_for_long_enough_and_that_was_seen() {
    type Watch = Box<dyn Fn(&mut World)>;
    let check = |name: &str, watch: Watch, expect: &str| {
        let mut world = World::with([instance(1)]);
        watch(&mut world);
        let got = match world.verdict() {
            Ok(finding) => finding.evidence.to_string(),
            Err(reason) => reason,
        };
        assert!(
            got.contains(expect),
            "{name}: '{got}' should say '{expect}'"
        );
    };
    check(
        "forty quiet minutes after work",
        Box::new(|w| w.watch(1, 0, 60, busy_until(20))),
        "no activity for 40 min; background processes use 0.01 cores",
    );
    check(
        "quiet for half of what it takes",
        Box::new(|w| w.watch(1, 0, 60, busy_until(45))),
        "well",
    );
    check(
        "busy",
        Box::new(|w| w.watch(1, 0, 60, busy_until(60))),
        "well",
    );
    check(
        "a burst every ten minutes",
        Box::new(|w| {
            w.watch(1, 0, 120, |minute, h| {
                h.workload.cpu = Some(CpuTime::from_millis(if minute % 10 == 0 {
                    2_000
                } else {
                    0
                }));
            });
        }),
        "well",
    );
    check(
        "someone types",
        Box::new(|w| w.watch(1, 0, 60, |_, h| h.typed_ago = Some(Duration::from_secs(5)))),
        "well",
    );
    check(
        "never active",
        Box::new(|w| w.watch(1, 0, 60, quiet)),
        "no activity for 60 min, which is the whole observed time",
    );
    check(
        "not observed for long",
        Box::new(|w| w.watch(1, 0, 12, quiet)),
        "observed for only 12 min; at least 30 min are required",
    );
    check(
        "a gap with enough time after it",
        Box::new(|w| {
            w.watch(1, 0, 20, quiet);
            w.watch(1, 24, 60, quiet);
        }),
        "no activity for 36 min; background",
    );
    check(
        "a gap with too little time after it",
        Box::new(|w| {
            w.watch(1, 0, 32, quiet);
            w.watch(1, 36, 60, quiet);
        }),
        "the probe observed only 93 % of the last 60 min",
    );
    check(
        "a probe that lost events",
        Box::new(|w| {
            w.watch(1, 0, 60, |_, h| {
                h.coverage.cpu = Some(Share::from_ppm(500_000))
            })
        }),
        "the probe observed only 0 %",
    );
    check(
        "a silent probe",
        Box::new(|w| {
            w.watch(1, 0, 60, quiet);
            w.now = at(60 * 60 + 7_200);
        }),
        "its probe sent the last heartbeat 2 h 00 min ago",
    );
    check(
        "network that nobody sees",
        Box::new(|w| w.watch(1, 0, 60, |_, h| h.coverage.network = None)),
        "its probe does not observe network usage",
    );
    check(
        "a GPU that nobody sees",
        Box::new(|w| w.watch(1, 0, 60, |_, h| h.hardware.gpus = Some(1))),
        "the node has a GPU, and its probe does not observe GPU usage",
    );
    check(
        "a GPU that is watched and idle",
        Box::new(|w| {
            w.watch(1, 0, 60, |_, h| {
                h.hardware.gpus = Some(1);
                h.coverage.gpu = Some(Share::ALL);
                h.workload = Usage {
                    gpu: Some(Share::NONE),
                    ..h.workload
                };
            });
        }),
        "no activity for 60 min",
    );
    check(
        "no probe at all",
        Box::new(|w| w.now = at(60)),
        "no probe and no metrics",
    );
}

#[test]
fn a_window_is_never_longer_than_the_machine_lived() {
    let mut young = instance(1);
    young.launched_at = Some(at(20 * 60));
    let mut world = World::with([young]);
    world.watch(1, 0, 60, quiet);
    let finding = world.verdict().expect("it is idle");
    assert_eq!(finding.window.length(), Duration::from_secs(40 * 60));
}

#[test]
fn standby_machines_and_busy_batch_workers_are_left_alone() {
    let mut standby = instance(1);
    standby.tags.insert("ebb:standby".into(), "true".into());
    let mut world = World::with([standby]);
    world.watch(1, 0, 60, quiet);
    assert_eq!(
        world.verdict(),
        Err("standby node: tag ebb:standby=true".into())
    );

    let mut world = World::with([instance(1)]).with_job(JobStatus::Running, requested(1, 1));
    world.watch(1, 0, 60, quiet);
    let reason = world.verdict().expect_err("the Batch rule speaks");
    assert!(reason.contains("does not observe the ECS task"), "{reason}");
}

#[test]
fn what_a_controller_owns_is_never_to_be_stopped_by_hand() {
    let check = |controller: Option<Controller>, action: Action| {
        let mut machine = instance(1);
        machine.controller = controller;
        let mut world = World::with([machine]);
        world.watch(1, 0, 60, quiet);
        assert_eq!(world.verdict().expect("it is idle").remedy.action, action);
    };
    check(None, Action::Stop);
    check(
        Some(Controller::AutoScalingGroup("web".into())),
        Action::ScaleIn,
    );
    check(
        Some(Controller::EksNodegroup("pool".into())),
        Action::ScaleIn,
    );
    let mut worker = World::with([instance(1)]).with_job(JobStatus::Succeeded, requested(1, 1));
    worker.watch(1, 0, 60, quiet);
    let finding = worker.verdict().expect("it is idle");
    assert_eq!(
        finding.resource.controller,
        Some(Controller::BatchEnvironment("env".into()))
    );
}

#[test]
fn idle_money_is_the_whole_machine_and_simulated_input_is_labelled() {
    let mut world = World::with([instance(1)]);
    world.watch(1, 0, 60, |_, h| h.origin = Origin::Simulated);
    let finding = world.verdict().expect("it is idle");
    let cost = finding.cost.expect("m5.xlarge has a price");
    assert_eq!(cost.per_hour, UsdPerHour::from_micros(192_000));
    assert_eq!(cost.saving_a_month.to_string(), "$140.16");
    assert_eq!(cost.spent.to_string(), "$0.19");
    assert_eq!(finding.resource.origin, Origin::Simulated);
    assert_eq!(world.evaluate().origin, Origin::Simulated);
}

fn metrics(hours: u64, change: impl Fn(u64, &mut MetricPoint)) -> World {
    let mut world = World::with([instance(1)]);
    world.now = at(hours * 3600 + 60);
    let points = (0..hours * 12).map(|n| {
        let mut point = MetricPoint {
            cpu_max: Some(Share::from_ppm(12_000)),
            network_bytes: Some(40_000),
            ..MetricPoint::new(at((n + 1) * 300), 300)
        };
        change(n, &mut point);
        point
    });
    world.metrics.insert(node(1), points.collect());
    world
}

#[test]
fn without_a_probe_quiet_metrics_for_long_are_weak_evidence() {
    let check = |world: World, expect: &str| {
        let got = match world.verdict() {
            Ok(finding) => {
                let Evidence::IdleNode(idle) = &finding.evidence else {
                    panic!("idle evidence")
                };
                assert_eq!(idle.seen_by, SeenBy::Metrics);
                format!(
                    "{} confidence: {}",
                    finding.confidence.level, finding.evidence
                )
            }
            Err(reason) => reason,
        };
        assert!(got.contains(expect), "'{got}' should say '{expect}'");
    };
    check(
        metrics(8, |_, _| ()),
        "low confidence: no activity in its metrics for 8 h 00 min, which is all they cover",
    );
    check(
        metrics(8, |n, p| {
            p.cpu_max = (n == 70).then_some(Share::from_ppm(60_000)).or(p.cpu_max)
        }),
        "well",
    );
    check(
        metrics(8, |n, p| {
            p.network_bytes = Some(if n > 70 { 6_000_000 } else { 0 })
        }),
        "well",
    );
    check(metrics(3, |_, _| ()), "metrics cover only 3 h 00 min");
    check(
        metrics(8, |n, p| p.cpu_max = p.cpu_max.filter(|_| n % 5 != 0)),
        "metrics of CPU cover only 79 %",
    );

    let in_turns = metrics(8, |n, p| match n % 30 {
        0 => p.cpu_max = None,
        15 => p.network_bytes = None,
        _ => {}
    });
    check(in_turns, "metrics of all required signals cover only 93 %");

    let mut gpu = metrics(8, |_, _| ());
    for machine in gpu.inventory.instances.values_mut() {
        machine.instance_type = InstanceType::new("g4dn.xlarge").expect("a type");
    }
    check(gpu, "there are no metrics of its GPU");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_credits_memory_and_gpus_tell_keeps_a_quiet_node_from_being_called_idle() {
    let check = |name: &str, change: fn(&mut World, &mut MetricSeries), expect: &str| {
        let mut world = metrics(8, |_, _| ());
        let mut series = world.metrics.remove(&node(1)).expect("it has some");
        change(&mut world, &mut series);
        world.metrics.insert(node(1), series);
        let got = world.verdict();
        let got = got.map_or_else(|reason| reason, |found| found.confidence.reason);
        assert!(
            got.contains(expect),
            "{name}: '{got}' should say '{expect}'"
        );
    };
    fn each(series: &mut MetricSeries, change: impl Fn(usize, &mut MetricPoint)) {
        let (gpus, points) = (series.gpus, series.points().enumerate());
        let changed = points.map(|(n, mut point)| {
            change(n, &mut point);
            point
        });
        *series = changed.collect();
        series.gpus = gpus;
    }
    fn of_type(world: &mut World, name: &str) {
        let machine = world.inventory.instances.get_mut(&node(1));
        machine.expect("it is there").instance_type = InstanceType::new(name).expect("a type");
    }
    fn credits(left_millis: u64, surplus_millis: u64) -> Option<Credits> {
        Some(Credits {
            left_millis,
            surplus_millis: Some(surplus_millis),
        })
    }
    let throttled = "the CPU credits are used up, so the CPU is throttled";
    check("spent", |_, s| s.credits = credits(300, 0), throttled);
    let earned = |_: &mut World, s: &mut MetricSeries| s.credits = credits(90_000, 0);
    check(
        "earned",
        earned,
        "CPU maximum per hour: 1 % (mean over all hours)",
    );
    let owed = |_: &mut World, s: &mut MetricSeries| s.credits = credits(0, 7_200);
    check(
        "owed",
        owed,
        "7 surplus CPU credits from earlier work are not yet paid back",
    );
    check(
        "much memory",
        |_, s| each(s, |_, p| p.memory = Some(Share::from_ppm(630_000))),
        "up to 63 % of the memory is in use, so a process may still be needed",
    );
    check(
        "little memory",
        |_, s| each(s, |_, p| p.memory = Some(Share::from_ppm(120_000))),
        "memory usage is at most 12 %",
    );
    check(
        "a GPU at work",
        |w, s| {
            of_type(w, "g4dn.xlarge");
            each(s, |n, p| {
                p.gpu = Some(Share::from_ppm(if n > 80 { 500_000 } else { 0 }))
            });
        },
        "well",
    );
    check(
        "a GPU that rests too",
        |w, s| {
            of_type(w, "g4dn.xlarge");
            each(s, |_, p| p.gpu = Some(Share::NONE));
        },
        "the GPU metrics show no activity",
    );
    check(
        "one GPU of four",
        |w, s| {
            of_type(w, "g4dn.12xlarge");
            s.gpus = Some(1);
            each(s, |_, p| p.gpu = Some(Share::NONE));
        },
        "metrics cover only 1 of its 4 GPUs",
    );
    check(
        "a GPU that was not told of all the time",
        |w, s| {
            of_type(w, "g4dn.xlarge");
            each(s, |n, p| p.gpu = (n % 2 == 0).then_some(Share::NONE));
        },
        "metrics of GPUs cover only 50 %",
    );
}

#[test]
fn after_an_outage_of_the_probe_the_time_since_then_counts() {
    let after = |minutes: u64| {
        let mut world = World::with([instance(1)]);
        world.watch(1, 0, 60, busy_until(20));
        world.watch(1, 600, 600 + minutes, quiet);
        match world.verdict() {
            Ok(finding) => finding.evidence.to_string(),
            Err(reason) => reason,
        }
    };
    let text = after(90);
    assert!(text.contains("no activity for 90 min"), "{text}");
    let text = after(20);
    assert!(text.contains("the probe observed only"), "{text}");
}
