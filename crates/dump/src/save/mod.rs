//! Saves a dump after the reboot: from a raw dump device, a file, or the parts of a split or
//! striped dump, into a directory, under the next free number.
//!
//! `save` may be killed at any moment and run again:
//!
//! 1. until the copy is complete and durable its name contains the dump's id;
//!    its writer holds a lock on it, so that two runs do not write the same copy;
//! 2. `info.N`, created only if no such file exists, reserves the number and
//!    records the dump's id; then the copy gets its name, replacing no file;
//! 3. only then is the device's valid mark cleared.
//!
//! After a kill between 2 and 3 the next run finds the id in `info.N` and
//! continues with 3.

mod choice;
mod content;
mod copy;
mod device;
mod directory;
mod expand;
mod extent;
mod job;
mod live;
mod log;
mod lost_pages;
mod merge;
mod options;
mod origin;
mod part;
mod part_bitmaps;
mod parts;
mod pass;
mod recognise;
mod record;
mod report;
mod retention;
mod saved;
mod space;
mod stripes;
mod temporary;
mod unpack;
mod whole;

use std::path::{Path, PathBuf};

use bigiron_helpers::Stop;
use bigiron_kernel::Source;

use crate::error::DumpError;
use crate::progress::{Phase, Progress};

use directory::Directory;
use job::{Made, SaveJob};
use live::discarded;
use options::OpenContext;
use origin::Origin;
use record::Record;

pub use choice::{Choice, Fate, Retention};
pub use live::save_kernel;
pub use log::{SavedLog, save_log};
pub use options::SaveOptions;
pub use retention::Removed;
pub use saved::Saved;

/// A dump to be saved.
pub struct Save {
    origin: Origin,
    options: SaveOptions,
}

impl Save {
    /// Opens a device, a file, or all parts of a dump. Returns `None` for a dump device without
    /// a dump that is still to be saved.
    ///
    /// Waits while another program writes or saves a device; `waiting` is called once before.
    pub fn open(
        sources: &[PathBuf],
        options: SaveOptions,
        stop: &Stop,
        waiting: &dyn Fn(&Path),
    ) -> Result<Option<Self>, DumpError> {
        let context = OpenContext {
            options: &options,
            stop,
            waiting,
        };
        let origin = Origin::open(sources, context)?;
        Ok(origin.map(|origin| Self { origin, options }))
    }

    /// Path of the (first) source.
    pub fn source(&self) -> &Path {
        self.origin.path()
    }

    /// Returns true if the machine stopped before anything of the dump was written, so that
    /// there is only a mark to clear.
    pub fn is_nothing(&self) -> bool {
        self.origin.is_nothing()
    }

    /// Returns true if the machine stopped while the dump was written, or its end is missing.
    pub fn is_cut_short(&self) -> bool {
        self.origin.damage().is_some()
    }

    /// Returns true if there is another dump on the device that was not saved.
    pub fn has_more(&self) -> bool {
        self.origin.has_more()
    }

    /// Returns true if there is a mark to clear.
    pub fn has_mark(&self) -> bool {
        self.origin.has_mark()
    }

    /// Makes the copy, or finds the one that an earlier run made.
    pub fn store(&self, progress: &Progress, stop: &Stop) -> Result<Saved, DumpError> {
        let (origin, options) = (&self.origin, &self.options);
        let directory = Directory::open(&options.directory)?;
        let stem = if options.expand || origin.is_elf() {
            "vmcore"
        } else {
            "vmdump"
        };
        let id = origin.id();
        let wanted = origin.number_of_its_name(stem, &options.directory);
        let wanted = wanted.filter(|number| directory.distrust_of(stem, *number).is_none());
        let temporary = directory.lock_temporary(stem, id, stop)?;
        // The previous owner of the lock may have saved the dump.
        let record = directory.find(id, stem)?;
        if !options.again {
            let named = wanted.filter(|number| directory.size_of(stem, *number).is_some());
            let whole = record.as_ref().filter(|record| directory.has_whole(record));
            if let Some(number) = named.or(whole.map(|record| record.number)) {
                temporary.discard();
                let unreadable = whole.and_then(|record| record.unreadable.clone());
                let encrypted = origin.is_encrypted();
                return Saved::before(&directory, id, stem, number, unreadable, encrypted);
            }
        }
        progress.begin(Phase::Copying, 0);
        let job = SaveJob {
            origin,
            options,
            directory: &directory,
            temporary: &temporary,
            progress,
            stop,
        };
        let made = write(&job).map_err(|error| discarded(&temporary, error))?;
        progress.begin(Phase::Finishing, 0);
        let note = Record {
            id,
            number: 0,
            stem: stem.into(),
            bytes: made.bytes,
            damage: made.damage.clone(),
            unreadable: made.unreadable.clone(),
            about: origin.about(),
        };
        let number = match wanted {
            Some(number) => directory.name_as(&temporary, stem, number).map(|()| number),
            None => {
                let unused = record.filter(|record| !directory.has_whole(record));
                directory.name(&temporary, note, unused.map(|record| record.number))
            }
        };
        let number = number.map_err(|error| discarded(&temporary, error))?;
        Ok(Saved {
            id,
            number,
            path: directory.path(stem, number),
            before: false,
            bytes: made.bytes,
            copied: made.copied,
            damage: made.damage,
            unreadable: made.unreadable,
            encrypted: origin.is_encrypted(),
            warnings: [made.warnings, directory.warnings()].concat(),
        })
    }

    /// Clears the device's valid mark, if there is one. The copy must be durable.
    pub fn clear(&self) -> Result<(), DumpError> {
        self.origin.clear()
    }
}

/// Writes the copy under its temporary name and makes it durable.
fn write(job: &SaveJob) -> Result<Made, DumpError> {
    let (origin, options) = (job.origin, job.options);
    let mut made = if options.expand && !origin.is_elf() {
        expand::write(job)?
    } else if origin.stripes().is_some() {
        merge::write(job)?
    } else if let Some(parts) = origin.parts() {
        parts::write(job, parts)?
    } else {
        copy::write(job)?
    };
    made.damage = match origin.is_encrypted() {
        true => origin.damage().map(ToOwned::to_owned),
        false => damage_of(job, &made),
    };
    if let Some(unreadable) = &made.unreadable {
        made.damage = Some(match made.damage {
            Some(damage) if !damage.contains(unreadable) => format!("{damage}; {unreadable}"),
            Some(damage) => damage,
            None => unreadable.clone(),
        });
    }
    Ok(made)
}

/// Returns the reason why the copy `made` of an unencrypted dump is incomplete.
fn damage_of(job: &SaveJob, made: &Made) -> Option<String> {
    let (origin, options, temporary) = (job.origin, job.options, job.temporary);
    let written = Source::open(&[temporary.path().to_owned()]);
    let damage = match &written {
        Ok(source) => source.damage().map(ToOwned::to_owned),
        // The contents of a device are kept, whatever they are.
        Err(error) => Some(format!("it cannot be read as a dump: {error}")),
    };
    let place = temporary.path().display().to_string();
    let damage = damage.map(|text| text.replace(&place, "the copy"));
    let of_origin = origin.damage().map(ToOwned::to_owned);
    let is_stripes = origin.stripes().is_some();
    match (of_origin, made.damage.clone()) {
        // Only the end of a part was cut off; the copy has a new end.
        _ if is_stripes && !options.expand && damage.is_none() => None,
        (Some(why), Some(lost)) if is_stripes => Some(format!("{why}; {lost}")),
        (why, made) => why.or(damage).or(made),
    }
}
