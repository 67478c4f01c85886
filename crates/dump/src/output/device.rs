//! Output to a raw dump device: the dump between two blocks that describe it
//! (docs/formats/device.md).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use bigiron_format::ReadAt;
use bigiron_format::device::{
    CONTENTS_OFFSET, Claim, ContentsKind, DeviceHeader, end_block_offset,
};
use bigiron_format::kdump::Utsname;

use super::{FileOutput, Output};
use crate::device::{RawDevice, in_words, refused};
use crate::dump_id::new_dump_id;
use crate::error::DumpError;

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
    /// Claims the device at `path` for a dump of `kind`. This destroys a dump that is on it, and
    /// with `claimed` any other data.
    ///
    /// # Errors
    /// The device is in use, too small, not writable, or holds other data.
    pub fn begin(
        path: &Path,
        kind: ContentsKind,
        utsname: &Utsname,
        claimed: bool,
    ) -> Result<Self, DumpError> {
        let (device, claims) = Self::take(path, claimed)?;
        let old = device.find()?.map(|found| found.header);
        let replaces = old.as_ref().filter(|old| old.valid).map(|old| {
            format!(
                "{}: replaces a dump of {} that was never saved (id {})",
                path.display(),
                old.utsname.names[1],
                old.id
            )
        });
        let size = device.size();
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
        };
        let file = device.file().try_clone();
        let file = file.map_err(|error| device.error("use it", error))?;
        let end = end_block_offset(size);
        let contents = FileOutput::in_device(file, path.to_owned(), CONTENTS_OFFSET, end);
        // The rest of an older dump must not be taken for this one if the machine stops before
        // the first page is written.
        let mut begin = || {
            device.put(&header, &device.places())?;
            device.wipe(&claims)?;
            header.valid = true;
            header.advance();
            device.put(&header, &device.places())
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
    pub fn check(path: &Path, claimed: bool) -> Result<(), DumpError> {
        Self::take(path, claimed).map(|_| ())
    }

    /// Opens and locks a writable device; returns its content other than a dump.
    fn take(path: &Path, claimed: bool) -> Result<(RawDevice, Vec<Claim>), DumpError> {
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
            Some(what) if !claimed => Err(refused(
                path,
                format!("there is something on it: {what}; --overwrite-device destroys it"),
            )),
            _ => Ok((device, claims)),
        }
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

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
