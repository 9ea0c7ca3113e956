//! `docs/src/reference/wire.md`, and the fields in `SECURITY.md`, are what `ebb.v1.proto` contains.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use ebb_test_support::expect_file;
use protox::Compiler;

const INTRODUCTION: &str = "\
# Wire contract

The messages that a probe sends, from `crates/wire/ebb.v1.proto`. [SECURITY.md](../../../SECURITY.md) explains each message.
Field names end in their unit: `_ns` and `_us` are nanoseconds and microseconds,
`_bytes` bytes, `_ppm` parts per million, `milli_cores` thousandths of a core. An absent optional value is
unknown, which is not zero.
";

/// Numbers of fields in the descriptors of Protocol Buffers, which paths of comments consist of.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const FIELDS: i32 = 2;
const VALUES: i32 = 2;

/// Labels and types of a field, by their numbers in `descriptor.proto`.
const REPEATED: i32 = 3;
const TYPES: [(i32, &str); 12] = [
    (1, "double"),
    (2, "float"),
    (3, "int64"),
    (4, "uint64"),
    (5, "int32"),
    (8, "bool"),
    (9, "string"),
    (12, "bytes"),
    (13, "uint32"),
    (15, "sfixed32"),
    (17, "sint32"),
    (18, "sint64"),
];

/// A comment in one line.
fn one_line(comment: &str) -> String {
    let words: Vec<&str> = comment.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// The comments of the contract, by the path of what they are about.
struct Comments(HashMap<Vec<i32>, String>);

impl Comments {
    fn about(&self, path: &[i32]) -> &str {
        self.0.get(path).map(String::as_str).unwrap_or_default()
    }
}

/// The type of a field, with a link if it is a message or an enum.
fn type_of(number: i32, name: &str) -> String {
    match TYPES.iter().find(|(known, _)| *known == number) {
        Some((_, scalar)) => (*scalar).to_owned(),
        None => {
            let name = name.rsplit('.').next().unwrap_or(name);
            format!("[{name}](#{})", name.to_lowercase())
        }
    }
}

#[test]
fn the_page_is_current() {
    let mut compiler = Compiler::new([env!("CARGO_MANIFEST_DIR")]).expect("a folder");
    compiler.include_source_info(true);
    compiler
        .open_file("ebb.v1.proto")
        .expect("the file is valid");
    let files = compiler.file_descriptor_set();
    let file = files.file.first().expect("one file");
    let places = file.source_code_info.iter().flat_map(|info| &info.location);
    let comments = places.map(|place| {
        let comments = [&place.leading_comments, &place.trailing_comments];
        let all: Vec<&str> = comments.into_iter().filter_map(Option::as_deref).collect();
        (place.path.clone(), one_line(&all.join(" ")))
    });
    let comments = Comments(comments.collect());

    let mut text = INTRODUCTION.to_owned();
    for (index, message) in (0..).zip(&file.message_type) {
        let about = comments.about(&[MESSAGES, index]);
        let _ = write!(text, "\n## {}\n{about}\n\n", message.name());
        text.push_str("| number | field | type | remark |\n|---|---|---|---|\n");
        for (position, field) in (0..).zip(&message.field) {
            let kind = type_of(field.r#type() as i32, field.type_name());
            let kind = match field.label() as i32 == REPEATED {
                true => format!("list of {kind}"),
                false if field.proto3_optional() => format!("{kind}, optional"),
                false => kind,
            };
            let remark = comments.about(&[MESSAGES, index, FIELDS, position]);
            let (number, name) = (field.number(), field.name());
            let _ = writeln!(text, "| {number} | `{name}` | {kind} | {remark} |");
        }
    }
    for (index, one) in (0..).zip(&file.enum_type) {
        let about = comments.about(&[ENUMS, index]);
        let _ = write!(text, "\n## {}\n{about}\n\n", one.name());
        text.push_str("| number | value | remark |\n|---|---|---|\n");
        for (position, value) in (0..).zip(&one.value) {
            let remark = comments.about(&[ENUMS, index, VALUES, position]);
            let (number, name) = (value.number(), value.name());
            let _ = writeln!(text, "| {number} | `{name}` | {remark} |");
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/wire.md");
    expect_file(&page, &text);
}

/// The names in backticks.
fn names_in(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The table of `SECURITY.md` has a row for each message or for some of them, with the messages,
/// their fields, and what they are. The fields come from the contract.
#[test]
fn the_page_of_security_names_each_field() {
    let files = protox::compile(["ebb.v1.proto"], [env!("CARGO_MANIFEST_DIR")]);
    let messages = &files.expect("the file is valid").file[0].message_type;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md");
    let present = std::fs::read_to_string(&page).expect("a file");
    let mut listed = Vec::new();
    let mut row = |line: &str| {
        let mut cells = line.split(" | ");
        let (of, _, about) = (cells.next()?, cells.next()?, cells.next()?);
        let of: Vec<_> = names_in(of)
            .filter_map(|name| messages.iter().find(|message| message.name() == name))
            .collect();
        let mut fields = Vec::new();
        for message in &of {
            listed.push(message.name());
            for field in &message.field {
                let name = format!("`{}`", field.name());
                if !fields.contains(&name) {
                    fields.push(name);
                }
            }
        }
        let names: Vec<_> = of
            .iter()
            .map(|message| format!("`{}`", message.name()))
            .collect();
        let (names, fields) = (names.join(", "), fields.join(", "));
        (!of.is_empty()).then(|| format!("| {names} | {fields} | {about}"))
    };
    let mut text = String::new();
    for line in present.lines() {
        text.push_str(&row(line).unwrap_or_else(|| line.to_owned()));
        text.push('\n');
    }
    for message in messages {
        let name = message.name();
        assert!(
            listed.contains(&name),
            "SECURITY.md has no row for the message {name}"
        );
    }
    expect_file(&page, &text);
}
