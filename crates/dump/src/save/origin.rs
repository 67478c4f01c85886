//! What is to be saved.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use bigiron_format::device::{DeviceContents, DumpId, FoundDump, is_device};
use bigiron_format::{FormatError, ReadAt};
use bigiron_helpers::Stop;
use bigiron_kernel::source::{DumpFile, decrypt, is_encrypted};
use bigiron_kernel::{Identities, Source, SourceError};
use xxhash_rust::xxh3::Xxh3;

use super::SaveOptions;
use super::recognise::{id_of_file, is_elf, is_raw_device, length_of_cut};
use crate::device::{RawDevice, in_words, refused};
use crate::error::DumpError;

/// Time between two attempts at a lock.
const LOCK_WAIT: Duration = Duration::from_millis(50);
/// A source, open and locked.
pub struct Origin {
    paths: Vec<PathBuf>,
    id: DumpId,
    kind: Kind,
    /// The keys with which it is opened again.
    identity: Option<PathBuf>,
}

enum Kind {
    /// A raw dump device.
    Device {
        device: RawDevice,
        found: Box<FoundDump>,
        /// Bytes of the contents that are the dump's.
        length: u64,
        damage: Option<String>,
        is_elf: bool,
    },
    /// A file, as it is.
    File { file: DumpFile, is_elf: bool },
    /// A file for which there is no key, as it is.
    Encrypted { file: DumpFile },
    /// What is in an encrypted file.
    Decrypted {
        bytes: Box<dyn ReadAt>,
        damage: Option<String>,
        is_elf: bool,
    },
    /// All parts of a split dump.
    Parts,
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
                return Self::open_device(path, options, stop, waiting);
            }
            if is_encrypted(&DumpFile::open(path)?) {
                return Self::open_encrypted(path, options).map(Some);
            }
            // A file that is no dump is refused before anything is copied.
            Source::open(paths)?;
            let file = DumpFile::open(path)?;
            return Ok(Some(Self {
                paths: paths.to_vec(),
                id: id_of_file(path)?,
                kind: Kind::File {
                    is_elf: is_elf(&file),
                    file,
                },
                identity: None,
            }));
        }
        for path in paths {
            if is_encrypted(&DumpFile::open(path)?) {
                let reason = "is encrypted; of dumps in several files only plain ones are joined";
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

    fn open_encrypted(path: &Path, options: &SaveOptions) -> Result<Self, DumpError> {
        let file = DumpFile::open(path)?;
        let id = id_of_file(path)?;
        let paths = vec![path.to_owned()];
        let Some(keys) = &options.identity else {
            if options.expand {
                let reason = "is encrypted; to expand it give the secret key by --identity FILE";
                return Err(refused(path, reason));
            }
            return Ok(Self {
                paths,
                id,
                kind: Kind::Encrypted { file },
                identity: None,
            });
        };
        let identities = Identities::from_file(keys)?;
        // What is no dump is refused before anything is written.
        Source::open_with(&paths, &identities)?;
        let (bytes, damage) = decrypt(file, &identities)?;
        // Another dump than the file as it is, which may be saved too.
        let mut hash = Xxh3::new();
        hash.update(b"decrypted");
        hash.update(&id.0);
        Ok(Self {
            paths,
            id: DumpId(hash.digest128().to_le_bytes()),
            kind: Kind::Decrypted {
                is_elf: is_elf(bytes.as_ref()),
                bytes,
                damage,
            },
            identity: Some(keys.clone()),
        })
    }

    fn open_device(
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
            let reason = format!("was a dump device and now has something else on it: {what}");
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
            (length_of_cut(path, offset, &contents), Some(why.to_owned()))
        } else if is_cut {
            let why = "the device is shorter than the dump on it";
            (most, Some(why.to_owned()))
        } else {
            (most, None)
        };
        let is_elf = is_elf(&contents);
        Ok(Some(Self {
            paths: vec![path.to_owned()],
            id: found.header.id,
            kind: Kind::Device {
                device,
                found: Box::new(found),
                length,
                damage,
                is_elf,
            },
            identity: None,
        }))
    }

    /// The dump's id.
    pub fn id(&self) -> DumpId {
        self.id
    }

    /// Opens it as a source of memory.
    pub fn open_source(&self) -> Result<Source, SourceError> {
        let keys = self.identity.as_deref().map(Identities::from_file);
        let keys = keys.transpose()?.unwrap_or_default();
        Source::open_with(&self.paths, &keys)
    }

    /// Whether nothing can be known of what is in it.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.kind, Kind::Encrypted { .. })
    }

    /// The first of them.
    pub fn path(&self) -> &Path {
        self.paths.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// The parts, if it is a split dump.
    pub fn parts(&self) -> Option<&[PathBuf]> {
        matches!(self.kind, Kind::Parts).then_some(&self.paths)
    }

    /// Whether it is an ELF core already.
    pub fn is_elf(&self) -> bool {
        match &self.kind {
            Kind::Device { is_elf, .. }
            | Kind::File { is_elf, .. }
            | Kind::Decrypted { is_elf, .. } => *is_elf,
            Kind::Encrypted { .. } | Kind::Parts => false,
        }
    }

    /// Whether nothing at all was written of it.
    pub fn is_nothing(&self) -> bool {
        matches!(&self.kind, Kind::Device { length: 0, .. })
    }

    /// Why not all of it is there, as the device or its encryption says it.
    pub fn damage(&self) -> Option<&str> {
        match &self.kind {
            Kind::Device { damage, .. } | Kind::Decrypted { damage, .. } => damage.as_deref(),
            Kind::File { .. } | Kind::Encrypted { .. } | Kind::Parts => None,
        }
    }

    /// The bytes of the dump; those of the first file if there are several.
    pub fn bytes(&self) -> Result<Box<dyn ReadAt + '_>, DumpError> {
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
            Kind::File { file, .. } | Kind::Encrypted { file } => Ok(Box::new(Whole(file))),
            Kind::Decrypted { bytes, .. } => Ok(Box::new(Whole(bytes.as_ref()))),
            Kind::Parts => Ok(Box::new(DumpFile::open(self.path())?)),
        }
    }

    /// The file, if it is copied as it is.
    pub fn whole_file(&self) -> Option<&DumpFile> {
        match &self.kind {
            Kind::File { file, .. } | Kind::Encrypted { file } => Some(file),
            Kind::Device { .. } | Kind::Decrypted { .. } | Kind::Parts => None,
        }
    }

    /// Puts its name in front of an error.
    pub fn read_error(&self, source: FormatError) -> DumpError {
        SourceError::Format {
            path: self.path().to_owned(),
            source,
        }
        .into()
    }

    /// The N of `vmdump.N` in `directory` that is to become `vmcore.N`.
    pub fn number_of_its_name(&self, stem: &str, directory: &Path) -> Option<u64> {
        let (Kind::File { .. } | Kind::Decrypted { .. }) = self.kind else {
            return None;
        };
        let path = self.path();
        let number = path.file_name()?.to_str()?.strip_prefix("vmdump.")?;
        let number = super::directory::number(number)?;
        let same = fs::canonicalize(
            path.parent()
                .filter(|p| !p.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        )
        .ok()?
            == fs::canonicalize(directory).ok()?;
        (same && stem == "vmcore").then_some(number)
    }

    /// What is known of it, for its record: names and values.
    pub fn about(&self) -> Vec<(&'static str, String)> {
        let names: Vec<_> = self.paths.iter().map(|p| p.display().to_string()).collect();
        let mut about = vec![("source", names.join(" "))];
        if let Kind::Device { found, .. } = &self.kind {
            let header = &found.header;
            about.push(("host", header.utsname.names[1].clone()));
            about.push(("kernel", header.utsname.release().to_owned()));
            about.push(("begun", header.began.to_string()));
        }
        match &self.kind {
            Kind::Encrypted { .. } => {
                about.push(("encrypted", "age-encryption.org/v1, kept as it is".into()));
            }
            Kind::Decrypted { .. } => {
                about.push((
                    "decrypted",
                    "the source is encrypted, this copy is not".into(),
                ));
            }
            Kind::Device { .. } | Kind::File { .. } | Kind::Parts => {}
        }
        about
    }

    /// Whether there is a mark that [`Self::clear`] clears.
    pub fn has_mark(&self) -> bool {
        matches!(&self.kind, Kind::Device { found, .. } if found.header.valid)
    }

    /// Clears the valid mark of a device in all blocks that are its: others may
    /// be somebody else's by now.
    pub fn clear(&self) -> Result<(), DumpError> {
        let Kind::Device { device, found, .. } = &self.kind else {
            return Ok(());
        };
        let mut header = found.header.clone();
        header.valid = false;
        header.generation += 1;
        device
            .put(&header, &found.good)
            .map_err(|error| device.error("clear its valid mark", error))
    }
}

/// Bytes that stay somebody else's.
struct Whole<'a>(&'a dyn ReadAt);

impl ReadAt for Whole<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn next_data(&self, offset: u64) -> u64 {
        self.0.next_data(offset)
    }

    fn next_hole(&self, offset: u64) -> u64 {
        self.0.next_hole(offset)
    }
}
