//! Proof that the core of `shearline` needs no `std`.
//!
//! A build for the host with `--no-default-features` proves nothing: `std` is there, and a
//! dependency that pulls it in goes unnoticed. This crate defines the panic handler itself. There
//! may be only one in a program, and `std` has one, so `cargo check` ends with E0152 (duplicate
//! lang item) as soon as any crate below this one links `std`.
//!
//! `cargo check --features std` is the counter-proof: `tests/run.sh` wants to see it fail so.
#![no_std]
#![forbid(unsafe_code)]

use core::panic::PanicInfo;
use core::time::Duration;

use shearline::Instant;
use shearline::quorum::Drift;

/// The second panic handler, if there is a first one.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// A use of the core, so that its crate and all crates below it are loaded.
#[must_use]
pub fn validity(now: Instant, ttl: Duration) -> Duration {
    Drift::default().valid_until(now, ttl).saturating_since(now)
}
