//! Iterates over all struct pages of a section.

use bigiron_format::{PageFrame, PageFrameRange, VirtAddr};

use crate::error::KernelError;
use crate::kernel::Kernel;
use crate::mem_map::MemMap;
use crate::page::{Covered, KindBits, PageKind, PageKinds, PageLayout};
use crate::source::{PageReader, SECTION_FRAMES};
use crate::steps::Steps;

/// Struct pages read at once; they fit into a core's cache.
const WINDOW: u64 = 2048;
/// Maximum order of a compound page of an earlier section: 16 GiB of 4 KiB pages.
const MAX_HEAD_ORDER: u32 = 22;

/// Bytes of struct pages that are read in any dump: those of 32 GiB of memory.
const FREE_BYTES: u64 = 512 << 20;
/// Bytes of struct pages that each byte of the dump's memory allows, since the kernel itself shows
/// one page of them for up to 4096 (those of huge pages, since 5.14, commit f41f2ed43ca5).
const BYTES_PER_BYTE: u64 = 64;

/// Returns the first page frame whose struct page is not to be read, because the dump has too
/// little memory to hold the struct pages of so much RAM. `None` for a dump that is as it should
/// be. The result depends on the dump alone, so that each pass over its sections ends there.
pub fn described_end(kernel: &Kernel, map: &MemMap) -> Option<PageFrame> {
    let source = kernel.source();
    let section = SECTION_FRAMES * map.page_struct_size().clamp(1, 4096);
    let most = source.end_frame().0.div_ceil(SECTION_FRAMES);
    let beyond = most.saturating_mul(section).checked_sub(FREE_BYTES)?;
    let needed = beyond.div_ceil(BYTES_PER_BYTE);
    let memory = kernel.size_up_to(needed);
    if memory == needed {
        return None;
    }
    let has_struct_pages = |first: &PageFrame| {
        let shift = map.frames_shift();
        let mut sections = first.0 >> shift..=(first.0 + SECTION_FRAMES - 1) >> shift;
        sections.any(|section| !matches!(map.section(kernel, section), Ok(None)))
    };
    let steps = Steps::new(FREE_BYTES.saturating_add(memory.saturating_mul(BYTES_PER_BYTE)));
    let mut described = source.sections().filter(has_struct_pages);
    described.find(|_| !steps.take(section))
}

/// Iterates over struct pages section by section. Each helper has its own.
pub struct StructPages<'a, 's> {
    kernel: &'a Kernel<'s>,
    map: &'a MemMap,
    kinds: PageKinds<'a>,
    size: u64,
    bytes: Vec<u8>,
}

/// Callback for a range of page frames: the first, their number, their use, and the struct page
/// that determines it.
pub type See<'v> = dyn FnMut(PageFrame, u64, PageKind, &[u8]) + 'v;

impl<'a, 's> StructPages<'a, 's> {
    /// Creates an iterator over the struct pages at `map`, described by `layout` and `bits`.
    pub fn new(
        kernel: &'a Kernel<'s>,
        map: &'a MemMap,
        layout: &'a PageLayout,
        bits: KindBits,
    ) -> Self {
        Self {
            kernel,
            map,
            kinds: PageKinds::new(layout, bits),
            size: map.page_struct_size(),
            bytes: Vec::new(),
        }
    }

