//! `-R`: rearranges the flattened stream on standard input to a file.

use std::io;
use std::path::Path;

use anyhow::Context;
use bigiron_dump::{FileOutput, Output};
use bigiron_format::flattened;

use super::dump_file::check_dump_file;
use super::settings::Settings;

/// Writes each record at its offset. The readable part of a truncated stream is kept.
pub fn run(settings: &Settings, dumpfile: &Path) -> anyhow::Result<()> {
    check_dump_file(settings, dumpfile)?;
    let failed = || format!("Can't open the dump file({})", dumpfile.display());
    let mut input = io::stdin().lock();
    let unpacked = if settings.dry_run {
        flattened::unpack(&mut input, |_, _| Ok(()))?
    } else {
        let output = FileOutput::create(dumpfile, settings.force).with_context(failed)?;
        let put = |offset, bytes: &[u8]| output.write_at(offset, bytes);
        match flattened::unpack(&mut input, put) {
            Ok(unpacked) if unpacked.bytes > 0 => {
                output.finish().with_context(failed)?;
                unpacked
            }
            result => {
                output.discard();
                result?
            }
        }
    };
    anyhow::ensure!(
        unpacked.complete,
        "the flattened stream on standard input ends after {} records without an end record: it \
         is truncated",
        unpacked.records
    );
    let name = dumpfile.display();
    let messages = settings.messages;
    messages.common(&format!("\nThe dumpfile is saved to {name}.\n"));
    Ok(())
}
