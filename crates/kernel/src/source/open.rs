//! Opens dump files of any format.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bigiron_format::elf;
use bigiron_format::flattened::{self, FlattenedFile, Limits, Summary};
use bigiron_format::image::MemoryMap;
use bigiron_format::kdump::KdumpHeaders;
use bigiron_format::vmdump;
use bigiron_format::{FormatError, ReadAt};

use super::elf::{ElfBytes, ElfSource};
use super::encrypted::{self, Identities};
use super::file::DumpFile;
use super::images::{
    Image, Images, OpenedImage, open_raw, open_state, recognise as recognise_image, recognise_elf,
    with_file_beside,
};
use super::kdump::KdumpSource;
use super::kdump_blocks::KdumpBlocks;
use super::vmdump::VmdumpSource;
use super::{MemorySource, device};
use crate::error::SourceError;

/// Maximum size without data that a flattened file may claim.
const MAX_WITHOUT_DATA: u64 = 1 << 30;
/// Maximum ratio of unpacked size to file size beyond that.
const MAX_RATIO: u64 = 1024;

/// An open source of memory.
pub struct Source {
    memory: Memory,
    path: PathBuf,
    flattened: bool,
    cut: Option<String>,
}

/// A source of one of the formats.
enum Memory {
    Elf(Box<ElfSource>),
    Kdump(Box<KdumpSource>),
    KdumpBlocks(Box<KdumpBlocks>),
    Other(Box<dyn MemorySource>),
    Vmdump(Box<VmdumpSource>),
}

/// The format according to the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Elf,
    Kdump,
    Flattened,
    Vmdump,
    Image(Image),
}

impl Source {
    /// Default for [`Self::set_cache`].
    #[cfg(feature = "cache")]
    pub const DEFAULT_CACHE: u64 = 64 << 20;

    /// Opens a dump: one file, or all files of a split or striped one.
    pub fn open(paths: &[PathBuf]) -> Result<Self, SourceError> {
        Self::open_with(paths, &Identities::default())
    }

    /// Opens a dump, decrypting with these keys.
    pub fn open_with(paths: &[PathBuf], identities: &Identities) -> Result<Self, SourceError> {
        let paths = with_file_beside(paths);
        let files = paths.iter().map(|path| DumpFile::open(path));
        Self::from_files(files.collect::<Result<_, _>>()?, identities)
    }

    /// Opens a dump from open files, decrypting with these keys. Nothing has been read from the
    /// files before.
    pub fn from_files(files: Vec<DumpFile>, identities: &Identities) -> Result<Self, SourceError> {
        let files = files.into_iter().map(ElfBytes::File).collect();
        Self::from_parts(files, identities)
    }

    /// Returns `memory`, which is a part of the memory in `outer`, as a source.
    pub(crate) fn inside(outer: &Self, memory: Box<dyn MemorySource>) -> Self {
        Self {
            memory: Memory::Other(memory),
            path: outer.path.clone(),
            flattened: false,
            cut: outer.cut.clone(),
        }
    }

    /// Opens a raw image of memory: the ranges of `map`, or all memory from address 0 on.
    pub fn from_image(file: DumpFile, map: Option<&MemoryMap>) -> Result<Self, SourceError> {
        Self::from_image_parts(ElfBytes::File(file), map)
    }

    /// Opens a raw image that is not a file.
    pub fn from_image_bytes(
        bytes: Box<dyn ReadAt>,
        name: PathBuf,
        map: Option<&MemoryMap>,
    ) -> Result<Self, SourceError> {
        Self::from_image_parts(ElfBytes::Other(bytes, name), map)
    }

    fn from_image_parts(file: ElfBytes, map: Option<&MemoryMap>) -> Result<Self, SourceError> {
        let path = file.path().to_owned();
        let memory = Memory::Elf(Box::new(open_raw(file, map)?));
        Ok(Self {
            memory,
            path,
            flattened: false,
            cut: None,
        })
    }

