//! Formats an error and its causes in one line.

use std::error::Error;

/// The error and its causes, separated by colons. Some libraries repeat their cause in their own
/// text; it is shown once.
pub fn reason(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !words.contains(&why) {
            words.push_str(": ");
            words.push_str(&why);
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("no route")]
    struct Innermost;

    #[derive(Debug, Error)]
    #[error("sending failed: no route")]
    struct Repeats(#[source] Innermost);

    #[derive(Debug, Error)]
    #[error("the report")]
    struct Outer(#[source] Repeats);

    #[test]
    fn each_cause_is_named_once() {
        let words = reason(&Outer(Repeats(Innermost)));
        assert_eq!(words, "the report: sending failed: no route");
    }
}
