//! See `tests::fuzz::log_spec`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::log_spec(bytes));
