//! The known names that are most similar to a misspelt one, for errors.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ebb_telemetry::safe_text::one_line;

/// The most names that an error lists.
const MAX_NAMES: usize = 5;

/// Characters of a name that are compared, because the time of a comparison grows with their square.
const MAX_CHARS: usize = 256;

/// The second line of an error about a missing name: similar names, or else the first known ones.
/// `None` if no name is known.
pub(crate) fn hint<'a>(query: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    similar_hint(query, known.iter().copied()).or_else(|| list("known", &known))
}

/// The same, but `None` if no name is similar.
pub(crate) fn similar_hint<'a>(
    query: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let known: Vec<&str> = known.into_iter().collect();
    list("similar", &similar(query, &known))
}

fn list(what: &str, names: &[&str]) -> Option<String> {
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|n| one_line(n)).collect();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    (!shown.is_empty()).then(|| format!("{what}: {}{more}", shown.join(", ")))
}

/// Names that contain the text, and names with few other characters; the nearest first.
fn similar<'a>(query: &str, known: &[&'a str]) -> Vec<&'a str> {
    let clipped = |text: &str| -> String { text.chars().take(MAX_CHARS).collect() };
    let query = clipped(query).to_lowercase();
    let close = (query.chars().count() / 3).max(2);
    let mut distinct = BTreeSet::new();
    let mut near: Vec<(Reverse<bool>, usize, &str)> = Vec::new();
    for name in known.iter().copied().filter(|name| distinct.insert(*name)) {
        let lower = clipped(name).to_lowercase();
        let contains = !query.is_empty() && lower.contains(&query);
        let distance = strsim::levenshtein(&query, &lower);
        if contains || distance <= close {
            near.push((Reverse(contains), distance, name));
        }
    }
    near.sort_unstable();
    near.into_iter().map(|(.., name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first_and_others_only_without_them() {
        let check = |query: &str, known: &[&str], expect: Option<&str>| {
            let text = hint(query, known.iter().copied());
            assert_eq!(text.as_deref(), expect, "{query}");
        };
        let runs = ["cohort-7", "cohort-71", "angry_euler", "unassigned"];
        check("cohort-8", &runs, Some("similar: cohort-7, cohort-71"));
        check("EULER", &runs, Some("similar: angry_euler"));
        check("7", &runs, Some("similar: cohort-7, cohort-71"));
        check(
            "zzzzzz",
            &runs,
            Some("known: cohort-7, cohort-71, angry_euler, unassigned"),
        );
        check("x", &[], None);
        check("", &["a\u{1b}[31m"], Some("known: a\u{fffd}[31m"));
        let many: Vec<String> = (0..9).map(|n| format!("run-{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(
            "run",
            &many,
            Some("similar: run-0, run-1, run-2, run-3, run-4, and 4 more"),
        );
        let long = "x".repeat(1_000_000);
        assert!(hint(&long, [long.as_str()]).is_some());
    }
}
