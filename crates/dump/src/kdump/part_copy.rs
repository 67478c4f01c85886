//! The second pass for one part: helpers read, compress and write pages.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use bigiron_format::PageFrame;
use bigiron_format::kdump::Layout;
use bigiron_helpers::{Turnstile, WorkCursor, run, run_beside};

use super::adaptive::Strength;
use super::batch::{BATCH_FRAMES, Batch, BatchOutput, end_of_zeros};
use super::batch_builder::{Added, BatchBuilder};
use super::share::{BATCHES_PER_SECTION, Share};
use super::thread_time::ThreadClock;
use super::write_queue::WriteQueue;
use crate::error::DumpError;
use crate::format::PageCompression;
use crate::kept_pages::{KeptCursor, KeptPages};
use crate::losses::Losses;
use crate::output::Part;
use crate::shared_pages::SharedPages;
use crate::summary::Summary;

/// Memory of the table of shared pages.
const SHARED_PAGES_BYTES: u64 = 2 << 20;

/// The second pass for one part.
pub(super) struct PartCopy<'a, 's> {
    kept: &'a KeptPages<'a, 's>,
    share: &'a Share,
    compression: PageCompression,
    helpers: usize,
    output: BatchOutput<'a>,
    turnstile: Turnstile,
}

impl<'a, 's> PartCopy<'a, 's> {
    /// Creates the copy of `share` to `part` by this number of helpers.
    pub(super) fn new(
        kept: &'a KeptPages<'a, 's>,
        share: &'a Share,
        part: &'a Part<'a>,
        layout: Layout,
        compression: PageCompression,
        helpers: usize,
    ) -> Self {
        let (job, zero_page) = (kept.job, layout.descriptor(kept.plan.kept));
        let page_size = job.page_size();
        Self {
            kept,
            share,
            compression,
            helpers,
            output: BatchOutput {
                part,
                progress: job.progress,
                endian: job.subject.source().endian(),
                page_size,
                layout,
                first_page: share.first_page,
                zero_page,
                next_data: AtomicU64::new(end_of_zeros(&layout, kept.plan.kept, page_size)),
                in_blocks: part.is_direct(),
                stored: SharedPages::new(SHARED_PAGES_BYTES),
            },
            turnstile: Turnstile::new(),
        }
    }

    /// Copies all pages; adds the result to `total`.
    pub(super) fn run(&self, total: &mut Copied) -> Result<(), DumpError> {
        let (stop, part) = (self.kept.job.stop, self.output.part);
        let adaptive = self.compression == PageCompression::Adaptive;
        let behind = adaptive || self.kept.job.options.write_limit.is_some() || part.is_stream();
        let counts = if behind {
            let queue = WriteQueue::new(self.helpers, adaptive);
            let (counts, _) = run_beside(
                stop,
                || queue.write_all(&self.output, stop),
                |has_writer| {
                    let result = self.run_helpers(has_writer.then_some(&queue));
                    queue.close();
                    result
                },
            )?;
            total.queues.push(queue);
            counts
        } else {
            self.run_helpers(None)?
        };
        total.helpers.extend(counts);
        Ok(())
    }

    /// Runs all helpers, and with a queue also a writer thread at its other end.
    fn run_helpers(&self, queue: Option<&WriteQueue>) -> Result<Vec<Counts>, DumpError> {
        let (batches, stop) = (&self.share.batches, self.kept.job.stop);
        let cursor = WorkCursor::new(batches.end - batches.start);
        run(self.helpers, stop, |_| {
            let begin = Instant::now();
            let mut helper = Helper::new(self, queue)?;
            while let Some(number) = cursor.take(stop) {
                helper.copy_batch(number, batches.start + number)?;
            }
            helper.counts.time = begin.elapsed();
            Ok(helper.counts)
        })
    }
}

/// Result of the copies of all parts.
#[derive(Default)]
pub(super) struct Copied {
    helpers: Vec<Counts>,
    queues: Vec<WriteQueue>,
}

impl Copied {
    /// Adds the results of more parts.
    pub(super) fn merge(&mut self, other: Self) {
        self.helpers.extend(other.helpers);
        self.queues.extend(other.queues);
    }

