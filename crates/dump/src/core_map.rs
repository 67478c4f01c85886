//! The layout of all RAM as one ELF core: its headers, and the page frame at each position. A
//! vmdump contains this core, and a mount shows it.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::LoadSegment;
use bigiron_format::elf::dump_level::LeftOut;
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::{PageFrame, PhysAddr, VirtAddr};
use bigiron_kernel::{Kernel, MemorySource, SECTION_FRAMES, arch};

use crate::error::DumpError;
use crate::kernel_addresses;
use crate::notes::{NotesGoal, output_notes};
use crate::subject::Subject;

/// Minimum alignment of the memory in the core, so that it can be mapped.
const PAGE_ALIGNMENT: u64 = 4096;
/// More RAM segments than any machine has.
const MAX_SEGMENTS: usize = 1 << 20;

/// The ELF core of all RAM of a source.
pub(crate) struct CoreMap {
    /// RAM segments in order of their position in the core, without gaps.
    segments: Vec<LoadSegment>,
    page_shift: u32,
    /// The bytes before the memory.
    pub(crate) headers: Vec<u8>,
    /// Size of the core, in bytes.
    pub(crate) size: u64,
    /// `e_machine` of the ELF header.
    pub(crate) machine: u16,
}

impl CoreMap {
    /// Lays out the core of a dump of `subject` that lacks `left_out`; `rules` as in
    /// [`output_notes`].
    pub(crate) fn of(subject: &Subject, left_out: LeftOut, rules: &str) -> Result<Self, DumpError> {
        let source = subject.source();
        let goal = NotesGoal::Elf {
            left_out: Some(left_out),
        };
        let notes = output_notes(source, subject.vmcoreinfo_text(), goal, rules);
        let damaged = subject.damage().is_some();
        Self::with(source, subject.kernel(), notes.bytes, damaged)
    }

    /// Lays out the core of `kernel`'s memory as its source has it.
    pub(crate) fn of_kernel(kernel: &Kernel) -> Result<Self, DumpError> {
        let source = kernel.source();
        let text = kernel.info().text().as_bytes();
        let goal = NotesGoal::Elf {
            left_out: source.left_out(),
        };
        let notes = output_notes(source, Some(text), goal, "");
        let damaged = kernel.damage().is_some();
        Self::with(source, Some(kernel), notes.bytes, damaged)
    }

    /// The virtual addresses are those of the source, completed by the kernel's page tables.
    fn with(
        source: &dyn MemorySource,
        kernel: Option<&Kernel>,
        notes: Vec<u8>,
        damaged: bool,
    ) -> Result<Self, DumpError> {
        let page_shift = source.page_shift();
        let mut segments = ram_segments(source)?;
        let aliases = kernel_addresses::complete(source, kernel, &mut segments)?;
        let count = segments.len();
        segments.extend(aliases);
        let mut layout = CoreLayout {
            machine: arch::find(source.machine())?.elf_machine,
            endian: source.endian(),
            notes,
            segments,
        };
        let alignment = PAGE_ALIGNMENT.max(1 << page_shift);
        let too_long = || DumpError::Layout("the core would be longer than 2^64 bytes".into());
        let size = layout.place(alignment).ok_or_else(too_long)?;
        let (ram, aliases) = layout.segments.split_at_mut(count);
        kernel_addresses::place(aliases, ram);
        let segments = ram.to_vec();
        let memory_offset = segments.first().map_or(size, |first| first.file_offset);
        let mut headers = layout.encode(damaged);
        headers.resize(memory_offset as usize, 0);
        Ok(Self {
            segments,
            page_shift,
            headers,
            size,
            machine: layout.machine,
        })
    }

    /// Offset of the memory in the core.
    pub(crate) fn memory_offset(&self) -> u64 {
        self.headers.len() as u64
    }

    /// Number of pages of memory.
    pub(crate) fn pages(&self) -> u64 {
        (self.size - self.memory_offset()) >> self.page_shift
    }

    /// Returns the page frame of the `page`-th page of the core's memory, and the number of
    /// consecutive frames from there on, including itself.
    pub(crate) fn frames_at(&self, page: u64) -> Option<(PageFrame, u64)> {
        let position = self.memory_offset() + (page << self.page_shift);
        let index = self
            .segments
            .partition_point(|segment| segment.file_offset <= position);
        let segment = &self.segments[index.checked_sub(1)?];
        let inside = position - segment.file_offset;
        let left = segment.file_size.checked_sub(inside)? >> self.page_shift;
        let frame = PageFrame((segment.physical.0 + inside) >> self.page_shift);
        (left > 0).then_some((frame, left))
    }
}

/// Returns the ranges of RAM that are contiguous in both physical and virtual memory.
fn ram_segments(source: &dyn MemorySource) -> Result<Vec<LoadSegment>, DumpError> {
    let shift = source.page_shift();
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut segments: Vec<LoadSegment> = Vec::new();
    for first in source.sections() {
        source.ram(first, &mut ram)?;
        let mut from = 0;
        while let Some((start, len)) = ram.next_run(from, ram.len(), ram.len()) {
            from = start + len;
            let frame = PageFrame(first.0 + start as u64);
            // A run may hold the end of one segment and the start of the next.
            for run in contiguous_runs(source, frame, len as u64) {
                add(&mut segments, run, shift);
            }
            if segments.len() > MAX_SEGMENTS {
                let reason = format!("RAM has more than {MAX_SEGMENTS} segments");
                return Err(DumpError::Layout(reason));
            }
        }
    }
    Ok(segments)
}

/// First page frame, number of frames, and virtual address of the first.
type ContiguousRun = (PageFrame, u64, Option<VirtAddr>);

/// Splits a run of page frames where the virtual addresses are not contiguous.
fn contiguous_runs(source: &dyn MemorySource, first: PageFrame, len: u64) -> Vec<ContiguousRun> {
    let shift = source.page_shift();
    let address = |frame: u64| source.virtual_address(PageFrame(frame));
    let is_contiguous = |start: u64, end: u64| {
        let expected = address(start).map(|at| VirtAddr(at.0.wrapping_add((end - start) << shift)));
        address(end) == expected
    };
    let end = first.0 + len;
    let (mut out, mut start) = (Vec::new(), first.0);
    while start < end {
        // Segments are long, so their ends are found by bisection: if the addresses are
        // contiguous up to a frame, they are so up to all frames before it.
        let (mut low, mut high) = (start + 1, end);
        if is_contiguous(start, end - 1) {
            low = end;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_contiguous(start, middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        out.push((PageFrame(start), low - start, address(start)));
        start = low;
    }
    out
}

fn add(segments: &mut Vec<LoadSegment>, run: ContiguousRun, shift: u32) {
    let (first, len, virt) = run;
    let bytes = len << shift;
    let physical = PhysAddr(first.0 << shift);
    if let Some(last) = segments.last_mut() {
        let expected = match last.virt {
            VirtAddr(0) => None,
            start => Some(VirtAddr(start.0.wrapping_add(last.memory_size))),
        };
        if last.physical.0 + last.memory_size == physical.0 && expected == virt {
            last.memory_size += bytes;
            last.file_size += bytes;
            return;
        }
    }
    segments.push(LoadSegment {
        file_offset: 0,
        file_size: bytes,
        physical,
        virt: virt.unwrap_or_default(),
        memory_size: bytes,
    });
}
