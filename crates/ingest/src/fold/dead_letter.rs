//! Moves refused arrivals to the dead-letter queue or prefix, with the reason. The copy is written
//! before the original is deleted, so that a crash in between keeps both.

use std::collections::BTreeMap;

use ebb_cloud::ports::{CloudError, CloudResult, MAX_MESSAGE_BYTES, PutOptions};

use crate::fold::folder::Folder;
use crate::fold::receive::{BadMessage, BadObject};

/// Prefix for refused objects; the rest of the key stays the same.
const DEAD_LETTER_PREFIX: &str = "dead-letter/";

/// Refused objects up to this size are moved whole. Only the reason and the size are kept for
/// larger objects, which no probe writes.
const MAX_MOVED_BYTES: u64 = 64 << 20;

/// Maximum size of the attributes in addition to the body.
const ATTRIBUTES_BYTES: usize = 4 << 10;

const MAX_REASON_CHARS: usize = 1_000;

const MAX_SENDER_CHARS: usize = 300;

/// Moves a message to the dead-letter queue.
pub(crate) async fn message(folder: &Folder<'_>, bad: &BadMessage) -> CloudResult<()> {
    let received = &bad.received;
    let mut attributes = BTreeMap::from([
        (
            "reason".to_owned(),
            plain(&bad.refusal.reason(), MAX_REASON_CHARS),
        ),
        (
            "message_id".to_owned(),
            plain(&received.id, MAX_SENDER_CHARS),
        ),
    ]);
    if let Some(sender) = &received.sender {
        attributes.insert("sender".to_owned(), plain(sender, MAX_SENDER_CHARS));
    }
    if let Some(at) = received.sent_at {
        attributes.insert("received_at".to_owned(), at.to_string());
    }
    let body = cut(&received.body, MAX_MESSAGE_BYTES - ATTRIBUTES_BYTES);
    if body.len() < received.body.len() {
        attributes.insert("cut_from_bytes".to_owned(), received.body.len().to_string());
    }
    tracing::warn!(
        message_id = received.id,
        sender = received.sender,
        reason = bad.refusal.reason(),
        "refused a message"
    );
    folder.dead_letters.send_with(body, &attributes).await?;
    folder
        .queue
        .delete(std::slice::from_ref(&received.receipt))
        .await
}

/// Moves an object under the dead-letter prefix.
pub(crate) async fn object(folder: &Folder<'_>, bad: &BadObject) -> CloudResult<()> {
    let key = &bad.listed.key;
    let mut metadata = BTreeMap::from([
        (
            "reason".to_owned(),
            plain(&bad.refusal.reason(), MAX_REASON_CHARS),
        ),
        ("received-at".to_owned(), bad.listed.modified_at.to_string()),
    ]);
    let bytes = if bad.listed.bytes > MAX_MOVED_BYTES {
        metadata.insert("cut-from-bytes".to_owned(), bad.listed.bytes.to_string());
        Vec::new()
    } else {
        match folder.objects.get(key, MAX_MOVED_BYTES).await {
            Ok(object) => object.bytes,
            Err(CloudError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    tracing::warn!(key, reason = bad.refusal.reason(), "refused an object");
    let options = PutOptions {
        metadata,
        ..PutOptions::default()
    };
    let there = format!("{DEAD_LETTER_PREFIX}{key}");
    folder.objects.put(&there, bytes, options).await?;
    folder.objects.delete(std::slice::from_ref(key)).await
}

/// Replaces control characters, which queues and headers reject. An attribute must not be empty.
fn plain(text: &str, max_chars: usize) -> String {
    let plain: String = text
        .chars()
        .map(|c| if matches!(c, ' '..='~') { c } else { '?' })
        .take(max_chars)
        .collect();
    if plain.is_empty() {
        return "?".to_owned();
    }
    plain
}

fn cut(body: &str, max_bytes: usize) -> &str {
    let mut end = body.len().min(max_bytes);
    while !body.is_char_boundary(end) {
        end -= 1;
    }
    &body[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_plain_and_bodies_are_cut_between_characters() {
        assert_eq!(plain("a\u{1b}[31m\u{e9}", 10), "a?[31m?");
        assert_eq!(plain("", 10), "?");
        assert_eq!(plain("abcdef", 3), "abc");
        assert_eq!(cut("a\u{e9}b", 2), "a");
        assert_eq!(cut("ab", 5), "ab");
    }
}
