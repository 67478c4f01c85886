//! The limit: the bare codec on the pages of a dump, in memory, without format, input or
//! output.
//!
//! The limit uses the codecs' libraries: libdeflate for zlib, snap for snappy, zstd for zstd. A
//! dump can be faster than the limit, because zlib level 1 is written by an encoder of bigiron
//! made for pages. Only for LZO the limit uses bigiron's own encoder, because the library is
//! GPL.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use bigiron_dump::DumpError;
use bigiron_format::PageFrame;
use bigiron_format::bitmap::Bitmap;
use bigiron_format::codec::{Codec, CodecError, Compression};
use bigiron_helpers::{Stop, WorkCursor, available_memory, run};
use bigiron_kernel::{DumpLevel, Filter, IoMethod, Kernel, SECTION_FRAMES};

/// Maximum size of the sample of nonzero pages, in bytes.
const MAX_BYTES: u64 = 512 << 20;
/// The sample uses at most one part in this many of the free memory.
const SHARE_OF_FREE: u64 = 4;
/// Pages that a thread takes at once, as in a dump.
const PAGES_AT_ONCE: usize = 256;

/// The pages of a dump level, or an even sample of them if they are many.
pub struct Sample {
    bytes: Vec<u8>,
    page_size: usize,
    /// Number of pages that the level keeps, including zero pages.
    pub kept: u64,
    /// Number of nonzero pages among them, estimated from the sample.
    pub nonzero: u64,
}

/// Returns the number of pages that `level` keeps.
pub fn kept_pages(kernel: &Kernel, level: DumpLevel, stop: &Stop) -> anyhow::Result<u64> {
    let mut kept = 0;
    each_chunk(kernel, level, stop, &mut |_, bits| {
        kept += bits.count();
        Ok(())
    })?;
    Ok(kept)
}

impl Sample {
    /// Reads the pages that `level` keeps. Of `kept` pages, as counted before, only every n-th
    /// is read, so that the sample fits in the available memory.
    pub fn read(kernel: &Kernel, level: DumpLevel, kept: u64, stop: &Stop) -> anyhow::Result<Self> {
        let page_size = 1_usize << kernel.source().page_shift();
        let free = available_memory().map_or(MAX_BYTES, |free| free / SHARE_OF_FREE);
        let most = (MAX_BYTES.min(free) / page_size as u64).max(1);
        Self::every(kernel, level, kept.div_ceil(most).max(1), stop)
    }

    fn every(kernel: &Kernel, level: DumpLevel, step: u64, stop: &Stop) -> anyhow::Result<Self> {
        let page_size = 1_usize << kernel.source().page_shift();
        let mut reader = kernel.source().reader(IoMethod::Read);
        let (mut bytes, mut kept, mut looked_at) = (Vec::new(), 0, 0_u64);
        each_chunk(kernel, level, stop, &mut |first, bits| {
            let mut from = 0;
            while let Some((bit, _)) = bits.next_run(from, bits.len(), 1) {
                from = bit + 1;
                kept += 1;
                if kept % step != 0 {
                    continue;
                }
                match reader.pages(PageFrame(first.0 + bit as u64), 1) {
                    Ok(page) => {
                        looked_at += 1;
                        if page.iter().any(|byte| *byte != 0) {
                            bytes.extend_from_slice(page);
                        }
                    }
                    Err(error) if error.is_one_page() => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })?;
        let sampled = (bytes.len() / page_size) as u64;
        let nonzero = u128::from(kept) * u128::from(sampled) / u128::from(looked_at.max(1));
        Ok(Self {
            bytes,
            page_size,
            kept,
            nonzero: nonzero as u64,
        })
    }

    /// Returns the number of pages in memory.
    pub fn pages(&self) -> u64 {
        (self.bytes.len() / self.page_size) as u64
    }

    /// Compresses the nonzero pages with the codec's library on `threads`, each with a separate
    /// context. Returns the time in seconds, extrapolated to all nonzero pages. Without
    /// compression this is memcpy().
    pub fn seconds(
        &self,
        compression: Compression,
        threads: usize,
        stop: &Stop,
    ) -> anyhow::Result<f64> {
        let piece = PAGES_AT_ONCE * self.page_size;
        let pieces: Vec<&[u8]> = self.bytes.chunks(piece).collect();
        let cursor = WorkCursor::new(pieces.len() as u64);
        let begin = Instant::now();
        run(threads, stop, |_| -> Result<_, CodecError> {
            let mut compressor = match compression.library_compressor()? {
                Some(library) => library,
                None => compression.compressor()?,
            };
            let mut room = vec![0; piece];
            while let Some(index) = cursor.take(stop) {
                let mut used = 0;
                for page in pieces[index as usize].chunks_exact(self.page_size) {
                    let place = &mut room[used..used + self.page_size];
                    // As in a dump, pages that do not shrink are copied.
                    let shorter = &mut place[..self.page_size - 1];
                    let made = match compression.codec {
                        Codec::None => None,
                        _ => compressor.compress(black_box(page), shorter),
                    };
                    used += made.unwrap_or_else(|| {
                        place.copy_from_slice(black_box(page));
                        page.len()
                    });
                }
                black_box(&room);
            }
            Ok(())
        })
        .context("the bare codec")?;
        if stop.is_set() {
            return Err(DumpError::Interrupted { kept: None }.into());
        }
        let scale = self.nonzero as f64 / self.pages().max(1) as f64;
        Ok(begin.elapsed().as_secs_f64() * scale)
    }
}

/// Filters section by section and calls the closure with the kept pages of each.
fn each_chunk(
    kernel: &Kernel,
    level: DumpLevel,
    stop: &Stop,
    take: &mut dyn FnMut(PageFrame, &Bitmap) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut filter = Filter::new(kernel, level)?;
    filter.end_at_mem_map()?;
    let mut reader = kernel.source().reader(IoMethod::Read);
    let mut ram = Bitmap::new(SECTION_FRAMES as usize);
    let mut kept = Bitmap::new(SECTION_FRAMES as usize);
    for first in kernel.source().sections() {
        if stop.is_set() {
            return Err(DumpError::Interrupted { kept: None }.into());
        }
        filter.scan_section(reader.as_mut(), first, &mut ram, &mut kept)?;
        take(first, &kept)?;
    }
    Ok(())
}
