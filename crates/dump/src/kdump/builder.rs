//! Fills units: finds equal pages and compresses the others.

use bigiron_format::PageFrame;
use bigiron_format::codec::{Codec, Compression, Compressor};
use bigiron_format::kdump::{PageDescriptor, flags_of_codec};
use bigiron_kernel::{IoMethod, PageReader};

use super::adaptive::{STEPS, Step};
use super::copy::Copy;
use super::unit::Unit;
use crate::entropy::looks_random;
use crate::error::DumpError;
use crate::options::PageCompression;
use crate::page::{ByPageHash, are_equal, hash_of};
use crate::shared_pages::StoredPage;

/// How a page came into the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// With data of its own.
    New,
    /// With the data of an equal page.
    Shared,
}

/// One helper's part of filling units: its codecs, and what it knows of the
/// unit at hand.
pub(super) struct UnitBuilder<'a, 's> {
    copy: &'a Copy<'a, 's>,
    /// Fetches pages to compare with.
    comparer: Box<dyn PageReader + 'a>,
    codecs: Vec<PageCodec>,
    step: usize,
    new_by_hash: ByPageHash<usize>,
    /// The last page that went to the codec did not get smaller.
    last_was_raw: bool,
}

/// A compressor and the flags that say what made the data.
struct PageCodec {
    /// `None` stores pages as they are.
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

impl<'a, 's> UnitBuilder<'a, 's> {
    pub(super) fn new(copy: &'a Copy<'a, 's>) -> Result<Self, DumpError> {
        let codecs = match copy.task.options.compression {
            PageCompression::Fixed(compression) => vec![PageCodec::new(compression)?],
            PageCompression::Bzip2 => Vec::new(),
            PageCompression::Adaptive => STEPS
                .iter()
                .map(|step| PageCodec::new(step.compression))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            copy,
            comparer: copy.task.kernel.source().reader(IoMethod::Read),
            codecs,
            step: 0,
            new_by_hash: ByPageHash::default(),
            last_was_raw: false,
        })
    }

    /// Begins a new unit, whose pages are compressed as `step` says where the
    /// compression is adaptive.
    pub(super) fn begin(&mut self, step: Step) {
        self.step = step.0.min(self.codecs.len() - 1);
        self.new_by_hash.clear();
    }

    /// Adds a page that cannot be read: a descriptor of zeros says so.
    pub(super) fn add_lost(&self, unit: &mut Unit) {
        unit.add(PageDescriptor::default());
    }

    pub(super) fn add_zero(&self, unit: &mut Unit) {
        unit.add(PageDescriptor {
            offset: self.copy.zero_page,
            size: self.copy.task.page_size() as u32,
            ..Default::default()
        });
    }

    /// Adds a page.
    pub(super) fn add(&mut self, unit: &mut Unit, frame: PageFrame, page: &[u8]) -> Added {
        let hash = self
            .copy
            .task
            .options
            .optimizations
            .equal_pages
            .then(|| hash_of(page));
        if let Some(descriptor) = hash.and_then(|hash| self.find_equal(unit, hash, page)) {
            unit.add(descriptor);
            return Added::Shared;
        }
        let (size, flags) = self.compress(page, unit.room(page.len()));
        let number = unit.add_new(frame, hash, size, flags);
        if let Some(hash) = hash {
            self.new_by_hash.insert(hash, number);
        }
        Added::New
    }

    /// Compresses a page into `place`, or stores it as it is if it does not
    /// get smaller, as readers expect; gives the size and the flags.
    fn compress(&mut self, page: &[u8], place: &mut [u8]) -> (usize, u32) {
        let skips = self.copy.task.options.optimizations.incompressible;
        let codec = &mut self.codecs[self.step];
        if let Some(compressor) = &mut codec.compressor
            && !(skips && self.last_was_raw && looks_random(page))
        {
            let room = &mut place[..page.len() - 1];
            let size = compressor.compress(page, room);
            self.last_was_raw = size.is_none();
            if let Some(size) = size {
                return (size, codec.flags);
            }
        }
        place.copy_from_slice(page);
        (page.len(), 0)
    }

    fn find_equal(&mut self, unit: &Unit, hash: u64, page: &[u8]) -> Option<PageDescriptor> {
        let (frame, descriptor) = match self.new_by_hash.get(&hash) {
            Some(number) => unit.new_page(*number),
            None => {
                let StoredPage {
                    frame,
                    offset,
                    size,
                    flags,
                } = self.copy.shared.find(hash)?;
                let descriptor = PageDescriptor {
                    offset,
                    size,
                    flags,
                    page_flags: 0,
                };
                (frame, descriptor)
            }
        };
        let other = self.comparer.pages(frame, 1).ok()?;
        are_equal(other, page).then_some(descriptor)
    }
}
