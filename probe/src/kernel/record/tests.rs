//! Tests of the conversion of records, and of the generator of their types.

use super::*;
use bytemuck::Zeroable;

#[path = "../../../build/records.rs"]
mod generator;

const EVENT_H: &str = include_str!("../../../../ebpf/event.h");

#[test]
fn a_header_that_is_not_understood_is_refused() {
    let check = |old: &str, new: &str, expect: &str| {
        assert!(EVENT_H.contains(old), "{old}");
        let changed = EVENT_H.replace(old, new);
        match generator::generate(&changed) {
            Ok(_) => panic!("'{new}' was accepted"),
            Err(problem) => assert_eq!(problem, expect),
        }
    };
    let not_understood =
        |line: &str| format!("failed to read ebpf/event.h: '{line}' is not understood");
    check("__u32 tid;", "__u16 tid;", &not_understood("__u16 tid;"));
    check(
        "__u32 tid;",
        "__u32 tid : 3;",
        &not_understood("__u32 tid : 3;"),
    );
    check("EBB_FORK = 1,", "EBB_FORK,", &not_understood("EBB_FORK,"));
    check(
        "[EBB_FRAMES]",
        "[FRAMES]",
        &not_understood("__u64 stack[FRAMES];"),
    );
    check(
        "};\n\n/* A cgroup",
        "} __packed;\n\n/* A cgroup",
        &not_understood("} __packed;"),
    );
    let padding = "struct ebb_head needs padding before at_ns";
    check("\t__u32 flags;\n", "", padding);
    let at_end = "struct ebb_task needs padding at its end";
    check(
        "\t__u32 uid;\n};\n\n/* A task that",
        "};\n\n/* A task that",
        at_end,
    );
}

#[test]
fn each_field_has_the_offset_that_clang_is_asked_to_check() {
    let records = match generator::generate(EVENT_H) {
        Ok(records) => records,
        Err(problem) => panic!("{problem}"),
    };
    let check = |name: &str, offset: usize| {
        let claim = format!("__builtin_offsetof(struct {name}) == {offset}, ");
        assert!(records.assertions.contains(&claim), "{claim}");
    };
    check("ebb_head, comm", core::mem::offset_of!(RawHead, comm));
    check("ebb_exec, uid", core::mem::offset_of!(RawExec, uid));
    check(
        "ebb_reap, counters",
        core::mem::offset_of!(RawReap, counters),
    );
    check("ebb_cgroup, path", core::mem::offset_of!(RawCgroup, path));
    check("ebb_task, stack", core::mem::offset_of!(RawTask, stack));
    check("ebb_task, uid", core::mem::offset_of!(RawTask, uid));
    assert!(records.rust.contains("pub(super) struct RawTask {"));
    let size = format!("sizeof(struct ebb_task) == {}, ", size_of::<RawTask>());
    assert!(records.assertions.contains(&size), "{size}");
}

#[test]
fn an_unchanged_task_has_its_previous_values_or_is_named() {
    let task = |tid: u32, cpu_ns: u64| {
        let mut task = RawTask::zeroed();
        (task.tid, task.cpu_ns) = (tid, cpu_ns);
        task
    };
    let before = [task(2, 20), task(5, 50)];
    let check = |records: &[Result<RawTask, u32>], expect: &[(u32, u64)], resting: &[u32]| {
        let mut bytes = Vec::new();
        for one in records {
            match one {
                Ok(task) => bytes.extend(bytemuck::bytes_of(task)),
                Err(tid) => {
                    let (kind, tid) = (UNCHANGED, *tid);
                    bytes.extend(bytemuck::bytes_of(&RawUnchanged { kind, tid }));
                }
            }
        }
        for torn in 0..size_of::<RawUnchanged>() {
            bytes.resize(bytes.len() + torn.min(1), 0);
            let (got, unchanged) = tasks(&bytes, &before);
            let got: Vec<_> = got.iter().map(|t| (t.tid, t.cpu_ns)).collect();
            assert_eq!((&*got, &*unchanged), (expect, resting));
        }
    };
    check(&[], &[], &[]);
    check(&[Err(1), Err(2), Err(5)], &[(2, 20), (5, 50)], &[1]);
    check(
        &[Err(1), Ok(task(2, 21)), Err(5)],
        &[(2, 21), (5, 50)],
        &[1],
    );
    check(&[Err(5), Ok(task(7, 1)), Err(3)], &[(5, 50), (7, 1)], &[3]);
    // A container has its own task numbers.
    check(&[Err(5), Err(2), Err(3)], &[(5, 50), (2, 20)], &[3]);
}

#[test]
fn an_exit_code_is_a_signal_in_seven_bits_or_a_status_above_them() {
    let check = |code: u32, expect: ExitStatus| {
        assert_eq!(ExitStatus::from_kernel(code), expect, "{code:#x}");
    };
    check(0, ExitStatus::Code(0));
    check(0x0100, ExitStatus::Code(1));
    check(0xff00, ExitStatus::Code(255));
    check(9, ExitStatus::Signal(9));
    check(0x8b, ExitStatus::Signal(11));
}

#[test]
fn a_record_that_is_cut_short_or_of_no_known_kind_is_refused() {
    let mut head: RawHead = Zeroable::zeroed();
    head.kind = EXIT;
    assert_eq!(event(bytemuck::bytes_of(&head)), None);
    head.kind = 99;
    assert_eq!(event(bytemuck::bytes_of(&head)), None);
    assert_eq!(event(&[1, 0, 0]), None);
}
