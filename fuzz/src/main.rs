//! Runs one target under libFuzzer: the environment names it in `EBB_FUZZ_TARGET`. Without
//! one, prints the names of all and ends. Writes its seeds into `EBB_FUZZ_SEEDS`, if set.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use ebb_fuzz::Target;
use ebb_fuzz::limits::{LimitedAllocator, Limits, allocator};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: LimitedAllocator = allocator();

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("EBB_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = Target::named(&name) else {
        for target in Target::ALL {
            println!("{}", target.name);
        }
        std::process::exit(if name.is_empty() { 0 } else { 2 });
    };
    if let Some(folder) = std::env::var_os("EBB_FUZZ_SEEDS") {
        for (number, seed) in (target.seeds)().iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{number}"));
            std::fs::write(path, seed).expect("the folder of seeds is writable");
        }
    }
    target
}

fuzz_target!(
    init: {
        TARGET.get_or_init(chosen);
    },
    |input: &[u8]| {
        let target = TARGET.get_or_init(chosen);
        Limits::default().run(&ALLOCATOR, input, target.run);
    }
);
