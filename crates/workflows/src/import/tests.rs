//! Files of engines and schedulers, written here from the documented formats.

use ebb_model::advice::bottleneck::Binding;
use ebb_model::advice::step::NameForm;
use ebb_model::step_profile::failure::FailureKind;
use ebb_model::step_profile::tasks::RequestBasis;
use ebb_telemetry::units::{MilliCores, Share};

use std::time::Duration;

use super::pattern::PathPattern;
use super::*;

/// Named files of one import.
struct Files {
    import: Import,
    bad: Vec<BadLine>,
}

impl Files {
    fn new() -> Self {
        Self {
            import: Import::default(),
            bad: Vec::new(),
        }
    }

    fn with(mut self, kind: Kind, path: &str, text: &str) -> Self {
        let source = Source {
            path,
            kind: Some(kind),
            modified: None,
        };
        let bytes = io::Cursor::new(text.to_owned().into_bytes());
        let bad = self.import.read(&source, bytes, |_| ()).expect("a file");
        self.bad.extend(bad.first);
        self
    }

    fn advice(self) -> Vec<StepAdvice> {
        self.import.finish().advice(None)
    }

    fn only(self) -> StepAdvice {
        let advice = self.advice();
        assert_eq!(advice.len(), 1, "{advice:?}");
        advice.into_iter().next().expect("one")
    }
}

const HEAD: &str = "task_id\thash\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\t\
    peak_rss\tcpus\tmemory\ttime\tattempt\trchar\n";

/// A row of a trace.
#[derive(Clone)]
struct Task {
    number: u32,
    hash: String,
    name: String,
    status: &'static str,
    exit: &'static str,
    minutes: u32,
    cpu_percent: f64,
    peak: String,
    cpus: u32,
    memory: &'static str,
    attempt: u32,
}

impl Task {
    fn well(number: u32, name: &str) -> Self {
        Self {
            number,
            hash: format!("ab/{number:06x}"),
            name: name.to_owned(),
            status: "COMPLETED",
            exit: "0",
            minutes: 10,
            cpu_percent: 98.0,
            peak: "2 GB".to_owned(),
            cpus: 4,
            memory: "8 GB",
            attempt: 1,
        }
    }

    fn failed(number: u32, name: &str, exit: &'static str) -> Self {
        Self {
            status: "FAILED",
            exit,
            ..Self::well(number, name)
        }
    }

    fn row(&self) -> String {
        let hour = 8 + self.number / 60;
        format!(
            "{}\t{}\t{}\t{}\t{}\t2026-03-01 {hour:02}:{:02}:00.000\t{}m\t{}m\t{}%\t{}\t{}\t{}\t4h\t{}\t1 GB\n",
            self.number,
            self.hash,
            self.name,
            self.status,
            self.exit,
            self.number % 60,
            self.minutes,
            self.minutes,
            self.cpu_percent,
            self.peak,
            self.cpus,
            self.memory,
            self.attempt,
        )
    }
}

fn trace(tasks: &[Task]) -> String {
    let rows: String = tasks.iter().map(Task::row).collect();
    format!("{HEAD}{rows}")
}

/// Files with a trace that lacks the column `attempt`.
fn without_attempt(tasks: &[Task]) -> Files {
    let rows = trace(tasks);
    let cut = rows.lines().map(|line| {
        let mut fields: Vec<&str> = line.split('\t').collect();
        fields.remove(13);
        fields.join("\t") + "\n"
    });
    Files::new().with(Kind::Nextflow, "t", &cut.collect::<String>())
}

fn read(tasks: &[Task]) -> Files {
    Files::new().with(Kind::Nextflow, "trace.txt", &trace(tasks))
}

#[test]
fn a_line_that_ends_early_is_refused() {
    let text = trace(&[Task::well(1, "CALL (a)"), Task::well(2, "CALL (b)")]);
    let end = text
        .find("\tCOMPLETED\t0\t2026-03-01 08:02")
        .expect("the second");
    let cut = &text[..end + "\tCOMPLET".len()];
    let files = Files::new().with(Kind::Nextflow, "trace.txt", cut);
    let problem = files.bad[0].to_string();
    assert!(problem.contains("the line ends early"), "{problem}");
    assert_eq!(files.only().runs, 1);
}

#[test]
fn a_request_is_that_of_first_attempts_and_not_of_the_newest_row() {
    let mut tasks: Vec<Task> = (0..21)
        .map(|n| Task {
            cpus: 12,
            memory: "36 GB",
            ..Task::well(n, &format!("CALL (s{n})"))
        })
        .collect();
    for n in 0..12 {
        let name = format!("CALL (s{n})");
        tasks[n as usize] = Task {
            cpus: 12,
            memory: "36 GB",
            ..Task::failed(n, &name, "143")
        };
        tasks.push(Task {
            attempt: 2,
            cpus: 24,
            memory: "72 GB",
            ..Task::well(100 + n, &name)
        });
    }
    let step = read(&tasks).only();
    assert_eq!(step.asks.cores, Some(MilliCores::cores(12)));
    assert_eq!(step.asks.memory, Some(Bytes::gib(36)));
    assert_eq!(step.present.basis, RequestBasis::Same);
    assert!(step.should_ask.cores <= step.asks.cores);
    let failures = &step.failures;
    assert_eq!(
        (failures[0].kind, failures[0].attempts, failures[0].retried),
        (FailureKind::Terminated, 12, 12)
    );
    assert_eq!(failures[0].lost_seconds, 12 * 600);
    assert_eq!((step.usage.map(|u| (u.tasks, u.attempts))), Some((21, 33)));
}

#[test]
fn first_attempts_that_were_killed_count_against_the_request() {
    let mut tasks = Vec::new();
    for n in 0..30 {
        let name = format!("SORT (s{n})");
        if n % 3 > 0 {
            tasks.push(Task {
                peak: format!("{} MB", 5_000 + 40 * n),
                ..Task::well(n, &name)
            });
            continue;
        }
        tasks.push(Task::failed(n, &name, "137"));
        tasks.push(Task {
            attempt: 2,
            memory: "16 GB",
            peak: format!("{} MB", 9_000 + 60 * n),
            ..Task::well(100 + n, &name)
        });
    }
    let step = read(&tasks).only();
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
    assert_eq!(
        (step.present.tasks(), step.present.out_of_memory()),
        (30, 10)
    );
    // All tasks fit into the recommended request, which is less than the doubled request of the
    // retry.
    let advised = step.should_ask.memory.expect("a size");
    assert!(
        advised > Bytes::mib(10_740) && advised < Bytes::gib(16),
        "{advised}"
    );
    assert_eq!(step.bound.by, Some(Binding::Memory));
}

#[test]
fn retries_are_no_first_attempts_also_with_more_tasks_than_are_kept() {
    const TASKS: u32 = 600;
    let mut all: Vec<Task> = (0..TASKS)
        .map(|number| {
            let name = format!("ALN (s{number})");
            match number % 8 {
                0 => Task::failed(number, &name, "137"),
                _ => Task::well(number, &name),
            }
        })
        .collect();
    let retries = (0..TASKS).step_by(8).map(|number| Task {
        hash: format!("cd/{number:06x}"),
        memory: "16 GB",
        peak: "9 GB".to_owned(),
        attempt: 2,
        number: TASKS + number / 8,
        ..Task::well(number, &format!("ALN (s{number})"))
    });
    all.extend(retries);
    let step = read(&all).only();
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
    assert!(step.should_ask.memory > Some(Bytes::gib(8)), "{step:?}");
    let counts = &step.present.counts;
    assert!(
        counts
            .iter()
            .all(|one| one.request.memory == Some(Bytes::gib(8))),
        "{counts:?}"
    );
    let share = step.present.out_of_memory() * 100 / step.present.tasks();
    assert!((10..=15).contains(&share), "{share} %");
}

#[test]
fn a_task_with_many_attempts_does_not_displace_large_peaks() {
    let mut all: Vec<Task> = (0..500)
        .map(|number| Task {
            peak: if number < 8 { "6 GB" } else { "1 GB" }.to_owned(),
            ..Task::well(number, &format!("ALN (s{number})"))
        })
        .collect();
    all.extend((1..=11).map(|attempt| Task {
        peak: "7 GB".to_owned(),
        attempt,
        ..match attempt {
            11 => Task::well(8, "ALN (s8)"),
            _ => Task::failed(8, "ALN (s8)", "1"),
        }
    }));
    let step = read(&all).only();
    assert!(step.should_ask.memory > Some(Bytes::gib(6)), "{step:?}");
}

#[test]
fn why_an_attempt_failed_shows_in_its_status_and_its_retry() {
    let check = |exit: &'static str, memory: &'static str, peak: &str, expect: FailureKind| {
        let first = Task::failed(1, "CALL (a)", exit);
        let second = Task {
            attempt: 2,
            memory,
            peak: peak.to_owned(),
            ..Task::well(2, "CALL (a)")
        };
        let step = read(&[first, second]).only();
        let kinds: Vec<_> = step.failures.iter().map(|count| count.kind).collect();
        assert_eq!(kinds, [expect], "{exit} {memory} {peak}");
    };
    check("137", "16 GB", "9 GB", FailureKind::OutOfMemory);
    // The same memory was enough, so something else killed it.
    check("137", "8 GB", "2 GB", FailureKind::Killed);
    // A Java heap error ends with 1.
    check("1", "16 GB", "9 GB", FailureKind::SuspectedOutOfMemory);
    check("1", "16 GB", "1 GB", FailureKind::Error);
    check("1", "8 GB", "7 GB", FailureKind::Error);
    // Both signals also come from a limit of memory; the time limit was four hours.
    check("140", "16 GB", "9 GB", FailureKind::SuspectedOutOfMemory);
    check("143", "16 GB", "9 GB", FailureKind::SuspectedOutOfMemory);
    check("140", "8 GB", "2 GB", FailureKind::Terminated);
    // The retry did not need more than the request before.
    check("143", "16 GB", "7 GB", FailureKind::Terminated);
    check("104", "8 GB", "1 GB", FailureKind::ConnectionReset);
    check("175", "8 GB", "1 GB", FailureKind::StorageFailed);
    check("2147483647", "8 GB", "1 GB", FailureKind::NoExitStatus);
    check("-", "8 GB", "1 GB", FailureKind::NoExitStatus);
}

#[test]
fn three_resumes_are_one_run_of_the_same_tasks() {
    let first: Vec<Task> = (0..6)
        .map(|n| Task::well(n, &format!("QC (s{n})")))
        .collect();
    let cached: Vec<Task> = first
        .iter()
        .map(|task| Task {
            status: "CACHED",
            ..task.clone()
        })
        .collect();
    let mut files = read(&first);
    for n in 2..5 {
        files = files.with(Kind::Nextflow, &format!("trace-{n}.txt"), &trace(&cached));
    }
    let imported = files.import.finish();
    assert_eq!(imported.runs, ["trace.txt"]);
    let step = &imported.advice(None)[0];
    assert_eq!((step.runs, step.usage.map(|u| u.tasks)), (6, Some(6)));
    assert_eq!(step.risk.basis.map(|basis| basis.runs), Some(1));
}

#[test]
fn a_task_that_failed_before_a_resume_is_the_task_that_ended_well_after_it() {
    let name = |n: u32| format!("QC (s{n})");
    let first: Vec<Task> = (0..4)
        .map(|n| match n {
            0 | 1 => Task::well(n, &name(n)),
            _ => Task::failed(n, &name(n), "1"),
        })
        .collect();
    let second: Vec<Task> = (0..4)
        .map(|n| match n {
            0 | 1 => Task {
                status: "CACHED",
                ..Task::well(n, &name(n))
            },
            _ => Task::well(n + 100, &name(n)),
        })
        .collect();
    let files = read(&first).with(Kind::Nextflow, "resumed.txt", &trace(&second));
    let step = files.only();
    assert_eq!(step.usage.map(|usage| usage.tasks), Some(4));
    assert_eq!((step.runs, step.failed), (6, 2));
}

