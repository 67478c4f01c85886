//! The source of a save.

use std::path::{Path, PathBuf};

use bigiron_format::device::DumpId;
use bigiron_format::{FormatError, ReadAt};
use bigiron_kernel::source::{DumpFile, is_encrypted};
use bigiron_kernel::{Identities, Source, SourceError};
use xxhash_rust::xxh3::Xxh3;

use super::content::Content;
use super::device::DeviceDump;
use super::options::OpenContext;
use super::recognise::{id_of_file, is_in, is_raw_device, is_striped};
use super::stripes::Stripes;
use super::whole::Whole;
use crate::device::refused;
use crate::error::DumpError;

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
    Device(Box<DeviceDump>),
    /// A file.
    File { file: DumpFile, content: Content },
    /// All parts of a split dump.
    Parts,
    /// Parts of a striped dump.
    Stripes(Box<Stripes>),
}

impl Origin {
    /// See [`super::Save::open`].
    pub fn open(paths: &[PathBuf], context: OpenContext) -> Result<Option<Self>, DumpError> {
        if let [path] = paths {
            return Self::open_one(path, context);
        }
        let mut is_stripes = false;
        for path in paths {
            is_stripes |= is_raw_device(path)?;
        }
        if is_stripes || is_striped(paths, context.options) {
            return Self::open_stripes(paths, context);
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

    /// Opens a device or a file; one of them may be the first part of a striped dump.
    fn open_one(path: &Path, context: OpenContext) -> Result<Option<Self>, DumpError> {
        let (options, paths) = (context.options, [path.to_owned()]);
        if is_raw_device(path)? {
            let Some(device) = DeviceDump::open(path, context)? else {
                return Ok(None);
            };
            if device.is_inside() && options.expand && device.content().decrypted().is_some() {
                let reason = "the dump is encrypted and behind another one: save it without -f, and \
                              expand the copy";
                return Err(refused(path, reason));
            }
            if !device.is_inside() && !device.is_nothing() && is_striped(&paths, options) {
                // The stripes lock it again.
                drop(device);
                return Self::open_stripes(&paths, context);
            }
            return Ok(Some(Self {
                paths: paths.into(),
                id: device.id(),
                kind: Kind::Device(Box::new(device)),
                identity: options.identity.clone(),
            }));
        }
        if is_striped(&paths, options) {
            return Self::open_stripes(&paths, context);
        }
        let file = DumpFile::open(path)?;
        let content = Content::of(Box::new(DumpFile::open(path)?), path, options)?;
        let origin = Self {
            paths: paths.into(),
            id: content.id(id_of_file(path)?),
            kind: Kind::File { file, content },
            identity: options.identity.clone(),
        };
        // A file that is not a dump is refused before anything is copied.
        if !origin.is_encrypted()
            && let Err(error) = origin.open_source()
            && !error.is_unreadable()
        {
            return Err(error.into());
        }
        Ok(Some(origin))
    }

    fn open_stripes(paths: &[PathBuf], context: OpenContext) -> Result<Option<Self>, DumpError> {
        let stripes = Stripes::open(paths, context)?;
        Ok(stripes.map(|stripes| Self {
            paths: match stripes.is_nothing() {
                true => paths.to_vec(),
                false => stripes.paths().to_vec(),
            },
            id: stripes.id(),
            kind: Kind::Stripes(Box::new(stripes)),
            identity: context.options.identity.clone(),
        }))
    }

    fn content(&self) -> Option<&Content> {
        match &self.kind {
            Kind::Device(device) => Some(device.content()),
            Kind::File { content, .. } => Some(content),
            Kind::Parts | Kind::Stripes(_) => None,
        }
    }

    /// The dump's id.
    pub fn id(&self) -> DumpId {
        self.id
    }

    /// Opens the dump as a source of memory.
    pub fn open_source(&self) -> Result<Source, SourceError> {
        if let Kind::Device(device) = &self.kind
            && device.is_inside()
        {
            return Source::from_bytes(Box::new(device.reopen()?), self.path().to_owned());
        }
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
            Kind::Device(device) => device.is_nothing(),
            Kind::Stripes(stripes) => stripes.is_nothing(),
            _ => false,
        }
    }

    /// The reason why the dump is incomplete, according to the device or the encryption.
    pub fn damage(&self) -> Option<&str> {
        match &self.kind {
            Kind::Device(device) => device.damage(),
            Kind::File { content, .. } => content.damage(),
            Kind::Stripes(stripes) => stripes.damage(),
            Kind::Parts => None,
        }
    }

    /// The bytes of the dump; those of the first file if there are several.
    pub fn bytes(&self) -> Result<Box<dyn ReadAt + '_>, DumpError> {
        match &self.kind {
            Kind::Device(device) => Ok(device.bytes()),
            Kind::File { file, content } => {
                let bytes = content.decrypted().unwrap_or(file);
                Ok(Box::new(Whole(bytes)))
            }
            Kind::Parts | Kind::Stripes(_) => Ok(Box::new(DumpFile::open(self.path())?)),
        }
    }

    /// Returns true if the dump is in several files or devices.
    pub fn is_in_parts(&self) -> bool {
        matches!(self.kind, Kind::Parts | Kind::Stripes(_))
    }

    /// The file, if it is copied unchanged.
    pub fn whole_file(&self) -> Option<&DumpFile> {
        match &self.kind {
            Kind::File { file, content } if content.decrypted().is_none() => Some(file),
            Kind::File { .. } | Kind::Device(_) | Kind::Parts | Kind::Stripes(_) => None,
        }
    }

    /// Adds the path to an error.
    pub fn read_error(&self, cause: FormatError) -> DumpError {
        SourceError::Format {
            path: self.path().to_owned(),
            cause,
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

    /// Returns true if another dump on the device was not saved.
    pub fn has_more(&self) -> bool {
        matches!(&self.kind, Kind::Device(device) if device.has_more())
    }

    /// The report on the device, or on the first of several that has one.
    pub fn report(&self) -> Result<Option<Vec<u8>>, DumpError> {
        match &self.kind {
            Kind::Device(device) => device.report(),
            Kind::Stripes(stripes) => stripes.report(),
            Kind::File { .. } | Kind::Parts => Ok(None),
        }
    }

    /// Names and values for the record.
    pub fn about(&self) -> Vec<(&'static str, String)> {
        let names: Vec<_> = self.paths.iter().map(|p| p.display().to_string()).collect();
        let mut about = vec![("source", names.join(" "))];
        if let Kind::Device(device) = &self.kind {
            let header = device.header();
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
            Kind::Device(device) => device.has_mark(),
            Kind::Stripes(stripes) => stripes.has_mark(),
            _ => false,
        }
    }

    /// Clears the valid marks of all devices.
    pub fn clear(&self) -> Result<(), DumpError> {
        match &self.kind {
            Kind::Device(device) => device.clear(),
            Kind::Stripes(stripes) => stripes.clear(),
            Kind::File { .. } | Kind::Parts => Ok(()),
        }
    }
}
