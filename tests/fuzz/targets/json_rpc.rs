//! See `tests::fuzz::json_rpc`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::json_rpc(bytes));
