//! Arbitrary bytes as a kdump-compressed dump, whole or flattened: every page that its bitmaps
//! promise is read as a page or as an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bigiron_fuzz::check_dump(data);
});
