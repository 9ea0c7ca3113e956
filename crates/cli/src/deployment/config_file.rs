//! The user's file of deployments, `config.toml`. It contains no secrets.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use toml::Spanned;

use super::target::{Place, Setting, Target, ValueSource};
use crate::{args, text_file};

/// The most bytes of the file.
const MAX_BYTES: u64 = 1 << 20;

/// The deployments of the file.
pub(crate) struct ConfigFile {
    path: PathBuf,
    entries: BTreeMap<String, Target>,
}

/// The keys of one entry, which has exactly one of `bucket`, `lake` and `api`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryForm {
    bucket: Option<Spanned<String>>,
    lake: Option<Spanned<String>>,
    api: Option<Spanned<String>>,
    region: Option<Spanned<String>>,
    aws_profile: Option<Spanned<String>>,
    policy: Option<Spanned<PathBuf>>,
}

/// Where the file is, or would be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigPath {
    /// The user named it in `EBB_CONFIG`.
    Named(PathBuf),
    /// The usual path.
    Usual(PathBuf),
}

impl ConfigPath {
    pub(crate) fn as_path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Usual(path) => path,
        }
    }
}

/// The path of the file: `EBB_CONFIG`, otherwise `ebb/config.toml` in the folder of the XDG Base
/// Directory Specification. `None` without a home.
pub(crate) fn config_path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<ConfigPath> {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(path) = set("EBB_CONFIG") {
        return Some(ConfigPath::Named(path));
    }
    // The specification ignores relative paths.
    let folder = set("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(ConfigPath::Usual(folder.join("ebb/config.toml")))
}

impl ConfigFile {
    /// Reads the file; `None` if it does not exist at the usual path.
    pub(crate) fn load(path: &ConfigPath) -> Result<Option<Self>> {
        let is_missing = std::fs::metadata(path.as_path())
            .is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let path = match path {
            ConfigPath::Usual(_) if is_missing => return Ok(None),
            ConfigPath::Named(path) if is_missing => bail!(
                "failed to read {}: it does not exist\n  correct EBB_CONFIG, or write the file \
                 with `ebb init`",
                path.display()
            ),
            path => path.as_path(),
        };
        let text = text_file::read(path, MAX_BYTES)?;
        Self::parse(path, &text).map(Some)
    }

    /// An error names the file and the line.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self> {
        let failed = |at: usize, problem: &str| {
            let line = line_of(text, at);
            anyhow!("{}:{line}: {problem}", path.display())
        };
        let forms: BTreeMap<String, Spanned<EntryForm>> =
            toml::from_str(text).map_err(|error| {
                let at = error.span().map_or(0, |span| span.start);
                failed(at, error.message())
            })?;
        let mut entries = BTreeMap::new();
        for (name, form) in forms {
            let at = form.span().start;
            let entry = form.into_inner().read(path, text, &name);
            let entry = entry.map_err(|(place, problem)| failed(place.unwrap_or(at), &problem))?;
            entries.insert(name, entry);
        }
        let path = path.to_owned();
        Ok(Self { path, entries })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The entry of this name.
    pub(crate) fn entry(&self, name: &str) -> Result<Target> {
        if let Some(entry) = self.entries.get(name) {
            return Ok(entry.clone());
        }
        let names: Vec<&str> = self.entries.keys().map(String::as_str).collect();
        let known = match names.is_empty() {
            true => "it has no deployment".to_owned(),
            false => format!("it has {}", names.join(", ")),
        };
        bail!(
            "{} has no deployment '{name}'\n  {known}; `ebb init --name {name}` adds one",
            self.path.display()
        )
    }

    /// Whether both files have the same entries, except that of this name.
    pub(crate) fn differs_only_in(&self, name: &str, other: &Self) -> bool {
        let places = |file: &Self| {
            let others = file.entries.iter().filter(|(known, _)| *known != name);
            let values = others.map(|(known, entry)| {
                let value = |sourced: &Option<Setting<String>>| {
                    sourced.as_ref().map(|sourced| sourced.value.clone())
                };
                let region = entry.region.as_ref().map(|region| region.value.clone());
                let policy = entry.policy.as_ref().map(|policy| policy.value.clone());
                let place = entry.place.value.clone();
                (
                    known.clone(),
                    (place, region, value(&entry.profile), policy),
                )
            });
            values.collect::<Vec<_>>()
        };
        places(self) == places(other)
    }
}

/// The position of an error, if one value has it, and the error.
type FormError = (Option<usize>, String);

impl EntryForm {
    fn read(self, path: &Path, text: &str, entry: &str) -> Result<Target, FormError> {
        let source = |at: usize| ValueSource::File {
            path: path.to_owned(),
            line: line_of(text, at),
            entry: entry.to_owned(),
        };
        let region = self.region.map(|name| {
            let region = args::region(name.get_ref());
            sourced(name.span().start, region, &source)
        });
        let profile = self.aws_profile.map(|name| {
            let at = name.span().start;
            sourced(at, Ok(name.into_inner()), &source)
        });
        let policy = self.policy.map(|file| {
            let at = file.span().start;
            // A relative path is relative to the file that contains it.
            let folder = path.parent().unwrap_or(Path::new(""));
            sourced(at, Ok(folder.join(file.into_inner())), &source)
        });
        let bucket = self.bucket.map(|name| {
            let at = name.span().start;
            sourced(at, Ok(Place::Bucket(name.into_inner())), &source)
        });
        let lake = self.lake.map(|url| {
            let at = url.span().start;
            sourced(at, Ok(Place::Lake(url.into_inner())), &source)
        });
        let api = self.api.map(|url| {
            let api = args::api(url.get_ref()).map(Place::Api);
            sourced(url.span().start, api, &source)
        });
        let mut places = bucket.into_iter().chain(lake).chain(api);
        let (Some(place), None) = (places.next(), places.next()) else {
            let problem = format!("[{entry}] needs one of bucket, lake and api");
            return Err((None, problem));
        };
        Ok(Target {
            place: place?,
            region: region.transpose()?,
            profile: profile.transpose()?,
            policy: policy.transpose()?,
            is_default: false,
        })
    }
}

fn sourced<T>(
    at: usize,
    value: Result<T, String>,
    source: &impl Fn(usize) -> ValueSource,
) -> Result<Setting<T>, FormError> {
    match value {
        Ok(value) => Ok(Setting {
            value,
            source: source(at),
        }),
        Err(problem) => Err((Some(at), problem)),
    }
}

/// The line of a position, from 1.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// The text of the file with this entry; an entry of the same name is replaced.
pub(crate) fn with_entry(
    path: &Path,
    text: &str,
    name: &str,
    entry: &toml::Table,
) -> Result<String> {
    let table = toml::Table::from_iter([(name.to_owned(), entry.clone().into())]);
    let table = toml::to_string(&table).context("failed to write the entry as TOML")?;
    let header = table.lines().next().unwrap_or_default().to_owned();
    let mut is_replaced = false;
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            is_replaced = line.split('#').next().unwrap_or_default().trim() == header;
        }
        if !is_replaced {
            lines.push(line);
        }
    }
    let mut out = lines.join("\n").trim_end().to_owned();
    if !out.is_empty() {
        out.push_str("\n\n");
    }
    out.push_str(&table);
    // A file with another layout, such as inline tables, stays as it is.
    let before = ConfigFile::parse(path, text)?;
    let after = ConfigFile::parse(path, &out);
    let is_good = after.is_ok_and(|after| after.has(name) && before.differs_only_in(name, &after));
    match is_good {
        true => Ok(out),
        false => bail!(
            "failed to change [{name}] in {}: unexpected layout\n  edit the file by hand; the \
             entry is:\n{table}",
            path.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_line() {
        let check = |text: &str, expect: &str| {
            let error = ConfigFile::parse(Path::new("c.toml"), text).err();
            let error = error.expect("it is invalid").to_string();
            assert!(error.starts_with(expect), "{error}");
        };
        check(
            "[default]\nbuckt = \"x\"\n",
            "c.toml:2: unknown field `buckt`",
        );
        check(
            "\n[lab]\nregion = \"eu-central-1\"\n",
            "c.toml:2: [lab] needs one of",
        );
        let two = "[lab]\nbucket = \"a\"\nlake = \"file:///x\"\n";
        check(two, "c.toml:1: [lab] needs one of");
        let region = "[lab]\nbucket = \"a\"\nregion = \"eu-cental-1\"\n";
        check(region, "c.toml:3: expected the name of a region");
        let api = "[lab]\napi = \"http://example.com\"\n";
        check(api, "c.toml:2: the URL must be https");
        check("bucket = \"x\"\n", "c.toml:1: ");
        check("[lab\n", "c.toml:1: ");
    }

    #[test]
    fn the_path_follows_the_environment() {
        let check = |set: &[(&str, &str)], expect: Option<&str>| {
            let value = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            };
            let got = config_path(value);
            let got = got.as_ref().map(ConfigPath::as_path);
            assert_eq!(got, expect.map(Path::new), "{set:?}");
        };
        let home = ("HOME", "/h");
        check(&[], None);
        check(&[home], Some("/h/.config/ebb/config.toml"));
        let xdg = ("XDG_CONFIG_HOME", "/x");
        check(&[home, xdg], Some("/x/ebb/config.toml"));
        let relative = ("XDG_CONFIG_HOME", "x");
        check(&[home, relative], Some("/h/.config/ebb/config.toml"));
        check(&[home, xdg, ("EBB_CONFIG", "/e.toml")], Some("/e.toml"));
        check(
            &[home, ("EBB_CONFIG", "")],
            Some("/h/.config/ebb/config.toml"),
        );
    }

    #[test]
    fn a_file_that_the_user_names_must_exist() {
        let path = PathBuf::from("/nope/x.toml");
        let usual = ConfigFile::load(&ConfigPath::Usual(path.clone()));
        assert!(usual.expect("it is optional").is_none());
        let error = ConfigFile::load(&ConfigPath::Named(path)).err();
        let error = error.expect("it is named").to_string();
        assert!(error.starts_with("failed to read /nope/x.toml"), "{error}");
        assert!(error.contains("EBB_CONFIG"), "{error}");
    }

    #[test]
    fn an_entry_is_added_or_replaced_and_the_others_stay() {
        let path = Path::new("/c/config.toml");
        let mut entry = toml::Table::new();
        entry.insert("bucket".to_owned(), "new".into());
        let text = "# mine\n[default]\nbucket = \"old\" # why\n\n[lab]\nlake = \"file:///x\"\n";
        let added = with_entry(path, text, "more", &entry).expect("it is added");
        assert!(added.starts_with(text), "{added}");
        assert!(added.ends_with("[more]\nbucket = \"new\"\n"), "{added}");
        let replaced = with_entry(path, text, "default", &entry).expect("it is replaced");
        let file = ConfigFile::parse(path, &replaced).expect("it is valid");
        let place = |name: &str| {
            file.entry(name)
                .expect("it is there")
                .place
                .value
                .to_string()
        };
        assert_eq!(place("default"), "bucket new");
        assert_eq!(place("lab"), "lake file:///x");
        let inline = "default = { bucket = \"old\" }\n";
        let error = with_entry(path, inline, "default", &entry).expect_err("the layout");
        assert!(error.to_string().contains("by hand"), "{error}");
        let odd = with_entry(path, "", "a b", &entry).expect("a quoted name");
        assert!(odd.contains("[\"a b\"]"), "{odd}");
    }
}
