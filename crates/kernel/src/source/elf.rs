//! ELF cores as memory sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::{CoreHeaders, LoadSegment, SIGNATURE, note};
use bigiron_format::{PageFrame, PhysAddr, ReadAt, VirtAddr};

use super::SECTION_FRAMES;
use super::file::DumpFile;
use super::identity::identify;
use super::live;
use crate::arch::{self, Architecture};
use crate::error::SourceError;

/// e_type of a core.
const ET_CORE: u16 = 4;

/// Maximum RAM without data that a file of any size may claim.
const MAX_WITHOUT_DATA: u64 = 1 << 40;
/// Maximum ratio of RAM to file size beyond that. Every dump level keeps the struct pages,
/// which are a 64th of RAM.
const MAX_RATIO: u64 = 4096;

/// An ELF core: /proc/vmcore, a copy of it, or a dump of a virtual machine; or a memory image, as
/// a core of which only the segments are known.
#[derive(Clone)]
pub struct ElfSource {
    pub(super) bytes: Arc<ElfBytes>,
    /// Kind of the file, for messages.
    pub(super) kind: &'static str,
    pub(super) headers: CoreHeaders,
    pub(super) architecture: &'static Architecture,
    /// Sorted by physical address, without overlaps.
    pub(super) segments: Vec<LoadSegment>,
    pub(super) page_shift: u32,
    pub(super) vmcoreinfo: Option<(usize, usize)>,
    pub(super) damage: Option<String>,
    /// Describes a segment that is left out, because no machine has memory there.
    pub(super) impossible: Option<String>,
    pub(super) live: bool,
    pub(super) readers: usize,
}

/// The bytes of an ELF core.
pub enum ElfBytes {
    /// A file, which can be mapped.
    File(DumpFile),
    /// Any other bytes, with the name of their file.
    Other(Box<dyn ReadAt>, PathBuf),
}

impl ElfBytes {
    pub(super) fn read(&self) -> &dyn ReadAt {
        match self {
            Self::File(file) => file,
            Self::Other(bytes, _) => bytes.as_ref(),
        }
    }

    pub(super) fn into_read(self) -> Box<dyn ReadAt> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Other(bytes, _) => bytes,
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Other(_, path) => path,
        }
    }
}

impl ElfSource {
    /// Reads the headers of an ELF core, and finds out what they do not say about its machine.
    pub fn new(bytes: ElfBytes) -> Result<Self, SourceError> {
        let mut source = Self::of_headers(bytes)?;
        let header = source.headers.endian;
        let identity = identify(&source, source.architecture, header, None);
        source.page_shift = identity.page_shift;
        if identity.endian != header {
            source.headers.notes = note::reorder(source.headers.notes(), identity.endian);
            source.headers.endian = identity.endian;
            source.find_note();
        }
        Ok(source)
    }

    /// Reads the headers of an ELF core only.
    pub(super) fn of_headers(bytes: ElfBytes) -> Result<Self, SourceError> {
        let path = bytes.path().to_owned();
        let format_error = |cause| SourceError::Format {
            path: path.clone(),
            cause,
        };
        let unsupported = |reason| SourceError::Unsupported {
            path: path.clone(),
            reason,
        };
        // The headers of 32-bit machines have another layout.
        if let Some(reason) = refusal(bytes.read()) {
            return Err(unsupported(reason));
        }
        let mut headers = CoreHeaders::read(bytes.read()).map_err(format_error)?;
        #[cfg(feature = "images")]
        {
            let registers = bigiron_format::elf::virtualbox::registers(headers.notes());
            headers.notes.extend(registers);
        }
        let live = path == Path::new(live::RUNNING_KERNEL);
        if live {
            headers.notes = live::notes(headers.notes());
        }
        let Some(architecture) = arch::find_elf(headers.machine) else {
            let known = arch::names();
            return Err(unsupported(format!("this build knows {known}")));
        };
        let limit = 1 << architecture.physical_bits;
        let impossible = take_impossible(&mut headers, limit);
        if headers.segments.is_empty() {
            return Err(unsupported(impossible.unwrap_or_default()));
        }
        let segments = sort_segments(&headers.segments);
        let claimed: u64 = segments.iter().map(|segment| segment.memory_size).sum();
        let size = bytes.read().size();
        if claimed > MAX_WITHOUT_DATA && claimed / MAX_RATIO > size {
            return Err(unsupported(format!(
                "its {} PT_LOAD segments claim {claimed} bytes of memory, but the file has only \
                 {size}: not even the struct pages of so much fit into it",
                segments.len()
            )));
        }
        let damage = find_damage(&headers, size);
        let mut source = Self {
            bytes: Arc::new(bytes),
            kind: if live {
                "the running kernel"
            } else {
                "ELF core"
            },
            headers,
            architecture,
            segments,
            page_shift: architecture.usual_page_shift(),
            vmcoreinfo: None,
            damage,
            impossible,
            live,
            readers: 1,
        };
        source.find_note();
        Ok(source)
    }

