//! A dump on a raw dump device.

use std::path::Path;
use std::thread;
use std::time::Duration;

use bigiron_format::ReadAt;
use bigiron_format::device::{DeviceContents, DeviceHeader, DumpId, FoundDump, is_device};
use bigiron_kernel::SourceError;
use bigiron_kernel::source::{DumpFile, is_encrypted};

use super::content::Content;
use super::options::OpenContext;
use super::recognise::length_of_cut;
use super::whole::Whole;
use crate::device::{OnDevice, RawDevice, in_words, refused};
use crate::error::DumpError;

/// Delay between two attempts to lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// An open and locked device, and the dump on it.
pub struct DeviceDump {
    device: RawDevice,
    found: FoundDump,
    /// Length of the dump in the contents, in bytes.
    length: u64,
    damage: Option<String>,
    content: Content,
    id: DumpId,
    /// True if another dump behind this one was not saved.
    has_more: bool,
}

impl DeviceDump {
    /// Locks the device and finds the dump on it. Returns `None` if there is none, or if it was
    /// saved before and `options.again` is false.
    ///
    /// Waits while another program writes or saves the device; `waiting` is called once before.
    pub fn open(path: &Path, context: OpenContext) -> Result<Option<Self>, DumpError> {
        let OpenContext {
            options,
            stop,
            waiting,
        } = context;
        let device = RawDevice::open(path, !options.keep_mark)?;
        let mut has_waited = false;
        while !device.try_lock()? {
            if !has_waited {
                waiting(path);
                has_waited = true;
            }
            if stop.is_set() {
                return Err(DumpError::Interrupted { kept: None });
            }
            thread::sleep(LOCK_WAIT);
        }
        let mut dumps = device.dumps()?;
        let unsaved = dumps.iter().position(|dump| dump.unsaved().is_some());
        let place = unsaved.unwrap_or(0);
        let has_more = dumps[place + 1..]
            .iter()
            .any(|dump| dump.unsaved().is_some());
        let OnDevice { device, found } = dumps.swap_remove(place);
        let Some(found) = found else {
            let mut front = [0; 16];
            let read = device.read_exact_at("the first block", 0, &mut front);
            if read.is_ok() && is_device(&front) {
                let reason = "is a dump device whose blocks at the start and at the end are both \
                              damaged";
                return Err(refused(path, reason));
            }
            return Ok(None);
        };
        if found.good.len() < 2
            && let Some(what) = in_words(&device.claims()?)
        {
            let reason = format!("was a dump device and now has another use: {what}");
            return Err(refused(path, reason));
        }
        if !found.header.valid && !options.again {
            return Ok(None);
        }
        let (offset, most) = found.contents(device.size());
        let contents = DeviceContents::new(&device, offset, most);
        let is_cut = found.is_cut(device.size());
        let (length, damage) = if !found.header.complete {
            let why = "the machine stopped while the dump was written";
            let length = if is_encrypted(&contents) {
                // Without the key only the device records the length.
                found.header.length.min(most)
            } else {
                length_of_cut(path, device.base() + offset, &contents)
            };
            (length, Some(why.to_owned()))
        } else if is_cut {
            let why = "the device is shorter than the dump on it";
            (most, Some(why.to_owned()))
        } else {
            (most, None)
        };
        let contents = DeviceContents::new(DumpFile::open(path)?, device.base() + offset, length);
        let content = Content::of(Box::new(contents), path, options)?;
        Ok(Some(Self {
            id: content.id(found.header.id),
            device,
            found,
            length,
            damage,
            content,
            has_more,
        }))
    }

    /// The dump's id.
    pub fn id(&self) -> DumpId {
        self.id
    }

    /// The device's header of the dump.
    pub fn header(&self) -> &DeviceHeader {
        &self.found.header
    }

    /// The contents of the device: plain, encrypted or decrypted.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns true if the device is inside another.
    pub fn is_inside(&self) -> bool {
        self.device.base() != 0
    }

    /// Returns true if another dump behind this one was not saved.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Opens the contents again, as they are on the device.
    pub fn reopen(&self) -> Result<impl ReadAt + use<>, SourceError> {
        let offset = self.device.base() + self.found.header.offset;
        let file = DumpFile::open(self.device.path())?;
        Ok(DeviceContents::new(file, offset, self.length))
    }

    /// Returns true if nothing of the dump was written.
    pub fn is_nothing(&self) -> bool {
        self.length == 0
    }

    /// The reason why the dump is incomplete, according to the device or the encryption.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref().or(self.content.damage())
    }

    /// The bytes of the dump, decrypted if there is a key.
    pub fn bytes(&self) -> Box<dyn ReadAt + '_> {
        match self.content.decrypted() {
            Some(bytes) => Box::new(Whole(bytes)),
            None => {
                let offset = self.found.header.offset;
                Box::new(DeviceContents::new(&self.device, offset, self.length))
            }
        }
    }

    /// Reads the report that was written before the dump.
    pub fn report(&self) -> Result<Option<Vec<u8>>, DumpError> {
        let report = self.found.report(&self.device);
        report.map_err(|error| refused(self.device.path(), error.to_string()))
    }

    /// Returns true if the device's valid mark is set.
    pub fn has_mark(&self) -> bool {
        self.found.header.valid
    }

    /// Clears the valid mark in all valid blocks of the device; the place of an invalid one may
    /// belong to another program by now.
    pub fn clear(&self) -> Result<(), DumpError> {
        let mut header = self.found.header.clone();
        header.valid = false;
        header.advance();
        self.device
            .put(&header, &self.found.good)
            .map_err(|error| self.device.error("clear its valid mark", error))
    }
}
