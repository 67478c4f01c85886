//! Unpacks a vmdump in parallel, to the same core that `zstd -d` or `bzip2 -d` produce.
//!
//! Each helper takes the next chunk and writes its nonzero blocks at its position; the rest
//! stays a hole. A chunk that fails stays a hole as well, and the others are written.

use std::sync::Mutex;

use bigiron_format::FormatError;
use bigiron_format::vmdump::{Chunk, ChunkKind, CoreOrder, Gap, Stretch};
use bigiron_helpers::{Stop, run};
use bigiron_kernel::VmdumpSource;

use super::copy::{put, write_error};
use super::job::{Made, SaveJob};
use super::space;
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::progress::Phase;

/// Memory of a helper besides its buffers: the zstd or bzip2 context, and its stack.
const CONTEXT: u64 = 5 << 20;
/// Memory of the chunks of one index record, with their bitmaps.
const INDEX: u64 = 2 << 20;
/// Maximum growth of a chunk by compression; larger ones are damaged.
const GROWTH: u64 = 64 << 10;

/// Unpacks `dump` into the job's temporary file; `damage` describes defects known already.
pub fn write(job: &SaveJob, dump: &VmdumpSource, damage: Option<&str>) -> Result<Made, DumpError> {
    let temporary = job.temporary;
    let header = dump.header();
    let expected = Expected::of(dump);
    space::check(job.directory, expected.bytes)?;
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let error = DumpError::write(temporary.path());
    output.set_size(header.core_size).map_err(error)?;
    let pages = expected.chunk_bytes >> header.page_shift;
    job.progress.begin(Phase::Copying, pages);
    let cursor = Cursor::new(dump);
    let per_helper = CONTEXT + 3 * header.chunk_bytes();
    let helpers = job.options.memory.helpers(
        job.options.threads,
        INDEX * dump.parts().len() as u64,
        per_helper,
    );
    let done = keep(
        || output.sync().map_err(error),
        job.progress,
        job.stop,
        || {
            run(helpers, job.stop, |_| {
                unpack(job, dump, &cursor, &output).map_err(|failure| match failure {
                    Failure::Write(source) => write_error(&output, source),
                    Failure::Dump(error) => error,
                })
            })
        },
    )?;
    if job.stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    temporary.sync()?;
    let (lost, index_damage) = cursor.end();
    let mut all = Done {
        lost,
        ..Done::default()
    };
    for done in done {
        all.copied += done.copied;
        all.lost += done.lost;
        all.unreadable = all.unreadable.or(done.unreadable);
        all.first = match (all.first, done.first) {
            (Some(one), Some(other)) => Some(if other.0 < one.0 { other } else { one }),
            (one, other) => one.or(other),
        };
    }
    Ok(Made {
        bytes: header.core_size,
        copied: all.copied,
        damage: index_damage.or(all.damage()).or(damage.map(Into::into)),
        unreadable: all.unreadable,
        ..Made::default()
    })
}

/// The amount of data to be written, according to the index.
struct Expected {
    /// Bytes of dumped pages and of headers.
    bytes: u64,
    /// Bytes of the chunks that contain them.
    chunk_bytes: u64,
}

impl Expected {
    fn of(dump: &VmdumpSource) -> Self {
        let mut expected = Self {
            bytes: 0,
            chunk_bytes: 0,
        };
        // Unreadable chunks are not written.
        for stretch in dump.core_order() {
            let Stretch::Chunk(_, chunk) = stretch else {
                continue;
            };
            expected.bytes += match chunk.kind {
                ChunkKind::Headers => chunk.len,
                ChunkKind::Pages => dumped_pages(&chunk) << dump.header().page_shift,
                ChunkKind::Excluded => continue,
            };
            expected.chunk_bytes += chunk.len;
        }
        expected
    }
}

fn dumped_pages(chunk: &Chunk) -> u64 {
    let ones = chunk.dumped.iter().map(|byte| u64::from(byte.count_ones()));
    ones.sum()
}

/// Hands out the chunks in core order.
struct Cursor<'a> {
    dump: &'a VmdumpSource,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    order: CoreOrder<'a>,
    /// Pages that no file has although the writer passed them.
    lost: u64,
}

