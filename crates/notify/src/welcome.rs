//! The welcome message after the first sweep. It shows what Ebb observes, what is missing with the
//! fix, and when the first result is due.

use ebb_model::pages_url::{PageOf, PagesUrl};
use ebb_model::report::Report;
use ebb_report::page::wording::SIMULATED;
use ebb_report::remediation;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, counted, one_line};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::email_digest::EmailParts;
use crate::slack_digest::{linked, outside, quoted, section};

/// Limit on named missing items; the report contains all of them.
const MISSING: usize = 12;

/// Content of the welcome message.
pub struct Hello {
    title: String,
    coverage: String,
    verdict: String,
    missing: Vec<MissingPart>,
    left_out: usize,
    link: Option<String>,
}

/// A part of the setup that is missing.
struct MissingPart {
    what: String,
    fix: Option<String>,
}

impl Hello {
    /// Builds the message from the first report. `sandboxed` is whether SES still restricts
    /// recipients; `None` if unknown or irrelevant.
    pub fn from_report(
        report: &Report,
        first_verdict: Option<Timestamp>,
        sandboxed: Option<bool>,
    ) -> Self {
        let totals = &report.totals;
        let without = totals.running_instances.saturating_sub(totals.with_probe);
        let coverage = format!(
            "{}: {} with a probe, {} with metrics only, {} not evaluated.",
            counted(
                totals.running_instances,
                "running instance",
                "running instances"
            ),
            totals.with_probe,
            totals.on_metrics,
            without.saturating_sub(totals.on_metrics),
        );
        let verdict = match first_verdict {
            Some(at) if at > report.at => format!(
                "The first result of a probe is expected at {}.",
                at.strftime("%Y-%m-%d %H:%M UTC")
            ),
            Some(_) => "The report contains the first results of the probes.".into(),
            None => {
                "No probe has sent data yet. The first result is expected half an hour after the \
                 first probe starts."
                    .into()
            }
        };
        let mut missing = find_missing_parts(report, without, sandboxed);
        let left_out = missing.len().saturating_sub(MISSING);
        missing.truncate(MISSING);
        let tag = match report.origin {
            Origin::Simulated => format!("[{SIMULATED}] "),
            Origin::Measured => String::new(),
        };
        Self {
            title: format!("{tag}Ebb is running"),
            coverage,
            verdict,
            missing,
            left_out,
            link: None,
        }
    }

    /// Adds the link to the overview.
    #[must_use]
    pub fn with_link(self, links: Option<&PagesUrl>) -> Self {
        let link = links.map(|links| links.link(PageOf::Overview));
        Self { link, ..self }
    }

    fn intro(&self) -> &'static str {
        match self.missing.is_empty() {
            true => "The setup is complete. Ebb sends the next message when it finds waste.",
            false => "Setup is incomplete:",
        }
    }

    fn rest(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("… and {} more, in the report.", self.left_out))
    }
}

/// The gaps of the report, after email that SES restricts and before instances without a probe.
fn find_missing_parts(
    report: &Report,
    without_probe: usize,
    sandboxed: Option<bool>,
) -> Vec<MissingPart> {
    let sandbox = (sandboxed == Some(true)).then(|| MissingPart {
        what: "Amazon SES is in its sandbox: only verified recipients get email".to_owned(),
        fix: Some(remediation::SES_PRODUCTION.to_owned()),
    });
    let gaps = report.gaps.iter().map(|gap| MissingPart {
        what: format!("{}: {}", one_line(&gap.scope), one_line(&gap.reason)),
        fix: remediation::of_gap(gap),
    });
    let probes = (without_probe > 0).then(|| MissingPart {
        what: format!(
            "{} without a probe",
            counted(without_probe, "instance", "instances")
        ),
        fix: Some(
            "Terraform: attach the output node_policy_arn to the instance role and use the output \
             node_user_data as user data"
                .to_owned(),
        ),
    });
    sandbox.into_iter().chain(gaps).chain(probes).collect()
}

/// The welcome message as the body of a post.
pub fn slack_hello(hello: &Hello) -> Value {
    let title = &hello.title;
    let head = format!("{}\n{}\n{}", hello.coverage, hello.verdict, hello.intro());
    let mut blocks = vec![
        json!({"type": "header", "text": {"type": "plain_text", "text": title}}),
        section(&head),
    ];
    for MissingPart { what, fix } in &hello.missing {
        let mut line = format!("• {}", outside(what, 200));
        if let Some(fix) = fix {
            line.push_str(&format!("\n{}", quoted(fix, 300)));
        }
        blocks.push(section(&line));
    }
    if let Some(rest) = hello.rest() {
        blocks.push(section(&rest));
    }
    if let Some(link) = &hello.link {
        blocks.push(section(&linked(link, "All findings")));
    }
    json!({"text": title, "blocks": blocks})
}

