//! The second pass: helpers read, compress and write pages.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::Layout;
use bigiron_helpers::{Turnstile, WorkCursor, run, run_beside};
use bigiron_kernel::{Filter, PageReader, SECTION_FRAMES};

use super::adaptive::Step;
use super::builder::{Added, UnitBuilder};
use super::delivery::WriteQueue;
use super::thread_time::ThreadClock;
use super::unit::Unit;
use crate::bitmaps::BitmapStore;
use crate::error::DumpError;
use crate::losses::Losses;
use crate::output::Output;
use crate::page::is_zero;
use crate::plan::{self, Plan};
use crate::shared_pages::SharedPages;
use crate::summary::Summary;
use crate::task::Task;

/// Page frames that a helper takes at once: their data is one write.
pub(super) const UNIT_FRAMES: u64 = 256;
/// Units of one chunk.
pub(super) const UNITS_PER_CHUNK: u64 = SECTION_FRAMES / UNIT_FRAMES;
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
    /// The units to copy, of all that the plan's chunks have.
    pub(super) units: Range<u64>,
    /// Kept pages before the first of these units.
    pub(super) first_page: u64,
    pub(super) zero_page: u64,
    /// Where the next data goes.
    pub(super) next_data: AtomicU64,
    pub(super) shared: SharedPages,
    pub(super) turnstile: Turnstile,
}

impl Copy<'_, '_> {
    pub(super) fn run(&self, summary: &mut Summary) -> Result<(), DumpError> {
        let task = self.task;
        let counts = if task.writes_behind(self.output) {
            let queue = WriteQueue::new(task.helpers, task.is_adaptive());
            let (counts, _) = run_beside(
                task.stop,
                || queue.write_all(self),
                |has_writer| {
                    let result = self.helpers(has_writer.then_some(&queue));
                    queue.close();
                    result
                },
            )?;
            queue.report(summary);
            counts
        } else {
            self.helpers(None)?
        };
        let mut losses = Losses::default();
        for counts in counts {
            summary.zero += counts.zero;
            summary.shared += counts.shared;
            summary.bytes_in += counts.bytes_in;
            summary.helper_times.push(counts.time);
            losses.merge(counts.losses);
        }
        losses.report(
            summary,
            "what is lost is marked so, and the dump as incomplete",
        );
        task.check_interrupted()
    }

    /// Runs all helpers; with a queue there is a writer at its other end.
    fn helpers(&self, queue: Option<&WriteQueue>) -> Result<Vec<Counts>, DumpError> {
        let task = self.task;
        let cursor = WorkCursor::new(self.units.end - self.units.start);
        run(task.helpers, task.stop, |_| {
            let begin = Instant::now();
            let mut helper = Helper::new(self, queue)?;
            while let Some(number) = cursor.take(task.stop) {
                let unit = self.units.start + number;
                helper.unit(
                    number,
                    (unit / UNITS_PER_CHUNK) as usize,
                    unit % UNITS_PER_CHUNK * UNIT_FRAMES,
                )?;
            }
            helper.counts.time = begin.elapsed();
            Ok(helper.counts)
        })
    }
}

#[derive(Default)]
struct Counts {
    zero: u64,
    shared: u64,
    bytes_in: u64,
    losses: Losses,
    time: Duration,
}

/// One helper: readers, codec contexts and buffers of its own.
struct Helper<'a, 's> {
    copy: &'a Copy<'a, 's>,
    queue: Option<&'a WriteQueue>,
    reader: Box<dyn PageReader + 'a>,
    builder: UnitBuilder<'a, 's>,
    unit: Unit,
    loaded: Option<usize>,
    kept: Bitmap,
    counts: Counts,
    clock: ThreadClock,
}

impl<'a, 's> Helper<'a, 's> {
    fn new(copy: &'a Copy<'a, 's>, queue: Option<&'a WriteQueue>) -> Result<Self, DumpError> {
        let source = copy.task.kernel.source();
        Ok(Self {
            copy,
            queue,
            reader: source.reader(copy.task.options.io),
            builder: UnitBuilder::new(copy)?,
            unit: Unit::new(copy.task.page_size()),
            loaded: None,
            kept: Bitmap::new(SECTION_FRAMES as usize),
            counts: Counts::default(),
            clock: ThreadClock::new(),
        })
    }

    /// Copies the kept pages among [`UNIT_FRAMES`] frames from bit `start` of
    /// a chunk on.
    fn unit(&mut self, number: u64, chunk: usize, start: u64) -> Result<(), DumpError> {
        let copy = self.copy;
        let planned = copy.plan.chunks.at(chunk);
        if planned.kept > 0 {
            self.load(chunk)?;
            self.pages(planned.first, start as usize)?;
        }
        if !self.unit.is_empty() {
            self.unit.index = planned.kept_before + self.kept.count_before(start as usize);
        }
        self.deliver(number)
    }

    /// Writes the unit, or hands it to the writer; into a stream in its turn.
    fn deliver(&mut self, number: u64) -> Result<(), DumpError> {
        let (copy, stop) = (self.copy, self.copy.task.stop);
        let unit = &mut self.unit;
        let mut deliver = || match self.queue {
            _ if unit.is_empty() => Ok(()),
            Some(queue) => {
                queue.push(unit, copy.task.page_size(), stop);
                Ok(())
            }
            None => unit.write(copy).map(|_| ()),
        };
        let delivered = if copy.output.is_stream() {
            copy.turnstile.pass(number, stop, deliver)
        } else {
            Some(deliver())
        };
        delivered
            .unwrap_or(Ok(()))
            .map_err(|error| copy.task.write_error(error))
    }

    fn load(&mut self, chunk: usize) -> Result<(), DumpError> {
        if self.loaded == Some(chunk) {
            return Ok(());
        }
        let (copy, first) = (self.copy, self.copy.plan.chunks.at(chunk).first);
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
        let controller = self.queue.and_then(|queue| queue.controller.as_ref());
        let begin = controller.map(|_| self.clock.now());
        let step = match self.queue {
            Some(queue) => queue.next_step(),
            None => Step::FIRST,
        };
        self.builder.begin(step);
        let (mut from, zero_before) = (start, self.counts.zero);
        while let Some((at, len)) = self.kept.next_run(from, end, READ_PAGES) {
            let frame = PageFrame(first.0 + at as u64);
            let pages = match self.reader.pages(frame, len) {
                Ok(pages) => pages,
                Err(error) if error.is_one_page() => {
                    self.counts.losses.add(frame, &error);
                    self.builder.add_lost(&mut self.unit);
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
                    self.builder.add_zero(&mut self.unit);
                } else if self.builder.add(&mut self.unit, frame, page) == Added::Shared {
                    self.counts.shared += 1;
                }
            }
        }
        if let (Some(controller), Some(begin)) = (controller, begin) {
            let pages = self.unit.len() - (self.counts.zero - zero_before);
            let spent = self.clock.since(begin);
            controller.compressed(step, pages, self.unit.data_len(), spent);
        }
        Ok(())
    }
}