#[test]
fn a_task_that_was_killed_with_little_memory_did_not_run_out_of_it() {
    let check = |seconds: u64, peak: &str, expect: FailureKind| {
        let text = format!(
            "name\tstatus\texit\trealtime\tpeak_rss\tmemory\nA (1)\tFAILED\t137\t{seconds}s\t{peak}\t64 GB\n"
        );
        let imported = Files::new()
            .with(Kind::Nextflow, "t", &text)
            .import
            .finish();
        let failures = &imported.steps[0].failures;
        assert_eq!(failures[0].kind, expect, "{seconds} {peak}");
    };
    check(600, "200 MB", FailureKind::Killed);
    check(600, "60 GB", FailureKind::OutOfMemory);
    check(600, "-", FailureKind::OutOfMemory);
    check(20, "200 MB", FailureKind::OutOfMemory);
}

#[test]
fn a_time_limit_grows_where_it_was_reached_and_shrinks_only_after_three_runs() {
    const HEAD: &str = "name\tstatus\texit\tsubmit\tstart\tcomplete\tduration\trealtime\ttime\n";
    let check = |runs: u32, times: &str, expect_minutes: u64| {
        let mut files = Files::new();
        for run in 0..runs {
            let rows = (0..5).map(|n| format!("QC (s{n})\t{times}\t4h\n"));
            let text = format!("{HEAD}{}", rows.collect::<String>());
            files = files.with(Kind::Nextflow, &format!("run-{run}/trace.txt"), &text);
        }
        let limit = files.only().time_limit.expect("a limit");
        assert_eq!(limit.should_ask.as_secs() / 60, expect_minutes, "{times}");
    };
    let at = |time: &str| format!("2026-03-01 {time}:00.000");
    let (submit, start) = (at("08:00"), at("09:00"));
    let well = |complete: &str, rest: &str| {
        let complete = at(complete);
        format!("COMPLETED\t0\t{submit}\t{start}\t{complete}\t{rest}")
    };
    // Five minutes of work, thirty five for files, and an hour in the queue.
    check(3, &well("09:40", "1h 40m\t5m"), 120);
    check(2, &well("09:40", "1h 40m\t5m"), 240);
    check(3, &well("09:06", "1h 6m\t5m"), 60);
    // The longest task took more than half of the limit.
    check(1, &well("11:10", "3h 10m\t5m"), 270);
    // Without start and complete the time since submission is used: five hours are no smaller limit.
    let unknown = format!("COMPLETED\t0\t{submit}\t-\t-");
    check(3, &format!("{unknown}\t1h 40m\t5m"), 240);
    // Only the time of the command itself is known.
    check(3, &format!("{unknown}\t-\t5m"), 240);
    // Killed by the time limit.
    let killed = format!("FAILED\t140\t{submit}\t{submit}\t{}\t4h\t4h", at("12:00"));
    check(1, &killed, 480);
}

#[test]
fn failed_attempts_count_for_a_time_limit_unless_they_hung() {
    const HEAD: &str = "name\tstatus\texit\tstart\tcomplete\trealtime\ttime\tattempt\n";
    let at = |hour: u64| format!("2026-03-{:02} {:02}:00:00.000", 1 + hour / 24, hour % 24);
    let row = |name: &str, end: (&str, &str), hours: u64, attempt: u32| {
        let (status, exit) = end;
        let (from, to) = (
            at(48 * u64::from(attempt)),
            at(48 * u64::from(attempt) + hours),
        );
        format!("{name}\t{status}\t{exit}\t{from}\t{to}\t{hours}h\t24h\t{attempt}\n")
    };
    let well = ("COMPLETED", "0");
    let check = |samples: usize, more: &str, expect: u64| {
        let mut files = Files::new();
        for run in 0..3 {
            let rows = (0..samples).map(|n| row(&format!("OK (s{n})"), well, 1, 1));
            let text = format!("{HEAD}{}{more}", rows.collect::<String>());
            files = files.with(Kind::Nextflow, &format!("run-{run}/trace.txt"), &text);
        }
        let limit = files.only().time_limit.expect("a limit");
        assert_eq!(
            limit.should_ask.as_secs() / 3600,
            expect,
            "{samples} {more}"
        );
    };
    check(3, "", 3);
    // One sample says little about others.
    check(1, "", 24);
    let failed = |exit, hours| row("OK (big)", ("FAILED", exit), hours, 1);
    check(3, &failed("1", 7), 21);
    check(3, &failed("137", 20), 24);
    // These signals ended it at its limit.
    check(3, &failed("143", 24), 48);
    check(3, &failed("137", 24), 48);
    // It hung: its retry took an hour.
    let retry = row("OK (big)", well, 1, 2);
    check(3, &format!("{}{retry}", failed("140", 24)), 24);
}

#[test]
fn a_time_limit_stays_if_tasks_took_less_than_half_of_their_own() {
    // The last minute of each task after nine o'clock, and its limit.
    let check = |tasks: &[(&str, &str)], expect: Option<(u64, u64)>| {
        let mut text = "name\tstatus\tsubmit\tstart\tcomplete\trealtime\ttime\n".to_owned();
        for (n, (end, limit)) in tasks.iter().enumerate() {
            let at = |time: &str| format!("2026-03-01 {time}:00.000");
            let (start, end) = (at("09:00"), at(end));
            text += &format!("A (s{n})\tCOMPLETED\t{start}\t{start}\t{end}\t5m\t{limit}\n");
        }
        let advice = Files::new().with(Kind::Nextflow, "t", &text).only();
        let minutes = |time: std::time::Duration| time.as_secs() / 60;
        let limit = advice.time_limit;
        let limit = limit.map(|limit| (minutes(limit.asks), minutes(limit.should_ask)));
        assert_eq!(limit, expect, "{tasks:?}");
    };
    // It is no multiple of a quarter of an hour.
    check(&[("09:03", "10m"); 4], Some((10, 10)));
    check(&[("09:16", "40m"); 4], Some((40, 40)));
    check(&[("09:21", "40m"); 4], Some((40, 45)));
    // It depends on the task.
    let long = ("20:00", "24h");
    check(&[long, long, long, ("09:20", "1h")], None);
}

#[test]
fn cached_rows_alone_are_tasks_too() {
    let cached: Vec<Task> = (0..3)
        .map(|n| Task {
            status: "CACHED",
            ..Task::well(n, &format!("QC (s{n})"))
        })
        .collect();
    assert_eq!(read(&cached).only().runs, 3);
}

#[test]
fn without_a_column_attempt_retries_are_known_by_name_and_time() {
    // Two tasks of one name: the second began before the first failed.
    let tasks = [
        Task::failed(1, "CALL (a)", "137"),
        Task::well(2, "CALL (a)"),
        Task {
            memory: "16 GB",
            ..Task::well(40, "CALL (a)")
        },
    ];
    let step = without_attempt(&tasks).only();
    assert_eq!(
        step.usage.map(|u| (u.tasks, u.attempts, u.failed)),
        Some((2, 3, 1))
    );
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
}

/// The intervals of a sample have one name. Those with an odd number ran out of memory at first.
fn intervals(retry: impl Fn(Task) -> Task) -> Vec<Task> {
    let (first, again) = ((0..20_u32), (0..20_u32).filter(|n| n % 2 == 1));
    let first = first.map(|n| match n % 2 {
        1 => Task {
            minutes: 1,
            ..Task::failed(n, "HC (S1)", "137")
        },
        _ => Task::well(n, "HC (S1)"),
    });
    let again = again.map(|n| {
        retry(Task {
            hash: format!("cd/{n:06x}"),
            memory: "16 GB",
            peak: "9 GB".to_owned(),
            ..Task::well(60 + n, "HC (S1)")
        })
    });
    first.chain(again).collect()
}

#[test]
fn each_of_several_tasks_of_one_name_has_its_own_retry() {
    let with_number = |task: Task| Task { attempt: 2, ..task };
    let step = read(&intervals(with_number)).only();
    let usage = step.usage.as_ref().map(|u| (u.tasks, u.attempts, u.failed));
    assert_eq!(usage, Some((20, 30, 10)));
    assert_eq!(step.present.tasks(), 20);
    assert_eq!(step.present.out_of_memory(), 10);
    assert!(step.should_ask.memory > Some(Bytes::gib(8)), "{step:?}");
}

#[test]
fn failures_of_one_name_at_the_same_time_are_no_retries_of_each_other() {
    let mut tasks: Vec<Task> = (0..12_u32)
        .map(|n| Task {
            hash: format!("ef/{n:06x}"),
            ..Task::failed(5, "HC (S1)", "1")
        })
        .collect();
    tasks.extend((10..35).map(|n| Task::well(n, &format!("HC (S{n})"))));
    let step = without_attempt(&tasks).only();
    let usage = step.usage.as_ref().map(|u| (u.tasks, u.attempts, u.failed));
    assert_eq!(usage, Some((37, 37, 12)));
    assert!(step.failures.iter().all(|count| count.retried == 0));
}

#[test]
fn no_request_shrinks_on_fewer_than_three_tasks_and_samples_count_more_than_tasks() {
    let of = |count: u32, tag: fn(u32) -> u32| {
        let tasks: Vec<Task> = (0..count)
            .map(|n| Task {
                memory: "64 GB",
                ..Task::well(n, &format!("CALL (s{})", tag(n)))
            })
            .collect();
        read(&tasks).only()
    };
    assert_eq!(of(1, |n| n).should_ask.memory, Some(Bytes::gib(64)));
    assert_eq!(of(2, |n| n).should_ask.memory, Some(Bytes::gib(64)));
    assert!(of(3, |n| n).should_ask.memory < Some(Bytes::gib(64)));
    // Repetitions of one sample are weaker evidence than the same number of samples.
    let (one, many) = (of(21, |_| 1), of(21, |n| n));
    assert!(one.should_ask.memory > many.should_ask.memory);
    let to = |step: &StepAdvice| step.risk.oom_between.map(|range| range.to_ppm);
    assert!(to(&one) > to(&many));
    assert_eq!((one.risk.oom_ppm, many.risk.oom_ppm), (None, None));
    let basis = one.risk.basis.expect("peaks are known");
    assert_eq!((basis.tasks, basis.samples, basis.runs), (21, 1, 1));
}

#[test]
fn several_present_requests_are_counted_and_their_median_is_advised_on() {
    let sizes = ["6 GB", "6 GB", "12 GB", "12 GB", "12 GB", "24 GB"];
    let tasks: Vec<Task> = (0_u32..)
        .zip(sizes)
        .map(|(n, memory)| Task {
            memory,
            ..Task::well(n, &format!("CALL (s{n})"))
        })
        .collect();
    let step = read(&tasks).only();
    assert_eq!(step.present.basis, RequestBasis::Median);
    assert_eq!(step.asks.memory, Some(Bytes::gib(12)));
    let counts: Vec<u32> = step
        .present
        .counts
        .iter()
        .map(|count| count.tasks)
        .collect();
    assert_eq!(counts, [3, 2, 1]);
}

#[test]
fn tools_that_size_themselves_keep_their_reserve() {
    let of = |name: &str| {
        let tasks: Vec<Task> = (0..8)
            .map(|n| Task {
                memory: "64 GB",
                peak: "8 GB".to_owned(),
                ..Task::well(n, &format!("{name} (s{n})"))
            })
            .collect();
        read(&tasks).only()
    };
    let (plain, java) = (of("BWA_MEM"), of("GATK4_APPLYBQSR"));
    assert_eq!(plain.self_sizing, None);
    assert_eq!(
        java.self_sizing.as_ref().map(|s| s.tool.as_str()),
        Some("GATK")
    );
    assert!(java.should_ask.memory > plain.should_ask.memory);
}

#[test]
fn a_tool_that_takes_its_memory_from_a_request_that_was_enough_gets_no_more() {
    let tasks: Vec<Task> = (0..24)
        .map(|n| Task {
            memory: "36 GB",
            peak: "30 GB".to_owned(),
            ..Task::well(n, &format!("PICARD_MARKDUPLICATES (s{n})"))
        })
        .collect();
    let step = read(&tasks).only();
    assert_eq!(step.should_ask.memory, step.asks.memory);
    assert_eq!(step.risk.oom_between.map(|range| range.from_ppm), Some(0));
    // A task that used nearly all of its request still raises it.
    let full = tasks.into_iter().map(|task| Task {
        peak: "35.5 GB".to_owned(),
        ..task
    });
    let step = read(&full.collect::<Vec<_>>()).only();
    assert!(step.should_ask.memory > step.asks.memory);
}

