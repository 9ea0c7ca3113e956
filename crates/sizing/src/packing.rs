//! How tasks share machines: a replay of the placement by the platform, one task after another in
//! order of arrival. Tasks are never spread over fractions of machines, so that the result is whole
//! machines as on a bill.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use ebb_telemetry::units::{Bytes, MilliCores};

/// A task that needs a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The number of its step.
    pub step: usize,
    /// Its arrival, from an arbitrary origin of time.
    pub at: Duration,
    /// Its run time.
    pub wall: Duration,
    /// Its requested cores.
    pub cores: MilliCores,
    /// Its requested memory.
    pub memory: Bytes,
}

/// The capacity of a machine as the platform sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Its cores.
    pub cores: MilliCores,
    /// Its memory, without the part that the system keeps.
    pub memory: Bytes,
    /// The time for which it is kept after its last task.
    pub kept: Duration,
}

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// The total time of all machines, each from its first task to its termination.
    pub machine_time: Duration,
    /// The largest number of machines at the same time.
    pub machines: u32,
    /// The tasks by step on the machine with the most occupied cores at any time.
    pub fullest: BTreeMap<usize, u32>,
}

/// A running machine; `cores` and `memory` are free.
struct Up {
    cores: u64,
    memory: u64,
    since: Duration,
    /// Its tasks by step.
    runs: BTreeMap<usize, u32>,
    /// When its last task ends.
    until: Duration,
}

/// Places tasks in order of arrival. Each task goes to the machine on which it leaves the least
/// memory unused, then the least cores. If it fits on no machine, another one is started.
///
/// Source: "Amazon ECS task placement strategies", `binpack`: tasks are placed "so as to leave the
/// least amount of unused CPU or memory", which minimizes the instances in use.
///
/// # Errors
/// The step of a task that is larger than a whole machine.
pub fn pack(runs: &[Wanted], room: Room) -> Result<Packed, usize> {
    let fits = |run: &&Wanted| run.cores <= room.cores && run.memory <= room.memory;
    if let Some(large) = runs.iter().find(|run| !fits(run)) {
        return Err(large.step);
    }
    let mut order: Vec<&Wanted> = runs.iter().collect();
    order.sort_unstable_by_key(|run| (run.at, run.step, run.wall, run.cores, run.memory));
    let mut replay = Replay {
        room,
        up: Vec::new(),
        free: Vec::new(),
        ends: BinaryHeap::new(),
        fullest: 0,
        packed: Packed::default(),
    };
    for run in order {
        replay.until(run.at);
        replay.place(run);
    }
    replay.until(Duration::MAX);
    Ok(replay.packed)
}

/// The end of a task, its machine and step, and the cores and memory that become free.
type End = (Duration, usize, usize, u64, u64);

struct Replay {
    room: Room,
    /// Machines by number; those in `free` are terminated.
    up: Vec<Option<Up>>,
    /// Numbers that can be reused.
    free: Vec<usize>,
    ends: BinaryHeap<Reverse<End>>,
    fullest: u64,
    packed: Packed,
}

impl Replay {
    /// Ends the tasks that ended by `now`, and terminates machines that were empty for too long.
    fn until(&mut self, now: Duration) {
        while let Some(Reverse((end, machine, step, cores, memory))) = self.ends.peek().copied() {
            if end > now {
                break;
            }
            self.ends.pop();
            if let Some(up) = self.up.get_mut(machine).and_then(Option::as_mut) {
                up.cores += cores;
                up.memory += memory;
                if let Some(many) = up.runs.get_mut(&step) {
                    *many -= 1;
                }
                up.runs.retain(|_, many| *many > 0);
            }
        }
        for machine in 0..self.up.len() {
            let gone = self.up[machine]
                .take_if(|up| up.runs.is_empty() && up.until.saturating_add(self.room.kept) <= now);
            if let Some(up) = gone {
                let end = up.until.saturating_add(self.room.kept);
                let time = &mut self.packed.machine_time;
                *time = time.saturating_add(end.saturating_sub(up.since));
                self.free.push(machine);
            }
        }
    }

    fn place(&mut self, run: &Wanted) {
        let (cores, memory) = (run.cores.0, run.memory.0);
        let fitting = self.up.iter().enumerate().filter_map(|(machine, up)| {
            let up = up.as_ref()?;
            let fits = up.cores >= cores && up.memory >= memory;
            fits.then(|| (up.memory - memory, up.cores - cores, machine))
        });
        let machine = match fitting.min() {
            Some((_, _, machine)) => machine,
            None => self.start(run.at),
        };
        let Some(up) = self.up.get_mut(machine).and_then(Option::as_mut) else {
            return;
        };
        up.cores -= cores;
        up.memory -= memory;
        *up.runs.entry(run.step).or_default() += 1;
        let end = run.at.saturating_add(run.wall);
        up.until = up.until.max(end);
        let held = self.room.cores.0 - up.cores;
        if held > self.fullest {
            self.fullest = held;
            self.packed.fullest.clone_from(&up.runs);
        }
        self.ends
            .push(Reverse((end, machine, run.step, cores, memory)));
    }

