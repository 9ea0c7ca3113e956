//! Snakemake: a workflow profile with `set-threads` and `set-resources`.

use std::fmt::Write;

use super::{Ask, asks, nothing, origin_note};
use ebb_domain::profile::advice::StepAdvice;
use ebb_domain::units::Bytes;

/// A profile's `config.yaml`.
pub(super) fn snakemake(steps: &[StepAdvice]) -> String {
    let asks = asks(steps);
    if asks.is_empty() {
        return nothing("#");
    }
    let mut out = origin_note("#", &asks);
    out.push_str("# profiles/tuned/config.yaml: snakemake --workflow-profile profiles/tuned\n");
    let retries = asks.iter().map(|ask| ask.sizes.len()).max().unwrap_or(0);
    if retries > 1 {
        let _ = writeln!(out, "retries: {}", retries - 1);
    }
    let section = |out: &mut String, head: &str, line: &dyn Fn(&Ask<'_>) -> Option<String>| {
        let lines: Vec<String> = asks.iter().filter_map(line).collect();
        if !lines.is_empty() {
            let _ = writeln!(out, "{head}:\n{}", lines.join("\n"));
        }
    };
    section(&mut out, "set-threads", &|ask| {
        Some(format!("  {}: {}", quoted(ask.name), ask.cores?))
    });
    section(&mut out, "set-resources", &|ask| {
        let name = quoted(ask.name);
        (!ask.sizes.is_empty()).then(|| format!("  {name}:\n    mem_mb: \"{}\"", sizes(ask)))
    });
    out
}

/// An expression that Snakemake evaluates at each attempt.
fn sizes(ask: &Ask<'_>) -> String {
    let sizes: Vec<String> = ask.sizes.iter().map(|s| mb(*s).to_string()).collect();
    let many = sizes.len();
    format!("[{}][min(attempt, {many}) - 1]", sizes.join(", "))
}

/// Snakemake counts a megabyte as a million bytes.
fn mb(bytes: Bytes) -> u64 {
    bytes.0.div_ceil(1_000_000)
}

/// A string of YAML in double quotes, all of it ASCII.
fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_string_of_yaml() {
        let check = |name: &str, expect: &str| assert_eq!(quoted(name), expect, "{name}");
        check("align", "\"align\"");
        check("a: [b] # \"c\"", "\"a: [b] # \\\"c\\\"\"");
        check("a\nb", "\"a\\U0000000ab\"");
        check("back\\slash", "\"back\\\\slash\"");
        check("\u{1f9ec}", "\"\\U0001f9ec\"");
    }
}
