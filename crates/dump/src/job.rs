//! The context of a dump that is being made.

use bigiron_format::elf::dump_level::LeftOut;
use bigiron_helpers::Stop;
use bigiron_kernel::rules::ResolvedRules;
use bigiron_kernel::{Filter, Kernel, KernelError, PageReader};

use crate::error::DumpError;
use crate::options::DumpOptions;
use crate::output::Part;
use crate::progress::Progress;
use crate::subject::Subject;

/// The context of a dump that is being made.
pub struct DumpJob<'a, 's> {
    pub subject: &'a Subject<'s>,
    pub filter: Filter<'a, 's>,
    pub options: &'a DumpOptions,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    /// Number of helper threads.
    pub helpers: usize,
    /// There is memory for one helper more. Where writes wait for the disk, it uses the processor
    /// of another one meanwhile.
    pub has_spare: bool,
    /// Clears zero pages in the bitmap, as ELF needs it if the level excludes them;
    /// kdump-compressed dumps keep their bits.
    pub drops_zero_pages: bool,
}

impl DumpJob<'_, '_> {
    /// Returns the bytes of a page.
    pub fn page_size(&self) -> usize {
        1 << self.subject.source().page_shift()
    }

    /// Returns the dump level of the output: pages that the source lacks already stay excluded.
    pub fn dump_level(&self) -> u8 {
        self.options.level.number() | self.subject.source().dump_level()
    }

    /// Returns what the output lacks.
    pub fn left_out(&self) -> LeftOut {
        LeftOut {
            level: self.dump_level(),
            struct_pages: self.lacks_struct_pages(),
        }
    }

    /// Returns true if the output lacks struct pages of page frames that it lacks.
    fn lacks_struct_pages(&self) -> bool {
        let leaves_out = self.options.without_struct_pages && self.filter.has_struct_pages();
        leaves_out || self.subject.source().lacks_struct_pages()
    }

    /// Returns the lines that record rules for pages.
    pub fn record_of_rules(&self) -> String {
        let rules = self.subject.kernel().and_then(Kernel::rules);
        rules.map_or_else(String::new, ResolvedRules::record)
    }

    /// Returns the number of helper threads that write to `parts`.
    pub fn helpers_for(&self, parts: &[Part]) -> usize {
        let waits_for_disk = parts.iter().any(Part::is_direct);
        self.helpers + usize::from(waits_for_disk && self.has_spare)
    }

    /// Opens a reader of the source.
    pub fn reader(&self) -> Box<dyn PageReader + '_> {
        self.subject.source().reader(self.options.io)
    }

    /// Converts an error of the filter.
    pub fn filter_error(&self, source: KernelError) -> DumpError {
        DumpError::filter(self.options.level)(source)
    }

    /// Fails if the dump is to stop.
    pub fn check_interrupted(&self) -> Result<(), DumpError> {
        if self.stop.is_set() {
            Err(DumpError::Interrupted { kept: None })
        } else {
            Ok(())
        }
    }
}
