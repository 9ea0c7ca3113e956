//! Which attempts of one name belong to one task. Several tasks of a step may have the same name, such
//! as the intervals of one sample. So each failed attempt has at most one retry.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

/// The clocks of two machines differ by less.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(10);

/// The numbers before that of an attempt that are searched: an attempt of a task may not be observed.
const MAX_NUMBERS_BACK: u32 = 3;

/// An attempt of a task that other tasks may share their name with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedAttempt {
    /// Its number in the engine, from 1; 0 when unknown.
    pub number: u32,
    /// When it started.
    pub started: Timestamp,
    /// When it ended, or its last observation.
    pub ended: Timestamp,
    /// Whether it failed.
    pub failed: bool,
}

/// The attempts of each task, as indices of `attempts` in the order of the attempts. All attempts have
/// the same name in one pipeline run.
///
/// Attempts with different numbers are those of one task. If a number is there twice, there are several
/// tasks. A retry then follows the last attempt that failed before it started.
pub fn by_task(attempts: &[NamedAttempt]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..attempts.len()).collect();
    order.sort_by_key(|index| {
        let one = &attempts[*index];
        (one.number, one.started, one.ended, *index)
    });
    let numbers: BTreeSet<u32> = attempts.iter().map(|one| one.number).collect();
    if numbers.len() == attempts.len() && !order.is_empty() && !numbers.contains(&0) {
        return vec![order];
    }
    let mut tasks: Vec<Vec<usize>> = Vec::new();
    // Failed attempts without a retry so far: number, end, and index of the task.
    let mut open: BTreeSet<(u32, Timestamp, usize)> = BTreeSet::new();
    for index in order {
        let one = &attempts[index];
        let start = one.started.saturating_add(CLOCK_DIFFERENCE);
        let start = start.unwrap_or(one.started);
        let before =
            earlier_numbers(one.number).find_map(|number| last_before(&open, number, start));
        let task = match before {
            Some(found) => {
                open.remove(&found);
                found.2
            }
            None => {
                tasks.push(Vec::new());
                tasks.len() - 1
            }
        };
        tasks[task].push(index);
        if one.failed {
            open.insert((one.number, one.ended, task));
        }
    }
    tasks
}

/// The numbers that the attempt before this one may have, the most likely first.
fn earlier_numbers(number: u32) -> impl Iterator<Item = u32> {
    let from = match number {
        0 => 0,
        _ => number.saturating_sub(MAX_NUMBERS_BACK).max(1),
    };
    (from..number.max(1)).rev()
}

fn last_before(
    open: &BTreeSet<(u32, Timestamp, usize)>,
    number: u32,
    start: Timestamp,
) -> Option<(u32, Timestamp, usize)> {
    let first = (number, Timestamp::MIN, 0);
    let last = (number, start, usize::MAX);
    open.range(first..=last).next_back().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number, start and end in seconds, and whether it failed.
    fn check(attempts: &[(u32, i64, i64, bool)], expect: &[&[usize]]) {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let attempts: Vec<NamedAttempt> = attempts
            .iter()
            .map(|(number, started, ended, failed)| NamedAttempt {
                number: *number,
                started: at(*started),
                ended: at(*ended),
                failed: *failed,
            })
            .collect();
        assert_eq!(by_task(&attempts), expect);
    }

    #[test]
    fn different_numbers_are_one_task_whatever_their_times() {
        check(&[], &[]);
        check(&[(2, 0, 9, false), (1, 0, 9, true)], &[&[1, 0]]);
    }

    #[test]
    fn a_number_that_is_there_twice_is_two_tasks() {
        let both = [(1, 0, 100, false), (1, 0, 300, false)];
        check(&both, &[&[0], &[1]]);
        let one_failed = [(1, 0, 100, true), (1, 0, 300, false), (2, 150, 500, false)];
        check(&one_failed, &[&[0, 2], &[1]]);
        // It started before the second failed.
        let two_failed = [(1, 0, 100, true), (1, 0, 300, true), (2, 150, 500, false)];
        check(&two_failed, &[&[0, 2], &[1]]);
        let three = [
            (1, 0, 100, true),
            (1, 0, 100, true),
            (2, 150, 200, true),
            (2, 150, 250, false),
            (3, 300, 400, false),
        ];
        check(&three, &[&[0, 3], &[1, 2, 4]]);
    }

    #[test]
    fn without_numbers_a_retry_starts_after_the_failure() {
        let several = [(0, 0, 100, true), (0, 120, 200, true), (0, 250, 300, false)];
        check(&several, &[&[0, 1, 2]]);
        let at_once = [(0, 0, 100, true), (0, 50, 200, false)];
        check(&at_once, &[&[0], &[1]]);
    }

    #[test]
    fn an_attempt_may_be_missing() {
        let missing = [(1, 0, 100, true), (1, 0, 90, false), (3, 400, 500, false)];
        check(&missing, &[&[1], &[0, 2]]);
    }
}
