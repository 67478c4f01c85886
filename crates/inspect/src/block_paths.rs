//! The paths of a multipath device of the device mapper, and how many of them work.
//!
//! Relies on struct multipath (`nr_valid_paths`, `flags`, `priority_groups`), priority_group
//! (`pgpaths`) and pgpath (`path.dev`, `fail_count`; drivers/md/dm-mpath.c), and on struct dm_dev.

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::file_name::device_name;
use crate::json::hexadecimal;
use crate::modules::Structure;
use crate::program::Program;

/// The module.
const MODULE: &str = "dm_multipath";
/// MPATHF_QUEUE_IF_NO_PATH: a bit of `multipath.flags`.
const QUEUES: u32 = 1;
/// Maximum numbers of groups, and of paths of all of them.
const MAX_GROUPS: usize = 1024;
const MAX_PATHS: usize = 1 << 16;

/// The paths of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// Number of paths that work.
    pub working: u64,
    /// True if requests wait while none works; else they fail.
    pub waits: bool,
    /// All paths.
    pub paths: Vec<Path>,
    /// Its struct multipath.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Its device.
    pub device: String,
    /// Times that it failed.
    pub failed: u64,
}

/// The layouts.
pub(crate) struct Multipath<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    device: Structure<'p, 'k, 's>,
    group: Structure<'p, 'k, 's>,
    path: Structure<'p, 'k, 's>,
    below: Structure<'p, 'k, 's>,
}

impl<'p, 'k, 's> Multipath<'p, 'k, 's> {
    /// Reads the layouts; `None` if the module is not loaded, or has no types.
    pub fn of(program: &'p Program<'k, 's>) -> Option<Self> {
        let find = |name| Structure::of(program, MODULE, name).ok().flatten();
        Some(Self {
            program,
            device: find("multipath")?,
            group: find("priority_group")?,
            path: find("pgpath")?,
            below: find("dm_dev")?,
        })
    }

    /// Reads the paths of the struct multipath at `at`.
    pub fn paths(&self, at: VirtAddr) -> Result<Paths, InspectError> {
        let mut paths = Vec::new();
        let groups = self.device.member(at, "priority_groups")?;
        for group in self.group.list(groups, "list", MAX_GROUPS)? {
            let left = MAX_PATHS.saturating_sub(paths.len());
            let head = self.group.member(group, "pgpaths")?;
            for path in self.path.list(head, "list", left)? {
                let below = self.path.pointer(path, "path.dev")?;
                let device = self.below.pointer(below, "bdev")?;
                paths.push(Path {
                    device: device_name(self.program, device)?,
                    failed: self.path.value(path, "fail_count")?,
                });
            }
        }
        Ok(Paths {
            working: self.device.value(at, "nr_valid_paths")?,
            waits: self.device.value(at, "flags")? >> QUEUES & 1 != 0,
            paths,
            address: at,
        })
    }
}
