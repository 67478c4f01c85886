//! The bitmaps of a split dump, which each part has: a bad sector of one of them costs nothing, and
//! one at the same place of all of them only the pages with bits in it.

use std::io;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::kdump::{BitmapCopies, KdumpHeaders, LostBits};
use bigiron_format::salvage::{Salvager, Unreadable};
use bigiron_format::{FormatError, ReadAt};

use super::part::Part;
use crate::output::{FileOutput, Output};

/// Bytes of a bitmap read in one step.
const PIECE: u64 = 256 << 10;

/// The bitmaps of all parts, with zeros in the ranges `unreadable`.
pub fn copies<'a>(parts: &'a [Part], unreadable: &'a Unreadable) -> BitmapCopies<'a> {
    let files = parts.iter().map(|part| &part.file as &dyn ReadAt);
    BitmapCopies::new(files.collect(), unreadable)
}

/// Completes the dumped bitmap for each part; returns the ranges that no part returns.
pub fn complete(parts: &mut [Part]) -> Result<Unreadable, FormatError> {
    let Some(first) = parts.first() else {
        return Ok(Unreadable::default());
    };
    let mut salvager = Salvager::default();
    let readable = Unreadable::default();
    for_each_piece(
        &copies(parts, &readable),
        &first.headers,
        &mut salvager,
        |_, _| {},
    )?;
    let unreadable = salvager.take();
    if unreadable.is_empty() {
        return Ok(unreadable);
    }
    let copies = copies(parts, &unreadable);
    let complete =
        |part: &Part| LostBits::complete(&copies, &part.file, &part.headers, &unreadable);
    let completed: Result<Vec<_>, _> = parts.iter().map(complete).collect();
    for (part, lost_bits) in parts.iter_mut().zip(completed?) {
        part.lost_bits = lost_bits;
    }
    Ok(unreadable)
}

/// Counts the dumped pages below each of these page frames.
pub fn count_below(
    parts: &[Part],
    unreadable: &Unreadable,
    headers: &KdumpHeaders,
    frames: &[u64],
) -> Result<Vec<u64>, FormatError> {
    let mut counts = vec![0; frames.len()];
    let mut salvager = Salvager::default();
    let copies = copies(parts, unreadable);
    for_each_piece(&copies, headers, &mut salvager, |first, bits| {
        for part in parts {
            part.lost_bits.apply(first, bits);
        }
        for (count, frame) in counts.iter_mut().zip(frames) {
            let inside = frame.saturating_sub(first).min(PIECE * 8);
            *count += bits.count_before(inside as usize);
        }
    })?;
    Ok(counts)
}

/// Passes each piece of the dumped bitmap to `see`, with the page frame of its first bit.
fn for_each_piece(
    copies: &BitmapCopies<'_>,
    headers: &KdumpHeaders,
    salvager: &mut Salvager,
    mut see: impl FnMut(u64, &mut Bitmap),
) -> Result<(), FormatError> {
    let bitmap = headers.layout.dumped_bitmap();
    let end = headers.end_frame.div_ceil(8);
    let mut bits = Bitmap::new(PIECE as usize * 8);
    let mut at = 0;
    loop {
        at = at.max(copies.next_data(bitmap + at).saturating_sub(bitmap));
        if at >= end {
            return Ok(());
        }
        let len = PIECE.min(end - at) as usize;
        bits.clear();
        let piece = &mut bits.as_bytes_mut()[..len];
        salvager.read(copies, "a bitmap", bitmap + at, piece)?;
        see(at * 8, &mut bits);
        at += PIECE;
    }
}

/// Writes the completed bits into the dumped bitmap of the joined dump.
pub fn write_completed(parts: &[Part], joined: &FileOutput) -> io::Result<()> {
    for part in parts {
        let Some((frames, _)) = &part.lost_bits.bits else {
            continue;
        };
        // Its first and last byte may have bits of other parts.
        let first = frames.start / 8;
        let len = (frames.end.div_ceil(8) - first) as usize;
        let at = part.headers.layout.dumped_bitmap() + first;
        let mut bits = Bitmap::new(len * 8);
        joined.read_back(at, &mut bits.as_bytes_mut()[..len])?;
        part.lost_bits.apply(first * 8, &mut bits);
        joined.write_at(at, &bits.as_bytes()[..len])?;
    }
    Ok(())
}
