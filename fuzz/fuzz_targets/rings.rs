//! libFuzzer's program for the target `rings` of the crate `fuzz-targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::read_in_time(fuzz_targets::rings::read, bytes));
