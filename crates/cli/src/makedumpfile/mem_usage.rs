//! `--mem-usage`: counts pages by kind.

use std::path::PathBuf;

use bigiron_dump::Subject;
use bigiron_format::codec::{Codec, Compression};
use bigiron_helpers::Stop;
use bigiron_kernel::DumpLevel;

use super::create::Maker;
use super::job::Target;
use super::settings::Settings;
use super::{input, report};
use crate::signals;

/// Counts pages as a dump at level 31 does, and writes no dump.
pub fn run(settings: &Settings, vmcore: &[PathBuf]) -> anyhow::Result<()> {
    let opened = input::open(settings, vmcore)?;
    let subject = Subject::from(input::kernel(settings, &opened)?);
    let mut counting = Settings::new();
    counting.dry_run = true;
    counting.messages = settings.messages;
    counting.threads = settings.threads;
    // /proc/kcore cannot be mapped.
    counting.non_mmap = true;
    let stop = Stop::new();
    signals::watch(&stop)?;
    let maker = Maker {
        settings: &counting,
        subject: &subject,
        source: opened.path().to_owned(),
        compression: Compression::new(Codec::None),
        stop,
    };
    let summary = maker.once(&Target::File(PathBuf::new()), DumpLevel::MAX, false)?;
    for warning in &summary.warnings {
        settings.messages.notice(warning);
    }
    settings.messages.common(&report::usage(&summary));
    Ok(())
}