    /// Opens a dump that is not a file, such as one in memory, named `name` in messages.
    pub fn from_bytes(bytes: Box<dyn ReadAt>, name: PathBuf) -> Result<Self, SourceError> {
        Self::from_several(vec![(bytes, name)])
    }

    /// Opens a dump of several parts that are not files.
    pub fn from_several(parts: Vec<(Box<dyn ReadAt>, PathBuf)>) -> Result<Self, SourceError> {
        Self::from_several_with(parts, &Identities::default())
    }

    /// Opens a dump of several parts that are not files, decrypting with these keys.
    pub fn from_several_with(
        parts: Vec<(Box<dyn ReadAt>, PathBuf)>,
        identities: &Identities,
    ) -> Result<Self, SourceError> {
        let files = parts.into_iter();
        let files = files.map(|(bytes, name)| ElfBytes::Other(bytes, name));
        Self::from_parts(files.collect(), identities)
    }

    fn from_parts(files: Vec<ElfBytes>, identities: &Identities) -> Result<Self, SourceError> {
        let path = files
            .first()
            .map(|file| file.path().to_owned())
            .unwrap_or_default();
        let files = match open_state(files)? {
            Ok(source) => {
                return Ok(Self {
                    memory: Memory::Elf(source),
                    path,
                    flattened: false,
                    cut: None,
                });
            }
            Err(files) => files,
        };
        let single = files.len() == 1;
        let mut parts: Vec<(Box<dyn ReadAt>, PathBuf)> = Vec::new();
        let mut stripes: Vec<(Box<dyn ReadAt>, PathBuf)> = Vec::new();
        let mut images = Images::default();
        let (mut flattened, mut cut) = (false, None);
        for file in files {
            let path = file.path().to_owned();
            let (file, damage) = encrypted::enter(file, identities)?;
            cut = cut.or(damage);
            let file = match device::enter(file)? {
                Ok(found) => {
                    // The contents of a device may be encrypted as well.
                    let (bytes, damage) = encrypted::enter(found.bytes, identities)?;
                    cut = cut.or(found.damage).or(damage);
                    bytes
                }
                Err(file) => file,
            };
            match recognise(file.read(), &path)? {
                Kind::Elf if single => {
                    let memory = Memory::Elf(Box::new(ElfSource::new(file)?));
                    return Ok(Self {
                        memory,
                        path,
                        flattened,
                        cut,
                    });
                }
                Kind::Vmdump => stripes.push((file.into_read(), path)),
                Kind::Image(image) => images.push(image, file, single)?,
                Kind::Elf => {
                    return Err(SourceError::Unsupported {
                        path,
                        reason: "is an ELF core; only kdump-compressed dumps and vmdumps come in \
                                 several files"
                            .into(),
                    });
                }
                Kind::Kdump => parts.push((file.into_read(), path)),
                Kind::Flattened => {
                    flattened = true;
                    let error = |cause| SourceError::Format {
                        path: path.clone(),
                        cause,
                    };
                    let inner =
                        FlattenedFile::open(file.into_read(), Limits::default()).map_err(error)?;
                    check_claim(inner.size(), inner.inner().size()).map_err(error)?;
                    if !inner.is_complete() {
                        cut = Some(format!(
                            "{} has no end record: it is truncated",
                            path.display()
                        ));
                    }
                    match recognise(&inner, &path)? {
                        Kind::Elf if single => {
                            let bytes = ElfBytes::Other(Box::new(inner), path.clone());
                            let memory = Memory::Elf(Box::new(ElfSource::new(bytes)?));
                            return Ok(Self {
                                memory,
                                path,
                                flattened,
                                cut,
                            });
                        }
                        Kind::Kdump => parts.push((Box::new(inner), path)),
                        Kind::Elf | Kind::Flattened | Kind::Vmdump | Kind::Image(_) => {
                            return Err(SourceError::Unsupported {
                                path,
                                reason: "holds something else than one dump inside".into(),
                            });
                        }
                    }
                }
            }
        }
        check_one_format([
            parts.first().map(|(_, path)| path),
            stripes.first().map(|(_, path)| path),
            images.first(),
        ])?;
        let memory = if let Some(image) = images.open()? {
            match image {
                OpenedImage::Elf(elf) => Memory::Elf(elf),
                OpenedImage::Other(other) => Memory::Other(other),
            }
        } else if stripes.is_empty() {
            let mut kdump = KdumpSource::new(parts)?;
            let page_shift = kdump.identify()?;
            match kdump.page_shift() == page_shift {
                true => Memory::Kdump(Box::new(kdump)),
                false => Memory::KdumpBlocks(Box::new(KdumpBlocks::new(kdump, page_shift))),
            }
        } else {
            let vmdump = VmdumpSource::new(stripes)?;
            // An interrupted device dump may have other damage, too.
            if !vmdump.has_all_parts()
                && let (Some(cut), Some(missing)) = (&mut cut, vmdump.facts().damage)
            {
                *cut = format!("{missing}; {cut}");
            }
            Memory::Vmdump(Box::new(vmdump))
        };
        Ok(Self {
            memory,
            path,
            flattened,
            cut,
        })
    }

