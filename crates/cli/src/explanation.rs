//! The explanation of a result, as lines for people or as JSON.

use anyhow::{Context, Result, bail};
use ebb_analysis::explain::Explanation;
use ebb_analysis::rules::trace::Speaks;
use ebb_analysis::shell;
use ebb_report::zone::Zone;
use ebb_telemetry::safe_text;

use crate::args::Format;
use crate::deployment::DatedExplanation;

/// The marks of the lines.
const LEGEND: &str = "
+  condition met
-  condition not met: this rule or cause does not apply
?  cannot evaluate: data is missing, insufficient or excluded
[] limit
";

/// Lines for people have at most `columns` characters.
pub(crate) fn written(
    dated: &DatedExplanation,
    (format, zone): (Format, &Zone),
    columns: Option<usize>,
) -> Result<String> {
    let explanation = &dated.explanation;
    if !is_known(explanation) {
        bail!(
            "{} not found: expected an id or name of a resource in the scanned regions, or the id \
             of a finding",
            explanation.resource.escape_default()
        );
    }
    if format == Format::Json {
        let text = serde_json::to_string_pretty(dated);
        return text
            .map(|text| safe_text::json(&text).into_owned() + "\n")
            .context("failed to write JSON");
    }
    let mut out = match dated.at {
        Some(at) => format!("As of the sweep of {}\n\n", zone.minute(at)),
        None => String::new(),
    };
    out.push_str(&lines(explanation));
    for other in &explanation.others {
        out.push_str("\n\n");
        out.push_str(&lines(other));
    }
    if explanation.others_left_out > 0 {
        let more = explanation.others_left_out;
        out.push_str(&format!("\n… and {more} more resources of this name\n"));
    }
    out.push_str(LEGEND);
    Ok(match columns {
        Some(columns) => wrap_lines(&out, columns),
        None => out,
    })
}

/// Whether a sweep or scan knows the resource.
pub(crate) fn is_known(explanation: &Explanation) -> bool {
    explanation.what.is_some()
        || !explanation.findings.is_empty()
        || !explanation.skipped_rules.is_empty()
}

/// The same lines; the parts of a line that is too long are indented by two more characters.
fn wrap_lines(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        if line.chars().count() <= columns {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let words = line.trim_start();
        let indent = line.len() - words.len();
        let room = columns.saturating_sub(indent + 2).max(20);
        for (at, part) in safe_text::wrap(words, room).iter().enumerate() {
            let indent = if at == 0 { indent } else { indent + 2 };
            out.push_str(&format!("{:indent$}{part}\n", ""));
        }
    }
    out
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
        let question = plain(&check.question);
        out.push_str(&format!("  {mark} {question} {value}{bound}\n"));
    }
    out.push('\n');
    for finding in &explanation.findings {
        let (kind, evidence) = (finding.label(), plain(&finding.evidence.to_string()));
        let resource = &finding.resource;
        let found = match resource.id == explanation.resource {
            true => format!("Found: {kind}"),
            // The finding is about a task or step on the node.
            false => {
                let name = plain(resource.name.as_deref().unwrap_or(&resource.id));
                let id = plain(&shell::operand(&resource.id));
                format!("Also found here: {kind} {name} (`ebb explain {id}`)")
            }
        };
        let why = plain(&finding.confidence.reason);
        out.push_str(&format!(
            "{found}: {evidence}\n  confidence {}: {why}\n  {}\n",
            finding.confidence.level,
            plain(&finding.remedy.advice)
        ));
    }
    for not in &explanation.skipped_rules {
        out.push_str(&format!(
            "Not evaluated ({}): {}\n",
            plain(&not.rule),
            plain(&not.reason)
        ));
    }
    let is_silent = explanation.findings.is_empty() && explanation.skipped_rules.is_empty();
    match &explanation.not_evaluated {
        Some(why) => out.push_str(&format!("Not evaluated: {}\n", plain(why))),
        None if is_silent => out.push_str("No finding.\n"),
        None => {}
    }
    out
}

/// Names and reasons may contain control characters.
fn plain(text: &str) -> String {
    safe_text::one_line(text)
}

#[cfg(test)]
mod tests {
    use ebb_cloud::fake::FakeInventory;
    use ebb_model::policy::Policy;
    use ebb_model::report::Report;
    use ebb_sweep::collect::account::Account;

    use super::*;
    use crate::demo;

    /// The demo account, scanned as often as requested.
    struct Scanned {
        demo: demo::Demo,
        policy: Policy,
    }

    impl Scanned {
        fn load() -> Self {
            let policy = Policy::default();
            let demo = demo::load(&policy).expect("it is built in");
            Self { demo, policy }
        }

        async fn explain(&self, id: &str) -> Result<String> {
            let (_, explanation) = self.scan(Some(id)).await;
            let explanation = explanation.expect("it was asked for").into();
            written(&explanation, (Format::Table, &Zone::utc()), None)
        }

        async fn scan(&self, resource: Option<&str>) -> (Report, Option<Explanation>) {
            let demo = &self.demo;
            let inventory: &FakeInventory = &demo.inventory;
            let account = Account {
                inventory,
                metrics: Some(&demo.metrics),
                bill: None,
                markets: None,
                prices: None,
                regions: &[],
            };
            let when = (&self.policy, demo.now);
            ebb_sweep::scan::explained(&account, &demo.known, when, resource).await
        }
    }