#[test]
fn a_task_that_ran_out_of_memory_and_never_succeeded_leaves_its_need_open() {
    let mut tasks: Vec<Task> = (0..24)
        .map(|n| Task::well(n, &format!("SORT (s{n})")))
        .collect();
    for (n, task) in (0..).zip(tasks.iter_mut().take(6)) {
        *task = Task::failed(n, &format!("SORT (s{n})"), "137");
    }
    let step = read(&tasks).only();
    let range = step.risk.oom_between.expect("peaks are known");
    assert!(
        range.from_ppm == 0 && range.to_ppm > 250_000,
        "any size may be too small for six of 24: {range:?}"
    );
    assert_eq!(step.bound.memory_used, Some(Share::ALL));
}

#[test]
fn a_sampler_that_saw_nothing_shows_no_idle_cores() {
    let tasks: Vec<Task> = (0..8)
        .map(|n| Task {
            cpu_percent: 0.0,
            peak: "0".to_owned(),
            ..Task::well(n, &format!("ALIGN (s{n})"))
        })
        .collect();
    let step = read(&tasks).only();
    assert_eq!((step.mean_cores, step.should_ask), (None, step.asks));
    // With memory, the task did wait.
    let waited: Vec<Task> = tasks
        .into_iter()
        .map(|task| Task {
            peak: "2 GB".to_owned(),
            ..task
        })
        .collect();
    let step = read(&waited).only();
    assert_eq!(step.mean_cores, Some(MilliCores(0)));
}

#[test]
fn the_largest_of_many_tasks_count_also_when_they_are_the_oldest() {
    let peak = |n: u32| if n < 100 { "20 GB" } else { "1 GB" };
    let tasks: Vec<Task> = (0..700)
        .map(|n| Task {
            peak: peak(n).to_owned(),
            memory: "32 GB",
            ..Task::well(n, &format!("ALIGN (s{n})"))
        })
        .collect();
    let step = read(&tasks).only();
    assert_eq!(step.peak_memory, Some(Bytes::gib(20)));
    assert!(step.should_ask.memory >= Some(Bytes::gib(20)), "{step:?}");
}

#[test]
fn an_input_that_no_model_follows_keeps_the_reserve_for_other_runs() {
    let tasks: Vec<Task> = (0..8)
        .map(|n| Task::well(n, &format!("ALIGN (s{n})")))
        .collect();
    let imported = || read(&tasks).import.finish();
    let size = |input| imported().advice(input)[0].should_ask.memory;
    assert_eq!(size(Some(Bytes::gib(1))), size(None));
}

/// Number, status, exit status, duration, memory and time limit of the request, attempt, and peak.
type TimelessRow<'a> = (
    u32,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    &'a str,
    u32,
    &'a str,
);

/// A trace without times.
fn timeless(rows: &[TimelessRow<'_>]) -> Files {
    let rows = rows.iter().map(
        |(task, status, exit, minutes, memory, limit, attempt, peak)| {
            format!(
                "{attempt}/{task}\tX (s{task})\t{status}\t{exit}\t{minutes}\t20%\t8\t{memory}\t{limit}\t{attempt}\t{peak}\n"
            )
        },
    );
    let head = "hash\tname\tstatus\texit\trealtime\t%cpu\tcpus\tmemory\ttime\tattempt\tpeak_rss\n";
    let text = head.to_owned() + &rows.collect::<String>();
    Files::new().with(Kind::Nextflow, "trace.txt", &text)
}

#[test]
fn a_retry_gets_a_size_that_was_enough_for_all_tasks() {
    let small = (1..=110).map(|n| (n, "COMPLETED", "0", "10m", "8 GB", "4h", 1, "3 GB"));
    let large = [
        (999, "FAILED", "137", "5m", "8 GB", "4h", 1, "-"),
        (999, "COMPLETED", "0", "10m", "16 GB", "4h", 2, "12 GB"),
    ];
    let step = timeless(&small.chain(large).collect::<Vec<_>>()).only();
    assert!(step.should_ask.memory < Some(Bytes::gib(8)), "{step:?}");
    let second = step.risk.attempts[0];
    assert!(
        second >= Bytes::gib(12) && second <= Bytes::gib(16),
        "{second}"
    );
}

#[test]
fn with_requests_by_sample_a_retry_gets_the_largest_of_them() {
    let request = |n, memory| (n, "COMPLETED", "0", "10m", memory, "4h", 1, "1.5 GB");
    let many = ["8 GB", "8 GB", "8 GB", "16 GB", "64 GB"];
    let rows: Vec<_> = (1..)
        .zip(many)
        .map(|(n, memory)| request(n, memory))
        .collect();
    let step = timeless(&rows).only();
    assert!(step.should_ask.memory < Some(Bytes::gib(8)));
    assert_eq!(step.risk.attempts[0], Bytes::gib(64));
}

#[test]
fn a_limit_that_all_tasks_reached_grows_to_what_their_retries_took() {
    let limit = |rows: &[_]| {
        timeless(rows)
            .only()
            .time_limit
            .expect("a limit")
            .should_ask
    };
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let retried = (1..4).flat_map(|n| {
        [
            (n, "FAILED", "140", "1h", "6 GB", "1h", 1, "-"),
            (n, "COMPLETED", "0", "8h", "6 GB", "12h", 2, "5.5 GB"),
        ]
    });
    assert_eq!(limit(&retried.collect::<Vec<_>>()), hours(16));
    let twice = (1..4).flat_map(|n| {
        [
            (n, "FAILED", "140", "1h", "6 GB", "1h", 1, "-"),
            (n, "FAILED", "140", "2h", "6 GB", "2h", 2, "-"),
        ]
    });
    assert_eq!(limit(&twice.collect::<Vec<_>>()), hours(4));
}

#[test]
fn the_later_of_two_files_without_times_has_the_present_request() {
    let head = "hash\tname\tstatus\trealtime\tcpus\tmemory\tattempt\tpeak_rss\n";
    let text = |count: u32, run: &str, memory: &str| {
        let row = |n| format!("{run}/{n}\tX (s{n})\tCOMPLETED\t10m\t1\t{memory}\t1\t5 GB\n");
        head.to_owned() + &(1..=count).map(row).collect::<String>()
    };
    let files = Files::new()
        .with(Kind::Nextflow, "run1.txt", &text(8, "a", "32 GB"))
        .with(Kind::Nextflow, "run2.txt", &text(4, "b", "8 GB"));
    let imported = files.import.finish();
    assert!(imported.notes.join("\n").contains("the trace has no times"));
    let asks = imported.advice(None)[0].asks;
    assert_eq!(asks.memory, Some(Bytes::gib(8)));
    let single = timeless(&[(1, "COMPLETED", "0", "10m", "8 GB", "4h", 1, "5 GB")]);
    assert_eq!(single.import.finish().notes, [""; 0]);
}

#[test]
fn a_task_is_compared_with_its_own_request() {
    let rows = [("4 GB", "3 GB"), ("8 GB", "6.5 GB"), ("64 GB", "50 GB")];
    let rows = (1..)
        .zip(rows)
        .map(|(n, (memory, peak))| (n, "COMPLETED", "0", "10m", memory, "4h", 1, peak));
    let fullest = timeless(&rows.collect::<Vec<_>>()).only().fullest;
    let fullest = fullest.expect("peaks are known");
    assert_eq!(fullest.requested, Bytes::gib(8));
}

#[test]
fn memory_for_each_core_is_a_request_and_stays() {
    let benchmark = |sample: &str| {
        format!(
            "s\th:m:s\tmax_rss\tmean_load\tcpu_time\tjobid\trule_name\twildcards\tparams\tthreads\tcpu_usage\tresources\tinput_size_mb\n\
             3600.00\t1:00:00\t12000.00\t100.00\t3600.00\t1\talign\t{{'s': '{sample}'}}\t{{}}\t8\t100.00\t{{'_nodes': 1, 'mem_mb_per_cpu': 2000, '_cores': 8}}\t{{}}\n"
        )
    };
    let files = ["A", "B", "C"]
        .into_iter()
        .fold(Files::new(), |files, sample| {
            let path = format!("benchmarks/{sample}.align.tsv");
            files.with(Kind::Snakemake, &path, &benchmark(sample))
        });
    let step = files.only();
    assert_eq!(step.asks.memory, Some(Bytes(16_000_000_000)));
    assert_eq!((step.should_ask, step.slowdown_ppm), (step.asks, None));
}

#[test]
fn a_trace_is_read_by_its_names_and_a_bad_line_is_named() {
    let mut bad = Task::well(5, "ALIGN (e)");
    bad.peak = "much".to_owned();
    let files = read(&[Task::well(1, "ALIGN (a)"), bad, Task::well(2, "ALIGN (b)")]);
    assert_eq!(
        files.bad[0].to_string(),
        "3: peak_rss: invalid value 'much'"
    );
    assert_eq!(files.only().runs, 2);
    // Default columns, comma separated, and two traces one after the other.
    let text = "task_id,hash,name,status,exit,submit,duration,realtime,%cpu,peak_rss\n\
        1,aa/1,ALIGN (a),COMPLETED,0,2026-03-01 10:00:00,5m,4m,90.0%,1 GB\n\
        task_id,hash,name,status,exit,submit,duration,realtime,%cpu,peak_rss\n\
        1,aa/2,ALIGN (a),COMPLETED,0,2026-03-02 10:00:00,5m,4m,90.0%,1 GB\n";
    let imported = Files::new()
        .with(Kind::Nextflow, "two.csv", text)
        .import
        .finish();
    assert_eq!(imported.runs, ["two.csv", "two.csv part 2"]);
    assert!(
        imported.notes[0].contains("no column cpus or memory"),
        "{:?}",
        imported.notes
    );
}

#[test]
fn a_raw_trace_is_in_bytes_and_milliseconds() {
    let text = "hash\tname\tstatus\texit\trealtime\t%cpu\tpeak_rss\tcpus\tmemory\tattempt\tstart\n\
        aa/1\tA\tCOMPLETED\t0\t600000\t150.0\t1073741824\t2\t4294967296\t1\t1709290800000\n";
    let step = Files::new().with(Kind::Nextflow, "t", text).only();
    assert_eq!(step.asks.memory, Some(Bytes::gib(4)));
    assert_eq!(step.mean_cores, Some(MilliCores(1_500)));
    assert_eq!(step.last_seen.to_string(), "2024-03-01T11:10:00Z");
}

const PLAIN: &str = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n\
    46.5\t0:00:46\t512.00\t900\t510\t511\t10\t2\t180.00\t81\n\
    48.5\t0:00:48\t530.00\t900\t510\t511\t10\t2\t180.00\t81\n\
    45.5\t0:00:45\t520.00\t900\t510\t511\t10\t2\t180.00\t81\n";

fn named(patterns: &[(&str, &str)]) -> Files {
    let mut naming = FileNaming::default();
    for (rule, pattern) in patterns {
        naming.add_rule(rule, PathPattern::new(pattern).expect("a pattern"));
    }
    Files {
        import: Import::new(naming),
        bad: Vec::new(),
    }
}

#[test]
fn plain_benchmark_files_are_named_by_the_pattern_of_their_rule() {
    let naming = [
        ("bwa", "benchmarks/{sample}.bwa.benchmark.txt"),
        ("sort", "benchmarks/{sample}.sort.benchmark.txt"),
    ];
    let files = named(&naming)
        .with(Kind::Snakemake, "benchmarks/A.bwa.benchmark.txt", PLAIN)
        .with(Kind::Snakemake, "benchmarks/B.bwa.benchmark.txt", PLAIN)
        .with(Kind::Snakemake, "benchmarks/A.sort.benchmark.txt", PLAIN);
    let advice = files.advice();
    let names: Vec<&str> = advice.iter().map(|step| step.step.as_str()).collect();
    assert_eq!(names, ["bwa", "sort"]);
    // Repetitions of two samples in one run.
    let basis = advice[0].risk.basis.expect("peaks are known");
    assert_eq!((basis.tasks, basis.samples, basis.runs), (6, 2, 1));
    assert_eq!(advice[0].bound.by, Some(Binding::Compute));
}

#[test]
fn cpu_time_of_a_benchmark_counts_if_most_of_its_job_was_sampled() {
    let check = |seconds: &str, expect: Option<u64>| {
        let row = PLAIN
            .lines()
            .nth(1)
            .expect("a row")
            .replace("46.5", seconds);
        let head = PLAIN.lines().next().expect("a header");
        let text = format!("{head}\n{row}\n{row}\n{row}\n");
        let files = named(&[("bwa", "{sample}.txt")]).with(Kind::Snakemake, "A.txt", &text);
        assert_eq!(
            files.only().mean_cores.map(|cores| cores.0),
            expect,
            "{seconds}"
        );
    };
    // 81 s of CPU time until the last sample, at 15, 45 and 75 seconds.
    check("10", Some(8_100));
    check("18", Some(5_400));
    check("44", None);
    check("50", Some(1_800));
    check("74", None);
    check("90", Some(1_080));
}

#[test]
fn a_benchmark_file_that_nothing_names_is_refused() {
    let source = Source {
        path: "benchmarks/A.bwa.benchmark.txt",
        kind: None,
        modified: None,
    };
    let bytes = io::Cursor::new(PLAIN.as_bytes());
    let error = Import::default().read(&source, bytes, |_| ());
    let error = error.expect_err("no rule").to_string();
    assert!(error.contains("--snakefile"), "{error}");
}

#[test]
fn plain_benchmarks_take_rule_and_request_from_the_snakefile() {
    let listing = r#"{"snakemake": "9.27.1", "rules": [
        {"name": "bwa", "benchmark": "benchmarks/{sample}.bwa.benchmark.txt", "threads": 4,
         "mem_mb": 8000, "runtime_minutes": 60},
        {"name": "a", "benchmark": "same/{x}.txt", "threads": 1, "mem_mb": null,
         "runtime_minutes": null},
        {"name": "b", "benchmark": "same/{y}.txt", "threads": 1, "mem_mb": null,
         "runtime_minutes": null}]}"#;
    let import = || {
        let snakefile = Snakefile::read(listing.as_bytes()).expect("a listing");
        Import::default().with_snakefile(snakefile)
    };
    let read = |import: &mut Import, path: &str| {
        let source = Source {
            path,
            kind: None,
            modified: None,
        };
        import.read(&source, io::Cursor::new(PLAIN.as_bytes()), |_| ())
    };
    let mut known = import();
    read(&mut known, "run/benchmarks/A.bwa.benchmark.txt").expect("a benchmark");
    let [step] = &known.finish().advice(None)[..] else {
        panic!("one rule")
    };
    assert_eq!(step.step, "bwa");
    assert_eq!(step.asks.cores, Some(MilliCores::cores(4)));
    // 8000 million bytes, in MiB as Snakemake writes them.
    assert_eq!(step.asks.memory, Some(Bytes::mib(7_630)));
    let limit = step.time_limit.expect("the rule has a runtime");
    assert_eq!(limit.asks.as_secs(), 3_600);
    let refused = |path: &str, expect: &str| {
        let error = read(&mut import(), path).expect_err(path);
        assert!(error.to_string().contains(expect), "{error}");
    };
    refused("run/benchmarks/A.sort.txt", "no rule of the Snakefile");
    refused("same/q.txt", "rules a and b of the Snakefile");
}

