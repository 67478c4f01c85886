//! Text output in two columns: labels and values.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::tell::on_one_line;

/// Width of the label column.
const LABEL: usize = 10;
/// Maximum width of a column of a table; a longer text moves those after it. All rows are as
/// wide as the widest, whose text is from the dump.
const MAX_WIDTH: usize = 64;

/// Lines, with or without a label.
pub struct Page(pub String);

impl Page {
    /// Adds a line; control characters in it are escaped.
    pub fn line(&mut self, label: &str, value: &str) {
        let value = on_one_line(value);
        let _ = writeln!(self.0, "{}", format!("{label:<LABEL$}{value}").trim_end());
    }

    /// Adds a line if there is a value.
    pub fn optional(&mut self, label: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(label, value);
        }
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.0, "\n{}", on_one_line(text));
    }

    /// Adds a table with a heading: text left-aligned, the columns in `right` right-aligned, as
    /// narrow as possible.
    pub fn table(
        &mut self,
        heading: &str,
        columns: &[&str],
        right: &[usize],
        rows: &[Vec<String>],
    ) {
        let _ = writeln!(self.0, "\n{heading}");
        fn cell(row: &[String], column: usize) -> Cow<'_, str> {
            on_one_line(row.get(column).map_or("", String::as_str))
        }
        let width = |column: usize| {
            let cells = rows.iter().map(|row| cell(row, column).chars().count());
            cells
                .chain([columns[column].chars().count()])
                .max()
                .unwrap_or(0)
                .min(MAX_WIDTH)
        };
        let widths: Vec<usize> = (0..columns.len()).map(width).collect();
        let mut put = |text: &dyn Fn(usize) -> String| {
            let mut line = String::new();
            for (column, width) in widths.iter().copied().enumerate() {
                let text = text(column);
                let _ = match right.contains(&column) {
                    true => write!(line, "  {text:>width$}"),
                    false => write!(line, "  {text:<width$}"),
                };
            }
            let _ = writeln!(self.0, "{}", line.trim_end());
        };
        put(&|column| columns[column].to_owned());
        for row in rows {
            put(&|column| cell(row, column).into_owned());
        }
    }
}
