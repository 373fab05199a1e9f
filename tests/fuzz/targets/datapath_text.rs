//! See `tests::fuzz::datapath_text`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::datapath_text(bytes));