#[test]
fn a_parameter_of_several_lines_does_not_break_its_record() {
    let header = "s\th:m:s\tmax_rss\tjobid\trule_name\twildcards\tparams\tthreads\n";
    let line = "61.5\t0:01:01\t700.0\t3\tsort\t{'sample': 'A'}\t{'m': array([[1, 2],\n       \
        [3, 4]])}\t4\n";
    let text = format!("{header}{line}{line}");
    let step = Files::new()
        .with(Kind::Snakemake, "benchmarks/a.tsv", &text)
        .only();
    assert_eq!((step.step.as_str(), step.samples), ("sort", 2));
    // A truncated line is a separate bad line.
    let cut = "61.5\t0:01:01\t700.0\t3\n";
    for text in [
        format!("{header}{line}{cut}"),
        format!("{header}{cut}{line}"),
    ] {
        let read = Files::new().with(Kind::Snakemake, "benchmarks/a.tsv", &text);
        let imported = read.import.finish();
        assert_eq!((imported.records, imported.skipped), (1, 1), "{text}");
    }
}

#[test]
fn a_job_without_input_files_is_read_too() {
    let header = "s\th:m:s\tmax_rss\trule_name\twildcards\tresources\tinput_size_mb\n";
    let line = "2.0\t0:00:02\t70.0\tsort\t{}\t{'mem_mib': 1908}\t{}\n";
    let text = format!("{header}{line}");
    let read = Files::new().with(Kind::Snakemake, "benchmarks/a.tsv", &text);
    assert_eq!(read.bad, []);
    let imported = read.import.finish();
    let runs = imported.steps[0].profile.by_time();
    assert_eq!((runs[0].input, imported.skipped), (None, 0));
}

#[test]
fn a_job_shorter_than_a_sample_shows_no_memory() {
    let header = "s\th:m:s\tmax_rss\tio_in\tio_out\tmean_load\tcpu_time\trule_name\n";
    let peak = |seconds: &str| {
        let text = format!("{header}{seconds}\t0:00:00\t3.1\t0\t0\t0\t0\tsort\n");
        let read = Files::new().with(Kind::Snakemake, "benchmarks/a.tsv", &text);
        let imported = read.import.finish();
        let run = imported.steps[0].profile.by_time()[0].clone();
        (run.peak_memory.is_some(), run.cpu.is_some())
    };
    assert_eq!(peak("0.21"), (false, false));
    assert_eq!(peak("1.5"), (true, true));
}

#[test]
fn extended_benchmarks_name_rule_wildcards_and_requests_in_both_forms() {
    let tsv = "s\th:m:s\tmax_rss\tjobid\trule_name\twildcards\tparams\tthreads\tcpu_usage\tresources\tinput_size_mb\n\
        61.5\t0:01:01\t700.0\t3\tsort\t{'sample': 'A'}\t{}\t4\t90\t{'_cores': 4, 'mem_mb': 2000, 'mem_mib': 1908, 'tmpdir': <TBDString>, 'runtime': 30}\t{'a': 1.5}\n";
    let jsonl = "{\"h:m:s\": \"0:01:01\", \"s\": 61.5, \"max_rss\": 700.0, \"rule_name\": \"sort\", \
        \"wildcards\": {\"sample\": \"B\"}, \"threads\": 4, \"resources\": {\"mem_mb\": 2000, \
        \"mem_mib\": 1908, \"runtime\": 30}, \"input_size_mb\": {\"a\": 1.5}, \"cpu_time\": \"NA\", \
        \"mean_load\": \"NA\", \"io_in\": 1.0, \"io_out\": 1.0}\n";
    let step = Files::new()
        .with(Kind::Snakemake, "x/benchmarks/a.tsv", tsv)
        .with(Kind::Snakemake, "x/benchmarks/b.jsonl", jsonl)
        .only();
    assert_eq!(step.step, "sort");
    assert_eq!(step.asks.cores, Some(MilliCores::cores(4)));
    assert_eq!(step.asks.memory, Some(Bytes::mib(1_908)));
    let basis = step.risk.basis.expect("peaks are known");
    assert_eq!((basis.tasks, basis.samples, basis.runs), (2, 2, 1));
    assert_eq!(
        step.time_limit.map(|limit| limit.asks.as_secs()),
        Some(1_800)
    );
}

const SACCT: &str = "JobID|JobName|Comment|State|ExitCode|Elapsed|TotalCPU|MaxRSS|ReqMem|AllocCPUS|NTasks|NNodes|Submit|Start|End|Timelimit|WorkDir\n";

fn sacct(rows: &str) -> Files {
    Files::new().with(Kind::Sacct, "jobs.txt", &format!("{SACCT}{rows}"))
}

/// Jobs of one hour with the columns about resources, user and GPUs of a job.
fn whole_jobs(jobs: &[[&str; 7]]) -> Files {
    let mut text = "JobID|JobName|User|State|ExitCode|Elapsed|TotalCPU|MaxRSS|ReqMem|ReqCPUS|AllocCPUS|AllocTRES|TRESUsageInMax|NTasks|NNodes|Submit|Start|End|Timelimit|WorkDir\n".to_owned();
    for (n, [id, name, user, exit, rss, cores, gpus]) in (1..).zip(jobs) {
        let time = |hour| format!("2024-03-{n:02}T{hour}:00:00");
        let times = format!("{}|{}|{}", time("09"), time("10"), time("11"));
        let state = if *exit == "0:0" {
            "COMPLETED"
        } else {
            "FAILED"
        };
        let head = format!("{state}|{exit}|01:00:00|04:00:00");
        text += &format!(
            "{id}|{name}|{user}|{head}||16G|{cores}|gres/gpu={gpus}||||{times}|04:00:00|/w\n\
             {id}.batch|batch||{head}|{rss}||{cores}|gres/gpu={gpus}|gres/gpuutil=0|1|1|{times}||\n"
        );
    }
    Files::new().with(Kind::Sacct, "jobs.txt", &text)
}

#[test]
fn jobs_with_whole_nodes_save_nothing_by_another_request() {
    let jobs = |cores| ["1", "2", "3"].map(|id| [id, "hot", "ana", "0:0", "2G", cores, "0"]);
    let files = whole_jobs(&jobs("8|128"));
    let imported = files.import.finish();
    let totals = imported.totals();
    assert_eq!((totals.core_attempts, totals.memory_attempts), (0, 0));
    let notes = imported.notes.join("\n");
    assert!(notes.contains("3 jobs got whole nodes"), "{notes}");
    let step = whole_jobs(&jobs("8|128")).only();
    assert_eq!(step.asks.cores, Some(MilliCores::cores(8)));
    assert_eq!(step.should_ask, step.asks);
    // Cores have two threads.
    let step = whole_jobs(&jobs("3|4")).only();
    assert_eq!(step.asks.cores, Some(MilliCores::cores(3)));
    assert_eq!(
        step.usage.map(|usage| usage.asked_core_seconds),
        Some(3 * 3 * 3_600)
    );
}

#[test]
fn a_name_of_several_users_is_a_step_of_each() {
    let job = |id, name, user| [id, name, user, "0:0", "2G", "4|4", "0"];
    let names = |jobs: &[[&str; 7]]| -> Vec<String> {
        let imported = whole_jobs(jobs).import.finish();
        imported.steps.into_iter().map(|step| step.name).collect()
    };
    let ana = job("1", "run.sh", "ana");
    assert_eq!(names(&[ana, job("2", "run.sh", "ana")]), ["run.sh"]);
    assert_eq!(
        names(&[ana, job("2", "run.sh", "bob"), job("3", "qc.sh", "bob")]),
        ["qc.sh", "run.sh of ana", "run.sh of bob"]
    );
    let engine = ["ana", "bob"].map(|user| job("1", "nf-QC_(S1)", user));
    assert_eq!(names(&engine), ["QC"]);
    // The parts of a heterogeneous job.
    assert_eq!(
        names(&[job("7+0", "het", "ana"), job("7+1", "het", "ana")]),
        ["het+0", "het+1"]
    );
}

#[test]
fn signal_9_with_all_memory_in_use_is_out_of_memory() {
    let check = |exit, rss, expect| {
        let imported = whole_jobs(&[["1", "a", "ana", exit, rss, "4|4", "0"]])
            .import
            .finish();
        assert_eq!(imported.steps[0].failures[0].kind, expect, "{exit} {rss}");
    };
    check("0:9", "15950M", FailureKind::OutOfMemory);
    check("0:9", "12G", FailureKind::Killed);
}

