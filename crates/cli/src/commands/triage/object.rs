//! Dumps and logs in object storage.

use std::io::{self, Read};
use std::path::Path;

use bigiron_fleet::FRONT;
use bigiron_format::ReadAt;

use crate::arguments::SourceArguments;
use crate::objects::{self, Cost, Object};
use crate::source::{Files, Reading, parts_of};

/// An object that is to be described.
pub enum Opened<'o> {
    /// A text log.
    Log(Stream),
    /// A dump, of one object or several.
    Dump(Reading<'o>),
}

/// Reads an object from its beginning to its end.
pub struct Stream {
    object: Object,
    position: u64,
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.object.read_at(self.position, buf)?;
        self.position += count as u64;
        Ok(count)
    }
}

/// Opens an object, or several of one dump, and starts the time of reading it.
pub fn open<'o>(name: &Path, options: &'o SourceArguments) -> anyhow::Result<(Opened<'o>, Cost)> {
    let parts = parts_of(name);
    options.reader.time.begin(&parts)?;
    let mut objects = objects::open(&parts)?;
    let cost = objects.cost.clone();
    let opened = match objects.parts.pop() {
        Some((object, _)) if objects.parts.is_empty() && is_text(&object)? => {
            let position = 0;
            Opened::Log(Stream { object, position })
        }
        last => {
            objects.parts.extend(last);
            let files = Files::of_objects(objects, options.input.identity.as_deref())?;
            Opened::Dump(Reading::of_files(files, options)?)
        }
    };
    Ok((opened, cost))
}

fn is_text(object: &Object) -> io::Result<bool> {
    let mut front = vec![0; FRONT];
    let count = object.read_at(0, &mut front)?;
    front.truncate(count);
    Ok(bigiron_fleet::is_text(&front))
}
