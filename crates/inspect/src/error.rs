//! Errors of inspecting a kernel.

use bigiron_format::VirtAddr;
use bigiron_kernel::{KernelError, SourceError};

/// Facts that a kernel does not provide, or that its memory lacks.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Memory cannot be read or is invalid.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// VMCOREINFO does not locate the symbols.
    #[error(
        "the kernel's symbols are not known: VMCOREINFO names no kallsyms (Linux 6.0 and later do)"
    )]
    NoSymbols,
    /// The kernel has no BTF.
    #[error(
        "the kernel's types are not known: it has no BTF (CONFIG_DEBUG_INFO_BTF), or no symbols of data (CONFIG_KALLSYMS_ALL)"
    )]
    NoTypes,
    /// No such symbol.
    #[error("the kernel has no symbol {name}{}", hint(option))]
    NoSymbol {
        /// Name of the symbol.
        name: String,
        /// The configuration option that provides it, if known.
        option: Option<&'static str>,
    },
    /// No such type, or a type without such a member.
    #[error("the kernel has no {name}{}", hint(option))]
    NoMember {
        /// The type or member, as `struct.member`.
        name: String,
        /// The configuration option that provides it, if known.
        option: Option<&'static str>,
    },
    /// An expression is invalid or names something that the kernel does not have.
    #[error("{text}: {reason}")]
    Expression {
        /// The expression.
        text: String,
        /// The reason.
        reason: String,
    },
    /// Not supported for this kind of kernel.
    #[error("{what} {found} are not known, only {known}")]
    Unsupported {
        /// The unsupported item.
        what: &'static str,
        /// The kind found.
        found: String,
        /// The kinds supported.
        known: &'static str,
    },
    /// Known to be unknown, for a reason that was found earlier.
    #[error("{what}: {reason}")]
    NotKnown {
        /// What is not known.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// More work than the dump's memory accounts for.
    #[error(
        "given up: a walk through the dump's memory reads more than that memory can hold, so a \
         structure in it is damaged"
    )]
    TooManySteps,
    /// The kernel's types locate a member no better than this.
    #[error("{name} cannot be located: {reason}")]
    Types {
        /// The type or member, as `struct.member`.
        name: String,
        /// The damage.
        reason: String,
    },
    /// A list or tree is cyclic, or longer than possible.
    #[error("{what} at {address} is damaged: {reason}")]
    Damaged {
        /// The list or tree.
        what: String,
        /// Its address.
        address: VirtAddr,
        /// The reason.
        reason: String,
    },
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
