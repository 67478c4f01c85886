//! Attempts of a dump: at the levels of `-d N,M` in turn, and at the next output, until one fits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bigiron_dump::{DumpError, DumpOptions, DumpOutput, Progress, Subject, Summary, dump};
use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;

use crate::tell::tell;
use crate::{progress, signals, timeout, watchdog};

/// An output, and its name for messages.
pub struct NamedOutput {
    /// The output.
    pub output: DumpOutput,
    /// Its file or device, or all of its parts.
    pub name: String,
}

impl NamedOutput {
    /// Names `output` by its `paths`.
    pub fn new(output: DumpOutput, paths: &[PathBuf]) -> Self {
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Self {
            output,
            name: names.join(", "),
        }
    }

    /// True if what was written cannot be discarded.
    fn is_stream(&self) -> bool {
        self.name == "-"
    }
}

/// A dump that was made.
pub struct Made<'o> {
    /// The output that has it.
    pub output: &'o DumpOutput,
    /// The options with the level that fitted.
    pub options: DumpOptions,
    /// Its summary.
    pub summary: Summary,
}

/// What all attempts share.
pub struct Attempts<'a, 's> {
    /// The subject of the dump.
    pub subject: &'a Subject<'s>,
    /// Name of the source, for messages.
    pub source: String,
    /// Dump levels in the order in which they are tried; not empty.
    pub levels: Vec<DumpLevel>,
    /// Options other than the level.
    pub options: DumpOptions,
    /// Time without progress before a warning.
    pub stall_warning: Duration,
    /// Shows no progress.
    pub quiet: bool,
    /// Set by a signal, and by a dump that fails.
    pub stop: &'a Stop,
}

impl Attempts<'_, '_> {
    /// Makes the dump in the first output that takes it, at the first level at which it fits
    /// there. A warning tells of each attempt that failed.
    ///
    /// # Errors
    /// The last attempt's. What it wrote is kept; an attempt that did not fit left nothing.
    pub fn make<'o>(&self, outputs: &'o [NamedOutput]) -> Result<Made<'o>, DumpError> {
        let mut error = DumpError::Layout("there is no output".into());
        for (number, named) in outputs.iter().enumerate() {
            let next = outputs.get(number + 1);
            error = match self.at_levels(named, next) {
                Err(error) if next.is_some() && error.is_of_output() => error,
                result => return result,
            };
        }
        Err(error)
    }

    fn at_levels<'o>(
        &self,
        named: &'o NamedOutput,
        next_output: Option<&NamedOutput>,
    ) -> Result<Made<'o>, DumpError> {
        let mut levels = self.levels.iter().copied();
        let mut level = levels.next().unwrap_or_default();
        loop {
            let next = levels.next().filter(|_| !named.is_stream());
            let options = DumpOptions {
                level,
                discard_if_full: next.is_some() || next_output.is_some(),
                ..self.options.clone()
            };
            let error = match self.once(named, &options) {
                Ok(summary) => {
                    return Ok(Made {
                        output: &named.output,
                        options,
                        summary,
                    });
                }
                Err(error) => error,
            };
            let then = match (next, next_output) {
                (Some(next), _) if error.is_output_full() => format!("-d {}", next.number()),
                (_, Some(output)) if error.is_of_output() => output.name.clone(),
                _ => return Err(error),
            };
            if signals::received() || timeout::has_expired() {
                return Err(error);
            }
            tell!("bigiron: warning: {error}; trying {then}");
            // A failed dump stops its helpers by the same flag.
            self.stop.flag().store(false, Ordering::Relaxed);
            match next.filter(|_| error.is_output_full()) {
                Some(next) => level = next,
                None => return Err(error),
            }
        }
    }

    fn once(&self, named: &NamedOutput, options: &DumpOptions) -> Result<Summary, DumpError> {
        let progress = Arc::new(Progress::new());
        let name = match named.is_stream() {
            true => "standard output".into(),
            false => named.name.clone(),
        };
        let watchdog = watchdog::begin(&progress, self.stall_warning, self.source.clone(), name);
        let page_size = 1 << self.subject.source().page_shift();
        let display = progress::begin(&progress, page_size, self.quiet);
        let result = dump(self.subject, &named.output, options, &progress, self.stop);
        drop((display, watchdog));
        result
    }
}
