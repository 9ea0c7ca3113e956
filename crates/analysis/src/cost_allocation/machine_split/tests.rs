//! Tests of the split of a machine.

use ebb_telemetry::testing::at;
use proptest::prelude::*;

use super::*;

const MACHINE: Capacity = Capacity {
    cores: MilliCores(4_000),
    memory: Bytes(16 << 30),
    gpus: 0,
};

fn size(cores: u64, gib: u64) -> Capacity {
    Capacity {
        cores: MilliCores(cores),
        memory: Bytes(gib << 30),
        gpus: 0,
    }
}

/// The zero of the test clock, rounded to an hour; times are in minutes after it.
fn window(from: u64, to: u64) -> Window {
    let hour = at(0).as_second().div_euclid(HOUR_SECONDS) * HOUR_SECONDS;
    let time = |minutes: u64| {
        let seconds = i64::try_from(minutes * 60).expect("a short time");
        Timestamp::from_second(hour + seconds).expect("a time of this century")
    };
    Window {
        from: time(from),
        to: time(to),
    }
}

fn claim(from: u64, to: u64, occupied: Capacity) -> Claim {
    let window = window(from, to);
    Claim { window, occupied }
}

fn split(dollars: i64, span: (u64, u64), claims: &[Claim]) -> (Vec<(i64, i64)>, i64) {
    let cost = Usd::from_micros(dollars * 1_000_000);
    let split = split_machine(cost, MACHINE, &[window(span.0, span.1)], claims);
    let tasks = split.tasks.iter();
    let tasks = tasks.map(|task| (task.used.micros(), task.unused.micros()));
    (tasks.collect(), split.without_tasks.micros())
}

#[test]
fn an_hour_is_divided_as_aws_divides_it() {
    // A dollar buys 4 cores and 16 GiB: 36 + 16 = 52 units. The tasks occupy 3 cores and 12 GiB.
    let tasks = [claim(0, 60, size(1_000, 4)), claim(0, 60, size(2_000, 8))];
    let (tasks, rest) = split(1, (0, 60), &tasks);
    assert_eq!(tasks, [(250_000, 83_333), (500_000, 166_667)]);
    assert_eq!(rest, 0);
    // Cores and memory are divided apart: 9 + 8 units are used. Three of four cores (27 units) and
    // half of the memory (8 units) are free.
    let (tasks, rest) = split(1, (0, 60), &[claim(0, 60, size(1_000, 8))]);
    assert_eq!((tasks, rest), (vec![(326_923, 673_077)], 0));
}

#[test]
fn hours_without_tasks_belong_to_no_task() {
    // The first of two hours has a task with half of the machine for half of the time.
    let (tasks, rest) = split(2, (0, 120), &[claim(30, 60, size(2_000, 8))]);
    assert_eq!((tasks, rest), (vec![(250_000, 750_000)], 1_000_000));
    // A machine that lives for 40 minutes and costs a dollar.
    let (tasks, rest) = split(1, (10, 50), &[claim(0, 60, size(1_000, 4))]);
    assert_eq!((tasks, rest), (vec![(250_000, 750_000)], 0));
    assert_eq!(split(1, (0, 60), &[]), (vec![], 1_000_000));
    // Without a life there is no task that could pay.
    let gone = split(1, (60, 60), &[claim(0, 60, MACHINE)]);
    assert_eq!(gone, (vec![(0, 0)], 1_000_000));
}

#[test]
fn tasks_that_occupy_too_much_are_reduced() {
    let all = claim(0, 60, size(40_000, 160));
    let (tasks, rest) = split(1, (0, 60), &[all, all]);
    assert_eq!((tasks, rest), (vec![(500_000, 0); 2], 0));
}

