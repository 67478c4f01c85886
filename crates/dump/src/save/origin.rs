//! The source of a save.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bigiron_format::device::{DeviceContents, DumpId, FoundDump, is_device};
use bigiron_format::{FormatError, ReadAt};
use bigiron_helpers::Stop;
use bigiron_kernel::source::{DumpFile, is_encrypted};
use bigiron_kernel::{Identities, Source, SourceError};
use xxhash_rust::xxh3::Xxh3;

use super::SaveOptions;
use super::content::Content;
use super::recognise::{id_of_file, is_in, is_raw_device, is_striped, length_of_cut};
use super::stripes::Stripes;
use super::whole::Whole;
use crate::device::{RawDevice, in_words, refused};
use crate::error::DumpError;

/// Delay between two attempts to lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);
/// An open and locked source.
pub struct Origin {
    paths: Vec<PathBuf>,
    id: DumpId,
    kind: Kind,
    /// The keys to open the source again.
    identity: Option<PathBuf>,
}

enum Kind {
    /// A raw dump device.
    Device {
        device: RawDevice,
        found: Box<FoundDump>,
        /// Length of the dump in the contents, in bytes.
        length: u64,
        damage: Option<String>,
        content: Content,
    },
    /// A file.
    File { file: DumpFile, content: Content },
    /// All parts of a split dump.
    Parts,
    /// Parts of a striped dump.
    Stripes(Box<Stripes>),
}

impl Origin {
    /// See [`super::Save::open`].
    pub fn open(
        paths: &[PathBuf],
        options: &SaveOptions,
        stop: &Stop,
        waiting: &dyn Fn(&Path),
    ) -> Result<Option<Self>, DumpError> {
        if let [path] = paths {
            if is_raw_device(path)? {
                let device = Self::open_device(path, options, stop, waiting)?;
                let is_part =
                    |device: &Self| !device.is_nothing() && is_striped(&device.paths, options);
                if !device.as_ref().is_some_and(is_part) {
                    return Ok(device);
                }
                drop(device);
                return Self::open_stripes(paths, options, stop, waiting);
            }
            if is_striped(paths, options) {
                return Self::open_stripes(paths, options, stop, waiting);
            }
            let file = DumpFile::open(path)?;
            let content = Content::of(Box::new(DumpFile::open(path)?), path, options)?;
            let origin = Self {
                paths: paths.to_vec(),
                id: content.id(id_of_file(path)?),
                kind: Kind::File { file, content },
                identity: options.identity.clone(),
            };
            // A file that is not a dump is refused before anything is copied.
            if !origin.is_encrypted() {
                origin.open_source()?;
            }
            return Ok(Some(origin));
        }
        let mut is_stripes = false;
        for path in paths {
            is_stripes |= is_raw_device(path)?;
        }
        if is_stripes || is_striped(paths, options) {
            return Self::open_stripes(paths, options, stop, waiting);
        }
        for path in paths {
            if is_encrypted(&DumpFile::open(path)?) {
                let reason = "is encrypted; dumps in several files are joined only if unencrypted,  \
                              and striped ones with --identity FILE";
                return Err(refused(path, reason));
            }
        }
        Source::open(paths)?;
        let mut ids = paths
            .iter()
            .map(|path| id_of_file(path))
            .collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        let mut hash = Xxh3::new();
        ids.iter().for_each(|id| hash.update(&id.0));
        Ok(Some(Self {
            paths: paths.to_vec(),
            id: DumpId(hash.digest128().to_le_bytes()),
            kind: Kind::Parts,
            identity: None,
        }))
    }

    fn open_stripes(
        paths: &[PathBuf],
        options: &SaveOptions,
        stop: &Stop,
        waiting: &dyn Fn(&Path),
    ) -> Result<Option<Self>, DumpError> {
        let stripes = Stripes::open(paths, options, stop, waiting)?;
        Ok(stripes.map(|stripes| Self {
            paths: match stripes.is_nothing() {
                true => paths.to_vec(),
                false => stripes.paths().to_vec(),
            },
            id: stripes.id(),
            kind: Kind::Stripes(Box::new(stripes)),
            identity: options.identity.clone(),
        }))
    }

