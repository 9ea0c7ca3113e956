//! How a verdict came about, as lines for people or as JSON.

use anyhow::{Context, Result, bail};
use ebb_domain::judge::{Explanation, Speaks};

use crate::args::Format;

pub(super) fn written(explanation: &Explanation, format: Format) -> Result<String> {
    let is_known = explanation.what.is_some()
        || !explanation.findings.is_empty()
        || !explanation.not_judged.is_empty();
    if !is_known {
        bail!(
            "nothing is known of {}: it is neither a resource of the regions looked at nor the \
             id of a finding",
            explanation.resource.escape_default()
        );
    }
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(explanation);
            text.map(|text| text + "\n").context("writing it as JSON")
        }
        _ => Ok(lines(explanation)),
    }
}

fn lines(explanation: &Explanation) -> String {
    let what = explanation.what.as_deref();
    let what = what.map(|what| format!(": {}", plain(what)));
    let mut out = format!(
        "{}{}\n",
        plain(&explanation.resource),
        what.unwrap_or_default()
    );
    let mut rule = None;
    for check in &explanation.checks {
        if rule.replace(check.rule) != Some(check.rule) {
            out.push_str(&format!("\nRule {}\n", check.rule.slug()));
        }
        let bound = match check.bound.is_empty() {
            true => String::new(),
            false => format!("  [{}]", plain(&check.bound)),
        };
        let mark = match check.speaks {
            Speaks::ForWaste => "+",
            Speaks::Against => "-",
            Speaks::Unknown => "?",
        };
        let value = plain(&check.value);
        out.push_str(&format!("  {mark} {} {value}{bound}\n", check.question));
    }
    out.push('\n');
    for finding in &explanation.findings {
        let (kind, evidence) = (finding.kind, plain(&finding.evidence.to_string()));
        let why = plain(&finding.confidence.reason);
        out.push_str(&format!(
            "Found: {kind}: {evidence}\n  confidence {}: {why}\n  {}\n",
            finding.confidence.level,
            plain(&finding.remedy.advice)
        ));
    }
    for not in &explanation.not_judged {
        out.push_str(&format!(
            "Not judged ({}): {}\n",
            not.rule,
            plain(&not.reason)
        ));
    }
    if explanation.findings.is_empty() && explanation.not_judged.is_empty() {
        out.push_str("Nothing is wrong with it.\n");
    }
    out.push_str("\n+ speaks for waste   - speaks against it, and decides   ? cannot be told\n");
    out
}

/// Names and reasons come from outside.
fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{FFFD}' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::FakeInventory;
    use ebb_domain::policy::Policy;
    use ebb_sweep::gather::Account;

    use super::*;
    use crate::demo;

    async fn explain(id: &str) -> Result<String> {
        let policy = Policy::default();
        let demo = demo::load(&policy)?;
        let inventory: &FakeInventory = &demo.inventory;
        let account = Account {
            inventory,
            metrics: Some(&demo.metrics),
            bill: None,
            markets: None,
            prices: None,
            regions: &[],
        };
        let asked = Some(id);
        let scanned =
            ebb_sweep::scan::explained(&account, &demo.known, (&policy, demo.now), asked).await;
        written(&scanned.1.expect("it was asked for"), Format::Table)
    }

    #[tokio::test]
    async fn every_finding_of_the_kept_account_is_explained_by_what_it_was_found_by() {
        let policy = Policy::default();
        let demo = demo::load(&policy).expect("it is kept here");
        let account = Account {
            inventory: &demo.inventory,
            metrics: Some(&demo.metrics),
            bill: None,
            markets: None,
            prices: None,
            regions: &[],
        };
        let report = ebb_sweep::scan::scan(&account, &demo.known, &policy, demo.now).await;
        assert!(report.findings.len() > 3);
        for finding in &report.findings {
            let text = explain(&finding.resource.id).await.expect("it is known");
            let found = format!("Found: {}", finding.kind);
            assert!(text.contains(&found), "no {found} in\n{text}");
        }
        for not in &report.not_judged {
            let text = explain(&not.resource).await.expect("it is known");
            assert!(text.contains(&not.reason), "no {} in\n{text}", not.reason);
        }
    }

    #[tokio::test]
    async fn what_nobody_knows_is_an_error() {
        let error = explain("i-00000000000000000").await.expect_err("unknown");
        assert!(error.to_string().contains("nothing is known of i-0"));
    }
}
