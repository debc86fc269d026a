//! Counts allocations through Rust's global allocator.
//!
//! Counting is off except in [`counted`] and after [`keep_counting`], so that timed rounds pay one predicted branch for
//! it. Allocations of C are not counted.

#![expect(
    unsafe_code,
    reason = "an allocator cannot be written without; this one only counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Bytes allocated less bytes freed.
static BYTES: AtomicI64 = AtomicI64::new(0);

/// Counts until the program ends. If this is the first call of the program, [`live`] covers the whole heap.
pub fn keep_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Returns the number of allocated bytes minus the number of freed bytes, while counting was on.
#[must_use]
pub fn live() -> i64 {
    BYTES.load(Ordering::Relaxed)
}

/// Runs `work` and returns how often memory was allocated or resized meanwhile, in all threads.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = COUNT.load(Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let result = work();
    COUNTING.store(false, Ordering::Relaxed);
    (result, COUNT.load(Ordering::Relaxed) - before)
}

#[derive(Debug)]
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[inline]
fn count_allocation(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[inline]
fn count_free(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Converts a size. No block is too large for this number.
const fn bytes(size: usize) -> i64 {
    size as i64
}

// SAFETY: every method passes its arguments unchanged to the system's allocator, which keeps the
// contract; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation(bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation(bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(bytes(size) - bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`; the block is the system's.
        unsafe { System.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_free(bytes(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`; the block is the system's.
        unsafe { System.dealloc(block, layout) }
    }
}
