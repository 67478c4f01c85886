//! Output to a raw dump device: the dump between two blocks that describe it
//! (docs/formats/device.md).

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::bitmap::Bitmap;
use bigiron_format::device::{
    BLOCK_SIZE, CONTENTS_OFFSET, Claim, ContentsKind, DeviceHeader, MAX_REPORT, ReportPlace,
};
use bigiron_format::kdump::Utsname;
use bigiron_format::{PageFrame, ReadAt};
use bigiron_kernel::source::{MemorySource, SECTION_FRAMES};
use xxhash_rust::xxh64::xxh64;

use super::{FileOutput, Output};
use crate::device::{OnDevice, RawDevice, in_words, refused};
use crate::dump_id::new_dump_id;
use crate::error::DumpError;
use crate::options::{DumpOptions, Unsaved};

/// A report takes at most one part in this number of the device.
const REPORT_SHARE: u64 = 64;

/// A device that may be written.
struct TakenDevice {
    device: RawDevice,
    /// Its content other than a dump.
    claims: Vec<Claim>,
    /// The header of the dump on it.
    header: Option<DeviceHeader>,
    /// Dumps that were not saved, and are replaced.
    replaced: Vec<DeviceHeader>,
    /// The device that this one is inside of, and its header, which is to name this one.
    outer: Option<(RawDevice, DeviceHeader)>,
}

/// A dump device that is being written.
#[derive(Debug)]
pub struct DeviceOutput {
    device: RawDevice,
    contents: FileOutput,
    header: Mutex<DeviceHeader>,
    /// End of the last byte of the dump that was written.
    length: AtomicU64,
    replaces: Option<String>,
}