#[test]
fn gpus_that_did_not_compute_are_noted() {
    let imported = whole_jobs(&[["1", "train", "ana", "0:0", "2G", "4|4", "2"]])
        .import
        .finish();
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("did not use theirs: train (1 job, 2.0 GPU-h)"),
        "{notes}"
    );
}

#[test]
fn an_out_of_memory_state_of_slurm_is_not_doubted() {
    let check = |state: &str, code: &str, peak: &str, expect: FailureKind| {
        let times = |id: u32| {
            let at = |hour: u32| format!("2024-03-01T{:02}:00:00", hour + 7 * id);
            format!("{}|{}|{}", at(1), at(2), at(7))
        };
        let job = |id: u32, state: &str, code: &str, peak: &str| {
            let times = times(id);
            format!(
                "{id}|nf-X_(1)||{state}|{code}|05:00:00|05:00:00||8G|4||1|{times}|1-00:00:00|/w\n\
                 {id}.batch|batch||{state}|{code}|05:00:00|05:00:00|{peak}||4|1|1|{times}||\n"
            )
        };
        // The task succeeded later with the same memory.
        let rows = job(1, state, code, peak) + &job(2, "COMPLETED", "0:0", "8200000K");
        let imported = sacct(&rows).import.finish();
        assert_eq!(imported.steps[0].failures[0].kind, expect, "{state} {code}");
    };
    check(
        "OUT_OF_MEMORY",
        "0:125",
        "8388000K",
        FailureKind::OutOfMemory,
    );
    check("FAILED", "137:0", "8388000K", FailureKind::Killed);
    check("FAILED", "137:0", "1000K", FailureKind::Killed);
}

#[test]
fn a_job_holds_what_its_steps_held_at_one_time_on_its_fullest_node() {
    let job = "7|align||COMPLETED|0:0|01:00:00|02:00:00||8Gn|4||2|2024-03-01T09:00:00|2024-03-01T10:00:00|2024-03-01T11:00:00|1-00:00:00|/home/ana\n";
    let check = |steps: &str, gib: f64| {
        let imported = sacct(&format!("{job}{steps}")).import.finish();
        let runs = imported.steps[0].profile.by_time();
        let peak = runs[0].peak_memory.expect("a peak");
        assert!(
            (peak.bytes.as_gib() - gib).abs() < 0.01,
            "{steps}: {}",
            peak.bytes
        );
    };
    check(
        "7.batch|batch||COMPLETED|0:0|01:00:00|00:01:00|1048576K||2|1|1||2024-03-01T10:00:00|2024-03-01T11:00:00||\n",
        1.0,
    );
    // Eight tasks on two nodes: four on each.
    check(
        "7.0|mpi||COMPLETED|0:0|01:00:00|00:01:00|1G||16|8|2||2024-03-01T10:00:00|2024-03-01T11:00:00||\n",
        4.0,
    );
    // One after the other, and at the same time.
    check(
        "7.0|a||COMPLETED|0:0|00:30:00|00:01:00|2G||2|1|1||2024-03-01T10:00:00|2024-03-01T10:30:00||\n\
         7.1|b||COMPLETED|0:0|00:30:00|00:01:00|3G||2|1|1||2024-03-01T10:30:00|2024-03-01T11:00:00||\n",
        3.0,
    );
    check(
        "7.0|a||COMPLETED|0:0|00:30:00|00:01:00|2G||2|1|1||2024-03-01T10:00:00|2024-03-01T10:40:00||\n\
         7.1|b||COMPLETED|0:0|00:30:00|00:01:00|3G||2|1|1||2024-03-01T10:30:00|2024-03-01T11:00:00||\n",
        5.0,
    );
    // The batch script runs at the same time as its steps.
    check(
        "7.batch|batch||COMPLETED|0:0|01:00:00|00:01:00|1G||2|1|1||2024-03-01T10:00:00|2024-03-01T11:00:00||\n\
         7.extern|extern||COMPLETED|0:0|01:00:00|00:01:00|0||2|1|1||2024-03-01T10:00:00|2024-03-01T11:00:00||\n\
         7.0|a||COMPLETED|0:0|00:30:00|00:01:00|2G||2|1|1||2024-03-01T10:00:00|2024-03-01T10:40:00||\n",
        3.0,
    );
}

#[test]
fn memory_is_unknown_as_soon_as_a_step_of_a_job_has_none() {
    let check = |steps: &str, note: &str| {
        let job = "7|align||COMPLETED|0:0|01:00:00|02:00:00||8Gn|4||2|2024-03-01T09:00:00|2024-03-01T10:00:00|2024-03-01T11:00:00|1-00:00:00|/home/ana\n";
        let imported = sacct(&format!("{job}{steps}")).import.finish();
        let runs = imported.steps[0].profile.by_time();
        assert_eq!(runs[0].peak_memory, None, "{steps}");
        let notes = imported.notes.join("\n");
        assert!(notes.contains(note), "{notes}");
    };
    let step = |name: &str, rss: &str, tasks: &str| {
        format!(
            "7.{name}|{name}||COMPLETED|0:0|01:00:00|00:01:00|{rss}||2|{tasks}|1||2024-03-01T10:00:00|2024-03-01T11:00:00||\n"
        )
    };
    check("", "if sacct ran with -X, run it without");
    check(&step("batch", "", "1"), "because MaxRSS is blank or 0");
    check(
        &(step("batch", "", "1") + &step("extern", "0", "1")),
        "because MaxRSS is blank or 0",
    );
    check(
        &(step("batch", "20M", "1") + &step("0", "", "1")),
        "because MaxRSS is blank or 0",
    );
    check(&step("batch", "lots", "1"), "because MaxRSS is blank or 0");
    // The number of the step's tasks is unknown, and MaxRSS is that of one task.
    check(&step("0", "2G", ""), "");
    let without = "JobID|State|Elapsed\n7|COMPLETED|01:00:00\n7.batch|COMPLETED|01:00:00\n";
    let files = Files::new().with(Kind::Sacct, "jobs.txt", without);
    let notes = files.import.finish().notes.join("\n");
    assert!(!notes.contains("MaxRSS is blank"), "{notes}");
}

#[test]
fn a_line_that_cannot_be_read_is_no_job_without_lines_of_steps() {
    let rows = "some words\n\
        7|align||COMPLETED|0:0|01:00:00|02:00:00||8Gn|4||2|2024-03-01T09:00:00|2024-03-01T10:00:00|2024-03-01T11:00:00|1-00:00:00|/home/ana\n\
        7.batch|batch||COMPLETED|0:0|01:00:00|00:01:00|1G||2|1|1||2024-03-01T10:00:00|2024-03-01T11:00:00||\n";
    let files = sacct(rows);
    assert_eq!(files.bad.len(), 1);
    let notes = files.import.finish().notes.join("\n");
    assert!(!notes.contains("without lines of steps"), "{notes}");
}

#[test]
fn jobs_that_run_tasks_in_parallel_keep_their_cores() {
    let job = |n: u32| {
        format!(
            "{n}|mpi||COMPLETED|0:0|01:00:00|02:00:00||64Gn|64||2|2024-03-0{n}T09:00:00|2024-03-0{n}T10:00:00|2024-03-0{n}T11:00:00|1-00:00:00|/home/ana\n\
             {n}.0|mpi||COMPLETED|0:0|01:00:00|02:00:00|100M||64|64|2||2024-03-0{n}T10:00:00|2024-03-0{n}T11:00:00||\n"
        )
    };
    let step = sacct(&(1..6).map(job).collect::<String>()).only();
    assert_eq!(step.parallel_tasks, 64);
    assert_eq!(step.should_ask.cores, step.asks.cores);
    assert!(step.peak_is_upper_bound);
    assert_eq!(step.peak_memory, Some(Bytes::mib(3_200)));
    // The request includes both nodes.
    assert_eq!(
        step.usage.map(|u| u.asked_gib_seconds),
        Some(5 * 2 * 64 * 3_600)
    );
}

/// A job of one node with its script.
struct Job {
    number: u32,
    state: &'static str,
    hours: u32,
    cpu_hours: u32,
    gib: u32,
    memory: &'static str,
    cores: u32,
    limit: &'static str,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            number: 1,
            state: "COMPLETED",
            hours: 1,
            cpu_hours: 2,
            gib: 4,
            memory: "64G",
            cores: 8,
            limit: "1-00:00:00",
        }
    }
}

impl Job {
    /// The days are in order of the numbers.
    fn rows(&self) -> String {
        let Self {
            number,
            state,
            hours,
            cpu_hours,
            gib,
            memory,
            cores,
            limit,
        } = self;
        let day = |day: u32| format!("2024-03-{day:02}");
        let (begin, end) = (day(*number), day(number + hours / 24));
        let times = format!(
            "{begin}T01:00:00|{begin}T02:00:00|{end}T{:02}:00:00",
            2 + hours % 24
        );
        let time = format!("{hours}:00:00|{cpu_hours}:00:00");
        format!(
            "{number}|to||{state}|0:0|{time}||{memory}|{cores}||1|{times}|{limit}|/w\n\
             {number}.batch|batch||{state}|0:0|{time}|{gib}G||{cores}|1|1|{times}||\n"
        )
    }
}

fn jobs(jobs: &[Job]) -> Files {
    sacct(&jobs.iter().map(Job::rows).collect::<String>())
}

fn three_and(more: Job) -> Vec<Job> {
    let three = (1..4).map(|number| Job {
        number,
        ..Job::default()
    });
    three.chain([more]).collect()
}

#[test]
fn no_request_shrinks_below_what_a_failed_attempt_used() {
    let check = |more: Job, cores: u64, gib: std::ops::Range<u64>| {
        let state = more.state;
        let step = jobs(&three_and(more)).only();
        let memory = step.should_ask.memory.expect("a request");
        let range = Bytes::gib(gib.start)..Bytes::gib(gib.end);
        assert!(range.contains(&memory), "{state}: {memory}");
        assert_eq!(
            step.should_ask.cores,
            Some(MilliCores::cores(cores)),
            "{state}"
        );
        let peak = step.peak_memory.expect("a peak");
        assert!(peak >= Bytes::gib(4) && peak <= Bytes::gib(60), "{peak}");
    };
    let failed = |state, gib, cpu_hours| Job {
        number: 4,
        state,
        gib,
        cpu_hours,
        hours: 24,
        ..Job::default()
    };
    check(failed("COMPLETED", 4, 48), 6, 4..8);
    check(failed("TIMEOUT", 4, 48), 6, 4..8);
    check(failed("TIMEOUT", 60, 48), 6, 60..65);
    check(failed("PREEMPTED", 50, 48), 6, 50..65);
    check(failed("CANCELLED by 7", 4, 190), 8, 4..8);
}

#[test]
fn a_job_that_survived_a_kill_used_all_of_its_memory() {
    let job = |n: u32| {
        let row = Job {
            number: n,
            memory: "8G",
            ..Job::default()
        };
        let day = format!("2024-03-{n:02}");
        row.rows()
            + &format!(
                "{n}.0|prog||OUT_OF_MEMORY|0:125|00:10:00|00:10:00|1G||8|1|1||{day}T02:00:00|{day}T02:10:00||\n"
            )
    };
    let files = sacct(&(1..5).map(job).collect::<String>());
    let imported = files.import.finish();
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("4 jobs completed although a step ran out"),
        "{notes}"
    );
    let files = sacct(&(1..5).map(job).collect::<String>());
    let step = files.only();
    assert_eq!(step.peak_memory, Some(Bytes::gib(8)));
    assert_eq!(step.should_ask.memory, Some(Bytes::gib(8)));
}

