#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shearline::internals::fuzz_decode_torn(input));
