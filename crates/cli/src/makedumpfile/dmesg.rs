//! `--dump-dmesg`: writes the kernel log to a file.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use bigiron_kernel::printk::Log;

use super::dump_file::check_dump_file;
use super::input;
use super::settings::Settings;

/// Writes the log. Output written before an error is kept.
pub fn run(settings: &Settings, vmcore: &[PathBuf], logfile: &Path) -> anyhow::Result<()> {
    check_dump_file(settings, logfile)?;
    let opened = input::open(settings, vmcore)?;
    let kernel = input::kernel(settings, &opened)?;
    let log = Log::open(&kernel).with_context(|| opened.path().display().to_string())?;
    let name = logfile.display();
    let failed = || format!("Can't write the log file({name})");
    let output = FileOutput::create(logfile, settings.force).with_context(failed)?;
    let limited = Limited {
        inner: output.file(),
        left: settings.size_limit.map_or(u64::MAX, Into::into),
    };
    let mut buffered = BufWriter::new(limited);
    let result = log.write_text(&mut buffered, settings.partial_dmesg);
    let flushed = buffered.flush();
    drop(buffered);
    output.finish().with_context(failed)?;
    let summary = result.with_context(failed)?;
    flushed.with_context(failed)?;
    for warning in summary.warnings() {
        settings.messages.notice(&warning.to_string());
    }
    let messages = settings.messages;
    messages.common(&format!("\nThe dmesg log is saved to {name}.\n"));
    Ok(())
}

/// A file with a maximum size.
struct Limited<'a> {
    inner: &'a std::fs::File,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        if fits == 0 && !bytes.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "the size limit is reached",
            ));
        }
        let written = self.inner.write(&bytes[..fits])?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
