//! Allowed range of each number in a policy file, by the name of its key. A key ends in its unit,
//! so a new key has a range without further code. A test checks all keys.

use toml::{Table, Value};

use crate::policy::error::PolicyError;

/// Range of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Smallest value.
    pub least: i64,
    /// Largest value.
    pub most: i64,
    too_small: &'static str,
    too_large: &'static str,
}

/// Ten years, longer than any task or retention.
const MAX_SECONDS: i64 = 10 * 366 * 86_400;

/// A pebibyte, more than a node transfers in a minute or a day.
const MAX_BYTES: i64 = 1 << 50;

/// A billion dollars.
const MAX_USD_MICROS: i64 = 1_000_000_000_000_000;

/// Keys that must not be 0, because 0 would report everything as waste or divide by zero.
const POSITIVE: [&str; 15] = [
    "activity.tick_seconds",
    "idle.after_seconds",
    "batch.no_progress_seconds",
    "batch.orphan_seconds",
    "batch.vanished_sweeps",
    "batch.starting_seconds",
    "batch.at_head_seconds",
    "batch.queued_runs",
    "metrics.idle_after_seconds",
    "gpu.idle_after_seconds",
    "hours.times_alike",
    "hours.least_off",
    "step.stalled_seconds",
    "step.history_runs",
    "step.storm_runs",
];

/// Range of the number `table.key`; `None` if no such key has a number.
pub fn of_key(table: &str, key: &str) -> Option<Bounds> {
    let name = format!("{table}.{key}");
    let bounds = by_name(&name).or_else(|| by_unit(key))?;
    let is_positive = POSITIVE.contains(&name.as_str());
    Some(match is_positive && bounds.least < 1 {
        true => Bounds {
            least: 1,
            too_small: "must be greater than 0",
            ..bounds
        },
        false => bounds,
    })
}

/// Keys whose range does not follow from the unit.
fn by_name(name: &str) -> Option<Bounds> {
    let between = |least, most, problem| {
        Some(Bounds {
            least,
            most,
            too_small: problem,
            too_large: problem,
        })
    };
    match name {
        "activity.tick_seconds" => between(1, 3_600, "must be between 1 and 3600 (one hour)"),
        "activity.gpu_floor_ppm" => between(0, 1_000_000, "must be at most 1000000 (100 %)"),
        "step.slow_ppm" => between(1, 1_000_000_000, "must be between 1 and 1000000000"),
        "sizing.memory_headroom_ppm" | "sizing.max_slowdown_ppm" => {
            between(0, 10_000_000, "must be at most 10000000 (ten times)")
        }
        "hours.early_or_late_seconds" => between(0, 86_400, "must be at most 86400 (one day)"),
        "hours.least_off" | "hours.least_off_a_week" => {
            between(0, 168, "must be at most 168, the hours of a week")
        }
        "hours.times_alike" => between(
            1,
            13,
            "must be between 1 and 13, because 14 days are stored",
        ),
        "anomaly.score_ppm" => between(
            1_000_000,
            100_000_000,
            "must be between 1000000 and 100000000 (a score of 1 to 100)",
        ),
        "anomaly.min_history_days" | "anomaly.min_cost_days" => between(
            3,
            28,
            "must be between 3 and 28, because 28 days are compared",
        ),
        "lake.unreferenced_days" => between(1, 365, "must be between 1 and 365 (one year)"),
        "lake.heartbeats_days"
        | "lake.steps_days"
        | "lake.findings_days"
        | "lake.costs_days"
        | "lake.node_hours_days" => between(0, 36_500, "must be at most 36500 (a hundred years)"),
        "metrics.history_days" => between(
            0,
            63,
            "must be at most 63, because CloudWatch keeps hourly metrics for 63 days",
        ),
        _ => None,
    }
}

