//! Compiles the kernel half and embeds it, and generates the Rust types of its records. The object
//! is the same for every kernel and CPU of one byte order, so the headers of the host are not used.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/records.rs"]
mod records;

const SOURCES: [&str; 8] = [
    "ebb.bpf.c",
    "kernel.h",
    "event.h",
    "ring.h",
    "task.h",
    "namespaces.h",
    "sock.h",
    "idle_tasks.h",
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = root.join("../ebpf");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", folder.join(source).display());
    }
    println!("cargo::rerun-if-changed=build/records.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    if let Err(problem) = build(&folder, &out) {
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn build(folder: &Path, out: &Path) -> Result<(), String> {
    let event_h = folder.join("event.h");
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| format!("failed to use {path}: {error}")
    };
    let header = fs::read_to_string(&event_h).map_err(failed(&event_h))?;
    let records = records::generate(&header)?;
    let (bindings, layout) = (out.join("bindings.rs"), out.join("layout.h"));
    fs::write(&bindings, records.rust).map_err(failed(&bindings))?;
    fs::write(&layout, records.assertions).map_err(failed(&layout))?;
    compile(&folder.join("ebb.bpf.c"), &layout, &out.join("ebb.bpf.o"))
}

fn compile(source: &Path, layout: &Path, object: &Path) -> Result<(), String> {
    let clang = find_clang()?;
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    let done = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", target])
        .args(["-g", "-O2", "-Wall", "-Werror", "-c"])
        .arg(format!("-DEBB_LAYOUT=\"{}\"", layout.display()))
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|error| format!("failed to start {clang}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&done.stderr);
    if output.contains("bpf/bpf_helpers.h") {
        return Err("bpf/bpf_helpers.h is missing; install it: apt-get install libbpf-dev".into());
    }
    Err(format!(
        "{clang} failed to compile the kernel half: {}",
        output.replace('\n', " | ")
    ))
}

fn find_clang() -> Result<String, String> {
    if let Ok(named) = env::var("CLANG") {
        return Ok(named);
    }
    let starts = |name: &&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|done| done.status.success())
    };
    ["clang-14", "clang"]
        .into_iter()
        .find(starts)
        .map(str::to_owned)
        .ok_or_else(|| {
            "clang is missing, which compiles the kernel half; install it: apt-get install \
             clang-14 libbpf-dev, or set CLANG to its path"
                .into()
        })
}
