//! The columns of the table: the fields of a [`crate::Row`] by name, with their types in Parquet.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the field.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
    /// True if every row has a value.
    pub is_required: bool,
}

/// Values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// UTF-8.
    Text,
    /// UTF-8, any number in a row.
    Texts,
    /// 64 bits with a sign.
    Number,
    /// Milliseconds since 1970, UTC.
    Time,
    /// True or false.
    Truth,
}

const fn required(name: &'static str, values: Values) -> Column {
    Column {
        name,
        values,
        is_required: true,
    }
}

const fn optional(name: &'static str, values: Values) -> Column {
    Column {
        name,
        values,
        is_required: false,
    }
}

/// All columns, in order.
pub const COLUMNS: &[Column] = &[
    required("path", Values::Text),
    required("kind", Values::Text),
    optional("format", Values::Text),
    required("bytes", Values::Number),
    required("modified", Values::Time),
    optional("complete", Values::Truth),
    optional("damage", Values::Text),
    optional("dump_level", Values::Number),
    optional("title", Values::Text),
    required("alternative_titles", Values::Texts),
    optional("fingerprint", Values::Text),
    required("frames", Values::Texts),
    optional("corrupted", Values::Truth),
    required("rules_version", Values::Number),
    optional("kernel_release", Values::Text),
    optional("kernel_version", Values::Text),
    optional("architecture", Values::Text),
    optional("build_id", Values::Text),
    required("modules", Values::Texts),
    optional("tainted", Values::Text),
    optional("machine", Values::Text),
    optional("host", Values::Text),
    optional("crash_time", Values::Time),
    optional("uptime_seconds", Values::Number),
    optional("memory_bytes", Values::Number),
    optional("cpus", Values::Number),
    required("first_lines", Values::Texts),
    required("errors", Values::Texts),
    optional("bytes_fetched", Values::Number),
    optional("requests", Values::Number),
];

/// Returns the schema of the files.
pub fn schema() -> Result<TypePtr, ParquetError> {
    let fields = COLUMNS.iter().map(|column| column.field().map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("crashes").with_fields(fields);
    Ok(Arc::new(schema.build()?))
}

impl Column {
    fn field(&self) -> Result<Type, ParquetError> {
        let repetition = match self.is_required {
            true => Repetition::REQUIRED,
            false => Repetition::OPTIONAL,
        };
        let primitive = |physical, logical| {
            Type::primitive_type_builder(self.name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical)
                .build()
        };
        match self.values {
            Values::Text => primitive(Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Number => primitive(Physical::INT64, None),
            Values::Truth => primitive(Physical::BOOLEAN, None),
            Values::Time => primitive(
                Physical::INT64,
                Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            ),
            Values::Texts => self.list(repetition),
        }
    }

    /// A list as the format's document "LogicalTypes" has it: three levels.
    fn list(&self, repetition: Repetition) -> Result<Type, ParquetError> {
        let element = Type::primitive_type_builder("element", Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()?;
        let list = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![Arc::new(element)])
            .build()?;
        Type::group_type_builder(self.name)
            .with_repetition(repetition)
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(list)])
            .build()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
    use super::*;
    use crate::row::Row;

    #[test]
    fn columns_are_the_fields_of_a_row_in_order() {
        let row = serde_json::to_string(&Row::default()).unwrap();
        let mut at = 0;
        for column in COLUMNS {
            let name = format!("\"{}\":", column.name);
            at += row[at..].find(&name).unwrap();
        }
        let fields = serde_json::to_value(Row::default()).unwrap();
        assert_eq!(fields.as_object().unwrap().len(), COLUMNS.len());
        schema().unwrap();
    }
}
