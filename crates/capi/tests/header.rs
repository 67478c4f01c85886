//! The header that programs include is what the sources say.

use std::path::Path;

/// With BIGIRON_WRITE_HEADER=1 it writes the header instead.
#[test]
fn the_header_is_made_from_these_sources() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_directory.join("include/bigiron_mem.h");
    let mut made = Vec::new();
    cbindgen::generate(crate_directory)
        .unwrap()
        .write(&mut made);
    let made = String::from_utf8(made).unwrap();
    // Rust's heading for what a caller must see to.
    let made = made.replace("// # Safety\n", "// The caller's part:\n");
    if std::env::var_os("BIGIRON_WRITE_HEADER").is_some() {
        std::fs::write(&path, made).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(
        there == made,
        "{} is not what the sources say: run scripts/c-library --header",
        path.display()
    );
}
