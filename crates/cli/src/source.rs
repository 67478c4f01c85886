//! Opens sources.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bigiron_dump::DumpError;
#[cfg(feature = "objects")]
use bigiron_format::ReadAt;
use bigiron_format::image::{MAX_MAP_SIZE, MemoryMap};
use bigiron_format::vmcoreinfo::{MAX_SIZE, Vmcoreinfo};
use bigiron_helpers::processor_count;
use bigiron_kernel::printk::LogError;
use bigiron_kernel::source::{DumpFile, with_file_beside};
#[cfg(feature = "inspect")]
use bigiron_kernel::xen::open_dom0;
use bigiron_kernel::xen::{Given, Host};
use bigiron_kernel::{
    Identities, IoMethod, Kernel, KernelError, RUNNING_KERNEL, Source, named_note_warnings,
};

use crate::arguments::{FLAT, SourceArguments};
use crate::memory_limit::ReadBuffers;
#[cfg(feature = "objects")]
use crate::objects::{self, Objects};
use crate::sandbox::Needs;
use crate::tell::tell;
use crate::{bus_error, domain};

/// The open files of one dump, from which nothing has been read.
pub struct Files {
    dump: Dump,
    identities: Identities,
    raw: Option<RawImage>,
}

/// A raw image of memory.
enum RawImage {
    /// Memory from address 0 on.
    Flat,
    /// The ranges of a memory map.
    Ranges(MemoryMap),
}

enum Dump {
    Named(Vec<DumpFile>),
    /// Standard input, and the unnamed file that it is unpacked into.
    Stream(File),
    #[cfg(feature = "objects")]
    Objects(Objects),
}

impl Files {
    /// Opens the files of one dump. `-` is standard input, which is unpacked into an unnamed
    /// file in the directory `spool`, since a dump is read at random. `identity` has the keys of
    /// an encrypted dump.
    pub fn open(paths: &[PathBuf], spool: &Path, identity: Option<&Path>) -> anyhow::Result<Self> {
        if paths != [PathBuf::from("-")] {
            return Self::open_named(paths, identity);
        }
        let identities = identities(identity)?;
        let file = rustix::fs::open(
            spool,
            rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .with_context(|| {
            format!(
                "{}: cannot make a temporary file for standard input",
                spool.display()
            )
        })?;
        Ok(Self {
            dump: Dump::Stream(file.into()),
            identities,
            raw: None,
        })
    }

    /// Opens the files of one dump, none of which is standard input, or its objects.
    pub fn open_named(paths: &[PathBuf], identity: Option<&Path>) -> anyhow::Result<Self> {
        #[cfg(feature = "objects")]
        if paths.iter().any(|path| objects::is_object(path)) {
            return Self::of_objects(objects::open(paths)?, identity);
        }
        let identities = identities(identity)?;
        let paths = with_file_beside(paths);
        let files = paths.iter().map(|path| DumpFile::open(path));
        Ok(Self {
            dump: Dump::Named(files.collect::<Result<_, _>>()?),
            identities,
            raw: None,
        })
    }

    /// Takes a dump whose parts are objects.
    #[cfg(feature = "objects")]
    pub fn of_objects(objects: Objects, identity: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self {
            dump: Dump::Objects(objects),
            identities: identities(identity)?,
            raw: None,
        })
    }

    /// Reads the dump as a raw image of memory, if the user gave its memory map.
    pub fn with_memory_map(mut self, map: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = map {
            let single = match &self.dump {
                Dump::Named(files) => files.len() == 1,
                Dump::Stream(_) => false,
                #[cfg(feature = "objects")]
                Dump::Objects(objects) => objects.parts.len() == 1,
            };
            anyhow::ensure!(single, "--memory-map: a raw image of memory is one file");
            self.raw = Some(if path == Path::new(FLAT) {
                RawImage::Flat
            } else {
                RawImage::Ranges(read_memory_map(path)?)
            });
        }
        Ok(self)
    }

    /// Returns true if this is the memory of the running kernel, whose readers open more files.
    pub fn is_live(&self) -> bool {
        match &self.dump {
            Dump::Named(files) => {
                let live = Path::new(RUNNING_KERNEL);
                files.iter().any(|file| file.path() == live)
            }
            Dump::Stream(_) => false,
            #[cfg(feature = "objects")]
            Dump::Objects(_) => false,
        }
    }

