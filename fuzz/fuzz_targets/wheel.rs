#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shearline::timer::fuzz_wheel(input));
