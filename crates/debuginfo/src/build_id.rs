//! The build id of a file.

use std::fs::File;

use object::{Object, ReadCache};

/// The section with debug information (DWARF).
const INFORMATION: &str = ".debug_info";

/// Returns true if the file is an ELF file with this build id, in hexadecimal, and with debug
/// information: a program without has the same build id as the one with it.
pub fn is_of(file: &File, build_id: &str) -> bool {
    let cache = ReadCache::new(file);
    let Ok(parsed) = object::File::parse(&cache) else {
        return false;
    };
    if parsed.section_by_name(INFORMATION).is_none() {
        return false;
    }
    let Ok(Some(found)) = parsed.build_id() else {
        return false;
    };
    let digits = found.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>() == build_id
}
