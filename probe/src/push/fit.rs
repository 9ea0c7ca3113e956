//! Makes heartbeats and finished tasks fit into a message: first with fewer details of each task,
//! then with fewer tasks. A heartbeat is never dropped, and all omissions are counted. Pure.

use std::cmp::Reverse;

use ebb_telemetry::arrival::Sent;
use ebb_telemetry::heartbeat::{Heartbeat, NodeDetail};
use ebb_telemetry::step::{StepBatch, StepDetail, StepKind, StepUsage};
use ebb_wire::EncodeError;
use ebb_wire::{MAX_GPUS, MAX_HEARTBEATS, MAX_STEPS_A_HEARTBEAT, MAX_TOOLS_A_STEP};

/// The number of tasks that were omitted or shortened because a message was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmittedSteps {
    /// Running tasks.
    pub steps: u64,
    /// Tasks that were sent with fewer details.
    pub shortened: u64,
}

impl OmittedSteps {
    /// Adds the counts of another message.
    pub const fn add(&mut self, more: Self) {
        self.steps = self.steps.saturating_add(more.steps);
        self.shortened = self.shortened.saturating_add(more.shortened);
    }
}

/// A message that fits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fitted<T> {
    /// Number of heartbeats in it; 1 for an object of tasks.
    pub(super) count: usize,
    /// The message or object.
    pub(super) body: T,
    /// The omissions.
    pub(super) left_out: OmittedSteps,
}

/// The parts that are removed in this order until the message fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// More entries than the contract allows.
    BeyondContract,
    /// Arguments and open files.
    OptInDetail,
    /// All executables of a task except the two busiest.
    MostTools,
    /// Labels from schedulers, and the run that a launcher names.
    Labels,
    /// All executables.
    Tools,
    /// All fields of a task except its totals.
    Details,
    /// All tasks except this many; see [`keep_most_relevant`].
    Steps(usize),
    /// All fields of the node except its totals.
    NodeDetail,
}

const CUTS: [Cut; 13] = [
    Cut::BeyondContract,
    Cut::OptInDetail,
    Cut::MostTools,
    Cut::Labels,
    Cut::Tools,
    Cut::Details,
    Cut::Steps(64),
    Cut::Steps(32),
    Cut::Steps(16),
    Cut::Steps(8),
    Cut::Steps(4),
    Cut::Steps(1),
    Cut::Steps(0),
];

/// After this, a heartbeat has about 400 bytes, which always fits.
const LAST_CUT: Cut = Cut::NodeDetail;

/// One message with as many of the oldest heartbeats as fit. If the first does not fit alone, it
/// is sent with fewer details.
///
/// # Errors
/// If the encoder fails for a reason other than size.
pub(super) fn heartbeats(
    sent: &Sent,
    heartbeats: &[Heartbeat],
) -> Result<Fitted<String>, EncodeError> {
    let most = heartbeats.len().min(MAX_HEARTBEATS);
    for count in (1..=most).rev() {
        match ebb_wire::encode_heartbeats(sent, &heartbeats[..count]) {
            Ok(body) => {
                let left_out = OmittedSteps::default();
                return Ok(Fitted {
                    count,
                    body,
                    left_out,
                });
            }
            Err(error) if is_of_another_kind(&error) => return Err(error),
            Err(_) => {}
        }
    }
    let mut shorter = heartbeats.first().cloned().into_iter().collect::<Vec<_>>();
    fitted(|cut| {
        for heartbeat in &mut shorter {
            cut_heartbeat(heartbeat, cut);
        }
        let left_out = match (heartbeats.first(), shorter.first()) {
            (Some(whole), Some(shorter)) => left_out(&whole.steps, &shorter.steps),
            _ => OmittedSteps::default(),
        };
        (ebb_wire::encode_heartbeats(sent, &shorter), left_out)
    })
}

/// Finished tasks as one object, with fewer details if they do not fit.
///
/// # Errors
/// If the encoder fails for a reason other than size.
pub(super) fn steps(sent: &Sent, batch: &StepBatch) -> Result<Fitted<Vec<u8>>, EncodeError> {
    match ebb_wire::encode_steps(sent, batch) {
        Ok(body) => {
            let left_out = OmittedSteps::default();
            return Ok(Fitted {
                count: 1,
                body,
                left_out,
            });
        }
        Err(error) if is_of_another_kind(&error) => return Err(error),
        Err(_) => {}
    }
    let mut shorter = batch.clone();
    fitted(|cut| {
        cut_steps(&mut shorter.steps, cut);
        let left_out = left_out(&batch.steps, &shorter.steps);
        (ebb_wire::encode_steps(sent, &shorter), left_out)
    })
}

