//! A task that waits, and what it waits for.

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::holder::Holder;
use super::kind::WaitKind;
use super::task_name::TaskName;
use super::thing::Thing;
use crate::json::hexadecimal;

/// A task that waits.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// The task.
    pub task: TaskName,
    /// Nanoseconds since it ran; `None` if the kernel does not note that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_nsec: Option<u64>,
    /// True in state D, in which a signal does not wake it.
    pub uninterruptible: bool,
    /// True while it waits for I/O (`task_struct.in_iowait`).
    pub io: bool,
    /// The innermost function that is not a part of waiting, `function+offset [module]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it waits for, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Awaited>,
}

impl Wait {
    /// What the thing is part of that it waits for, if that is known.
    pub fn thing(&self) -> Option<&Thing> {
        self.on.as_ref()?.thing.as_ref()
    }

    /// The device that has what it waits for, or a part of it.
    pub fn device(&self) -> Option<&String> {
        self.thing().and_then(Thing::device)
    }

    /// The function in which it waits, in words.
    pub fn place(&self) -> &str {
        self.at.as_deref().unwrap_or("an unknown function")
    }
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Awaited {
    /// Kind.
    pub kind: WaitKind,
    /// Address of the lock, completion, wait queue or work item; of a page, that of its struct
    /// page.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// The symbol that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// What it is part of, or stands for, if it is in no symbol.
    #[serde(rename = "of", skip_serializing_if = "Option::is_none")]
    pub thing: Option<Thing>,
    /// Its state, in words: `taken by a writer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Who has it, or is to complete it. Empty if that is not known.
    pub holders: Vec<Holder>,
}

/// Formats as `mutex big_lock (0xffffffffc0123000)`, or as `rwsem 0xffff888003a51980, i_rwsem of
/// /file, inode 12 on vda (ext4)`.
impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.symbol {
            Some(symbol) => write!(f, "{} {symbol} ({})", self.kind.word(), self.address)?,
            None => write!(f, "{} {}", self.kind.word(), self.address)?,
        }
        match &self.thing {
            Some(thing) => write!(f, ", {thing}"),
            None => Ok(()),
        }
    }
}
