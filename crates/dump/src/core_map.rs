//! All RAM as one ELF core: its headers, and which page frames its bytes are.
//! A vmdump has this core inside, and a mount shows it.

use bigiron_format::bitmap::Bitmap;
use bigiron_format::elf::LoadSegment;
use bigiron_format::elf::write::CoreLayout;
use bigiron_format::{PageFrame, PhysAddr, VirtAddr};
use bigiron_kernel::{CHUNK_FRAMES, Kernel, MemorySource};

use crate::error::DumpError;
use crate::kernel_addresses;
use crate::notes::output_notes;

/// Memory begins at a multiple of this at least, so that it can be mapped.
const PAGE_ALIGNMENT: u64 = 4096;
/// More segments of RAM than any machine has.
const MAX_SEGMENTS: usize = 1 << 20;

/// All RAM of the source, in one ELF core.
pub(crate) struct CoreMap {
    /// By position in the core, without gaps.
    segments: Vec<LoadSegment>,
    page_shift: u32,
    /// The bytes in front of the memory.
    pub(crate) headers: Vec<u8>,
    /// Bytes of the core.
    pub(crate) size: u64,
    /// e_machine.
    pub(crate) machine: u16,
}

impl CoreMap {
    /// The core of `kernel`'s memory, with the virtual addresses that its source has.
    pub(crate) fn of(kernel: &Kernel) -> Result<Self, DumpError> {
        let source = kernel.source();
        let ram = ram_segments(source)?;
        let aliases = aliases(source.header_segments(), &ram);
        Self::with(kernel, ram, &aliases)
    }

    /// The same; where the source has no virtual addresses, with those of the kernel's
    /// page tables.
    pub(crate) fn with_addresses(kernel: &Kernel) -> Result<Self, DumpError> {
        let source = kernel.source();
        let mut ram = ram_segments(source)?;
        let mut aliases = aliases(source.header_segments(), &ram);
        if ram.iter().all(|segment| segment.virt == VirtAddr(0)) {
            kernel_addresses::set_direct(kernel, &mut ram);
            let image = kernel_addresses::image(kernel);
            let inside = |image: &LoadSegment| ram.iter().any(|holder| holds(holder, image));
            aliases.extend(image.filter(inside));
        }
        Self::with(kernel, ram, &aliases)
    }

    fn with(
        kernel: &Kernel,
        ram: Vec<LoadSegment>,
        aliases: &[LoadSegment],
    ) -> Result<Self, DumpError> {
        let source = kernel.source();
        let page_shift = source.page_shift();
        let count = ram.len();
        let mut layout = CoreLayout {
            machine: bigiron_kernel::arch::find(source.machine())?.elf_machine,
            endian: source.endian(),
            notes: output_notes(kernel, true).bytes,
            segments: ram,
        };
        layout
            .segments
            .extend(aliases.iter().map(|alias| LoadSegment {
                file_size: 0,
                ..*alias
            }));
        let alignment = PAGE_ALIGNMENT.max(1 << page_shift);
        let too_long = || DumpError::Layout("the core would be longer than 2^64 bytes".into());
        let size = layout.place(alignment).ok_or_else(too_long)?;
        let (ram, others) = layout.segments.split_at_mut(count);
        for segment in others {
            let holder = ram.iter().find(|holder| holds(holder, segment));
            if let Some(holder) = holder {
                segment.file_offset = holder.file_offset + (segment.physical.0 - holder.physical.0);
                segment.file_size = segment.memory_size;
            }
        }
        let segments = ram.to_vec();
        let memory_offset = segments.first().map_or(size, |first| first.file_offset);
        let mut headers = layout.encode(kernel.damage().is_some());
        headers.resize(memory_offset as usize, 0);
        Ok(Self {
            segments,
            page_shift,
            headers,
            size,
            machine: layout.machine,
        })
    }

    /// Where the memory begins in the core.
    pub(crate) fn memory_offset(&self) -> u64 {
        self.headers.len() as u64
    }

    /// Pages of memory.
    pub(crate) fn pages(&self) -> u64 {
        (self.size - self.memory_offset()) >> self.page_shift
    }

    /// The page frame of the `page`-th page of the core's memory, and how many
    /// frames follow each other from there on, itself included.
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

/// RAM as far as it hangs together, in physical and in virtual memory.
fn ram_segments(source: &dyn MemorySource) -> Result<Vec<LoadSegment>, DumpError> {
    let shift = source.page_shift();
    let mut ram = Bitmap::new(CHUNK_FRAMES as usize);
    let mut segments: Vec<LoadSegment> = Vec::new();
    for first in source.chunks() {
        source.ram(first, &mut ram)?;
        let mut from = 0;
        while let Some((start, len)) = ram.next_run(from, ram.len(), ram.len()) {
            from = start + len;
            let frame = PageFrame(first.0 + start as u64);
            // A run may hold the end of one segment and the start of the next.
            for piece in pieces(source, frame, len as u64) {
                add(&mut segments, piece, shift);
            }
            if segments.len() > MAX_SEGMENTS {
                let reason = format!("RAM of more than {MAX_SEGMENTS} pieces");
                return Err(DumpError::Layout(reason));
            }
        }
    }
    Ok(segments)
}

type Piece = (PageFrame, u64, Option<VirtAddr>);

/// Divides page frames by where the virtual addresses jump.
fn pieces(source: &dyn MemorySource, first: PageFrame, len: u64) -> Vec<Piece> {
    let shift = source.page_shift();
    let address = |frame: u64| source.virtual_address(PageFrame(frame));
    let goes_on = |start: u64, end: u64| {
        let expected = address(start).map(|at| VirtAddr(at.0.wrapping_add((end - start) << shift)));
        address(end) == expected
    };
    let end = first.0 + len;
    let (mut out, mut start) = (Vec::new(), first.0);
    while start < end {
        // Segments are long, so their ends are searched for by halves. Where the
        // addresses go on at a frame, they do so at all frames before it.
        let (mut low, mut high) = (start + 1, end);
        if goes_on(start, end - 1) {
            low = end;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if goes_on(start, middle) {
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

fn add(segments: &mut Vec<LoadSegment>, piece: Piece, shift: u32) {
    let (first, len, virt) = piece;
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

/// Segments of the source that give a second virtual address to RAM, such as
/// that of the kernel's image: they stay, over the same bytes of the core.
fn aliases(source: &[LoadSegment], ram: &[LoadSegment]) -> Vec<LoadSegment> {
    let is_kernel = |segment: &&LoadSegment| segment.virt.0 >> 63 != 0;
    let is_new = |segment: &&LoadSegment| {
        ram.iter().any(|holder| {
            let offset = segment.physical.0.wrapping_sub(holder.physical.0);
            holds(holder, segment) && holder.virt.0.wrapping_add(offset) != segment.virt.0
        })
    };
    let found = source.iter().filter(is_kernel).filter(is_new);
    found.copied().collect()
}

fn holds(holder: &LoadSegment, segment: &LoadSegment) -> bool {
    holder.physical <= segment.physical
        && segment.physical.0 + segment.memory_size <= holder.physical.0 + holder.memory_size
}
