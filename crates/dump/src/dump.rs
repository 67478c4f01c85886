//! Makes dumps: opens the parts, chooses the format's writer, and summarizes.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use bigiron_format::device::ContentsKind;
use bigiron_helpers::Stop;
use bigiron_kernel::Kernel;

use crate::device::refused;
use crate::driver;
use crate::elf::ElfWriter;
use crate::encryption::Recipients;
use crate::error::DumpError;
use crate::first_report::first_report;
use crate::format::{DumpOutput, Format, OutputTarget};
use crate::job::DumpJob;
use crate::kdump::KdumpWriter;
use crate::memory_needs::memory_needed;
use crate::options::{DumpOptions, Unsaved};
use crate::output::{
    DeviceOutput, DiscardedOutput, FileOutput, Output, Part, Sink, StreamEncoding, StreamOutput,
};
use crate::progress::Progress;
use crate::stripe_check::check_stripes;
use crate::subject::Subject;
use crate::summary::{Summary, peak_memory};
use crate::vmdump::VmdumpWriter;

/// Below this budget, which is by default a quarter of the free memory, there is no memory for
/// the page cache of a dump either.
const SCARCE_MEMORY: u64 = 256 << 20;

/// Makes a dump of `subject`. The parts of a split or striped dump are written at the
/// same time.
///
/// # Errors
/// What an interrupted or failed dump has written stays under temporary names, unless it holds no
/// page.
pub fn dump(
    subject: &Subject,
    output: &DumpOutput,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let targets = output.targets();
    if let DumpOutput::Striped { targets, .. } = output {
        check_stripes(targets)?;
    }
    let granule = match output {
        DumpOutput::Split { granule, .. } => *granule,
        _ => 1,
    };
    let shape = Shape {
        format: output.format(),
        parts: targets.len(),
        granule,
        is_stream: output.recipients().is_some() || targets.iter().any(OutputTarget::is_stream),
    };
    let (job, mut summary) = prepare(subject, &shape, options, progress, stop)?;
    if options.source_is_here {
        for target in &targets {
            if let OutputTarget::Device(path) = target {
                DeviceOutput::check_is_apart(path, subject.source())?;
            }
        }
    }
    let opener = Opener {
        subject,
        format: &shape.format,
        recipients: output.recipients(),
        options,
        progress,
        stop,
    };
    let parts = opener.open_all(&targets, &mut summary.warnings)?;
    write(&job, &shape, &parts, summary)
}

/// Makes a dump of `subject` in a file that the caller names, and removes if the dump
/// fails.
pub fn dump_into(
    subject: &Subject,
    file: FileOutput,
    format: Format,
    options: &DumpOptions,
    progress: &Progress,
    stop: &Stop,
) -> Result<Summary, DumpError> {
    let shape = Shape {
        format,
        parts: 1,
        granule: 1,
        is_stream: false,
    };
    let (job, summary) = prepare(subject, &shape, options, progress, stop)?;
    let path = file.kept().unwrap_or_default();
    let part = Part::new(path, Box::new(file), options, progress, stop);
    write(&job, &shape, &[part], summary)
}

/// Properties of a dump that do not depend on where its parts are.
struct Shape {
    format: Format,
    parts: usize,
    /// Parts of a split dump begin at multiples of this number of page frames.
    granule: u64,
    /// Parts are written sequentially.
    is_stream: bool,
}