/// The welcome message as an email.
pub fn email_hello(hello: &Hello) -> EmailParts {
    let mut text = format!(
        "{}\n{}\n\n{}\n",
        hello.coverage,
        hello.verdict,
        hello.intro()
    );
    let mut html = format!(
        "<p style=\"font-size:22px;font-weight:bold;margin:0 0 12px\">{}</p><p>{}<br>{}</p><p>{}</p>",
        escaped(&hello.title),
        escaped(&hello.coverage),
        escaped(&hello.verdict),
        hello.intro(),
    );
    for MissingPart { what, fix } in &hello.missing {
        let what = clip(what, 400);
        text.push_str(&format!("\n- {what}\n"));
        html.push_str(&format!("<p>{}", escaped(&what)));
        if let Some(fix) = fix {
            text.push_str(&format!("  {fix}\n"));
            html.push_str(&format!(
                "<br><code style=\"font-size:13px\">{}</code>",
                escaped(fix)
            ));
        }
        html.push_str("</p>");
    }
    if let Some(rest) = hello.rest() {
        text.push_str(&format!("\n{rest}\n"));
        html.push_str(&format!("<p>{rest}</p>"));
    }
    if let Some(link) = &hello.link {
        text.push_str(&format!("\nAll findings: {link}\n"));
        html.push_str(&format!(
            "<p><a href=\"{}\">All findings</a></p>",
            escaped(link)
        ));
    }
    EmailParts {
        subject: hello.title.clone(),
        text,
        html: format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"></head>\
             <body style=\"margin:0;padding:16px;font-family:Arial,Helvetica,sans-serif;\
             font-size:15px;line-height:1.45;overflow-wrap:anywhere\">{html}</body></html>"
        ),
    }
}

fn escaped(text: &str) -> String {
    minijinja::HtmlEscape(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_report::testing;

    #[test]
    fn it_says_what_is_seen_what_is_missing_and_when_the_first_verdict_is_due() {
        let mut report = testing::small();
        report.gaps[0].denied = Some("batch:DescribeJobs".into());
        let later = report
            .at
            .checked_add(std::time::Duration::from_secs(1800))
            .ok();
        let hello = Hello::from_report(&report, later, Some(true));
        insta::assert_snapshot!(email_hello(&hello).text, @r#"
        12 running instances: 8 with a probe, 3 with metrics only, 1 not evaluated.
        The first result of a probe is expected at 2026-03-04 12:30 UTC.

        Setup is incomplete:

        - Amazon SES is in its sandbox: only verified recipients get email
          aws sesv2 put-account-details --production-access-enabled --mail-type TRANSACTIONAL --website-url https://YOUR-SITE

        - us-east-1: batch:DescribeJobs: AccessDenied: not authorized
          {"Effect": "Allow", "Action": "batch:DescribeJobs", "Resource": "*"}

        - 4 instances without a probe
          Terraform: attach the output node_policy_arn to the instance role and use the output node_user_data as user data
        "#);
        let text = slack_hello(&hello).to_string();
        let line =
            r#"`{\"Effect\": \"Allow\", \"Action\": \"batch:DescribeJobs\", \"Resource\": \"*\"}`"#;
        assert!(text.contains(line), "to be copied as it is: {text}");
    }

    #[test]
    fn names_from_outside_are_text_and_bounded() {
        let mut report = testing::hostile();
        for n in 0..100 {
            let mut gap = report.gaps[0].clone();
            gap.scope = format!("<!channel> {n} {}", gap.scope.repeat(100));
            report.gaps.push(gap);
        }
        let hello = Hello::from_report(&report, None, None);
        let slack = slack_hello(&hello);
        let email = email_hello(&hello);
        for text in [slack.to_string(), email.html.clone()] {
            assert!(
                !text.contains("<script") && !text.contains("<!channel"),
                "{text}"
            );
            assert!(text.contains("more, in the report"));
        }
        assert!(slack.to_string().chars().count() < 12_000);
        assert!(
            slack["blocks"]
                .as_array()
                .is_some_and(|blocks| blocks.len() < 50)
        );
        assert!(!email.text.contains('\u{1b}') && email.text.len() < 12_000);
    }
}
