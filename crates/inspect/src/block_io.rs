//! Block devices, and the requests that they have not answered.
//!
//! Relies on `blockdev_superblock`, struct bdev_inode, `block_device.bd_queue`, and of blk-mq on
//! `blk_mq_tag_set.tags`, `blk_mq_tags.static_rqs` and `request` (`state`, `deadline`, `timeout`;
//! include/linux/blk-mq.h). Devices that do not use blk-mq have no requests of their own.

use std::collections::HashSet;

use bigiron_format::VirtAddr;
use bigiron_helpers::Stop;
use bigiron_kernel::types::{Named, TypeTable};
use serde::Serialize;

use crate::block_stack::{Mapping, Stacks};
use crate::error::InspectError;
use crate::jiffies::Jiffies;
use crate::json::hexadecimal;
use crate::program::Program;

/// MQ_RQ_IN_FLIGHT.
const IN_FLIGHT: u64 = 1;
/// REQ_OP_MASK: the lower bits of `request.cmd_flags`.
const OPERATION: u64 = 0xff;
/// Maximum numbers of block devices, of hardware queues, and of requests of a queue.
const MAX_DEVICES: usize = 1 << 16;
const MAX_QUEUES: u64 = 8192;
const MAX_REQUESTS: u64 = 1 << 16;

/// The queue of a block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockQueue {
    /// Name of the disk.
    pub disk: String,
    /// Its request_queue.
    #[serde(serialize_with = "hexadecimal")]
    pub queue: VirtAddr,
    /// The requests that the device has not answered, the oldest first.
    pub in_flight: Vec<Request>,
    /// The devices that it lies on: of the device mapper, of md.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// What the device mapper has of it, if it is one of its devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Request {
    /// Its struct request.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// What is to be done: `read`, `write`, `flush`.
    pub operation: String,
    /// The first sector, of 512 bytes.
    pub sector: u64,
    /// Bytes to be transferred.
    pub bytes: u64,
    /// Nanoseconds since it was started; `None` if the kernel's clocks are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_nsec: Option<u64>,
}

impl BlockQueue {
    /// Finds the queues of all block devices. If `stop` is set, ends with those found until then.
    ///
    /// # Errors
    ///
    /// The kernel lacks a symbol or a member.
    pub fn all(program: &Program, stop: &Stop) -> Result<Vec<Self>, InspectError> {
        let jiffies = Jiffies::of(program).ok();
        let operations = operations(program)?;
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let devices = devices(program)?;
        let stacks = Stacks::new(program, &devices);
        for device in devices {
            if stop.is_set() {
                break;
            }
            let queue = program.pointer(device, "block_device", "bd_queue")?;
            // Partitions share the queue of their disk.
            if queue.0 == 0 || !seen.insert(queue) {
                continue;
            }
            let mut in_flight = Vec::new();
            for request in requests(program, queue)? {
                if program.value(request, "request", "state")? == IN_FLIGHT {
                    in_flight.push(Request::of(program, request, jiffies, &operations)?);
                }
            }
            in_flight.sort_by_key(|request| std::cmp::Reverse(request.age_nsec));
            let disk = program.pointer(device, "block_device", "bd_disk")?;
            found.push(Self {
                disk: program.text(disk, "gendisk", "disk_name")?,
                queue,
                in_flight,
                below: stacks.below(disk),
                mapping: stacks.mapping(disk),
            });
        }
        Ok(found)
    }
}

impl Request {
    fn of(
        program: &Program,
        at: VirtAddr,
        jiffies: Option<Jiffies>,
        operations: &[(String, i64)],
    ) -> Result<Self, InspectError> {
        let value = |path| program.value(at, "request", path);
        let operation = (value("cmd_flags")? & OPERATION).cast_signed();
        let name = operations.iter().find(|(_, known)| *known == operation);
        let started = value("deadline")?.wrapping_sub(value("timeout")?);
        Ok(Self {
            address: at,
            operation: match name {
                Some((name, _)) => name.trim_start_matches("REQ_OP_").to_ascii_lowercase(),
                None => operation.to_string(),
            },
            sector: value("__sector")?,
            bytes: value("__data_len")?,
            age_nsec: jiffies.and_then(|jiffies| jiffies.since(started)),
        })
    }
}

/// Names and numbers of operations: enum req_op, before 6.0 enum req_opf (commit ff07a02e9e8e).
fn operations(program: &Program) -> Result<Vec<(String, i64)>, InspectError> {
    let types = program.types();
    for name in ["req_op", "req_opf"] {
        if let Some(id) = types.find(Named::Enumeration, name)? {
            return Ok(types.enumerators(id)?);
        }
    }
    Ok(Vec::new())
}

/// The block devices, by the inodes of their file system (block/bdev.c).
fn devices(program: &Program) -> Result<Vec<VirtAddr>, InspectError> {
    let file_system = VirtAddr(program.variable("blockdev_superblock", 8)?);
    let head = program.member(file_system, "super_block", "s_inodes")?;
    let inodes = program.list(head, "inode", "i_sb_list", MAX_DEVICES)?;
    let inode = program.locate("bdev_inode", "vfs_inode")?.offset;
    let device = program.locate("bdev_inode", "bdev")?.offset;
    let to_device = |at: VirtAddr| VirtAddr(at.0.wrapping_sub(inode).wrapping_add(device));
    Ok(inodes.items.into_iter().map(to_device).collect())
}

/// All requests of a queue, started or not; none if it does not use blk-mq.
fn requests(program: &Program, queue: VirtAddr) -> Result<Vec<VirtAddr>, InspectError> {
    let set = program.pointer(queue, "request_queue", "tag_set")?;
    if set.0 == 0 {
        return Ok(Vec::new());
    }
    let queues = program
        .value(set, "blk_mq_tag_set", "nr_hw_queues")?
        .min(MAX_QUEUES);
    let table = program.pointer(set, "blk_mq_tag_set", "tags")?;
    let mut found = Vec::new();
    for index in 0..queues {
        let tags = program.number(VirtAddr(table.0.wrapping_add(8 * index)), 8)?;
        if tags == 0 {
            continue;
        }
        let tags = VirtAddr(tags);
        let count = program
            .value(tags, "blk_mq_tags", "nr_tags")?
            .min(MAX_REQUESTS);
        let requests = program.pointer(tags, "blk_mq_tags", "static_rqs")?;
        for tag in 0..count {
            let at = VirtAddr(requests.0.wrapping_add(8 * tag));
            let request = program.number(at, 8)?;
            // A set may serve several queues.
            if request != 0 && program.pointer(VirtAddr(request), "request", "q")? == queue {
                found.push(VirtAddr(request));
            }
        }
    }
    Ok(found)
}
