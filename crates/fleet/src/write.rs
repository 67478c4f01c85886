//! Writes rows as a file of Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use serde_json::{Map, Value};

use crate::columns::{COLUMNS, Column, Values, schema};
use crate::row::{Row, SCHEMA_VERSION};

/// Rows of a row group, which is kept in memory.
const GROUP: usize = 1024;
/// Key of the version of the schema in a file's metadata.
pub const VERSION_KEY: &str = "bigiron.schema_version";
/// What wrote the file. Without the program's version, so that equal rows are equal files.
const WRITER: &str = "bigiron triage";

/// A file that rows are added to.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<Map<String, Value>>,
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file.
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let version = KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string());
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(WRITER.to_owned())
            .set_key_value_metadata(Some(vec![version]))
            .build();
        Ok(Self {
            file: SerializedFileWriter::new(out, schema()?, Arc::new(properties))?,
            rows: Vec::with_capacity(GROUP),
        })
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Row) -> Result<(), ParquetError> {
        match serde_json::to_value(row) {
            Ok(Value::Object(fields)) => self.rows.push(fields),
            _ => return Err(ParquetError::General("a row is not an object".to_owned())),
        }
        if self.rows.len() == GROUP {
            self.flush()?;
        }
        Ok(())
    }

    /// Ends the file, and returns the output.
    pub fn finish(mut self) -> Result<W, ParquetError> {
        self.flush()?;
        self.file.into_inner()
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in COLUMNS {
            let cells: Vec<&Value> = self.rows.iter().map(|row| &row[column.name]).collect();
            write_column(&mut group, column, &cells)?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    cells: &[&Value],
) -> Result<(), ParquetError> {
    let text = |cell: &Value| cell.as_str().map(ByteArray::from);
    match column.values {
        Values::Text => put::<ByteArrayType, _>(group, column, cells, text),
        Values::Number | Values::Time => put::<Int64Type, _>(group, column, cells, Value::as_i64),
        Values::Truth => put::<BoolType, _>(group, column, cells, Value::as_bool),
        Values::Texts => put_lists(group, cells),
    }
}

/// Writes a column with at most one value in a row.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    column: &Column,
    cells: &[&Value],
    value: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let found: Vec<Option<T::T>> = cells.iter().map(|cell| value(cell)).collect();
    let levels: Vec<i16> = found.iter().map(|value| value.is_some().into()).collect();
    let levels = (!column.is_required).then_some(levels.as_slice());
    let values: Vec<T::T> = found.into_iter().flatten().collect();
    write::<T, W>(group, &values, levels, None)
}

/// Writes a column with any number of texts in a row.
fn put_lists<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    cells: &[&Value],
) -> Result<(), ParquetError> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells {
        let texts = cell.as_array().map_or(&[][..], Vec::as_slice);
        if texts.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (index, text) in texts.iter().enumerate() {
            values.push(ByteArray::from(text.as_str().unwrap_or_default()));
            defined.push(1);
            repeated.push((index > 0).into());
        }
    }
    write::<ByteArrayType, W>(group, &values, Some(&defined), Some(&repeated))
}

fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, defined, repeated)?;
    column.close()
}

/// Turns an error of Parquet into one of the file that it is written to.
pub fn io_error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