impl<'a> Cursor<'a> {
    fn new(dump: &'a VmdumpSource) -> Self {
        Self {
            dump,
            state: Mutex::new(State {
                order: dump.core_order(),
                lost: 0,
            }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<'a>> {
        self.state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns the next chunk that is not all zeros, and the index of its file.
    fn take(&self, stop: &Stop) -> Option<(usize, Chunk)> {
        let mut state = self.lock();
        while !stop.is_set() {
            match state.order.next()? {
                Stretch::Chunk(_, chunk) if chunk.kind == ChunkKind::Excluded => {}
                Stretch::Chunk(part, chunk) => return Some((part, chunk)),
                Stretch::Gap(gap) => state.lost += self.pages(gap),
            }
        }
        None
    }

    /// Number of pages in a gap.
    fn pages(&self, gap: Gap) -> u64 {
        let header = self.dump.header();
        let bytes = gap.end.saturating_sub(gap.start.max(header.memory_offset));
        bytes >> header.page_shift
    }

    /// After all chunks were taken: the pages that no file has, and the first index record that
    /// cannot be read.
    fn end(&self) -> (u64, Option<String>) {
        let state = self.lock();
        let tail = Gap {
            start: state.order.covered(),
            end: self.dump.header().core_size,
        };
        // The root of a single file may be a repair's, and its writer may never have got here.
        let was_passed = self.dump.header().is_striped() && self.dump.was_ended();
        let tail = match was_passed {
            true => self.pages(tail),
            false => 0,
        };
        let damage = state.order.damage();
        let text = damage.map(|(_, error)| format!("an index record cannot be read: {error}"));
        (state.lost + tail, text)
    }
}

/// The work done by a helper.
#[derive(Default)]
struct Done {
    /// Bytes written.
    copied: u64,
    /// Lost pages.
    lost: u64,
    /// Position in the core of the first chunk that failed, and the reason.
    first: Option<(u64, String)>,
    /// An error of the disk.
    unreadable: Option<String>,
}

impl Done {
    fn damage(&self) -> Option<String> {
        let why = self.first.as_ref().map(|(_, reason)| reason.as_str());
        match (self.lost, why) {
            (0, None) => None,
            (lost, None) => Some(format!("{lost} pages lost")),
            (lost, Some(reason)) => Some(format!("{lost} pages lost; {reason}")),
        }
    }
}

/// Reason why a helper stops.
enum Failure {
    Write(std::io::Error),
    Dump(DumpError),
}

/// The work of one helper.
fn unpack(
    job: &SaveJob,
    dump: &VmdumpSource,
    cursor: &Cursor,
    output: &dyn Output,
) -> Result<Done, Failure> {
    let mut decompressor = dump
        .file()
        .decompressor()
        .map_err(|error| Failure::Dump(job.origin.read_error(error)))?;
    let (mut packed, mut bytes) = (Vec::new(), Vec::new());
    let mut done = Done::default();
    let shift = dump.header().page_shift;
    while let Some((part, chunk)) = cursor.take(job.stop) {
        let read = if u64::from(chunk.packed) > 2 * chunk.len + GROWTH {
            Err(format!(
                "the compressed size of a chunk of {} bytes is too large",
                chunk.len
            ))
        } else {
            dump.parts()[part]
                .file
                .read_chunk(&chunk, &mut decompressor, &mut packed, &mut bytes)
                .map_err(|error| {
                    let reason = error.to_string();
                    if matches!(error, FormatError::Io { .. }) {
                        done.unreadable.get_or_insert_with(|| reason.clone());
                    }
                    reason
                })
        };
        match read {
            Ok(()) => {
                let lost = chunk.lost.iter().map(|byte| u64::from(byte.count_ones()));
                done.lost += lost.sum::<u64>();
                done.copied +=
                    put(&bytes, chunk.position, output, job.progress).map_err(Failure::Write)?;
            }
            Err(reason) => {
                done.lost += dumped_pages(&chunk);
                if done.first.is_none() {
                    done.first = Some((chunk.position, reason));
                }
            }
        }
        job.progress.add(chunk.len >> shift);
    }
    Ok(done)
}
