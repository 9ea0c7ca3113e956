//! The documents agree with the code: each kind of finding has a page, the code map contains only
//! existing paths, and commands of the probe are accepted. `scripts/check-links` checks the links.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use ebb_model::finding::evidence::node::NewerGeneration;
use ebb_model::finding::evidence::{Evidence, Unused};
use ebb_model::finding_kind::FindingKind;
use ebb_probe::args::Args;
use ebb_telemetry::identity::InstanceType;
use ebb_telemetry::money::UsdPerHour;
use ebb_test_support::expect_file;
use syn::{ImplItem, Item};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Headings of each page about a kind of finding.
const PARTS: [&str; 5] = [
    "## How it is decided",
    "## Example",
    "## What to do",
    "## How to change or exempt it",
    "## Limits",
];

#[test]
fn each_kind_of_finding_has_a_page() {
    let summary = read("docs/src/SUMMARY.md");
    for kind in FindingKind::ALL {
        let slug = kind.slug();
        let page = read(&format!("docs/src/findings/{slug}.md"));
        assert_eq!(page.lines().next(), Some(format!("# {kind}").as_str()));
        assert!(page.contains(&format!("| Kind | `{slug}` |")), "{slug}");
        assert!(summary.contains(&format!("(findings/{slug}.md)")), "{slug}");
        let headings = page.lines().filter(|line| line.starts_with("## "));
        let missing = PARTS
            .into_iter()
            .find(|part| !headings.clone().any(|one| one == *part));
        assert_eq!(missing, None, "{slug}");
    }
    let pages = fs::read_dir(root().join("docs/src/findings")).expect("the pages");
    assert_eq!(pages.count(), FindingKind::ALL.len());
}

#[test]
fn the_code_map_names_paths_that_exist() {
    let text = read("ARCHITECTURE.md");
    let map = text.split("## Code map").nth(1).expect("a code map");
    let map = map.split("\n## ").next().expect("its text");
    let rows = map.lines().filter(|line| line.starts_with('|'));
    let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let paths: Vec<&str> = code.filter(|code| code.contains('/')).collect();
    assert!(paths.len() > 30, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "{path} does not exist");
    }
    let questions = map.split("### Where to change what").nth(1);
    let questions = questions.expect("the questions").lines();
    let mut answers = questions.filter_map(|row| row.strip_prefix("| ")?.split(" | ").nth(1));
    let other = answers.find(|answer| !answer.starts_with('`') && *answer != "path |");
    assert_eq!(other, None, "an answer begins with its path");
}

/// The most files that a new field on the wire touches.
const MAX_FILES_A_FIELD: usize = 6;

#[test]
fn the_files_of_a_change_exist_and_a_field_has_few() {
    let text = read("CONTRIBUTING.md");
    let files = |heading: &str| {
        let section = text.split(heading).nth(1).expect("a section");
        let section = section.split("\n## ").next().expect("its text");
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.filter_map(|row| row.split('|').nth(1));
        let paths = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        paths.map(str::to_owned).collect::<Vec<String>>()
    };
    let of_a_field = files("\n## Add a counter\n");
    assert!(of_a_field.len() <= MAX_FILES_A_FIELD, "{of_a_field:?}");
    let of_a_kind = files("\n## Add a kind of finding\n");
    assert!(of_a_field.len() > 4 && of_a_kind.len() > 4);
    for path in of_a_field.iter().chain(&of_a_kind) {
        assert!(root().join(path).exists(), "{path} does not exist");
    }
}

/// Markdown files outside the book that people read.
const OTHER_PAGES: [&str; 9] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "eval/histories/README.md",
    "probe/KERNELS.md",
    "probe/README.md",
    "terraform/README.md",
];

/// The pages of a folder and of the folders in it, as paths from the root.
fn pages_of(folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            pages_of(&path, found);
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
}

fn book_pages() -> Vec<String> {
    let mut found = Vec::new();
    pages_of("docs/src", &mut found);
    found.sort();
    found
}

#[test]
fn the_page_of_the_probe_is_current() {
    fn add_help(command: &Command, parents: &str, out: &mut String) {
        let name = format!("{parents}{}", command.get_name());
        let mut shown = command.clone().bin_name(&name).term_width(100);
        let help = shown.render_long_help().to_string();
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        out.push_str(&format!(
            "\n## {name}\n```text\n{}\n```\n",
            lines.join("\n")
        ));
        for below in command.get_subcommands() {
            if below.get_name() != "help" && !below.is_hide_set() {
                add_help(below, &format!("{name} "), out);
            }
        }
    }
    let mut text = "# Command line of the probe\n\nThe help pages of `ebb-probe`. \
        [`probe/README.md`](../../../probe/README.md) explains its configuration.\n"
        .to_owned();
    add_help(&Args::command(), "", &mut text);
    expect_file(&root().join("docs/src/reference/probe.md"), &text);
}

