//! Joins the parts of a split dump, without recompressing pages.
//!
//! Every part has the bitmaps of the whole dump and the descriptors of its own pages. The
//! joined dump has the descriptors of all parts, followed by the data of one part after the
//! other; offsets in descriptors move with their part's data.

use std::path::PathBuf;

use bigiron_format::kdump::{DESCRIPTOR_SIZE, KdumpHeaders, LostBits, PageDescriptor};
use bigiron_format::salvage::{Salvager, Unreadable};
use bigiron_format::{FormatError, ReadAt};
use bigiron_helpers::Stop;
use bigiron_kernel::source::DumpFile;

use super::copy::{CopyRange, copy, write_error};
use super::job::{Made, SaveJob};
use super::lost_pages::{INCOMPLETE, STATUS, mark_lost_pages_of};
use super::part::Part;
use super::part_bitmaps;
use super::space;
use crate::device::refused;
use crate::error::DumpError;
use crate::output::{FileOutput, Output, keep};
use crate::progress::Phase;

/// Page descriptors moved in one step.
const BATCH: u64 = 16 << 10;
/// Alignment of a part's data, so that holes stay holes.
const ALIGNMENT: u64 = 4096;
/// Ranges of the sub-header that describe a part: `split` and its page frames.
const SPLIT: std::ops::Range<usize> = 12..32;
const SPLIT_64: std::ops::Range<usize> = 80..96;
/// The first header version with the 64-bit range.
const VERSION_64: i32 = 6;

/// Joins the files at `paths` in the temporary file.
pub fn write(job: &SaveJob, paths: &[PathBuf]) -> Result<Made, DumpError> {
    let (origin, temporary) = (job.origin, job.temporary);
    let mut parts = open(paths)?;
    let unreadable =
        part_bitmaps::complete(&mut parts).map_err(|error| origin.read_error(error))?;
    let total = place(&mut parts, &unreadable).map_err(|error| origin.read_error(error))?;
    let Some(first) = parts.first() else {
        return Err(refused(origin.path(), "no file was given"));
    };
    let layout = first.headers.layout;
    let size = parts
        .last()
        .map_or(0, |part| part.to + (part.file.size() - part.data));
    let descriptors = layout.descriptors();
    let needed: u64 = parts.iter().map(|part| space::data_bytes(&part.file)).sum();
    space::check(job.directory, needed)?;
    let output = FileOutput::in_new_file(temporary.file()?, temporary.path().to_owned());
    let error = DumpError::write(temporary.path());
    output.set_size(size).map_err(error)?;
    let copies = part_bitmaps::copies(&parts, &unreadable);
    let bitmaps = CopyRange {
        from: &copies,
        start: layout.ram_bitmap(),
        end: layout.descriptors(),
        to: layout.ram_bitmap(),
    };
    let data = parts.iter().map(|part| CopyRange {
        from: &part.file,
        start: part.data,
        end: part.file.size(),
        to: part.to,
    });
    let ranges: Vec<_> = std::iter::once(bitmaps).chain(data).collect();
    job.progress.begin(Phase::Copying, size.div_ceil(ALIGNMENT));
    let mut copied = keep(
        || output.sync().map_err(error),
        job.progress,
        job.stop,
        || copy(job, &ranges, &output),
    )?;
    part_bitmaps::write_completed(&parts, &output).map_err(error)?;
    let mut whole = parts.iter().map(|part| part.count).sum::<u64>() == total;
    for part in &parts {
        let (moved, unreadable) = move_descriptors(part, descriptors, &output, job.stop)?;
        whole &= moved;
        copied.unreadable.merge(unreadable);
        whole &= !part.headers.incomplete;
    }
    let headers = KdumpHeaders {
        incomplete: parts.iter().any(|part| part.headers.incomplete),
        split: None,
        ..first.headers.clone()
    };
    drop(copies);
    copied.unreadable.merge(unreadable);
    if !copied.unreadable.is_empty() {
        whole = false;
        mark_lost_pages_of(&output, &headers, &copied.lost, &(0..0)).map_err(error)?;
    }
    // The header is written last, as in every dump.
    temporary.sync()?;
    let header = header(first, whole).map_err(|error| origin.read_error(error))?;
    output.write_at(0, &header).map_err(error)?;
    temporary.sync()?;
    let damage = (!whole).then(|| "some of its parts are missing or incomplete".to_owned());
    Ok(Made {
        bytes: size,
        copied: copied.bytes,
        damage,
        unreadable: copied.unreadable(),
        ..Made::default()
    })
}