    /// Finds VMCOREINFO in the notes. After a damaged note it is searched for in memory, as
    /// without a note.
    fn find_note(&mut self) {
        let note = self.headers.notes().vmcoreinfo().ok().flatten();
        self.vmcoreinfo = note.map(|note| (note.desc_offset, note.desc.len()));
    }

    /// Allows many threads to read concurrently, unless `bytes` is 0; the page cache keeps the
    /// data.
    #[cfg(feature = "cache")]
    pub(super) fn set_cache(&mut self, bytes: u64) {
        self.readers = match bytes {
            0 => 1,
            _ => super::parallel_readers(),
        };
    }

    /// Calls `visit` for each segment that overlaps the section at `first`, with the frames of
    /// the section from the segment's start to its end and to the end of its data.
    pub(super) fn for_each_segment(
        &self,
        first: PageFrame,
        mut visit: impl FnMut(usize, usize, usize),
    ) {
        let shift = self.page_shift;
        let section_start = first.0 << shift;
        let section_end = (first.0 + SECTION_FRAMES) << shift;
        let size = self.bytes.read().size();
        let from = self
            .segments
            .partition_point(|s| s.physical.0 + s.memory_size <= section_start);
        for segment in &self.segments[from..] {
            let start = segment.physical.0;
            if start >= section_end {
                break;
            }
            let data = segment
                .file_size
                .min(size.saturating_sub(segment.file_offset));
            let frame = |address: u64| {
                (address
                    .clamp(section_start, section_end)
                    .div_ceil(1 << shift)
                    - first.0) as usize
            };
            let first_frame = (start.max(section_start) >> shift) - first.0;
            let data_end = if data == 0 {
                first_frame as usize
            } else if data < segment.file_size {
                // A page that the end of the file cuts is lost, not half zeros.
                let cut = (start + data) >> shift << shift;
                frame(cut).max(first_frame as usize)
            } else {
                frame(start + data)
            };
            visit(
                first_frame as usize,
                frame(start + segment.memory_size),
                data_end,
            );
        }
    }

    /// Returns the offset of page frame `frame`, if it is contiguous in the file, and the
    /// number of consecutive pages from there on.
    pub(super) fn file_position(&self, frame: PageFrame) -> Option<(u64, u64)> {
        let address = frame.address(self.page_shift)?.0;
        let segment = self.segment_of(address)?;
        let inside = address - segment.physical.0;
        let pages = segment.file_size.checked_sub(inside)? >> self.page_shift;
        let offset = segment.file_offset.checked_add(inside)?;
        let is_aligned = offset.is_multiple_of(1 << self.page_shift);
        (pages > 0 && is_aligned).then_some((offset, pages))
    }

    /// Returns the ranges of the section at `first` that are whole pages of the file: first
    /// frame within the section, offset, and number of pages.
    pub(super) fn file_ranges(&self, first: PageFrame) -> Vec<(usize, u64, u64)> {
        let shift = self.page_shift;
        let section_start = first.0 << shift;
        let section_end = (first.0 + SECTION_FRAMES) << shift;
        let from = self
            .segments
            .partition_point(|s| s.physical.0 + s.memory_size <= section_start);
        let near = self.segments[from..]
            .iter()
            .take_while(|segment| segment.physical.0 < section_end);
        near.filter_map(|segment| {
            let start = segment.physical.0.max(section_start);
            let frame = PageFrame(start.div_ceil(1 << shift));
            let (offset, pages) = self.file_position(frame)?;
            let index = frame.0 - first.0;
            let pages = pages.min(SECTION_FRAMES.checked_sub(index)?);
            (pages > 0).then_some((index as usize, offset, pages))
        })
        .collect()
    }