    /// The classifier.
    pub fn kinds(&self) -> &PageKinds<'a> {
        &self.kinds
    }

    /// Passes the page frames of the section at `first` to `see`, in order and each once.
    /// Frames without a struct page, or whose struct page cannot be read, are omitted.
    pub fn visit_section(
        &mut self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        see: &mut See<'_>,
    ) -> Result<(), KernelError> {
        let section_frames = PageFrameRange::new(first.0, first.0.saturating_add(SECTION_FRAMES));
        let shift = self.map.frames_shift();
        let mut before = self.reaching_into(section_frames.start.0, see)?;
        let mut at = section_frames.start.0;
        while at < section_frames.end.0 {
            let section = at >> shift;
            let end = ((section + 1) << shift).min(section_frames.end.0);
            let map = self.map.section(self.kernel, section);
            if let Some(map) = readable(map)?.flatten() {
                let frames = PageFrameRange::new(at, end);
                before = self.section(reader, map, frames, before, see)?;
            }
            at = end;
        }
        Ok(())
    }

    fn section(
        &mut self,
        reader: &mut dyn PageReader,
        map: VirtAddr,
        frames: PageFrameRange,
        mut before: Option<Covered>,
        see: &mut See<'_>,
    ) -> Result<Option<Covered>, KernelError> {
        let mut frame = decided_up_to(before).max(frames.start.0);
        while frame < frames.end.0 {
            let count = WINDOW.min(frames.end.0 - frame);
            let address = self.map.page_struct(map, PageFrame(frame));
            // One more, since the second struct page of a compound page holds its order.
            let read = self.read(reader, address, (count + 1) * self.size)?;
            let whole = (read as u64 / self.size).min(count);
            if whole == 0 {
                // A hole in the memory map: continue with its next page.
                let page = 1_u64 << self.kernel.source().page_shift();
                let rest = page - (address.0 & (page - 1));
                frame += rest.div_ceil(self.size).max(1);
                continue;
            }
            let bytes = &self.bytes[..read];
            let stop = frame + whole;
            let first = frame;
            while frame < stop {
                let at = ((frame - first) * self.size) as usize;
                let (page, behind) = bytes[at..].split_at(self.size as usize);
                let second = behind.get(..self.size as usize).unwrap_or(&[]);
                let found = self.kinds.of(frame, page, second, before);
                let end = match found.decided {
                    true => found.end,
                    false => frame + 1,
                };
                // A block may reach into the next memory section, but not beyond this range.
                let section_end = (frame / SECTION_FRAMES + 1) * SECTION_FRAMES;
                see(
                    PageFrame(frame),
                    end.min(section_end) - frame,
                    found.kind,
                    page,
                );
                before = Some(found);
                frame = end;
            }
        }
        Ok(before)
    }

    /// A compound page or free block of an earlier section may reach into this one. Its head is
    /// at a multiple of its size, so there is one candidate per order.
    fn reaching_into(&self, start: u64, see: &mut See<'_>) -> Result<Option<Covered>, KernelError> {
        let mut tried = start;
        for order in 1..=MAX_HEAD_ORDER {
            let head = start >> order << order;
            if head == tried {
                continue;
            }
            tried = head;
            let section = self
                .map
                .section(self.kernel, head >> self.map.frames_shift());
            let Some(map) = readable(section)?.flatten() else {
                continue;
            };
            let Some(page) = self.read_one(map, head)? else {
                continue;
            };
            let second = self.read_one(map, head + 1)?.unwrap_or_default();
            let found = self.kinds.of(head, &page, &second, None);
            if found.end > start && found.end - head > 1 {
                if found.decided {
                    let frames = found.end.min(start.saturating_add(SECTION_FRAMES)) - start;
                    see(PageFrame(start), frames, found.kind, &page);
                }
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn read_one(&self, map: VirtAddr, frame: u64) -> Result<Option<Vec<u8>>, KernelError> {
        let mut page = vec![0; self.size as usize];
        let address = self.map.page_struct(map, PageFrame(frame));
        let read = self.kernel.read("a struct page", address, &mut page);
        Ok(readable(read)?.map(|()| page))
    }

    /// Reads up to `len` bytes of kernel memory; returns the number read.
    fn read(
        &mut self,
        reader: &mut dyn PageReader,
        address: VirtAddr,
        len: u64,
    ) -> Result<usize, KernelError> {
        let page_shift = self.kernel.source().page_shift();
        let page_size = 1_u64 << page_shift;
        let len = len as usize;
        self.bytes.resize(len, 0);
        let mut done = 0;
        while done < len {
            let Some(at) = address.checked_add(done as u64) else {
                break;
            };
            let leaf = self.kernel.translate(at).map_err(KernelError::from);
            let Some(leaf) = readable(leaf)?.flatten() else {
                break;
            };
            let offset = leaf.physical.0 & (page_size - 1);
            let wanted = leaf.len.min((len - done) as u64);
            let pages = (offset + wanted).div_ceil(page_size) as usize;
            let read = reader.pages(leaf.physical.page_frame(page_shift), pages);
            let Some(bytes) = readable(read.map_err(KernelError::from))? else {
                break;
            };
            let found = bytes.get(offset as usize..).unwrap_or(&[]);
            let count = found.len().min(wanted as usize);
            if count == 0 {
                break;
            }
            self.bytes[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        Ok(done)
    }
}

fn decided_up_to(before: Option<Covered>) -> u64 {
    before
        .filter(|covered| covered.decided)
        .map_or(0, |covered| covered.end)
}

/// Returns `None` for a damaged or lost part of the memory map. Only a source that fails as a
/// whole is an error.
fn readable<T>(result: Result<T, KernelError>) -> Result<Option<T>, KernelError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(KernelError::Source(error)) if !error.is_one_page() => Err(error.into()),
        Err(_) => Ok(None),
    }
}
