//! The commands in README, in the book and in help pages are commands that this program accepts.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::args::Args;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Markdown files of the folder and of the folders in it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.extension() {
            // Help pages with lines of a fixed length; the examples in them are checked below.
            _ if path.ends_with("reference") => {}
            _ if path.is_dir() => pages(&path, found),
            Some(extension) if extension == "md" => found.push(path),
            _ => {}
        }
    }
}

fn documents() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    pages(&root().join("docs/src"), &mut paths);
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "terraform/README.md",
        "probe/README.md",
    ];
    paths.extend(others.iter().map(|name| root().join(name)));
    paths.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a text");
    let name = |path: &PathBuf| path.display().to_string();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

/// The words of the first command in a line of a shell: up to a comment, a pipe or a redirection.
/// `None` if a quotation goes on in the next line.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut quote = None;
    let mut is_open = false;
    let mut is_escaped = false;
    for c in line.chars() {
        match (quote, c) {
            (None, '\\') if !is_escaped => {
                is_escaped = true;
                continue;
            }
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') if !is_escaped => {
                quote = Some(c);
                if !is_open {
                    words.push(String::new());
                }
                is_open = true;
            }
            (None, '|' | '>' | '&' | ';') if !is_escaped => break,
            (None, '#') if !is_open => break,
            (None, _) if c.is_whitespace() => is_open = false,
            _ => {
                if !is_open {
                    words.push(String::new());
                }
                is_open = true;
                words.last_mut().expect("a word").push(c);
            }
        }
        is_escaped = false;
    }
    quote.is_none().then_some(words)
}

/// The commands of this program in a text, one in a line, without the prompt. A table of a help
/// page has an explanation behind two spaces.
fn commands(text: &str) -> Vec<String> {
    let joined = text.split("\\\n").map(str::trim_start);
    let text = joined.collect::<Vec<_>>().join("");
    let first = |line: &str| {
        let line = line.trim_start().trim_start_matches("$ ");
        let command = line.find("ebb ").map(|at| line.split_at(at));
        match command {
            Some((before, command)) if before.is_empty() || before.ends_with("| ") => {
                let end = command.find("   ").or_else(|| command.find("  "));
                Some(command[..end.unwrap_or(command.len())].to_owned())
            }
            _ => None,
        }
    };
    text.lines().filter_map(first).collect()
}

/// The code blocks of a page, without those that show another program's input.
fn blocks(page: &str) -> String {
    let mut found = String::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

/// The code within the lines of a page.
fn spans(page: &str) -> Vec<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|code| code.starts_with("ebb "))
        .collect()
}

fn check(place: &str, command: &str) {
    let words = words(command).unwrap_or_else(|| panic!("{place}: {command}: an open quotation"));
    let parsed = Args::command().try_get_matches_from(&words);
    match parsed {
        Ok(_) => {}
        Err(error) if !error.use_stderr() => {}
        Err(error) => panic!("{place}: {command}\n{error}"),
    }
}

#[test]
fn commands_in_code_blocks_are_accepted() {
    let mut checked = 0;
    for (place, page) in documents() {
        for command in commands(&blocks(&page)) {
            check(&place, &command);
            checked += 1;
        }
    }
    assert!(checked > 15, "only {checked} commands are found");
}

/// Runs `each` on a command and all commands below it.
fn walk(command: &Command, each: &mut dyn FnMut(&Command)) {
    each(command);
    command.get_subcommands().for_each(|one| walk(one, each));
}

#[test]
fn commands_in_help_pages_are_accepted() {
    let mut checked = 0;
    walk(&Args::command(), &mut |command| {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let examples = help
            .split("\n\n")
            .find(|part| part.starts_with("Examples:"));
        for example in commands(examples.unwrap_or_default()) {
            check(command.get_name(), &example);
            checked += 1;
        }
    });
    assert!(checked > 40, "only {checked} examples are found");
}

/// A line of a help page with `-h` is short.
#[test]
fn the_first_line_of_each_help_text_is_short() {
    const LONGEST: usize = 72;
    let mut checked = 0;
    walk(&Args::command(), &mut |command| {
        for argument in command.get_arguments() {
            let values = argument.get_possible_values();
            let of_values = values.iter().filter_map(|value| value.get_help());
            for help in argument.get_help().into_iter().chain(of_values) {
                let help = help.to_string();
                let length = help.chars().count();
                let place = (command.get_name(), argument.get_id());
                assert!(length <= LONGEST, "{place:?}: {length} characters: {help}");
                checked += 1;
            }
        }
    });
    assert!(checked > 100, "only {checked} texts are found");
}

/// A pipe at the start of a line is a syntax error of a shell.
#[test]
fn examples_in_help_pages_can_be_pasted() {
    const LONGEST: usize = 95;
    walk(&Args::command(), &mut |command| {
        let name = command.get_name();
        let help = command.clone().term_width(100).render_long_help();
        for line in help.to_string().lines() {
            assert!(!line.trim_start().starts_with('|'), "{name}: {line}");
        }
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let examples = help
            .split("\n\n")
            .filter(|part| part.starts_with("Examples:"));
        for line in examples.flat_map(str::lines) {
            assert!(line.chars().count() <= LONGEST, "{name}: {line}");
        }
    });
}

/// Text may name a part of a command line, such as `ebb findings dismiss|snooze`. So only names of
/// commands and options are checked.
#[test]
fn commands_in_text_name_existing_commands_and_options() {
    let mut checked = 0;
    let program = Args::command();
    for (place, page) in documents() {
        for span in spans(&page) {
            let mut words = span.split_whitespace().skip(1).peekable();
            let mut command = &program;
            while let Some(word) = words.peek() {
                let names: Vec<&str> = word.split('|').collect();
                let below = names.iter().map(|name| command.find_subcommand(name));
                match below.collect::<Option<Vec<_>>>() {
                    Some(below) => command = below[0],
                    None => break,
                }
                words.next();
            }
            assert!(
                command.get_name() != "ebb"
                    || words.peek().is_none_or(|word| word.starts_with('-')),
                "{place}: `{span}` names no command"
            );
            for option in words.filter_map(|word| word.strip_prefix("--")) {
                let name = option.split(['=', ',', '|', ']']).next().unwrap_or(option);
                let is_option = |one: &Command| {
                    let mut all = one.get_arguments().filter_map(clap::Arg::get_long);
                    all.any(|long| long == name)
                };
                assert!(
                    matches!(name, "help" | "version") || is_option(command) || is_option(&program),
                    "{place}: `{span}`: no option --{name}"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} commands are found");
}

#[test]
fn a_line_of_a_shell_is_cut_into_words() {
    let check = |line: &str, expect: Option<&[&str]>| {
        let found = words(line);
        let found: Option<Vec<&str>> = found
            .as_ref()
            .map(|words| words.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), expect, "{line}");
    };
    check("ebb scan > x", Some(&["ebb", "scan"]));
    check("ebb tune 'a b'  # why", Some(&["ebb", "tune", "a b"]));
    check("ebb x --y=\"a # b\" | sh", Some(&["ebb", "x", "--y=a # b"]));
    check(r"ebb x 'a'\''b'", Some(&["ebb", "x", "a'b"]));
    check("ebb x ''", Some(&["ebb", "x", ""]));
    check("ebb x 'a", None);
}
