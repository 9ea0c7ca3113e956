//! Changes for a channel since its last notification: new, reopened, due, grown and resolved
//! findings. Each channel has its own history. A channel that failed is notified in the next sweep,
//! and the others receive nothing twice. The module performs no I/O.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::finding::Finding;
use ebb_model::finding_history::known_finding::Price;
use ebb_model::finding_history::{Lives, Resolved, Stage};
use ebb_model::finding_kind::{self, FindingKind};
use ebb_model::pages_url::{PageOf, PagesUrl};
use ebb_model::policy::webhook::{BuiltinTemplate, Webhook};
use ebb_model::report::Report;
use ebb_report::page::Page;
use ebb_report::page::history::resolved_line;
use ebb_report::zone::Zone;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// History of a channel: the notified price of each finding, and the thread for updates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelHistory {
    /// Notified price by finding. The price stays the same until the next notification, so slow
    /// growth is also reported.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub findings: BTreeMap<String, Price>,
    /// Thread of the last digest; `None` if the channel has no threads.
    pub thread: Option<String>,
    /// Thread of each finding: the message that first reported it.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub threads: BTreeMap<String, String>,
    /// First send time of each change without a confirmed delivery, by [`Changes::keys`]. The map
    /// is stored before anything is sent, so that after a crash a change is sent again under the
    /// same identifier.
    pub sending: BTreeMap<String, Timestamp>,
    /// Chat messages without a confirmed delivery, in the order of sending.
    pub digests: Vec<Digest>,
}

impl ChannelHistory {
    /// Records the changes to send; true if some of them were not recorded before.
    pub fn begin(&mut self, changes: &Changes, at: Timestamp) -> bool {
        let before = std::mem::take(&mut self.sending);
        let since = |key: String| (before.get(&key).copied().unwrap_or(at), key);
        let begun = changes.keys().map(since);
        self.sending = begun.map(|(since, key)| (key, since)).collect();
        self.sending.keys().any(|key| !before.contains_key(key))
    }

    /// Records the delivery of all changes.
    pub fn arrived(&mut self, new_prices: BTreeMap<String, Price>) {
        self.findings = new_prices;
        self.sending.clear();
        self.digests.clear();
    }

    /// Identifier of a message with all recorded changes; the same changes give the same
    /// identifier.
    pub fn message_id(&self, channel: &str) -> String {
        self.message_id_of(channel, |_| true)
    }

    /// The same for a message with some of the recorded changes.
    pub(crate) fn message_id_of(&self, channel: &str, is_part: impl Fn(&str) -> bool) -> String {
        let changes = self.sending.iter().filter(|(key, _)| is_part(key));
        let text: String = changes.map(|(key, at)| format!("\n{at} {key}")).collect();
        let named = Sha256::digest(format!("{channel}{text}"));
        named.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A chat message with the changes of some findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// Identifier of the message.
    pub id: String,
    /// Thread that the message continues; `None` for a new message.
    pub thread: Option<String>,
    /// Notified price of each of its findings after the delivery; `None` for a resolved finding.
    #[serde(deserialize_with = "finding_kind::read_by_id")]
    pub prices: BTreeMap<String, Option<Price>>,
}

/// Changes to report, by finding id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Never notified.
    pub new: BTreeSet<String>,
    /// Notified as resolved, and found again.
    pub reopened: BTreeSet<String>,
    /// The time for which a decision set the finding aside is over.
    pub due: BTreeSet<String>,
    /// More expensive than notified.
    pub grown: BTreeSet<String>,
    /// Notified, and now resolved.
    pub resolved: Vec<Resolved>,
    /// Notified, and now dismissed or snoozed, or exempt for an alert. Empty for a channel of people,
    /// who decided it.
    pub set_aside: BTreeSet<String>,
}

impl Changes {
    /// Keeps only changes that may be sent at any time.
    #[must_use]
    pub fn but_urgent(
        self,
        known: (&BTreeMap<String, Price>, BTreeMap<String, Price>),
        is_urgent: impl Fn(FindingKind) -> bool,
    ) -> (Self, BTreeMap<String, Price>) {
        let kind_of = |id: &str| {
            let (slug, _) = id.split_once('/')?;
            slug.parse::<FindingKind>().ok()
        };
        self.only(known, |id| kind_of(id).is_some_and(&is_urgent))
    }

