//! Finding: I/O requests that a device has not answered for long.
//!
//! Relies on `blockdev_superblock`, struct bdev_inode, `block_device.bd_queue`, and of blk-mq on
//! `blk_mq_tag_set.tags`, `blk_mq_tags.static_rqs` and `request` (`state`, `deadline`, `timeout`;
//! include/linux/blk-mq.h).

use std::collections::HashSet;

use bigiron_format::VirtAddr;

use super::evidence::Evidence;
use super::finding::{Finding, Sure, seconds};
use super::waiting::longest;
use crate::error::InspectError;
use crate::program::Program;
use crate::waits::Wait;

/// Kind.
pub const KIND: &str = "io";
/// A disk answers in milliseconds; one that retries, in seconds.
const LONG_NSEC: u64 = 10_000_000_000;
/// MQ_RQ_IN_FLIGHT.
const IN_FLIGHT: u64 = 1;
/// Maximum numbers of block devices, of hardware queues, and of requests of a queue.
const MAX_DEVICES: usize = 1 << 16;
const MAX_QUEUES: u64 = 8192;
const MAX_REQUESTS: u64 = 1 << 16;

/// Requests in flight of a queue.
struct InFlight {
    disk: String,
    queue: VirtAddr,
    /// The oldest request, and nanoseconds since it was started.
    oldest: (VirtAddr, u64),
    count: usize,
}

/// A finding for each queue.
pub fn find(evidence: &Evidence) -> Result<Vec<Finding>, InspectError> {
    let waits = &evidence.waits()?.waits;
    let waiting: Vec<&Wait> = waits.iter().filter(|wait| wait.io).collect();
    let found = in_flight(evidence)?;
    let old = found.iter().filter(|found| found.oldest.1 >= LONG_NSEC);
    Ok(old
        .map(|found| finding(evidence, found, &waiting))
        .collect())
}

fn finding(evidence: &Evidence, found: &InFlight, waiting: &[&Wait]) -> Finding {
    let (request, age) = found.oldest;
    let program = evidence.program;
    let title = format!(
        "the device {} has not answered for {}: {} requests in flight; {} tasks wait for I/O, up to {}",
        found.disk,
        seconds(age),
        found.count,
        waiting.len(),
        seconds(longest(waiting.iter().copied()))
    );
    let mut finding = Finding::new(KIND, 83, Sure::Certain, title).because(format!(
        "the oldest request was started {} ago",
        seconds(age)
    ));
    let number = |path| program.value(request, "request", path).ok();
    if let (Some(sector), Some(len)) = (number("__sector"), number("__data_len")) {
        finding = finding.because(format!("it is for {len} bytes at sector {sector}"));
    }
    finding
        .waiters(waiting.iter().copied(), "waits for I/O")
        .place(program, "request", request)
        .place(program, "request_queue", found.queue)
        .more("bigiron info --waits --stacks DUMP")
}

fn in_flight(evidence: &Evidence) -> Result<Vec<InFlight>, InspectError> {
    let program = evidence.program;
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for device in devices(program)? {
        if evidence.stop.is_set() {
            break;
        }
        let queue = program.pointer(device, "block_device", "bd_queue")?;
        // Partitions share the queue of their disk.
        if queue.0 == 0 || !seen.insert(queue) {
            continue;
        }
        let (mut oldest, mut count): (Option<(VirtAddr, u64)>, usize) = (None, 0);
        for request in requests(program, queue)? {
            if program.value(request, "request", "state")? != IN_FLIGHT {
                continue;
            }
            count += 1;
            let deadline = program.value(request, "request", "deadline")?;
            let timeout = program.value(request, "request", "timeout")?;
            let age = evidence
                .since_jiffies(deadline.wrapping_sub(timeout))
                .unwrap_or(0);
            if oldest.is_none_or(|(_, known)| age > known) {
                oldest = Some((request, age));
            }
        }
        if let Some(oldest) = oldest {
            let disk = program.pointer(device, "block_device", "bd_disk")?;
            found.push(InFlight {
                disk: program.text(disk, "gendisk", "disk_name")?,
                queue,
                oldest,
                count,
            });
        }
    }
    Ok(found)
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