#[test]
fn memory_of_nodes_with_different_numbers_of_cores_is_unknown() {
    let job = |n: u32| {
        let day = format!("2024-03-{n:02}");
        format!(
            "{n}|wrf||COMPLETED|0:0|01:00:00|30:00:00||160G|40||2||{day}T10:00:00|{day}T11:00:00|1-00:00:00|/w\n\
             {n}.batch|batch||COMPLETED|0:0|01:00:00|00:01:00|9000K||36|1|1||{day}T10:00:00|{day}T11:00:00||\n\
             {n}.0|wrf||COMPLETED|0:0|01:00:00|30:00:00|2G||40|40|2||{day}T10:00:00|{day}T11:00:00||\n"
        )
    };
    let rows: String = (1..5).map(job).collect();
    let notes = sacct(&rows).import.finish().notes.join("\n");
    assert!(
        notes.contains("4 jobs with different numbers of cores"),
        "{notes}"
    );
    let step = sacct(&rows).only();
    assert_eq!((step.peak_memory, step.should_ask), (None, step.asks));
}

#[test]
fn jobs_that_were_submitted_again_with_more_memory_are_no_first_attempts() {
    let check = |killed: u32, well: u32| {
        let killed = (1..=killed).map(|number| Job {
            number,
            state: "OUT_OF_MEMORY",
            gib: 15,
            memory: "16G",
            ..Job::default()
        });
        let well = (1..=well).map(|number| Job {
            number: 12 + number,
            gib: 19,
            memory: "32G",
            ..Job::default()
        });
        let step = jobs(&killed.chain(well).collect::<Vec<_>>()).only();
        assert_eq!(step.asks.memory, Some(Bytes::gib(16)));
        let memory = step.should_ask.memory.expect("a request");
        assert!(memory >= Bytes::gib(20), "{memory}");
    };
    check(3, 1);
    check(8, 8);
    check(10, 3);
    // A single job with less memory than usual.
    let one = Job {
        state: "OUT_OF_MEMORY",
        memory: "2G",
        gib: 2,
        ..Job::default()
    };
    let others = (2..12).map(|number| Job {
        number,
        ..Job::default()
    });
    let step = jobs(&[one].into_iter().chain(others).collect::<Vec<_>>()).only();
    assert_eq!(step.asks.memory, Some(Bytes::gib(64)));
}

#[test]
fn a_limit_of_other_jobs_raises_no_time_limit() {
    let with = |number, state, hours, limit| Job {
        number,
        state,
        hours,
        limit,
        ..Job::default()
    };
    let limit = |jobs_of: &[Job]| jobs(jobs_of).only().time_limit;
    let hung = with(1, "TIMEOUT", 168, "7-00:00:00");
    let short = (10..13).map(|n| with(n, "COMPLETED", 1, "04:00:00"));
    let other: Vec<Job> = [hung].into_iter().chain(short).collect();
    assert_eq!(limit(&other), None, "its limit differs by job");
    let own = [
        with(1, "COMPLETED", 1, "04:00:00"),
        with(2, "COMPLETED", 1, "04:00:00"),
        with(3, "COMPLETED", 1, "04:00:00"),
        with(4, "TIMEOUT", 4, "04:00:00"),
    ];
    let own = limit(&own).expect("a limit");
    assert_eq!(own.should_ask, Duration::from_secs(8 * 3_600));
}

#[test]
fn steps_of_a_job_at_the_same_time_are_parallel_tasks() {
    let job = |n: u32| {
        let day = format!("2024-03-{n:02}");
        let step = |id: u32| {
            format!(
                "{n}.{id}|prog||COMPLETED|0:0|01:00:00|00:03:00|500M||1|1|1||{day}T02:00:00|{day}T03:00:00||\n"
            )
        };
        let row = Job {
            number: n,
            cpu_hours: 1,
            ..Job::default()
        };
        row.rows() + &(0..8).map(step).collect::<String>()
    };
    let step = sacct(&(1..5).map(job).collect::<String>()).only();
    assert_eq!(step.parallel_tasks, 8);
    assert_eq!(step.should_ask.cores, step.asks.cores);
}

#[test]
fn an_upper_bound_of_memory_raises_no_request_that_was_enough() {
    let job = |n: u32| {
        let day = format!("2024-03-{n:02}");
        format!(
            "{n}|sort||COMPLETED|0:0|01:00:00|02:00:00||32G|8||1|{day}T09:00:00|{day}T10:00:00|{day}T11:00:00|1-00:00:00|/home/ana\n\
             {n}.batch|batch||COMPLETED|0:0|01:00:00|01:00:00|28G||8|1|1||{day}T10:00:00|{day}T11:00:00||\n\
             {n}.0|sort||COMPLETED|0:0|01:00:00|01:00:00|28G||8|1|1||{day}T10:00:00|{day}T11:00:00||\n"
        )
    };
    let step = sacct(&(1..25).map(job).collect::<String>()).only();
    assert!(step.peak_is_upper_bound);
    assert_eq!(step.should_ask.memory, Some(Bytes::gib(32)));
    assert_eq!(step.risk.oom_between.map(|range| range.from_ppm), Some(0));
    assert_ne!(step.bound.by, Some(Binding::Memory));
    let usage = step.usage.expect("sums");
    assert_eq!(usage.used_gib_seconds, usage.asked_gib_seconds);
}

#[test]
fn any_delimiter_of_sacct_is_read_and_missing_columns_are_named() {
    for separator in ["|", ",", ";", "\t"] {
        let rows = "JobIDRaw|State|Elapsed\n7|COMPLETED|01:00:00\n8|COMPLETED|01:00:00\n";
        let rows = rows.replace('|', separator);
        let files = Files::new().with(Kind::Sacct, "jobs.txt", &rows);
        let imported = files.import.finish();
        assert_eq!(imported.records, 2, "{separator:?}");
        let notes = imported.notes.join("\n");
        let columns =
            "JobName User ExitCode Timelimit WorkDir Start ReqMem ReqCPUS TotalCPU MaxRSS";
        for column in columns.split(' ') {
            assert!(notes.contains(&format!("{column} to sacct")), "{notes}");
        }
    }
}

#[test]
fn jobs_of_engines_are_named_by_what_the_engine_calls_them() {
    const UUID: &str = "550e8400-e29b-41d4-a716-446655440000";
    let row = |id: &str, name: &str, comment: &str| {
        format!(
            "{id}|{name}|{comment}|COMPLETED|0:0|00:10:00|00:09:00||16G|4||1|2024-03-01T09:00:00|\
             2024-03-01T10:00:00|2024-03-01T10:10:00|04:00:00|/scratch/work/ab/0123456789abcdef0123456789abcd\n\
             {id}.batch|batch||COMPLETED|0:0|00:10:00|00:09:00|2G||4|1|1||||||\n"
        )
    };
    let rows = [
        row("1", UUID, "rule_bwa_wildcards_A"),
        row("2", UUID, "rule_bwa_wildcards_B"),
        row("3", "nf-RNASEQ_STAR_(S1)", ""),
        row("4_1", "sweep", ""),
        row("4_2", "sweep", ""),
        row("5", UUID, ""),
    ];
    let files = sacct(&rows.concat());
    assert_eq!(files.bad.len(), 1);
    assert!(files.bad[0].problem.contains("UUID"), "{}", files.bad[0]);
    let imported = files.import.finish();
    let steps: Vec<(&str, usize)> = imported
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.profile.by_time().len()))
        .collect();
    assert_eq!(steps, [("RNASEQ_STAR", 1), ("bwa", 2), ("sweep", 2)]);
    assert_eq!(imported.runs, [UUID, "/scratch/work 2024-03-01"]);
    let limits: Vec<_> = imported
        .advice(None)
        .iter()
        .filter_map(|s| s.time_limit)
        .collect();
    assert_eq!(limits.len(), 3);
}

#[test]
fn names_with_a_sample_are_noted() {
    let note = |step: &dyn Fn(u32) -> String| {
        let rows = (0..20).map(|n| {
            format!("{n}|{}||COMPLETED|0:0|00:10:00|00:09:00||4G|2||1|Unknown|Unknown|Unknown|UNLIMITED|/w\n", step(n))
        });
        sacct(&rows.collect::<String>())
            .import
            .finish()
            .note_on_names()
    };
    let text = note(&|n| format!("align_S{n}")).expect("each has its own name");
    assert!(text.starts_with("20 of 20 steps"), "{text}");
    assert_eq!(note(&|n| format!("align_{}", n % 5)), None);
}

#[test]
fn a_job_that_is_named_after_its_submitter_names_no_step() {
    for name in ["wrap", "interactive", "bash"] {
        let row = format!(
            "9|{name}||COMPLETED|0:0|00:10:00|00:09:00||4Gc|2||1|Unknown|Unknown|Unknown|UNLIMITED|/w\n"
        );
        assert_eq!(
            sacct(&row).only().name_form,
            NameForm::Executables,
            "{name}"
        );
    }
}

#[test]
fn states_exit_codes_and_units_of_sacct_are_read_as_it_writes_them() {
    let check = |state: &str, exit: &str, expect: Option<FailureKind>| {
        let row = format!(
            "9|a||{state}|{exit}|00:10:00|00:09:00||4Gc|2||1|Unknown|Unknown|Unknown|UNLIMITED|/w\n"
        );
        let imported = sacct(&row).import.finish();
        let failures = imported.steps.first().map(|step| step.failures.clone());
        let kind = failures.unwrap_or_default().first().map(|count| count.kind);
        assert_eq!(kind, expect, "{state} {exit}");
    };
    check("COMPLETED", "0:0", None);
    check("OUT_OF_MEMORY", "0:125", Some(FailureKind::OutOfMemory));
    check("OUT_OF_ME+", "0:125", Some(FailureKind::OutOfMemory));
    check("FAILED", "137:0", Some(FailureKind::OutOfMemory));
    check("FAILED", "0:9", Some(FailureKind::Killed));
    check("FAILED", "0:15", Some(FailureKind::Terminated));
    check("FAILED", "1:0", Some(FailureKind::Error));
    check("TIMEOUT", "0:0", Some(FailureKind::TimeLimit));
    check("NODE_FAIL", "0:0", Some(FailureKind::MachineLost));
    check("PREEMPTED", "0:0", Some(FailureKind::MachineLost));
    check("CANCELLED by 1000", "0:0", Some(FailureKind::Cancelled));
    check("RUNNING", "0:0", None);
    let requested_memory = |mem: &str| {
        let row = format!(
            "9|a||COMPLETED|0:0|00:10:00|00:09:00||{mem}|4||2|Unknown|Unknown|Unknown||/w\n"
        );
        sacct(&row).only().asks.memory
    };
    assert_eq!(requested_memory("4Gc"), Some(Bytes::gib(8)));
    assert_eq!(requested_memory("16Gn"), Some(Bytes::gib(16)));
    assert_eq!(requested_memory("16G"), Some(Bytes::gib(8)));
    assert_eq!(requested_memory("1T"), Some(Bytes::gib(512)));
    assert_eq!(requested_memory("0"), None);
}

#[test]
fn a_single_job_of_the_newest_day_is_not_the_request_of_the_step() {
    let job = |day: u32, memory: &str, used: &str| {
        let times = format!("2026-03-{day:02}T10:00:00|2026-03-{day:02}T11:00:00");
        format!(
            "{day}|run.sh||COMPLETED|0:0|01:00:00|03:30:00||{memory}|4||1||{times}||/home/ana\n\
             {day}.batch|batch||COMPLETED|0:0|01:00:00|03:30:00|{used}||4|1|1||{times}||\n"
        )
    };
    let mut rows: String = (1..=20).map(|day| job(day, "8G", "1000000K")).collect();
    rows += &job(25, "256G", "10000000K");
    let step = sacct(&rows).only();
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
    assert_eq!(step.should_ask.memory, Some(Bytes::gib(8)));
    let totals = step.usage.expect("of an import");
    assert_eq!(totals.memory_wall_seconds, 21 * 3600);
    assert_eq!(totals.asked_gib_seconds, (20 * 8 + 256) * 3600);
}

