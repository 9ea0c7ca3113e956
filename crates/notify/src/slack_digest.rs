//! One digest for Slack in Block Kit: totals, the ten most expensive changes, then resources that
//! were not evaluated and gaps.
//!
//! Source of the limits: Slack's "Block Kit" reference (50 blocks a message, 3,000 characters a
//! section, 150 a header). Slack refused a message of about 13,200 characters in total and accepted
//! 12,000.

use ebb_model::report::Report;
use ebb_model::slack_action::{SNOOZE_DAYS, SlackAction, block_id};
use ebb_report::page::Page;
use ebb_report::page::alike::Alike;
use ebb_report::page::card::Card;
use ebb_telemetry::safe_text::clip;
use serde_json::{Value, json};

use crate::diff::{Changes, headline_without_findings};
use crate::message_form::{Buttons, MessageForm};

const MAX_CHARACTERS: usize = 12_000;

const MAX_BLOCKS: usize = 50;

const MAX_HEADER: usize = 150;

const TOP: usize = 10;

/// Characters reserved for the line about omitted content.
const RESERVE: usize = 300;

/// Limit on named resources of similar findings.
const NAMED: usize = 5;

/// Limit on named groups and gaps.
const DETAILS: usize = 5;

/// The changes of a report as the body of a post: totals, new and grown findings by cost, then
/// resolved findings.
pub fn slack(report: &Report, changes: &Changes, form: &MessageForm<'_>) -> Value {
    let page = crate::diff::page_of_changes(report, changes, form.links);
    let headline = headline(&page, changes);
    let mut digest = DigestBlocks::new(&headline);
    let title = json!({"type": "plain_text", "text": clip(&headline, MAX_HEADER)});
    digest.add(json!({"type": "header", "text": title}));
    for line in &page.news {
        digest.add(context(&outside(line, 400)));
    }
    digest.add(section(&totals(&page)));
    if let Some(owners) = by_owner(&page) {
        digest.add(context(&owners));
    }
    if let Some(link) = &page.link {
        digest.add(context(&linked(link, "All findings")));
    }
    let changed = page.cards.iter().filter(|card| card.change.is_some());
    let rows = Alike::from_cards(changed);
    let changed: usize = rows.iter().map(Alike::count).sum();
    let mut shown = 0;
    for row in rows.iter().take(TOP) {
        let mut blocks = vec![finding(row)];
        if form.buttons == Buttons::Shown && row.count() == 1 {
            blocks.push(buttons(row.first()));
        }
        if digest.add_all(blocks) == Fit::Left {
            break;
        }
        shown += row.count();
    }
    let more = changed - shown;
    let same = page.cards.len().saturating_sub(changed + form.elsewhere);
    let rest = [(more, "more"), (same, "unchanged")];
    let rest: Vec<String> = rest
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
    if !rest.is_empty() {
        digest.add_last(context(&format!(
            "… and {}, in the report",
            rest.join(", ")
        )));
    }
    if let Some(text) = details(&page) {
        digest.add(json!({"type": "divider"}));
        digest.add(context(&text));
    }
    json!({"text": digest.text, "blocks": digest.blocks})
}

struct DigestBlocks {
    text: String,
    blocks: Vec<Value>,
    characters: usize,
}

/// Whether a block fitted.
#[derive(PartialEq, Eq)]
enum Fit {
    Taken,
    Left,
}

impl DigestBlocks {
    fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            blocks: Vec::new(),
            characters: text.chars().count() + 100,
        }
    }

    fn add(&mut self, block: Value) -> Fit {
        self.add_within(block, MAX_CHARACTERS - RESERVE, MAX_BLOCKS - 1)
    }

    /// Adds blocks that belong together.
    fn add_all(&mut self, blocks: Vec<Value>) -> Fit {
        let before = (self.blocks.len(), self.characters);
        for block in blocks {
            if self.add(block) == Fit::Left {
                self.blocks.truncate(before.0);
                self.characters = before.1;
                return Fit::Left;
            }
        }
        Fit::Taken
    }

    /// Adds the last line, for which space is reserved.
    fn add_last(&mut self, block: Value) {
        self.add_within(block, MAX_CHARACTERS, MAX_BLOCKS);
    }

    fn add_within(&mut self, block: Value, characters: usize, blocks: usize) -> Fit {
        let size = block.to_string().chars().count() + 1;
        if self.characters + size > characters || self.blocks.len() + 1 > blocks {
            return Fit::Left;
        }
        self.characters += size;
        self.blocks.push(block);
        Fit::Taken
    }
}