    pub(super) fn report(self, summary: &mut Summary) {
        let mut losses = Losses::default();
        for counts in self.helpers {
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
        // The summary has room for one writer.
        if let [queue] = &self.queues[..] {
            summary.waits = Some(queue.waits());
            let controller = queue.controller.as_ref();
            summary.adaptive = controller.map_or(Vec::new(), |controller| controller.taken());
        }
    }
}

/// Counts of one helper.
#[derive(Default)]
struct Counts {
    zero: u64,
    shared: u64,
    bytes_in: u64,
    losses: Losses,
    time: Duration,
}

impl Counts {
    fn count(&mut self, added: Added) {
        match added {
            Added::New => {}
            Added::Zero => self.zero += 1,
            Added::Shared => self.shared += 1,
        }
    }
}

/// One helper's readers, codecs and buffers.
struct Helper<'a, 's> {
    copy: &'a PartCopy<'a, 's>,
    queue: Option<&'a WriteQueue>,
    cursor: KeptCursor<'a, 's>,
    builder: BatchBuilder<'a>,
    batch: Batch,
    counts: Counts,
    clock: ThreadClock,
}

impl<'a, 's> Helper<'a, 's> {
    fn new(copy: &'a PartCopy<'a, 's>, queue: Option<&'a WriteQueue>) -> Result<Self, DumpError> {
        let job = copy.kept.job;
        let (output, source) = (&copy.output, job.subject.source());
        let optimizations = job.options.optimizations;
        Ok(Self {
            copy,
            queue,
            cursor: copy.kept.cursor(),
            builder: BatchBuilder::new(output, source, copy.compression, optimizations)?,
            batch: Batch::new(output.page_size),
            counts: Counts::default(),
            clock: ThreadClock::new(),
        })
    }

    /// Copies the kept pages of batch `index` of the dump, which is number `number` of the part.
    fn copy_batch(&mut self, number: u64, index: u64) -> Result<(), DumpError> {
        let section = (index / BATCHES_PER_SECTION) as usize;
        let start = (index % BATCHES_PER_SECTION * BATCH_FRAMES) as usize;
        let planned = self.copy.kept.plan.sections.at(section);
        if planned.kept > 0 {
            let kept = self.cursor.load(section)?;
            self.batch.index = planned.kept_before + kept.count_before(start);
            self.fill_batch(planned.first, start)?;
        }
        self.deliver(number)
    }

    /// Writes the batch or passes it to the writer thread; in order if the part is a stream.
    fn deliver(&mut self, number: u64) -> Result<(), DumpError> {
        let (copy, stop) = (self.copy, self.copy.kept.job.stop);
        let batch = &mut self.batch;
        let mut deliver = || match self.queue {
            _ if batch.is_empty() => Ok(()),
            Some(queue) => {
                queue.push(batch, &copy.output, stop);
                Ok(())
            }
            None => batch.write(&copy.output).map(|_| ()),
        };
        if copy.output.part.is_stream() {
            let delivered = copy.turnstile.pass(number, stop, deliver);
            delivered.unwrap_or(Ok(()))
        } else {
            deliver()
        }
    }

    /// Reads the kept pages of a batch from bit `start` of the section at `first` on.
    fn fill_batch(&mut self, first: PageFrame, start: usize) -> Result<(), DumpError> {
        let Self {
            cursor,
            builder,
            batch,
            counts,
            ..
        } = self;
        let page_size = self.copy.output.page_size;
        let controller = self.queue.and_then(|queue| queue.controller.as_ref());
        let begin = controller.map(|_| self.clock.now());
        let strength = self
            .queue
            .map_or(Strength::FIRST, WriteQueue::next_strength);
        builder.begin(strength);
        let zero_before = counts.zero;
        let range = start..start + BATCH_FRAMES as usize;
        if builder.stores_plain() {
            cursor.take_kept(first, range, |reader, frame, count| {
                let room = batch.room(count * page_size);
                match reader.copy_pages(frame, count, room) {
                    Ok(len) => {
                        counts.bytes_in += len as u64;
                        for (frame, at) in (frame.0..).zip(batch.pages_in_room(len, page_size)) {
                            counts.count(builder.add_in_place(batch, PageFrame(frame), at));
                        }
                        Ok(len / page_size)
                    }
                    Err(error) if error.is_one_page() => {
                        counts.losses.add(frame, &error);
                        builder.add_lost(batch);
                        Ok(1)
                    }
                    Err(error) => Err(error.into()),
                }
            })?;
        } else {
            cursor.read_kept(first, range, |frame, pages| {
                match pages {
                    Ok(pages) => {
                        counts.bytes_in += pages.len() as u64;
                        for (frame, page) in (frame.0..).zip(pages.chunks_exact(page_size)) {
                            counts.count(builder.add(batch, PageFrame(frame), page));
                        }
                    }
                    Err(error) => {
                        counts.losses.add(frame, &error);
                        builder.add_lost(batch);
                    }
                }
                Ok(())
            })?;
        }
        if let (Some(controller), Some(begin)) = (controller, begin) {
            let pages = batch.len() - (counts.zero - zero_before);
            let spent = self.clock.since(begin);
            controller.compressed(strength, pages, batch.data_len(), spent);
        }
        Ok(())
    }
}
