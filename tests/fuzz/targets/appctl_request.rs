//! See `tests::fuzz::appctl_request`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::appctl_request(bytes));
