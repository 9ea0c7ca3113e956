//! The arguments of a step's first process, as they leave the node where `export_args` is
//! set: masked, and cut. Pure.

use ebb_domain::step::Opened;

use crate::rules::Rules;

/// Bytes of one argument at most, which is what the wire takes of any text.
const MAX_BYTES: usize = 256;

/// What stands for what is masked.
const MASKED: &str = "***";

/// Words in the name of an option whose value is masked whatever the rules say.
const SECRET: [&str; 8] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api-key",
    "apikey",
];

/// The arguments with NUL between them, as procfs has them.
///
/// `mask` of the rules is tried on each argument, on its base name, and on both sides of
/// its `=`; an option that is masked, or whose name sounds like a secret's, masks its
/// value, behind `=` or in the next argument.
pub fn shown(raw: &[u8], rules: &Rules) -> Vec<String> {
    let mut shown = Vec::new();
    let mut room = Opened::MAX_ARGUMENT_BYTES;
    let mut of_secret = false;
    for raw in raw.strip_suffix(b"\0").unwrap_or(raw).split(|b| *b == 0) {
        let text = String::from_utf8_lossy(raw);
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_ref(), None),
        };
        let secret = is_secret(name) || !rules.show(name);
        let word = match value {
            _ if of_secret || !rules.show(&text) => MASKED.to_owned(),
            Some(value) if secret || masked(value, rules) => format!("{name}={MASKED}"),
            None if !rules.show(base(name)) => MASKED.to_owned(),
            _ => text.clone().into_owned(),
        };
        of_secret = !of_secret && secret && value.is_none() && name.starts_with('-');
        let word: String = word.chars().map(plain).collect();
        let end = word.floor_char_boundary(MAX_BYTES.min(room));
        if end == 0 && !word.is_empty() {
            break;
        }
        room -= end;
        shown.push(word[..end].to_owned());
        if shown.len() >= Opened::MAX_ARGUMENTS {
            break;
        }
    }
    shown
}

fn base(text: &str) -> &str {
    text.rsplit('/').next().unwrap_or(text)
}

fn masked(text: &str, rules: &Rules) -> bool {
    !rules.show(text) || !rules.show(base(text))
}

fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase().replace('_', "-");
    SECRET.iter().any(|word| option.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_masked_by_rules_and_where_an_option_sounds_like_a_secret() {
        let rules = Rules::parse("mask = [\"patient*\", \"--cohort\"]").expect("valid");
        let check = |line: &str, expect: &str| {
            let raw = line.replace(' ', "\0") + "\0";
            assert_eq!(shown(raw.as_bytes(), &rules).join(" "), expect, "{line}");
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
    fn arguments_are_cut() {
        let rules = Rules::built_in();
        let long = [
            "x".repeat(300),
            "é".repeat(200),
            "y".repeat(600),
            "z".repeat(900),
        ];
        let got = shown(long.join("\0").as_bytes(), &rules);
        let bytes: Vec<usize> = got.iter().map(String::len).collect();
        assert_eq!(bytes, [256, 256, 256, 256]);
        assert_eq!(shown(&[0; 9_999], &rules).len(), Opened::MAX_ARGUMENTS);
    }
}
