//! The fields that version 1.3 added.

use ebb_telemetry::step::{OptInDetail, SchedulerLabels};

use super::*;

const GOLDEN_HEARTBEATS_1_3: &str = include_str!("../golden/heartbeat-1.3.txt");

/// All that 1.3 added.
pub(super) fn heartbeat_of_one_three() -> Heartbeat {
    let mut heartbeat = heartbeat_of_one_two();
    let detail = &mut heartbeat.steps[0].detail;
    detail.scheduler_labels = Some(Box::new(SchedulerLabels {
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        labels: [("run".into(), "r7".into()), ("<b>".into(), "é".into())].into(),
    }));
    heartbeat
}

#[test]
fn version_one_three_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_3.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_of_one_three()]);
}

#[test]
fn what_one_three_added_is_read_back_whole() {
    let body = encode_heartbeats(&sent(), &[heartbeat_of_one_three()]).expect("it fits");
    let read = decode_heartbeats(&body).expect("it reads");
    assert_eq!(read.heartbeats, vec![heartbeat_of_one_three()]);
}

/// Data of ended tasks only.
fn opt_in_detail() -> OptInDetail {
    OptInDetail {
        arguments: vec!["bwa".into(), "mem".into(), String::new()],
        files: [("/data/ref".into(), 3)].into(),
        files_left_out: 1,
    }
}

#[test]
fn arguments_and_files_are_read_of_steps_that_ended_and_of_no_other() {
    let with_files = StepUsage {
        detail: StepDetail {
            opt_in_detail: Some(Box::new(opt_in_detail())),
            ..heartbeat_of_one_three().steps.remove(0).detail
        },
        ..step()
    };
    let batch = StepBatch {
        steps: vec![with_files.clone()],
        ..batch()
    };
    let object = encode_steps(&sent(), &batch).expect("it fits");
    assert_eq!(decode_steps(&object).expect("it reads").batch, batch);
    let running = Heartbeat {
        steps: vec![with_files],
        ..heartbeat()
    };
    let body = encode_heartbeats(&sent(), &[running]).expect("it fits");
    let read = decode_heartbeats(&body).expect("it reads");
    assert_eq!(read.heartbeats[0].steps[0].detail.opt_in_detail, None);
    assert_eq!(read.refused_steps, 0);
}
