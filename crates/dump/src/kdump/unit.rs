//! The pages of one unit of work on their way into the file.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering;

use bigiron_format::PageFrame;
use bigiron_format::codec::Compressor;
use bigiron_format::kdump::{DESCRIPTOR_SIZE, PageDescriptor, flags_of_codec};
use bigiron_kernel::{IoMethod, PageReader};
use xxhash_rust::xxh3::xxh3_64;

use super::copy::{Copy, UNIT_FRAMES};
use crate::error::DumpError;
use crate::shared_pages::StoredPage;

/// Marks an offset that counts from the start of the unit's own data.
const IN_UNIT: u64 = 1 << 63;

/// A page of the unit whose data is new: it becomes known once it is written.
struct NewPage {
    hash: u64,
    descriptor: usize,
    frame: PageFrame,
}

/// A unit's pages; one helper fills it again and again.
pub(super) struct Unit<'a, 's> {
    copy: &'a Copy<'a, 's>,
    /// Fetches pages to compare with.
    comparer: Box<dyn PageReader + 'a>,
    compressor: Box<dyn Compressor>,
    codec_flags: u32,
    /// Room for a unit of incompressible pages; the first `used` bytes are taken.
    data: Vec<u8>,
    used: usize,
    /// Offsets of new pages are marked [`IN_UNIT`] until it is written.
    descriptors: Vec<PageDescriptor>,
    new_pages: Vec<NewPage>,
    new_by_hash: HashMap<u64, usize, BuildHasherDefault<AlreadyHashed>>,
}

/// Hashes of pages need no hashing.
#[derive(Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<'a, 's> Unit<'a, 's> {
    pub(super) fn new(copy: &'a Copy<'a, 's>) -> Result<Self, DumpError> {
        let compression = copy.task.options.compression;
        Ok(Self {
            copy,
            comparer: copy.task.kernel.source().reader(IoMethod::Read),
            compressor: compression.compressor()?,
            codec_flags: flags_of_codec(compression.codec),
            data: vec![0; UNIT_FRAMES as usize * copy.task.page_size()],
            used: 0,
            descriptors: Vec::with_capacity(UNIT_FRAMES as usize),
            new_pages: Vec::new(),
            new_by_hash: HashMap::default(),
        })
    }

    /// Pages in it.
    pub(super) fn len(&self) -> u64 {
        self.descriptors.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.descriptors.is_empty()
    }

    /// Adds a page that cannot be read: a descriptor of zeros says so.
    pub(super) fn add_lost(&mut self) {
        self.descriptors.push(PageDescriptor::default());
    }

    pub(super) fn add_zero(&mut self) {
        self.descriptors.push(PageDescriptor {
            offset: self.copy.zero_page,
            size: self.copy.task.page_size() as u32,
            ..Default::default()
        });
    }

    /// Adds a page; says whether an equal one was there already.
    pub(super) fn add(&mut self, frame: PageFrame, page: &[u8]) -> bool {
        let hash = xxh3_64(page);
        if let Some(descriptor) = self.find_equal(hash, page) {
            self.descriptors.push(descriptor);
            return true;
        }
        let start = self.used;
        let place = &mut self.data[start..start + page.len()];
        // What does not get smaller is stored as it is, as readers expect.
        let room = &mut place[..page.len() - 1];
        let (size, flags) = match self.codec_flags {
            0 => (None, 0),
            flags => (self.compressor.compress(page, room), flags),
        };
        let (size, flags) = match size {
            Some(size) => (size, flags),
            None => {
                place.copy_from_slice(page);
                (page.len(), 0)
            }
        };
        self.used += size;
        self.new_by_hash.insert(hash, self.new_pages.len());
        self.new_pages.push(NewPage {
            hash,
            descriptor: self.descriptors.len(),
            frame,
        });
        self.descriptors.push(PageDescriptor {
            offset: IN_UNIT | start as u64,
            size: size as u32,
            flags,
            page_flags: 0,
        });
        false
    }

    fn find_equal(&mut self, hash: u64, page: &[u8]) -> Option<PageDescriptor> {
        let (frame, descriptor) = match self.new_by_hash.get(&hash) {
            Some(index) => {
                let new = &self.new_pages[*index];
                (new.frame, self.descriptors[new.descriptor])
            }
            None => {
                let stored = self.copy.shared.find(hash)?;
                let StoredPage {
                    frame,
                    offset,
                    size,
                    flags,
                } = stored;
                (
                    frame,
                    PageDescriptor {
                        offset,
                        size,
                        flags,
                        page_flags: 0,
                    },
                )
            }
        };
        let other = self.comparer.pages(frame, 1).ok()?;
        (other == page).then_some(descriptor)
    }

    /// Writes the data and the descriptors, of which the first is the
    /// `index`-th of the dump, and forgets them.
    pub(super) fn write(&mut self, index: u64) -> std::io::Result<()> {
        if self.descriptors.is_empty() {
            return Ok(());
        }
        let copy = self.copy;
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
        let mut bytes = Vec::with_capacity(self.descriptors.len() * DESCRIPTOR_SIZE);
        for descriptor in &self.descriptors {
            bytes.extend_from_slice(&descriptor.encode(endian));
        }
        copy.output
            .write_at(copy.layout.descriptor(index), &bytes)?;
        copy.task
            .progress
            .add_written((data.len() + bytes.len()) as u64);
        for page in self.new_pages.drain(..) {
            let PageDescriptor {
                offset,
                size,
                flags,
                ..
            } = self.descriptors[page.descriptor];
            copy.shared.insert(
                page.hash,
                StoredPage {
                    frame: page.frame,
                    offset,
                    size,
                    flags,
                },
            );
        }
        self.new_by_hash.clear();
        self.descriptors.clear();
        self.used = 0;
        Ok(())
    }
}