    /// Reads what the files are.
    pub fn parse(self) -> anyhow::Result<Source> {
        let map = match &self.raw {
            Some(RawImage::Ranges(map)) => Some(map),
            _ => None,
        };
        Ok(match self.dump {
            Dump::Named(files) if self.raw.is_some() => {
                let file = files.into_iter().next().context("there is no image")?;
                Source::from_image(file, map)?
            }
            Dump::Named(files) => Source::from_files(files, &self.identities)?,
            Dump::Stream(spool) => {
                let name = PathBuf::from("(standard input)");
                let stream = std::io::stdin().lock();
                Source::from_stream(stream, spool, &name, &self.identities)?
            }
            #[cfg(feature = "objects")]
            Dump::Objects(objects) => {
                let parts = objects.parts.into_iter();
                let mut parts = parts
                    .map(|(object, name)| -> (Box<dyn ReadAt>, _) { (Box::new(object), name) });
                match self.raw {
                    Some(_) => {
                        let (bytes, name) = parts.next().context("there is no image")?;
                        Source::from_image_bytes(bytes, name, map)?
                    }
                    None => Source::from_several_with(parts.collect(), &self.identities)?,
                }
            }
        })
    }
}

/// All open files of a command that only reads a dump.
pub struct Reading<'o> {
    files: Files,
    vmcoreinfo: Option<Vmcoreinfo>,
    options: &'o SourceArguments,
}

impl<'o> Reading<'o> {
    /// Opens the files, and starts the command's time. Nothing has been read from the dump yet.
    pub fn open(dump: &[PathBuf], options: &'o SourceArguments) -> anyhow::Result<Self> {
        options.reader.time.begin(dump)?;
        let identity = options.input.identity.as_deref();
        Self::of_files(Files::open(dump, &std::env::temp_dir(), identity)?, options)
    }

    /// Takes files that are open.
    pub fn of_files(files: Files, options: &'o SourceArguments) -> anyhow::Result<Self> {
        let input = &options.input;
        let given = input.vmcoreinfo.as_deref().map(read_vmcoreinfo);
        Ok(Self {
            files: files.with_memory_map(input.memory_map.as_deref())?,
            vmcoreinfo: given.transpose()?,
            options,
        })
    }

    /// Returns true if [`Self::parse`] will confine the process.
    #[cfg(feature = "mount")]
    pub fn is_confined(&self) -> bool {
        !self.options.reader.no_sandbox && !self.files.is_live()
    }

    /// Confines the process, except for its `needs`, and reads what the dump is.
    pub fn parse(self, needs: &Needs<'_>) -> anyhow::Result<Opened> {
        let Self {
            files,
            vmcoreinfo,
            options,
        } = self;
        #[cfg(feature = "inspect")]
        let cache = options.cache;
        #[cfg(not(feature = "inspect"))]
        let cache = 0;
        let buffers = ReadBuffers {
            helpers: processor_count(),
            cache,
        };
        options.reader.confine(&[&files], needs, buffers);
        #[allow(unused_mut, reason = "without `inspect` there is no cache")]
        let mut source = files.parse()?;
        #[cfg(feature = "inspect")]
        source.set_cache(cache);
        let io = options.input.io.into();
        let cache_pages = options.input.cache_pages as usize;
        let domain = options.input.domain;
        Ok(Opened {
            source: Arc::new(domain::enter(
                source,
                domain,
                Given::default(),
                io,
                cache_pages,
            )?),
            vmcoreinfo,
            io,
            cache_pages,
        })
    }

    /// Passes the dump's kernel to `work`, as [`with_kernel`] does.
    #[cfg(feature = "inspect")]
    pub fn with_kernel<T>(
        self,
        needs: &Needs<'_>,
        work: impl FnOnce(&Kernel) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.parse(needs)?.with_kernel(work)
    }
}

/// An open dump for random access by one or many threads.
pub struct Opened {
    /// The dump.
    pub source: Arc<Source>,
    vmcoreinfo: Option<Vmcoreinfo>,
    io: IoMethod,
    cache_pages: usize,
}

