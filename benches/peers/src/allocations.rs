//! Counts what is allocated through Rust's global allocator.
//!
//! Counting is off but for [`counted`] and after [`keep_counting`], so that timed rounds pay one
//! predicted branch for it. Allocations of C are not counted.

#![expect(
    unsafe_code,
    reason = "an allocator cannot be written without; this one only counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static FREES: AtomicU64 = AtomicU64::new(0);
/// Bytes allocated less bytes freed.
static BYTES: AtomicI64 = AtomicI64::new(0);
/// The most that they have been.
static HIGHEST: AtomicI64 = AtomicI64::new(0);

/// The counts so far, of all threads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Totals {
    /// How often memory was allocated or resized.
    pub allocations: u64,
    /// How often it was freed.
    pub frees: u64,
    /// Bytes that are allocated.
    pub live: i64,
    /// The most that these have been, to the byte.
    pub highest: i64,
}

/// Counts from now on, for as long as the program runs. If it is called first of all, [`totals`]
/// covers the whole heap.
pub fn keep_counting() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Returns the counts so far. Allocates nothing.
#[must_use]
pub fn totals() -> Totals {
    Totals {
        allocations: COUNT.load(Ordering::Relaxed),
        frees: FREES.load(Ordering::Relaxed),
        live: BYTES.load(Ordering::Relaxed),
        highest: HIGHEST.load(Ordering::Relaxed),
    }
}

/// Forgets the most so far: it counts from now on.
pub fn forget_highest() {
    HIGHEST.store(BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Runs `work` and returns how often memory was allocated or resized meanwhile, in all threads.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = COUNT.load(Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let result = work();
    COUNTING.store(false, Ordering::Relaxed);
    (result, COUNT.load(Ordering::Relaxed) - before)
}

/// Runs `work` and returns how many more bytes are allocated afterwards than before, in all
/// threads: what it has kept.
pub fn kept<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = BYTES.load(Ordering::Relaxed);
    let (result, _) = counted(work);
    (result, BYTES.load(Ordering::Relaxed) - before)
}

/// Runs `work` without counting, within [`counted`] or not.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let counting = COUNTING.swap(false, Ordering::Relaxed);
    let result = work();
    COUNTING.store(counting, Ordering::Relaxed);
    result
}

#[derive(Debug)]
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[inline]
fn count_allocation(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        let live = BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        HIGHEST.fetch_max(live, Ordering::Relaxed);
    }
}

#[inline]
fn count_free(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        FREES.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// No block has more bytes than this number holds.
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