    fn start(&mut self, at: Duration) -> usize {
        let up = Some(Up {
            cores: self.room.cores.0,
            memory: self.room.memory.0,
            since: at,
            runs: BTreeMap::new(),
            until: at,
        });
        let machine = match self.free.pop() {
            Some(machine) => {
                self.up[machine] = up;
                machine
            }
            None => {
                self.up.push(up);
                self.up.len() - 1
            }
        };
        let now = self.up.iter().flatten().count();
        self.packed.machines = self
            .packed
            .machines
            .max(u32::try_from(now).unwrap_or(u32::MAX));
        machine
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Step, arrival, run time, cores and GiB.
    type Made = (usize, u32, u32, u64, u64);

    fn wanted((step, at, wall, cores, gib): Made) -> Wanted {
        Wanted {
            step,
            at: SECOND * at,
            wall: SECOND * wall,
            cores: MilliCores::cores(cores),
            memory: Bytes::gib(gib),
        }
    }

    fn packed(runs: &[Made], (cores, gib): (u64, u64), kept: u32) -> Result<Packed, usize> {
        let runs: Vec<Wanted> = runs.iter().copied().map(wanted).collect();
        let room = Room {
            cores: MilliCores::cores(cores),
            memory: Bytes::gib(gib),
            kept: SECOND * kept,
        };
        pack(&runs, room)
    }

    #[test]
    fn runs_are_placed_where_least_is_left_and_machines_go_when_they_are_empty() {
        let check = |runs: &[Made], kept: u32, expect: (u64, u32, &[(usize, u32)])| {
            let packing = packed(runs, (8, 32), kept).expect("all fit");
            let fullest: Vec<_> = packing.fullest.iter().map(|(s, n)| (*s, *n)).collect();
            let seconds = packing.machine_time.as_secs();
            assert_eq!(
                (seconds, packing.machines, &fullest[..]),
                expect,
                "{runs:?}"
            );
        };
        check(&[], 0, (0, 0, &[]));
        check(&[(0, 0, 100, 4, 8)], 0, (100, 1, &[(0, 1)]));
        check(&[(0, 0, 100, 4, 8)], 60, (160, 1, &[(0, 1)]));
        // Two share, a third does not fit.
        let three = [(0, 0, 100, 4, 8), (1, 0, 50, 4, 8), (2, 10, 10, 1, 1)];
        check(&three, 0, (110, 2, &[(0, 1), (1, 1)]));
        // The task goes to the machine with less free memory.
        let fuller = [(0, 0, 100, 6, 8), (1, 0, 100, 6, 24), (2, 1, 300, 2, 8)];
        check(&fuller, 0, (401, 2, &[(1, 1), (2, 1)]));
        // A task that ends makes room for one that begins at the same time.
        check(
            &[(0, 0, 100, 8, 8), (0, 100, 100, 8, 8)],
            60,
            (260, 1, &[(0, 1)]),
        );
        // The first machine was empty for too long, so another one starts.
        check(
            &[(0, 0, 100, 8, 8), (0, 200, 100, 8, 8)],
            60,
            (320, 1, &[(0, 1)]),
        );
    }

    #[test]
    fn what_is_larger_than_a_machine_is_named() {
        assert_eq!(
            packed(&[(0, 0, 1, 1, 1), (7, 0, 1, 9, 1)], (8, 32), 0),
            Err(7)
        );
        assert_eq!(packed(&[(3, 0, 1, 1, 33)], (8, 32), 0), Err(3));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_machine_holds_more_than_it_has_and_none_is_free(
            runs in prop::collection::vec((0_usize..5, 0_u32..500, 1_u32..300, 1_u64..9, 1_u64..33), 1..80),
        ) {
            let packing = packed(&runs, (8, 32), 0).expect("all fit");
            let of = |value: fn(&Made) -> u64| -> u64 {
                runs.iter().map(|run| value(run) * u64::from(run.2)).sum()
            };
            let seconds = packing.machine_time.as_secs();
            prop_assert!(seconds * 8 >= of(|run| run.3) && seconds * 32 >= of(|run| run.4));
            let alone: u64 = runs.iter().map(|run| u64::from(run.2)).sum();
            prop_assert!(seconds <= alone, "sharing is never dearer than a machine each");
            let mut back = runs.clone();
            back.reverse();
            prop_assert_eq!(packed(&back, (8, 32), 0), Ok(packing));
        }

        #[test]
        fn runs_that_are_alike_and_ask_for_half_never_take_more_machines(
            runs in prop::collection::vec((0_usize..1, 0_u32..500, 1_u32..300, 2_u64..3, 8_u64..9), 1..80),
        ) {
            let half: Vec<Made> = runs.iter().map(|r| (r.0, r.1, r.2, r.3 / 2, r.4 / 2)).collect();
            let most = |runs: &[Made]| packed(runs, (8, 32), 0).expect("all fit").machines;
            prop_assert!(most(&half) <= most(&runs));
        }
    }
}