/// Prepares everything that can fail before the outputs are opened.
fn prepare<'a, 's>(
    subject: &'a Subject<'s>,
    shape: &Shape,
    options: &'a DumpOptions,
    progress: &'a Progress,
    stop: &'a Stop,
) -> Result<(DumpJob<'a, 's>, Summary), DumpError> {
    let format = shape.format;
    if options.without_struct_pages && subject.source().is_live() {
        return Err(DumpError::Layout(
            "the running kernel excludes other pages a moment later, so that their struct pages \
             cannot be left out; use --struct-pages all"
                .into(),
        ));
    }
    let is_stream = shape.is_stream || format.is_flattened();
    let (shared, per_helper) = memory_needed(&format, shape.parts, is_stream, options);
    let helpers = options.memory.helpers(options.threads, shared, per_helper);
    let filter_error = DumpError::filter(options.level);
    let mut filter = subject
        .filter(options.level, options.owners)
        .map_err(&filter_error)?;
    if !options.optimizations.scan_blocks {
        filter.exact_only();
    }
    if matches!(format, Format::Kdump { .. }) {
        filter.end_at_mem_map().map_err(&filter_error)?;
    }
    let mut summary = Summary {
        page_size: 1 << subject.source().page_shift(),
        end_frame: filter.end_frame(),
        helpers,
        zero_excluded: options.level.excludes_zero(),
        warnings: subject
            .warning()
            .map(ToOwned::to_owned)
            .into_iter()
            .collect(),
        ..Summary::default()
    };
    if let Some(rules) = subject.kernel().and_then(Kernel::rules) {
        summary.warnings.extend(rules.warnings());
    }
    if helpers < options.threads {
        summary.warnings.push(format!(
            "{helpers} helpers instead of {}: more do not fit into the memory limit",
            options.threads
        ));
    }
    if let Some(error) = filter.blind() {
        let warning = format!("cannot tell poisoned pages from others: {error}");
        summary.warnings.push(warning);
    }
    if options.without_struct_pages && !filter.has_struct_pages() {
        let warning = "all struct pages are kept, since none is read";
        summary.warnings.push(warning.into());
    }
    let job = DumpJob {
        subject,
        filter,
        options,
        progress,
        stop,
        helpers,
        has_spare: options.memory.helpers(helpers + 1, shared, per_helper) > helpers,
        drops_zero_pages: matches!(format, Format::Elf { .. }) && options.level.excludes_zero(),
    };
    Ok((job, summary))
}

/// Writes the dump to `parts`.
fn write(
    job: &DumpJob,
    shape: &Shape,
    parts: &[Part],
    mut summary: Summary,
) -> Result<Summary, DumpError> {
    match shape.format {
        Format::Kdump { compression, .. } => {
            let writer = KdumpWriter::new(job, parts, compression, shape.granule);
            driver::write(job, parts, writer, &mut summary)?;
        }
        Format::Elf { .. } => {
            driver::write(job, parts, ElfWriter::new(job, parts), &mut summary)?;
        }
        Format::Vmdump(compression) => {
            let writer = VmdumpWriter::new(job, parts, compression);
            driver::write(job, parts, writer, &mut summary)?;
        }
    }
    summary.bytes_out = job.progress.written();
    summary.cache = job.subject.cache_statistics();
    summary.peak_memory = peak_memory();
    Ok(summary)
}

/// Opens the parts of a dump.
struct Opener<'a, 'o, 's> {
    subject: &'o Subject<'s>,
    format: &'o Format,
    recipients: Option<&'o Recipients>,
    options: &'a DumpOptions,
    progress: &'a Progress,
    stop: &'a Stop,
}

impl<'a> Opener<'a, '_, '_> {
    /// Opens all parts or none of them.
    fn open_all(
        &self,
        targets: &[OutputTarget],
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Part<'a>>, DumpError> {
        if targets.len() > 1 {
            if self.options.unsaved == Unsaved::Followed {
                let what = "--keep both is for a dump on one device";
                return Err(DumpError::Layout(what.into()));
            }
            for target in targets {
                if let OutputTarget::Device(path) = target {
                    DeviceOutput::check(path, self.options)?;
                }
            }
        }
        let mut parts: Vec<Part> = Vec::with_capacity(targets.len());
        for target in targets {
            let output = self.open(target, warnings).inspect_err(|_| {
                parts.iter().for_each(Part::discard);
            })?;
            let path = target.name().to_owned();
            parts.push(Part::new(
                path,
                output,
                self.options,
                self.progress,
                self.stop,
            ));
        }
        Ok(parts)
    }

