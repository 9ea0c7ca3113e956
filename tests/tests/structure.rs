//! The structure inside the crates. Files that import each other in a circle can only be read
//! together, so circles stay small. The name of a type is unique in its package.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// The most files in a circle of imports.
const MAX_CIRCLE: usize = 5;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Source folders of all packages of the workspace.
fn sources() -> Vec<PathBuf> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace");
    let members = text.split("\nmembers = [").nth(1).expect("the members");
    let members = members.split(']').next().expect("their end");
    let paths = members.split('"').skip(1).step_by(2);
    paths.map(|path| root().join(path).join("src")).collect()
}

/// Source folders of all crates: each program in `src/bin` is a crate of its own.
fn crates() -> Vec<PathBuf> {
    let mut crates = Vec::new();
    for source in sources() {
        match fs::read_dir(source.join("bin")) {
            Ok(programs) => {
                let programs = programs.map(|entry| entry.expect("an entry").path());
                crates.extend(programs.filter(|path| path.is_dir()));
            }
            Err(_) => crates.push(source),
        }
    }
    crates
}

type Module = Vec<String>;

/// The modules of one crate by their paths, with the content of each file.
fn modules(source: &Path) -> BTreeMap<Module, syn::File> {
    fn walk(folder: &Path, at: &Module, all: &mut BTreeMap<Module, syn::File>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let module: Module = at.iter().cloned().chain(stem.map(str::to_owned)).collect();
            if path.is_dir() {
                walk(&path, &module, all);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = fs::read_to_string(&path).expect("UTF-8");
                all.insert(module, syn::parse_file(&text).expect("Rust"));
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(source, &Vec::new(), &mut all);
    without_tests(all)
}

/// Removes the modules that only tests compile.
fn without_tests(all: BTreeMap<Module, syn::File>) -> BTreeMap<Module, syn::File> {
    let mut for_tests = BTreeSet::new();
    for (module, file) in &all {
        for item in &file.items {
            if let Item::Mod(one) = item
                && is_for_tests(&one.attrs)
            {
                let own = if is_root(module) { &[][..] } else { module };
                let child: Module = own.iter().cloned().chain([one.ident.to_string()]).collect();
                for_tests.insert(child);
            }
        }
    }
    let is_left = |module: &Module| !for_tests.iter().any(|tests| module.starts_with(tests));
    let left = all.into_iter();
    left.filter(|(module, _)| is_left(module)).collect()
}

fn is_root(module: &Module) -> bool {
    matches!(module.as_slice(), [one] if one == "lib" || one == "main")
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute
            .path()
            .is_ident("cfg")
            .then(|| attribute.meta.require_list());
        list.and_then(Result::ok)
            .is_some_and(|list| list.tokens.to_string().contains("test"))
    })
}

/// Collects the modules that a file names.
struct Names<'a> {
    here: Module,
    known: &'a BTreeMap<Module, syn::File>,
    found: BTreeSet<Module>,
}

impl Names<'_> {
    fn name(&mut self, path: &[String]) {
        let mut at = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.here.clone(),
            Some(_) => {
                let mut child = self.here.clone();
                child.push(path[0].clone());
                if !self.known.contains_key(&child) {
                    return;
                }
                self.here.clone()
            }
            None => return,
        };
        for segment in path {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                name => {
                    at.push(name.to_owned());
                    if !self.known.contains_key(&at) {
                        at.pop();
                        break;
                    }
                }
            }
        }
        if at != self.here && self.known.contains_key(&at) {
            self.found.insert(at);
        }
    }

    fn tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| before.iter().cloned().chain([name]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.name(&with(name.ident.to_string())),
            UseTree::Rename(name) => self.name(&with(name.ident.to_string())),
            UseTree::Glob(_) => self.name(before),
            UseTree::Group(group) => group.items.iter().for_each(|one| self.tree(before, one)),
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.name(&segments);
        }
        visit::visit_path(self, path);
    }
}