/// The commands of `ebb-probe` in code blocks, without what a shell does with them.
#[test]
fn commands_of_the_probe_in_code_blocks_are_accepted() {
    let mut checked = 0;
    let others = OTHER_PAGES.iter().map(ToString::to_string);
    for path in book_pages().into_iter().chain(others) {
        let page = read(&path);
        for block in page.split("```").skip(1).step_by(2) {
            let lines = block.lines().map(str::trim_start);
            for line in lines.filter(|line| line.starts_with("ebb-probe ")) {
                let command = line.split("  ").next().unwrap_or(line);
                let command = command.split(['|', '>', '#']).next().unwrap_or(command);
                let words: Vec<&str> = command.split_whitespace().collect();
                if let Err(error) = Args::command().try_get_matches_from(words) {
                    assert!(!error.use_stderr(), "{path}: {line}\n{error}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 3, "only {checked} commands are found");
}

#[test]
fn examples_of_findings_are_output_of_the_demo() {
    let output = read(
        "crates/cli/src/scan/snapshots/\
         ebb__scan__tests__the_demo_account_reads_well_at_80_columns.snap",
    );
    let mut examples = 0;
    for kind in FindingKind::ALL {
        let page = read(&format!("docs/src/findings/{}.md", kind.slug()));
        let blocks = page.split("```\n").skip(1).step_by(2);
        for block in blocks.filter(|block| block.contains("Waste: ")) {
            examples += 1;
            assert!(
                output.contains(block),
                "{kind}: the demo does not print\n{block}"
            );
        }
    }
    assert!(examples > 2, "only {examples} examples were read");
}

/// The demo has no finding about storage, and none about an old generation.
#[test]
fn examples_that_the_demo_does_not_print_are_evidence() {
    let check = |slug: &str, evidence: Evidence| {
        let page = read(&format!("docs/src/findings/{slug}.md"));
        let text = format!("```\n{evidence}\n```\n");
        assert!(page.contains(&text), "{slug} does not contain\n{text}");
    };
    let gone = Some("vol-0123456789abcdef0".into());
    let unused = [
        (
            "unattached_volume",
            Unused::Volume {
                what: "100 GiB gp3 of 2026-11-02".into(),
            },
        ),
        (
            "stopped_machines_volume",
            Unused::StoppedMachine {
                what: "100 GiB gp3".into(),
                machine: "course-machine".into(),
            },
        ),
        (
            "old_volume_type",
            Unused::OldType {
                what: "400 GiB gp2".into(),
                iops: 3_000,
                mibps: 250,
            },
        ),
        (
            "old_snapshot",
            Unused::Snapshot {
                what: "100 GiB snapshot of 2026-06-15".into(),
                volume: gone,
            },
        ),
        (
            "old_snapshot",
            Unused::Snapshot {
                what: "100 GiB archived snapshot of 2026-06-15".into(),
                volume: None,
            },
        ),
        (
            "idle_address",
            Unused::Address {
                public_ip: Some("192.0.2.1".into()),
            },
        ),
    ];
    for (slug, evidence) in unused {
        check(slug, Evidence::Unused(evidence));
    }
    let newer = NewerGeneration {
        instead: InstanceType::new("m6a.xlarge").expect("a type"),
        now: UsdPerHour::from_micros(240_000),
        then: UsdPerHour::from_micros(207_000),
    };
    check("old_generation", Evidence::OldGeneration(newer));
}

/// Whether a file defines an item, or a type with this method.
fn defines(text: &str, names: &[&str]) -> bool {
    let file = syn::parse_file(text).expect("Rust");
    file.items.iter().any(|item| match (item, names) {
        (Item::Fn(one), [name]) => one.sig.ident == name,
        (Item::Struct(one), [name]) => one.ident == name,
        (Item::Enum(one), [name]) => one.ident == name,
        (Item::Impl(one), [of, name]) => {
            let syn::Type::Path(path) = &*one.self_ty else {
                return false;
            };
            let is_its = path
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == of);
            let mut items = one.items.iter();
            is_its && items.any(|item| matches!(item, ImplItem::Fn(f) if f.sig.ident == name))
        }
        _ => false,
    })
}

/// Whether a path such as `ebb_wire::message::encode_heartbeats` exists.
fn exists(path: &str) -> bool {
    let segments: Vec<&str> = path.split("::").collect();
    let name = segments[0].strip_prefix("ebb_").expect("a crate of ours");
    let folder = match name {
        "probe" => root().join("probe/src"),
        _ => root()
            .join("crates")
            .join(name.replace('_', "-"))
            .join("src"),
    };
    (2..segments.len()).any(|modules| {
        let file = folder
            .join(segments[1..modules].join("/"))
            .with_extension("rs");
        let text = fs::read_to_string(file);
        text.is_ok_and(|text| defines(&text, &segments[modules..]))
    })
}

#[test]
fn the_functions_of_both_journeys_exist() {
    let text = read("ARCHITECTURE.md");
    let journeys = text.split("### The way of one ").skip(1);
    let journeys = journeys.filter_map(|one| one.split("\n## ").next());
    let code = journeys.flat_map(|one| one.split('`').skip(1).step_by(2));
    let paths: Vec<&str> = code.filter(|code| code.contains("::")).collect();
    assert!(paths.len() > 25, "{paths:?}");
    let missing: Vec<&&str> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!exists("ebb_wire::message::encode_nothing"));
}
