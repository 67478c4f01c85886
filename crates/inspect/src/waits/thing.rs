//! What a lock is part of, or stands for: a page of a file, a block of a device, an inode, the
//! memory of a process.

use bigiron_format::VirtAddr;
use serde::Serialize;

use super::task_name::TaskName;
use crate::file_name::FileName;
use crate::json::hexadecimal;

/// What a lock is part of, or stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Thing {
    /// A page of the page cache, or of the memory of a process.
    Page {
        /// Its page frame number.
        #[serde(skip_serializing_if = "Option::is_none")]
        frame: Option<u64>,
        /// Its number in its file.
        #[serde(skip_serializing_if = "Option::is_none")]
        index: Option<u64>,
        /// The file; `None` for a page of none.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<FileName>,
    },
    /// A buffer of a block device (struct buffer_head).
    Buffer {
        /// The device, such as `vda1`.
        device: String,
        /// Number of the block.
        block: u64,
        /// Size of the block, in bytes.
        size: u64,
    },
    /// An inode.
    Inode {
        /// The member of it that is the lock: `i_rwsem`.
        member: &'static str,
        /// The file.
        file: FileName,
    },
    /// The memory of a process (struct mm_struct).
    Memory {
        /// The member of it that is the lock: `mmap_lock`.
        member: &'static str,
        /// A task that has it; `None` if no task has it any more.
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<TaskName>,
    },
    /// A mounted file system (struct super_block).
    FileSystem {
        /// The member of it that is the lock: `s_umount`.
        member: &'static str,
        /// Its device.
        device: String,
        /// Its type.
        filesystem: String,
    },
    /// A futex.
    Futex {
        /// Its address in its process, or its offset in a file if it is shared by one.
        #[serde(serialize_with = "hexadecimal")]
        address: VirtAddr,
        /// A task of the process; `None` for one in a file.
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<TaskName>,
    },
    /// The answer of a server to a call by RPC, as of NFS.
    Rpc {
        /// The protocol: `nfs`, `mount`, `nlm`.
        program: String,
        /// Its version.
        version: u64,
        /// The procedure that is called: `READ`.
        #[serde(skip_serializing_if = "Option::is_none")]
        procedure: Option<String>,
        /// Name of the server.
        server: String,
        /// True if there is a connection to it.
        connected: bool,
        /// Number of calls of the same client that have no answer.
        calls: usize,
        /// Its struct rpc_xprt.
        #[serde(serialize_with = "hexadecimal")]
        transport: VirtAddr,
    },
    /// An object of a slab cache.
    Object {
        /// Name of the cache.
        cache: String,
        /// Its first byte.
        #[serde(serialize_with = "hexadecimal")]
        start: VirtAddr,
    },
}

impl Thing {
    /// Name of the block device that it is on, such as `vda1`.
    pub fn device(&self) -> Option<&String> {
        match self {
            Self::Page { file, .. } => file.as_ref()?.device.as_ref(),
            Self::Inode { file, .. } => file.device.as_ref(),
            Self::Buffer { device, .. } | Self::FileSystem { device, .. } => Some(device),
            _ => None,
        }
    }
}

/// Formats as `page frame 0x1234, page 0 of /file, inode 12 on vda (ext4)`.
impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Page { frame, index, file } => {
                match frame {
                    Some(frame) => write!(f, "page frame {frame:#x}")?,
                    None => write!(f, "page frame unknown")?,
                }
                match (index, file) {
                    (Some(index), Some(file)) => write!(f, ", page {index} of {file}"),
                    (None, Some(file)) => write!(f, ", of {file}"),
                    (_, None) => Ok(()),
                }
            }
            Self::Buffer {
                device,
                block,
                size,
            } => write!(f, "block {block} of {size} bytes on {device}"),
            Self::Inode { member, file } => write!(f, "{member} of {file}"),
            Self::Memory { member, task } => match task {
                Some(task) => write!(f, "{member} of {task}"),
                None => write!(f, "{member} of a process that has ended"),
            },
            Self::FileSystem {
                member,
                device,
                filesystem,
            } => write!(f, "{member} of the file system on {device} ({filesystem})"),
            Self::Futex { address, task } => match task {
                Some(task) => write!(f, "user address {address} of {task}"),
                None => write!(f, "offset {:#x} of a shared file", address.0),
            },
            Self::Rpc {
                program,
                version,
                procedure,
                server,
                ..
            } => {
                let procedure = procedure.as_deref().unwrap_or("an unknown call");
                write!(
                    f,
                    "the answer of the server {server} to {procedure} of {program} version {version}"
                )
            }
            Self::Object { cache, start } => {
                write!(f, "in object {start} of the slab cache {cache}")
            }
        }
    }
}
