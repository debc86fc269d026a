#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| shearline::resp::fuzz_decode_any(input));
