//! Compares reports about known work with `wait4` and with the counts of the work itself.

use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Duration;

use ebb_telemetry::step::{MemorySource, Namespace, Namespaces, StepEnd, StepUsage, TaskState};
use ebb_telemetry::units::Bytes;
use ebb_test_support::skip;
use serde::Deserialize;

use crate::machine::{Limit, Task, needs_ebpf};
use crate::probe::{Probe, Sink};

/// Runs a script in a task's cgroups. Prints the kernel's resource use of the script and its
/// children, and the use of its process before the program began.
const WAIT4: &str = "\
import json, os, resource, sys
*cgroups, script = sys.argv[1:]
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    for cgroup in cgroups:
        with open(cgroup + '/cgroup.procs', 'w') as procs: procs.write('0')
    used = resource.getrusage(resource.RUSAGE_SELF)
    os.write(writer, str(used.ru_utime + used.ru_stime).encode())
    os.execvp('sh', ['sh', '-c', script])
_, _, used = os.wait4(pid, 0)
print(json.dumps({'cpu_seconds': used.ru_utime + used.ru_stime, 'max_rss_kib': used.ru_maxrss,
    'before_seconds': float(os.read(reader, 100))}))";

/// This much work; `make kernels` reduces it on an emulated machine.
fn parted(work: u64) -> u64 {
    let part = std::env::var("EBB_TEST_DIVISOR").ok();
    work / part.map_or(1, |part| part.parse().expect("a number"))
}

/// Forks as fast as it can; each child runs for about ten microseconds.
const FORKS: &str = "exec perl -e \
    'for (1..COUNT) { my $child = fork // die; exit 0 if !$child; waitpid $child, 0 } exit 5'";

#[derive(Deserialize)]
pub(crate) struct Used {
    cpu_seconds: f64,
    before_seconds: f64,
    max_rss_kib: u64,
}

/// Runs scripts in parallel, each as a task of its own. Returns each task with the result of
/// `wait4`, and the number of lost events.
pub(crate) fn run(scripts: &[(Option<Limit>, &str)]) -> (Vec<(StepUsage, Used)>, u64) {
    let sink = Sink::new();
    let probe = Probe::start(&sink, &[]);
    let start = |(limit, script): &(Option<Limit>, &str)| {
        let task = Task::new(*limit);
        let child = Command::new("python3")
            .args(["-c", WAIT4])
            .args(task.folders())
            .arg(script)
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        (task, child)
    };
    let running: Vec<_> = scripts.iter().map(start).collect();
    let done: Vec<(String, Used)> = running
        .into_iter()
        .map(|(task, child)| {
            let output = child.wait_with_output().expect("it ends");
            let used = serde_json::from_slice(&output.stdout).expect("what wait4 said");
            (task.id.clone(), used)
        })
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    probe.stop();
    let mut records = sink.read();
    let lost = records.heartbeats.iter().map(|h| h.probe.events_lost).max();
    let steps = done.into_iter().map(|(id, used)| {
        let found = records.ended.iter().position(|step| step.id.key == id);
        let found = found.unwrap_or_else(|| panic!("no step {id} among {:#?}", records.ended));
        (records.ended.swap_remove(found), used)
    });
    (steps.collect(), lost.unwrap_or_default())
}

/// Whether two amounts differ by at most this share, or by at most this amount.
fn near(got: f64, expect: f64, part: f64, at_most: f64) -> bool {
    (got - expect).abs() <= (expect * part).max(at_most)
}

pub(crate) fn cpu_and_memory_are_those_that_wait4_tells() {
    needs_ebpf();
    let busy = format!(
        "i=0; while [ $i -lt {} ]; do i=$((i+1)); done; \
         dd if=/dev/urandom of=/dev/null bs=1M count={} 2>/dev/null",
        parted(1_500_000),
        parted(200),
    );
    let large = "head -c 150M /dev/zero | tail -n 1 >/dev/null";
    let many = "n=0; while [ $n -lt 300 ]; do /bin/true; n=$((n+1)); done";
    let (steps, _) = run(&[(None, &busy), (None, large), (None, many)]);
    for (step, used) in &steps {
        let cpu = step.cpu.as_secs_f64();
        // Use before the process entered the cgroup counts only if no scan contained it before.
        let expect = cpu.clamp(used.cpu_seconds - used.before_seconds, used.cpu_seconds);
        assert!(
            near(cpu, expect, 0.01, 0.01),
            "{cpu} s of CPU, wait4 says {} and {} before",
            used.cpu_seconds,
            used.before_seconds
        );
        let (user, system) = (step.detail.user_cpu, step.detail.system_cpu);
        let parts = user.zip(system).map(|(u, s)| u.saturating_add(s));
        assert!(
            parts.is_none_or(|sum| sum == step.cpu),
            "{user:?} {system:?}"
        );
    }
    let (step, used) = &steps[1];
    let tail = step.tools.iter().find(|tool| tool.name == "tail");
    let peak = tail.and_then(|tool| tool.peak_memory).expect("seen").0 as f64;
    let expect = (used.max_rss_kib << 10) as f64;
    let source = step.peak_memory.map(|peak| peak.source).expect("seen");
    eprintln!("peak memory: {source:?}");
    let bound = source == MemorySource::MaxRssUpperBound;
    assert!(
        bound || near(peak, expect, 0.02, f64::from(1 << 20)),
        "{peak} bytes, wait4 says {expect}"
    );
    let switches = steps[2].0.detail.voluntary_switches.expect("a value");
    assert!(switches >= 300, "a shell waits for each: {switches}");
    let faults = step.detail.minor_faults.expect("a value");
    assert!(faults > 1_000, "150 MB came page by page: {faults}");
}