fn by_unit(key: &str) -> Option<Bounds> {
    let up_to = |most, problem| {
        Some(Bounds {
            least: 0,
            most,
            too_small: "must not be negative",
            too_large: problem,
        })
    };
    let is_count = key.ends_with("_runs") || key.ends_with("_sweeps") || key.ends_with("_samples");
    if key.ends_with("_ppm") {
        let problem = "must be between 1 and 1000000 parts per million";
        return Some(Bounds {
            least: 1,
            most: 1_000_000,
            too_small: problem,
            too_large: problem,
        });
    }
    if key.contains("_usd_micros") {
        return up_to(MAX_USD_MICROS, "must be between 0 and a billion dollars");
    }
    if key.ends_with("_seconds") {
        return up_to(MAX_SECONDS, "must be at most 316224000 (ten years)");
    }
    if key.contains("_bytes") {
        return up_to(MAX_BYTES, "must be at most 1125899906842624 (1 PiB)");
    }
    if key.ends_with("_ms") {
        return up_to(86_400_000, "must be at most 86400000 (one day)");
    }
    if key.contains("_megabytes") {
        return up_to(1_000_000_000, "must be at most 1000000000 (1 PB)");
    }
    if is_count || key.ends_with("_a_day") {
        return up_to(1_000_000, "must be at most 1000000");
    }
    None
}

/// Refuses the first number that is out of its range.
pub(crate) fn check(file: &Table) -> Result<(), PolicyError> {
    for (table, values) in file {
        let numbers = values.as_table().into_iter().flatten();
        for (key, value) in numbers {
            let (Some(bounds), Value::Integer(value)) = (of_key(table, key), value) else {
                continue;
            };
            if !(bounds.least..=bounds.most).contains(value) {
                return Err(PolicyError::Value {
                    key: format!("{table}.{key}"),
                    value: *value,
                    problem: match *value < bounds.least {
                        true => bounds.too_small,
                        false => bounds.too_large,
                    },
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    /// Each number of a policy with its table and default.
    fn numbers() -> Vec<(String, String, i64)> {
        let defaults = Table::try_from(Policy::default()).expect("TOML");
        let mut all = Vec::new();
        for (table, values) in &defaults {
            for (key, value) in values.as_table().into_iter().flatten() {
                if let Value::Integer(value) = value {
                    all.push((table.clone(), key.clone(), *value));
                }
            }
        }
        assert!(all.len() > 60, "there are only {}", all.len());
        all
    }

    #[test]
    fn each_number_has_bounds_that_hold_its_default() {
        for (table, key, default) in numbers() {
            let bounds = of_key(&table, &key);
            let bounds = bounds.unwrap_or_else(|| panic!("{table}.{key} has no bounds"));
            assert!(
                (bounds.least..=bounds.most).contains(&default),
                "{table}.{key}"
            );
        }
        for name in POSITIVE {
            let is_name =
                |(table, key, _): &(String, String, i64)| format!("{table}.{key}") == name;
            assert!(numbers().iter().any(is_name), "{name} is no key");
        }
    }

    #[test]
    fn an_extreme_value_works_or_is_refused_under_its_name() {
        for (table, key, _) in numbers() {
            let bounds = of_key(&table, &key).expect("bounds");
            let parsed = |value: &str| Policy::parse(&format!("[{table}]\n{key} = {value}\n"));
            for value in [bounds.least, bounds.most] {
                let policy = parsed(&value.to_string());
                policy.unwrap_or_else(|error| panic!("{table}.{key} = {value}: {error}"));
            }
            let extremes = [
                (bounds.least - 1).to_string(),
                (bounds.most + 1).to_string(),
                i64::MIN.to_string(),
                i64::MAX.to_string(),
                u64::MAX.to_string(),
                "99999999999999999999999".to_owned(),
            ];
            for value in extremes {
                let error = parsed(&value).expect_err(&value).to_string();
                let names_it = error.contains(&format!("{table}.{key} is {value}: "));
                let names_line = error.contains("line 2");
                assert!(names_it || names_line, "{table}.{key} = {value}: {error}");
            }
        }
    }
}
