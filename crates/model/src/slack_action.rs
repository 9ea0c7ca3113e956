//! The buttons of a finding in Slack: notifications contain them, and the API receives their
//! actions. A block names its finding by a hash, because an id may be longer than a block id.
//!
//! Source: Slack, "Block Kit" reference: `action_id` and `block_id` have at most 255 characters.

use sha2::{Digest, Sha256};

/// Beginning of the block id.
const BLOCK: &str = "ebb-";

/// Days of a snooze by button.
pub const SNOOZE_DAYS: i64 = 7;

/// The action of a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlackAction {
    /// Dismiss the finding.
    Dismiss,
    /// Snooze the finding for [`SNOOZE_DAYS`].
    Snooze,
    /// Assign the finding to the selected user.
    Assign,
}

impl SlackAction {
    /// The `action_id` of the element.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Dismiss => "ebb_dismiss",
            Self::Snooze => "ebb_snooze",
            Self::Assign => "ebb_assign",
        }
    }

    /// The action with this `action_id`; `None` for an element of another program.
    pub fn of_id(id: &str) -> Option<Self> {
        let all = [Self::Dismiss, Self::Snooze, Self::Assign];
        all.into_iter().find(|action| action.id() == id)
    }
}

/// The `block_id` of the buttons of a finding.
pub fn block_id(finding: &str) -> String {
    let hash = Sha256::digest(finding);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{BLOCK}{hash}")
}

/// Whether a text is the id of a user of Slack, such as `U0123ABCD`.
pub fn is_user_id(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    (2..=30).contains(&text.len()) && text.starts_with(['U', 'W']) && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_button_and_block_is_recognised() {
        for action in [
            SlackAction::Dismiss,
            SlackAction::Snooze,
            SlackAction::Assign,
        ] {
            assert_eq!(SlackAction::of_id(action.id()), Some(action));
        }
        assert_eq!(SlackAction::of_id("other"), None);
        let id = block_id(&"x".repeat(1_000));
        assert_eq!(id.len(), 68);
        assert_ne!(id, block_id("x"));
    }

    #[test]
    fn a_user_id_is_never_markup() {
        for (text, expect) in [
            ("U0123ABCD", true),
            ("W1", true),
            ("U", false),
            ("U1><!channel", false),
            ("u0123", false),
            ("B0123", false),
        ] {
            assert_eq!(is_user_id(text), expect, "{text}");
        }
    }
}
