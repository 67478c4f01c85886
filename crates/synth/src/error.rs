//! What can be wrong with a machine's text.

use thiserror::Error;

/// Why a machine could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SynthError {
    /// The text cannot be read as a machine.
    #[error("line {line}: {message}")]
    Line {
        /// Line of the text, counted from one; 0 for a machine made without text.
        line: usize,
        /// What was expected.
        message: String,
    },
    /// The text is legal line by line, but the machine cannot be laid out.
    #[error("{0}")]
    Layout(String),
}

impl SynthError {
    pub(crate) fn line(line: usize, message: impl Into<String>) -> Self {
        Self::Line {
            line,
            message: message.into(),
        }
    }

    pub(crate) fn layout(message: impl Into<String>) -> Self {
        Self::Layout(message.into())
    }
}