fn fitted<T>(
    mut encode: impl FnMut(Cut) -> (Result<T, EncodeError>, OmittedSteps),
) -> Result<Fitted<T>, EncodeError> {
    let mut attempt = |cut| {
        let (encoded, left_out) = encode(cut);
        encoded.map(|body| Fitted {
            count: 1,
            body,
            left_out,
        })
    };
    for cut in CUTS {
        match attempt(cut) {
            Err(error) if !is_of_another_kind(&error) => {}
            done => return done,
        }
    }
    attempt(LAST_CUT)
}

const fn is_of_another_kind(error: &EncodeError) -> bool {
    !matches!(
        error,
        EncodeError::TooMany { .. } | EncodeError::TooLarge { .. }
    )
}

fn cut_heartbeat(heartbeat: &mut Heartbeat, cut: Cut) {
    match cut {
        Cut::BeyondContract => {
            heartbeat.detail.gpus.truncate(MAX_GPUS);
            keep_most_relevant(&mut heartbeat.steps, MAX_STEPS_A_HEARTBEAT);
        }
        Cut::Steps(most) => keep_most_relevant(&mut heartbeat.steps, most),
        Cut::NodeDetail => heartbeat.detail = NodeDetail::default(),
        _ => {}
    }
    cut_steps(&mut heartbeat.steps, cut);
}

/// Removes details only: a finished task is sent once, so it must not be left out.
fn cut_steps(steps: &mut [StepUsage], cut: Cut) {
    for step in steps {
        match cut {
            Cut::BeyondContract => step.tools.truncate(MAX_TOOLS_A_STEP),
            Cut::OptInDetail => step.detail.opt_in_detail = None,
            Cut::MostTools => step.tools.truncate(2),
            Cut::Labels => {
                step.detail.scheduler_labels = None;
                step.detail.run = None;
            }
            Cut::Tools => {
                step.tools.clear();
                step.detail.waiting_tools.clear();
                step.detail.network_peers.clear();
            }
            Cut::Details => step.detail = StepDetail::default(),
            Cut::Steps(_) | Cut::NodeDetail => {}
        }
    }
}

fn left_out(whole: &[StepUsage], shorter: &[StepUsage]) -> OmittedSteps {
    let is_shortened = |step: &&StepUsage| {
        let before = whole.iter().find(|before| before.id == step.id);
        before.is_some_and(|before| before != *step)
    };
    OmittedSteps {
        steps: (whole.len() - shorter.len()) as u64,
        shortened: shorter.iter().filter(is_shortened).count() as u64,
    }
}