fn headline(page: &Page, changes: &Changes) -> String {
    let tag = page.simulated.map(|simulated| format!("[{simulated}] "));
    let tag = tag.unwrap_or_default();
    if page.cards.is_empty() {
        return format!("{tag}{}", headline_without_findings(page, changes));
    }
    format!("{tag}{}", page.headline)
}

fn totals(page: &Page) -> String {
    let mut text = format!("{} · {}", page.at, page.scope);
    if page.saving.is_some() {
        text.push_str(&format!(
            "\nWasted so far: {}; at present {}",
            page.spent, page.per_hour
        ));
    }
    if let Some(weaker) = page.weaker {
        text.push_str(&format!("\n{weaker}"));
    }
    if let Some(problems) = &page.probe_problems {
        text.push_str(&format!("\n{problems}"));
    }
    if let Some(evaluated) = &page.evaluated {
        text.push_str(&format!("\n{evaluated}"));
    }
    if let Some(basis) = &page.basis {
        text.push_str(&format!("\nPrices: {basis}"));
    }
    text
}

/// Saving by owner; `None` if no finding has an owner.
fn by_owner(page: &Page) -> Option<String> {
    let tells = page.cards.iter().any(|card| card.owner.is_some());
    let owners = page.owners.iter().map(|one| {
        let owner = outside(&one.owner, 60);
        format!("{owner} {} ({})", one.saving, one.findings)
    });
    let owners: Vec<String> = owners.collect();
    tells.then(|| format!("By owner: {}", owners.join(" · ")))
}

fn finding(row: &Alike<'_>) -> Value {
    let card = row.first();
    let saving = row.saving().map_or_else(
        || card.without_saving.to_owned(),
        |usd| format!("{usd} {}", row.period()),
    );
    let change = card.change.map(|change| format!("{change} · "));
    let change = change.unwrap_or_default();
    let mut text = match row.title() {
        Some(title) => format!("*{saving}* · {change}{title}"),
        None => {
            let title = quoted(&card.title, 80);
            format!("*{saving}* · {change}{} · {title}", card.kind)
        }
    };
    if let Some(id) = card.id.as_ref().filter(|_| row.count() == 1) {
        text.push_str(&format!(" {}", quoted(id, 80)));
    }
    let owner = card.owner.as_deref().unwrap_or("no owner");
    text.push_str(&format!("\n{} · {}", outside(owner, 60), card.region));
    if let Some(machine) = &card.machine {
        text.push_str(&format!(" · {}", outside(machine, 60)));
    }
    if let Some(simulated) = card.simulated {
        text.push_str(&format!(" · {simulated}"));
    }
    if let Some(cost) = &card.cost {
        let of_each = if row.count() > 1 { " of each" } else { "" };
        text.push_str(&format!(" · waste{of_each} {}", cost.price));
        if let Some(counted) = &cost.counted {
            text.push_str(&format!(" · {}", outside(counted, 160)));
        }
    }
    if row.count() > 1 {
        let names = outside(&row.names(NAMED), 220);
        text.push_str(&format!("\n{names}; the first:"));
    }
    if let Some(user) = &card.slack_user {
        text.push_str(&format!("\nAssigned to <@{user}>"));
    } else if let Some(name) = &card.assignee {
        text.push_str(&format!("\nAssigned to {}", outside(name, 60)));
    }
    text.push_str(&format!("\n{}", outside(&card.evidence, 220)));
    let advice = match &card.instead {
        Some(advice) => advice.line(),
        None => card.advice.clone(),
    };
    text.push_str(&format!("\n_{}:_ {}", card.action, outside(&advice, 160)));
    match &card.link {
        Some(link) => text.push_str(&format!("\n{}", linked(link, "Details"))),
        None => {
            let command = format!("ebb findings snooze {}", card.whole_id);
            text.push_str(&format!("\n{}", quoted(&command, 200)));
        }
    }
    section(&text)
}

