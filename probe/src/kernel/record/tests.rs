//! Tests that the layouts match the eBPF programs and that records are read correctly.

use std::collections::BTreeMap;
use std::mem::offset_of;

use super::*;

const EVENT_H: &str = include_str!("../../../../ebpf/event.h");

/// The assertions in `event.h` about its structs, as `(struct.field, number)`.
fn asserted() -> BTreeMap<String, usize> {
    let claim = |line: &str| {
        let inner = line.strip_prefix("_Static_assert(")?;
        let (what, number) = inner.split_once(" == ")?;
        let (number, _) = number.split_once(',')?;
        let what = what
            .trim_start_matches("__builtin_offsetof(struct ")
            .trim_start_matches("sizeof(struct ")
            .trim_end_matches(')')
            .replace(", ", ".");
        Some((what, number.parse().ok()?))
    };
    EVENT_H.lines().filter_map(claim).collect()
}

#[test]
fn each_record_has_the_layout_that_the_kernel_half_asserts() {
    macro_rules! twins {
        ($($c:literal $rust:ident { $($field:ident)* })*) => {
            BTreeMap::from([$(
                ($c.to_owned(), size_of::<$rust>()),
                $((format!("{}.{}", $c, stringify!($field)), offset_of!($rust, $field)),)*
            )*])
        };
    }
    let mut ours = twins! {
        "ebb_head" Head { flags at_ns start_ns cgroup_id tgid ppid comm }
        "ebb_exec" Exec { maxrss_pages work_parent work_leaf uid }
        "ebb_exit" Exit { cpu_ns read_bytes write_bytes rss_pages hiwater_pages maxrss_pages exit_code }
        "ebb_finer" RawFiner { system_ns voluntary minor_faults run_queue_ns disk_delay_ns asked_read_bytes asked_write_bytes read_calls write_calls }
        "ebb_reap" Reap { finer }
        "ebb_socket" RawSocket { socket received_bytes sent_bytes retransmits }
        "ebb_task" Task { cpu_ns ended_cpu_ns anon_pages hiwater_pages maxrss_pages finer stack tid uid }
        "ebb_rested" Rested { tid }
    };
    ours.insert("ebb_cgroup".into(), size_of::<Head>() + PATH_BYTES);
    ours.insert("ebb_cgroup.path".into(), size_of::<Head>());
    assert_eq!(asserted(), ours);
}

#[test]
fn the_kinds_and_flags_have_the_numbers_of_the_kernel_half() {
    let check = |name: &str, number: u32| {
        let line = format!("\t{name} = {number},\n");
        assert!(EVENT_H.contains(&line), "{line}");
    };
    check("EBB_FORK", FORK);
    check("EBB_EXEC", EXEC);
    check("EBB_EXIT", EXIT);
    check("EBB_REAP", REAP);
    check("EBB_OOM", OOM);
    check("EBB_CGROUP", CGROUP);
    check("EBB_SOCKET", SOCKET);
    check("EBB_RESTED", RESTED);
    check("EBB_KINDS", KINDS);
    check("EBB_HAS_CGROUP", HAS_CGROUP);
    check("EBB_HAS_MM", HAS_MM);
    check("EBB_HAS_IO", HAS_IO);
    check("EBB_HAS_APART", HAS_APART);
    check("EBB_APART", APART);
    check("EBB_THREAD", THREAD);
    check("EBB_KTHREAD", KERNEL_THREAD);
    check("EBB_ZOMBIE", ZOMBIE);
    check("EBB_NEXTFLOW", NEXTFLOW);
    check("EBB_ON_CPU", ON_CPU);
    check("EBB_RUNNABLE", RUNNABLE);
    check("EBB_IO_WAIT", IO_WAIT);
    check("EBB_HAS_STACK", HAS_STACK);
    check("EBB_HAS_RUN_QUEUE", HAS_RUN_QUEUE);
    check("EBB_HAS_DISK_DELAY", HAS_DISK_DELAY);
    check("EBB_LOOPBACK", LOOPBACK);
    assert!(EVENT_H.contains(&format!("#define EBB_FRAMES {FRAMES}\n")));
}

#[test]
fn a_task_that_rested_is_named_or_told_as_before_where_that_was_kept() {
    let task = |tid: u32, cpu_ns: u64| {
        let mut task = Task::zeroed();
        (task.tid, task.cpu_ns) = (tid, cpu_ns);
        task
    };
    let before = [task(2, 20), task(5, 50)];
    let check = |told: &[Result<Task, u32>], expect: &[(u32, u64)], resting: &[u32]| {
        let mut bytes = Vec::new();
        for one in told {
            match one {
                Ok(task) => bytes.extend(bytemuck::bytes_of(task)),
                Err(tid) => {
                    let (kind, tid) = (RESTED, *tid);
                    bytes.extend(bytemuck::bytes_of(&Rested { kind, tid }));
                }
            }
        }
        for torn in 0..size_of::<Rested>() {
            bytes.resize(bytes.len() + torn.min(1), 0);
            let (got, rested) = tasks(&bytes, &before);
            let got: Vec<_> = got.iter().map(|t| (t.tid, t.cpu_ns)).collect();
            assert_eq!((&*got, &*rested), (expect, resting));
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
    let mut head: Head = Zeroable::zeroed();
    head.kind = EXIT;
    assert_eq!(event(bytemuck::bytes_of(&head)), None);
    head.kind = 99;
    assert_eq!(event(bytemuck::bytes_of(&head)), None);
    assert_eq!(event(&[1, 0, 0]), None);
}
