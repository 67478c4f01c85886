//! The use of page frames, as runs.

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::page::{KindBits, PageLayout};
use bigiron_kernel::struct_pages::{StructPages, described_end};
use bigiron_kernel::{IoMethod, Kernel, SECTION_FRAMES};
use serde::Serialize;

use crate::error::InspectError;
use crate::page_class::{ALL, UNKNOWN, index_of};

/// Consecutive page frames with the same properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageRun {
    /// The first page frame.
    pub frame: u64,
    /// Number of page frames.
    pub count: u64,
    /// Name of their class in [`ALL`].
    pub class: &'static str,
    /// True if the dump has their data.
    pub in_dump: bool,
}

/// Determines the use of page frames. Threads may share it.
pub struct PageClasses {
    map: MemMap,
    layout: PageLayout,
    bits: KindBits,
}

impl PageClasses {
    /// Locates the struct pages of `kernel`. `bits` are the facts from types: see
    /// [`crate::page_class::kind_bits`].
    ///
    /// # Errors
    ///
    /// VMCOREINFO does not describe struct page.
    pub fn of(kernel: &Kernel, bits: KindBits) -> Result<Self, InspectError> {
        let layout = PageLayout::new(kernel.info(), kernel.source().endian())?;
        Ok(Self {
            map: MemMap::find(kernel)?,
            layout,
            bits,
        })
    }

    /// See [`described_end`].
    pub fn described_end(&self, kernel: &Kernel) -> Option<PageFrame> {
        described_end(kernel, &self.map)
    }

    /// Creates an iterator over the struct pages of `kernel`, for one helper.
    pub fn pages<'a, 's>(&'a self, kernel: &'a Kernel<'s>) -> StructPages<'a, 's> {
        StructPages::new(kernel, &self.map, &self.layout, self.bits)
    }

    /// Returns the RAM frames of the section at `first`, a multiple of [`SECTION_FRAMES`], in
    /// order.
    pub fn chunk(
        &self,
        kernel: &Kernel,
        first: PageFrame,
        io: IoMethod,
    ) -> Result<Vec<PageRun>, InspectError> {
        let source = kernel.source();
        let mut classes = vec![UNKNOWN; SECTION_FRAMES as usize];
        let mut reader = source.reader(io);
        self.pages(kernel).visit_section(
            reader.as_mut(),
            first,
            &mut |frame, count, kind, _| {
                let start = frame.0.saturating_sub(first.0).min(SECTION_FRAMES);
                let end = start.saturating_add(count).min(SECTION_FRAMES);
                classes[start as usize..end as usize].fill(index_of(kind));
            },
        )?;
        let mut ram = Bitmap::new(SECTION_FRAMES as usize);
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        source.ram(first, &mut ram)?;
        source.present(first, &mut present)?;
        let mut runs: Vec<PageRun> = Vec::new();
        for (index, class) in classes.into_iter().enumerate() {
            if !ram.get(index) {
                continue;
            }
            let run = PageRun {
                frame: first.0.saturating_add(index as u64),
                count: 1,
                class: ALL[class].name,
                in_dump: present.get(index),
            };
            match runs.last_mut() {
                Some(last)
                    if last.frame + last.count == run.frame
                        && last.class == run.class
                        && last.in_dump == run.in_dump =>
                {
                    last.count += 1;
                }
                _ => runs.push(run),
            }
        }
        Ok(runs)
    }
}