/// The buttons of a finding.
///
/// Source: Slack, "Block Kit" reference: "Actions block", "Button element", "User select menu".
fn buttons(card: &Card) -> Value {
    let text = |text: &str| json!({"type": "plain_text", "text": text});
    let button = |action: SlackAction, label: &str| json!({"type": "button", "action_id": action.id(), "text": text(label)});
    json!({
        "type": "actions",
        "block_id": block_id(&card.whole_id),
        "elements": [
            button(SlackAction::Dismiss, "Dismiss"),
            button(SlackAction::Snooze, &format!("Snooze {SNOOZE_DAYS} days")),
            {
                "type": "users_select",
                "action_id": SlackAction::Assign.id(),
                "placeholder": text("Assign"),
            },
        ],
    })
}

/// A link. The address is percent-encoded, so only `&` would need an escape, and it has none.
pub(crate) fn linked(link: &str, text: &str) -> String {
    format!("<{link}|{text}>")
}

fn details(page: &Page) -> Option<String> {
    let groups = page.not_evaluated.iter().take(DETAILS).map(|group| {
        let reason = outside(&group.reason, 120);
        format!("Not evaluated: {} · {reason}", group.count)
    });
    let gaps = page.gaps.iter().take(DETAILS).map(|gap| {
        let (scope, reason) = (outside(&gap.scope, 80), outside(&gap.reason, 120));
        format!("Missing data: {scope}: {reason}")
    });
    let mut lines: Vec<_> = groups.chain(gaps).collect();
    let left =
        page.not_evaluated.len().saturating_sub(DETAILS) + page.gaps.len().saturating_sub(DETAILS);
    if left > 0 {
        lines.push(format!("… and {left} more"));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

pub(crate) fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": true}})
}

pub(crate) fn context(text: &str) -> Value {
    json!({"type": "context", "elements": [{"type": "mrkdwn", "text": text, "verbatim": true}]})
}

/// Escapes external text for mrkdwn. `&`, `<` and `>` are escaped as Slack requires, so that no
/// text becomes a link or a mention. Characters without an escape are replaced with similar ones;
/// an underscore only where it could start italics.
///
/// Source: Slack, "Formatting text for app surfaces", "Escaping text".
pub(crate) fn outside(text: &str, max: usize) -> String {
    let mut in_word = false;
    let mut plain = String::with_capacity(text.len());
    for c in clip(text, max).chars() {
        plain.push(match c {
            '*' => '∗',
            '`' => '\'',
            '~' => '∼',
            '_' if !in_word => 'ˍ',
            c => c,
        });
        in_word = c.is_alphanumeric() || (c == '_' && in_word);
    }
    escaped(&plain)
}

/// External text as code, in which only the backtick is special, so that a user can copy a command
/// unchanged.
pub(crate) fn quoted(text: &str, max: usize) -> String {
    let text = clip(text, max).replace('`', "'");
    format!("`{}`", escaped(&text))
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_model::decision::Assignee;
    use ebb_model::report::probe_problem::ProbeProblem;
    use ebb_report::testing;

    #[test]
    fn a_digest_keeps_to_slacks_bounds_whatever_the_report() {
        let mut wide = testing::many(1_000);
        for finding in &mut wide.findings {
            finding.resource.id = "&".repeat(5_000);
            finding.resource.name = Some("<".repeat(5_000));
            finding.resource.owner = Some("\"".repeat(5_000));
            finding.remedy.advice = "\\".repeat(5_000);
        }
        for one in &mut wide.not_evaluated {
            one.reason = format!("{}{}", one.resource, ">".repeat(5_000));
        }
        for report in [testing::empty(), testing::small(), testing::hostile(), wide] {
            let message = slack(
                &report,
                &crate::testing::all_new(&report),
                &MessageForm::default(),
            );
            let blocks = message["blocks"].as_array().expect("blocks");
            assert!(blocks.len() <= 50);
            assert!(message.to_string().chars().count() <= MAX_CHARACTERS);
            for text in blocks.iter().filter_map(|b| b["text"]["text"].as_str()) {
                assert!(text.chars().count() <= 3_000);
            }
        }
    }

    #[test]
    fn urgent_problems_of_probes_are_in_the_message() {
        let mut report = testing::small();
        report.probe_problems = [(ProbeProblem::Silent, 2)].into();
        let changes = crate::testing::all_new(&report);
        let problems = "Probes: 2 silent, though the machine should run";
        let message = slack(&report, &changes, &MessageForm::default()).to_string();
        assert!(message.contains(problems), "{message}");
        let html = crate::email_digest::email(&report, &changes, None).html;
        assert!(html.contains(problems), "{html}");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let slack_text = |report: &Report, changes: &Changes| {
            slack(report, changes, &MessageForm::default()).to_string()
        };
        let many = testing::many(1_000);
        let mut changes = crate::testing::all_new(&many);
        let text = slack_text(&many, &changes);
        assert!(text.contains("… and 750 more, in the report"), "{text}");
        changes.new.clear();
        changes.grown.insert(many.findings[7].id.clone());
        let text = slack_text(&many, &changes);
        assert!(
            text.contains("… and 999 unchanged, in the report"),
            "{text}"
        );
        assert!(text.contains("grew · Idle node"), "{text}");
        let small = testing::small();
        assert!(!slack_text(&small, &crate::testing::all_new(&small)).contains("… and"));
    }

    #[test]
    fn what_comes_from_outside_is_text_and_never_a_link_or_bold() {
        let check = |text: &str, expect: &str| assert_eq!(outside(text, 60), expect);
        check("<!channel>", "&lt;!channel&gt;");
        check("a & b", "a &amp; b");
        check("*bold* `code`", "∗bold∗ 'code'");
        check("_i_ a_b __c__", "ˍi_ a_b ˍˍc__");
        assert_eq!(quoted("`*`<a_>`", 60), "`'*'&lt;a_&gt;'`");
        let report = testing::hostile();
        let text = slack(
            &report,
            &crate::testing::all_new(&report),
            &MessageForm::default(),
        )
        .to_string();
        assert!(!text.contains("<script"));
        let outside_of_code = text.split('`').step_by(2);
        assert!(outside_of_code.clone().all(|part| !part.contains("*bold*")));
        assert!(outside_of_code.clone().any(|part| part.contains("∗bold∗")));
    }

    #[test]
    fn each_finding_has_its_link_and_its_buttons() {
        let links = "https://ebb.example.org".parse().expect("valid");
        let form = MessageForm {
            links: Some(&links),
            buttons: Buttons::Shown,
            elsewhere: 0,
        };
        for mut report in [
            testing::small(),
            testing::hostile(),
            testing::many_hostile(40),
        ] {
            let first = report.findings[0].id.clone();
            let assignee = Assignee {
                who: "slack:U0123".to_owned(),
                by: "ana".to_owned(),
                at: report.at,
            };
            report.history.assigned.insert(first.clone(), assignee);
            let message = slack(&report, &crate::testing::all_new(&report), &form);
            assert!(message.to_string().chars().count() <= MAX_CHARACTERS);
            let blocks = message["blocks"].as_array().expect("blocks");
            assert!(blocks.len() <= MAX_BLOCKS);
            let overview = "<https://ebb.example.org/|All findings>";
            let texts = blocks.iter().filter_map(|b| b["text"]["text"].as_str());
            let whole: Vec<&str> = texts.collect();
            assert!(message.to_string().contains(overview));
            for text in &whole {
                let mut links = text.split("<http").skip(1);
                let is_link = |rest: &str| {
                    rest.split_once('>').is_some_and(|(link, _)| {
                        link.matches('|').count() == 1 && link.ends_with("|Details")
                    })
                };
                assert!(links.all(is_link), "{text}");
            }
            let actions: Vec<&Value> = blocks.iter().filter(|b| b["type"] == "actions").collect();
            let mut ids: Vec<&str> = actions
                .iter()
                .filter_map(|b| b["block_id"].as_str())
                .collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(
                ids.len(),
                actions.len(),
                "a block id is unique in a message"
            );
            if ids.contains(&block_id(&first).as_str()) {
                assert!(
                    whole
                        .iter()
                        .any(|text| text.contains("\nAssigned to <@U0123>"))
                );
            }
        }
    }

    #[test]
    fn the_buttons_of_a_finding_are_stable() {
        let links = "https://ebb.example.org".parse().expect("valid");
        let form = MessageForm {
            links: Some(&links),
            buttons: Buttons::Shown,
            elsewhere: 0,
        };
        let report = testing::small();
        let message = slack(&report, &crate::testing::all_new(&report), &form);
        let actions = message["blocks"].as_array().expect("blocks").iter();
        let actions: Vec<&Value> = actions.filter(|b| b["type"] == "actions").collect();
        assert_eq!(actions.len(), 3);
        insta::assert_snapshot!(actions[0], @r#"{"block_id":"ebb-7919b00931a915a858398c7f1e4c2b937b2af6a52821a468f4e982e3160b86a5","elements":[{"action_id":"ebb_dismiss","text":{"text":"Dismiss","type":"plain_text"},"type":"button"},{"action_id":"ebb_snooze","text":{"text":"Snooze 7 days","type":"plain_text"},"type":"button"},{"action_id":"ebb_assign","placeholder":{"text":"Assign","type":"plain_text"},"type":"users_select"}],"type":"actions"}"#);
        let text = message["blocks"][5]["text"]["text"].as_str().expect("text");
        let link = "\n<https://ebb.example.org/findings/idle_node%2Feu-central-1%2Fi-0aaa|Details>";
        assert!(text.ends_with(link), "{text}");
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a snapshot")]
    fn a_digest_is_stable() {
        let report = testing::small();
        let message = slack(
            &report,
            &crate::testing::all_new(&report),
            &MessageForm::default(),
        );
        let text = serde_json::to_string_pretty(&message).expect("it is JSON");
        insta::assert_snapshot!(text, @r#"
        {
          "blocks": [
            {
              "text": {
                "text": "[SIMULATED] $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without",
                "type": "plain_text"
              },
              "type": "header"
            },
            {
              "elements": [
                {
                  "text": "3 new",
                  "type": "mrkdwn",
                  "verbatim": true
                }
              ],
              "type": "context"
            },
            {
              "text": {
                "text": "2026-03-04 12:00 UTC · 12 running instances (8 with a probe, 3 with metrics only), 6 jobs\nWasted so far: $3.74; at present $1.2120/h\nPrices: effective cost from the bill for $884.76 in 1 finding; on-demand price of spot machines of 2026-02-27 for at most $280.32 in 1 finding",
                "type": "mrkdwn",
                "verbatim": true
              },
              "type": "section"
            },
            {
              "elements": [
                {
                  "text": "By owner: ana $884.76 and at most $280.32 more (2 findings) · no owner price not known (1 finding)",
                  "type": "mrkdwn",
                  "verbatim": true
                }
              ],
              "type": "context"
            },
            {
              "text": {
                "text": "*$884.76 a month* · new · Idle node · `gpu-notebook` `i-0aaa`\nana · eu-central-1 · g5.2xlarge, on demand · SIMULATED · waste $1.2120/h from the bill of 2026-02-27\nno activity for 3 h 05 min; background processes use 0.02 cores; task session of ana exists without activity\n_Stop:_ Stop it; its volumes stay.\n`ebb findings snooze idle_node/eu-central-1/i-0aaa`",
                "type": "mrkdwn",
                "verbatim": true
              },
              "type": "section"
            },
            {
              "text": {
                "text": "*at most $280.32 a month* · new · Overprovisioned step · `variant-call`\nana · eu-central-1 · SIMULATED · waste at most $1.18 so far, on average $0.3840/h over all hours with and without tasks, at the on-demand price of 2026-02-27; spot costs less\nrequested 16 vCPU and 64.0 GiB, used at most 2.1 cores and 3.9 GiB (1 task, total run time 60 min)\n_Rightsize:_ request 3 vCPU and 4.8 GiB; the cheapest suitable type is c6i.xlarge in eu-central-1 at $0.1940/h, list price of 2026-02-01\n`ebb findings snooze overprovisioned_step/eu-central-1/variant-call`",
                "type": "mrkdwn",
                "verbatim": true
              },
              "type": "section"
            },
            {
              "text": {
                "text": "*price not known* · new · Stuck Batch job · `align-sample-17` `job-17`\nno owner · eu-central-1\nRUNNING without CPU usage, I/O or a new process for 42 min; since its start, 3 processes used 1.25 s of CPU\n_Investigate:_ Look at what it waits for.\n`ebb findings snooze stuck_batch_job/eu-central-1/job-17`",
                "type": "mrkdwn",
                "verbatim": true
              },
              "type": "section"
            },
            {
              "type": "divider"
            },
            {
              "elements": [
                {
                  "text": "Not evaluated: 2 · coverage 41 %, at least 95 % is needed\nNot evaluated: 1 · tagged ebb:standby=true\nMissing data: us-east-1: batch:DescribeJobs: AccessDenied: not authorized",
                  "type": "mrkdwn",
                  "verbatim": true
                }
              ],
              "type": "context"
            }
          ],
          "text": "[SIMULATED] $884.76 a month, and at most $280.32 more, in 2 findings with a price, 1 without"
        }
        "#);
    }
}
