//! From what probes sent to every text that a person reads.

use std::collections::BTreeMap;

use ebb_catalog::catalog::Catalogue;
use ebb_cloud::fake::FakeInventory;
use ebb_model::decision::Decisions;
use ebb_model::finding_history::Lives;
use ebb_model::inventory::Inventory;
use ebb_model::inventory::instance::{Instance, InstanceState, Market};
use ebb_model::pages_url::PagesUrl;
use ebb_model::policy::Policy;
use ebb_model::report::Report;
use ebb_notify::cloud_event::{event, events};
use ebb_notify::diff::{Changes, since};
use ebb_notify::email_digest::email;
use ebb_notify::message_form::{Buttons, MessageForm};
use ebb_notify::slack_digest::slack;
use ebb_notify::welcome::Hello;
use ebb_report::csv::csv;
use ebb_report::focus::focus;
use ebb_report::html::html;
use ebb_report::json::json;
use ebb_report::markdown::markdown;
use ebb_report::sarif::sarif;
use ebb_report::table::table;
use ebb_report::terminal_style::{Colour, TerminalStyle};
use ebb_report::zone::Zone;
use ebb_sweep::collect::account::Account;

use ebb_sweep::scan::{Known, scan};
use ebb_telemetry::identity::{InstanceType, NodeId, Region};
use jiff::Timestamp;
use serde_json::Value;

use crate::support::block_on;
use ebb_notify::welcome;
use ebb_report::report_file;

/// Nodes that are in the inventory at most; the others are hosts.
const MAX_INSTANCES: usize = 100;

/// Evaluates what is known about nodes, which all are instances of one region.
pub fn evaluate(known: &Known, policy: &Policy, now: Timestamp) -> Report {
    let nodes = known.state.nodes.keys().take(MAX_INSTANCES);
    let region = Region::new("us-east-1").expect("a region");
    let instances = nodes.map(|node| (node.clone(), instance(node, &region)));
    let inventory = Inventory {
        instances: instances.collect(),
        ..Inventory::default()
    };
    let inventory = FakeInventory::new(BTreeMap::from([(region, inventory)]));
    let account = Account {
        inventory: &inventory,
        metrics: None,
        bill: None,
        markets: None,
        prices: None,
        regions: &[],
    };
    block_on(scan(&account, known, policy, now))
}

fn instance(node: &NodeId, region: &Region) -> Instance {
    let kind = InstanceType::new("m5.4xlarge").expect("a type");
    let state = InstanceState::Running;
    Instance::new(node.clone(), region.clone(), kind, state, Market::OnDemand)
}

/// Findings and delivery state of earlier sweeps.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// Findings of earlier sweeps.
    pub lives: Lives,
    /// Decisions of users.
    pub decisions: Decisions,
}

/// Renders a report in all forms.
///
/// # Panics
/// If a form holds a control character or markup from outside, or the JSON does not give
/// the report back.
pub fn render_all(report: &Report, before: &Before) {
    let mut report = report.clone();
    let mut lives = before.lives.clone();
    let inventory = Inventory::default();
    let with = (&inventory, Catalogue::built_in());
    lives.advance(&mut report, with, &before.decisions);
    let (changes, _) = since(&BTreeMap::new(), &report, &lives);
    let report = &report;
    let zone = Zone::utc();
    let style = TerminalStyle {
        columns: Some(80),
        colour: Colour::Plain,
    };
    for text in [
        table(report, &TerminalStyle::PLAIN, &zone),
        table(report, &style, &zone),
        markdown(report, &zone),
        csv(report),
        focus(report),
        sarif(report),
    ] {
        check_plain(&text);
    }
    check_markup(&html(report, &zone));
    check_messages(report, &changes);
    let text = json(report);
    check_plain(&text);
    let read = report_file::read(text.as_bytes()).expect("its own JSON is readable");
    assert_eq!(
        json(&read),
        text,
        "a report that was read is the same report"
    );
}

fn check_messages(report: &Report, changes: &Changes) {
    let pages: PagesUrl = "https://ebb.example".parse().expect("a valid address");
    let links = Some(&pages);
    let form = MessageForm {
        links,
        buttons: Buttons::Shown,
        elsewhere: 0,
    };
    let mail = email(report, changes, links);
    check_plain(&mail.text);
    check_markup(&mail.html);
    assert!(!mail.subject.contains(['\r', '\n']), "{:?}", mail.subject);
    check_value(&slack(report, changes, &form));
    check_plain(&event(report, changes, "fuzz", links));
    for event in events(report, changes, &BTreeMap::new(), links) {
        check_plain(&event.id);
        check_plain(&event.body);
    }
    let hello = Hello::from_report(report, Some(report.at), Some(true));
    check_value(&welcome::slack_hello(&hello));
    let mail = welcome::email_hello(&hello);
    check_plain(&mail.text);
    check_markup(&mail.html);
}

/// All strings of a message of a chat.
fn check_value(value: &Value) {
    match value {
        Value::String(text) => check_plain(text),
        Value::Array(values) => values.iter().for_each(check_value),
        Value::Object(fields) => fields.values().for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A terminal and a log must not obey what a name says.
fn check_plain(text: &str) {
    let control = text.char_indices().find(|(_, c)| is_unsafe(*c));
    assert!(
        control.is_none(),
        "{control:?} in {:?}",
        control
            .and_then(|(at, _)| text.get(at.saturating_sub(20)..))
            .map(|text| text.chars().take(60).collect::<String>())
    );
}

/// Control characters, and those that change the direction of the text around them.
fn is_unsafe(c: char) -> bool {
    let changes_direction =
        ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
    c.is_control() && !matches!(c, '\n' | '\r' | '\t') || changes_direction
}

/// The only markup is that of the templates, of which [`MARK`] is no part.
fn check_markup(html: &str) {
    check_plain(html);
    assert!(!html.contains(MARK), "a name is markup in the page");
}

/// Mark in the names of [`crate::story`], to find unescaped names.
pub const MARK: &str = "<mark onload='";