    /// Removes changes that must wait; the returned prices then keep their old values.
    #[must_use]
    pub fn only(
        mut self,
        (old_prices, mut new_prices): (&BTreeMap<String, Price>, BTreeMap<String, Price>),
        may_send: impl Fn(&str) -> bool,
    ) -> (Self, BTreeMap<String, Price>) {
        let mut held = Vec::new();
        let waiting = [
            &mut self.new,
            &mut self.reopened,
            &mut self.due,
            &mut self.grown,
            &mut self.set_aside,
        ];
        for ids in waiting {
            held.extend(ids.extract_if(.., |id| !may_send(id)));
        }
        let waits = |resolved: &mut Resolved| !may_send(&resolved.id);
        held.extend(self.resolved.extract_if(.., waits).map(|gone| gone.id));
        for id in held {
            match old_prices.get(&id) {
                Some(before) => drop(new_prices.insert(id, *before)),
                None => drop(new_prices.remove(&id)),
            }
        }
        (self, new_prices)
    }

    /// Whether there is no change to report.
    pub fn is_empty(&self) -> bool {
        !self.has_findings()
            && self.grown.is_empty()
            && self.resolved.is_empty()
            && self.set_aside.is_empty()
    }

    /// Whether a finding is new, reopened or due.
    pub fn has_findings(&self) -> bool {
        !(self.new.is_empty() && self.reopened.is_empty() && self.due.is_empty())
    }

    /// One line for each change, which contains the kind of the change and the finding id.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.each().map(|(what, id)| key(what, id))
    }

    /// Kind and finding id of each change.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let stages = [
            ("opened", &self.new),
            ("reopened", &self.reopened),
            ("due", &self.due),
            ("grown", &self.grown),
            (SET_ASIDE, &self.set_aside),
        ];
        let found = stages
            .into_iter()
            .flat_map(|(what, ids)| ids.iter().map(move |id| (what, id.as_str())));
        let resolved = self
            .resolved
            .iter()
            .map(|one| ("resolved", one.id.as_str()));
        found.chain(resolved)
    }

    /// Word for the change of a finding; `None` without a change.
    pub fn word(&self, id: &str) -> Option<&'static str> {
        self.stage(id).map(Stage::word)
    }

    /// Change of a finding; `None` without a change.
    pub fn stage(&self, id: &str) -> Option<Stage> {
        let stages = [
            (&self.new, Stage::New),
            (&self.reopened, Stage::Reopened),
            (&self.due, Stage::Due),
            (&self.grown, Stage::Grown),
        ];
        let found = stages.into_iter().find(|(ids, _)| ids.contains(id));
        found.map(|(_, stage)| stage)
    }

    /// Number of changes of each kind, in words.
    pub fn counts(&self) -> String {
        let parts = [
            (self.new.len(), Stage::New.word()),
            (self.reopened.len(), Stage::Reopened.word()),
            (self.due.len(), Stage::Due.word()),
            (self.grown.len(), Stage::Grown.word()),
            (self.resolved.len(), "resolved"),
        ];
        let some = parts.iter().filter(|(n, _)| *n > 0);
        let words: Vec<String> = some.map(|(n, word)| format!("{n} {word}")).collect();
        words.join(", ")
    }
}

/// The headline if no finding is open: what changed, and how much was not evaluated.
pub(crate) fn headline_without_findings(page: &Page, changes: &Changes) -> String {
    let not_evaluated: usize = page.not_evaluated.iter().map(|group| group.count).sum();
    let counts = changes.counts();
    let changed = match counts.is_empty() {
        true => String::new(),
        false => format!("{counts}, "),
    };
    let suffix = match not_evaluated {
        0 => String::new(),
        many => format!(", {many} not evaluated"),
    };
    format!("{changed}no open finding{suffix}")
}

/// The change of a finding that a decision sets aside, in [`Changes::keys`].
pub(crate) const SET_ASIDE: &str = "set_aside";

/// Kind and finding of a change as one line.
pub fn key(what: &str, id: &str) -> String {
    format!("{what} {id}")
}

/// The finding of a [`key`].
pub(crate) fn id_of_key(key: &str) -> &str {
    key.split_once(' ').map_or(key, |(_, id)| id)
}

