//! Error messages for people.

use std::process::ExitCode;

use bigiron_dump::DumpError;

use crate::signals;
use crate::tell::tell;

/// Exit code: the work was not done, or a check failed.
pub const FAILED: u8 = 1;
/// Exit code: the dump device holds an unsaved dump, which was kept.
const UNSAVED: u8 = 3;

/// Prints an error and returns the exit code: that of the signal that ended the work, as a
/// shell expects it, otherwise `code`.
pub fn report(error: &anyhow::Error, code: u8) -> ExitCode {
    tell!("bigiron: {}", message(error));
    let kept_unsaved = matches!(error.downcast_ref(), Some(DumpError::Unsaved { .. }));
    let code = if kept_unsaved { UNSAVED } else { code };
    ExitCode::from(signals::exit_code(error).unwrap_or(code))
}

/// Formats an error with its causes, outermost first. The libraries' errors put the reason
/// between the file and the advice; they contain it, and report no cause of their own.
pub fn message(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use anyhow::anyhow;
    use bigiron_kernel::SourceError;

    use super::*;

    #[test]
    fn causes_are_kept_even_if_another_text_contains_theirs() {
        let error = anyhow!("full").context("cannot write: the disk is full of dumps");
        assert_eq!(
            message(&error),
            "cannot write: the disk is full of dumps: full"
        );
    }

    #[test]
    fn reasons_of_library_errors_are_printed_once() {
        let source = SourceError::Io {
            path: PathBuf::from("vmcore"),
            action: "open it",
            cause: io::Error::from(io::ErrorKind::NotFound),
        };
        let error = anyhow::Error::from(DumpError::from(source)).context("source");
        assert_eq!(
            message(&error),
            "source: vmcore: cannot open it: entity not found"
        );
    }
}
