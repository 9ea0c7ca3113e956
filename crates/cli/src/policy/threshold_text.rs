//! Thresholds in a form for people. The suffix of a key names its unit, so a new threshold needs no
//! change here.

use std::time::Duration;

use ebb_model::policy::exemption::Exemption;
use ebb_model::policy::schema::policy_schema;
use ebb_telemetry::money::Usd;
use ebb_telemetry::safe_text::counted;
use ebb_telemetry::units::{Bytes, CpuTime, HumanDuration};
use jiff::Timestamp;
use schemars::Schema;
use toml::{Table, Value};

/// All thresholds as lines of key, value, meaning and, if it differs, default.
pub(super) fn as_table(held: &Table, defaults: &Table) -> String {
    let mut lines = Vec::new();
    let mut differ = 0;
    for (table, keys) in tables(held) {
        for (key, value) in keys {
            let default = defaults.get(table).and_then(|t| t.get(key));
            let other = default.filter(|default| *default != value);
            differ += usize::from(other.is_some());
            let default = other.map(|default| match meaning(key, default) {
                Some(meaning) => format!("default {meaning}"),
                None => format!("default {default}"),
            });
            lines.push([
                format!("{table}.{key}"),
                value.to_string(),
                meaning(key, value).unwrap_or_default(),
                default.unwrap_or_default(),
            ]);
        }
    }
    let widest = |n: usize| lines.iter().map(|line| line[n].chars().count()).max();
    let widths = [0, 1, 2].map(|n| widest(n).unwrap_or(0));
    let mut out = format!(
        "{differ} of {} thresholds differ from the defaults.\n\n",
        lines.len()
    );
    for [key, value, meaning, default] in &lines {
        let [a, b, c] = widths;
        let line = format!("{key:<a$}  {value:>b$}  {meaning:<c$}  {default}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The numbers of entries under `[[names]]`, `[[webhooks]]` and the like; exemptions are listed.
pub(super) fn entries(held: &Table) -> String {
    let lists = held.iter().filter_map(|(name, value)| {
        let entries = value.as_array().filter(|entries| !entries.is_empty())?;
        (name != "exempt").then(|| format!("{} under [[{name}]]", entries.len()))
    });
    let lists: Vec<String> = lists.collect();
    match lists.is_empty() {
        true => String::new(),
        false => format!("\nEntries: {}.\n", lists.join(", ")),
    }
}

/// The findings that each exemption leaves out, and its end.
pub(super) fn exemptions(exempt: &[Exemption], now: Timestamp) -> String {
    if exempt.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}:\n", counted(exempt.len(), "exemption", "exemptions"));
    for exemption in exempt {
        let stands = match (exemption.has_ended(now), exemption.holds_at(now)) {
            (true, _) => "HAS ENDED; the findings are reported again",
            (false, true) => "in effect",
            (false, false) => "not in effect at this hour",
        };
        let (what, why) = (exemption.to_string(), exemption.reason.trim());
        out.push_str(&format!("  {what}: {stands} ({why})\n"));
    }
    out
}

/// All thresholds as a policy file, each with its reason.
pub(super) fn as_file(held: &Table) -> String {
    let descriptions = Descriptions::new();
    let mut out = "# A key that is missing in a policy file has the value below.\n".to_owned();
    for (table, keys) in tables(held) {
        out.push('\n');
        comment(&mut out, descriptions.table(table));
        out.push_str(&format!("[{table}]\n"));
        for (key, value) in keys {
            comment(&mut out, descriptions.key(table, key));
            let meaning = meaning(key, value).map(|meaning| format!(" # {meaning}"));
            out.push_str(&format!("{key} = {value}{}\n", meaning.unwrap_or_default()));
        }
        for key in descriptions
            .keys(table)
            .filter(|key| !keys.contains_key(*key))
        {
            comment(&mut out, descriptions.key(table, key));
            out.push_str(&format!("# {key} has no default\n"));
        }
    }
    out
}

fn tables(held: &Table) -> impl Iterator<Item = (&String, &Table)> {
    held.iter()
        .filter_map(|(name, value)| Some((name, value.as_table()?)))
}

fn comment(out: &mut String, text: Option<&str>) {
    for line in text.into_iter().flat_map(str::lines) {
        out.push_str(&format!("# {line}\n"));
    }
}

/// A value with its unit; `None` if the value needs no explanation.
pub(crate) fn meaning(key: &str, value: &Value) -> Option<String> {
    let amount = value.as_integer()?;
    let whole = u64::try_from(amount).ok();
    if key.contains("usd_micros") {
        return Some(Usd::from_micros(amount).to_string());
    }
    if key.ends_with("_seconds") {
        return Some(HumanDuration(Duration::from_secs(whole?)).to_string());
    }
    if key.ends_with("_ms") {
        return Some(CpuTime::from_millis(whole?).to_string());
    }
    if key.ends_with("_bytes") {
        return Some(Bytes(whole?).to_string());
    }
    if key.ends_with("_ppm") {
        // A share is at most one; a larger value is a factor.
        return Some(match u32::try_from(whole?).ok()? {
            times @ 1_000_001.. => format!("{} times", f64::from(times) / 1e6),
            ppm => percent(ppm),
        });
    }
    None
}

/// With all decimals: 99.5 % is not 100 %.
fn percent(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A value with its unit, if it has one.
pub(super) fn shown(key: &str, value: &Value) -> String {
    match meaning(key, value) {
        Some(meaning) => format!("{value} ({meaning})"),
        None => value.to_string(),
    }
}

/// The descriptions in the JSON Schema of the policy, which are the doc comments of its types.
pub(crate) struct Descriptions(Schema);

impl Descriptions {
    pub(crate) fn new() -> Self {
        Self(policy_schema())
    }

    fn find(&self, path: &[&str]) -> Option<&str> {
        let below = |value, name: &&str| serde_json::Value::get(value, "properties")?.get(name);
        path.iter()
            .try_fold(self.0.as_value(), below)?
            .get("description")?
            .as_str()
    }

    /// The reason of a table.
    pub(crate) fn table(&self, table: &str) -> Option<&str> {
        self.find(&[table])
    }

    /// The keys of a table.
    fn keys(&self, table: &str) -> impl Iterator<Item = &String> {
        let properties = self
            .0
            .as_value()
            .pointer(&format!("/properties/{table}/properties"));
        properties
            .and_then(serde_json::Value::as_object)
            .into_iter()
            .flat_map(|keys| keys.keys())
    }

    /// The reason of a key.
    pub(crate) fn key(&self, table: &str, key: &str) -> Option<&str> {
        self.find(&[table, key])
    }
}

#[cfg(test)]
mod tests {
    use ebb_model::policy::Policy;

    use super::*;

    #[test]
    fn every_threshold_has_a_reason() {
        let descriptions = Descriptions::new();
        let all = Table::try_from(Policy::default()).expect("it is TOML");
        for (table, keys) in tables(&all) {
            assert!(descriptions.table(table).is_some(), "{table}");
            for key in keys.keys() {
                assert!(descriptions.key(table, key).is_some(), "{table}.{key}");
            }
        }
    }

    #[test]
    fn a_key_that_two_tables_have_gets_the_reason_of_its_own_table() {
        let descriptions = Descriptions::new();
        let check = |table: &str, key: &str, expect: &str| {
            let reason = descriptions.key(table, key).expect("it has a reason");
            assert!(reason.contains(expect), "{table}.{key}: {reason}");
        };
        check("gpu", "idle_after_seconds", "GPUs");
        check("metrics", "idle_after_seconds", "metrics");
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same_thresholds() {
        let all = Table::try_from(Policy::default()).expect("it is TOML");
        let back = Policy::parse(&as_file(&all)).expect("it is a policy");
        assert_eq!(back, Policy::default());
    }

    #[test]
    fn an_exemption_is_told_with_what_it_does_today() {
        let check = |until: &str, hours: &str, expect: &str| {
            let file = "[[exempt]]\ntag = \"Team=lab\"\nkind = \"idle_node\"\nreason = \"course\"";
            let file = format!("{file}\nuntil = \"{until}\"\n{hours}");
            let policy = Policy::parse(&file).expect("valid");
            let now = "2026-11-21T12:00:00Z".parse().expect("a time");
            let text = exemptions(&policy.exempt, now);
            let line = format!("  kind idle_node and tag Team=lab{expect} (course)");
            assert!(text.contains(&line), "{text}");
        };
        check("2026-12-31", "", " until 2026-12-31: in effect");
        check(
            "2026-01-31",
            "",
            " until 2026-01-31: HAS ENDED; the findings are reported again",
        );
        check(
            "2026-12-31",
            "schedule = { begins = \"19:00\", ends = \"07:00\" }",
            " and 19:00 to 07:00 (UTC) until 2026-12-31: not in effect at this hour",
        );
        let none = exemptions(&[], Timestamp::UNIX_EPOCH);
        assert!(none.is_empty());
    }

    #[test]
    fn the_end_of_a_key_is_its_unit() {
        let check = |key: &str, value: i64, expect: Option<&str>| {
            assert_eq!(meaning(key, &Value::Integer(value)).as_deref(), expect);
        };
        check("after_seconds", 1800, Some("30 min"));
        check("cpu_floor_ms", 1200, Some("1.20 s"));
        check("disk_floor_bytes", 1 << 20, Some("1.0 MiB"));
        check("min_coverage_ppm", 950_000, Some("95 %"));
        check("size_percentile_ppm", 995_000, Some("99.5 %"));
        check("oom_ppm", 100, Some("0.01 %"));
        check("slow_ppm", 2_000_000, Some("2 times"));
        check("slow_ppm", 1_500_000, Some("1.5 times"));
        check("min_saving_usd_micros", 1_000_000, Some("$1.00"));
        check("paid_calls_usd_micros_a_day", 1_000_000, Some("$1.00"));
        check("confident_samples", 20, None);
        check("after_seconds", -1, None);
    }
}
