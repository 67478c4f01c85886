//! The list of the page frames whose pages the core has, in the order of the pages.

use super::sections::{PAGE_SIZE, Section};
use crate::address::PhysAddr;
use crate::bytes::{Endian, ReadAt};
use crate::elf::machine_frames::{FrameRun, MachineFrames};
use crate::error::FormatError;
use crate::image::{ADDRESS_LIMIT, ImageRange, ImageRanges, MAX_RANGES};

/// Bytes of the list read at once.
const AT_ONCE: u64 = 1 << 20;
/// An entry without a page.
const INVALID: u64 = u64::MAX;

/// Reads a list of frames.
pub(super) fn plain(
    file: &dyn ReadAt,
    list: &Section,
    pages: &Section,
    count: u64,
) -> Result<ImageRanges, FormatError> {
    let mut image = Image::new(file, pages);
    each(file, list, count, 1, |index, words, at| {
        image.push(index, words[0], at)
    })?;
    Ok(image.finish(count))
}

/// Reads a list of frames, each with the machine's frame.
pub(super) fn with_machine(
    file: &dyn ReadAt,
    list: &Section,
    pages: &Section,
    count: u64,
) -> Result<(ImageRanges, MachineFrames), FormatError> {
    let mut image = Image::new(file, pages);
    let mut runs: Vec<FrameRun> = Vec::new();
    each(file, list, count, 2, |index, words, at| {
        let [frame, machine] = [words[0], words[1]];
        image.push(index, frame, at)?;
        if frame == INVALID || machine == INVALID {
            return Ok(());
        }
        let is_full = runs.len() == MAX_RANGES;
        match runs.last_mut() {
            Some(run) if run.goes_on_with(frame, machine) => run.count += 1,
            _ if is_full => return Err(too_many(at)),
            _ => runs.push(FrameRun {
                frame,
                machine,
                count: 1,
            }),
        }
        Ok(())
    })?;
    Ok((image.finish(count), MachineFrames::new(runs)))
}

/// Passes the number of each entry, its words and its offset to `take`.
fn each(
    file: &dyn ReadAt,
    list: &Section,
    count: u64,
    words: usize,
    mut take: impl FnMut(u64, [u64; 2], u64) -> Result<(), FormatError>,
) -> Result<(), FormatError> {
    let entry = 8 * words as u64;
    let needed = count.checked_mul(entry);
    if needed.is_none_or(|needed| needed > list.size) {
        return Err(FormatError::unexpected(
            "the list of page frames",
            list.offset,
            format!("{count} entries of {entry} bytes"),
            format!("{} bytes", list.size),
        ));
    }
    let mut done = 0;
    while done < count {
        let some = (count - done).min(AT_ONCE / entry);
        let at = list.offset.saturating_add(done * entry);
        let bytes = file.read_vec_at("the list of page frames", at, some * entry)?;
        for (index, bytes) in (done..).zip(bytes.chunks_exact(entry as usize)) {
            let word = |word: usize| Endian::Little.u64(bytes, 8 * word).unwrap_or(INVALID);
            let at = list.offset + index * entry;
            take(index, [word(0), word(words - 1)], at)?;
        }
        done += some;
    }
    Ok(())
}

fn too_many(at: u64) -> FormatError {
    FormatError::unexpected(
        "the list of page frames",
        at,
        format!("at most {MAX_RANGES} runs"),
        "more",
    )
}

/// The ranges of memory so far.
struct Image {
    /// Offset of the pages, and how many the file has.
    offset: u64,
    there: u64,
    ranges: Vec<ImageRange>,
    lost: u64,
}

impl Image {
    fn new(file: &dyn ReadAt, pages: &Section) -> Self {
        let size = file.size().saturating_sub(pages.offset);
        Self {
            offset: pages.offset,
            there: size.min(pages.size) / PAGE_SIZE,
            ranges: Vec::new(),
            lost: 0,
        }
    }

    /// Adds page number `index`, which is that of `frame`.
    fn push(&mut self, index: u64, frame: u64, at: u64) -> Result<(), FormatError> {
        if frame == INVALID {
            return Ok(());
        }
        if frame >= ADDRESS_LIMIT / PAGE_SIZE {
            return Err(FormatError::unexpected(
                "an entry of the list of page frames",
                at,
                format!("a page frame below {:#x}", ADDRESS_LIMIT / PAGE_SIZE),
                format!("{frame:#x}"),
            ));
        }
        if index >= self.there {
            self.lost += 1;
            return Ok(());
        }
        let (physical, offset) = (frame * PAGE_SIZE, self.offset + index * PAGE_SIZE);
        let is_full = self.ranges.len() == MAX_RANGES;
        match self.ranges.last_mut() {
            Some(last)
                if last.physical.0 + last.size == physical && last.offset + last.size == offset =>
            {
                last.size += PAGE_SIZE;
            }
            _ if is_full => return Err(too_many(at)),
            _ => self.ranges.push(ImageRange {
                physical: PhysAddr(physical),
                size: PAGE_SIZE,
                offset,
            }),
        }
        Ok(())
    }

    fn finish(self, count: u64) -> ImageRanges {
        let lost = self.lost;
        ImageRanges {
            ranges: self.ranges,
            damage: (lost > 0).then(|| {
                format!("{lost} of its {count} pages are behind its end: it is truncated")
            }),
        }
    }
}
