//! The differences between two policies by threshold.

use toml::{Table, Value};

use super::threshold_text::shown;

/// Lines with removed (`-`), added (`+`) and changed values.
pub(super) fn between(old: &Table, new: &Table) -> String {
    let mut lines = Vec::new();
    // Both are whole policies, so both contain every table except empty lists.
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        match (old.get(name), new.get(name)) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => {
                lines.extend(thresholds(name, old, new));
            }
            (old, new) => lines.extend(entries(name, listed(old), listed(new))),
        }
    }
    match lines.is_empty() {
        true => "Both have the same thresholds.\n".to_owned(),
        false => lines.join("\n") + "\n",
    }
}

fn thresholds(name: &str, old: &Table, new: &Table) -> Vec<String> {
    let differ = new.iter().filter_map(|(key, now)| {
        let before = old.get(key).filter(|before| *before != now)?;
        Some(format!(
            "  {name}.{key}: {} -> {}",
            shown(key, before),
            shown(key, now)
        ))
    });
    differ.collect()
}

fn listed(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn entries(name: &str, old: &[Value], new: &[Value]) -> Vec<String> {
    let gone = old.iter().filter(|entry| !new.contains(entry));
    let come = new.iter().filter(|entry| !old.contains(entry));
    let gone = gone.map(|entry| format!("- {name} {entry}"));
    gone.chain(come.map(|entry| format!("+ {name} {entry}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use ebb_model::policy::Policy;

    use super::*;

    #[test]
    fn what_differs_is_told_with_its_unit_and_what_does_not_is_not() {
        let check = |old: &str, new: &str, expect: &[&str]| {
            let [old, new] = [old, new].map(|text| {
                let policy = Policy::parse(text).expect("a policy");
                Table::try_from(policy).expect("TOML")
            });
            let differences = between(&old, &new);
            assert_eq!(differences.lines().collect::<Vec<_>>(), expect);
        };
        check("", "", &["Both have the same thresholds."]);
        check(
            "",
            "[idle]\nafter_seconds = 1800\n",
            &["Both have the same thresholds."],
        );
        check(
            "[idle]\nafter_seconds = 90\n",
            "[gpu]\nidle_after_seconds = 60\n[quiet]\ndays = [\"sat\"]\n",
            &[
                "  gpu.idle_after_seconds: 7200 (2 h 00 min) -> 60 (60 s)",
                "  idle.after_seconds: 90 (90 s) -> 1800 (30 min)",
                "  quiet.days: [] -> [\"sat\"]",
            ],
        );
        let route = |owner: &str| format!("[[route]]\nowner = \"{owner}\"\nslack = \"lab\"\n");
        check(
            &route("ana"),
            &(route("ben") + &route("cho")),
            &[
                "- route { email = [], owner = \"ana\", slack = \"lab\" }",
                "+ route { email = [], owner = \"ben\", slack = \"lab\" }",
                "+ route { email = [], owner = \"cho\", slack = \"lab\" }",
            ],
        );
    }
}
