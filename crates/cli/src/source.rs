//! Opens sources.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bigiron_dump::DumpError;
use bigiron_format::vmcoreinfo::{MAX_SIZE, Vmcoreinfo};
use bigiron_kernel::printk::LogError;
use bigiron_kernel::{Identities, Kernel, KernelError, Source};

use crate::arguments::SourceArguments;
use crate::bus_error;

/// Opens the files of one dump. `-` is standard input, which is unpacked into an unnamed file
/// in the directory `spool`, since a dump is read at random. `identity` has the keys of an
/// encrypted dump.
pub fn open(paths: &[PathBuf], spool: &Path, identity: Option<&Path>) -> anyhow::Result<Source> {
    let identities = identities(identity)?;
    if paths != [PathBuf::from("-")] {
        return Ok(Source::open_with(paths, &identities)?);
    }
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
    let name = PathBuf::from("(standard input)");
    Ok(Source::from_stream(
        std::io::stdin().lock(),
        file.into(),
        &name,
        &identities,
    )?)
}

/// Opens a dump for random access by one or many threads.
pub fn open_for_inspection(dump: &[PathBuf], options: &SourceArguments) -> anyhow::Result<Source> {
    let identity = options.input.identity.as_deref();
    #[allow(unused_mut, reason = "without `inspect` there is no cache")]
    let mut opened = open(dump, &std::env::temp_dir(), identity)?;
    #[cfg(feature = "inspect")]
    opened.set_cache(options.cache);
    Ok(opened)
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

/// Reads VMCOREINFO from a file.
pub fn read_vmcoreinfo(path: &Path) -> anyhow::Result<Vmcoreinfo> {
    use std::io::Read;
    let name = || format!("{}: cannot use it as VMCOREINFO", path.display());
    let mut text = Vec::new();
    let file = std::fs::File::open(path).with_context(name)?;
    file.take(MAX_SIZE as u64 + 1)
        .read_to_end(&mut text)
        .with_context(name)?;
    let info = Vmcoreinfo::parse(&text, 0).with_context(name)?;
    anyhow::ensure!(
        info.release().is_some(),
        "{}: has no line OSRELEASE=, so it is not VMCOREINFO",
        path.display()
    );
    Ok(info)
}

/// Opens a dump and passes its kernel to `work`.
#[cfg(feature = "inspect")]
pub fn with_kernel<T>(
    dump: &[PathBuf],
    options: &SourceArguments,
    work: impl FnOnce(&Kernel) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let opened = open_for_inspection(dump, options)?;
    let path = opened.path().display().to_string();
    let name = |error: anyhow::Error| {
        let has_it = format!("{error:#}").contains(&path);
        if has_it {
            error
        } else {
            error.context(path.clone())
        }
    };
    let kernel = find_kernel(&opened, options)?;
    work(&kernel).map_err(name)
}

/// Finds the kernel in an open dump.
pub fn find_kernel<'s>(
    opened: &'s Source,
    options: &SourceArguments,
) -> anyhow::Result<Kernel<'s>> {
    let options = &options.input;
    let given = options.vmcoreinfo.as_deref().map(read_vmcoreinfo);
    let (given, io) = (given.transpose()?, options.io.into());
    bus_error::explain(opened.path(), io)?;
    Kernel::find(opened, given, io, options.cache_pages as usize)
        .map_err(|error| name_error(error.into(), opened.path()))
}

/// Adds the source's name to an error about its kernel, unless it is already there.
pub fn name_error(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let about_kernel = matches!(
        error.downcast_ref(),
        Some(DumpError::Kernel(_) | DumpError::Filter { .. } | DumpError::Layout(_))
    ) || matches!(error.downcast_ref(), Some(LogError::Kernel(_)))
        || error.is::<KernelError>();
    let name = path.display().to_string();
    if about_kernel && !format!("{error:#}").contains(&name) {
        error.context(name)
    } else {
        error
    }
}
