//! A batch of pages on its way into a part.

use std::iter::StepBy;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use bigiron_format::PageFrame;
use bigiron_format::bytes::Endian;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, Layout, PageDescriptor};
use bigiron_kernel::{AlignedBuffer, BLOCK};

use crate::error::DumpError;
use crate::output::Part;
use crate::progress::Progress;
use crate::shared_pages::{SharedPages, StoredPage};

/// Page frames of a batch; their data is written at once.
pub(super) const BATCH_FRAMES: u64 = 256;

/// Marks an offset that counts from the start of the batch's own data.
const IN_BATCH: u64 = 1 << 63;

/// The part that batches are written to.
pub(super) struct BatchOutput<'a> {
    pub(super) part: &'a Part<'a>,
    pub(super) progress: &'a Progress,
    pub(super) endian: Endian,
    pub(super) page_size: usize,
    pub(super) layout: Layout,
    /// Kept pages before the part's first page.
    pub(super) first_page: u64,
    /// Offset of the page of zeros.
    pub(super) zero_page: u64,
    /// Offset of the next data.
    pub(super) next_data: AtomicU64,
    /// Data begins and ends at blocks, since it is written past the page cache.
    pub(super) in_blocks: bool,
    /// Pages that are in the part already.
    pub(super) stored: SharedPages,
}

/// Returns the offset of the first page's data in a part of a dump of `kept` pages. The page of
/// zeros, which readers expect right after the descriptors, is longer than a page: where the data
/// begins at a block, writes of whole blocks share none with others.
pub(super) fn end_of_zeros(layout: &Layout, kept: u64, page_size: usize) -> u64 {
    (layout.descriptor(kept) + page_size as u64).next_multiple_of(BLOCK as u64)
}

/// A page of the batch with its own data: others may share it once it is written.
struct NewPage {
    hash: u64,
    descriptor: usize,
    frame: PageFrame,
}

/// Compressed pages and their descriptors. Batches are reused, so that nothing is allocated while
/// pages are copied.
pub(super) struct Batch {
    /// Index of its first page descriptor in the dump.
    pub(super) index: u64,
    /// The first `used` bytes are taken.
    data: AlignedBuffer,
    used: usize,
    /// Offsets of new pages are marked [`IN_BATCH`] until the batch is written.
    descriptors: Vec<PageDescriptor>,
    /// The encoded descriptors.
    encoded: Vec<u8>,
    new_pages: Vec<NewPage>,
}

impl Batch {
    /// Creates a batch with room for incompressible pages.
    pub(super) fn new(page_size: usize) -> Self {
        Self {
            index: 0,
            data: AlignedBuffer::new((BATCH_FRAMES as usize * page_size).next_multiple_of(BLOCK)),
            used: 0,
            descriptors: Vec::with_capacity(BATCH_FRAMES as usize),
            encoded: Vec::with_capacity(BATCH_FRAMES as usize * DESCRIPTOR_SIZE),
            new_pages: Vec::new(),
        }
    }

    /// Returns the number of pages.
    pub(super) fn len(&self) -> u64 {
        self.descriptors.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Returns the number of bytes of data.
    pub(super) fn data_len(&self) -> u64 {
        self.used as u64
    }

    /// Returns room for the next page's data, `len` bytes.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.used;
        &mut self.data[start..start + len]
    }

    /// Returns where in the batch the pages are that were read into the first `len` bytes of
    /// [`Self::room`].
    pub(super) fn pages_in_room(&self, len: usize, page_size: usize) -> StepBy<Range<usize>> {
        (self.used..self.used + len).step_by(page_size)
    }

    /// Returns the page at `at`.
    pub(super) fn page(&self, at: usize, page_size: usize) -> &[u8] {
        &self.data[at..at + page_size]
    }

    /// Moves the page at `at`, of those that were read, to the first bytes of [`Self::room`].
    pub(super) fn close_gap(&mut self, at: usize, page_size: usize) {
        if at != self.used {
            self.data.copy_within(at..at + page_size, self.used);
        }
    }

    /// Adds a page whose data is the first `size` bytes of [`Self::room`]; returns its index
    /// among the new pages. `hash` is of the page's bytes.
    pub(super) fn add_new(
        &mut self,
        frame: PageFrame,
        hash: Option<u64>,
        size: usize,
        flags: u32,
    ) -> usize {
        if let Some(hash) = hash {
            self.new_pages.push(NewPage {
                hash,
                descriptor: self.descriptors.len(),
                frame,
            });
        }
        self.descriptors.push(PageDescriptor {
            offset: IN_BATCH | self.used as u64,
            size: size as u32,
            flags,
            page_flags: 0,
        });
        self.used += size;
        self.new_pages.len().saturating_sub(1)
    }

    /// Adds a page without data of its own: it shares other data, or is lost if the descriptor
    /// is all zeros.
    pub(super) fn add(&mut self, descriptor: PageDescriptor) {
        self.descriptors.push(descriptor);
    }

    /// Returns the frame and the descriptor of new page `index`.
    pub(super) fn new_page(&self, index: usize) -> (PageFrame, PageDescriptor) {
        let new = &self.new_pages[index];
        (new.frame, self.descriptors[new.descriptor])
    }

    /// Writes the data and the descriptors, lets all helpers share its new pages, and empties the
    /// batch. Returns the offset and the size of the data.
    pub(super) fn write(&mut self, output: &BatchOutput) -> Result<(u64, u64), DumpError> {
        if self.descriptors.is_empty() {
            return Ok((0, 0));
        }
        let (base, len) = self.write_data(output)?;
        self.write_descriptors(output)?;
        output.progress.add(self.len());
        let descriptors = &self.descriptors;
        output.stored.insert(self.new_pages.drain(..).map(|page| {
            let descriptor = descriptors[page.descriptor];
            let stored = StoredPage {
                frame: page.frame,
                offset: descriptor.offset,
                size: descriptor.size,
                flags: descriptor.flags,
            };
            (page.hash, stored)
        }));
        self.descriptors.clear();
        self.used = 0;
        Ok((base, len))
    }

    /// Writes the data to the next free extent, which makes the descriptors' offsets final.
    fn write_data(&mut self, output: &BatchOutput) -> Result<(u64, u64), DumpError> {
        if output.in_blocks {
            let end = self.used.next_multiple_of(BLOCK);
            self.data[self.used..end].fill(0);
            self.used = end;
        }
        let data = &self.data[..self.used];
        let len = data.len() as u64;
        let base = output.next_data.fetch_add(len, Ordering::Relaxed);
        for descriptor in &mut self.descriptors {
            if descriptor.offset & IN_BATCH != 0 {
                descriptor.offset = base + (descriptor.offset & !IN_BATCH);
            }
        }
        if !data.is_empty() {
            output.part.write_at(base, data)?;
        }
        Ok((base, len))
    }

    fn write_descriptors(&mut self, output: &BatchOutput) -> Result<(), DumpError> {
        self.encoded.clear();
        for descriptor in &self.descriptors {
            let bytes = descriptor.encode(output.endian);
            self.encoded.extend_from_slice(&bytes);
        }
        let offset = output.layout.descriptor(self.index - output.first_page);
        output.part.write_at(offset, &self.encoded)
    }
}
