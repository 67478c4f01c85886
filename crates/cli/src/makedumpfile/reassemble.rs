//! `--reassemble`: joins the parts of a split dump.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_format::codec::{Codec, Compression};
use bigiron_format::kdump::{KdumpHeaders, flags_of_codec};
use bigiron_helpers::Stop;
use bigiron_kernel::source::DumpFile;

use super::create::{Maker, print_summary};
use super::dump_file::check_dump_file;
use super::input;
use super::job::Target;
use super::settings::Settings;

/// Makes one dump of all pages of the parts, with the same compression.
pub fn run(settings: &Settings, parts: &[PathBuf], dumpfile: &Path) -> anyhow::Result<()> {
    check_dump_file(settings, dumpfile)?;
    let headers = parts.iter().map(|path| headers(path));
    let headers: Vec<KdumpHeaders> = headers.collect::<Result<_, _>>()?;
    check_ranges(&headers)?;
    let opened = input::open(settings, parts)?;
    let subject = input::subject(settings, &opened, &None)?;
    let maker = Maker {
        settings,
        subject: &subject,
        source: opened.path().to_owned(),
        compression: compression(&headers),
        stop: Stop::new(),
    };
    let summary = maker.make(&Target::File(dumpfile.to_owned()))?;
    print_summary(settings, &summary);
    let name = dumpfile.display();
    let messages = settings.messages;
    messages.common(&format!("\nThe dumpfile is saved to {name}.\n"));
    Ok(())
}

fn headers(path: &Path) -> anyhow::Result<KdumpHeaders> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("Can't open a file({})", name()))?;
    let file = DumpFile::from_file(file, path.to_owned())?;
    KdumpHeaders::read(&file).with_context(name)
}

/// Checks that the parts together have all page frames.
fn check_ranges(headers: &[KdumpHeaders]) -> anyhow::Result<()> {
    let mut ranges: Vec<_> = headers.iter().filter_map(|header| header.split).collect();
    ranges.sort_unstable();
    let end = headers.first().map_or(0, |header| header.end_frame);
    let mut covered = 0;
    for (start, stop) in ranges {
        if start > covered {
            break;
        }
        covered = covered.max(stop);
    }
    anyhow::ensure!(
        covered >= end,
        "There is not dumpfile corresponding to pfn 0x{covered:x} - 0x{end:x}"
    );
    Ok(())
}

/// Returns the codec of the parts; if there are several, the one with the best ratio.
fn compression(headers: &[KdumpHeaders]) -> Compression {
    let flags = headers.iter().fold(0, |flags, h| flags | h.codec_flags);
    let by_size = [Codec::Zstd, Codec::Zlib, Codec::Lzo, Codec::Snappy];
    let found = by_size
        .into_iter()
        .find(|codec| flags & flags_of_codec(*codec) != 0);
    Compression::new(found.unwrap_or(Codec::None))
}
