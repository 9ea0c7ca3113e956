//! Nextflow: `withName` selectors for `nextflow.config`.

use std::fmt::Write;

use super::{Ask, asks, mib, nothing, origin_note};
use ebb_domain::profile::advice::StepAdvice;

/// A configuration to include with `-c`.
pub(super) fn nextflow(steps: &[StepAdvice]) -> String {
    let asks = asks(steps);
    if asks.is_empty() {
        return nothing("//");
    }
    let mut out = origin_note("//", &asks);
    out.push_str("// nextflow run … -c this-file\nprocess {\n");
    for ask in &asks {
        selector(&mut out, ask);
    }
    out.push_str("}\n");
    out
}

fn selector(out: &mut String, ask: &Ask<'_>) {
    let _ = writeln!(out, "    withName: '{}' {{", pattern(ask.name));
    if let Some(cores) = ask.cores {
        let _ = writeln!(out, "        cpus = {cores}");
    }
    if !ask.sizes.is_empty() {
        let many = ask.sizes.len();
        let sizes: Vec<String> = ask
            .sizes
            .iter()
            .map(|s| format!("{}.MB", mib(*s)))
            .collect();
        let _ = writeln!(
            out,
            "        memory = {{ [{}].get(Math.min(task.attempt, {many}) - 1) }}",
            sizes.join(", ")
        );
        // 137 is SIGKILL, by which the kernel and Batch end what has too little.
        out.push_str(
            "        errorStrategy = { task.exitStatus == 137 ? 'retry' : 'terminate' }\n",
        );
        let _ = writeln!(out, "        maxRetries = {}", many - 1);
    }
    out.push_str("    }\n");
}

/// A selector is a regular expression of Java in a string of Groovy; outside ASCII
/// by code unit, as both read `\u`.
fn pattern(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut units = [0; 2];
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | ':' | ' ' => out.push(c),
            '\'' => out.push_str("\\'"),
            '\\' => out.push_str("\\\\\\\\"),
            '!'..='~' => {
                out.push_str("\\\\");
                out.push(c);
            }
            _ => {
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\\\u{unit:04x}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_itself_and_nothing_else() {
        let check = |name: &str, expect: &str| assert_eq!(pattern(name), expect, "{name}");
        check("NFCORE_RNASEQ:FASTQC", "NFCORE_RNASEQ:FASTQC");
        check("a.*", "a\\\\.\\\\*");
        check("!x", "\\\\!x");
        check("it's", "it\\'s");
        check("a\\b", "a\\\\\\\\b");
        check("${x}\n", "\\\\$\\\\{x\\\\}\\\\u000a");
        check("é", "\\\\u00e9");
    }
}