pub(crate) fn direct_writes_and_reads_are_exact_to_the_byte() {
    needs_ebpf();
    const MIB: u32 = 48;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("data").display().to_string();
    let write = format!(
        "dd if=/dev/zero of={file} bs=1M count={MIB} oflag=direct conv=notrunc 2>/dev/null"
    );
    let read = format!("dd if={file} of=/dev/null bs=1M iflag=direct 2>/dev/null");
    let script = format!("{write} && {read}");
    // A first run loads the programs into memory and allocates the blocks of the file. The
    // writes of the allocation are no payload.
    let done = Command::new("sh").args(["-c", &script]).status();
    if !done.is_ok_and(|status| status.success()) {
        skip(format_args!("the disk of {file} takes no direct writes"));
    }
    let expect = Bytes::mib(MIB.into());
    // A machine without free memory sometimes reads pages of programs again.
    let mut tries = std::iter::repeat_with(|| run(&[(None, &script)]).0).take(6);
    let whole = tries.find(|steps| steps[0].0.disk_read == Some(expect));
    let (step, _) = &whole.expect("as many bytes as were requested")[0];
    // A write changes the times of the file. The task that makes their block dirty is charged
    // for it.
    let written = step.disk_written.expect("seen").0;
    let times = [0, 4096].map(|bytes| expect.0 + bytes);
    assert!(times.contains(&written), "{written} bytes, not {times:?}");
    // Calls on the file, /dev/zero and /dev/null, and some to load programs and to print the
    // result.
    let io = step.detail.syscall_io.expect("a value");
    let both = expect.0 * 2;
    assert!((both..both + (1 << 20)).contains(&io.read.0), "{io:?}");
    let calls = u64::from(MIB) * 2;
    let near = (both..both + 1_024).contains(&io.written.0)
        && (calls..calls + 20).contains(&io.write_calls)
        && (calls + 1..calls + 100).contains(&io.read_calls);
    assert!(near, "{io:?}");
}

pub(crate) fn a_step_of_which_nothing_comes_is_told_from_one_that_writes_a_line_now_and_then() {
    needs_ebpf();
    let spins = "exec perl -e '1 while time - $^T < 25'";
    let writes = "exec perl -e '$| = 1; my $printed = 0; while ((my $now = time - $^T) < 25) \
        { if ($now != $printed) { $printed = $now; print qq(line\n) } }' >/dev/null";
    let (steps, _) = run(&[(None, spins), (None, writes)]);
    let longest = |n: usize| {
        let detail = &steps[n].0.detail;
        assert_eq!(detail.user, Some(rustix::process::getuid().as_raw()));
        let held = detail.memory_now.is_some_and(|held| held > Bytes(0));
        assert!(detail.threads >= Some(1) && held, "{detail:?}");
        detail.cpu_without_progress.expect("a value").longest
    };
    let (spun, wrote) = (longest(0), longest(1));
    let one_scan = Duration::from_secs(9);
    assert!(spun > one_scan && wrote < one_scan, "{spun:?}, {wrote:?}");
}

pub(crate) fn each_ends_as_it_ended_and_only_the_victim_ran_out_of_memory() {
    needs_ebpf();
    let limit = Limit {
        memory: Bytes::mib(32),
    };
    let limit = match limit.holds_here() {
        Ok(()) => Some(limit),
        Err(reason) => {
            eprintln!("no victim: {reason}");
            None
        }
    };
    let hungry = "sleep 2; head -c 120M /dev/zero | tail -n 1 >/dev/null";
    let victim = match limit {
        Some(_) => StepEnd::OutOfMemory,
        None => StepEnd::Exited(0),
    };
    let cases = [
        (limit, hungry, victim),
        (None, hungry, StepEnd::Exited(0)),
        (None, "exit 0", StepEnd::Exited(0)),
        (None, "exit 1", StepEnd::Exited(1)),
        (None, "exit 255", StepEnd::Exited(255)),
        (None, "kill -9 $$", StepEnd::Signalled(9)),
        (None, "kill -15 $$", StepEnd::Signalled(15)),
        (None, "kill -11 $$", StepEnd::Signalled(11)),
    ];
    let scripts: Vec<_> = cases
        .iter()
        .map(|(limit, script, _)| (*limit, *script))
        .collect();
    let (steps, _) = run(&scripts);
    for ((_, script, expect), (step, _)) in cases.iter().zip(&steps) {
        assert_eq!(step.end, *expect, "{script}");
        let kills = step.tools.iter().filter_map(|tool| tool.events);
        let kills: u64 = kills.map(|events| events.oom_kills).sum();
        let is_victim = u64::from(*expect == StepEnd::OutOfMemory);
        assert_eq!(kills, is_victim, "{script}: {:?}", step.tools);
    }
}

