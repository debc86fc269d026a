#![no_main]

#[path = "../../tests/differential/compare/mod.rs"]
#[expect(dead_code, reason = "tests inspect the comparison")]
mod compare;

libfuzzer_sys::fuzz_target!(|input: &[u8]| compare::compare(input));
