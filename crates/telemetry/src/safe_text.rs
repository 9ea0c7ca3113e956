//! Makes external text safe for a line of output. The code that writes HTML, mrkdwn or CSV does the
//! escaping of that format.

use std::borrow::Cow;

use crate::money::grouped;

/// Converts text to one line without characters that move a cursor or change the writing direction.
/// Names and reasons come from tags and job definitions, which anyone may have written.
pub fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => ' ',
            c => harmless(c),
        })
        .collect()
}

/// Text of several lines for a terminal. Only line ends and tabs move the cursor, and no character
/// changes the writing direction. CRLF becomes LF.
pub fn lines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        return Cow::Owned(lines(&text.replace("\r\n", "\n")).into_owned());
    }
    match text.contains(|c| is_unsafe(c) && !matches!(c, '\n' | '\t')) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.chars().map(line_or_harmless).collect()),
    }
}

/// Like [`lines`], but keeps the colours that this program writes.
pub fn styled_lines(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default();
    let mut safe = lines(first);
    for part in parts {
        let style = style_end(part);
        let mark = if style == 0 { '\u{FFFD}' } else { '\u{1b}' };
        let out = safe.to_mut();
        out.push(mark);
        out.push_str(&part[..style]);
        out.push_str(&lines(&part[style..]));
    }
    safe
}

/// Escapes characters in JSON that could control a terminal. The meaning of the document stays the
/// same, because such characters occur only in its strings.
pub fn json(document: &str) -> Cow<'_, str> {
    let is_raw = |c: char| is_unsafe(c) && !c.is_ascii_whitespace();
    if !document.contains(is_raw) {
        return Cow::Borrowed(document);
    }
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        match is_raw(c) {
            true => safe.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// The end of a colour sequence in text after an escape character; 0 if the text is not a colour
/// sequence.
/// Source: ECMA-48, "SGR": `[`, digits and `;`, `m`. Code 8 hides text, so codes begin with 0 to 3
/// (reset, bold, faint, italic, colours).
fn style_end(text: &str) -> usize {
    let Some(code) = text.strip_prefix('[') else {
        return 0;
    };
    let digits = code.bytes().take_while(u8::is_ascii_digit).count();
    let is_known = matches!(code.as_bytes().first(), Some(b'0'..=b'3')) && digits <= 2;
    match is_known && code[digits..].starts_with('m') {
        true => digits + 2,
        false => 0,
    }
}

fn line_or_harmless(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c => harmless(c),
    }
}

fn harmless(c: char) -> char {
    if is_unsafe(c) { '\u{FFFD}' } else { c }
}

/// Control characters (C0, DEL and C1), Unicode line separators, marks that change the writing
/// direction, and characters without a width: two names that look the same would differ.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{AD}' | '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        )
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{FEFF}')
}

/// A name that is safe to send and store: at most `max_bytes`, cut between characters, without
/// control characters. A name that already complies is not copied.
pub fn clean(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let cut = &text[..text.floor_char_boundary(max_bytes)];
    if !cut.chars().any(char::is_control) {
        return Cow::Borrowed(cut);
    }
    // A one-byte replacement, so that the text still fits into `max_bytes`.
    Cow::Owned(
        cut.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect(),
    )
}

/// At most `max` characters; the last one is `…` if the text was cut.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    if text.char_indices().nth(max).is_none() {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

/// Splits `text` into lines of at most `width` characters; a longer word gets a line of its own.
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
        check("a\u{200B}b\u{AD}c\u{FEFF}", "a\u{FFFD}b\u{FFFD}c\u{FFFD}");
        check("größe 2", "größe 2");
    }

    #[test]
    fn no_text_acts_on_a_terminal() {
        let check = |text: &str, plain: &str, styled: &str| {
            assert_eq!(lines(text), plain, "{text:?}");
            assert_eq!(styled_lines(text), styled, "{text:?}");
        };
        check("a\n\tb", "a\n\tb", "a\n\tb");
        check("a\r\nb\rc", "a\nb\u{FFFD}c", "a\nb\u{FFFD}c");
        check(
            "\u{1b}[1ma\u{1b}[0m",
            "\u{FFFD}[1ma\u{FFFD}[0m",
            "\u{1b}[1ma\u{1b}[0m",
        );
        for hostile in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}]8;;http://evil\u{1b}\\link",
            "\u{1b}[2J\u{1b}[H",
            "\u{1b}[8mhidden",
            "\u{1b}[38;5;0mx",
            "\u{9b}31m",
            "\u{9d}0;title\u{9c}",
            "a\rb\u{8}\u{7f}",
            "\u{202e}fdp.exe\u{2066}\u{61c}",
            "a\u{2028}b",
            "\u{1b}",
        ] {
            for safe in [lines(hostile), styled_lines(hostile)] {
                assert!(!safe.contains(is_unsafe), "{hostile:?} became {safe:?}");
            }
        }
    }

    #[test]
    fn json_stays_the_same_document() {
        let check = |text: &str| {
            let document = serde_json::to_string_pretty(&[text]).expect("JSON");
            let safe = json(&document);
            assert!(!lines(&safe).contains('\u{FFFD}'), "{safe}");
            let back: Vec<String> = serde_json::from_str(&safe).expect("JSON");
            assert_eq!(back, [text]);
        };
        check("a");
        check("\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{2028}\n\tb");
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