    pub(super) fn open_device(
        path: &Path,
        options: &SaveOptions,
        stop: &Stop,
        waiting: &dyn Fn(&Path),
    ) -> Result<Option<Self>, DumpError> {
        let device = RawDevice::open(path, !options.keep_mark)?;
        let mut told = false;
        while !device.try_lock()? {
            if !told {
                waiting(path);
                told = true;
            }
            if stop.is_set() {
                return Err(DumpError::Interrupted { kept: None });
            }
            thread::sleep(LOCK_WAIT);
        }
        let Some(found) = device.find()? else {
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
                length_of_cut(path, offset, &contents)
            };
            (length, Some(why.to_owned()))
        } else if is_cut {
            let why = "the device is shorter than the dump on it";
            (most, Some(why.to_owned()))
        } else {
            (most, None)
        };
        let contents = DeviceContents::new(DumpFile::open(path)?, offset, length);
        let content = Content::of(Box::new(contents), path, options)?;
        Ok(Some(Self {
            paths: vec![path.to_owned()],
            id: content.id(found.header.id),
            kind: Kind::Device {
                device,
                found: Box::new(found),
                length,
                damage,
                content,
            },
            identity: options.identity.clone(),
        }))
    }

    fn content(&self) -> Option<&Content> {
        match &self.kind {
            Kind::Device { content, .. } | Kind::File { content, .. } => Some(content),
            Kind::Parts | Kind::Stripes(_) => None,
        }
    }

    /// The dump's id.
    pub fn id(&self) -> DumpId {
        self.id
    }

    /// Opens the dump as a source of memory.
    pub fn open_source(&self) -> Result<Source, SourceError> {
        let keys = self.identity.as_deref().map(Identities::from_file);
        let keys = keys.transpose()?.unwrap_or_default();
        Source::open_with(&self.paths, &keys)
    }

    /// Returns true if the contents are unknown because they are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.content(), Some(Content::Encrypted))
    }

    /// The first path.
    pub fn path(&self) -> &Path {
        self.paths.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The parts, for a split dump.
    pub fn parts(&self) -> Option<&[PathBuf]> {
        matches!(self.kind, Kind::Parts).then_some(&self.paths)
    }

    /// The parts, for a striped dump.
    pub fn stripes(&self) -> Option<&Stripes> {
        match &self.kind {
            Kind::Stripes(stripes) => Some(stripes),
            _ => None,
        }
    }

    /// Returns true if the dump is already an ELF core.
    pub fn is_elf(&self) -> bool {
        self.content().is_some_and(Content::is_elf)
    }

    /// Returns true if nothing of the dump was written.
    pub fn is_nothing(&self) -> bool {
        match &self.kind {
            Kind::Device { length, .. } => *length == 0,
            Kind::Stripes(stripes) => stripes.is_nothing(),
            _ => false,
        }
    }

    /// The reason why the dump is incomplete, according to the device or the encryption.
    pub fn damage(&self) -> Option<&str> {
        match &self.kind {
            Kind::Device {
                damage, content, ..
            } => damage.as_deref().or(content.damage()),
            Kind::File { content, .. } => content.damage(),
            Kind::Stripes(stripes) => stripes.damage(),
            Kind::Parts => None,
        }
    }

    /// The bytes of the dump; those of the first file if there are several.
    pub fn bytes(&self) -> Result<Box<dyn ReadAt + '_>, DumpError> {
        if let Some(Content::Decrypted { bytes, .. }) = self.content() {
            return Ok(Box::new(Whole(bytes.as_ref())));
        }
        match &self.kind {
            Kind::Device {
                device,
                found,
                length,
                ..
            } => {
                let contents = DeviceContents::new(device, found.header.offset, *length);
                Ok(Box::new(contents))
            }
            Kind::File { file, .. } => Ok(Box::new(Whole(file))),
            Kind::Parts | Kind::Stripes(_) => Ok(Box::new(DumpFile::open(self.path())?)),
        }
    }

    /// The file, if it is copied unchanged.
    pub fn whole_file(&self) -> Option<&DumpFile> {
        match &self.kind {
            Kind::File {
                content: Content::Decrypted { .. },
                ..
            } => None,
            Kind::File { file, .. } => Some(file),
            Kind::Device { .. } | Kind::Parts | Kind::Stripes(_) => None,
        }
    }

    /// Adds the path to an error.
    pub fn read_error(&self, source: FormatError) -> DumpError {
        SourceError::Format {
            path: self.path().to_owned(),
            source,
        }
        .into()
    }

    /// The N of a `vmdump.N` in `directory` that is to become `vmcore.N`.
    pub fn number_of_its_name(&self, stem: &str, directory: &Path) -> Option<u64> {
        if !matches!(self.kind, Kind::File { .. }) || self.is_encrypted() {
            return None;
        }
        let path = self.path();
        let number = path.file_name()?.to_str()?.strip_prefix("vmdump.")?;
        let number = super::directory::number(number)?;
        let same = is_in(path, directory);
        (same && stem == "vmcore").then_some(number)
    }

    /// Names and values for the record.
    pub fn about(&self) -> Vec<(&'static str, String)> {
        let names: Vec<_> = self.paths.iter().map(|p| p.display().to_string()).collect();
        let mut about = vec![("source", names.join(" "))];
        if let Kind::Device { found, .. } = &self.kind {
            let header = &found.header;
            about.push(("host", header.utsname.names[1].clone()));
            about.push(("kernel", header.utsname.release().to_owned()));
            about.push(("begun", header.began.to_string()));
        }
        about.extend(self.content().and_then(Content::about));
        about
    }

    /// Returns true if there is a mark that [`Self::clear`] clears.
    pub fn has_mark(&self) -> bool {
        match &self.kind {
            Kind::Device { found, .. } => found.header.valid,
            Kind::Stripes(stripes) => stripes.has_mark(),
            _ => false,
        }
    }

    /// Clears the valid mark in all valid blocks of a device; the place of an invalid one may
    /// belong to another program by now.
    pub fn clear(&self) -> Result<(), DumpError> {
        let (device, found) = match &self.kind {
            Kind::Device { device, found, .. } => (device, found),
            Kind::Stripes(stripes) => return stripes.clear(),
            _ => return Ok(()),
        };
        let mut header = found.header.clone();
        header.valid = false;
        header.generation += 1;
        device
            .put(&header, &found.good)
            .map_err(|error| device.error("clear its valid mark", error))
    }
}
