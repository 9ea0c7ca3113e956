//! Returns unused memory to the kernel. [`crate::node`] measures the memory of the program.

use std::ffi::{c_int, c_void};
use std::fs;

/// Returns memory that only the start needed: free heap memory between used blocks, executed code
/// and constants. The allocator by itself returns only free memory at the top of the heap. Code that runs
/// again is mapped from the page cache.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    {
        unsafe extern "C" {
            // A function of the C library, which may be called at any time from any thread.
            safe fn malloc_trim(keep_bytes: usize) -> c_int;
        }
        malloc_trim(0);
    }
    unsafe extern "C" {
        fn madvise(from: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }
    /// The value is the same on every Linux architecture except Alpha.
    const DONT_NEED: c_int = 4;
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if let Some((from, bytes)) = code(&maps, give_back as fn() as usize) {
        // SAFETY: the mappings were never writable, so their content is the same as in the program
        // file, from which it is loaded again.
        unsafe { madvise(from as *mut c_void, bytes, DONT_NEED) };
    }
}

/// The start and length of the code that contains an address, from `/proc/self/maps`. With it come the
/// constants before it, of which the start reads the relocations. The loader writes to mappings after
/// the code, which also become read-only.
fn code(maps: &str, address: usize) -> Option<(usize, usize)> {
    let mut constants = None;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let from = usize::from_str_radix(from, 16).ok()?;
        let to = usize::from_str_radix(to, 16).ok()?;
        let mut fields = rest.split_whitespace();
        let (rights, file) = (fields.next()?, fields.last());
        if rights == "r-xp" && (from..to).contains(&address) {
            let start = match constants {
                Some((start, end, of)) if end == from && of == file => start,
                _ => from,
            };
            return Some((start, to - start));
        }
        constants = (rights == "r--p").then_some((from, to, file));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_the_constants_before_it_were_never_written() {
        let maps = "7000-9000 r--p 00000000 fe:00 1 /bin/probe\n\
                    9000-c000 r-xp 00002000 fe:00 1 /bin/probe\n\
                    c000-d000 rw-p 00005000 fe:00 1 /bin/probe\n";
        let check = |address, expect| assert_eq!(code(maps, address), expect, "{address:x}");
        check(0x8fff, None);
        check(0x9000, Some((0x7000, 0x5000)));
        check(0xbfff, Some((0x7000, 0x5000)));
        check(0xc000, None);
        for other in [
            maps.replace("7000-9000", "7000-8000"),
            maps.replace("r--p 00000000", "rw-p 00000000"),
            maps.replacen("/bin/probe", "/lib/other", 1),
        ] {
            assert_eq!(code(&other, 0x9000), Some((0x9000, 0x3000)), "{other}");
        }
        assert_eq!(code("", 0x9000), None);
        assert_eq!(code("nonsense\n9000 r-xp", 0x9000), None);
    }

    #[test]
    fn a_program_goes_on_after_it_gave_back() {
        let held: Vec<Vec<u8>> = (0..1_000).map(|n| vec![n as u8; 1_000]).collect();
        give_back();
        assert!(held.iter().enumerate().all(|(n, v)| v[999] == n as u8));
    }
}
