//! Proof that the core of `shearline` needs no `std`.
//!
//! A build for the host with `--no-default-features` proves nothing: `std` is there, and a
//! dependency that pulls it in goes unnoticed. This crate defines the panic handler itself. There
//! may be only one in a program, and `std` has one, so `cargo check` ends with E0152 (duplicate
//! lang item) as soon as any crate below this one links `std`.
//!
//! `cargo check --features std` is the counter-proof: `tests/run.sh` checks that it fails so.
#![no_std]
#![forbid(unsafe_code)]

use core::panic::PanicInfo;

use shearline::engine::{Engine, Event, Input, Output};
use shearline::{Config, ConfigError, Instant};

/// The panic handler, which is a second one if `std` is linked.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Makes an engine over `nodes`, as a firmware would: with its own seed and clock.
pub fn engine(nodes: &[&str], seed: [u8; 32], now: Instant) -> Result<Engine, ConfigError> {
    let config = Config::builder().nodes(nodes).config()?;
    Ok(Engine::new(&config, seed, now))
}

/// Takes one turn without a network: serves due timers, and writes nothing.
pub fn turn(engine: &mut Engine, now: Instant) -> Option<Event> {
    engine.handle(now, Input::Tick);
    while let Some(output) = engine.poll(now) {
        if let Output::Event(event) = output {
            return Some(event);
        }
    }
    None
}
