//! See `tests::fuzz::database_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::database_file(bytes));
