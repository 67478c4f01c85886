//! Writes kdump-compressed dumps, to a file or flattened to a stream.
//!
//! The bitmaps tell how many pages come before each chunk, so a helper knows
//! where its descriptors belong without waiting for others. Data may lie
//! anywhere: each helper takes the next free piece of the file.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::Compressor;
use bigiron_format::kdump::{
    DESCRIPTOR_SIZE, KdumpHeaders, Layout, PageDescriptor, flags_of_codec,
};
use bigiron_helpers::{ChunkCursor, Turnstile, run};
use bigiron_kernel::{CHUNK_FRAMES, Filter, IoMethod, PageReader};
use xxhash_rust::xxh3::xxh3_64;

use crate::bitmaps::{BitmapStore, CHUNK_BYTES};
use crate::error::DumpError;
use crate::notes::output_notes;
use crate::output::{FileOutput, Output};
use crate::plan::{self, LoadError, Plan, is_zero};
use crate::progress::Phase;
use crate::shared_pages::{SharedPages, StoredPage};
use crate::summary::Summary;
use crate::task::{Task, Written, end_phase, summarize_plan};

/// Page frames that a helper takes at once: their data is one write.
const UNIT_FRAMES: u64 = 512;
/// Pages read at once.
const READ_PAGES: usize = 64;
/// Memory for finding equal pages.
const SHARED_PAGES_BYTES: u64 = 2 << 20;
/// Lost page frames that are named one by one.
const MAX_NAMED: usize = 64;
/// Marks an offset that counts from the start of the unit's own data.
const IN_UNIT: u64 = 1 << 63;

/// Filters, then writes a whole dump. `readable` is the output if the bitmaps
/// can be read back from it.
pub fn write<'s>(
    task: &Task<'_, 's>,
    filter: &Filter<'_, 's>,
    output: &dyn Output,
    readable: Option<&FileOutput>,
    summary: &mut Summary,
) -> Result<Written, DumpError> {
    let begin = Instant::now();
    let mut headers = make_headers(task);
    let layout = headers.layout;
    let put = |offset, bytes: &[u8]| {
        task.progress.add_written(bytes.len() as u64);
        output.write_at(offset, bytes)
    };
    // A file says from the start that it is not complete. In a stream the
    // missing end record says so, and some readers want no record twice.
    headers.incomplete = !output.is_stream();
    put(0, &headers.encode()).map_err(|e| task.write_error(e))?;

    let chunks = plan::chunks_of(task);
    let store = match readable {
        Some(file) => BitmapStore::InOutput(file, layout.dumped_bitmap()),
        None if BitmapStore::memory_size(chunks.len()) < task.options.memory.bytes() / 4 => {
            BitmapStore::in_memory(chunks.len())
        }
        None => BitmapStore::Again,
    };
    if output.is_stream() {
        fill_bitmap_gaps(task, &layout, &chunks, &put)?;
    }
    let plan = plan::make(task, filter, chunks, &store, false, &|first, ram, kept| {
        let offset = first.0 / 8;
        let len = CHUNK_BYTES.min((layout.bitmap_size - offset) as usize);
        put(layout.ram_bitmap() + offset, &ram.as_bytes()[..len])?;
        put(layout.dumped_bitmap() + offset, &kept.as_bytes()[..len])
    })?;
    summarize_plan(task, &plan, summary);
    end_phase(summary, Phase::Filtering, begin);

    let begin = Instant::now();
    let zero_page = layout.descriptor(plan.kept);
    put(zero_page, &vec![0; task.page_size()]).map_err(|e| task.write_error(e))?;
    let copy = Copy {
        task,
        filter,
        output,
        plan: &plan,
        store: &store,
        layout,
        zero_page,
        next_data: AtomicU64::new(zero_page + task.page_size() as u64),
        shared: SharedPages::new(SHARED_PAGES_BYTES),
        turnstile: Turnstile::new(),
    };
    copy.run(summary)?;
    end_phase(summary, Phase::Copying, begin);
    if summary.lost > 0 {
        summary.warnings.push(format!(
            "{} pages cannot be read; they are marked as lost, and the dump as incomplete",
            summary.lost
        ));
    }

    let begin = Instant::now();
    task.progress.begin(Phase::Finishing, 0);
    let incomplete = summary.lost > 0 || task.kernel.source().damage().is_some();
    if headers.incomplete != incomplete {
        headers.incomplete = incomplete;
        put(0, &headers.encode()).map_err(|e| task.write_error(e))?;
    }
    output.finish().map_err(|e| task.write_error(e))?;
    end_phase(summary, Phase::Finishing, begin);
    Ok(Written)
}

