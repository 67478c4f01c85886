//! Why something of a kernel is not known.

use bigiron_format::VirtAddr;
use bigiron_kernel::{KernelError, SourceError};

/// What a kernel does not tell, or its memory does not hold.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Its memory cannot be read or makes no sense.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It does not say where its symbols are.
    #[error(
        "the kernel's symbols are not known: VMCOREINFO names no kallsyms (Linux 6.0 and later do)"
    )]
    NoSymbols,
    /// It has no types.
    #[error("the kernel's types are not known: it has no BTF (CONFIG_DEBUG_INFO_BTF)")]
    NoTypes,
    /// It has no such symbol.
    #[error("the kernel has no symbol {name}{}", hint(option))]
    NoSymbol {
        /// The symbol.
        name: String,
        /// What of the kernel's configuration brings it, if that is known.
        option: Option<&'static str>,
    },
    /// It has no such type, or a type no such member.
    #[error("the kernel has no {name}{}", hint(option))]
    NoMember {
        /// The type or member, as `struct.member`.
        name: String,
        /// What of the kernel's configuration brings it, if that is known.
        option: Option<&'static str>,
    },
    /// What somebody asked for makes no sense, or names what the kernel does not have.
    #[error("{text}: {reason}")]
    Expression {
        /// What was asked for.
        text: String,
        /// Why.
        reason: String,
    },
    /// Nobody here knows how a kernel of that kind has it.
    #[error("{what} {found} are not known, only {known}")]
    Unsupported {
        /// What it is.
        what: &'static str,
        /// What of.
        found: String,
        /// Of what it is known.
        known: &'static str,
    },
    /// A list or tree does not end, or is longer than it can be.
    #[error("{what} at {address} is damaged: {reason}")]
    Damaged {
        /// What it is.
        what: String,
        /// Where.
        address: VirtAddr,
        /// Why.
        reason: String,
    },
}

impl InspectError {
    /// The same, with what of the kernel's configuration brings what is missing.
    pub(crate) fn brought_by(mut self, by: &'static str) -> Self {
        if let Self::NoSymbol { option, .. } | Self::NoMember { option, .. } = &mut self {
            *option = Some(by);
        }
        self
    }
}

impl From<SourceError> for InspectError {
    fn from(error: SourceError) -> Self {
        Self::Kernel(error.into())
    }
}

fn hint(option: &Option<&'static str>) -> String {
    option
        .map(|option| format!(" ({option})"))
        .unwrap_or_default()
}
