//! Error messages for people.

use std::error::Error;
use std::process::ExitCode;

use bigiron_dump::DumpError;
use bigiron_format::FormatError;
use bigiron_format::codec::CodecError;
use bigiron_kernel::printk::LogError;
use bigiron_kernel::{KernelError, SourceError};

use crate::signals;
use crate::tell::tell;

/// Exit code: the work was not done, or a check failed.
pub const FAILED: u8 = 1;

/// Prints an error and returns the exit code: that of the signal that ended the work, as a
/// shell expects it, otherwise `code`.
pub fn report(error: &anyhow::Error, code: u8) -> ExitCode {
    tell!("bigiron: {}", message(error));
    ExitCode::from(signals::exit_code(error).unwrap_or(code))
}

/// Formats an error with its causes, outermost first.
pub fn message(error: &anyhow::Error) -> String {
    let mut texts = Vec::new();
    for cause in error.chain() {
        texts.push(cause.to_string());
        if includes_its_causes(cause) {
            break;
        }
    }
    texts.join(": ")
}

/// Returns true for errors whose own text contains that of their source: the libraries' errors
/// put the system's reason between the file and the advice.
fn includes_its_causes(error: &(dyn Error + 'static)) -> bool {
    let is_core = error.is::<DumpError>()
        || error.is::<KernelError>()
        || error.is::<SourceError>()
        || error.is::<FormatError>()
        || error.is::<CodecError>()
        || error.is::<LogError>()
        || error.is::<bigiron_dump::RecipientsError>()
        || error.is::<bigiron_cpu::CpuError>()
        // An io::Error that wraps another one has that one's text.
        || error.is::<std::io::Error>();
    is_core || is_optional(error)
}

/// The same for errors of libraries that not every build has.
fn is_optional(_error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "inspect")]
    if _error.is::<bigiron_inspect::InspectError>()
        || _error.is::<bigiron_cpu::source::SourceError>()
        || _error.is::<bigiron_cpu::tune::TuneError>()
    {
        return true;
    }
    #[cfg(feature = "hotplug")]
    if _error.is::<bigiron_cpu::hotplug::HotplugError>()
        || _error.is::<bigiron_cpu::hotplug::settings::SettingsError>()
    {
        return true;
    }
    #[cfg(feature = "memory")]
    if _error.is::<bigiron_memory::segment::SegmentError>() {
        return true;
    }
    #[cfg(feature = "mount")]
    if _error.is::<crate::fuse::MountError>() {
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use anyhow::anyhow;

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
            source: io::Error::from(io::ErrorKind::NotFound),
        };
        let error = anyhow::Error::from(DumpError::from(source)).context("source");
        assert_eq!(
            message(&error),
            "source: vmcore: cannot open it: entity not found"
        );
    }
}