/// Compares the part of a report for a channel with the notified prices; returns the changes and
/// the new prices. Findings that decisions set aside or that moved to another channel are removed
/// without a notification. Findings that could not be evaluated this time keep their price.
pub fn since(
    old_prices: &BTreeMap<String, Price>,
    part: &Report,
    lives: &Lives,
) -> (Changes, BTreeMap<String, Price>) {
    let mut changes = Changes::default();
    let mut new_prices = BTreeMap::new();
    for finding in &part.findings {
        let (id, now) = (&finding.id, Price::from_finding(finding));
        let kept = match old_prices.get(id) {
            Some(before) if before.grew_to(&now) => {
                changes.grown.insert(id.clone());
                now
            }
            Some(before) => *before,
            None => {
                let stage = part.history.life.get(id).map(|standing| standing.stage);
                let ids = match stage {
                    Some(Stage::Reopened) => &mut changes.reopened,
                    Some(Stage::Due) => &mut changes.due,
                    _ => &mut changes.new,
                };
                ids.insert(id.clone());
                now
            }
        };
        new_prices.insert(id.clone(), kept);
    }
    for (id, before) in old_prices {
        let life = lives.known.get(id);
        if part.history.life.contains_key(id) || life.is_none() {
            continue;
        }
        match life.and_then(|life| life.as_resolved(id, part.at)) {
            Some(resolved) => changes.resolved.push(resolved),
            None => drop(new_prices.insert(id.clone(), *before)),
        }
    }
    (changes, new_prices)
}

/// The same for a program whose alerts end when somebody dismisses or snoozes their finding. The
/// program may have accepted a request without a recorded delivery.
pub(crate) fn since_for_alerts(
    (history, webhook): (&ChannelHistory, &Webhook),
    report: &Report,
    lives: &Lives,
) -> (Changes, BTreeMap<String, Price>) {
    let (mut changes, mut new_prices) = since(&history.findings, report, lives);
    let sending: BTreeSet<&str> = history.sending.keys().map(|key| id_of_key(key)).collect();
    let is_notified = |id: &str| history.findings.contains_key(id);
    let may_know = |id: &str| is_notified(id) || sending.contains(id);
    let aside = report.history.set_aside.iter();
    let aside = aside.map(|one| one.finding.id.as_str());
    let aside = aside.filter(|id| may_know(id)).map(str::to_owned);
    changes.set_aside = aside.collect();
    // To resolve an alert that does not exist does no harm. Other receivers would announce it.
    if webhook.template == Some(BuiltinTemplate::PagerDuty) {
        let is_over = |id: &str| {
            lives
                .known
                .get(id)
                .is_some_and(|one| one.resolved.is_some())
        };
        for id in exempt_at_all_hours(report) {
            if may_know(id) && !is_over(id) {
                new_prices.remove(id);
                changes.set_aside.insert(id.to_owned());
            }
        }
        for id in sending.iter().copied() {
            if !is_notified(id) && !report.history.life.contains_key(id) {
                let life = lives.known.get(id);
                let resolved = life.and_then(|life| life.as_resolved(id, report.at));
                changes.resolved.extend(resolved);
            }
        }
    }
    (changes, new_prices)
}

/// Findings that an exemption without a schedule leaves out. The alert of another one would end and
/// begin every day.
fn exempt_at_all_hours(report: &Report) -> impl Iterator<Item = &str> {
    let exempt = report.not_evaluated.iter();
    let exempt = exempt.filter(|one| has_no_schedule(&one.reason));
    let exempt: BTreeSet<(&str, &str)> = exempt
        .map(|one| (one.resource.as_str(), one.rule.as_str()))
        .collect();
    let is_exempt = move |finding: &&Finding| {
        exempt.contains(&(finding.resource.id.as_str(), finding.kind.slug()))
    };
    let findings = report.exempt.iter().filter(is_exempt);
    findings.map(|finding| finding.id.as_str())
}

/// Whether a reason of the evaluation is `exempt until DAY: REASON`. With a schedule it is
/// `exempt until DAY, SCHEDULE: REASON`.
fn has_no_schedule(reason: &str) -> bool {
    let end = reason.strip_prefix("exempt until ");
    let is_of_day = |c: char| c.is_ascii_digit() || c == '-';
    end.is_some_and(|end| end.trim_start_matches(is_of_day).starts_with(':'))
}

/// The page for a reader of changes: news first, and each finding marked with its change and, if the
/// address of the pages is known, with its link.
pub(crate) fn page_of_changes(
    report: &Report,
    changes: &Changes,
    links: Option<&PagesUrl>,
) -> Page {
    let mut page = Page::from_report(report, &Zone::utc());
    for (card, finding) in page.cards.iter_mut().zip(&report.findings) {
        card.change = changes.word(&finding.id);
        card.link = links.map(|links| links.link(PageOf::Finding(&finding.id)));
    }
    page.link = links.map(|links| links.link(PageOf::Overview));
    page.news.push(changes.counts());
    let resolved = changes.resolved.iter().take(RESOLVED);
    page.news
        .extend(resolved.map(|one| format!("Resolved: {}", resolved_line(one))));
    let more = changes.resolved.len().saturating_sub(RESOLVED);
    if more > 0 {
        page.news.push(format!("… and {more} more resolved"));
    }
    page
}

/// Limit on resolved findings that a message names.
const RESOLVED: usize = 5;
