//! Fills batches: finds equal pages and compresses the others.

use bigiron_format::PageFrame;
use bigiron_format::codec::{Codec, Compression, Compressor};
use bigiron_format::kdump::{PageDescriptor, flags_of_codec};
use bigiron_kernel::{IoMethod, MemorySource, PageReader};

use super::adaptive::{STRENGTHS, Strength};
use super::batch::{Batch, BatchOutput};
use super::equal_search::EqualSearch;
use super::repeated_pages::RepeatedPages;
use crate::entropy::looks_random;
use crate::error::DumpError;
use crate::format::PageCompression;
use crate::options::Optimizations;
use crate::page::{ByPageHash, are_equal, hash_of, is_zero};

/// The way in which a page was added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// With its own data.
    New,
    /// As the page of zeros.
    Zero,
    /// With the data of an equal page.
    Shared,
}

/// The data of a page.
enum Data {
    /// It is in the part or the batch.
    Known(PageDescriptor, Added),
    /// It is new; with the page's hash, if others may share it.
    New(Option<u64>),
}

/// One helper's codecs, and its knowledge of the current batch.
pub(super) struct BatchBuilder<'a> {
    output: &'a BatchOutput<'a>,
    optimizations: Optimizations,
    /// Reads pages to compare with.
    comparer: Box<dyn PageReader + 'a>,
    /// One codec, or one for each strength of an adaptive compression.
    codecs: Vec<PageCodec>,
    codec: usize,
    new_by_hash: ByPageHash<usize>,
    search: EqualSearch,
    repeated: RepeatedPages,
    /// The last page that went to the codec was incompressible.
    last_was_raw: bool,
}

/// A compressor and the descriptor flags of its data.
struct PageCodec {
    /// `None` stores pages uncompressed.
    compressor: Option<Box<dyn Compressor>>,
    flags: u32,
}

impl PageCodec {
    fn new(compression: Compression) -> Result<Self, DumpError> {
        Ok(Self {
            compressor: match compression.codec {
                Codec::None => None,
                _ => Some(compression.compressor()?),
            },
            flags: flags_of_codec(compression.codec),
        })
    }
}

impl<'a> BatchBuilder<'a> {
    pub(super) fn new(
        output: &'a BatchOutput<'a>,
        source: &'a dyn MemorySource,
        compression: PageCompression,
        optimizations: Optimizations,
    ) -> Result<Self, DumpError> {
        let codecs = match compression {
            PageCompression::Fixed(compression) => vec![PageCodec::new(compression)?],
            PageCompression::Adaptive => STRENGTHS
                .iter()
                .map(|strength| PageCodec::new(strength.compression))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            output,
            optimizations,
            comparer: source.reader(IoMethod::Read),
            codecs,
            codec: 0,
            new_by_hash: ByPageHash::default(),
            search: EqualSearch::new(),
            repeated: RepeatedPages::new(output.page_size),
            last_was_raw: false,
        })
    }

    /// Begins a new batch; `strength` is used if the compression is adaptive.
    pub(super) fn begin(&mut self, strength: Strength) {
        self.codec = strength.0.min(self.codecs.len() - 1);
        self.search.begin();
        self.new_by_hash.clear();
    }

    /// Adds an unreadable page, which has a descriptor of zeros.
    pub(super) fn add_lost(&self, batch: &mut Batch) {
        batch.add(PageDescriptor::default());
    }

    /// True if pages are stored as they are, so that they can be read into the batch.
    pub(super) fn stores_plain(&self) -> bool {
        self.codecs.iter().all(|codec| codec.compressor.is_none())
    }

    /// Adds a page.
    pub(super) fn add(&mut self, batch: &mut Batch, frame: PageFrame, page: &[u8]) -> Added {
        match self.look_up(batch, page) {
            Data::Known(descriptor, added) => {
                batch.add(descriptor);
                added
            }
            Data::New(hash) => {
                let (size, flags) = self.compress(page, batch.room(page.len()));
                self.add_new(batch, frame, hash, size, flags);
                Added::New
            }
        }
    }

    /// Adds the page at `at` of the batch, where it was read.
    pub(super) fn add_in_place(&mut self, batch: &mut Batch, frame: PageFrame, at: usize) -> Added {
        let page_size = self.output.page_size;
        match self.look_up(batch, batch.page(at, page_size)) {
            Data::Known(descriptor, added) => {
                batch.add(descriptor);
                added
            }
            Data::New(hash) => {
                batch.close_gap(at, page_size);
                self.add_new(batch, frame, hash, page_size, 0);
                Added::New
            }
        }
    }

    fn add_new(
        &mut self,
        batch: &mut Batch,
        frame: PageFrame,
        hash: Option<u64>,
        size: usize,
        flags: u32,
    ) {
        let index = batch.add_new(frame, hash, size, flags);
        if let Some(hash) = hash {
            self.new_by_hash.insert(hash, index);
        }
    }

    /// Looks for data that `page` can share.
    fn look_up(&mut self, batch: &Batch, page: &[u8]) -> Data {
        if is_zero(page) {
            let descriptor = PageDescriptor {
                offset: self.output.zero_page,
                size: self.output.page_size as u32,
                ..Default::default()
            };
            return Data::Known(descriptor, Added::Zero);
        }
        if !(self.optimizations.equal_pages && self.search.takes(page)) {
            return Data::New(None);
        }
        let hash = hash_of(page);
        match self.find_equal(batch, hash, page) {
            Some(descriptor) => {
                self.search.found();
                Data::Known(descriptor, Added::Shared)
            }
            None => Data::New(Some(hash)),
        }
    }

    /// Compresses a page into `room`, or stores it uncompressed if it does not shrink, as
    /// readers expect; returns the size and the flags.
    fn compress(&mut self, page: &[u8], room: &mut [u8]) -> (usize, u32) {
        let skips = self.optimizations.incompressible;
        let codec = &mut self.codecs[self.codec];
        if let Some(compressor) = &mut codec.compressor
            && !(skips && self.last_was_raw && looks_random(page))
        {
            let size = compressor.compress(page, &mut room[..page.len() - 1]);
            self.last_was_raw = size.is_none();
            if let Some(size) = size {
                return (size, codec.flags);
            }
        }
        room.copy_from_slice(page);
        (page.len(), 0)
    }

    fn find_equal(&mut self, batch: &Batch, hash: u64, page: &[u8]) -> Option<PageDescriptor> {
        let (frame, descriptor) = match self.new_by_hash.get(&hash) {
            Some(index) => batch.new_page(*index),
            None => {
                let stored = self.output.stored.find(hash)?;
                let descriptor = PageDescriptor {
                    offset: stored.offset,
                    size: stored.size,
                    flags: stored.flags,
                    page_flags: 0,
                };
                (stored.frame, descriptor)
            }
        };
        let equal = match self.repeated.get(hash, frame) {
            Some(other) => are_equal(other, page),
            None => {
                let other = self.comparer.pages(frame, 1).ok()?;
                let equal = are_equal(other, page);
                if equal {
                    self.repeated.keep(hash, frame, page);
                }
                equal
            }
        };
        equal.then_some(descriptor)
    }
}
