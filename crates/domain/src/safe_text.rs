//! Text from outside, made safe to put into a line of ours. What a format needs beyond that
//! (HTML, mrkdwn, CSV) is done where that format is written.

use std::borrow::Cow;

use crate::units::grouped;

/// On one line, with nothing in it that moves a cursor or turns the direction
/// of writing: names and reasons come from tags and job definitions, which
/// anyone may have written.
pub fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
            c if c.is_control() => '\u{FFFD}',
            '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                '\u{FFFD}'
            }
            c => c,
        })
        .collect()
}

/// A name that may travel and be stored: at most `max_bytes`, cut between characters, with
/// nothing in it that moves a cursor. A name that is already so is not copied.
pub fn clean(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let cut = &text[..text.floor_char_boundary(max_bytes)];
    if !cut.chars().any(char::is_control) {
        return Cow::Borrowed(cut);
    }
    // A mark of one byte, so that what was cut to fit still fits.
    Cow::Owned(
        cut.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect(),
    )
}

/// At most `max` characters, the last of them `…` when something was cut.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    if text.char_indices().nth(max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

/// The words of `text` in lines of at most `width` characters; a longer word
/// gets a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `1 finding`, `2,000 findings`.
pub fn counted(n: usize, one: &str, many: &str) -> String {
    let counted = if n == 1 { one } else { many };
    format!("{} {counted}", grouped(n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_on_its_line() {
        let check = |text: &str, expect: &str| assert_eq!(one_line(text), expect);
        check("a\nb\tc", "a b c");
        check("a\u{1b}[31mb", "a\u{FFFD}[31mb");
        check("abc\u{202E}fed", "abc\u{FFFD}fed");
        check("größe 2", "größe 2");
    }

    #[test]
    fn a_name_is_cut_between_characters_and_holds_no_control_character() {
        let check = |text: &str, max, expect: &str| assert_eq!(clean(text, max), expect);
        check("align", 256, "align");
        check("größe", 4, "gr\u{f6}");
        check("größe", 3, "gr");
        check("a\u{1b}[31m\u{85}\0b", 256, "a?[31m??b");
        check("", 0, "");
        assert!(matches!(clean("align", 5), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_are_cut_and_wrapped_by_characters() {
        assert_eq!(clip("größer", 6), "größer");
        assert_eq!(clip("größere", 6), "größe…");
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrap("", 4), Vec::<String>::new());
    }
}
