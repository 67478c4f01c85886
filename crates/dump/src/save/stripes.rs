//! The parts of a striped dump, on dump devices and in files, in any order.

use std::path::PathBuf;

use bigiron_format::ReadAt;
use bigiron_format::device::DumpId;
use bigiron_kernel::source::DumpFile;
use bigiron_kernel::{Identities, Source};
use xxhash_rust::xxh3::Xxh3;

use super::device::DeviceDump;
use super::options::{OpenContext, SaveOptions};
use super::recognise::{id_of_file, is_raw_device};
use super::space;
use crate::device::refused;
use crate::error::DumpError;

/// The parts that were given.
pub struct Stripes {
    /// Parts on devices, locked.
    devices: Vec<DeviceDump>,
    files: Vec<PathBuf>,
    /// Parts with contents, from which the dump is read.
    paths: Vec<PathBuf>,
    /// True if no part is missing, so that none can be joined later.
    is_whole: bool,
    damage: Option<String>,
    id: DumpId,
}

impl Stripes {
    /// Opens the parts. Returns `None` if all are on devices and were saved before.
    pub fn open(paths: &[PathBuf], context: OpenContext) -> Result<Option<Self>, DumpError> {
        let options = context.options;
        // A fixed order prevents a deadlock of two runs that save the same parts.
        let mut paths = paths.to_vec();
        paths.sort_unstable();
        // An earlier run that was killed may have cleared the marks of some devices.
        let also_saved = SaveOptions {
            again: true,
            ..options.clone()
        };
        let of_devices = OpenContext {
            options: &also_saved,
            ..context
        };
        let (mut devices, mut files) = (Vec::new(), Vec::new());
        let (mut parts, mut ids) = (Vec::new(), Vec::new());
        for path in &paths {
            if !is_raw_device(path)? {
                ids.push(id_of_file(path)?);
                parts.push(path.clone());
                files.push(path.clone());
                continue;
            }
            let device = DeviceDump::open(path, of_devices)?;
            let device = device.ok_or_else(|| refused(path, "has no dump on it"))?;
            ids.push(device.id());
            if !device.is_nothing() {
                parts.push(path.clone());
            }
            devices.push(device);
        }
        let is_marked = devices.iter().any(DeviceDump::has_mark);
        if devices.len() == paths.len() && !is_marked && !options.again {
            return Ok(None);
        }
        let mut stripes = Self {
            devices,
            files,
            is_whole: true,
            damage: None,
            id: id_of(ids),
            paths: parts,
        };
        if !stripes.is_nothing() {
            stripes.check_dump(&paths, options)?;
        }
        Ok(Some(stripes))
    }

    /// Refuses anything that is not a dump before anything is written.
    fn check_dump(&mut self, given: &[PathBuf], options: &SaveOptions) -> Result<(), DumpError> {
        let identities = options.identity.as_deref().map(Identities::from_file);
        let source = Source::open_with(&self.paths, &identities.transpose()?.unwrap_or_default())?;
        let dump = source.memory().vmdump();
        let Some(dump) = dump.filter(|dump| dump.header().is_striped()) else {
            let reason = "is not a part of a striped vmdump; only those span several devices";
            return Err(refused(source.path(), reason));
        };
        let missing = usize::from(dump.header().stripe.1) - dump.parts().len();
        // A device to which nothing was written has nothing to contribute later.
        self.is_whole = missing <= given.len() - self.paths.len();
        self.damage = source.damage().map(ToOwned::to_owned);
        Ok(())
    }

    pub fn id(&self) -> DumpId {
        self.id
    }

    /// The paths of the parts with contents.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads the report of the first device that has one.
    pub fn report(&self) -> Result<Option<Vec<u8>>, DumpError> {
        let mut reports = self.devices.iter().map(DeviceDump::report);
        reports.find_map(Result::transpose).transpose()
    }

    /// Returns true if nothing was written to any of the parts.
    pub fn is_nothing(&self) -> bool {
        self.paths.is_empty()
    }

    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Number of bytes of data in all parts.
    pub fn data_bytes(&self) -> Result<u64, DumpError> {
        let mut bytes = 0;
        for device in &self.devices {
            bytes += device.bytes().size();
        }
        for file in &self.files {
            bytes += space::data_bytes(&DumpFile::open(file)?);
        }
        Ok(bytes)
    }

    /// Returns true if there are marks that [`Self::clear`] clears: none while another part may
    /// be found and saved together with these.
    pub fn has_mark(&self) -> bool {
        self.is_whole && self.devices.iter().any(DeviceDump::has_mark)
    }

    /// Clears the marks of all devices.
    pub fn clear(&self) -> Result<(), DumpError> {
        self.devices.iter().try_for_each(DeviceDump::clear)
    }
}

/// Combines the ids of all parts, independent of their order.
fn id_of(mut ids: Vec<DumpId>) -> DumpId {
    ids.sort_unstable();
    let mut hash = Xxh3::new();
    hash.update(b"stripes");
    ids.iter().for_each(|id| hash.update(&id.0));
    DumpId(hash.digest128().to_le_bytes())
}
