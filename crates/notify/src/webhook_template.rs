//! Templates of webhooks: the values that a template can use, and its output, which must be JSON.
//! Every value is escaped as JSON, so no name from outside changes the structure. The module
//! performs no I/O.

use std::collections::BTreeMap;
use std::fmt;

use ebb_model::finding::Finding;
use ebb_model::finding_history::{Resolved, Stage};
use ebb_model::finding_kind::FindingKind;
use ebb_model::pages_url::{PageOf, PagesUrl};
use ebb_model::policy::webhook::{BuiltinTemplate, Webhook, WebhookChange};
use ebb_model::report::Report;
use ebb_telemetry::origin::Origin;
use ebb_telemetry::safe_text::{clip, one_line};
use jiff::Timestamp;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::cloud_event::event_id;
use crate::diff::{self, Changes};
use crate::slack_digest::outside;

/// Maximum number of steps of a template; the built-in ones take about a hundred.
const FUEL: u64 = 20_000;

/// Maximum size of a request in bytes; Teams accepts 28 KB, the others more.
const MAX_BODY_BYTES: usize = 100 << 10;

/// Maximum length of a summary in characters: that of Jira, with room for a label.
const SUMMARY_CHARS: usize = 240;

/// Maximum length of another value in characters.
const VALUE_CHARS: usize = 1_000;

/// Maximum length of PagerDuty's `dedup_key` in characters.
const DEDUP_KEY_CHARS: usize = 255;

/// Why a template gives no request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct TemplateError {
    name: String,
    line: Option<usize>,
    problem: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the template of the webhook {}", self.name)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// A compiled template.
pub struct WebhookTemplate<'a> {
    webhook: &'a Webhook,
    environment: Environment<'a>,
}

impl<'a> WebhookTemplate<'a> {
    /// Compiles the template of a webhook.
    ///
    /// # Errors
    /// Names the line of an invalid template.
    pub fn new(webhook: &'a Webhook) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_auto_escape_callback(|_| AutoEscape::Json);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(FUEL));
        environment.add_filter("slack", |text: &str| outside(text, VALUE_CHARS));
        let body = match (webhook.template, &webhook.body) {
            (Some(builtin), _) => source_of(builtin),
            (None, body) => body.as_deref().unwrap_or_default(),
        };
        let added = environment.add_template(&webhook.name, body);
        added.map_err(|error| failed(webhook, &error))?;
        Ok(Self {
            webhook,
            environment,
        })
    }

    /// Compiles the template of a webhook, and fills it twice: with a finding of which all is known,
    /// and with one without owner, price and links.
    ///
    /// # Errors
    /// As for [`Self::new`] and [`Self::render`].
    pub fn check(webhook: &Webhook) -> Result<(), TemplateError> {
        let template = WebhookTemplate::new(webhook)?;
        [Some("a value"), None].into_iter().try_for_each(|text| {
            template
                .render(&WebhookFacts::sample(webhook, text))
                .map(drop)
        })
    }

    /// Fills the template.
    ///
    /// # Errors
    /// Names the line at which the template fails, or the line of its output that is not JSON.
    pub fn render(&self, facts: &WebhookFacts<'_>) -> Result<String, TemplateError> {
        let name = self.webhook.name.as_str();
        let refused = |problem: String| TemplateError {
            name: name.to_owned(),
            line: None,
            problem,
        };
        if self.webhook.template == Some(BuiltinTemplate::PagerDuty) && facts.key.is_none() {
            return Err(refused(
                "the secret has no key (PagerDuty's routing key)".to_owned(),
            ));
        }
        let template = self.environment.get_template(name);
        let text = template.and_then(|template| template.render(Serde(facts)));
        let text = text.map_err(|error| failed(self.webhook, &error))?;
        if text.len() > MAX_BODY_BYTES {
            return Err(refused(format!(
                "its output has more than {MAX_BODY_BYTES} bytes"
            )));
        }
        // Without spaces, and without a key that is there twice.
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            // The error itself may quote the output, which may contain the key.
            refused(format!(
                "its output is not JSON at line {line}, column {column}"
            ))
        })?;
        Ok(value.to_string())
    }
}

fn source_of(builtin: BuiltinTemplate) -> &'static str {
    match builtin {
        BuiltinTemplate::Teams => include_str!("templates/teams.json.jinja"),
        BuiltinTemplate::PagerDuty => include_str!("templates/pagerduty.json.jinja"),
        BuiltinTemplate::Jira => include_str!("templates/jira.json.jinja"),
        BuiltinTemplate::Slack => include_str!("templates/slack.json.jinja"),
        BuiltinTemplate::Generic => include_str!("templates/generic.json.jinja"),
    }
}

