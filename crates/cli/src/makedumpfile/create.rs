//! Makes a dump.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use bigiron_dump::{
    DumpError, DumpOptions, DumpOutput, Format, OutputTarget, Progress, Subject, Summary, dump,
};
use bigiron_format::codec::Compression;
use bigiron_helpers::{Stop, processor_count};
use bigiron_kernel::{DumpLevel, Kernel};

use super::dump_file::check_dump_file;
use super::job::Target;
use super::settings::Settings;
use super::{input, progress, report, vtop};
use crate::arguments::OnlineCpus;
use crate::{online_cpus, source};
use crate::{signals, watchdog};

/// Time without progress after which a message names what the dump is waiting for.
const STALL_INTERVAL: Duration = Duration::from_secs(10);

/// Makes the dump that the options describe.
pub fn run(settings: &Settings, vmcore: &[PathBuf], target: &Target) -> anyhow::Result<()> {
    for path in target.paths() {
        check_dump_file(settings, path)?;
    }
    let opened = Arc::new(input::open(settings, vmcore)?);
    let dom0 = input::dom0(settings, &opened)?;
    let threads = settings.threads.and_then(|n| u16::try_from(n).ok());
    online_cpus::bring_up(OnlineCpus::Auto, vmcore, threads, true);
    let subject = if settings.config.is_some() || settings.vtop.is_some() {
        let mut kernel = input::kernel(settings, &opened)?;
        if let Some(config) = &settings.config {
            erase(settings, &mut kernel, config)?;
        }
        if let Some(address) = settings.vtop {
            settings.messages.common(&vtop::text(&kernel, address)?);
        }
        Subject::from(kernel)
    } else {
        input::subject(settings, &opened, &dom0)?
    };
    let before = opened.memory().dump_level();
    let asked = settings.levels.first().copied().unwrap_or_default();
    if before & !asked.number() != 0 {
        settings.messages.common(&format!(
            "dump_level is changed to {}, because {} was created by dump_level({before}).\n",
            asked.number() | before,
            opened.path().display(),
        ));
    }
    let maker = Maker {
        settings,
        subject: &subject,
        source: opened.path().to_owned(),
        compression: settings.compression,
        stop: Stop::new(),
    };
    let summary = maker
        .make(target)
        .map_err(|error| source::name_error(error, opened.path()))?;
    print_summary(settings, &summary);
    settings.messages.common(&format!("\n{}", target.saved()));
    Ok(())
}

/// Erases the data named by the commands in `config`. Commands that match nothing are skipped,
/// as in makedumpfile.
fn erase(settings: &Settings, kernel: &mut Kernel, config: &Path) -> anyhow::Result<()> {
    let commands = crate::erase::read(config)
        .with_context(|| format!("Can't open config file({})", config.display()))?;
    let erasure = crate::erase::find(kernel, &commands, settings.vmlinux.as_deref())?;
    let messages = settings.messages;
    for problem in &erasure.problems {
        messages.error(&format!(
            "Config error at {}: {}",
            problem.line, problem.text
        ));
    }
    if !erasure.problems.is_empty() {
        messages.notice(&format!(
            "{} of the commands in {} erase nothing, or only part of the data that they name",
            erasure.problems.len(),
            config.display()
        ));
    }
    messages.debug(&erasure.info);
    kernel.erase(erasure);
    Ok(())
}

/// Prints warnings and statistics.
pub fn print_summary(settings: &Settings, summary: &Summary) {
    for warning in &summary.warnings {
        settings.messages.notice(warning);
    }
    settings.messages.report(&report::statistics(summary));
}

impl Target {
    fn paths(&self) -> &[PathBuf] {
        match self {
            Self::File(path) => std::slice::from_ref(path),
            Self::Stdout => &[],
            Self::Split(paths) => paths,
        }
    }

    fn saved(&self) -> String {
        match self {
            Self::File(path) => format!("The dumpfile is saved to {}.\n", path.display()),
            Self::Stdout => "The dumpfile is saved to STDOUT.\n".into(),
            Self::Split(paths) => {
                let names: Vec<_> = paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                let (last, others) = names
                    .split_last()
                    .map_or(("", &[][..]), |(last, others)| (last.as_str(), others));
                format!(
                    "The dumpfiles are saved to {}, and {last}.\n",
                    others.join(", ")
                )
            }
        }
    }
}

