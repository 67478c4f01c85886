//! The second pass: helpers read, compress and write pages.

use std::sync::atomic::AtomicU64;

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::Layout;
use bigiron_helpers::{ChunkCursor, Turnstile, run};
use bigiron_kernel::{CHUNK_FRAMES, Filter, PageReader};

use super::unit::Unit;
use crate::bitmaps::BitmapStore;
use crate::error::DumpError;
use crate::losses::Losses;
use crate::output::Output;
use crate::plan::{self, Plan, is_zero};
use crate::progress::Phase;
use crate::shared_pages::SharedPages;
use crate::summary::Summary;
use crate::task::Task;

/// Page frames that a helper takes at once: their data is one write.
pub(super) const UNIT_FRAMES: u64 = 512;
/// Pages read at once.
const READ_PAGES: usize = 64;

/// The second pass: reads, compresses and writes pages.
pub(super) struct Copy<'a, 's> {
    pub(super) task: &'a Task<'a, 's>,
    pub(super) filter: &'a Filter<'a, 's>,
    pub(super) output: &'a dyn Output,
    pub(super) plan: &'a Plan,
    pub(super) store: &'a BitmapStore<'a>,
    pub(super) layout: Layout,
    pub(super) zero_page: u64,
    /// Where the next data goes.
    pub(super) next_data: AtomicU64,
    pub(super) shared: SharedPages,
    pub(super) turnstile: Turnstile,
}

impl Copy<'_, '_> {
    pub(super) fn run(&self, summary: &mut Summary) -> Result<(), DumpError> {
        let task = self.task;
        let per_chunk = CHUNK_FRAMES / UNIT_FRAMES;
        let units = self.plan.chunks.len() as u64 * per_chunk;
        task.progress.begin(Phase::Copying, self.plan.kept);
        let cursor = ChunkCursor::new(units);
        let results = run(task.helpers, task.stop, |_| -> Result<_, DumpError> {
            let mut helper = Helper::new(self)?;
            while let Some(unit) = cursor.take(task.stop) {
                helper.unit(
                    unit,
                    (unit / per_chunk) as usize,
                    unit % per_chunk * UNIT_FRAMES,
                )?;
            }
            Ok(helper.counts)
        })?;
        let mut losses = Losses::default();
        for counts in results {
            summary.zero += counts.zero;
            summary.shared += counts.shared;
            summary.bytes_in += counts.bytes_in;
            losses.merge(counts.losses);
        }
        losses.report(
            summary,
            "what is lost is marked so, and the dump as incomplete",
        );
        task.check_interrupted()
    }
}

#[derive(Default)]
struct Counts {
    zero: u64,
    shared: u64,
    bytes_in: u64,
    losses: Losses,
}

/// One helper: readers, codec context and buffers of its own.
struct Helper<'a, 's> {
    copy: &'a Copy<'a, 's>,
    reader: Box<dyn PageReader + 'a>,
    unit: Unit<'a, 's>,
    loaded: Option<usize>,
    kept: Bitmap,
    counts: Counts,
}

impl<'a, 's> Helper<'a, 's> {
    fn new(copy: &'a Copy<'a, 's>) -> Result<Self, DumpError> {
        let source = copy.task.kernel.source();
        Ok(Self {
            copy,
            reader: source.reader(copy.task.options.io),
            unit: Unit::new(copy)?,
            loaded: None,
            kept: Bitmap::new(CHUNK_FRAMES as usize),
            counts: Counts::default(),
        })
    }

    /// Copies the kept pages among [`UNIT_FRAMES`] frames from bit `start` of
    /// a chunk on.
    fn unit(&mut self, unit: u64, chunk: usize, start: u64) -> Result<(), DumpError> {
        let (copy, task) = (self.copy, self.copy.task);
        let planned = copy.plan.chunks[chunk];
        let next = copy
            .plan
            .chunks
            .get(chunk + 1)
            .map_or(copy.plan.kept, |c| c.kept_before);
        if next > planned.kept_before {
            self.load(chunk)?;
            self.pages(planned.first, start as usize)?;
        }
        let index = planned.kept_before
            + if self.unit.is_empty() {
                0
            } else {
                self.kept.count_before(start as usize)
            };
        let count = self.unit.len();
        let written = if copy.output.is_stream() {
            let write = || self.unit.write(index);
            match copy.turnstile.pass(unit, task.stop, write) {
                Some(result) => result,
                None => return Ok(()),
            }
        } else {
            self.unit.write(index)
        };
        written.map_err(|e| task.write_error(e))?;
        task.progress.add(count);
        Ok(())
    }

    fn load(&mut self, chunk: usize) -> Result<(), DumpError> {
        if self.loaded == Some(chunk) {
            return Ok(());
        }
        let (copy, first) = (self.copy, self.copy.plan.chunks[chunk].first);
        let reader = self.reader.as_mut();
        self.loaded = None;
        plan::load_kept(
            copy.task,
            copy.store,
            copy.filter,
            reader,
            (chunk, first),
            &mut self.kept,
        )?;
        self.loaded = Some(chunk);
        Ok(())
    }

    fn pages(&mut self, first: PageFrame, start: usize) -> Result<(), DumpError> {
        let page_size = self.copy.task.page_size();
        let end = start + UNIT_FRAMES as usize;
        let mut from = start;
        while let Some((at, len)) = self.kept.next_run(from, end, READ_PAGES) {
            let frame = PageFrame(first.0 + at as u64);
            let pages = match self.reader.pages(frame, len) {
                Ok(pages) => pages,
                Err(error) if error.is_one_page() => {
                    self.counts.losses.add(frame, &error);
                    self.unit.add_lost();
                    from = at + 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            self.counts.bytes_in += pages.len() as u64;
            from = at + pages.len() / page_size;
            for (index, page) in pages.chunks_exact(page_size).enumerate() {
                let frame = PageFrame(frame.0 + index as u64);
                if is_zero(page) {
                    self.counts.zero += 1;
                    self.unit.add_zero();
                } else if self.unit.add(frame, page) {
                    self.counts.shared += 1;
                }
            }
        }
        Ok(())
    }
}
