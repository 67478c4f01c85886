//! The row of a dump or log in object storage.

use std::io::{self, Read};

use bigiron_fleet::{FRONT, Row};
use bigiron_format::ReadAt;

use super::row::{RowArguments, of_dump, of_log};
use crate::objects::{self, Object};
use crate::source::{Files, Reading, parts_of};

/// Reads an object from its beginning to its end.
struct Stream {
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

/// Describes an object, or several of one dump.
pub fn row(arguments: &RowArguments) -> anyhow::Result<Row> {
    let parts = parts_of(&arguments.dump);
    let options = &arguments.source;
    options.reader.time.begin(&parts)?;
    let mut objects = objects::open(&parts)?;
    let cost = objects.cost.clone();
    let log = match objects.parts.pop() {
        Some((object, _)) if objects.parts.is_empty() && is_text(&object)? => Some(object),
        last => {
            objects.parts.extend(last);
            None
        }
    };
    let row = match log {
        Some(object) => {
            let position = 0;
            of_log(Stream { object, position }, arguments)?
        }
        None => {
            let files = Files::of_objects(objects, options.input.identity.as_deref())?;
            of_dump(Reading::of_files(files, options)?)?
        }
    };
    let usage = cost.usage();
    let number = |number: u64| i64::try_from(number).ok();
    Ok(Row {
        bytes_fetched: usage.and_then(|usage| number(usage.bytes)),
        requests: usage.and_then(|usage| number(usage.requests)),
        ..row
    })
}

fn is_text(object: &Object) -> io::Result<bool> {
    let mut front = vec![0; FRONT];
    let count = object.read_at(0, &mut front)?;
    front.truncate(count);
    Ok(bigiron_fleet::is_text(&front))
}
