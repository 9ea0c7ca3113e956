//! Generates the Rust types of kernel records from `ebpf/event.h`, so that the layout is written
//! once. Included by the build script and by a test.
//!
//! The header uses a small part of C, and anything else is an error. The generator computes the
//! offset of each field and writes it as an assertion for clang. The Rust types are `repr(C)`, and
//! `Pod` allows no padding. So clang, rustc and this generator agree, or the build fails.
//!
//! The BTF of the object is not a source, because clang emits BTF only for types of maps, globals
//! and function parameters. Records are none of these.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The generated text.
pub(crate) struct Records {
    /// Constants and structs in Rust.
    pub(crate) rust: String,
    /// Assertions in C about the size of each struct and the offset of each field.
    pub(crate) assertions: String,
}

/// A type of a field: its name in Rust, and its size and alignment in bytes.
struct FieldType {
    rust: String,
    size: usize,
    align: usize,
}

#[derive(Default)]
struct Header {
    rust: String,
    assertions: String,
    /// Values of `#define`.
    lengths: BTreeMap<String, usize>,
    /// Structs so far.
    structs: BTreeMap<String, FieldType>,
}

/// Generates the types of a header.
///
/// # Errors
/// The first line that is not understood, or a field that needs padding before it.
pub(crate) fn generate(header: &str) -> Result<Records, String> {
    let text = without_comments(header)?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut all = Header::default();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["#ifndef", _] | ["#ifdef", _] | ["#endif"] | ["#include", "EBB_LAYOUT"] => {}
            ["#define", "EBB_EVENT_H"] => {}
            ["#define", name, value] => {
                let value = value.parse().map_err(|_| not_understood(line))?;
                all.lengths.insert((*name).to_owned(), value);
            }
            ["enum", _, "{"] => all.constants(&mut lines)?,
            ["struct", name, "{"] => all.record(name, &mut lines)?,
            _ => return Err(not_understood(line)),
        }
    }
    Ok(Records {
        rust: all.rust,
        assertions: all.assertions,
    })
}

fn not_understood(line: &str) -> String {
    format!("failed to read ebpf/event.h: '{line}' is not understood")
}

fn without_comments(text: &str) -> Result<String, String> {
    let mut parts = text.split("/*");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.split_once("*/").ok_or_else(|| not_understood("/*"))?;
        plain += after.1;
    }
    Ok(plain)
}

impl Header {
    /// Lines such as `EBB_FORK = 1,` up to `};`.
    fn constants<'a>(&mut self, lines: &mut impl Iterator<Item = &'a str>) -> Result<(), String> {
        for line in lines {
            if line == "};" {
                return Ok(());
            }
            let constant = line.strip_prefix("EBB_").and_then(|rest| {
                let (name, value) = rest.strip_suffix(',')?.split_once(" = ")?;
                Some((name, value.parse::<u32>().ok()?))
            });
            let (name, value) = constant.ok_or_else(|| not_understood(line))?;
            let _ = writeln!(self.rust, "pub(super) const {name}: u32 = {value};");
        }
        Err(not_understood("enum"))
    }

    /// Lines such as `__u64 cpu_ns;` up to `};`.
    fn record<'a>(
        &mut self,
        name: &str,
        lines: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        let rust = rust_name(name).ok_or_else(|| not_understood(name))?;
        let (mut fields, mut offset, mut most) = (String::new(), 0, 1);
        for line in lines {
            if line == "};" {
                if offset % most != 0 {
                    return Err(format!("struct {name} needs padding at its end"));
                }
                let _ = writeln!(
                    self.assertions,
                    "_Static_assert(sizeof(struct {name}) == {offset}, \"size of {name}\");"
                );
                let _ = writeln!(
                    self.rust,
                    "#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]\n#[repr(C)]\n\
                     pub(super) struct {rust} {{\n{fields}}}"
                );
                let own = FieldType {
                    rust,
                    size: offset,
                    align: most,
                };
                self.structs.insert(name.to_owned(), own);
                return Ok(());
            }
            let (field, kind) = self.field(line).ok_or_else(|| not_understood(line))?;
            if offset % kind.align != 0 {
                return Err(format!("struct {name} needs padding before {field}"));
            }
            let _ = writeln!(
                self.assertions,
                "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset}, \
                 \"offset of {name}.{field}\");"
            );
            let _ = writeln!(fields, "    pub(super) {field}: {},", kind.rust);
            offset += kind.size;
            most = most.max(kind.align);
        }
        Err(not_understood(name))
    }

    fn field<'a>(&self, line: &'a str) -> Option<(&'a str, FieldType)> {
        let (kind, name) = line.strip_suffix(';')?.rsplit_once(' ')?;
        let kind = match kind {
            "char" => scalar("u8", 1),
            "__u32" => scalar("u32", 4),
            "__u64" => scalar("u64", 8),
            _ => {
                let known = self.structs.get(kind.strip_prefix("struct ")?)?;
                FieldType {
                    rust: known.rust.clone(),
                    ..*known
                }
            }
        };
        let Some((name, length)) = name.strip_suffix(']').and_then(|name| name.split_once('['))
        else {
            return Some((name, kind));
        };
        let count = (self.lengths.get(length).copied()).or_else(|| length.parse().ok())?;
        let array = FieldType {
            rust: format!("[{}; {count}]", kind.rust),
            size: kind.size * count,
            align: kind.align,
        };
        Some((name, array))
    }
}

fn scalar(rust: &str, bytes: usize) -> FieldType {
    FieldType {
        rust: rust.to_owned(),
        size: bytes,
        align: bytes,
    }
}

/// `RawTaskCounters` for `ebb_task_counters`.
fn rust_name(name: &str) -> Option<String> {
    let mut rust = "Raw".to_owned();
    for word in name.strip_prefix("ebb_")?.split('_') {
        let (first, rest) = word.split_at_checked(1)?;
        rust += &first.to_uppercase();
        rust += rest;
    }
    Some(rust)
}
