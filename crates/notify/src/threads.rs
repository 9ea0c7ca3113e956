//! One thread for each finding in a chat: which message carries which changes, and what a delivery
//! changes in the history of the channel. The module performs no I/O.

use std::collections::{BTreeMap, BTreeSet};

use ebb_model::finding_history::Lives;
use ebb_model::finding_history::known_finding::Price;

use crate::diff::{self, Changes, ChannelHistory, Digest};

/// Maximum number of messages to one channel in a sweep. Further changes wait for the next sweep.
const MAX_MESSAGES: usize = 10;

/// Errors of Slack for a thread that accepts no reply, such as that of a deleted message.
const LOST_THREAD: [&str; 3] = [
    "thread_not_found",
    "cannot_reply_to_message",
    "restricted_action_thread_locked",
];

/// The messages for these changes: a new message for findings without a thread, then a reply in
/// each thread of the other findings.
pub(crate) fn messages(
    history: &ChannelHistory,
    channel: &str,
    changes: &Changes,
    knows: &BTreeMap<String, Price>,
) -> Vec<Digest> {
    let mut groups: BTreeMap<Option<&str>, Vec<(&str, &str)>> = BTreeMap::new();
    for (what, id) in changes.each() {
        let of_finding = history.threads.get(id);
        // Earlier releases stored only the thread of the last message.
        let is_update = matches!(what, "grown" | "resolved");
        let of_channel = history.thread.as_ref().filter(|_| is_update);
        let thread = of_finding.or(of_channel).map(String::as_str);
        groups.entry(thread).or_default().push((what, id));
    }
    let digests = groups.into_iter().take(MAX_MESSAGES);
    let digest = |(thread, part): (Option<&str>, Vec<(&str, &str)>)| {
        let keys: BTreeSet<String> = part.iter().map(|(what, id)| diff::key(what, id)).collect();
        let prices = part.iter();
        let prices = prices.map(|(_, id)| ((*id).to_owned(), knows.get(*id).copied()));
        Digest {
            id: history.message_id_of(channel, |key| keys.contains(key)),
            thread: thread.map(str::to_owned),
            prices: prices.collect(),
        }
    };
    digests.map(digest).collect()
}

/// The changes that a message carries.
pub(crate) fn part_of(changes: Changes, digest: &Digest) -> Changes {
    let nothing = (&BTreeMap::new(), BTreeMap::new());
    let (part, _) = changes.only(nothing, |id| digest.prices.contains_key(id));
    part
}

/// Records that a message was delivered, in this thread of the chat.
pub(crate) fn delivered(history: &mut ChannelHistory, digest: &Digest, at: Option<String>) {
    if digest.thread.is_none() && at.is_some() {
        history.thread.clone_from(&at);
    }
    let thread = digest.thread.as_ref().or(at.as_ref());
    for (id, price) in &digest.prices {
        if let Some(thread) = thread {
            let of_finding = history.threads.entry(id.clone());
            of_finding.or_insert_with(|| thread.clone());
        }
        match price {
            Some(price) => history.findings.insert(id.clone(), *price),
            None => history.findings.remove(id),
        };
    }
    history
        .sending
        .retain(|key, _| !digest.prices.contains_key(diff::id_of_key(key)));
}

/// Forgets a thread that accepts no reply, so that the next sweep starts a new message.
pub(crate) fn forget_lost(history: &mut ChannelHistory, thread: &Option<String>, reason: &str) {
    let Some(thread) = thread else { return };
    if LOST_THREAD.iter().any(|error| reason.contains(error)) {
        history.threads.retain(|_, one| one != thread);
        history.thread.take_if(|one| one == thread);
    }
}

/// Forgets the threads of findings that are no longer known.
pub(crate) fn forget_unknown(history: &mut ChannelHistory, lives: &Lives) {
    history.threads.retain(|id, _| lives.known.contains_key(id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebb_report::testing;

    fn ids(digest: &Digest) -> Vec<&str> {
        digest.prices.keys().map(String::as_str).collect()
    }

    #[test]
    fn later_news_of_a_finding_is_a_reply_in_its_thread() {
        let report = testing::small();
        let all: Vec<&str> = report.findings.iter().map(|one| one.id.as_str()).collect();
        let known = report.findings.iter();
        let knows: BTreeMap<_, _> = known
            .map(|one| (one.id.clone(), Price::from_finding(one)))
            .collect();
        let mut history = ChannelHistory::default();
        let mut news = Changes::default();
        news.new.insert(all[0].to_owned());
        history.begin(&news, report.at);
        let first = messages(&history, "slack", &news, &knows);
        assert_eq!((first.len(), first[0].thread.as_deref()), (1, None));
        delivered(&mut history, &first[0], Some("1.0".to_owned()));
        assert!(history.sending.is_empty());

        let mut news = Changes::default();
        news.new.insert(all[1].to_owned());
        news.reopened.insert(all[0].to_owned());
        news.grown.insert(all[2].to_owned());
        history.begin(&news, report.at);
        history.threads.insert(all[2].to_owned(), "0.5".to_owned());
        let next = messages(&history, "slack", &news, &knows);
        let threads: Vec<_> = next.iter().map(|one| one.thread.as_deref()).collect();
        assert_eq!(threads, [None, Some("0.5"), Some("1.0")]);
        assert_eq!(ids(&next[0]), [all[1]]);
        assert_eq!(ids(&next[2]), [all[0]]);
        assert_eq!(
            part_of(news.clone(), &next[2]).counts(),
            "1 reopened".replace(
                "reopened",
                ebb_model::finding_history::Stage::Reopened.word()
            )
        );
        delivered(&mut history, &next[0], Some("2.0".to_owned()));
        assert_eq!(history.sending.len(), 2, "the replies are not sent yet");
        assert_eq!(history.threads[all[1]], "2.0");
        let same = messages(&history, "slack", &part_of(news, &next[2]), &knows);
        assert_eq!(same[0].id, next[2].id, "the id stays for a later attempt");
        delivered(&mut history, &next[2], Some("9.0".to_owned()));
        assert_eq!(history.threads[all[0]], "1.0", "a reply is no thread");
    }

    #[test]
    fn a_lost_thread_is_forgotten_and_the_number_of_messages_is_bounded() {
        let report = testing::many(100);
        let mut history = ChannelHistory::default();
        let mut news = Changes::default();
        for (n, finding) in report.findings.iter().enumerate() {
            history.threads.insert(finding.id.clone(), n.to_string());
            news.grown.insert(finding.id.clone());
        }
        assert_eq!(
            messages(&history, "slack", &news, &BTreeMap::new()).len(),
            10
        );
        let thread = Some("7".to_owned());
        forget_lost(&mut history, &thread, "slack failed: ratelimited");
        assert_eq!(history.threads.len(), 100);
        forget_lost(
            &mut history,
            &thread,
            "slack failed: chat.postMessage: thread_not_found",
        );
        assert_eq!(history.threads.len(), 99);
        let locked = "slack failed: chat.postMessage: restricted_action_thread_locked";
        forget_lost(&mut history, &Some("8".to_owned()), locked);
        assert_eq!(history.threads.len(), 98);
        forget_unknown(&mut history, &Lives::default());
        assert!(history.threads.is_empty());
    }
}
