#![no_main]

// The simulator calls its own modules `crate::..`.
#[path = "../../tests/sim/main.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the tests of the simulator use more of it"
)]
mod sim;
use sim::*;

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::fuzz::run(input));
