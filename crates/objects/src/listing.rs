//! Lists of objects.

use serde::{Deserialize, Serialize};

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Last change: milliseconds since 1970.
    pub modified: i64,
}

/// A part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The objects, by key.
    pub objects: Vec<Listed>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<String>,
}