    /// Opens a dump from a pipe: its bytes go to `spool`, since a dump is read at random.
    /// `name` is for messages.
    pub fn from_stream(
        stream: impl Read,
        spool: File,
        name: &Path,
        identities: &Identities,
    ) -> Result<Self, SourceError> {
        let (file, unpacked) = unpack_stream(stream, spool, name)?;
        let mut source = Self::from_parts(vec![ElfBytes::File(file)], identities)?;
        if let Some(summary) = unpacked {
            source.flattened = true;
            if !summary.complete {
                source.cut = Some(format!(
                    "{} has no end record: it is truncated",
                    name.display()
                ));
            }
        }
        Ok(source)
    }

    /// Enables a cache of decompressed pages shared by all readers of this dump, so that no
    /// thread decompresses again what another has read. `bytes` bounds the cache together with
    /// what readers hold, for as many readers as [`SharedAccess::parallel_readers`](super::SharedAccess) returns;
    /// each further reader may hold one chunk more. 0 disables it. For an ELF core nothing is
    /// cached, since the page cache does that, but many threads can then read it concurrently
    /// as well.
    ///
    /// Call this before anything is read. Without it each reader keeps its own last chunks.
    #[cfg(feature = "cache")]
    pub fn set_cache(&mut self, bytes: u64) {
        match &mut self.memory {
            Memory::Elf(elf) => elf.set_cache(bytes),
            Memory::Kdump(kdump) => kdump.set_cache(bytes),
            Memory::KdumpBlocks(blocks) => blocks.set_cache(bytes),
            // Its pages are not compressed.
            Memory::Other(_) => {}
            Memory::Vmdump(vmdump) => vmdump.set_cache(bytes),
        }
    }

    /// The memory.
    pub fn memory(&self) -> &dyn MemorySource {
        match &self.memory {
            Memory::Elf(elf) => elf.as_ref(),
            Memory::Kdump(kdump) => kdump.as_ref(),
            Memory::KdumpBlocks(blocks) => blocks.as_ref(),
            Memory::Other(other) => other.as_ref(),
            Memory::Vmdump(vmdump) => vmdump.as_ref(),
        }
    }

    /// Path of the (first) file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Kind of the file, for messages.
    pub fn kind(&self) -> String {
        let outer = if self.flattened { "flattened " } else { "" };
        format!("{outer}{}", self.memory().kind())
    }

    /// The reason why some memory is missing; `None` if all is present.
    pub fn damage(&self) -> Option<&str> {
        self.cut.as_deref().or_else(|| self.memory().damage())
    }
}

/// Checks that only one format has files; `firsts` are the first files of each.
fn check_one_format(firsts: [Option<&PathBuf>; 3]) -> Result<(), SourceError> {
    let mut formats = firsts.into_iter().flatten();
    let (Some(one), Some(other)) = (formats.next(), formats.next()) else {
        return Ok(());
    };
    Err(SourceError::Unsupported {
        path: other.clone(),
        reason: format!(
            "is of another format than {}; give the parts of one dump",
            one.display()
        ),
    })
}