fn failed(webhook: &Webhook, error: &minijinja::Error) -> TemplateError {
    let kind = error.kind().to_string();
    let detail = error.detail().map(|detail| format!(": {detail}"));
    TemplateError {
        name: webhook.name.clone(),
        line: error.line(),
        problem: one_line(&clip(&(kind + &detail.unwrap_or_default()), VALUE_CHARS)),
    }
}

/// The values of a template. Texts are one line each and bounded.
#[derive(Debug, Clone, Serialize)]
pub struct WebhookFacts<'a> {
    /// `new`, `grown`, `set_aside` or `resolved`.
    change: WebhookChange,
    /// Id of the finding.
    id: String,
    /// The same id, or its hash if the id is long or has special characters.
    dedup_key: String,
    kind: &'static str,
    kind_label: String,
    /// One line about the change.
    summary: String,
    resource: String,
    name: Option<String>,
    owner: Option<String>,
    assignee: Option<String>,
    account: Option<String>,
    region: String,
    machine: Option<String>,
    /// Saving in a month, such as `$884.76`.
    saving: Option<String>,
    evidence: Option<String>,
    action: Option<&'static str>,
    advice: Option<String>,
    link: Option<String>,
    overview: Option<String>,
    at: Timestamp,
    simulated: bool,
    /// The key of the receiver from the secret.
    key: Option<&'a str>,
    parameters: &'a BTreeMap<String, String>,
}

impl<'a> WebhookFacts<'a> {
    /// A made-up finding; `text` is each value that can be unknown.
    fn sample(webhook: &'a Webhook, text: Option<&str>) -> Self {
        let known = || text.map(str::to_owned);
        Self {
            change: WebhookChange::New,
            id: "idle_node/eu-central-1/i-0".to_owned(),
            dedup_key: "idle_node/eu-central-1/i-0".to_owned(),
            kind: FindingKind::IdleNode.slug(),
            kind_label: FindingKind::IdleNode.to_string(),
            summary: "a test".to_owned(),
            resource: "i-0".to_owned(),
            name: known(),
            owner: known(),
            assignee: known(),
            account: known(),
            region: "eu-central-1".to_owned(),
            machine: known(),
            saving: known(),
            evidence: known(),
            action: text.map(|_| "stop"),
            advice: known(),
            link: known(),
            overview: known(),
            at: Timestamp::UNIX_EPOCH,
            simulated: false,
            key: Some("KEY"),
            parameters: &webhook.parameters,
        }
    }
}

fn value(text: &str) -> String {
    one_line(&clip(text, VALUE_CHARS))
}

fn optional(text: Option<&String>) -> Option<String> {
    text.map(|text| value(text)).filter(|text| !text.is_empty())
}

fn dedup_key(id: &str) -> String {
    if id.chars().count() <= DEDUP_KEY_CHARS && one_line(id) == id {
        return id.to_owned();
    }
    let hash = Sha256::digest(id);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The values that all requests of a webhook in a sweep share.
#[derive(Clone, Copy)]
pub struct WebhookContext<'a> {
    /// The report.
    pub report: &'a Report,
    /// Address of the pages.
    pub links: Option<&'a PagesUrl>,
    /// The key of the receiver from the secret.
    pub key: Option<&'a str>,
}

impl<'a> WebhookContext<'a> {
    fn link(&self, page: PageOf<'_>) -> Option<String> {
        self.links.map(|links| links.link(page))
    }