fn make_headers(task: &Task) -> KdumpHeaders {
    let kernel = task.kernel;
    let source = kernel.source();
    let notes = output_notes(kernel);
    let block_size = task.page_size() as u32;
    let end_frame = source.end_frame().0;
    let layout = Layout::new(u64::from(block_size), notes.bytes.len() as u64, end_frame);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let text = notes.vmcoreinfo;
    KdumpHeaders {
        endian: source.endian(),
        version: bigiron_format::kdump::header::VERSION,
        utsname: kernel.utsname().clone(),
        timestamp: (now.as_secs().cast_signed(), i64::from(now.subsec_micros())),
        codec_flags: flags_of_codec(task.options.compression.codec),
        incomplete: true,
        block_size,
        cpu_count: notes.cpus.max(1) as u32,
        phys_base: kernel
            .info()
            .number("phys_base")
            .unwrap_or(0)
            .cast_unsigned(),
        dump_level: u32::from(task.options.level.number() | source.dump_level()),
        split: None,
        end_frame,
        vmcoreinfo: Some((layout.notes() + text.start as u64, text.len() as u64)),
        notes: notes.bytes,
        layout,
    }
}

/// In a stream nothing may be missing, so the bitmaps of chunks without RAM
/// are written too.
fn fill_bitmap_gaps(
    task: &Task,
    layout: &Layout,
    chunks: &[plan::PlannedChunk],
    put: &dyn Fn(u64, &[u8]) -> std::io::Result<()>,
) -> Result<(), DumpError> {
    let mut planned = chunks.iter().map(|chunk| chunk.first.0 / 8).peekable();
    let mut offset = 0;
    while offset < layout.bitmap_size {
        let len = (CHUNK_BYTES as u64).min(layout.bitmap_size - offset);
        if planned.next_if_eq(&offset).is_none() {
            for bitmap in [layout.ram_bitmap(), layout.dumped_bitmap()] {
                put(bitmap + offset, &[0; CHUNK_BYTES][..len as usize])
                    .map_err(|e| task.write_error(e))?;
            }
        }
        offset += len;
    }
    Ok(())
}

/// The second pass: reads, compresses and writes pages.
struct Copy<'a, 's> {
    task: &'a Task<'a, 's>,
    filter: &'a Filter<'a, 's>,
    output: &'a dyn Output,
    plan: &'a Plan,
    store: &'a BitmapStore<'a>,
    layout: Layout,
    zero_page: u64,
    /// Where the next data goes.
    next_data: AtomicU64,
    shared: SharedPages,
    turnstile: Turnstile,
}

impl Copy<'_, '_> {
    fn run(&self, summary: &mut Summary) -> Result<(), DumpError> {
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
        for counts in results {
            summary.zero += counts.zero;
            summary.shared += counts.shared;
            summary.lost += counts.lost;
            summary.bytes_in += counts.bytes_in;
            summary.lost_frames.extend(counts.lost_frames);
        }
        summary.lost_frames.sort_unstable();
        summary.lost_frames.truncate(MAX_NAMED);
        task.check_interrupted()
    }
}

