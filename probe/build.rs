//! Compiles the kernel half and embeds it. The object is the same for every
//! kernel and CPU of one byte order, so the host's headers are not asked.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: [&str; 8] = [
    "ebb.bpf.c",
    "kernel.h",
    "event.h",
    "ring.h",
    "task.h",
    "apart.h",
    "sock.h",
    "rest.h",
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = root.join("../ebpf");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", folder.join(source).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let object = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("ebb.bpf.o");
    if let Err(problem) = compile(&folder.join("ebb.bpf.c"), &object) {
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn compile(source: &Path, object: &Path) -> Result<(), String> {
    let clang = find_clang()?;
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    let done = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", target])
        .args(["-g", "-O2", "-Wall", "-Werror", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|error| format!("{clang} does not start: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("bpf/bpf_helpers.h") {
        return Err("bpf/bpf_helpers.h is missing; install it: apt-get install libbpf-dev".into());
    }
    Err(format!(
        "{clang} refused the kernel half: {}",
        said.replace('\n', " | ")
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
            "no clang compiles the kernel half; install it: apt-get install clang-14 \
             libbpf-dev, or name one in CLANG"
                .into()
        })
}