    /// The values of a finding.
    pub fn of_finding(
        &self,
        webhook: &'a Webhook,
        finding: &Finding,
        (change, word): (WebhookChange, &str),
    ) -> WebhookFacts<'a> {
        let resource = &finding.resource;
        let title = value(resource.name.as_ref().unwrap_or(&resource.id));
        let saving = finding
            .cost
            .as_ref()
            .map(|cost| cost.saving_a_month.to_string());
        let amount = saving.as_ref().map(|saving| format!(", {saving} a month"));
        let summary = format!(
            "{} {word}: {title}{}",
            finding.kind,
            amount.unwrap_or_default()
        );
        let assignee = self.report.history.assigned.get(&finding.id);
        WebhookFacts {
            change,
            id: value(&finding.id),
            dedup_key: dedup_key(&finding.id),
            kind: finding.kind.slug(),
            kind_label: finding.kind.to_string(),
            summary: one_line(&clip(&summary, SUMMARY_CHARS)),
            resource: value(&resource.id),
            name: optional(resource.name.as_ref()),
            owner: optional(resource.owner.as_ref()),
            assignee: assignee.map(|one| value(&one.who)),
            account: resource.account.as_ref().map(ToString::to_string),
            region: value(resource.region.as_str()),
            machine: resource.instance_type.as_ref().map(ToString::to_string),
            saving,
            evidence: Some(value(&finding.evidence.to_string())),
            action: Some(finding.remedy.action.label()),
            advice: Some(value(&finding.remedy.advice)).filter(|text| !text.is_empty()),
            link: self.link(PageOf::Finding(&finding.id)),
            overview: self.link(PageOf::Overview),
            at: self.report.at,
            simulated: resource.origin == Origin::Simulated,
            key: self.key,
            parameters: &webhook.parameters,
        }
    }

    /// The values of a resolved finding.
    pub fn of_resolved(&self, webhook: &'a Webhook, resolved: &Resolved) -> WebhookFacts<'a> {
        let title = value(resolved.name.as_ref().unwrap_or(&resolved.resource));
        let saving = resolved.saved.map(|saved| saved.a_month.to_string());
        let amount = saving
            .as_ref()
            .map(|saving| format!(", saves {saving} a month"));
        let amount = amount.unwrap_or_default();
        let summary = format!("{} resolved: {title}{amount}", resolved.kind);
        WebhookFacts {
            change: WebhookChange::Resolved,
            id: value(&resolved.id),
            dedup_key: dedup_key(&resolved.id),
            kind: resolved.kind.slug(),
            kind_label: resolved.kind.to_string(),
            summary: one_line(&clip(&summary, SUMMARY_CHARS)),
            resource: value(&resolved.resource),
            name: optional(resolved.name.as_ref()),
            owner: optional(resolved.owner.as_ref()),
            assignee: None,
            account: None,
            region: value(&resolved.region),
            machine: None,
            saving,
            evidence: None,
            action: None,
            advice: None,
            link: self.link(PageOf::Finding(&resolved.id)),
            overview: self.link(PageOf::Overview),
            at: self.report.at,
            simulated: resolved.origin == Origin::Simulated,
            key: self.key,
            parameters: &webhook.parameters,
        }
    }
}

/// A request of a webhook.
pub struct WebhookRequest<'a> {
    /// Id of the finding.
    pub finding: String,
    /// Kind of the change, see [`Changes::keys`].
    pub change: String,
    /// Unique identifier of the change for this webhook.
    pub id: String,
    /// The values for its template.
    pub facts: WebhookFacts<'a>,
}

/// The requests that a webhook wants, the most expensive finding first, then findings that a decision
/// sets aside or the policy exempts, then resolved ones. `sending` contains the first send time of each change.
pub fn requests<'a>(
    context: &WebhookContext<'a>,
    webhook: &'a Webhook,
    changes: &Changes,
    sending: &BTreeMap<String, Timestamp>,
) -> Vec<WebhookRequest<'a>> {
    let request = |what: &str, id: &str, facts| {
        let change = diff::key(what, id);
        let begun = sending.get(&change).copied().unwrap_or(context.report.at);
        let named = format!("{}\n{what}", webhook.name);
        WebhookRequest {
            finding: id.to_owned(),
            change,
            id: event_id(&named, begun, id),
            facts,
        }
    };
    let found = context.report.findings.iter().filter_map(|finding| {
        let stage = changes.stage(&finding.id)?;
        let (what, change) = match stage {
            Stage::New => ("opened", WebhookChange::New),
            Stage::Reopened => ("reopened", WebhookChange::New),
            Stage::Due => ("due", WebhookChange::New),
            _ => ("grown", WebhookChange::Grown),
        };
        let owner = finding.resource.owner.as_deref();
        let is_wanted = webhook.wants(change, finding.kind, owner);
        let facts = || context.of_finding(webhook, finding, (change, stage.word()));
        is_wanted.then(|| request(what, &finding.id, facts()))
    });
    let aside = context.report.history.set_aside.iter();
    let aside = aside.map(|one| (&one.finding, one.decision.verb.done()));
    let exempt = context.report.exempt.iter();
    let aside = aside.chain(exempt.map(|finding| (finding, "exempt")));
    let aside = aside.filter_map(|(finding, word)| {
        let owner = finding.resource.owner.as_deref();
        let is_wanted = changes.set_aside.contains(&finding.id)
            && webhook.wants(WebhookChange::SetAside, finding.kind, owner);
        let change = (WebhookChange::SetAside, word);
        let facts = || context.of_finding(webhook, finding, change);
        is_wanted.then(|| request(diff::SET_ASIDE, &finding.id, facts()))
    });
    let wanted =
        |one: &&Resolved| webhook.wants(WebhookChange::Resolved, one.kind, one.owner.as_deref());
    let resolved = changes.resolved.iter().filter(wanted);
    let resolved =
        resolved.map(|one| request("resolved", &one.id, context.of_resolved(webhook, one)));
    found.chain(aside).chain(resolved).collect()
}

