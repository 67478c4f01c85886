//! The source that a dump is verified against, and the pages of it that the dump must have.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::{
    DumpLevel, Filter, IoMethod, Kernel, KernelError, MemorySource, PageReader, PhysicalMemory,
    SECTION_FRAMES, Source,
};

use crate::error::DumpError;
use crate::sections::Sections;
use crate::struct_pages::Scan;

/// Finds the kernel in `source`, of which `dump` was made: by the VMCOREINFO of the source, or
/// else by that of the dump, which may have been given when it was made.
pub fn find_kernel_by_dump<'s>(
    source: &'s Source,
    dump: &dyn MemorySource,
) -> Result<Kernel<'s>, KernelError> {
    let find = |given| {
        let cache_pages = PhysicalMemory::DEFAULT_CACHE_PAGES;
        Kernel::find(source, given, IoMethod::Auto, cache_pages)
    };
    find(None).or_else(|error| {
        let note = dump.vmcoreinfo_note();
        let info = note.and_then(|note| Vmcoreinfo::parse(note.text, note.offset).ok());
        find(Some(info.ok_or(error)?))
    })
}

/// Returns true if the dump records a line that begins so: `rule `, or `rule blank `.
fn records(dump: &dyn MemorySource, start: &str) -> bool {
    let mut lines = dump.erase_info().split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(start.as_bytes()))
}

/// The source that a dump is verified against.
pub struct Reference<'a, 's> {
    source: &'s dyn MemorySource,
    level: DumpLevel,
    /// The dump lacks struct pages of page frames that it lacks.
    lacks_struct_pages: bool,
    /// Rules blanked pages of the dump.
    has_blank_pages: bool,
    /// Decides which pages the dump must have.
    filter: Result<Filter<'a, 's>, String>,
}

impl<'a, 's> Reference<'a, 's> {
    /// Describes the `source` of `dump`, in which `kernel` was found or not.
    pub fn new(
        source: &'s dyn MemorySource,
        dump: &dyn MemorySource,
        kernel: Result<&'a Kernel<'s>, &KernelError>,
    ) -> Self {
        let recorded = dump.facts().dump_level.and_then(DumpLevel::new);
        let level = recorded.unwrap_or_default();
        let filter = || {
            if recorded.is_none() {
                return Err("the dump does not record its dump level".to_owned());
            }
            if source.is_live() {
                return Err("the source is the running kernel, which changes".to_owned());
            }
            if records(dump, "rule ") {
                return Err("rules kept and dropped pages of the dump".to_owned());
            }
            let unknown = |error: &KernelError| {
                format!("the kernel in the source cannot be interpreted ({error})")
            };
            let kernel = match kernel {
                Ok(kernel) => kernel,
                Err(KernelError::SeveralKernels { .. }) => {
                    let reason = "the source is of a Xen host, and the dump does not record whose \
                                  memory it has";
                    return Err(reason.to_owned());
                }
                // As a dump of a source without a kernel is made.
                Err(_) if !level.needs_struct_pages() => return Ok(Filter::all_pages(source)),
                Err(error) => return Err(unknown(error)),
            };
            let mut filter = Filter::new(kernel, level).map_err(|error| unknown(&error))?;
            // As in `prepare` of dump.rs, a vmdump has what lies behind the last struct page.
            if dump.vmdump().is_none() {
                filter.end_at_mem_map().map_err(|error| unknown(&error))?;
            }
            Ok(filter)
        };
        Self {
            source,
            level,
            lacks_struct_pages: dump.lacks_struct_pages(),
            has_blank_pages: records(dump, "rule blank "),
            filter: filter(),
        }
    }

    /// The reason why a page that the dump lacks cannot be judged; `None` if it can.
    pub fn why_unknown(&self) -> Option<&str> {
        self.filter.as_ref().err().map(String::as_str)
    }

    /// The source.
    pub(crate) fn source(&self) -> &'s dyn MemorySource {
        self.source
    }

    /// True if rules blanked pages of the dump, which differ from those of the source.
    pub(crate) fn has_blank_pages(&self) -> bool {
        self.has_blank_pages
    }

    /// True if the dump may lack pages whose bytes are all zero.
    pub(crate) fn excludes_zero(&self) -> bool {
        self.level.excludes_zero()
    }

    /// Finds the struct pages that the dump must not have, before any call of [`Self::expected`].
    pub(crate) fn leave_out_struct_pages(
        &self,
        scan: &Scan,
        sections: &Sections,
    ) -> Result<(), DumpError> {
        match &self.filter {
            Ok(filter) if self.lacks_struct_pages => {
                Ok(scan.leave_out_struct_pages(self.source, filter, sections)?)
            }
            _ => Ok(()),
        }
    }

    /// Sets the bits of the pages in the section at `first` that the dump must have, or, where
    /// that is unknown, of all that the source has.
    pub(crate) fn expected(
        &self,
        reader: &mut dyn PageReader,
        first: PageFrame,
        bits: &mut Bitmap,
    ) -> Result<(), DumpError> {
        bits.clear();
        if first >= self.source.end_frame() {
            return Ok(());
        }
        match &self.filter {
            Ok(filter) => {
                let mut ram = Bitmap::new(SECTION_FRAMES as usize);
                filter.scan_section(reader, first, &mut ram, bits)?;
            }
            Err(_) => self.source.present(first, bits)?,
        }
        Ok(())
    }
}
