//! What version 1.3 added.

use ebb_domain::step::{Handed, Opened};

use super::*;

const GOLDEN_HEARTBEATS_1_3: &str = include_str!("../golden/heartbeat-1.3.txt");

/// All that 1.3 added.
pub(super) fn heartbeat_of_one_three() -> Heartbeat {
    let mut heartbeat = heartbeat_of_one_two();
    let detail = &mut heartbeat.steps[0].detail;
    detail.handed = Some(Box::new(Handed {
        trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
        labels: [("run".into(), "r7".into()), ("<b>".into(), "é".into())].into(),
    }));
    detail.opened = Some(Box::new(Opened {
        arguments: vec!["bwa".into(), "mem".into(), String::new()],
        files: [("/data/ref".into(), 3)].into(),
        files_left_out: 1,
    }));
    heartbeat
}

#[test]
fn version_one_three_heartbeats_written_long_ago_are_still_read() {
    let message = decode_heartbeats(GOLDEN_HEARTBEATS_1_3.trim_end()).expect("the golden message");
    assert_eq!(message.heartbeats, vec![heartbeat_of_one_three()]);
}

#[test]
fn what_one_three_added_is_read_back_whole_and_bounded() {
    let body = encode_heartbeats(&sent(), &[heartbeat_of_one_three()]).expect("it fits");
    let read = decode_heartbeats(&body).expect("it reads");
    assert_eq!(read.heartbeats, vec![heartbeat_of_one_three()]);
    let check = |change: fn(&mut StepDetail), expect: &str| {
        let mut heartbeat = heartbeat_of_one_three();
        change(&mut heartbeat.steps[0].detail);
        let body = encode_heartbeats(&sent(), &[heartbeat]).expect("it fits");
        let error = decode_heartbeats(&body).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error} should say: {expect}");
    };
    check(
        |d| label(d, "k", &"v".repeat(129)),
        "handed.labels.value: more than 128 bytes",
    );
    check(
        |d| label(d, &"k".repeat(65), "v"),
        "handed.labels.key: more than 64 bytes",
    );
    check(
        |d| label(d, "k", "a\u{1b}[2J"),
        "it holds a control character",
    );
    check(
        |d| (0..16).for_each(|n| label(d, &n.to_string(), "v")),
        "labels of a step: 18 are more than the 16 allowed",
    );
    check(
        |d| opened(d).arguments = vec!["a".repeat(200); 6],
        "bytes of a step's arguments",
    );
    check(
        |d| opened(d).files = (0..33).map(|n| (format!("/{n}"), 1)).collect(),
        "paths of a step: 33 are more than the 32 allowed",
    );
}

fn label(detail: &mut StepDetail, key: &str, value: &str) {
    let handed = detail.handed.as_mut().expect("it was handed something");
    handed.labels.insert(key.into(), value.into());
}

fn opened(detail: &mut StepDetail) -> &mut Opened {
    detail.opened.as_mut().expect("it tells of files")
}