/// Makes dumps of one subject.
pub struct Maker<'a, 's> {
    pub settings: &'a Settings,
    pub subject: &'a Subject<'s>,
    /// Name of the source, for messages.
    pub source: PathBuf,
    pub compression: Compression,
    /// Set by a signal, and by a dump that fails.
    pub stop: Stop,
}

impl Maker<'_, '_> {
    /// Makes a dump at the first level at which it fits.
    pub fn make(&self, target: &Target) -> anyhow::Result<Summary> {
        signals::watch(&self.stop)?;
        let messages = self.settings.messages;
        let mut levels = self.settings.levels.iter().copied();
        let mut level = levels.next().unwrap_or_default();
        loop {
            // Data written to standard output cannot be discarded.
            let next = match target {
                Target::Stdout => None,
                _ => levels.next(),
            };
            let error = match self.once(target, level, next.is_some()) {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            let is_full = error.is_output_full();
            if is_full {
                messages.common(&self.why_full(&error));
            }
            let Some(next) = next.filter(|_| is_full) else {
                self.tell_incomplete(target, &error);
                return Err(error.into());
            };
            messages.common(&format!(
                "Retry to create a dumpfile by dump_level({}).\n",
                next.number()
            ));
            self.stop.flag().store(false, Ordering::Relaxed);
            level = next;
        }
    }

    /// Makes one dump at one level; with `again`, a dump that does not fit is discarded.
    pub fn once(
        &self,
        target: &Target,
        level: DumpLevel,
        again: bool,
    ) -> Result<Summary, DumpError> {
        let settings = self.settings;
        let options = DumpOptions {
            level,
            owners: input::owners(settings),
            without_struct_pages: settings.exclude_vmemmap,
            threads: settings.threads.unwrap_or_else(processor_count),
            io: input::io_method(settings),
            overwrite: settings.force,
            size_limit: settings.size_limit,
            discard_if_full: again,
            names_incomplete: matches!(target, Target::File(_)),
            ..DumpOptions::default()
        };
        let progress = Arc::new(Progress::new());
        let shown = settings
            .messages
            .shows_progress()
            .then(|| progress::begin(&progress));
        let watched = watchdog::begin(
            &progress,
            STALL_INTERVAL,
            self.source.display().to_string(),
            target.paths().first().map_or_else(
                || "standard output".into(),
                |path| path.display().to_string(),
            ),
        );
        let output = self.output(target);
        let summary = dump(self.subject, &output, &options, &progress, &self.stop);
        drop((shown, watched));
        summary
    }

    fn output(&self, target: &Target) -> DumpOutput {
        let settings = self.settings;
        let compression = self.compression.into();
        let target = match target {
            _ if settings.dry_run => OutputTarget::Nowhere,
            Target::File(path) => OutputTarget::File(path.clone()),
            Target::Stdout => OutputTarget::Stdout,
            Target::Split(paths) => {
                let page_size = 1 << self.subject.source().page_shift();
                return DumpOutput::Split {
                    compression,
                    granule: (settings.splitblock_kib << 10).div_ceil(page_size),
                    files: paths.clone(),
                };
            }
        };
        let flattened = target == OutputTarget::Stdout;
        let format = match settings.elf {
            true => Format::Elf { flattened },
            false => Format::Kdump {
                compression,
                flattened,
            },
        };
        DumpOutput::whole(format, target)
    }

    fn why_full(&self, error: &DumpError) -> String {
        let DumpError::Write { path, cause, .. } = error else {
            return String::new();
        };
        let why = match (self.settings.size_limit, cause.kind()) {
            (Some(limit), io::ErrorKind::FileTooLarge) => format!("Size limit({limit}) reached."),
            (_, io::ErrorKind::StorageFull) => "No space left on device".into(),
            _ => cause.to_string(),
        };
        format!("\nCan't write the dump file({}). {why}\n", path.display())
    }

    /// Tells that an unfinished dump has its final name, where callers of makedumpfile look for it.
    fn tell_incomplete(&self, target: &Target, error: &DumpError) {
        if let DumpError::Write { kept, .. } | DumpError::Interrupted { kept } = error
            && let (Some(kept), Target::File(path)) = (kept, target)
            && kept == path
        {
            self.settings
                .messages
                .common("This is an incomplete dumpfile, but might analyzable.\n");
        }
    }
}