impl DeviceOutput {
    /// Claims the device at `path` for a dump of `kind`, and writes what `report` makes of the
    /// number of bytes that it may have. This destroys a saved dump that is on it,
    /// with [`Unsaved::Replaced`] all unsaved ones, and with `overwrite_device` any other data.
    ///
    /// # Errors
    /// The device is in use, too small, not writable, or holds an unsaved dump or other data.
    pub fn begin(
        path: &Path,
        kind: ContentsKind,
        utsname: &Utsname,
        options: &DumpOptions,
        report: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Self, DumpError> {
        let taken = Self::take(path, options)?;
        let (device, claims, old) = (taken.device, taken.claims, taken.header);
        let replaced = taken.replaced.iter();
        let replaced: Vec<_> = replaced
            .map(|old| {
                format!(
                    "a dump of {} that was never saved (id {})",
                    old.utsname.names[1], old.id
                )
            })
            .collect();
        let replaces = (!replaced.is_empty())
            .then(|| format!("{}: replaces {}", path.display(), replaced.join(", and ")));
        let size = device.size();
        let report = report((size / REPORT_SHARE).min(MAX_REPORT) as usize);
        let mut header = DeviceHeader {
            id: new_dump_id(),
            generation: old.map_or(0, |old| old.generation).wrapping_add(1),
            valid: false,
            complete: false,
            contents: kind,
            device_size: size,
            offset: CONTENTS_OFFSET,
            length: 0,
            began: now(),
            ended: 0,
            utsname: utsname.clone(),
            report: None,
            next: 0,
        };
        header.report = place_report(&report, header.end_of_room());
        let file = device.file().try_clone();
        let file = file.map_err(|error| device.error("use it", error))?;
        let room = [CONTENTS_OFFSET, header.end_of_room()].map(|offset| device.base() + offset);
        let contents = FileOutput::in_device(file, path.to_owned(), room[0], room[1]);
        // The rest of an older dump must not be taken for this one if the machine stops before
        // the first page is written.
        let begin = || {
            device.put(&header, &device.places())?;
            device.wipe(&claims)?;
            if let Some(place) = header.report {
                device.write_all_at(&report, place.offset)?;
            }
            header.valid = true;
            header.advance();
            device.put(&header, &device.places())?;
            if let Some((outer, mut header)) = taken.outer {
                header.next = device.base() - outer.base();
                header.advance();
                outer.put(&header, &outer.places())?;
            }
            Ok(())
        };
        begin().map_err(|error| device.error("write its blocks", error))?;
        Ok(Self {
            device,
            contents,
            header: Mutex::new(header),
            length: AtomicU64::new(0),
            replaces,
        })
    }

    /// See [`FileOutput::past_page_cache`].
    pub fn past_page_cache(self) -> Self {
        Self {
            contents: self.contents.past_page_cache(),
            ..self
        }
    }

    /// Fails if [`begin`](Self::begin) would fail: of several devices, none is changed unless
    /// all of them can be.
    pub fn check(path: &Path, options: &DumpOptions) -> Result<(), DumpError> {
        Self::take(path, options).map(|_| ())
    }

    /// True if the device is memory, such as persistent memory.
    pub fn is_memory(&self) -> bool {
        self.device.is_memory()
    }

    /// Fails if the device at `path` is memory of the kernel that `source` is the memory of: a
    /// dump on it would overwrite what it is made of.
    pub fn check_is_apart(path: &Path, source: &dyn MemorySource) -> Result<(), DumpError> {
        let Some(range) = RawDevice::open(path, false)?.physical_range() else {
            return Ok(());
        };
        if !has_ram(source, &range)? {
            return Ok(());
        }
        let reason = format!(
            "is memory of the kernel that crashed (physical addresses {:#x} to {:#x}): it was started \
             without memmap= for them",
            range.start,
            range.end - 1
        );
        Err(refused(path, reason))
    }

    /// Opens and locks a device that may be written.
    fn take(path: &Path, options: &DumpOptions) -> Result<TakenDevice, DumpError> {
        let device = RawDevice::open(path, true)?;
        if !device.try_lock()? {
            return Err(refused(
                path,
                "another program writes or saves it right now",
            ));
        }
        device.check_size()?;
        let claims = device.claims()?;
        match in_words(&claims) {
            Some(what) if !options.overwrite_device => {
                return Err(refused(
                    path,
                    format!("there is something on it: {what}; --overwrite-device destroys it"),
                ));
            }
            _ => {}
        }
        let mut dumps = device.dumps()?;
        let replaced: Vec<_> = dumps
            .iter()
            .filter_map(OnDevice::unsaved)
            .cloned()
            .collect();
        // Nothing saves a dump from a device that has another use by now.
        if let Some(unsaved) = replaced.first()
            && claims.is_empty()
            && options.unsaved != Unsaved::Replaced
        {
            let refused = DumpError::Unsaved {
                path: path.to_owned(),
                host: unsaved.utsname.names[1].clone(),
                id: unsaved.id,
            };
            return match options.unsaved {
                Unsaved::Followed => Self::take_behind(dumps)?.ok_or(refused),
                _ => Err(refused),
            };
        }
        // All that is on it is inside the first.
        let OnDevice { device, found } = dumps.swap_remove(0);
        Ok(TakenDevice {
            device,
            claims,
            header: found.map(|found| found.header),
            replaced,
            outer: None,
        })
    }

    /// Takes the room behind the last of the dumps that were not saved; `None` if there is none.
    fn take_behind(mut dumps: Vec<OnDevice>) -> Result<Option<TakenDevice>, DumpError> {
        let last = dumps.iter().rposition(|dump| dump.unsaved().is_some());
        let Some(OnDevice {
            device: outer,
            found: Some(found),
        }) = last.map(|last| dumps.swap_remove(last))
        else {
            return Ok(None);
        };
        let Some(room) = found.header.behind() else {
            return Ok(None);
        };
        let device = outer.inside(&room)?;
        if device.check_size().is_err() {
            return Ok(None);
        }
        Ok(Some(TakenDevice {
            // The number of changes goes on.
            header: device.find()?.map(|found| found.header),
            device,
            claims: Vec::new(),
            replaced: Vec::new(),
            outer: Some((outer, found.header)),
        }))
    }

    /// Appends to what was written, if the dump is a stream.
    pub fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(self.length.load(Ordering::Acquire), bytes)
    }