    pub(super) fn segment_of(&self, address: u64) -> Option<&LoadSegment> {
        let index = self
            .segments
            .partition_point(|s| s.physical.0 + s.memory_size <= address);
        self.segments
            .get(index)
            .filter(|segment| segment.physical.0 <= address)
    }
}

/// Returns the reason why the core cannot be of a supported machine, by its first bytes.
fn refusal(bytes: &dyn ReadAt) -> Option<String> {
    let mut front = [0; 20];
    bytes.read_exact_at("the ELF header", 0, &mut front).ok()?;
    let endian = match front[5] {
        1 => Endian::Little,
        2 => Endian::Big,
        _ => return None,
    };
    let is_core = front.starts_with(&SIGNATURE) && endian.u16(&front, 16) == Some(ET_CORE);
    let machine = endian.u16(&front, 18).filter(|_| is_core)?;
    arch::refusal_of_elf(machine, front[4])
}

/// Removes segments that end above `limit`, and describes the first of them. kexec-tools writes
/// such segments for a kernel image that it could not locate, and reading one in /proc/vmcore
/// faults.
fn take_impossible(headers: &mut CoreHeaders, limit: u64) -> Option<String> {
    let is_possible = |segment: &LoadSegment| segment.physical.0 + segment.memory_size <= limit;
    let beyond = headers.segments.iter().copied();
    let first = headers
        .impossible
        .or(beyond.into_iter().find(|segment| !is_possible(segment)));
    headers.segments.retain(is_possible);
    first.map(|segment| {
        format!(
            "a PT_LOAD segment of {:#x} bytes at physical address {:#x} is left out: no machine \
             has memory above {limit:#x}",
            segment.memory_size, segment.physical.0
        )
    })
}

/// Sorts by physical address and cuts overlaps with segments earlier in the file.
pub(super) fn sort_segments(segments: &[LoadSegment]) -> Vec<LoadSegment> {
    let mut sorted = segments.to_vec();
    sorted.sort_by_key(|segment| segment.physical);
    let mut out: Vec<LoadSegment> = Vec::with_capacity(sorted.len());
    for mut segment in sorted {
        let covered = out
            .last()
            .map_or(0, |last| last.physical.0 + last.memory_size);
        let cut = covered.saturating_sub(segment.physical.0);
        if cut >= segment.memory_size {
            continue;
        }
        segment.physical = PhysAddr(segment.physical.0 + cut);
        if segment.virt.0 != 0 {
            segment.virt = VirtAddr(segment.virt.0.wrapping_add(cut));
        }
        // If all data of the segment is cut, the offset is meaningless.
        segment.file_offset = segment.file_offset.saturating_add(cut);
        segment.file_size = segment.file_size.saturating_sub(cut);
        segment.memory_size -= cut;
        out.push(segment);
    }
    out
}

/// Describes what is missing at the end of a truncated file.
fn find_damage(headers: &CoreHeaders, size: u64) -> Option<String> {
    let end = headers
        .segments
        .iter()
        .map(|s| s.file_offset + s.file_size)
        .max()
        .unwrap_or(0);
    if end > size {
        return Some(format!(
            "the file ends at offset {size:#x}, but its memory should go on to {end:#x}: \
             it is truncated"
        ));
    }
    headers
        .incomplete
        .then(|| "its writer marked it incomplete (e_flags at offset 48)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(physical: u64, memory_size: u64, file_offset: u64, file_size: u64) -> LoadSegment {
        LoadSegment {
            file_offset,
            file_size,
            physical: PhysAddr(physical),
            virt: VirtAddr(0),
            memory_size,
        }
    }

    #[test]
    fn overlapping_segments_are_cut_without_overflow() {
        let sorted = sort_segments(&[
            segment(0x1000, 0x8000, u64::MAX - 0x10, 0),
            segment(0, 0x4000, 0x1000, 0x4000),
            segment(0x2000, 0x1000, 0x9000, 0x1000),
        ]);
        assert_eq!(
            sorted,
            [
                segment(0, 0x4000, 0x1000, 0x4000),
                segment(0x4000, 0x5000, u64::MAX, 0),
            ]
        );
    }
}