#[cfg(test)]
mod tests {
    use ebb_report::testing;
    use serde_json::{Value, json};

    use super::*;

    fn webhook(file: &str) -> Webhook {
        let file = format!("[[webhooks]]\nname = \"ops\"\n{file}");
        let policy = ebb_model::policy::Policy::parse(&file);
        policy.expect("a policy").webhooks.remove(0)
    }

    const PARAMETERS: &str = "parameters = { project = \"OPS\", issue_type = \"Task\" }";

    /// The output for the changes of a report, one for each request.
    fn rendered(webhook: &Webhook, report: &Report) -> Result<Vec<Value>, TemplateError> {
        let mut changes = crate::testing::all_new(report);
        changes.resolved = testing::several_days().history.resolved;
        let links = "https://ebb.example.org".parse().expect("valid");
        let context = WebhookContext {
            report,
            links: Some(&links),
            key: Some("hush"),
        };
        let template = WebhookTemplate::new(webhook)?;
        let sending = BTreeMap::new();
        let requests = requests(&context, webhook, &changes, &sending);
        let render = |one: WebhookRequest<'_>| {
            let text = template.render(&one.facts)?;
            Ok(serde_json::from_str(&text).expect("JSON"))
        };
        requests.into_iter().map(render).collect()
    }

    #[test]
    fn a_template_is_checked_before_there_is_a_finding() {
        let check = |rest: &str, expect: Result<(), &str>| {
            let webhook = webhook(rest);
            let found = WebhookTemplate::check(&webhook).map_err(|error| error.to_string());
            match (&found, expect) {
                (Ok(()), Ok(())) => {}
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                _ => panic!("{rest}: {found:?}, not {expect:?}"),
            }
        };
        for template in ["teams", "pagerduty", "jira", "slack", "generic"] {
            check(&format!("template = \"{template}\"\n{PARAMETERS}"), Ok(()));
        }
        check(
            "body = '{\"a\": {{ summary }}, \"b\": {{ owner or \"nobody\" }}}'",
            Ok(()),
        );
        check("body = '{\"a\": {{ summary }'", Err("line 1: syntax error"));
        check(
            "body = '{\"a\": {{ sumary }}}'",
            Err("line 1: undefined value"),
        );
        check(
            "body = 'a finding: {{ summary }}'",
            Err("is not JSON at line 1"),
        );
        check(
            "body = '{\"a\": {{ owner | upper }}{% if not owner %},{% endif %}}'",
            Err("is not JSON"),
        );
    }

    #[test]
    fn each_built_in_template_gives_the_documented_form() {
        let report = testing::small();
        let first = |template: &str| {
            let webhook = webhook(&format!("template = \"{template}\"\n{PARAMETERS}"));
            rendered(&webhook, &report).expect("valid").remove(0)
        };
        let link = "https://ebb.example.org/findings/idle_node%2Feu-central-1%2Fi-0aaa";
        let summary = "Idle node new: gpu-notebook, $884.76 a month";

        let teams = first("teams");
        assert_eq!(teams["type"], "message");
        let card = &teams["attachments"][0];
        assert_eq!(
            card["contentType"],
            "application/vnd.microsoft.card.adaptive"
        );
        assert_eq!(card["content"]["body"][0]["inlines"][0]["text"], summary);
        assert_eq!(card["content"]["actions"][0]["url"], link);

        let duty = first("pagerduty");
        let head = ["routing_key", "event_action", "dedup_key"].map(|key| duty[key].clone());
        let id = "idle_node/eu-central-1/i-0aaa";
        assert_eq!(head, [json!("hush"), json!("trigger"), json!(id)]);
        assert_eq!(duty["payload"]["summary"], summary);
        assert_eq!(duty["payload"]["severity"], "warning");
        assert_eq!(duty["payload"]["custom_details"]["simulated"], true);
        assert_eq!(duty["links"][0]["href"], link);

        let fields = first("jira")["fields"].clone();
        assert_eq!(fields["project"]["key"], "OPS");
        assert_eq!(fields["issuetype"]["name"], "Task");
        assert_eq!(
            (
                &fields["description"]["type"],
                &fields["description"]["version"]
            ),
            (&json!("doc"), &json!(1))
        );
        assert_eq!(
            fields["description"]["content"].as_array().map(Vec::len),
            Some(5)
        );

        assert_eq!(first("slack")["text"], summary);
        assert_eq!(first("generic")["link"], link);
    }

    #[test]
    fn the_end_of_a_finding_resolves_its_alert_and_opens_no_issue() {
        let duty = rendered(&webhook("template = \"pagerduty\""), &testing::small());
        let last = duty.expect("valid").pop().expect("one");
        assert_eq!(last["event_action"], "resolve");
        let jira = webhook(&format!("template = \"jira\"\n{PARAMETERS}"));
        let issues = rendered(&jira, &testing::small()).expect("valid");
        assert_eq!(issues.len(), 3, "the new findings");
    }

    #[test]
    fn an_exemption_resolves_the_alert_of_its_finding() {
        let mut report = testing::small();
        let finding = report.findings.remove(0);
        let changes = Changes {
            set_aside: [finding.id.clone()].into(),
            ..Changes::default()
        };
        report.exempt.push(finding);
        let webhook = webhook("template = \"pagerduty\"");
        let context = WebhookContext {
            report: &report,
            links: None,
            key: Some("hush"),
        };
        let sent = requests(&context, &webhook, &changes, &BTreeMap::new());
        let template = WebhookTemplate::new(&webhook).expect("valid");
        let text = template.render(&sent[0].facts).expect("valid");
        assert!(text.contains("\"event_action\":\"resolve\""), "{text}");
    }

    #[test]
    fn a_name_from_outside_stays_a_text() {
        for report in [testing::hostile(), testing::many_hostile(2)] {
            for template in ["teams", "pagerduty", "jira", "slack", "generic"] {
                let webhook = webhook(&format!("template = \"{template}\"\n{PARAMETERS}"));
                for value in rendered(&webhook, &report).expect("valid") {
                    let text = value.to_string();
                    assert!(text.len() < 28_000, "{template}: {}", text.len());
                    assert!(!text.contains(['\u{202e}', '\u{1b}']), "{template}: {text}");
                    let is_slack = template == "slack";
                    let fallback = value["text"].as_str().unwrap_or_default();
                    assert!(!(is_slack && fallback.contains('<')), "{fallback}");
                }
            }
            let own = webhook("body = '{\"a\": {{ name }}, \"b\": {{ summary }}}'");
            for value in rendered(&own, &report).expect("valid") {
                assert_eq!(value.as_object().map(serde_json::Map::len), Some(2));
            }
        }
    }

    #[test]
    fn a_template_that_fails_is_named_with_its_line() {
        let check = |body: &str, expect: &str| {
            let webhook = webhook(&format!("body = '''\n{body}'''"));
            let error = rendered(&webhook, &testing::small()).expect_err(expect);
            let text = error.to_string();
            assert!(
                text.starts_with("the template of the webhook ops"),
                "{text}"
            );
            assert!(text.contains(expect), "{text} should say: {expect}");
            assert!(!text.contains("hush"), "{text}");
        };
        check("{\n{{ nam }}}", "line 2: undefined value");
        check("{\n\n{% if %}}", "line 3: syntax error");
        check("{{ key }} x", "its output is not JSON at line 1");
        check("{\"a\":\n}", "its output is not JSON at line 2");
        check("", "its output is not JSON");
        check(
            "{% for a in range(9999) %}{% for b in range(9999) %}1{% endfor %}{% endfor %}",
            "fuel",
        );
        check(
            "{% include \"/etc/passwd\" %}",
            "line 1: template not found",
        );
        let long = "{{ \"x\" }}".replace('x', &"x".repeat(11_000));
        check(
            &format!("[{}0]", format!("{long},").repeat(1))
                .repeat(1)
                .replace("{{", "{% for i in range(10) %}{{")
                .replace("}},", "}},{% endfor %}"),
            "more than 102400 bytes",
        );
    }

    #[test]
    fn pagerduty_needs_a_key_and_a_short_dedup_key() {
        let report = testing::small();
        let webhook = webhook("template = \"pagerduty\"");
        let context = WebhookContext {
            report: &report,
            links: None,
            key: None,
        };
        let change = (WebhookChange::New, "new");
        let facts = context.of_finding(&webhook, &report.findings[0], change);
        let template = WebhookTemplate::new(&webhook).expect("valid");
        let error = template.render(&facts).expect_err("no key").to_string();
        assert!(error.contains("the secret has no key"), "{error}");
        assert_eq!(dedup_key(&"x".repeat(255)).len(), 255);
        assert_eq!(dedup_key(&"x".repeat(256)).len(), 64);
    }
}
