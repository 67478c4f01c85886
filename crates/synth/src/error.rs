//! Errors in the text of a machine.

use thiserror::Error;

/// The reason why a machine cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SynthError {
    /// The text is not a valid description of a machine.
    #[error("line {line}: {message}")]
    Line {
        /// Line of the text, counted from one; 0 for a machine built without text.
        line: usize,
        /// The error, or the expected text.
        message: String,
    },
    /// Each line of the text is valid, but the machine cannot be laid out.
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