#[test]
fn a_gpu_costs_as_much_as_ten_cores() {
    let machine = Capacity { gpus: 2, ..MACHINE };
    let task = |gpus| {
        let occupied = Capacity {
            gpus,
            ..size(1_000, 4)
        };
        claim(0, 60, occupied)
    };
    // 36 + 16 + 180 = 232 units; the GPU of the first task has 90.
    let cost = Usd::from_micros(232);
    let split = split_machine(cost, machine, &[window(0, 60)], &[task(1), task(0)]);
    let used = split.tasks.iter().map(|task| task.used.micros());
    assert_eq!(used.collect::<Vec<_>>(), [103, 13]);
}

#[test]
fn the_method_chooses_between_request_and_use() {
    use AllocationMethod::{Greater, Reserved, Used};
    let known = |cores: Option<u64>, gib: Option<u64>| Requested {
        cores: cores.map(MilliCores),
        memory: gib.map(|gib| Bytes(gib << 30)),
    };
    let check = |method, reserved, used, expect| {
        assert_eq!(occupied(method, reserved, used, 0, MACHINE), expect);
    };
    let request = known(Some(2_000), Some(2));
    let took = known(Some(500), Some(4));
    check(Greater, request, took, size(2_000, 4));
    check(Reserved, request, took, size(2_000, 2));
    check(Used, request, took, size(500, 4));
    check(Reserved, known(None, None), took, size(500, 4));
    check(Used, request, known(None, None), size(2_000, 2));
    // One amount stands for the other, and nothing known is the whole machine.
    check(
        Greater,
        known(Some(1_000), None),
        known(None, None),
        size(1_000, 4),
    );
    check(
        Greater,
        known(None, Some(8)),
        known(None, None),
        size(2_000, 8),
    );
    check(Greater, known(None, None), known(None, None), MACHINE);
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let sizes = (0..200_000_u64, 0..2_000_000_000_000_u64, 0..9_u32);
    let times = (0..3_000_u64, 0..3_000_u64);
    (sizes, times).prop_map(|((cores, memory, gpus), (from, length))| Claim {
        window: window(from, from + length),
        occupied: Capacity {
            cores: MilliCores(cores),
            memory: Bytes(memory),
            gpus,
        },
    })
}

fn any_machine() -> impl Strategy<Value = Capacity> {
    let sizes = (1..1_920_000_u64, 1..(32_u64 << 40), 0..17_u32);
    sizes.prop_map(|(cores, memory, gpus)| Capacity {
        cores: MilliCores(cores),
        memory: Bytes(memory),
        gpus,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn parts_of_a_machine_add_up_to_its_cost(
        cost in -1_000_000_000_000..1_000_000_000_000_000_i64,
        machine in any_machine(),
        span in (0..2_000_u64, 0..2_000_u64),
        claims in prop::collection::vec(any_claim(), 0..20),
    ) {
        let span = window(span.0, span.0 + span.1);
        let split = split_machine(Usd::from_micros(cost), machine, &[span], &claims);
        let tasks: Usd = split.tasks.iter().map(|task| task.used + task.unused).sum();
        prop_assert_eq!((tasks + split.without_tasks).micros(), cost);
        for (task, claim) in split.tasks.iter().zip(&claims) {
            let signs = [task.used, task.unused].map(|usd| usd.micros().signum() * cost.signum());
            prop_assert!(signs.iter().all(|sign| *sign >= 0), "{task:?}");
            let ran = overlap(span, claim.window) > 0;
            prop_assert!(ran || *task == TaskShare::default(), "{task:?}");
        }
    }

    #[test]
    fn the_order_of_tasks_changes_no_more_than_a_millionth(
        machine in any_machine(),
        claims in prop::collection::vec(any_claim(), 1..10),
    ) {
        let cost = Usd::from_micros(24_000_000);
        let span = window(0, 1_440);
        let mut backwards = claims.clone();
        backwards.reverse();
        let once = split_machine(cost, machine, &[span], &claims);
        let again = split_machine(cost, machine, &[span], &backwards);
        for (a, b) in once.tasks.iter().zip(again.tasks.iter().rev()) {
            prop_assert!((a.used.micros() - b.used.micros()).abs() <= 1);
            prop_assert!((a.unused.micros() - b.unused.micros()).abs() <= 1);
        }
    }
}
