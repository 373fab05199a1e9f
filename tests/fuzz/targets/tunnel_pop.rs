//! See `tests::fuzz::tunnel_pop`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::tunnel_pop(bytes));