#[test]
fn lines_of_sacct_that_tell_nothing_about_use_are_counted_or_named() {
    let job = |name: &str, state: &str, times: &str| {
        format!("9|{name}||{state}|0:0|{times}||16G|4||1|Unknown|Unknown|Unknown||/w\n")
    };
    // A service outside of the job did the work, or accounting failed.
    let step = sacct(&job("a", "COMPLETED", "01:00:00|00:00:00")).only();
    assert_eq!(
        (step.asks.cores, step.mean_cores),
        (Some(MilliCores::cores(4)), None)
    );

    let pending = job("a", "CANCELLED by 7", "00:00:00|00:00:00").replace("|4||1|", "|0||1|");
    let imported = sacct(&pending).import.finish();
    assert_eq!((imported.records, imported.skipped), (0, 0));
    let text = "skipped 1 job that ended before they began";
    assert!(
        imported.notes.iter().any(|note| note.contains(text)),
        "{:?}",
        imported.notes
    );

    let reason = |row: &str| sacct(row).bad[0].to_string();
    let broken = reason(&job("align|x", "COMPLETED", "01:00:00|00:00:00"));
    assert!(broken.contains("18 fields for 17 columns"), "{broken}");
    let unknown = reason(&job("a", "DREAMING", "01:00:00|00:00:00"));
    assert!(
        unknown.contains("State: unknown state 'DREAMING'"),
        "{unknown}"
    );
}

#[test]
fn both_parsable_forms_are_read_and_the_aligned_one_says_what_to_do() {
    let rows = "JobID|JobName|State|Elapsed|\n7|align|COMPLETED|01:00:00|\n";
    let imported = Files::new()
        .with(Kind::Sacct, "jobs.txt", rows)
        .import
        .finish();
    assert_eq!(imported.steps[0].name, "align");
    assert!(
        imported.notes.iter().any(|note| note.contains("MaxRSS")),
        "{:?}",
        imported.notes
    );
    let step = &imported.advice(None)[0];
    assert_eq!((step.should_ask.memory, step.risk.basis), (None, None));
    let aligned = "       JobID    JobName      State    Elapsed \n\
        ------------ ---------- ---------- ---------- \n\
        7                 align  COMPLETED   01:00:00 \n";
    let source = Source {
        path: "jobs.txt",
        kind: None,
        modified: None,
    };
    let bytes = io::Cursor::new(aligned.as_bytes());
    let error = Import::default()
        .read(&source, bytes, |_| ())
        .expect_err("aligned");
    assert!(error.to_string().contains("--parsable2"), "{error}");
}

#[test]
fn who_wrote_a_file_is_read_from_its_first_line() {
    let check = |head, expect| assert_eq!(Kind::from_first_line(head), expect, "{head}");
    check("task_id\tname\trealtime", Some(Kind::Nextflow));
    check("s\th:m:s\tmax_rss", Some(Kind::Snakemake));
    check("{\"h:m:s\": \"0:00:01\"}", Some(Kind::Snakemake));
    check("JobID|State|Elapsed", Some(Kind::Sacct));
    check("JobID JobName", Some(Kind::Sacct));
    check("JobID,JobName,State", Some(Kind::Sacct));
    check("JobName|State|Elapsed", Some(Kind::Sacct));
    check("7|align|COMPLETED", None);
    check("a,b,c", None);
    check("", None);
}

#[test]
fn a_file_without_what_is_needed_says_what() {
    let check = |kind, text: &'static str, expect: &str| {
        let source = Source {
            path: "f",
            kind: Some(kind),
            modified: None,
        };
        let bytes = io::Cursor::new(text.as_bytes());
        let error = Import::default().read(&source, bytes, |_| ());
        let error = error.expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(Kind::Nextflow, "", "empty");
    check(
        Kind::Nextflow,
        "realtime\n",
        "missing column name; add it to trace.fields",
    );
    check(Kind::Nextflow, "name\texit\n", "missing column realtime");
    check(Kind::Snakemake, "max_rss\n", "missing column s");
    check(Kind::Sacct, "JobID|State\n", "missing column Elapsed");
    check(Kind::Sacct, "State|Elapsed\n", "missing column JobID");
    check(Kind::Sacct, "7.batch|batch|COMPLETED\n", "--noheader");
}

#[test]
fn a_file_of_no_known_format_says_why() {
    let check = |text: &'static str, expect: &str| {
        let source = Source {
            path: "f",
            kind: None,
            modified: None,
        };
        let error = Import::default().read(&source, io::Cursor::new(text.as_bytes()), |_| ());
        let error = error.expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("{\n  \"jobs\": [\n", "instead of --json");
    check("4711_[1-9%3]|align|PENDING\n", "--noheader");
    check("a|b\n", "name the format with --kind");
    check("name\trealtime\n\n", "a header and no row");
    check("name\trealtime\rQC\t1h\r", "without a line feed");
}

#[test]
fn bad_lines_are_counted_and_only_some_are_kept() {
    let mut text = "name\trealtime\tstatus\n".to_owned();
    text.extend(std::iter::repeat_n("x\tsoon\tCOMPLETED\n", 500));
    let source = Source {
        path: "t",
        kind: None,
        modified: None,
    };
    let mut import = Import::default();
    let bad = import.read(&source, io::Cursor::new(text.into_bytes()), |_| ());
    let bad = bad.expect("a file");
    assert_eq!((bad.count, bad.first.len()), (500, MAX_BAD_LINES));
    assert_eq!(
        bad.by_problem.into_iter().next(),
        Some(("realtime: invalid value".to_owned(), 500))
    );
    assert!(import.finish().advice(None).is_empty());
}

#[test]
fn a_trace_of_several_runs_has_the_columns_of_each_header() {
    let row = |head: &str, n: u32, peak: &str, rss: &str| {
        let swapped = head.ends_with("peak_rss\trss");
        let (a, b) = if swapped { (peak, rss) } else { (rss, peak) };
        format!("ALIGN (s{n})\tCOMPLETED\t0\t1h\t8\t32 GB\t{a}\t{b}\n")
    };
    let mut text = String::new();
    for (part, order) in ["rss\tpeak_rss", "peak_rss\trss"].iter().enumerate() {
        let head = format!("name\tstatus\texit\trealtime\tcpus\tmemory\t{order}");
        text.push_str(&format!("{head}\n"));
        for n in 0..10 {
            let peak = if part == 0 { "1.5 GB" } else { "30 GB" };
            text.push_str(&row(&head, 10 * part as u32 + n, peak, "1 GB"));
        }
    }
    let files = Files::new().with(Kind::Nextflow, "all.txt", &text);
    let step = files.only();
    assert_eq!(step.runs, 20);
    assert_eq!(step.peak_memory, Some(Bytes::gib(30)));
}

#[test]
fn tasks_that_did_not_end_are_skipped_and_an_unknown_status_is_named() {
    let task = |n: u32, status: &'static str| Task {
        status,
        ..Task::well(n, &format!("CALL (s{n})"))
    };
    let tasks = [
        task(1, "COMPLETED"),
        task(2, "RUNNING"),
        task(3, "SUBMITTED"),
        task(4, "NEW"),
        task(5, "WEIRD"),
    ];
    let files = read(&tasks);
    assert_eq!(files.bad.len(), 1);
    assert_eq!(
        files.bad[0].to_string(),
        "6: status: unknown status 'WEIRD'"
    );
    let imported = files.import.finish();
    assert_eq!(imported.totals().attempts, 1);
    assert!(imported.failures().is_empty());
    assert!(
        imported
            .notes
            .contains(&"skipped 3 tasks that did not end yet".to_owned())
    );
}

#[test]
fn results_of_an_earlier_run_count_once_also_without_a_hash() {
    let text = "name\tstatus\texit\trealtime\nQC (a)\tCACHED\t0\t1h\nQC (b)\tCOMPLETED\t0\t1h\n";
    let files = Files::new().with(Kind::Nextflow, "second.txt", text);
    let imported = files.import.finish();
    assert_eq!(imported.totals().attempts, 1);
    let is_skip_note =
        |note: &String| note.starts_with("skipped 1 task with the result of an earlier");
    assert!(
        imported.notes.iter().any(is_skip_note),
        "{:?}",
        imported.notes
    );
}

#[test]
fn the_epoch_is_no_time_of_a_task() {
    let text = "name\tstatus\texit\trealtime\tstart\tcomplete\ttime\n\
                QC (a)\tCOMPLETED\t0\t1h\t1970-01-01 00:00:00.000\t2026-11-01 10:00:00\t8h\n";
    let step = Files::new().with(Kind::Nextflow, "t.txt", text).only();
    assert_eq!(
        step.time_limit.map(|limit| limit.should_ask.as_secs()),
        Some(8 * 3600)
    );
}

#[test]
fn thousands_of_failures_of_one_name_are_read_in_time() {
    let rows = "A\tFAILED\t1\t1s\n".repeat(70_000);
    let text = format!("process\tstatus\texit\trealtime\n{rows}");
    let imported = Files::new()
        .with(Kind::Nextflow, "t.txt", &text)
        .import
        .finish();
    let totals = imported.totals();
    assert_eq!((totals.tasks, totals.failed), (70_000, 70_000));
}

#[test]
fn a_job_that_slurm_ran_again_on_another_day_is_one_task() {
    let mut rows = String::new();
    for n in 0..4 {
        rows.push_str(&format!(
            "{n}|map||PREEMPTED|0:0|00:30:00|00:10:00||8G|2|||2026-10-01T23:00:00|2026-10-01T23:20:00|\
             2026-10-01T23:50:00|04:00:00|\n\
             {n}|map||COMPLETED|0:0|00:30:00|00:10:00||8G|2|||2026-10-01T23:50:00|2026-10-02T00:10:00|\
             2026-10-02T00:40:00|04:00:00|\n"
        ));
    }
    let imported = sacct(&rows).import.finish();
    let totals = imported.totals();
    assert_eq!((totals.tasks, totals.attempts), (4, 8));
    assert_eq!(imported.runs.len(), 1);
}

#[test]
fn a_benchmark_line_with_missing_or_more_fields_is_refused() {
    let check = |row: &str, expect: &str| {
        let (head, _) = PLAIN.split_once('\n').expect("a header");
        let text = format!("{head}\n{row}\n");
        let files = named(&[("map", "benchmarks/{sample}.map.txt")]);
        let files = files.with(Kind::Snakemake, "benchmarks/a.map.txt", &text);
        assert_eq!(files.bad[0].to_string(), expect);
    };
    check(
        "3600.1\t1:00:00\t32",
        "2: line: 3 fields for 10 columns; the line ends early, so the file may be incomplete",
    );
    check(
        "61.5\t0:01:01\t512.00\t900\t510\t511\t10\t2\t180.00\t110\t7\t7",
        "2: line: 12 fields for 10 columns; a value contains the separator, so use another separator \
         or put its column last",
    );
}

#[test]
fn an_object_of_a_benchmark_is_checked_like_a_line() {
    let check = |object: &str, expect: &str| {
        let good = "{\"s\": 9.0, \"h:m:s\": \"0:00:09\", \"rule_name\": \"map\"}";
        let text = format!("{good}\n{object}\n");
        let files = Files::new().with(Kind::Snakemake, "a.jsonl", &text);
        assert_eq!(files.bad[0].to_string(), expect);
    };
    let with = |field: &str| format!("{{\"s\": 9.0, \"rule_name\": \"map\", {field}}}");
    check(
        &with("\"threads\": \"lots\""),
        "2: threads: invalid value 'lots'",
    );
    check(
        &with("\"resources\": \"x\""),
        "2: resources: invalid value 'x'",
    );
    check(
        &with("\"max_rss\": 1e30"),
        "2: max_rss: invalid value '1e+30'",
    );
    check("[1]", "2: line: not a JSON object");
    check(
        "{\"s\": 9.0, ",
        "2: line: a JSON object without an end; the file may be incomplete",
    );
}

#[test]
fn numbers_at_their_limits_do_not_stop_an_import() {
    let head = "name\tstatus\texit\trealtime\tattempt\n";
    let row = "A (x)\tFAILED\t1\t1s\t4294967295\n";
    let files = Files::new().with(Kind::Nextflow, "t.txt", &format!("{head}{row}{row}"));
    assert_eq!(files.import.finish().totals().failed, 2);
    let nodes = i64::MAX;
    let row = format!(
        "1|map||COMPLETED|0:0|200000-00:00:00|00:10:00|1G|800000Tn|2||{nodes}|\
         2026-10-01T23:00:00|2026-10-01T23:20:00|2026-10-01T23:50:00|04:00:00|\n\
         1.batch|batch||COMPLETED|0:0|00:30:00|00:10:00|1G||2|1|1||||||\n"
    );
    assert_eq!(sacct(&row).import.finish().totals().attempts, 1);
}

