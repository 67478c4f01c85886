//! Reads the files of a table.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row as Record};
use serde_json::{Map, Value};

use crate::error::FleetError;
use crate::row::{Row, SCHEMA_VERSION};
use crate::shard::Shard;
use crate::write::VERSION_KEY;

/// The files of the table in a directory, by name.
///
/// # Errors
///
/// The directory cannot be read, or has files of runs with different numbers of shards, whose
/// rows would count twice.
pub fn table_files(directory: &Path) -> Result<Vec<PathBuf>, FleetError> {
    let error = || FleetError::io(directory, "read the directory");
    let (mut files, mut counts) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).map_err(error())? {
        let entry = entry.map_err(error())?;
        if let Some(count) = entry.file_name().to_str().and_then(Shard::count_in) {
            files.push(entry.path());
            counts.push(count);
        }
    }
    counts.sort_unstable();
    counts.dedup();
    if let [first, second, ..] = counts[..] {
        return Err(FleetError::Busy {
            path: directory.to_owned(),
            reason: format!(
                "has files of {first} and of {second} shards, so dumps would count twice; remove \
                 those of one"
            ),
        });
    }
    files.sort_unstable();
    Ok(files)
}

/// Passes the rows of a file to `each`, in its order.
///
/// # Errors
///
/// The file cannot be read, is no table of crashes, or one of a newer version.
pub fn read_table(path: &Path, each: &mut dyn FnMut(Row)) -> Result<(), FleetError> {
    let file = File::open(path).map_err(FleetError::io(path, "open it"))?;
    let error = || FleetError::parquet(path, "read it as Parquet");
    let reader = SerializedFileReader::new(file).map_err(error())?;
    let wrong = |reason: String| FleetError::NotATable {
        path: path.to_owned(),
        reason,
    };
    let metadata = reader.metadata().file_metadata();
    let known = metadata.key_value_metadata().into_iter().flatten();
    let version = known.filter(|pair| pair.key == VERSION_KEY);
    let mut version = version.filter_map(|pair| pair.value.as_ref()?.parse::<u32>().ok());
    match version.next() {
        // Later versions only add columns.
        Some(1..=SCHEMA_VERSION) => {}
        None => {
            return Err(wrong(format!(
                "has no {VERSION_KEY}; expected a table that `bigiron triage` wrote"
            )));
        }
        Some(version) => {
            return Err(wrong(format!(
                "has version {version} of the columns, of which this program knows those up to {SCHEMA_VERSION}; \
                 make the table again, or use the program that wrote it"
            )));
        }
    }
    for record in reader.get_row_iter(None).map_err(error())? {
        let row = row(record.map_err(error())?);
        each(row.map_err(|reason| wrong(format!("a row is not as expected: {reason}")))?);
    }
    Ok(())
}

fn row(record: Record) -> serde_json::Result<Row> {
    let fields = record.into_columns().into_iter();
    let fields: Map<String, Value> = fields.map(|(name, field)| (name, value(field))).collect();
    serde_json::from_value(Value::Object(fields))
}

fn value(field: Field) -> Value {
    match field {
        Field::Bool(truth) => truth.into(),
        Field::Long(number) | Field::TimestampMillis(number) => number.into(),
        Field::Str(text) => text.into(),
        Field::ListInternal(list) => list.elements().iter().cloned().map(value).collect(),
        _ => Value::Null,
    }
}