    #[tokio::test]
    async fn every_finding_of_the_demo_account_is_explained_by_what_it_was_found_by() {
        let scanned = Scanned::load();
        let (report, _) = scanned.scan(None).await;
        assert!(report.findings.len() > 3);
        for finding in &report.findings {
            let found = format!("Found: {}", finding.label());
            for name in [&finding.id, &finding.resource.id] {
                let text = scanned.explain(name).await.expect("it is known");
                assert!(text.contains(&found), "no {found} in\n{text}");
            }
        }
        for not in &report.not_evaluated {
            let text = scanned.explain(&not.resource).await.expect("it is known");
            assert!(text.contains(&not.reason), "no {} in\n{text}", not.reason);
        }
    }

    #[test]
    fn a_stored_explanation_shows_its_time_and_no_control_characters() {
        let text = r#"{"resource": "i-1\u001b[31m", "what": "m5.large", "checks": [{
            "rule": "idle_node", "question": "Is it\u001b[2J idle?", "value": "yes", "bound": "",
            "speaks": "for_waste"}], "findings": [], "skipped_rules": [{"resource": "i-1",
            "name": null, "rule": "x\u0007", "reason": "no data"}], "not_evaluated": null,
            "others": [], "others_left_out": 0}"#;
        let explanation = serde_json::from_str(text).expect("an explanation");
        let dated = DatedExplanation {
            at: "2026-03-04T12:00:00Z".parse().ok(),
            explanation,
        };
        let shown = |format| written(&dated, (format, &Zone::utc()), None).expect("it is known");
        let table = shown(Format::Table);
        assert!(
            table.starts_with("As of the sweep of 2026-03-04 12:00 UTC\n\ni-1"),
            "{table}"
        );
        let is_bad = |c: char| c.is_control() && c != '\n';
        assert!(!table.contains(is_bad), "{table:?}");
        let json = shown(Format::Json);
        assert!(json.contains("\"at\": \"2026-03-04T12:00:00Z\""), "{json}");
        assert!(!json.contains(is_bad), "{json:?}");
    }

    #[tokio::test]
    async fn every_name_that_the_report_shows_is_explained() {
        let scanned = Scanned::load();
        let (report, _) = scanned.scan(None).await;
        let mut names: Vec<String> = vec!["genomics".into(), "align".into(), "summaries".into()];
        for node in &report.nodes {
            names.push(node.id.clone());
            names.extend(node.name.clone());
        }
        for resource in report.findings.iter().map(|finding| &finding.resource) {
            names.extend(resource.name.clone());
            names.extend(resource.node.clone());
        }
        names.extend(report.steps.iter().map(|step| step.step.clone()));
        names.extend(
            report
                .targets
                .pipelines
                .iter()
                .map(|group| group.name.clone()),
        );
        names.extend(
            report
                .targets
                .environments
                .iter()
                .map(|group| group.name.clone()),
        );
        names.extend(
            report
                .not_evaluated
                .iter()
                .filter_map(|not| not.name.clone()),
        );
        let named = report.runs.runs.iter().filter(|run| run.by.is_some());
        names.extend(named.map(|run| run.run.clone()));
        for job in &report.fargate.jobs {
            names.extend([job.id.as_str().to_owned(), job.name.clone()]);
        }
        assert!(names.len() > 60, "{}", names.len());
        for name in names {
            let text = scanned
                .explain(&name)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let ends = [
                "Found: ",
                "Also found here: ",
                "Not evaluated",
                "No finding.",
            ];
            assert!(ends.iter().any(|end| text.contains(end)), "{name}:\n{text}");
        }
    }

    #[tokio::test]
    async fn what_no_rule_evaluated_says_why_and_is_not_called_well() {
        let scanned = Scanned::load();
        let check = async |name: &str, expect: &str| {
            let text = scanned.explain(name).await.expect("it is known");
            let expect = format!("Not evaluated: {expect}");
            assert!(text.contains(&expect), "no {expect} in\n{text}");
            assert!(!text.contains("No finding."), "{text}");
        };
        check(
            "old-vm",
            "the instance is not running, and rules evaluate running instances",
        )
        .await;
        check(
            "multiqc",
            "the job has ended, and only running jobs on Fargate are evaluated",
        )
        .await;
        check(
            "assembly",
            "rules evaluate steps, jobs, machines, and the costs of pipelines on closed days; they \
             do not evaluate runs",
        )
        .await;
        check(
            "cohort-7",
            "rules evaluate steps, jobs, machines, and the costs of pipelines on closed days; they \
             do not evaluate runs",
        )
        .await;
        let five = scanned.explain("align-worker").await.expect("it is known");
        assert_eq!(
            five.matches(": m5.4xlarge in us-east-1\n").count(),
            5,
            "{five}"
        );
        let node = scanned.explain("assembly").await.expect("it is known");
        let step = "Also found here: Overprovisioned step fastqc (`ebb explain 'fastqc'`): ";
        assert!(node.contains(step), "{node}");
        let idle = scanned.explain("web").await.expect("it is known");
        assert!(idle.contains("No finding."), "{idle}");
    }

    #[tokio::test]
    async fn what_nobody_knows_is_an_error() {
        let error = Scanned::load()
            .explain("i-00000000000000000")
            .await
            .expect_err("unknown");
        assert!(error.to_string().contains("i-00000000000000000 not found"));
    }

    #[test]
    fn long_lines_are_wrapped_and_indented() {
        let wrapped = wrap_lines("  + one two three four five six\nshort\n", 26);
        insta::assert_snapshot!(wrapped, @r"
          + one two three four
            five six
        short
        ");
    }
}