/// Opens the parts and sorts them by page frame. Opening the dump has checked that they belong
/// together.
fn open(paths: &[PathBuf]) -> Result<Vec<Part>, DumpError> {
    let mut parts = Vec::with_capacity(paths.len());
    for path in paths {
        let file = DumpFile::open(path)?;
        let mut front = [0; 16];
        let read = file.read_exact_at("the signature", 0, &mut front);
        if read.is_err() || !KdumpHeaders::is_kdump(&front) {
            let reason =
                "is not an uncompressed kdump-compressed file; join such parts with `bigiron dump`";
            return Err(refused(path, reason));
        }
        let headers = KdumpHeaders::read(&file).map_err(|e| DumpError::from(file.error(e)))?;
        parts.push(Part {
            file,
            headers,
            lost_bits: LostBits::default(),
            first: 0,
            count: 0,
            data: 0,
            to: 0,
        });
    }
    parts.sort_by_key(|part| part.headers.split);
    Ok(parts)
}

/// Assigns the offsets of each part's descriptors and data in the joined dump; returns the
/// total number of descriptors.
fn place(parts: &mut [Part], unreadable: &Unreadable) -> Result<u64, FormatError> {
    let Some(first) = parts.first() else {
        return Ok(0);
    };
    let end = first.headers.end_frame;
    let mut frames = vec![end];
    for part in parts.iter() {
        let (start, stop) = part.headers.split.unwrap_or((0, end));
        frames.extend([start.min(end), stop.min(end)]);
    }
    let ranks = part_bitmaps::count_below(parts, unreadable, &first.headers, &frames)?;
    let total = ranks[0];
    let mut to = first.headers.layout.descriptor(total);
    for (part, ranks) in parts.iter_mut().zip(ranks[1..].chunks_exact(2)) {
        (part.first, part.count) = (ranks[0], ranks[1].saturating_sub(ranks[0]));
        let data = part.headers.layout.descriptor(part.count);
        part.data = data.min(part.file.size());
        // Keep the part's alignment to blocks.
        part.to = to.next_multiple_of(ALIGNMENT) + part.data % ALIGNMENT;
        to = part.to + (part.file.size() - part.data);
    }
    Ok(total)
}

/// Copies a part's descriptors with their new data offsets. Returns false if some are missing or
/// damaged, and the ranges that could not be read.
fn move_descriptors(
    part: &Part,
    descriptors: u64,
    output: &dyn Output,
    stop: &Stop,
) -> Result<(bool, Unreadable), DumpError> {
    let mut salvager = Salvager::default();
    let endian = part.headers.endian;
    let size = DESCRIPTOR_SIZE as u64;
    let from = part.headers.layout.descriptors();
    // Descriptors cut off with the end of a part stay zero, which means lost.
    let there = part.count.min(part.file.size().saturating_sub(from) / size);
    let mut whole = there == part.count;
    let mut at = 0;
    let mut bytes = vec![0; (BATCH * size) as usize];
    while at < there && !stop.is_set() {
        let batch = &mut bytes[..(BATCH.min(there - at) * size) as usize];
        // Descriptors of zeros mean lost pages.
        whole &= salvager
            .read(&part.file, "page descriptors", from + at * size, batch)
            .map_err(|error| DumpError::from(part.file.error(error)))?;
        for (index, bytes) in (at..).zip(batch.chunks_exact_mut(DESCRIPTOR_SIZE)) {
            let mut descriptor = PageDescriptor::decode(bytes, endian).unwrap_or_default();
            if part.lost_bits.unknown.contains(&index) {
                descriptor = PageDescriptor::default();
            }
            let behind = descriptor.offset.saturating_add(u64::from(descriptor.size));
            let is_inside = part.data <= descriptor.offset && behind <= part.file.size();
            descriptor.offset = if is_inside {
                descriptor.offset - part.data + part.to
            } else {
                // The descriptor would point into another part's data.
                whole &= descriptor.is_lost();
                0
            };
            bytes.copy_from_slice(&descriptor.encode(endian));
        }
        let to = descriptors + (part.first + at) * size;
        output
            .write_at(to, batch)
            .map_err(|source| write_error(output, source))?;
        at += BATCH;
    }
    if stop.is_set() {
        return Err(DumpError::Interrupted { kept: None });
    }
    Ok((whole, salvager.take()))
}

/// Returns the header blocks of the first part, changed to those of a whole dump.
fn header(part: &Part, whole: bool) -> Result<Vec<u8>, FormatError> {
    let (headers, layout) = (&part.headers, part.headers.layout);
    let mut bytes = part
        .file
        .read_vec_at("the headers", 0, layout.ram_bitmap())?;
    let endian = headers.endian;
    let status = endian.u32(&bytes, STATUS).unwrap_or(0) & !INCOMPLETE;
    endian.put_u32(
        &mut bytes,
        STATUS,
        status | if whole { 0 } else { INCOMPLETE },
    );
    let sub = layout.sub_header() as usize;
    bytes[sub + SPLIT.start..sub + SPLIT.end].fill(0);
    if headers.version >= VERSION_64 {
        bytes[sub + SPLIT_64.start..sub + SPLIT_64.end].fill(0);
    }
    Ok(bytes)
}
