//! What a block device lies on: the devices below one of the device mapper, of md, and of others
//! that register them.
//!
//! Relies on `gendisk.slave_bdevs` and struct bd_holder_disk (block/holder.c,
//! CONFIG_BLOCK_HOLDER_DEPRECATED), and on `block_device.bd_holder_dir`. Of the device mapper, on
//! struct mapped_device (`disk`, `flags`, `deferred`, `map`, `interface_ptr`; drivers/md/dm-core.h),
//! struct hash_cell (drivers/md/dm-ioctl.c), dm_table, dm_target and target_type.

use std::collections::HashMap;

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::block_paths::{Multipath, Paths};
use crate::error::InspectError;
use crate::file_name::device_name;
use crate::json::hexadecimal;
use crate::modules::Structure;
use crate::program::Program;

/// The module of the device mapper.
const MODULE: &str = "dm_mod";
/// DMF_SUSPENDED and DMF_SUSPENDED_INTERNALLY: bits of `mapped_device.flags`.
const SUSPENDED: [u32; 2] = [1, 7];
/// Maximum numbers of devices below one, of bios that wait, and of targets that are looked at.
const MAX_BELOW: usize = 1 << 16;
const MAX_BIOS: usize = 1 << 20;
const MAX_TARGETS: u64 = 64;
/// Bios that wait and are kept.
const MAX_KEPT: usize = 1 << 16;

/// A device of the device mapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its name, as dmsetup shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its table is made of, each kind once: `linear`, `multipath`.
    pub targets: Vec<String>,
    /// True if it is suspended: requests wait until it is resumed.
    pub suspended: bool,
    /// Number of bios that wait for that.
    pub deferred: usize,
    /// The paths, if it is a multipath device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Paths>,
    /// What is to be told when each of them is done (`bio.bi_private`).
    #[serde(skip)]
    pub private: Vec<VirtAddr>,
    /// Its struct mapped_device.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// The stacks of a kernel's block devices.
pub(crate) struct Stacks<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    /// Names of devices by their `bd_holder_dir`.
    by_directory: HashMap<VirtAddr, String>,
    mapper: Option<Mapper<'p, 'k, 's>>,
}

/// The layouts of the device mapper.
struct Mapper<'p, 'k, 's> {
    device: Structure<'p, 'k, 's>,
    cell: Structure<'p, 'k, 's>,
    table: Structure<'p, 'k, 's>,
    target: Structure<'p, 'k, 's>,
    kind: Structure<'p, 'k, 's>,
    multipath: Option<Multipath<'p, 'k, 's>>,
}

impl<'p, 'k, 's> Mapper<'p, 'k, 's> {
    fn of(program: &'p Program<'k, 's>) -> Option<Self> {
        let find = |name| Structure::of(program, MODULE, name).ok().flatten();
        Some(Self {
            device: find("mapped_device")?,
            cell: find("hash_cell")?,
            table: find("dm_table")?,
            target: find("dm_target")?,
            kind: find("target_type")?,
            multipath: Multipath::of(program),
        })
    }
}

impl<'p, 'k, 's> Stacks<'p, 'k, 's> {
    /// Reads what is common to all devices; `devices` are all struct block_device.
    pub fn new(program: &'p Program<'k, 's>, devices: &[VirtAddr]) -> Self {
        let named = devices.iter().filter_map(|device| {
            let directory = program.pointer(*device, "block_device", "bd_holder_dir");
            let directory = directory.ok().filter(|at| at.0 != 0)?;
            Some((directory, device_name(program, *device).ok()?))
        });
        Self {
            by_directory: named.collect(),
            mapper: Mapper::of(program),
            program,
        }
    }

    /// Names of the devices directly below a disk (struct gendisk); none if the kernel does not
    /// note them.
    pub fn below(&self, disk: VirtAddr) -> Vec<String> {
        self.read_below(disk).unwrap_or_default()
    }

    fn read_below(&self, disk: VirtAddr) -> Result<Vec<String>, InspectError> {
        const HOLDER: &str = "bd_holder_disk";
        let program = self.program;
        let head = program.member(disk, "gendisk", "slave_bdevs")?;
        // A disk that is being made has no list yet.
        if program.number(head, 8)? == 0 {
            return Ok(Vec::new());
        }
        let all = program.list(head, HOLDER, "list", MAX_BELOW)?.items;
        // The device itself until 6.1 (commit 3b3449c1e6c3).
        let is_device = program.has(HOLDER, "bdev");
        let name = |at: VirtAddr| match is_device {
            true => device_name(program, program.pointer(at, HOLDER, "bdev").ok()?).ok(),
            false => {
                let directory = program.pointer(at, HOLDER, "holder_dir").ok()?;
                self.by_directory.get(&directory).cloned()
            }
        };
        let mut names: Vec<String> = all.into_iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// Returns what the device mapper has of a disk; `None` if the disk is not one of its.
    pub fn mapping(&self, disk: VirtAddr) -> Option<Mapping> {
        let mapper = self.mapper.as_ref()?;
        let address = self.program.pointer(disk, "gendisk", "private_data").ok()?;
        // The other way round as well.
        let own = mapper.device.pointer(address, "disk").ok()?;
        if own != disk {
            return None;
        }
        let flags = mapper.device.value(address, "flags").ok()?;
        let (deferred, private) = self.deferred(mapper, address).unwrap_or_default();
        let cell = mapper.device.pointer(address, "interface_ptr");
        let (targets, paths) = self.targets(mapper, address).unwrap_or_default();
        Some(Mapping {
            name: cell.and_then(|cell| mapper.cell.text(cell, "name")).ok(),
            targets,
            paths,
            suspended: SUSPENDED.iter().any(|bit| flags >> bit & 1 != 0),
            deferred,
            private,
            address,
        })
    }

    /// Counts the bios that wait, and returns what is to be told of each.
    fn deferred(
        &self,
        mapper: &Mapper,
        device: VirtAddr,
    ) -> Result<(usize, Vec<VirtAddr>), InspectError> {
        let (mut count, mut private) = (0, Vec::new());
        let mut at = mapper.device.pointer(device, "deferred.head")?;
        while at.0 != 0 && count < MAX_BIOS {
            count += 1;
            if private.len() < MAX_KEPT {
                private.push(self.program.pointer(at, "bio", "bi_private")?);
            }
            at = self.program.pointer(at, "bio", "bi_next")?;
        }
        Ok((count, private))
    }

    /// The kinds of targets in a device's table, each once, and the paths of the first multipath
    /// one.
    fn targets(
        &self,
        mapper: &Mapper,
        device: VirtAddr,
    ) -> Result<(Vec<String>, Option<Paths>), InspectError> {
        let (mut found, mut paths) = (Vec::new(), None);
        let table = mapper.device.pointer(device, "map")?;
        if table.0 == 0 {
            return Ok((found, paths));
        }
        let count = mapper.table.value(table, "num_targets")?.min(MAX_TARGETS);
        let first = mapper.table.pointer(table, "targets")?;
        let each = mapper.target.size()?;
        for index in 0..count {
            let target = self.program.plus(first, each.saturating_mul(index))?;
            let kind = mapper.target.pointer(target, "type")?;
            let name = mapper.kind.text(kind, "name")?;
            if let Some(multipath) = &mapper.multipath
                && name == "multipath"
                && paths.is_none()
            {
                let own = mapper.target.pointer(target, "private")?;
                paths = multipath.paths(own).ok();
            }
            if !found.contains(&name) {
                found.push(name);
            }
        }
        Ok((found, paths))
    }
}
