//! The outputs of a dump: one file, or the parts that it is split into or striped over.

use std::path::PathBuf;

use clap::error::ErrorKind;

use super::compression::CompressionArgument;
use super::dump_options::{DumpArguments, DumpOptionArgs, LiveArguments};
use super::format::Format;
#[cfg(feature = "objects")]
use crate::objects;

impl DumpArguments {
    /// Returns the sources, and the output or all parts.
    pub fn split_paths(&self) -> (&[PathBuf], &[PathBuf]) {
        match self.how.parts() {
            [] => self.paths.split_at(self.paths.len().saturating_sub(1)),
            parts => (&self.paths, parts),
        }
    }
}

impl LiveArguments {
    /// Returns the output or all parts.
    pub fn outputs(&self) -> &[PathBuf] {
        match &self.output {
            Some(output) => std::slice::from_ref(output),
            None => self.how.parts(),
        }
    }
}

impl DumpOptionArgs {
    /// Returns the output format.
    pub fn format(&self) -> Format {
        let usual = match self.stripe.is_empty() {
            true => Format::Kdump,
            false => Format::Vmdump,
        };
        self.format.unwrap_or(usual)
    }

    /// Returns the format of a dump in `outputs`. An object is written as a stream: a vmdump is the
    /// same as in a file, and a kdump-compressed dump would be flattened, without an index.
    pub fn format_in(&self, outputs: &[PathBuf]) -> Format {
        #[cfg(feature = "objects")]
        if self.format.is_none() && outputs.iter().any(|output| objects::is_object(output)) {
            return Format::Vmdump;
        }
        let _ = outputs;
        self.format()
    }

    /// Returns the parts of a split or striped dump; empty for a single output.
    pub fn parts(&self) -> &[PathBuf] {
        match self.split.is_empty() {
            true => &self.stripe,
            false => &self.split,
        }
    }

    /// Returns true if the last source of a dump in parts was meant as its output.
    pub fn has_output(&self, sources: &[PathBuf]) -> bool {
        let is_there = |path: &PathBuf| path.as_os_str() == "-" || path.exists();
        match sources {
            [_, .., last] => !self.parts().is_empty() && !is_there(last),
            _ => false,
        }
    }

    pub fn wrong_stripe(&self) -> Option<(ErrorKind, &'static str)> {
        let files = &self.stripe;
        let is_double = |(at, file): (usize, &PathBuf)| files[..at].contains(file);
        if files.is_empty() {
            None
        } else if self.format() != Format::Vmdump {
            let text = "--stripe writes a vmdump; it cannot be combined with another --format";
            Some((ErrorKind::ArgumentConflict, text))
        } else if self.compress == CompressionArgument::Bzip2 {
            let text = "--stripe requires -c zstd[:LEVEL]: a bzip2 stream does not record its \
                        position, which is needed if the end of a file is lost";
            Some((ErrorKind::ArgumentConflict, text))
        } else if files.len() < 2 {
            let text = "--stripe requires at least two files or devices: --stripe A,B";
            Some((ErrorKind::TooFewValues, text))
        } else if files.iter().enumerate().any(is_double) {
            Some((ErrorKind::ValueValidation, "--stripe names a file twice"))
        } else if files.iter().any(|file| file.as_os_str() == "-") {
            let text = "--stripe requires files or devices; - is standard output";
            Some((ErrorKind::ValueValidation, text))
        } else {
            None
        }
    }

    pub fn wrong_split(&self) -> Option<(ErrorKind, &'static str)> {
        let files = &self.split;
        let is_double = |(at, file): (usize, &PathBuf)| files[..at].contains(file);
        if files.is_empty() {
            None
        } else if self.format() != Format::Kdump {
            let text = "--split writes kdump-compressed files; it cannot be combined with another --format";
            Some((ErrorKind::ArgumentConflict, text))
        } else if files.len() < 2 {
            let text = "--split requires at least two files: --split A,B";
            Some((ErrorKind::TooFewValues, text))
        } else if files.iter().enumerate().any(is_double) {
            Some((ErrorKind::ValueValidation, "--split names a file twice"))
        } else if files.iter().any(|file| file.as_os_str() == "-") {
            let text = "--split requires files; - is standard output";
            Some((ErrorKind::ValueValidation, text))
        } else {
            None
        }
    }
}