impl Opened {
    /// Finds the kernel in the dump.
    pub fn kernel(&self) -> anyhow::Result<Kernel<'_>> {
        bus_error::explain(self.source.path(), self.io)?;
        let given = self.vmcoreinfo.clone();
        let found = Kernel::find(&self.source, given, self.io, self.cache_pages);
        warn_of_notes(&self.source, found.as_ref().ok());
        found.map_err(|error| name_error(error.into(), self.source.path()))
    }

    /// Returns dom0's memory in the dump of a Xen host, opened in the same way.
    #[cfg(feature = "inspect")]
    pub fn dom0(&self) -> anyhow::Result<Self> {
        let given = Given::default();
        let dom0 = open_dom0(&self.source, given, self.io, self.cache_pages)?;
        Ok(Self {
            source: Arc::new(dom0),
            vmcoreinfo: self.vmcoreinfo.clone(),
            io: self.io,
            cache_pages: self.cache_pages,
        })
    }

    /// Passes the dump's kernel to `work`; errors name the dump.
    #[cfg(feature = "inspect")]
    pub fn with_kernel<T>(
        &self,
        work: impl FnOnce(&Kernel) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let path = self.source.path().display().to_string();
        let name = |error: anyhow::Error| {
            let has_it = format!("{error:#}").contains(&path);
            if has_it {
                error
            } else {
                error.context(path.clone())
            }
        };
        let kernel = self.kernel()?;
        work(&kernel).map_err(name)
    }

    /// Finds the Xen host in the dump, if it is of one.
    pub fn host(&self) -> anyhow::Result<Option<Host<'_>>> {
        bus_error::explain(self.source.path(), self.io)?;
        Host::find(
            self.source.memory(),
            Given::default(),
            self.io,
            self.cache_pages,
        )
        .map_err(|error| name_error(error.into(), self.source.path()))
    }
}

/// Warns about damaged notes of the source, in which `kernel` was found or not.
pub fn warn_of_notes(source: &Source, kernel: Option<&Kernel>) {
    for warning in named_note_warnings(source, kernel) {
        tell!("bigiron: warning: {warning}");
    }
}

/// Splits an argument into the files of one dump: a file, or all parts of a split or striped
/// dump separated by commas.
pub fn parts_of(name: &Path) -> Vec<PathBuf> {
    match name.to_str() {
        Some(text) if text.contains(',') && !name.exists() => {
            text.split(',').map(PathBuf::from).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// Reads the keys from a file.
pub fn identities(file: Option<&Path>) -> anyhow::Result<Identities> {
    Ok(file
        .map(Identities::from_file)
        .transpose()?
        .unwrap_or_default())
}

/// Reads the memory map of a raw image from a file.
fn read_memory_map(path: &Path) -> anyhow::Result<MemoryMap> {
    use std::io::Read;
    let name = || format!("{}: cannot use it as a memory map", path.display());
    let mut text = Vec::new();
    let file = File::open(path).with_context(name)?;
    file.take(MAX_MAP_SIZE as u64 + 1)
        .read_to_end(&mut text)
        .with_context(name)?;
    anyhow::ensure!(
        text.len() <= MAX_MAP_SIZE,
        "{}: a memory map has at most {MAX_MAP_SIZE} bytes",
        path.display()
    );
    MemoryMap::parse(&text).with_context(name)
}

/// Reads VMCOREINFO of a kernel from a file.
pub fn read_vmcoreinfo(path: &Path) -> anyhow::Result<Vmcoreinfo> {
    let info = read_text(path)?;
    anyhow::ensure!(
        info.release().is_some(),
        "{}: has no line OSRELEASE=, so it is not VMCOREINFO",
        path.display()
    );
    Ok(info)
}

/// Reads VMCOREINFO from a file; that of a hypervisor has no release.
pub fn read_text(path: &Path) -> anyhow::Result<Vmcoreinfo> {
    use std::io::Read;
    let name = || format!("{}: cannot use it as VMCOREINFO", path.display());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).with_context(name)?;
    file.take(MAX_SIZE as u64 + 1)
        .read_to_end(&mut text)
        .with_context(name)?;
    Vmcoreinfo::parse(&text, 0).with_context(name)
}

/// Opens a dump, confines the process, and passes the dump's kernel to `work`.
#[cfg(feature = "inspect")]
pub fn with_kernel<T>(
    dump: &[PathBuf],
    options: &SourceArguments,
    work: impl FnOnce(&Kernel) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    Reading::open(dump, options)?.with_kernel(&Needs::Nothing, work)
}

/// Adds the source's name to an error about its kernel, unless it is already there.
pub fn name_error(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let about_kernel = matches!(
        error.downcast_ref(),
        Some(
            DumpError::Kernel(_)
                | DumpError::Filter { .. }
                | DumpError::NoKernel { .. }
                | DumpError::Layout(_)
        )
    ) || matches!(error.downcast_ref(), Some(LogError::Kernel(_)))
        || error.is::<KernelError>();
    let name = path.display().to_string();
    if about_kernel && !format!("{error:#}").contains(&name) {
        error.context(name)
    } else {
        error
    }
}
