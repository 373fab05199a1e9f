//! See `tests::fuzz::openflow_stream`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::openflow_stream(bytes));