pub(crate) fn each_executable_says_when_it_ran_and_how_often_it_failed() {
    needs_ebpf();
    let script = "sleep 1; ls / >/dev/null; ls /none 2>/dev/null; ls /none 2>/dev/null; sleep 2";
    let (steps, _) = run(&[(None, script)]);
    let check = |name: &str, failed: u64, from: Range<f64>, to: Range<f64>| {
        let tools = &steps[0].0.tools;
        let tool = tools.iter().find(|tool| tool.name == name);
        let events = tool.and_then(|tool| tool.events).expect("it ran");
        let begin = events.started_after.as_secs_f64();
        let end = events.ended_after.expect("it ended").as_secs_f64();
        assert!(
            from.contains(&begin) && to.contains(&end),
            "{name}: {events:?}"
        );
        assert_eq!((events.failed, events.oom_kills), (failed, 0), "{name}");
    };
    check("sleep", 0, 0.0..1.0, 3.0..9.0);
    check("ls", 2, 1.0..4.0, 1.0..4.0);
}

pub(crate) fn processes_of_under_a_millisecond_are_all_counted() {
    needs_ebpf();
    let count = parted(50_000);
    let (steps, lost) = run(&[(None, &FORKS.replace("COUNT", &count.to_string()))]);
    let (step, _) = &steps[0];
    assert_eq!((step.processes, step.end), (count + 1, StepEnd::Exited(5)));
    assert_eq!(lost, 0);
}

pub(crate) fn a_step_says_what_it_waited_for() {
    needs_ebpf();
    let accept = "timeout 6 perl -MIO::Socket -e \
        'IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\")->accept'";
    let cases = [
        ("exec sleep 6", TaskState::Timer, "sleep"),
        (accept, TaskState::Network, "perl"),
        ("sleep 6 | cat", TaskState::Pipe, "cat"),
        ("sleep 6 & wait", TaskState::Timer, "sleep"),
        (
            "timeout 6 sh -c 'while :; do :; done'",
            TaskState::Running,
            "",
        ),
        // A file system whose server never answers.
        (
            "m=$(mktemp -d); exec 3<>/dev/fuse
            mount -t fuse none $m -o fd=3,rootmode=40000,user_id=0,group_id=0
            timeout -s KILL 6 cat $m/x; umount -l $m; rmdir $m",
            TaskState::RemoteFileSystem,
            "cat",
        ),
    ];
    let scripts = cases.map(|(script, ..)| (None, script));
    let (steps, _) = run(&scripts);
    for ((script, expect, waits), (step, _)) in cases.iter().zip(&steps) {
        let states = &step.detail.states;
        if states.is_empty() {
            skip("this kernel lets no stacks be read");
        }
        let of = |state| states.get(state).map_or(0, |sampled| sampled.samples);
        let busy = of(&TaskState::Running) + of(&TaskState::Runnable);
        let all: u64 = states.values().map(|sampled| sampled.samples).sum();
        let (in_state, of_all) = match expect {
            // On an overloaded machine it often waits for a core.
            TaskState::Running => (busy, all),
            // On an emulated machine, programs take seconds to start.
            state => (of(state), all - busy),
        };
        assert!(in_state * 2 > of_all, "{script}: {states:?}");
        let mut tools = step.detail.waiting_tools.iter();
        let tool = tools.find(|one| one.state == *expect);
        let tool = tool.map_or("", |one| one.tool.as_str());
        assert_eq!(tool, *waits, "{script}");
    }
}

pub(crate) fn a_step_says_in_which_namespaces_it_was_apart() {
    needs_ebpf();
    let cases = [
        ("exec sleep 3", 0),
        // A process that no scan contains.
        ("unshare --mount --uts --ipc true", 0b011_0001),
        ("unshare --net --pid --fork sleep 3", 0b000_0110),
        ("exec unshare --user --cgroup sleep 3", 0b100_1000),
    ];
    let scripts = cases.map(|(script, _)| (None, script));
    let (steps, _) = run(&scripts);
    let namespaces = |n: usize| steps[n].0.detail.namespaces.expect("seen");
    // This test may itself run in namespaces other than the node's.
    let own = namespaces(0);
    for (n, (script, bits)) in cases.iter().enumerate() {
        assert_eq!(
            namespaces(n),
            own.or(Namespaces::from_bits(*bits)),
            "{script}"
        );
    }
    let link = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    if let (Some(first), Some(this)) = (link("1"), link("self")) {
        let apart = own.kinds().any(|kind| kind == Namespace::Mount);
        assert_eq!(apart, first != this);
    }
    eprintln!("apart itself: {own:?}");
}
