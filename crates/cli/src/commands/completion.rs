//! `bigiron save --complete`: an object of what an interrupted upload has left.

use std::path::PathBuf;

use clap::Args;

use crate::objects;
use crate::source::Files;
use crate::tell::print;

/// Options of `save` for uploads.
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionArguments {
    /// SOURCE is s3://BUCKET/KEY: make an object of what an interrupted `bigiron dump` uploaded
    #[arg(long)]
    complete: bool,
    /// With --complete: replace an object of this name
    #[arg(long, requires = "complete")]
    overwrite: bool,
}

impl CompletionArguments {
    /// Returns true if `paths` are objects to be completed.
    ///
    /// # Errors
    ///
    /// Only some of them are objects, or they are to be saved.
    pub fn is_wanted(self, paths: &[PathBuf]) -> anyhow::Result<bool> {
        for path in paths {
            match (objects::is_object(path), self.complete) {
                (true, false) => anyhow::bail!(
                    "{0}: is an object; `bigiron dump SOURCE {0}` uploads a dump, and `bigiron save \
                     --complete {0}` completes an upload that was interrupted",
                    path.display()
                ),
                (false, true) => anyhow::bail!(
                    "{}: is a file; --complete takes s3://BUCKET/KEY",
                    path.display()
                ),
                _ => {}
            }
        }
        Ok(self.complete)
    }

    /// Completes the uploads, and says what they are.
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
}
