//! Values in a kernel's memory, as their types make them out.

mod known;
mod read;
mod spot;
mod text;

use bigiron_format::VirtAddr;
use serde::{Serialize, Serializer};

pub use read::{Limits, why_unread};
pub use spot::{Space, Spot};

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Value {
    /// A number.
    Number {
        /// It.
        value: Number,
    },
    /// A value of an enumeration.
    Enumeration {
        /// It.
        value: Number,
        /// Its name, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        enumerator: Option<String>,
    },
    /// An address.
    Pointer {
        /// It.
        #[serde(serialize_with = "address")]
        value: VirtAddr,
        /// The symbol that it lies in.
        #[serde(skip_serializing_if = "Option::is_none")]
        symbol: Option<String>,
        /// The text there, if the type says that it is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// An array of characters, up to its NUL.
    Text {
        /// What it says.
        text: String,
    },
    /// An array.
    Array {
        /// How many elements it has.
        count: u64,
        /// The first of them.
        elements: Vec<Run>,
    },
    /// A struct or union.
    Struct {
        /// Its members.
        members: Vec<MemberValue>,
    },
    /// Bytes that no number stands for.
    Bytes {
        /// They, in hexadecimal, in the order of memory.
        bytes: String,
    },
    /// Nothing: a function, `void`, a type that is only declared.
    Nothing,
    /// A struct deeper than was asked for.
    Deeper,
    /// It could not be read.
    Unread {
        /// Why.
        reason: String,
    },
}

/// Elements of an array that are equal and one behind the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// How many.
    pub times: u64,
    /// Each of them.
    #[serde(flatten)]
    pub value: Value,
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemberValue {
    /// Its name; a struct or union inside may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its type, as C writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes from the start of the struct or union that it is directly in.
    pub offset: u64,
    /// Of a bit field: its first bit in the byte at `offset`, and its bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<(u64, u64)>,
    /// What it holds.
    #[serde(flatten)]
    pub value: Value,
}

/// A number, as its type writes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// One that may be negative.
    Signed(i64),
    /// One that may not.
    Unsigned(u64),
    /// A bool.
    Boolean(bool),
    /// A float.
    Float(f64),
}

fn address<S: Serializer>(address: &VirtAddr, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{:#x}", address.0))
}
