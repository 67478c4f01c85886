//! The overview of a dump.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::printk::Log;
use bigiron_kernel::{Kernel, MemorySource, SECTION_FRAMES, SourceError, note_warnings};
use serde::Serialize;

use crate::crash::Crash;
use crate::log_facts::{LogFacts, LogReader};
use crate::signature::{self, Signature};

/// Maximum number of sections whose page frames are counted: 1 TiB of memory. Beyond, counting
/// would dominate the time.
const MAX_COUNTED_SECTIONS: usize = 8192;
/// Maximum number of notes listed.
const MAX_NOTES: usize = 4096;

/// The overview of a dump and its kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// The file.
    pub dump: DumpFacts,
    /// The kernel.
    pub kernel: KernelFacts,
    /// Its memory.
    pub memory: MemoryFacts,
    /// CPUs that saved their registers; `None` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
    /// Time of the crash: seconds since 1970, if recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash_time: Option<i64>,
    /// Why it stopped, according to its log; `None` without a log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// What crash it was; `None` if there was none.
    pub signature: Option<Signature>,
    /// Facts that could not be read.
    pub warnings: Vec<String>,
}

/// Facts about the file.
#[derive(Clone, Debug, Serialize)]
pub struct DumpFacts {
    /// Format.
    pub format: &'static str,
    /// Codecs of its pages; empty if uncompressed. Each page may have its own.
    pub codecs: Vec<&'static str>,
    /// Dump level, as makedumpfile -d; 0 is nothing excluded.
    pub dump_level: u8,
    /// True if the dump is complete.
    pub complete: bool,
    /// What is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// True for a dump of the running kernel.
    pub live: bool,
    /// What was erased, one line per command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<String>,
    /// The ELF notes.
    pub notes: Vec<NoteFacts>,
}

/// An ELF note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteFacts {
    /// Owner name.
    pub name: String,
    /// Type, as numbered by the owner.
    pub kind: u32,
    /// Size of the descriptor, in bytes.
    pub size: usize,
}

/// Facts about the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelFacts {
    /// System name: Linux.
    pub system: String,
    /// As `uname -r`.
    pub release: String,
    /// As `uname -v`.
    pub version: String,
    /// As `uname -m`.
    pub machine: String,
    /// Host name.
    pub host: String,
    /// Build id, by which debug symbols are found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// KASLR offset, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_by: Option<u64>,
}

/// Facts about memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryFacts {
    /// Page size, in bytes.
    pub page_size: u64,
    /// Physical address after the last page.
    pub end: u64,
    /// Page frames of RAM; `None` above 1 TiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Page frames whose data the file has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_in_dump: Option<u64>,
}

impl Overview {
    /// Collects the facts. What is not in the dump is missing; a damaged log is not an error.
    pub fn of(kernel: &Kernel) -> Self {
        Self::with_log_facts(kernel).0
    }

    /// Collects the facts, and what the log says besides.
    pub fn with_log_facts(kernel: &Kernel) -> (Self, LogFacts) {
        let source = kernel.source();
        let mut warnings = Vec::new();
        let mut reader = LogReader::default();
        let found = Log::open(kernel)
            .map_err(|error| error.to_string())
            .and_then(|log| {
                Crash::find_and(&log, &mut |record| reader.record(record))
                    .map_err(|error| error.to_string())
            });
        let crash = match found {
            Ok((crash, summary)) => {
                warnings.extend(summary.warnings());
                Some(crash)
            }
            Err(error) => {
                warnings.push(format!("the kernel log cannot be read: {error}"));
                None
            }
        };
        warnings.extend(source.warning().map(ToOwned::to_owned));
        warnings.extend(note_warnings(source, Some(kernel)));
        let cpus = source.notes().cpu_count();
        let overview = Self {
            dump: DumpFacts::of(kernel),
            kernel: KernelFacts::of(kernel),
            memory: MemoryFacts::of(source, &mut warnings),
            cpus: (cpus > 0).then_some(cpus),
            crash_time: crash_time(kernel),
            signature: signature::of_dump(reader.search(), crash.as_ref(), kernel),
            crash,
            warnings,
        };
        (overview, reader.into_facts())
    }
}

/// CRASHTIME, which the kernel appends when it crashes (crash_save_vmcoreinfo,
/// kernel/vmcore_info.c).
fn crash_time(kernel: &Kernel) -> Option<i64> {
    let time = kernel.info().value("CRASHTIME")?.trim();
    time.parse().ok().filter(|time| *time > 0)
}

impl DumpFacts {
    fn of(kernel: &Kernel) -> Self {
        let source = kernel.source();
        let erased = String::from_utf8_lossy(source.erase_info());
        let notes = source.notes().intact().take(MAX_NOTES);
        let notes = notes.map(|note| NoteFacts {
            name: String::from_utf8_lossy(note.name).into_owned(),
            kind: note.n_type,
            size: note.desc.len(),
        });
        Self {
            format: source.kind(),
            codecs: source.codecs(),
            dump_level: source.dump_level(),
            complete: kernel.damage().is_none(),
            damage: kernel.damage().map(str::to_owned),
            live: source.is_live() || is_marked_live(source),
            erased: erased.lines().map(str::to_owned).collect(),
            notes: notes.collect(),
        }
    }
}

fn is_marked_live(source: &dyn MemorySource) -> bool {
    source.notes().live_task().is_some()
}

impl KernelFacts {
    fn of(kernel: &Kernel) -> Self {
        let [system, host, release, version, machine, _] = kernel.utsname().names.clone();
        Self {
            system,
            release,
            version,
            machine,
            host,
            build_id: kernel.info().value("BUILD-ID").map(str::to_owned),
            moved_by: kernel.info().kernel_offset(),
        }
    }
}

impl MemoryFacts {
    fn of(source: &dyn MemorySource, warnings: &mut Vec<String>) -> Self {
        let counted = match count(source) {
            Ok(counted) => counted,
            Err(error) => {
                warnings.push(format!("the pages cannot be counted: {error}"));
                None
            }
        };
        Self {
            page_size: 1 << source.page_shift(),
            end: source
                .end_frame()
                .0
                .saturating_mul(1 << source.page_shift()),
            pages: counted.map(|(ram, _)| ram),
            pages_in_dump: counted.map(|(_, present)| present),
        }
    }
}

/// Counts page frames of RAM, and those with data; returns `None` if there are too many.
fn count(source: &dyn MemorySource) -> Result<Option<(u64, u64)>, SourceError> {
    type Find = fn(&dyn MemorySource, PageFrame, &mut Bitmap) -> Result<(), SourceError>;
    let count = |find: Find| {
        let mut bits = Bitmap::new(SECTION_FRAMES as usize);
        let mut count = 0;
        for (index, first) in source.sections().enumerate() {
            if index == MAX_COUNTED_SECTIONS {
                return Ok(None);
            }
            find(source, first, &mut bits)?;
            count += bits.count();
        }
        Ok(Some(count))
    };
    let Some(ram) = count(|source, first, bits| source.ram(first, bits))? else {
        return Ok(None);
    };
    // Counting the pages of a large vmdump would read all of its index.
    let stated = source.facts().stated_pages;
    let present = match stated.filter(|pages| *pages <= ram) {
        Some(pages) => Some(pages),
        None => count(|source, first, bits| source.present(first, bits))?,
    };
    Ok(present.map(|present| (ram, present)))
}
