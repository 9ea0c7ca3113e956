//! An error and its causes in one line, for a person who sees nothing else of it.

use std::error::Error;

/// What happened, and after each colon why.
pub fn reason(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
