//! Measures sweeps of 10 to 100,000 nodes, from received bytes to a published report:
//! `make bench-sweep`. Each fleet is measured in its own processes, so that the peak memory belongs
//! to one measurement. The network is left out: messages are read from a file. The
//! whole sweep has its bucket and its lake in local folders.

mod count;
mod detail;
mod fleet;
mod fortnight;
mod messages;
mod stages;
mod state;
mod table;
mod whole;

use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;

const SIZES: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["prepare", nodes, file] => messages::write(number(nodes), Path::new(file)),
        ["stages", nodes, file] => say(&stages::measure(number(nodes), Path::new(file))),
        ["whole", nodes, file] => say(&whole::measure(number(nodes), Path::new(file))),
        ["state"] => say(&state::measure()),
        _ => all(),
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number of nodes")
}

fn say(measured: &impl serde::Serialize) {
    let line = serde_json::to_string(measured).expect("plain numbers");
    println!("{line}");
}

fn all() {
    let folder = tempfile::tempdir().expect("a folder");
    let only: Option<u32> = std::env::var("NODES").ok().map(|n| number(&n));
    let mut rows = Vec::new();
    let mut wholes = Vec::new();
    for nodes in SIZES.into_iter().filter(|n| only.is_none_or(|o| o == *n)) {
        let file = folder.path().join("messages");
        let file = file.to_str().expect("a plain path");
        let count = nodes.to_string();
        run(&["prepare", &count, file]);
        let stages: stages::Stages = read(&["stages", &count, file]);
        rows.push((nodes, stages));
        wholes.push((nodes, read::<whole::Whole>(&["whole", &count, file])));
    }
    let state: state::State = read(&["state"]);
    table::print(&rows, &state);
    table::whole(&wholes);
    table::running(&wholes);
}

fn run(arguments: &[&str]) -> Vec<u8> {
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{arguments:?} failed");
    output.stdout
}

fn read<T: DeserializeOwned>(arguments: &[&str]) -> T {
    serde_json::from_slice(&run(arguments)).expect("what `say` wrote")
}

/// Peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a Linux kernel");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("the kernel reports it");
    let kib: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    kib << 10
}
