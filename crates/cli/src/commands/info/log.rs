//! `bigiron info --log`: what crash a text log tells of.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use bigiron_inspect::Signature;
use serde::Serialize;

use super::page::Page;
use crate::arguments::ReaderArguments;
use crate::memory_limit::ReadBuffers;
use crate::sandbox::Needs;
use crate::tell::print;

/// Buffer size; a log is read once, from its beginning to its end.
const BUFFER: usize = 64 << 10;
/// Frames in text output; JSON has all.
const SHOWN_FRAMES: usize = 8;

/// What is known of a log.
#[derive(Serialize)]
struct Found {
    signature: Option<Signature>,
}

/// Prints the signature of the log in a file, or of standard input for `-`.
pub fn run(path: &Path, json: bool, options: ReaderArguments) -> anyhow::Result<()> {
    options.time.begin(&[path.to_owned()])?;
    let name = || format!("{}: cannot read it", path.display());
    let mut text: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(name)?;
        Box::new(BufReader::with_capacity(BUFFER, file))
    };
    let buffers = ReadBuffers {
        helpers: 1,
        cache: 0,
    };
    options.confine(&[], &Needs::Nothing, buffers);
    let signature = Signature::of_text(&mut text).with_context(name)?;
    if json {
        let found = serde_json::to_string_pretty(&Found { signature })?;
        return print(&(found + "\n"));
    }
    let mut page = Page(String::new());
    match &signature {
        None => page.line("crash", "none in the log"),
        Some(signature) => {
            show(signature, &mut page);
            let frames = signature.frames.iter().take(SHOWN_FRAMES);
            for (index, frame) in frames.enumerate() {
                page.line(if index == 0 { "trace" } else { "" }, frame);
            }
        }
    }
    print(&page.0)
}

/// Shows the title of a crash, and what else identifies it.
pub fn show(signature: &Signature, page: &mut Page) {
    page.line("crash", &signature.title);
    if signature.corrupted {
        page.line("", "the report is corrupted: the title may be wrong");
    }
    for title in &signature.alternative_titles {
        page.line("", &format!("or: {title}"));
    }
    page.optional("signature", signature.fingerprint.as_deref());
}
