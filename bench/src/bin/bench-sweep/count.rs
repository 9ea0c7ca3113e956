//! The sweeper's allocator with a counter of live heap bytes, rounded as glibc rounds them.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use mimalloc::MiMalloc;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Starts the counter, which is off by default because it takes time.
pub(crate) fn begin() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Bytes allocated and not freed since [`begin`].
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// A chunk has a header of 8 bytes, a grain of 16, and at least 32 bytes.
fn chunk(layout: Layout) -> i64 {
    let rounded = (layout.size() + 8).next_multiple_of(16).max(32);
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

fn add(bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed unchanged to the sweeper's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(chunk(layout));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-chunk(layout));
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(chunk(layout));
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let resized = Layout::from_size_align(size, layout.align());
        add(resized.map_or(0, chunk) - chunk(layout));
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }
}
