//! Masks and cuts the arguments of a task's first process, which the probe sends only if
//! `export_args` is set. Pure.

use ebb_telemetry::step::OptInDetail;

use crate::label_rules::{MASKED, Rules};

/// Maximum bytes of one argument, which is the limit of `ebb-wire` for any text.
const MAX_BYTES: usize = 256;

/// Words that suggest a secret. In the name of an option they mask its value; in an argument of
/// several words they mask the whole argument. Compared in lower case, with `-` for `_`.
const SECRET: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "api-key",
    "apikey",
    "access-key",
    "private-key",
    "authorization",
    "bearer",
    "cookie",
];

/// The arguments; procfs separates them with NUL bytes.
///
/// The `mask` patterns of the rules are applied to each argument, to its base name, and to both
/// sides of its `=`. If an option is masked, or its name suggests a secret, its value is masked,
/// after `=` or in the next argument. The user, query and fragment of a URL are masked.
pub fn masked(raw: &[u8], rules: &Rules) -> Vec<String> {
    let mut shown = Vec::new();
    let mut room = OptInDetail::MAX_ARGUMENT_BYTES;
    let mut of_secret = false;
    for raw in raw.strip_suffix(b"\0").unwrap_or(raw).split(|b| *b == 0) {
        let text = String::from_utf8_lossy(raw);
        let is_secret_option =
            text.starts_with('-') && !text.contains('=') && hides_value(&text, rules);
        let word = match of_secret {
            true => MASKED.to_owned(),
            false => argument(&text, rules),
        };
        of_secret = !of_secret && is_secret_option;
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let word: String = word.chars().map(plain).collect();
        let end = word.floor_char_boundary(MAX_BYTES.min(room));
        if end == 0 && !word.is_empty() {
            break;
        }
        room -= end;
        shown.push(word[..end].to_owned());
        if shown.len() >= OptInDetail::MAX_ARGUMENTS {
            break;
        }
    }
    shown
}

/// One argument with its secret parts masked.
fn argument(text: &str, rules: &Rules) -> String {
    if !rules.show(text) || is_document(text) && holds_secret(text, rules) {
        return MASKED.to_owned();
    }
    match text
        .split_once('=')
        .filter(|(name, _)| !name.contains("://"))
    {
        Some((name, value))
            if hides_value(name, rules) || is_masked(value, rules) || sounds_secret(value) =>
        {
            format!("{name}={MASKED}")
        }
        Some((name, value)) => format!("{name}={}", url(value)),
        None if !rules.show(base(text)) => MASKED.to_owned(),
        None => url(text),
    }
}

/// Whether the name of an option masks its value.
fn hides_value(name: &str, rules: &Rules) -> bool {
    sounds_secret(name) || !rules.show(name)
}

/// Whether an argument has several words or fields: a shell command, a header, JSON.
fn is_document(text: &str) -> bool {
    text.contains(|c: char| c.is_whitespace() || c.is_control() || "{\"'".contains(c))
}

/// Whether any part of an argument with several words must be masked.
fn holds_secret(text: &str, rules: &Rules) -> bool {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "=,;:&|<>()[]{}\"'`".contains(c);
    let is_hidden = |word: &str| !word.is_empty() && is_masked(word, rules);
    sounds_secret(text) || url(text) != text || text.split(ends).any(is_hidden)
}

/// A URL with its user, query and fragment masked; other text unchanged.
fn url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['?', '#']);
    let (place, tail) = rest.split_at(end.unwrap_or(rest.len()));
    let host_end = place.find('/').unwrap_or(place.len());
    let (host, path) = place.split_at(host_end);
    let host = match host.rsplit_once('@') {
        Some((_, host)) => format!("{MASKED}@{host}"),
        None => host.to_owned(),
    };
    let tail = match tail.get(..1) {
        Some(mark) => format!("{mark}{MASKED}"),
        None => String::new(),
    };
    format!("{scheme}://{host}{path}{tail}")
}

fn base(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

fn is_masked(text: &str, rules: &Rules) -> bool {
    !rules.show(text) || !rules.show(base(text))
}

fn sounds_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace('_', "-");
    SECRET.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_masked_by_rules_and_where_an_option_sounds_like_a_secret() {
        let rules = Rules::parse("mask = [\"patient*\", \"--cohort\"]").expect("valid");
        let check = |line: &str, expect: &str| {
            let raw = line.replace(' ', "\0") + "\0";
            assert_eq!(masked(raw.as_bytes(), &rules).join(" "), expect, "{line}");
        };
        check("bwa mem -t 8 ref.fa", "bwa mem -t 8 ref.fa");
        check("x --password hunter2 y", "x --password *** y");
        check("x --DB_PASSWORD=hunter2 y", "x --DB_PASSWORD=*** y");
        check("x token=abc", "x token=***");
        check("cat /data/patient7.bam", "cat ***");
        check("x --in=/data/patient7.bam", "x --in=***");
        check("x --cohort rare y", "x *** *** y");
        check("x a\u{1b}[2J", "x a?[2J");
    }

    #[test]
    fn urls_commands_and_documents_hide_what_may_be_a_secret() {
        let rules = Rules::parse("mask = [\"patient*\"]").expect("valid");
        let check = |argument: &str, expect: &str| {
            let raw = format!("x\0{argument}\0");
            assert_eq!(masked(raw.as_bytes(), &rules), ["x", expect], "{argument}");
        };
        check("https://host/a/b?x=1&token=CANARY", "https://host/a/b?***");
        check("https://host/a?CANARY", "https://host/a?***");
        check("https://host/a#CANARY", "https://host/a#***");
        check("https://me:CANARY@host/a", "https://***@host/a");
        check("postgres://me:CAN@ARY@host", "postgres://***@host");
        check("--url=https://host/?key=CANARY", "--url=https://host/?***");
        check("https://host/a/b", "https://host/a/b");
        check("mode=1&token=CANARY", "mode=***");
        check("--opts=password:CANARY", "--opts=***");
        check("tool --password CANARY", "***");
        check("Authorization: Bearer CANARY", "***");
        check("curl https://host/?CANARY", "***");
        check("{\"api_key\":\"CANARY\"}", "***");
        check("sort /data/patient7.bam", "***");
        check("sort -k 2 /data/all.bam", "sort -k 2 /data/all.bam");
        check("tokenize.py", "tokenize.py");
        let split = masked(b"x\0--access_key\0CANARY\0y\0", &rules);
        assert_eq!(split, ["x", "--access_key", "***", "y"]);
    }

    #[test]
    fn arguments_are_cut() {
        let rules = Rules::built_in();
        let long = [
            "x".repeat(300),
            "é".repeat(200),
            "y".repeat(600),
            "z".repeat(900),
        ];
        let got = masked(long.join("\0").as_bytes(), &rules);
        let bytes: Vec<usize> = got.iter().map(String::len).collect();
        assert_eq!(bytes, [256, 256, 256, 256]);
        assert_eq!(
            masked(&[0; 9_999], &rules).len(),
            OptInDetail::MAX_ARGUMENTS
        );
    }
}