    /// Makes the bytes written so far durable, and records their length on the device: the
    /// bytes that follow cannot be distinguished from an older dump.
    pub fn note_length(&self) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        self.contents.sync()?;
        let is_noted = |header: &DeviceHeader| header.complete || header.length >= length;
        if is_noted(&self.lock_header()) {
            return Ok(());
        }
        self.change(|header| {
            if !is_noted(header) {
                header.length = length;
            }
        })
    }

    fn lock_header(&self) -> MutexGuard<'_, DeviceHeader> {
        self.header
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Warning about the dump that this one replaces.
    pub fn replaces(&self) -> Option<&str> {
        self.replaces.as_deref()
    }

    /// Changes the header on the device.
    fn change(&self, change: impl FnOnce(&mut DeviceHeader)) -> io::Result<()> {
        let mut header = self.lock_header();
        change(&mut header);
        header.advance();
        self.device.put(&header, &self.device.places())
    }
}

impl Output for DeviceOutput {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.contents.write_at(offset, bytes)?;
        self.length
            .fetch_max(offset + bytes.len() as u64, Ordering::Release);
        Ok(())
    }

    fn make_zero(&self, offset: u64, len: u64) -> io::Result<()> {
        self.contents.make_zero(offset, len)?;
        self.length.fetch_max(offset + len, Ordering::Relaxed);
        Ok(())
    }

    fn is_stream(&self) -> bool {
        false
    }

    fn flush_behind(&self, offset: u64, len: u64) -> io::Result<()> {
        self.contents.flush_behind(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.contents.sync()
    }

    fn finish(&self) -> io::Result<()> {
        self.contents.finish()?;
        self.change(|header| {
            header.complete = true;
            header.length = self.length.load(Ordering::Relaxed);
            header.ended = now();
        })
    }

    /// Marks the dump as incomplete: a device has no name to take back.
    fn take_back(&self) {
        // The error that led here is the one to report.
        let _ = self.change(|header| header.complete = false);
    }

    fn kept(&self) -> Option<PathBuf> {
        Some(self.device.path().to_owned())
    }

    fn discard(&self) {
        // The error that led here is the one to report.
        let _ = self.change(|header| header.valid = false);
    }

    fn as_file(&self) -> Option<&FileOutput> {
        Some(&self.contents)
    }
}

/// Returns the place of a report at the end of the room for the contents.
fn place_report(report: &[u8], end_of_room: u64) -> Option<ReportPlace> {
    let length = report.len() as u64;
    let offset = end_of_room.checked_sub(length.next_multiple_of(BLOCK_SIZE as u64))?;
    (length != 0).then(|| ReportPlace {
        offset,
        length,
        checksum: xxh64(report, 0),
    })
}

/// Returns true if some of these physical addresses are RAM of the source.
fn has_ram(source: &dyn MemorySource, range: &Range<u64>) -> Result<bool, DumpError> {
    let shift = source.page_shift();
    let (from, to) = (range.start >> shift, range.end.saturating_sub(1) >> shift);
    let frames = SECTION_FRAMES as usize;
    let sections = source.sections_from(PageFrame(from));
    for first in sections.take_while(|first| first.0 <= to) {
        let mut ram = Bitmap::new(frames);
        source.ram(first, &mut ram)?;
        let start = from.saturating_sub(first.0) as usize;
        let end = (to - first.0 + 1).min(SECTION_FRAMES) as usize;
        if ram.next_run(start, end, 1).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

    use bigiron_kernel::Source;
    use bigiron_synth::{ElfShape, Synth};

    use super::*;

    #[test]
    fn memory_of_the_source_is_found_at_each_edge_of_a_range() {
        let text = "kernel 6.12\nram 0x0-0x9f 0x100-0x1fff 0x10000-0x11fff\n";
        let core = Synth::from_text(text).unwrap().elf(&ElfShape::vmcore());
        let source = Source::from_bytes(Box::new(core), PathBuf::from("core")).unwrap();
        for (range, expected) in [
            (0x200_0000..0x1000_0000, false),
            (0x1ff_f000..0x1000_0000, true),
            (0x1ff_ffff..0x1000_0000, true),
            (0x200_0000..0x1000_0001, true),
            (0xa_0000..0x10_0000, false),
            (0x1200_0000..0x8000_0000, false),
            (0..0x8000_0000, true),
        ] {
            assert_eq!(
                has_ram(source.memory(), &range).unwrap(),
                expected,
                "{range:x?}"
            );
        }
    }
}
