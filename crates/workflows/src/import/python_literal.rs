//! Dictionaries in the format of Python's `str()`, which Snakemake writes into extended benchmark
//! files: `{'sample': 'A', 'threads': 4, 'tmpdir': <TBD>}`.

use std::collections::BTreeMap;

/// The entries of a dictionary by key. Strings lose their quotes; other values stay as written.
/// `None` if the text is not such a dictionary.
pub(super) fn dictionary(text: &str) -> Option<BTreeMap<String, String>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut rest = Cursor {
        text: inner.char_indices().peekable(),
    };
    let mut entries = BTreeMap::new();
    loop {
        rest.skip_blanks();
        if rest.text.peek().is_none() {
            return Some(entries);
        }
        let key = rest.value(':')?;
        let value = rest.value(',')?;
        entries.insert(key, value);
    }
}

struct Cursor<'a> {
    text: std::iter::Peekable<std::str::CharIndices<'a>>,
}

impl Cursor<'_> {
    fn skip_blanks(&mut self) {
        while self.text.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    /// A value up to `end` on its own level. `end` is consumed; the last value needs none.
    fn value(&mut self, end: char) -> Option<String> {
        self.skip_blanks();
        let quote = self.text.next_if(|(_, c)| matches!(c, '\'' | '"'));
        let value = match quote {
            Some((_, quote)) => self.string(quote)?,
            None => self.bare(end)?,
        };
        self.skip_blanks();
        match self.text.next() {
            Some((_, c)) if c == end => Some(value),
            None if end == ',' => Some(value),
            _ => None,
        }
    }

    fn string(&mut self, quote: char) -> Option<String> {
        let mut out = String::new();
        loop {
            match self.text.next()?.1 {
                '\\' => out.push(match self.text.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'x' => self.code_point(2)?,
                    'u' => self.code_point(4)?,
                    'U' => self.code_point(8)?,
                    other => other,
                }),
                c if c == quote => return Some(out),
                c => out.push(c),
            }
        }
    }

    /// A character by its code point, in this number of hexadecimal digits.
    fn code_point(&mut self, digits: usize) -> Option<char> {
        let mut number = 0;
        for _ in 0..digits {
            number = number * 16 + self.text.next()?.1.to_digit(16)?;
        }
        char::from_u32(number)
    }

    /// A number, a name, a list or another value, including brackets.
    fn bare(&mut self, end: char) -> Option<String> {
        let mut out = String::new();
        let mut depth = 0_u32;
        while let Some((_, c)) = self.text.next_if(|(_, c)| depth > 0 || *c != end) {
            match c {
                '[' | '(' | '{' | '<' => depth += 1,
                ']' | ')' | '}' | '>' => depth = depth.saturating_sub(1),
                // Brackets within a string do not count.
                '\'' | '"' => {
                    out.push(c);
                    out.push_str(&self.string(c)?);
                }
                _ => {}
            }
            out.push(c);
        }
        Some(out.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_of_snakemake_are_read_with_whatever_stands_in_them() {
        let check = |text: &str, expect: Option<&[(&str, &str)]>| {
            let read = dictionary(text);
            let expect = expect.map(|pairs| {
                let owned = pairs
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
                owned.collect::<BTreeMap<_, _>>()
            });
            assert_eq!(read, expect, "{text}");
        };
        check("{}", Some(&[]));
        check("{'sample': 'A'}", Some(&[("sample", "A")]));
        check(
            r#"{'a': "it's", 'b': 'x\'y, z', 'c': None}"#,
            Some(&[("a", "it's"), ("b", "x'y, z"), ("c", "None")]),
        );
        check(
            "{'_cores': 4, 'mem_mb': 2000, 'tmpdir': <TBDString object at 0x7f>, 'l': [1, 2]}",
            Some(&[
                ("_cores", "4"),
                ("mem_mb", "2000"),
                ("tmpdir", "<TBDString object at 0x7f>"),
                ("l", "[1, 2]"),
            ]),
        );
        check("{'a/b c.fq': 12.5}", Some(&[("a/b c.fq", "12.5")]));
        check(
            r#"{'a': '\x1b\u202e\U0001f9ec\\n', 'l': ['x]', "y, 'z'"], 'm': 1}"#,
            Some(&[
                ("a", "\u{1b}\u{202e}\u{1f9ec}\\n"),
                ("l", "['x]', \"y, 'z'\"]"),
                ("m", "1"),
            ]),
        );
        check(r"{'a': '\xzz'}", None);
        check("{'a': 'b", None);
        check("{'a'}", None);
        check("NA", None);
    }
}
