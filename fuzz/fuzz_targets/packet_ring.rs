//! libFuzzer's program for the target `packet_ring` of the crate `fuzz-targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz_targets::read_in_time(fuzz_targets::packet_ring::read, bytes));