#[derive(Default)]
struct Counts {
    zero: u64,
    shared: u64,
    lost: u64,
    bytes_in: u64,
    lost_frames: Vec<PageFrame>,
}

/// A page of the unit whose data is new: it becomes known once it is written.
struct NewPage {
    hash: u64,
    descriptor: usize,
    frame: PageFrame,
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

/// The pages of one unit on their way into the file.
struct Unit<'a, 's> {
    copy: &'a Copy<'a, 's>,
    /// Fetches pages to compare with.
    comparer: Box<dyn PageReader + 'a>,
    compressor: Box<dyn Compressor>,
    codec_flags: u32,
    data: Vec<u8>,
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

impl<'a, 's> Helper<'a, 's> {
    fn new(copy: &'a Copy<'a, 's>) -> Result<Self, DumpError> {
        let source = copy.task.kernel.source();
        let compression = copy.task.options.compression;
        Ok(Self {
            copy,
            reader: source.reader(copy.task.options.io),
            unit: Unit {
                copy,
                comparer: source.reader(IoMethod::Read),
                compressor: compression.compressor()?,
                codec_flags: flags_of_codec(compression.codec),
                data: Vec::with_capacity(UNIT_FRAMES as usize * copy.task.page_size()),
                descriptors: Vec::with_capacity(UNIT_FRAMES as usize),
                new_pages: Vec::new(),
                new_by_hash: HashMap::default(),
            },
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
            + if self.unit.descriptors.is_empty() {
                0
            } else {
                self.kept.count_before(start as usize)
            };
        let count = self.unit.descriptors.len() as u64;
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
            copy.store,
            copy.filter,
            reader,
            (chunk, first),
            &mut self.kept,
        )
        .map_err(|error| match error {
            LoadError::Io(error) => copy.task.write_error(error),
            LoadError::Kernel(error) => copy.task.filter_error(error),
        })?;
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
                    self.counts.lost += 1;
                    if self.counts.lost_frames.len() < MAX_NAMED {
                        self.counts.lost_frames.push(frame);
                    }
                    self.unit.descriptors.push(PageDescriptor::default());
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

impl Unit<'_, '_> {
    fn add_zero(&mut self) {
        self.descriptors.push(PageDescriptor {
            offset: self.copy.zero_page,
            size: self.copy.task.page_size() as u32,
            ..Default::default()
        });
    }

    /// Adds a page; says whether an equal one was there already.
    fn add(&mut self, frame: PageFrame, page: &[u8]) -> bool {
        let hash = xxh3_64(page);
        if let Some(descriptor) = self.find_equal(hash, page) {
            self.descriptors.push(descriptor);
            return true;
        }
        let start = self.data.len();
        self.data.resize(start + page.len(), 0);
        // What does not get smaller is stored as it is, as readers expect.
        let room = &mut self.data[start..start + page.len() - 1];
        let (size, flags) = match self.codec_flags {
            0 => (None, 0),
            flags => (self.compressor.compress(page, room), flags),
        };
        let (size, flags) = match size {
            Some(size) => (size, flags),
            None => {
                self.data[start..].copy_from_slice(page);
                (page.len(), 0)
            }
        };
        self.data.truncate(start + size);
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
    fn write(&mut self, index: u64) -> std::io::Result<()> {
        if self.descriptors.is_empty() {
            return Ok(());
        }
        let copy = self.copy;
        let base = copy
            .next_data
            .fetch_add(self.data.len() as u64, Ordering::Relaxed);
        for descriptor in &mut self.descriptors {
            if descriptor.offset & IN_UNIT != 0 {
                descriptor.offset = base + (descriptor.offset & !IN_UNIT);
            }
        }
        if !self.data.is_empty() {
            copy.output.write_at(base, &self.data)?;
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
            .add_written((self.data.len() + bytes.len()) as u64);
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
        self.data.clear();
        Ok(())
    }
}
