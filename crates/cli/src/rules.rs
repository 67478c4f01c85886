//! Files of rules for pages.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use bigiron_dump::Subject;
use bigiron_kernel::rules::{MAX_BYTES, Rules};

use crate::tell::tell;

/// Reads a file of rules.
pub fn read(path: &Path) -> anyhow::Result<Rules> {
    let mut text = Vec::new();
    let file = File::open(path);
    file.and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut text))
        .with_context(|| format!("{}: cannot read the rules", path.display()))?;
    Rules::parse(&text).with_context(|| path.display().to_string())
}

/// Applies a file of rules to a dump. What is wrong with them is a warning: a dump without rules is
/// better than none.
pub fn apply(path: &Path, subject: &mut Subject) {
    match read(path) {
        Ok(rules) if subject.set_rules(&rules) => {}
        Ok(_) => tell!(
            "bigiron: warning: {}: the rules are ignored, since there is no kernel to find their pages in",
            path.display()
        ),
        Err(error) => tell!("bigiron: warning: {error:#}; the dump is made without rules"),
    }
}