/// Keeps at most `most` tasks: first the busiest, and for the other half of the places jobs before sessions,
/// services and process trees. So many small jobs displace no busy task. The probe sends the others when
/// they end.
pub(crate) fn keep_most_relevant(steps: &mut Vec<StepUsage>, most: usize) {
    if steps.len() <= most {
        return;
    }
    let names_no_job = |step: &StepUsage| {
        matches!(
            step.id.kind,
            StepKind::Session | StepKind::Service | StepKind::Tree
        )
    };
    let in_order = |step: &StepUsage| (names_no_job(step), Reverse(step.cpu));
    steps.sort_by_key(|step| Reverse(step.cpu));
    let rest = steps.get_mut(most / 2..).unwrap_or_default();
    rest.sort_by_key(in_order);
    steps.truncate(most);
    steps.sort_by_key(in_order);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use ebb_telemetry::heartbeat::GpuUse;
    use ebb_telemetry::step::{
        MemorySource, NetworkPeer, OptInDetail, PeakMemory, PeerScope, Requested, RunName, Sampled,
        SchedulerLabels, StepEnd, StepGpu, StepId, StepNetwork, TaskState, ToolEvents, ToolUsage,
    };
    use ebb_telemetry::time::BootClock;
    use ebb_telemetry::units::{Bytes, CpuTime, MilliCores};
    use ebb_wire::{decode_heartbeats, decode_steps};
    use proptest::prelude::*;

    use super::super::tests::{batch, heartbeat, sent};
    use super::*;

    /// Printable text that does not compress well.
    fn noise(seed: u64, length: usize) -> String {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b' ' + (state % 95) as u8)
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    /// A task with every field set and every text of `text_bytes` random characters.
    #[expect(clippy::too_many_lines, reason = "one value with all its fields")]
    fn full_step(seed: u64, text_bytes: usize) -> StepUsage {
        let text = |n: u64| noise(seed * 1_000 + n, text_bytes);
        let tool = |n: u64| ToolUsage {
            name: text(n),
            processes: u64::MAX,
            cpu: CpuTime(u64::MAX - n),
            peak_memory: Some(Bytes(u64::MAX)),
            disk: Some(Bytes(u64::MAX)),
            events: Some(ToolEvents {
                started_after: Duration::MAX,
                ended_after: Some(Duration::MAX),
                failed: u64::MAX,
                oom_kills: u64::MAX,
            }),
        };
        let labels = (0..16).map(|n| (text(100 + n), text(200 + n)));
        let detail = StepDetail {
            user_cpu: Some(CpuTime(u64::MAX)),
            run_queue: Some(Duration::MAX),
            minor_faults: Some(u64::MAX),
            states: [(
                TaskState::Disk,
                Sampled {
                    samples: u64::MAX,
                    time: Duration::MAX,
                },
            )]
            .into(),
            network: Some(StepNetwork {
                received: Bytes(u64::MAX),
                ..StepNetwork::default()
            }),
            network_peers: (0..StepDetail::MAX_NETWORK_PEERS as u16)
                .map(|n| NetworkPeer {
                    port: Some(u16::MAX - n),
                    scope: PeerScope::Public,
                    is_server: true,
                    received: Bytes(u64::MAX),
                    sent: Bytes(u64::MAX),
                    connections: u64::MAX,
                })
                .collect(),
            gpu: Some(StepGpu {
                held: Duration::MAX,
                ..StepGpu::default()
            }),
            run: Some(Box::new(RunName {
                launcher: text(300),
                key: text(301),
                pipeline: Some(text(302)),
            })),
            scheduler_labels: Some(Box::new(SchedulerLabels {
                trace_id: Some(text(303)),
                labels: labels.collect(),
            })),
            opt_in_detail: Some(Box::new(OptInDetail {
                arguments: (0..4).map(|n| text(400 + n)).collect(),
                files: (0..32).map(|n| (text(500 + n), u64::MAX)).collect(),
                files_left_out: u64::MAX,
            })),
            ..StepDetail::default()
        };
        StepUsage {
            id: StepId {
                kind: StepKind::EcsTask,
                key: format!("{seed} {}", text(600)),
            },
            name: text(601),
            started: BootClock::from_nanos(0),
            observed: BootClock::from_nanos(u64::MAX),
            end: StepEnd::OutOfMemory,
            processes: u64::MAX,
            cpu: CpuTime(u64::MAX - seed),
            peak_memory: Some(PeakMemory {
                bytes: Bytes(u64::MAX),
                source: MemorySource::CgroupSampled,
            }),
            disk_read: Some(Bytes(u64::MAX)),
            disk_written: Some(Bytes(u64::MAX)),
            requested: Requested {
                cores: Some(MilliCores(u64::MAX)),
                memory: Some(Bytes(u64::MAX)),
            },
            peak_cores: Some(MilliCores(u64::MAX)),
            last_progress: BootClock::from_nanos(0),
            tools: (0..16).map(tool).collect(),
            detail,
        }
    }

    fn with_steps(count: u64, text_bytes: usize) -> Heartbeat {
        let mut heartbeat = heartbeat("i-1", 7);
        heartbeat.steps = (0..count).map(|n| full_step(n, text_bytes)).collect();
        heartbeat
    }

    #[test]
    fn a_heartbeat_that_is_too_large_is_sent_with_fewer_details() {
        let check = |whole: &Heartbeat, steps: usize, shortened: u64| {
            let fitted = heartbeats(&sent(), std::slice::from_ref(whole)).expect("it goes");
            let read = decode_heartbeats(&fitted.body).expect("it reads");
            assert_eq!(read.refused_steps, 0);
            let [read] = read.heartbeats.as_slice() else {
                panic!("one heartbeat");
            };
            assert_eq!(
                (read.sequence, read.workload),
                (whole.sequence, whole.workload)
            );
            assert_eq!(read.steps.len(), steps);
            let left_out = OmittedSteps {
                steps: (whole.steps.len() - steps) as u64,
                shortened,
            };
            assert_eq!(fitted.left_out, left_out);
        };
        check(&with_steps(3, 20), 3, 0);
        // Open files of running tasks are never sent, but they count for the size.
        check(&with_steps(128, 20), 128, 128);
        // The names alone are larger than a message.
        check(&with_steps(128, 256), 64, 64);
        // More tasks than the contract allows, as in the spool of an older probe.
        check(&with_steps(1_000, 20), 128, 128);
        let mut of_gpus = with_steps(1, 20);
        of_gpus.detail.gpus = vec![GpuUse::default(); 10_000];
        check(&of_gpus, 1, 0);
        // The busiest tasks stay.
        let fitted = heartbeats(&sent(), &[with_steps(1_000, 10)]).expect("it goes");
        let read = decode_heartbeats(&fitted.body).expect("it reads");
        assert!(read.heartbeats[0].steps[0].id.key.starts_with("0 "));
    }

    #[test]
    fn a_large_heartbeat_does_not_shorten_the_others() {
        let all = [with_steps(1, 10), with_steps(128, 256), with_steps(1, 10)];
        let first = heartbeats(&sent(), &all).expect("it goes");
        assert_eq!((first.count, first.left_out), (1, OmittedSteps::default()));
        let second = heartbeats(&sent(), &all[1..]).expect("it goes");
        assert_eq!(second.count, 1);
        assert!(second.left_out.shortened > 0);
    }

    #[test]
    fn finished_steps_lose_details_and_none_is_left_out() {
        let whole = StepBatch {
            steps: (0..1_000).map(|n| full_step(n, 256)).collect(),
            ..batch("i-1")
        };
        let fitted = steps(&sent(), &whole).expect("it goes");
        let read = decode_steps(&fitted.body).expect("it reads");
        assert_eq!((read.batch.steps.len(), read.refused_steps), (1_000, 0));
        let left_out = OmittedSteps {
            steps: 0,
            shortened: 1_000,
        };
        assert_eq!(fitted.left_out, left_out);
        let ends = read.batch.steps.iter().map(|step| step.end);
        assert!(ends.into_iter().all(|end| end == StepEnd::OutOfMemory));
    }

    /// Every number in a value; the lake stores signed 64-bit numbers.
    fn numbers(value: &serde_json::Value, out: &mut Vec<u64>) {
        match value {
            serde_json::Value::Number(number) => out.extend(number.as_u64()),
            serde_json::Value::Array(all) => all.iter().for_each(|one| numbers(one, out)),
            serde_json::Value::Object(all) => all.values().for_each(|one| numbers(one, out)),
            _ => {}
        }
    }

    fn names() -> impl Strategy<Value = Vec<u8>> {
        let any_bytes = proptest::collection::vec(any::<u8>(), 0..40);
        let long = (0_usize..2_000, any::<u8>()).prop_map(|(count, byte)| vec![byte; count]);
        prop_oneof![any_bytes, long, Just(b"\x1b]0;x\x07\xff".to_vec())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Names with any bytes, any counters and any number of tasks.
        #[test]
        fn every_heartbeat_is_sent_and_accepted_by_the_reader(
            name in names(), key in names(), label in names(),
            count in 0_u64..200, text_bytes in 0_usize..300, counter in any::<u64>(),
            observed in any::<u64>(),
        ) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut whole = with_steps(count, text_bytes);
            for step in &mut whole.steps {
                step.name = text(&name);
                step.id.key += &text(&key);
                step.cpu = CpuTime(counter);
                step.observed = BootClock::from_nanos(observed);
                step.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
                    trace_id: Some(text(&label)),
                    labels: BTreeMap::from([(text(&label), text(&name))]),
                }));
            }
            whole.detail.masked_because = Some(text(&label));
            whole.probe.events_lost = counter;
            // A round trip through the format of the spool.
            let record = serde_json::to_vec(&whole).expect("written");
            let whole: Heartbeat = serde_json::from_slice(&record).expect("read");
            let fitted = heartbeats(&sent(), std::slice::from_ref(&whole)).expect("it goes");
            let read = decode_heartbeats(&fitted.body).expect("it reads");
            prop_assert_eq!(read.refused_steps, 0);
            let beat = &read.heartbeats[0];
            prop_assert_eq!(beat.sequence, whole.sequence);
            prop_assert_eq!(
                beat.steps.len() as u64 + fitted.left_out.steps,
                whole.steps.len() as u64
            );
            let mut all = Vec::new();
            numbers(&serde_json::to_value(beat).expect("a value"), &mut all);
            prop_assert!(all.iter().all(|number| i64::try_from(*number).is_ok()));

            let ended = StepBatch { steps: whole.steps.clone(), ..batch("i-1") };
            let fitted = steps(&sent(), &ended).expect("it goes");
            let read = decode_steps(&fitted.body).expect("it reads");
            prop_assert_eq!((read.batch.steps.len(), read.refused_steps), (whole.steps.len(), 0));
        }
    }
}