    fn open(
        &self,
        target: &OutputTarget,
        warnings: &mut Vec<String>,
    ) -> Result<Box<dyn Output>, DumpError> {
        let is_scarce = self.options.memory.bytes() < SCARCE_MEMORY;
        let direct = self.options.optimizations.direct_writes && is_scarce;
        let sequential = self.recipients.is_some() || self.format.is_flattened();
        let sink = match target {
            OutputTarget::Nowhere => return Ok(Box::new(DiscardedOutput)),
            OutputTarget::Stdout => Sink::stdout(stdout(target.name())?),
            OutputTarget::Taker(taker) => {
                let taker = taker.begin();
                Sink::taker(taker.map_err(DumpError::output(target.name(), "use it", ""))?)
            }
            OutputTarget::File(path) => {
                let mut file = FileOutput::create(path, self.options.overwrite)?;
                warnings.extend(file.warnings());
                if !sequential {
                    if direct {
                        file = file.past_page_cache();
                    }
                    return Ok(Box::new(file));
                }
                Sink::file(file)
            }
            OutputTarget::Device(path) => {
                let mut device = self.begin_device(path)?;
                warnings.extend(device.replaces().map(ToOwned::to_owned));
                if !sequential {
                    // The page cache of a device in memory would be a second copy.
                    if direct || self.options.optimizations.direct_writes && device.is_memory() {
                        device = device.past_page_cache();
                    }
                    return Ok(Box::new(device));
                }
                Sink::device(device)
            }
        };
        let encoding = match self.format {
            Format::Kdump { .. } | Format::Elf { flattened: true } => StreamEncoding::Flattened,
            Format::Elf { flattened: false } | Format::Vmdump(_) => StreamEncoding::Plain,
        };
        let stream = match self.recipients {
            Some(recipients) => sink.encrypted(recipients),
            None => Ok(sink),
        };
        let stream = stream.and_then(|sink| StreamOutput::begin(sink, encoding));
        Ok(Box::new(stream.map_err(DumpError::write(target.name()))?))
    }

    fn begin_device(&self, path: &Path) -> Result<DeviceOutput, DumpError> {
        let kind = match self.format {
            format if format.is_flattened() => {
                let reason = "the flattened format is for pipes; a dump device takes -f kdump, vmdump or elf";
                return Err(refused(path, reason));
            }
            _ if self.recipients.is_some() => ContentsKind::Encrypted,
            Format::Kdump { .. } => ContentsKind::Kdump,
            Format::Elf { .. } => ContentsKind::Elf,
            Format::Vmdump(_) => ContentsKind::Vmdump,
        };
        // An encrypted dump has nothing in the clear.
        let kernel = self.subject.kernel();
        let kernel = kernel.filter(|_| self.recipients.is_none());
        let report = |max| kernel.map_or_else(Vec::new, |kernel| first_report(kernel, max));
        DeviceOutput::begin(path, kind, self.subject.utsname(), self.options, report)
    }
}

