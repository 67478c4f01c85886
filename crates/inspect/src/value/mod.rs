//! Values in a kernel's memory, interpreted by their types.

mod known;
mod location;
mod read;
mod text;
mod unread;

use bigiron_format::VirtAddr;
use serde::{Serialize, Serializer};

pub use location::{Location, Space};
pub use read::Limits;
pub use unread::why_unread;

/// A value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Value {
    /// A number.
    Number {
        /// The number.
        value: Number,
    },
    /// A value of an enumeration.
    Enumeration {
        /// The number.
        value: Number,
        /// Name of the enumerator, if any.
        #[serde(skip_serializing_if = "Option::is_none")]
        enumerator: Option<String>,
    },
    /// An address.
    Pointer {
        /// The address.
        #[serde(serialize_with = "address")]
        value: VirtAddr,
        /// The symbol that contains it.
        #[serde(skip_serializing_if = "Option::is_none")]
        symbol: Option<String>,
        /// The text there, if the type points to characters.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// An array of characters, up to its NUL.
    Text {
        /// The text.
        text: String,
    },
    /// An array.
    Array {
        /// Number of elements.
        count: u64,
        /// The first elements.
        elements: Vec<RepeatedElement>,
    },
    /// A struct or union.
    Struct {
        /// Its members.
        members: Vec<MemberValue>,
    },
    /// Bytes that are not a number.
    Bytes {
        /// Hexadecimal bytes, in memory order.
        bytes: String,
    },
    /// No data: a function, `void`, a declaration.
    Nothing,
    /// A struct deeper than requested.
    Deeper,
    /// Unreadable.
    Unread {
        /// The reason.
        reason: String,
    },
}

/// Equal consecutive elements of an array.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepeatedElement {
    /// Number of elements.
    pub times: u64,
    /// Their value.
    #[serde(flatten)]
    pub value: Value,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberValue {
    /// Name; an anonymous struct or union has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type, in C syntax.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Offset in bytes from the start of the directly enclosing struct or union.
    pub offset: u64,
    /// For a bit field: first bit in the byte at `offset`, and number of bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u64, u64)>,
    /// Value.
    #[serde(flatten)]
    pub value: Value,
}

/// A number, by the representation of its type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// Signed.
    Signed(i64),
    /// Unsigned.
    Unsigned(u64),
    /// A bool.
    Boolean(bool),
    /// A float.
    Float(f64),
}

fn address<S: Serializer>(address: &VirtAddr, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{:#x}", address.0))
}
