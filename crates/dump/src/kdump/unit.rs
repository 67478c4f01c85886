//! The pages of one unit of work on their way into the file.

use std::io;
use std::sync::atomic::Ordering;

use bigiron_format::PageFrame;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, PageDescriptor};

use super::copy::{Copy, UNIT_FRAMES};
use crate::shared_pages::StoredPage;

/// Marks an offset that counts from the start of the unit's own data.
const IN_UNIT: u64 = 1 << 63;

/// A page of the unit whose data is new: others may share it once it is written.
struct NewPage {
    hash: u64,
    descriptor: usize,
    frame: PageFrame,
}

/// Compressed pages and their descriptors. Used again and again, so that
/// nothing is allocated while pages are copied.
pub(super) struct Unit {
    /// The number of its first descriptor in the dump.
    pub(super) index: u64,
    /// Room for a unit of incompressible pages; the first `used` bytes are taken.
    data: Vec<u8>,
    used: usize,
    /// Offsets of new pages are marked [`IN_UNIT`] until it is written.
    descriptors: Vec<PageDescriptor>,
    /// Room for the descriptors as they are in the dump.
    encoded: Vec<u8>,
    new_pages: Vec<NewPage>,
}

impl Unit {
    pub(super) fn new(page_size: usize) -> Self {
        Self {
            index: 0,
            data: vec![0; UNIT_FRAMES as usize * page_size],
            used: 0,
            descriptors: Vec::with_capacity(UNIT_FRAMES as usize),
            encoded: Vec::with_capacity(UNIT_FRAMES as usize * DESCRIPTOR_SIZE),
            new_pages: Vec::new(),
        }
    }

    /// Pages in it.
    pub(super) fn len(&self) -> u64 {
        self.descriptors.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Bytes of its data.
    pub(super) fn data_len(&self) -> u64 {
        self.used as u64
    }

    /// Room for the next page's data, `len` bytes.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.used;
        &mut self.data[start..start + len]
    }

    /// Adds a page whose first `size` bytes of [`Self::room`] are its data, and
    /// gives its number among the new pages. `hash` is of the page's bytes.
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
            offset: IN_UNIT | self.used as u64,
            size: size as u32,
            flags,
            page_flags: 0,
        });
        self.used += size;
        self.new_pages.len().saturating_sub(1)
    }

    /// Adds a page whose data is there already, or none at all: a descriptor
    /// of zeros says that the page is lost.
    pub(super) fn add(&mut self, descriptor: PageDescriptor) {
        self.descriptors.push(descriptor);
    }

    /// The frame and the descriptor of the `number`-th new page.
    pub(super) fn new_page(&self, number: usize) -> (PageFrame, PageDescriptor) {
        let new = &self.new_pages[number];
        (new.frame, self.descriptors[new.descriptor])
    }

    /// Writes the data and the descriptors, makes its pages known to all
    /// helpers, and forgets them. Gives the place and the size of the data.
    pub(super) fn write(&mut self, copy: &Copy) -> io::Result<(u64, u64)> {
        if self.descriptors.is_empty() {
            return Ok((0, 0));
        }
        let data = &self.data[..self.used];
        let base = copy
            .next_data
            .fetch_add(data.len() as u64, Ordering::Relaxed);
        for descriptor in &mut self.descriptors {
            if descriptor.offset & IN_UNIT != 0 {
                descriptor.offset = base + (descriptor.offset & !IN_UNIT);
            }
        }
        if !data.is_empty() {
            copy.output.write_at(base, data)?;
        }
        let endian = copy.task.kernel.source().endian();
        self.encoded.clear();
        for descriptor in &self.descriptors {
            self.encoded.extend_from_slice(&descriptor.encode(endian));
        }
        copy.output.write_at(
            copy.layout.descriptor(self.index - copy.first_page),
            &self.encoded,
        )?;
        copy.task
            .progress
            .add_written((data.len() + self.encoded.len()) as u64);
        copy.task.progress.add(self.len());
        let descriptors = &self.descriptors;
        copy.shared.insert(self.new_pages.drain(..).map(|page| {
            let PageDescriptor {
                offset,
                size,
                flags,
                ..
            } = descriptors[page.descriptor];
            let stored = StoredPage {
                frame: page.frame,
                offset,
                size,
                flags,
            };
            (page.hash, stored)
        }));
        self.descriptors.clear();
        let len = std::mem::take(&mut self.used) as u64;
        Ok((base, len))
    }
}
