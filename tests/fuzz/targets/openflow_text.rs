//! See `tests::fuzz::openflow_text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::openflow_text(bytes));
