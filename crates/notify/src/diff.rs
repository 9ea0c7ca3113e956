//! What a channel is to be told: what is new, back, grown or resolved since it was
//! last told. Each channel remembers on its own, so that one that failed is told the
//! next time, and the others nothing twice. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::finding_history::known_finding::Price;
use ebb_model::finding_history::{Lives, Resolved, Stage};
use ebb_model::finding_kind::FindingKind;
use ebb_model::report::Report;
use ebb_report::page::Page;
use ebb_report::page::history::resolved_line;
use ebb_report::zone::Zone;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a channel was told: the price of each finding, and where updates go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// By finding. Slow growth is told in the end, for the price stays as it was told.
    pub findings: BTreeMap<String, Price>,
    /// The thread of its last digest, where the channel has threads.
    pub thread: Option<String>,
    /// Since when each change is being sent that is not known to have arrived, by
    /// [`Changes::keys`]. It is stored before anything is sent, so that what a crash leaves
    /// is sent again under the same identifier.
    pub sending: BTreeMap<String, Timestamp>,
    /// The message to a chat that is not known to have arrived.
    pub digest: Option<Digest>,
}

impl Told {
    /// Notes what is sent from now on; true where that is more than was noted before.
    pub fn begin(&mut self, changes: &Changes, at: Timestamp) -> bool {
        let before = std::mem::take(&mut self.sending);
        let since = |key: String| (before.get(&key).copied().unwrap_or(at), key);
        let begun = changes.keys().map(since);
        self.sending = begun.map(|(since, key)| (key, since)).collect();
        self.sending.keys().any(|key| !before.contains_key(key))
    }

    /// Notes that all of it arrived.
    pub fn arrived(&mut self, knows: BTreeMap<String, Price>) {
        self.findings = knows;
        self.sending.clear();
        self.digest = None;
    }

    /// What names a message with all that is being sent: the same changes have the same name.
    pub fn message_id(&self, channel: &str) -> String {
        let changes = self.sending.iter();
        let text: String = changes.map(|(key, at)| format!("\n{at} {key}")).collect();
        let named = Sha256::digest(format!("{channel}{text}"));
        named.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A message to a chat with all that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// What names it.
    pub id: String,
    /// The thread that it continues.
    pub thread: Option<String>,
    /// What the channel knows once it has arrived.
    pub knows: BTreeMap<String, Price>,
}

/// What there is to tell, by finding id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Not told before.
    pub new: BTreeSet<String>,
    /// Told to be resolved, and found again.
    pub reopened: BTreeSet<String>,
    /// Set aside for a while that is over.
    pub due: BTreeSet<String>,
    /// Dearer than it was told.
    pub grown: BTreeSet<String>,
    /// Told, and resolved by now.
    pub resolved: Vec<Resolved>,
}

impl Changes {
    /// Leaves all but what may be told at any time.
    #[must_use]
    pub fn but_urgent(
        self,
        known: (&BTreeMap<String, Price>, BTreeMap<String, Price>),
        is_urgent: impl Fn(FindingKind) -> bool,
    ) -> (Self, BTreeMap<String, Price>) {
        let kind_of = |id: &str| {
            let slug = id.split('/').next();
            let mut kinds = FindingKind::ALL.iter();
            kinds.find(|kind| Some(kind.slug()) == slug).copied()
        };
        self.only(known, |id| kind_of(id).is_some_and(&is_urgent))
    }

    /// Leaves what must wait for later: what the channel knows is then what it knew.
    #[must_use]
    pub fn only(
        mut self,
        (told, mut knows): (&BTreeMap<String, Price>, BTreeMap<String, Price>),
        is_told: impl Fn(&str) -> bool,
    ) -> (Self, BTreeMap<String, Price>) {
        let mut held = Vec::new();
        let waiting = [
            &mut self.new,
            &mut self.reopened,
            &mut self.due,
            &mut self.grown,
        ];
        for ids in waiting {
            held.extend(ids.extract_if(.., |id| !is_told(id)));
        }
        let waits = |resolved: &mut Resolved| !is_told(&resolved.id);
        held.extend(self.resolved.extract_if(.., waits).map(|gone| gone.id));
        for id in held {
            match told.get(&id) {
                Some(before) => drop(knows.insert(id, *before)),
                None => drop(knows.remove(&id)),
            }
        }
        (self, knows)
    }

    /// True when there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        !self.has_findings() && self.grown.is_empty() && self.resolved.is_empty()
    }

    /// True when something is told for the first time, or anew.
    pub fn has_findings(&self) -> bool {
        !(self.new.is_empty() && self.reopened.is_empty() && self.due.is_empty())
    }

    /// What happened to which finding, each as one line that names it.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        let stages = [
            ("opened", &self.new),
            ("reopened", &self.reopened),
            ("due", &self.due),
            ("grown", &self.grown),
        ];
        let found = stages
            .into_iter()
            .flat_map(|(what, ids)| ids.iter().map(move |id| key(what, id)));
        let resolved = self.resolved.iter().map(|one| key("resolved", &one.id));
        found.chain(resolved)
    }

    /// The word for what changed about a finding; `None` where nothing did.
    pub fn word(&self, id: &str) -> Option<&'static str> {
        self.stage(id).map(Stage::word)
    }

    /// What changed about a finding; `None` where nothing did.
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

    /// How many there are of each, in words.
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

/// What happened to a finding, as one line.
pub fn key(what: &str, id: &str) -> String {
    format!("{what} {id}")
}

/// Compares a report's part with what its channel was told, and says what the channel
/// knows once it is told too. What decisions set aside, and what is another channel's
/// by now, the channel forgets without a word; what could not be looked at this time
/// it keeps.
pub fn since(
    told: &BTreeMap<String, Price>,
    part: &Report,
    lives: &Lives,
) -> (Changes, BTreeMap<String, Price>) {
    let mut changes = Changes::default();
    let mut knows = BTreeMap::new();
    for finding in &part.findings {
        let (id, now) = (&finding.id, Price::of(finding));
        let kept = match told.get(id) {
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
        knows.insert(id.clone(), kept);
    }
    for (id, before) in told {
        let life = lives.known.get(id);
        if part.history.life.contains_key(id) || life.is_none() {
            continue;
        }
        match life.and_then(|life| life.as_resolved(id, part.at)) {
            Some(resolved) => changes.resolved.push(resolved),
            None => drop(knows.insert(id.clone(), *before)),
        }
    }
    (changes, knows)
}

/// The same for a reader who is told what changed: news first, and each finding
/// marked by what is new about it to them.
pub(crate) fn page_of_changes(report: &Report, changes: &Changes) -> Page {
    let mut page = Page::of(report, &Zone::utc());
    for (card, finding) in page.cards.iter_mut().zip(&report.findings) {
        card.change = changes.word(&finding.id);
    }
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

/// Resolved findings that a message names.
const RESOLVED: usize = 5;