/// A flattened file with holes between its records could claim any size, all of which would be
/// scanned. Writers leave no large holes.
fn check_claim(unpacked: u64, size: u64) -> Result<(), FormatError> {
    if unpacked <= MAX_WITHOUT_DATA || unpacked / MAX_RATIO <= size {
        return Ok(());
    }
    Err(FormatError::unexpected(
        "the records",
        flattened::HEADER_LEN as u64,
        format!("a dump of at most {MAX_RATIO} times the {size} bytes there are"),
        format!("records that claim {unpacked} bytes"),
    ))
}

/// Copies a stream into `spool`: flattened records to their offsets, other formats unchanged.
/// Returns the open file, named `name` in messages, and the unpacked size if it was flattened.
fn unpack_stream(
    mut stream: impl Read,
    spool: File,
    name: &Path,
) -> Result<(DumpFile, Option<Summary>), SourceError> {
    let format_error = |cause| SourceError::Format {
        path: name.to_owned(),
        cause,
    };
    let io_error = |action| {
        move |cause| SourceError::Io {
            path: name.to_owned(),
            action,
            cause,
        }
    };
    let mut front = vec![0; flattened::SIGNATURE.len()];
    let mut filled = 0;
    while filled < front.len() {
        match stream
            .read(&mut front[filled..])
            .map_err(io_error("read it"))?
        {
            0 => break,
            count => filled += count,
        }
    }
    front.truncate(filled);
    let is_flattened = flattened::is_flattened(&front);
    let mut whole = front.as_slice().chain(stream);
    let mut unpacked = None;
    if is_flattened {
        let summary = flattened::unpack(&mut whole, |offset, bytes| {
            spool.write_all_at(bytes, offset)
        })
        .map_err(format_error)?;
        check_claim(summary.size, summary.bytes).map_err(format_error)?;
        unpacked = Some(summary);
    } else {
        let mut writer = &spool;
        std::io::copy(&mut whole, &mut writer).map_err(io_error("copy it"))?;
    }
    Ok((DumpFile::from_file(spool, name.to_owned())?, unpacked))
}

fn recognise(bytes: &dyn ReadAt, path: &Path) -> Result<Kind, SourceError> {
    let error = |cause| SourceError::Format {
        path: path.to_owned(),
        cause,
    };
    let mut front = [0; 16];
    let mut filled = 0;
    while filled < front.len() {
        match bytes.read_at(filled as u64, &mut front[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(_) if vmdump::ends_as_vmdump(bytes) => return Ok(Kind::Vmdump),
            Err(cause) => {
                return Err(error(FormatError::Io {
                    what: "the signature",
                    offset: filled as u64,
                    cause,
                }));
            }
        }
    }
    let whole = front;
    let front = &front[..filled];
    if front.is_empty() {
        return Err(SourceError::Unsupported {
            path: path.to_owned(),
            reason: "the file is empty".into(),
        });
    }
    if front.starts_with(&elf::SIGNATURE) {
        Ok(recognise_elf(bytes).map_or(Kind::Elf, Kind::Image))
    } else if KdumpHeaders::is_kdump(front) {
        Ok(Kind::Kdump)
    } else if flattened::is_flattened(front) {
        Ok(Kind::Flattened)
    } else if vmdump::container_of(front).is_some() {
        Ok(Kind::Vmdump)
    } else if let Some(image) = recognise_image(bytes, whole).map_err(error)? {
        Ok(Kind::Image(image))
    } else {
        Err(error(FormatError::unexpected(
            "the signature",
            0,
            "an ELF core, a kdump-compressed dump (KDUMP), a flattened one (makedumpfile), a \
             sadump, a vmdump, a LiME or an AVML image, a QEMU migration stream, a save image of \
             libvirt, a saved state of VMware (--memory-map reads raw images)",
            format!("{:?}", String::from_utf8_lossy(front)),
        )))
    }
}
