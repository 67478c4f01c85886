//! The header agrees with the sources.

use std::path::Path;

/// Writes the header instead if BIGIRON_WRITE_HEADER is set.
#[test]
fn header_agrees_with_the_sources() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_directory.join("include/bigiron_mem.h");
    let mut made = Vec::new();
    cbindgen::generate(crate_directory)
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    // Replaces Rust's heading of the caller's obligations.
    let made = made.replace("// # Safety\n", "// Requirements:\n");
    if std::env::var_os("BIGIRON_WRITE_HEADER").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(
        there == made,
        "{} differs from the sources; run scripts/c-library --header",
        path.display()
    );
}
