//! The optional parts of a message: links and buttons.

use ebb_model::pages_url::PagesUrl;

/// Optional parts of a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageForm<'a> {
    /// Address of the pages; `None` for a message without links.
    pub links: Option<&'a PagesUrl>,
    /// Buttons of findings.
    pub buttons: Buttons,
    /// Number of findings whose changes are in other messages of the same sweep.
    pub elsewhere: usize,
}

/// Whether findings have buttons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Buttons {
    /// The chat sends their actions to the API.
    Shown,
    /// The chat has none.
    #[default]
    Hidden,
}
