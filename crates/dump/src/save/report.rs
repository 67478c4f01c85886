//! The report that a dump device has of a dump that is not complete, `report.N`.

use std::io::Write;
use std::path::PathBuf;

use bigiron_helpers::Stop;

use super::directory::Directory;
use super::record::Record;
use super::temporary::{Temporary, failed};
use super::{Save, Saved};
use crate::error::DumpError;

/// Name before the number.
const STEM: &str = "report";

impl Save {
    /// Reads what the device has about the crash: the facts and the kernel log that were written
    /// before any page. `None` if there is nothing, or the source is no device.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn report(&self) -> Result<Option<Vec<u8>>, DumpError> {
        self.origin.report()
    }

    /// Writes a report as `report.N`: with the number of the dump that was `saved`, or as the
    /// only file of one of which nothing was written. Returns the path of an earlier run's.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn store_report(
        &self,
        report: &[u8],
        saved: Option<&Saved>,
        stop: &Stop,
    ) -> Result<PathBuf, DumpError> {
        let directory = Directory::open(&self.options.directory)?;
        let id = self.origin.id();
        let known = match saved {
            Some(saved) => Some(saved.number),
            None => directory.find(id, STEM)?.map(|record| record.number),
        };
        if let Some(number) = known.filter(|number| directory.size_of(STEM, *number).is_some()) {
            return Ok(directory.path(STEM, number));
        }
        let temporary = match saved {
            Some(saved) => directory.lock_numbered(STEM, saved.number, stop)?,
            None => directory.lock_temporary(STEM, id, stop)?,
        };
        let write = || {
            fill(&temporary, report)?;
            if let Some(saved) = saved {
                directory.name_as(&temporary, STEM, saved.number)?;
                return Ok(saved.number);
            }
            let record = Record {
                id,
                number: 0,
                stem: STEM.into(),
                bytes: report.len() as u64,
                damage: Some("no part of the dump was written".into()),
                unreadable: None,
                about: self.origin.about(),
            };
            directory.name(&temporary, record, known)
        };
        let number = write().inspect_err(|_| temporary.discard())?;
        Ok(directory.path(STEM, number))
    }
}

fn fill(temporary: &Temporary, report: &[u8]) -> Result<(), DumpError> {
    let written = temporary.file()?.write_all(report);
    written.map_err(|error| failed(temporary.path(), "write it", error))?;
    temporary.sync()
}
