//! See `tests::fuzz::openflow_14`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::openflow_14(bytes));