fn imports(modules: &BTreeMap<Module, syn::File>) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, file): (&Module, &syn::File)| {
        let mut names = Names {
            here: module.clone(),
            known: modules,
            found: BTreeSet::new(),
        };
        names.visit_file(file);
        (module.clone(), names.found)
    };
    modules
        .iter()
        .filter(|(module, _)| !is_root(module))
        .map(of)
        .collect()
}

/// The modules that can be reached from a module; itself only if it is in a circle.
fn reached<'a>(
    imports: &'a BTreeMap<Module, BTreeSet<Module>>,
    from: &'a Module,
) -> BTreeSet<&'a Module> {
    let mut reachable = BTreeSet::new();
    let mut next: Vec<&Module> = imports[from].iter().collect();
    while let Some(one) = next.pop() {
        if reachable.insert(one) {
            next.extend(imports.get(one).into_iter().flatten());
        }
    }
    reachable
}

/// Sets of modules that can all reach each other.
fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<&Module>> {
    let reach: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|module| (module, reached(imports, module)))
        .collect();
    let mut all: Vec<BTreeSet<&Module>> = Vec::new();
    for (module, reached) in &reach {
        if reached.contains(module) && !all.iter().any(|circle| circle.contains(module)) {
            let back = |other: &&&Module| reach.get(**other).is_some_and(|r| r.contains(module));
            all.push(reached.iter().filter(back).copied().collect());
        }
    }
    all
}

#[test]
fn files_import_each_other_in_small_circles_at_most() {
    let mut large = Vec::new();
    let mut files = 0;
    for source in crates() {
        let modules = modules(&source);
        files += modules.len();
        for circle in circles(&imports(&modules)) {
            if circle.len() > MAX_CIRCLE {
                let names: Vec<String> = circle.iter().map(|one| one.join("::")).collect();
                large.push(format!("{}: {}", source.display(), names.join(", ")));
            }
        }
    }
    assert!(files > 400, "only {files} files were read");
    assert!(large.is_empty(), "{large:#?}");
}

#[test]
fn a_circle_is_found() {
    let parse = |text: &str| syn::parse_file(text).expect("Rust");
    let module = |name: &str| name.split("::").map(str::to_owned).collect::<Module>();
    let modules: BTreeMap<Module, syn::File> = [
        ("a", "use crate::b::B;"),
        ("b", "fn f() { c::g() } use super::b::c;"),
        ("b::c", "use crate::{a::A, d};"),
        ("d", "#[cfg(test)] mod tests { use crate::a::A; }"),
    ]
    .map(|(name, text)| (module(name), parse(text)))
    .into();
    let imports = imports(&modules);
    let found = circles(&imports);
    let expect: BTreeSet<Module> = ["a", "b", "b::c"].map(module).into();
    assert_eq!(found.len(), 1);
    assert!(found[0].iter().copied().eq(&expect));
}

/// Modules that define each type, by the name of the type. A type inside a function has no module.
fn types(modules: &BTreeMap<Module, syn::File>) -> BTreeMap<String, Vec<&Module>> {
    let mut types: BTreeMap<String, Vec<&Module>> = BTreeMap::new();
    for (module, file) in modules {
        for item in &file.items {
            let (name, attributes) = match item {
                Item::Struct(one) => (&one.ident, &one.attrs),
                Item::Enum(one) => (&one.ident, &one.attrs),
                Item::Trait(one) => (&one.ident, &one.attrs),
                Item::Type(one) => (&one.ident, &one.attrs),
                _ => continue,
            };
            if !is_for_tests(attributes) {
                types.entry(name.to_string()).or_default().push(module);
            }
        }
    }
    types
}

#[test]
fn the_name_of_a_type_is_unique_in_its_package() {
    let (mut twice, mut number) = (Vec::new(), 0);
    for source in sources() {
        let modules = modules(&source);
        for (name, defined) in types(&modules) {
            number += 1;
            if defined.len() > 1 {
                let places: Vec<String> = defined.iter().map(|one| one.join("::")).collect();
                twice.push(format!(
                    "{} {name}: {}",
                    source.display(),
                    places.join(", ")
                ));
            }
        }
    }
    assert!(number > 700, "only {number} types were read");
    assert!(twice.is_empty(), "{twice:#?}");
}
