//! `bigiron save SOURCE s3://BUCKET/KEY`, and `--complete`: dumps that become objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bigiron_dump::{Progress, Save, SaveOptions};
use bigiron_helpers::Stop;
use clap::Args;

use crate::source::Files;
use crate::tell::{print, tell};
use crate::{memory_limit, objects, progress, signals, timeout};

/// Bytes per unit of the progress counter.
const BLOCK: u64 = 4096;

/// Options of `save` for objects.
#[derive(Clone, Copy, Debug, Args)]
pub struct UploadArguments {
    /// SOURCE is s3://BUCKET/KEY: make an object of what an interrupted upload has left
    #[arg(long)]
    complete: bool,
    /// Replace an object of this name
    #[arg(long)]
    overwrite: bool,
}

/// What is to be done with objects.
pub enum Wanted<'p> {
    /// Complete the uploads of these objects.
    Completion(&'p [PathBuf]),
    /// Upload the dump in these sources to this object.
    Upload(&'p [PathBuf], &'p Path),
}

/// How a dump is uploaded.
pub struct Upload {
    /// The options of the save; the directory is not used.
    pub options: SaveOptions,
    /// Shows progress, and says what was done.
    pub is_verbose: bool,
}

impl UploadArguments {
    /// What is to be done, if `paths` are about objects.
    ///
    /// # Errors
    ///
    /// Objects and files are mixed, or the options are for objects and there is none.
    pub fn wanted(self, paths: &[PathBuf]) -> anyhow::Result<Option<Wanted<'_>>> {
        let mut files = paths.iter().filter(|path| !objects::is_object(path));
        if self.complete {
            anyhow::ensure!(
                files.next().is_none(),
                "--complete takes objects alone: s3://BUCKET/KEY"
            );
            return Ok(Some(Wanted::Completion(paths)));
        }
        match paths {
            [sources @ .., last] if objects::is_object(last) => {
                anyhow::ensure!(
                    !sources.is_empty() && files.count() == sources.len(),
                    "{0}: is an object; `bigiron save SOURCE {0}` uploads what is on a device or in \
                     a file, and `bigiron save --complete {0}` completes an upload that was \
                     interrupted",
                    last.display()
                );
                Ok(Some(Wanted::Upload(sources, last)))
            }
            _ => {
                anyhow::ensure!(
                    !self.overwrite,
                    "--overwrite is for objects: s3://BUCKET/KEY"
                );
                Ok(None)
            }
        }
    }

    /// Completes uploads, and says what they are.
    ///
    /// # Errors
    ///
    /// There is none, or the object is no dump.
    pub fn complete(self, paths: &[PathBuf]) -> anyhow::Result<()> {
        for path in paths {
            let done = objects::complete(path, self.overwrite)?;
            let unused = match done.unused {
                0 => String::new(),
                count => format!(" ({count} parts behind a missing one are left out)"),
            };
            print(&format!(
                "{}: {} bytes in {} parts, of the upload of {}{unused}\n",
                path.display(),
                done.bytes,
                done.parts,
                done.begun
            ))?;
            let source = Files::open_named(std::slice::from_ref(path), None)?.parse()?;
            let state = source.damage().unwrap_or("complete");
            print(&format!("{}: {}, {state}\n", path.display(), source.kind()))?;
        }
        Ok(())
    }

    /// Uploads the dump in `sources`, unchanged, and clears the mark of its device. Returns false if
    /// there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read whole, or not be uploaded; then the device keeps its mark.
    pub fn upload(self, sources: &[PathBuf], target: &Path, how: Upload) -> anyhow::Result<bool> {
        anyhow::ensure!(
            !how.options.expand,
            "{}: a dump is uploaded as it is; `bigiron dump -f elf SOURCE {0}` expands it",
            target.display()
        );
        let stop = Stop::new();
        signals::watch(&stop)?;
        timeout::stop_with(&stop);
        let (memory, keeps_mark) = (how.options.memory, how.options.keep_mark);
        let waiting = |path: &Path| {
            tell!(
                "bigiron: {}: waiting for another program that is writing or saving it",
                path.display()
            );
        };
        let found = Save::open(sources, how.options, &stop, &waiting)?;
        let Some(save) = found.filter(|save| !save.is_nothing()) else {
            if how.is_verbose {
                print("there is no dump to save\n")?;
            }
            return Ok(false);
        };
        memory_limit::opened(memory);
        let taker = objects::taker(target, self.overwrite)?;
        let counter = Arc::new(Progress::new());
        let display = progress::begin(&counter, BLOCK, !how.is_verbose);
        let bytes = save.pass_to(&taker, &counter, &stop);
        drop(display);
        let bytes = bytes?;
        if save.is_cut_short() {
            tell!(
                "bigiron: warning: {}: the dump is not complete",
                target.display()
            );
        }
        if save.has_mark() && !keeps_mark {
            save.clear()?;
        }
        if save.has_more() {
            tell!(
                "bigiron: {}: has another dump; save it under another name",
                save.source().display()
            );
        }
        if how.is_verbose {
            print(&format!("{}: {bytes} bytes\n", target.display()))?;
        }
        Ok(true)
    }
}
