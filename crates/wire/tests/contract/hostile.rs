//! Messages that could harm the reader, and unusual names of programs.

use ebb_telemetry::safe_text::clean;
use ebb_telemetry::step::{OptInDetail, SchedulerLabels};
use ebb_wire::{MAX_DECODED_MESSAGE_BYTES, MAX_DECODED_OBJECT_BYTES};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::*;

/// A field that holds bytes.
fn part(tag: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(tag, WireType::LengthDelimited, &mut out);
    encode_varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

fn unpacked(body: &str) -> Vec<u8> {
    let (_, body) = body.split_once('\n').expect("a header");
    let packed = STANDARD.decode_to_vec(body).expect("base64");
    zstd::bulk::decompress(&packed, 1 << 20).expect("zstd")
}

fn message_of(plain: &[u8]) -> String {
    let packed = zstd::bulk::compress(plain, 3).expect("zstd");
    format!("ebb.heartbeat/1.5\n{}", STANDARD.encode_to_string(packed))
}

/// The fields of a message in front of `tag`, the first field with it, and what follows.
fn around(plain: &[u8], tag: u32) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let key = u8::try_from(tag << 3 | 2).expect("a small tag");
    let mut at = 0;
    while plain[at] != key {
        let mut rest = &plain[at..];
        let (_, kind) = prost::encoding::decode_key(&mut rest).expect("a key");
        match kind {
            WireType::Varint => drop(prost::encoding::decode_varint(&mut rest).expect("it is")),
            _ => {
                let length = prost::encoding::decode_varint(&mut rest).expect("a length");
                rest = &rest[usize::try_from(length).expect("small")..];
            }
        }
        at = plain.len() - rest.len();
    }
    let mut rest = &plain[at + 1..];
    let length = prost::encoding::decode_varint(&mut rest).expect("a length");
    let (inner, after) = rest.split_at(usize::try_from(length).expect("small"));
    (plain[..at].to_vec(), inner.to_vec(), after.to_vec())
}

/// A message of one heartbeat whose steps are `steps`, as bytes.
fn with_steps(steps: &[Vec<u8>]) -> String {
    let empty = Heartbeat {
        steps: Vec::new(),
        ..heartbeat()
    };
    let plain = unpacked(&encode_heartbeats(&sent(), &[empty]).expect("it fits"));
    let (before, heartbeat, _) = around(&plain, 2);
    let (front, probe, back) = around(&heartbeat, 15);
    let mut inner = front;
    steps.iter().for_each(|step| inner.extend(part(14, step)));
    inner.extend(part(15, &probe));
    inner.extend(back);
    message_of(&[before, part(2, &inner)].concat())
}

/// The bytes of a step.
fn step_bytes(step: &StepUsage) -> Vec<u8> {
    let one = Heartbeat {
        steps: vec![step.clone()],
        ..heartbeat()
    };
    let plain = unpacked(&encode_heartbeats(&sent(), &[one]).expect("it fits"));
    let (_, heartbeat, _) = around(&plain, 2);
    around(&heartbeat, 14).1
}

#[test]
fn a_step_that_cannot_be_read_is_left_out_and_the_rest_is_kept() {
    let good = step_bytes(&step());
    let check = |bad: Vec<u8>| {
        let read = decode_heartbeats(&with_steps(&[good.clone(), bad, good.clone()]));
        let read = read.expect("it reads");
        assert_eq!((read.heartbeats[0].steps.len(), read.refused_steps), (2, 1));
    };
    let named = |name: &[u8]| {
        let (before, _, after) = around(&good, 3);
        [before, part(3, name), after].concat()
    };
    check(named(b"a\x1b[31m"));
    check(named(b"\xff\xfe"));
    check(named(&[b'a'; 257]));
    let many = |tag: u32, list_tag: u32, count: usize| {
        let list = part(list_tag, b"").repeat(count);
        [good.clone(), part(19, &part(tag, &list))].concat()
    };
    check(many(15, 1, OptInDetail::MAX_ARGUMENTS + 1));
    check(many(15, 2, OptInDetail::MAX_PATHS + 1));
    check(many(14, 2, SchedulerLabels::MAX_LABELS + 1));
    check([good.clone(), part(18, b"").repeat(17)].concat());
}

