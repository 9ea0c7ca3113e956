//! The documents agree with the code: each kind of finding has a page, and the code map contains
//! only existing paths.

use std::fs;
use std::path::{Path, PathBuf};

use ebb_model::finding_kind::FindingKind;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn each_kind_of_finding_has_a_page() {
    let summary = read("docs/src/SUMMARY.md");
    for kind in FindingKind::ALL {
        let slug = kind.slug();
        let page = read(&format!("docs/src/findings/{slug}.md"));
        assert_eq!(page.lines().next(), Some(format!("# {kind}").as_str()));
        assert!(page.contains(&format!("| Slug | `{slug}` |")), "{slug}");
        assert!(summary.contains(&format!("(findings/{slug}.md)")), "{slug}");
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
}