fn stdout(name: &Path) -> Result<File, DumpError> {
    let stdout = io::stdout().as_fd().try_clone_to_owned();
    let stdout = stdout.map_err(DumpError::output(name, "use it", ""))?;
    Ok(File::from(stdout))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use std::num::NonZeroU64;
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use bigiron_kernel::{DumpLevel, IoMethod, Kernel, Source};
    use bigiron_synth::{ElfShape, Synth};

    use super::*;
    use crate::progress::Phase;

    /// Calls to an output, other than writes.
    type Calls = Arc<Mutex<Vec<&'static str>>>;

    /// An output that stores nothing and records calls.
    struct RecordingOutput {
        calls: Calls,
        /// The disk is full when the output is finished.
        full_at_the_end: bool,
    }

    impl RecordingOutput {
        fn record(&self, call: &'static str) {
            self.calls.lock().unwrap().push(call);
        }
    }

    impl Output for RecordingOutput {
        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn make_zero(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn is_stream(&self) -> bool {
            false
        }
        fn flush_behind(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn finish(&self) -> io::Result<()> {
            if self.full_at_the_end {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.record("finish");
            Ok(())
        }
        fn take_back(&self) {
            self.record("take back");
        }
        fn kept(&self) -> Option<PathBuf> {
            Some("kept".into())
        }
        fn discard(&self) {
            self.record("discard");
        }
        fn as_file(&self) -> Option<&FileOutput> {
            None
        }
    }

    /// Result of a split dump to parts `a`, `b` and `c`.
    struct Outcome {
        result: Result<Summary, DumpError>,
        phase: Phase,
        written: u64,
        paced: u64,
        calls: [Vec<&'static str>; 3],
    }

    /// Makes a split dump; the disk of part `full` is full at the end.
    fn split(options: &DumpOptions, full: Option<usize>) -> Outcome {
        let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x3fff\npages 0x1000 anon n=8 fill=random:7\n";
        let core = Synth::from_text(text).unwrap().elf(&ElfShape::vmcore());
        let source = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        let kernel = Kernel::find(&source, None, IoMethod::Read, 16).unwrap();
        let subject = Subject::from(kernel);
        let (progress, stop) = (Progress::new(), Stop::new());
        let calls: [Calls; 3] = Default::default();
        let shape = Shape {
            format: Format::default(),
            parts: calls.len(),
            granule: 1,
            is_stream: false,
        };
        let open = |index: usize| {
            let output = RecordingOutput {
                calls: Arc::clone(&calls[index]),
                full_at_the_end: full == Some(index),
            };
            let path = ["a", "b", "c"][index].into();
            Part::new(path, Box::new(output), options, &progress, &stop)
        };
        let parts: Vec<_> = (0..calls.len()).map(open).collect();
        let (job, summary) = prepare(&subject, &shape, options, &progress, &stop).unwrap();
        let result = write(&job, &shape, &parts, summary);
        Outcome {
            result,
            phase: progress.phase(),
            written: progress.written(),
            paced: parts.iter().map(Part::paced_bytes).sum(),
            calls: calls.map(|calls| calls.lock().unwrap().clone()),
        }
    }

    fn options() -> DumpOptions {
        DumpOptions {
            level: DumpLevel::new(1).unwrap(),
            threads: 2,
            ..DumpOptions::default()
        }
    }

    #[test]
    fn split_dump_with_full_last_disk_takes_back_all_names() {
        let outcome = split(&options(), Some(2));
        let error = outcome.result.unwrap_err();
        assert!(error.is_output_full());
        assert!(error.to_string().starts_with("c: cannot write"), "{error}");
        let taken_back = vec!["finish", "take back"];
        assert_eq!(outcome.calls, [taken_back.clone(), taken_back, vec![]]);
    }

    #[test]
    fn split_dump_paces_bitmaps_and_headers_too() {
        let options = DumpOptions {
            write_limit: NonZeroU64::new(u64::MAX),
            ..options()
        };
        let outcome = split(&options, None);
        outcome.result.unwrap();
        assert!(outcome.written > 0);
        assert_eq!(outcome.paced, outcome.written);
        assert_eq!(outcome.calls, [["finish"]; 3]);
    }

    #[test]
    fn size_limit_of_a_split_dump_covers_bitmaps() {
        let options = DumpOptions {
            size_limit: NonZeroU64::new(4096),
            ..options()
        };
        let outcome = split(&options, None);
        assert!(outcome.result.unwrap_err().is_output_full());
        assert_eq!(outcome.phase, Phase::Filtering);
        assert_eq!(outcome.calls, [["discard"]; 3]);
    }
}
