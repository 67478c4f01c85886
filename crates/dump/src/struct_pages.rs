//! Leaves out the pages of the memory map that describe no page of the dump.

use std::sync::{Mutex, PoisonError};

use bigiron_format::bitmap::Bitmap;
use bigiron_helpers::{Stop, WorkCursor, run};
use bigiron_kernel::{Filter, FrameSet, IoMethod, KernelError, MemorySource, SECTION_FRAMES};

use crate::progress::Progress;
use crate::sections::Sections;

/// How struct pages are read.
pub struct Scan<'a> {
    /// Number of helper threads.
    pub helpers: usize,
    /// Ends the scan early, with an incomplete result.
    pub stop: &'a Stop,
    /// Method of reading the source.
    pub io: IoMethod,
    /// Counts page frames.
    pub progress: &'a Progress,
}

impl Scan<'_> {
    /// Filters all `sections` of `source`, and lets `filter` leave out the pages of the memory map
    /// that describe no page frame which it keeps.
    pub fn leave_out_struct_pages(
        &self,
        source: &dyn MemorySource,
        filter: &Filter,
        sections: &Sections,
    ) -> Result<(), KernelError> {
        let vacant = Mutex::new(FrameSet::default());
        let cursor = WorkCursor::new(sections.len() as u64);
        run(self.helpers, self.stop, |_| {
            let mut reader = source.reader(self.io);
            let mut ram = Bitmap::new(SECTION_FRAMES as usize);
            let mut kept = Bitmap::new(SECTION_FRAMES as usize);
            while let Some(index) = cursor.take(self.stop) {
                let first = sections.at(index as usize).first;
                filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept)?;
                let found = filter.vacant_map(first, &kept);
                vacant
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .merge(&found);
                self.progress.add(SECTION_FRAMES);
            }
            Ok::<_, KernelError>(())
        })?;
        filter.leave_out(vacant.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}
