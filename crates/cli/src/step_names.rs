//! Steps by the name that a user gives: the whole name, or its end.

use anyhow::{Result, bail};
use ebb_model::advice::step::StepAdvice;
use ebb_telemetry::safe_text::one_line;

use crate::similar_names;

/// The mark of a name whose beginning a table cut.
const CUT: char = '…';

/// The steps with this name. Without any, the steps of which it is the end: `ALIGN` is the end of
/// `RNASEQ:ALIGN`. A name that begins with `…`, as tables show it, may begin anywhere.
///
/// # Errors
/// If no step has this name; the error lists similar ones.
pub(crate) fn find_steps(query: &str, steps: &[StepAdvice]) -> Result<Vec<StepAdvice>> {
    let with = |is_it: &dyn Fn(&str) -> bool| -> Vec<StepAdvice> {
        let named = steps.iter().filter(|step| is_it(&step.step));
        named.cloned().collect()
    };
    let mut found = with(&|name| name == query);
    if found.is_empty() {
        found = with(&|name| is_end_of(query, name));
    }
    if found.is_empty() {
        let known = steps.iter().map(|step| step.step.as_str());
        let hint = match steps.is_empty() {
            true => Some(
                "the report contains no steps; a scan of an account reads no probe data".to_owned(),
            ),
            false => similar_names::hint(query, known),
        };
        let hint = hint.map_or_else(String::new, |hint| format!("\n  {hint}"));
        bail!("no step '{}'{hint}", one_line(query));
    }
    Ok(found)
}

fn is_end_of(query: &str, name: &str) -> bool {
    let (end, is_cut) = match query.strip_prefix(CUT) {
        Some(end) => (end, true),
        None => (query, false),
    };
    let before = name.strip_suffix(end);
    !end.is_empty() && before.is_some_and(|before| is_cut || before.ends_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_workflows::testing::step;

    #[test]
    fn a_step_is_found_by_its_name_or_by_the_end_of_it() {
        let names = ["NF:ALIGN:SORT", "NF:MARK:SORT", "NF:ALIGN:STAR", "STAR"];
        let steps: Vec<StepAdvice> = names.iter().map(|name| step(name)).collect();
        let check = |query: &str, expect: &[&str]| {
            let found = find_steps(query, &steps).expect(query);
            let found: Vec<&str> = found.iter().map(|step| step.step.as_str()).collect();
            assert_eq!(found, expect, "{query}");
        };
        check("NF:ALIGN:SORT", &["NF:ALIGN:SORT"]);
        check("SORT", &["NF:ALIGN:SORT", "NF:MARK:SORT"]);
        check("ALIGN:SORT", &["NF:ALIGN:SORT"]);
        check("STAR", &["STAR"]);
        check("…GN:STAR", &["NF:ALIGN:STAR"]);
    }

    #[test]
    fn a_name_that_no_step_has_is_an_error_with_similar_names() {
        let steps = [step("NF:ALIGN:SORT"), step("NF:QC")];
        let check = |query: &str, expect: &str| {
            let error = find_steps(query, &steps).expect_err(query);
            assert_eq!(error.to_string(), expect);
        };
        check("align", "no step 'align'\n  similar: NF:ALIGN:SORT");
        check("IGN:SORT", "no step 'IGN:SORT'\n  similar: NF:ALIGN:SORT");
        check("", "no step ''\n  known: NF:ALIGN:SORT, NF:QC");
        let error = find_steps("align", &[]).expect_err("no steps").to_string();
        assert!(error.contains("reads no probe data"), "{error}");
    }
}
