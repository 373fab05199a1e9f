//! See `tests::fuzz::ovsdb_transaction`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tests::fuzz::ovsdb_transaction(bytes));