#[test]
fn a_small_message_never_takes_more_memory_than_is_allowed() {
    // 128 steps of 128 empty arguments each: a few hundred bytes once packed.
    let list = part(1, b"").repeat(OptInDetail::MAX_ARGUMENTS);
    let step = [step_bytes(&step()), part(19, &part(15, &list))].concat();
    let body = with_steps(&vec![step; 128]);
    assert!(body.len() < 1_000, "{}", body.len());
    let read = decode_heartbeats(&body).expect("it reads");
    let steps = read
        .heartbeats
        .iter()
        .flat_map(|heartbeat| &heartbeat.steps);
    let memory: usize = steps.map(StepUsage::memory_bytes).sum();
    assert!(memory < MAX_DECODED_MESSAGE_BYTES / 4, "{memory}");

    let mut large = super::step();
    large.tools = vec![large.tools[0].clone(); 16];
    large
        .tools
        .iter_mut()
        .for_each(|tool| tool.name = "n".repeat(256));
    let count = MAX_DECODED_OBJECT_BYTES / large.memory_bytes() + 1;
    let batch = StepBatch {
        steps: vec![large; count],
        ..batch()
    };
    let error = encode_steps(&sent(), &batch).expect_err("too much");
    assert!(error.to_string().contains("memory of its steps"), "{error}");
}

#[test]
fn an_object_leaves_no_room_in_which_a_message_unpacks_to_more() {
    let object = encode_steps(&sent(), &batch()).expect("it fits");
    drop(decode_steps(&object).expect("it reads"));
    let error = decode_heartbeats(&message_of(&vec![0; 2 << 20])).expect_err("too much");
    assert!(
        error.to_string().contains("more than 1048576 bytes"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn whatever_a_probe_can_name_is_accepted(
        key in ".{0,300}", name in ".{0,300}", tool in ".{0,300}", text in ".{0,300}",
        label in ".{0,200}", count in 0_usize..40,
    ) {
        let mut one = step();
        one.id.key = key.clone();
        one.name = name.clone();
        one.tools[0].name = tool.clone();
        one.detail.run = Some(Box::new(RunName {
            launcher: text.clone(),
            key: text.clone(),
            pipeline: Some(text.clone()),
        }));
        one.detail.scheduler_labels = Some(Box::new(SchedulerLabels {
            trace_id: Some(text.clone()),
            labels: (0..count).map(|n| (format!("{n}{label}"), text.clone())).collect(),
        }));
        let opt_in_detail = OptInDetail {
            arguments: vec![text.clone(); count * 5],
            files: (0..count).map(|n| (format!("{n}{text}"), 1)).collect(),
            files_left_out: 0,
        };
        let mut heartbeat = heartbeat();
        heartbeat.detail.sampled_because = Some(text.clone());
        heartbeat.detail.gpus = vec![GpuUse { model: text, ..GpuUse::default() }];
        heartbeat.steps = vec![one.clone()];
        let body = encode_heartbeats(&sent(), &[heartbeat]).expect("it fits");
        let read = decode_heartbeats(&body).expect("it reads");
        prop_assert_eq!(read.refused_steps, 0);
        let of_step = &read.heartbeats[0].steps[0];
        prop_assert_eq!(&of_step.id.key, &clean(&key, 256));
        prop_assert_eq!(&of_step.name, &clean(&name, 256));
        prop_assert_eq!(&of_step.tools[0].name, &clean(&tool, 256));
        one.detail.opt_in_detail = Some(Box::new(opt_in_detail));
        let ended = StepBatch { steps: vec![one], ..batch() };
        let object = encode_steps(&sent(), &ended).expect("it fits");
        prop_assert_eq!(decode_steps(&object).expect("it reads").refused_steps, 0);
    }
}
