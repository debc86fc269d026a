#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shearline::engine::fuzz_engine(input));