#[test]
fn a_second_output_of_sacct_has_its_own_columns() {
    let head = "JobID|JobName|State|Elapsed|ReqMem|MaxRSS\n";
    let swapped = "JobID|JobName|State|Elapsed|MaxRSS|ReqMem\n";
    let mut text = String::new();
    for (first, swap) in [(1, false), (11, true)] {
        text.push_str(if swap { swapped } else { head });
        for n in first..first + 5 {
            let (a, b) = if swap { ("", "8G") } else { ("8G", "") };
            text.push_str(&format!("{n}|map|COMPLETED|01:00:00|{a}|{b}\n"));
            let (a, b) = if swap { ("6G", "") } else { ("", "2G") };
            text.push_str(&format!("{n}.batch|batch|COMPLETED|01:00:00|{a}|{b}\n"));
        }
    }
    let step = Files::new().with(Kind::Sacct, "all.txt", &text).only();
    assert_eq!((step.runs, step.peak_memory), (10, Some(Bytes::gib(6))));
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
}

#[test]
fn clusters_number_their_jobs_independently() {
    let head = "Cluster|JobID|JobName|State|Elapsed|Start|MaxRSS\n";
    let job = |cluster: &str, state: &str| {
        format!(
            "{cluster}|7|map|{state}|01:00:00|2026-11-01T10:00:00|\n\
             {cluster}|7.batch|batch|{state}|01:00:00|2026-11-01T10:00:00|2G\n"
        )
    };
    let text = format!("{head}{}{}", job("a", "COMPLETED"), job("b", "TIMEOUT"));
    let step = Files::new().with(Kind::Sacct, "all.txt", &text).only();
    assert_eq!((step.runs, step.failed, step.attempts), (2, 1, 1));
    assert_eq!(step.present.tasks(), 2, "each is a first attempt");
}

#[test]
fn an_input_beyond_all_known_ones_lowers_no_time_limit() {
    let mut files = Files::new();
    for run in 0..3 {
        let mut text = "name\tstatus\texit\trealtime\tstart\tcomplete\ttime\trchar\n".to_owned();
        for n in 0..4 {
            text.push_str(&format!(
                "QC (s{n})\tCOMPLETED\t0\t1h\t2026-11-0{d} 10:00:00\t2026-11-0{d} 11:00:00\t12h\t1 GB\n",
                d = run + 1
            ));
        }
        files = files.with(Kind::Nextflow, &format!("{run}.txt"), &text);
    }
    let imported = files.import.finish();
    let limit = |input: Option<Bytes>| {
        let advice = imported.advice(input);
        advice[0]
            .time_limit
            .map(|limit| limit.should_ask.as_secs() / 3600)
    };
    assert!(limit(None) < Some(12), "{:?}", limit(None));
    assert!(limit(Some(Bytes::gib(1))) < Some(12));
    assert_eq!(limit(Some(Bytes::gib(9))), Some(12));
}

#[test]
fn concatenated_benchmark_files_have_the_columns_of_each_header() {
    let (_, rows) = PLAIN.split_once('\n').expect("rows");
    let extended = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\t\
                    cpu_time\tthreads\n62.0\t0:01:02\t900.00\t900\t510\t511\t10\t2\t180.00\t110\t4\n";
    let files = named(&[("map", "benchmarks/{sample}.map.txt")]);
    let files = files.with(
        Kind::Snakemake,
        "benchmarks/a.map.txt",
        &format!(
            "{}\n{rows}{extended}",
            PLAIN.lines().next().expect("a header")
        ),
    );
    assert!(files.bad.is_empty(), "{:?}", files.bad);
    assert_eq!(files.only().peak_memory, Some(Bytes::mib(900)));
}

/// One job with a step for its script and one that `srun` started, which used all of the memory.
fn job_with_srun(day: u32, request: &str, state: &str, memory: [&str; 2]) -> String {
    let [script, srun] = memory;
    let times =
        format!("2024-03-{day:02}T09:00:00|2024-03-{day:02}T10:00:00|2024-03-{day:02}T11:00:00");
    let lines = [
        format!("{day}|x||{state}|0:0|01:00:00|00:50:00||{request}|1||1|{times}|1-00:00:00|/w\n"),
        format!("{day}.batch|batch||{state}|0:0|01:00:00|00:00:00|{script}||1|1|1|{times}||\n"),
        format!("{day}.0|tool||{state}|0:0|01:00:00|00:50:00|{srun}||1|1|1|{times}||\n"),
    ];
    lines.concat()
}

#[test]
fn a_single_srun_step_shows_the_memory_of_its_job() {
    let check = |request: &str, memory: [&str; 2], expect: (&str, bool)| {
        let rows: String = (1..=8)
            .map(|day| job_with_srun(day, request, "COMPLETED", memory))
            .collect();
        let step = sacct(&rows).only();
        let size = step.should_ask.memory.expect("a request").to_string();
        assert_eq!((&*size, step.peak_is_upper_bound), expect, "{memory:?}");
    };
    // It used more than the request, because Slurm did not limit it.
    check("2G", ["5000K", "4089446K"], ("4.8 GiB", false));
    check("8G", ["5000K", "4089446K"], ("4.8 GiB", false));
    // Two large peaks are perhaps of different times, and the request was enough for both.
    check("4G", ["3000000K", "3000000K"], ("4.0 GiB", true));
    // `sacct --units=G` rounds the small one to zero.
    check("8G", ["0.00G", "3.9G"], ("4.8 GiB", false));
}

#[test]
fn a_step_that_ran_out_of_memory_gets_a_request_that_was_enough_without_any_peak() {
    // As `sacct -X` writes it.
    let job = |day: u32, state: &str, memory: &str| {
        format!(
            "{day}|x||{state}|0:0|01:00:00|00:50:00||{memory}|1||1|2024-03-{day:02}T09:00:00|\
             2024-03-{day:02}T10:00:00|2024-03-{day:02}T11:00:00|1-00:00:00|/w\n"
        )
    };
    let failed = (1..=6).map(|day| job(day, "OUT_OF_MEMORY", "8G"));
    let well = (11..=16).map(|day| job(day, "COMPLETED", "16G"));
    let step = sacct(&failed.clone().chain(well).collect::<String>()).only();
    assert_eq!(step.should_ask.memory, Some(Bytes::gib(16)));
    // Without a task that succeeded, only the failures are known.
    let step = sacct(&failed.collect::<String>()).only();
    assert!(step.should_ask.memory > Some(Bytes::gib(8)), "{step:?}");
    // Without a failure, nothing is known.
    let well = (11..=16).map(|day| job(day, "COMPLETED", "16G"));
    let step = sacct(&well.collect::<String>()).only();
    assert_eq!(step.should_ask.memory, Some(Bytes::gib(16)));
    assert_eq!(step.risk.oom_between, None);

    // The retries of Nextflow, without peaks.
    let task = |number: u32| {
        let name = format!("ALN (s{number})");
        let failed = Task {
            peak: "-".to_owned(),
            ..Task::failed(number, &name, "137")
        };
        let retry = Task {
            hash: format!("cd/{number:06x}"),
            status: "COMPLETED",
            exit: "0",
            memory: "16 GB",
            attempt: 2,
            ..failed.clone()
        };
        [failed, retry]
    };
    let tasks: Vec<Task> = (0..6).flat_map(task).collect();
    assert_eq!(read(&tasks).only().should_ask.memory, Some(Bytes::gib(16)));
}

#[test]
fn the_jobs_of_a_profile_of_snakemake_are_tasks_of_their_rule() {
    for (before, separator) in [("smk-", "-"), ("", ".")] {
        let rows: String = (1..=6)
            .map(|day| {
                let name = format!("{before}align{separator}sample=S{day}");
                let rows = job_with_srun(day, "32G", "COMPLETED", ["5000K", "4000000K"]);
                rows.replacen("|x|", &format!("|{name}|"), 1)
            })
            .collect();
        let step = sacct(&rows).only();
        assert_eq!((&*step.step, step.runs), ("align", 6), "{separator}");
        assert!(step.should_ask.memory < Some(Bytes::gib(8)));
    }
}

#[test]
fn a_row_with_the_script_of_its_task_may_have_several_lines() {
    let check = |columns: &str, row: &str, problem: &str| {
        let text =
            format!("task_id\tname\tstatus\trealtime\tpeak_rss\tcpus\tmemory\t{columns}\n{row}");
        let files = Files::new().with(Kind::Nextflow, "trace.txt", &text);
        let bad: Vec<String> = files.bad.iter().map(BadLine::to_string).collect();
        let tasks = files.import.finish().totals().tasks;
        match problem {
            "" => assert_eq!((tasks, bad.len()), (2, 0), "{bad:?}"),
            _ => assert!(bad[0].contains(problem), "{bad:?}"),
        }
    };
    let task =
        |number: u32| format!("{number}\tA ({number})\tCOMPLETED\t60000\t1000000\t2\t4000000");
    let (one, two) = (task(1), task(2));
    let script = "\n    bwa mem \\\n      ref.fa |\n    name,status,exit\n    ";
    check("script", &format!("{one}\t{script}\n{two}\t{script}\n"), "");
    check(
        "script\texit",
        &format!("{one}\t{script}\t0\n{two}\t{script}\t0\n"),
        "",
    );
    check(
        "env\tscript\texit",
        &format!("{one}\tA=1\nB=2\n\t{script}\t0\n{two}\t-\t-\t0\n"),
        "",
    );
    check(
        "script\texit",
        &format!("{one}\t{script}\n"),
        "remove them from trace.fields",
    );
    check(
        "script\texit",
        &format!("{one}\ta\tb\tc\n"),
        "remove them from trace.fields",
    );
}

#[test]
fn a_report_of_nextflow_is_read_as_its_trace() {
    let text = "<!DOCTYPE html>\n<script>\n  window.data = { \"trace\":[\n\
        {\"task_id\":\"1\",\"hash\":\"ab\\/cd\",\"process\":\"A:ALIGN\",\"tag\":\"it\\'s\",\"name\":\"A:ALIGN (it\\'s)\",\
        \"status\":\"COMPLETED\",\"exit\":\"0\",\"realtime\":\"600000\",\"%cpu\":\"150.0\",\"peak_rss\":\"2147483648\",\
        \"cpus\":\"4\",\"memory\":\"8589934592\",\"attempt\":\"1\",\"script\":\"\\n  bwa mem\"}]\n,\"summary\":[]};\n</script>\n";
    let step = Files::new()
        .with(Kind::Nextflow, "report.html", text)
        .only();
    assert_eq!(step.step, "A:ALIGN");
    assert_eq!(step.asks.memory, Some(Bytes::gib(8)));
    assert_eq!(step.peak_memory, Some(Bytes::gib(2)));
    assert_eq!(step.mean_cores, Some(MilliCores(1_500)));
}

#[test]
fn columns_of_sacct_in_other_units_are_read_and_a_separator_within_values_is_named() {
    let text = "JobIDRaw|JobName|State|ElapsedRaw|TimelimitRaw|ReqMem\n7|x|COMPLETED|3600|1440|4G\n8|x|COMPLETED|3600|UNLIMITED|4G\n";
    let imported = Files::new()
        .with(Kind::Sacct, "jobs.txt", text)
        .import
        .finish();
    assert_eq!(imported.totals().wall_seconds, 7_200);

    let text = "JobID,State,Elapsed,AllocTRES,JobName\n1,COMPLETED,00:10:00,billing=1,cpu=1,mem=1G,align\n";
    let files = Files::new().with(Kind::Sacct, "jobs.csv", text);
    let problem = &files.bad[0].problem;
    assert!(problem.contains("use another separator"), "{problem}");
}
