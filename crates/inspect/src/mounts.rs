//! Mounted file systems, by mount namespace.
//!
//! Relies on `nsproxy.mnt_ns` of tasks, struct mnt_namespace (`root`), struct mount and vfsmount
//! (fs/mount.h, include/linux/mount.h), and struct super_block. A namespace is walked from its
//! root by the children of each mount.

use std::collections::{HashMap, HashSet};

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{find_nested_member, structure};
use serde::Serialize;

use crate::error::InspectError;
use crate::file_name::path_below;
use crate::json::hexadecimal;
use crate::program::Program;
use crate::tasks::Tasks;
use crate::waits::TaskName;

/// Maximum number of mounts of all namespaces (`fs.mount-max` is 100,000 for one).
const MAX_MOUNTS: usize = 1 << 20;
/// Maximum length of a device's and a type's name.
const MAX_NAME: usize = 4096;
/// Maximum length of a path (PATH_MAX), which is that of its parent and more, and of all paths
/// together.
const MAX_PATH: usize = 4096;
const MAX_PATHS: usize = 64 << 20;
/// MNT_READONLY and SB_RDONLY.
const MOUNT_READ_ONLY: u64 = 0x40;
const READ_ONLY: u64 = 1;
/// Flags of a super block (include/linux/fs.h) and of a mount (include/linux/mount.h), and their
/// names in /proc/mounts (fs/proc_namespace.c).
const OF_FILE_SYSTEM: [(u64, &str); 4] = [
    (1 << 4, "sync"),
    (1 << 7, "dirsync"),
    (1 << 6, "mand"),
    (1 << 25, "lazytime"),
];
const OF_MOUNT: [(u64, &str); 7] = [
    (0x01, "nosuid"),
    (0x02, "nodev"),
    (0x04, "noexec"),
    (0x08, "noatime"),
    (0x10, "nodiratime"),
    (0x20, "relatime"),
    (0x80, "nosymfollow"),
];
/// States of a super block (enum of include/linux/fs.h): what waits meanwhile.
const FROZEN: [&str; 5] = [
    "no",
    "writers wait",
    "writers and page faults wait",
    "all changes wait",
    "completely",
];
/// File systems that can be shut down: type, struct of `s_fs_info`, member, bit.
/// EXT4_FLAGS_SHUTDOWN (fs/ext4/ext4.h), XFS_OPSTATE_SHUTDOWN (fs/xfs/xfs_mount.h).
const SHUT_DOWN: [(&str, &str, &str, u32); 2] = [
    ("ext4", "ext4_sb_info", "s_ext4_flags", 1),
    ("xfs", "xfs_mount", "m_opstate", 2),
];

/// The mounts of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mounts {
    /// The namespaces of its tasks, that of the first process first.
    pub namespaces: Vec<Namespace>,
    /// Facts that could not be read, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A mount namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// Its struct mnt_namespace.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Its number, as in /proc/PID/ns/mnt.
    pub number: u64,
    /// A task in it, the first one.
    pub task: TaskName,
    /// Number of tasks in it.
    pub tasks: usize,
    /// Its mounts, each behind the one that it is on.
    pub mounts: Vec<Mount>,
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Its number, as in /proc/PID/mountinfo.
    pub id: u64,
    /// Number of the mount that it is on.
    pub parent: u64,
    /// What is mounted: a device, or another name.
    pub device: String,
    /// Directory on which it is mounted.
    pub path: String,
    /// Its root in the file system; `None` if that is the file system's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Type of the file system, with the subtype if it has one: `ext4`, `fuse.sshfs`.
    pub filesystem: String,
    /// Options, as in /proc/mounts, without those of the file system's type.
    pub options: Vec<&'static str>,
    /// What waits, if the file system is frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<&'static str>,
    /// True if the file system is shut down, after an error or on request. `None` if that is not
    /// known of its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shut_down: Option<bool>,
    /// Its struct mount.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Its struct super_block.
    #[serde(serialize_with = "hexadecimal")]
    pub super_block: VirtAddr,
}

impl Mounts {
    /// Reads the mounts of all namespaces that tasks are in.
    ///
    /// # Errors
    ///
    /// The kernel lacks a symbol or a member.
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let Tasks { tasks, gaps } = Tasks::of(program)?;
        let mut places: HashMap<VirtAddr, usize> = HashMap::new();
        let mut found: Vec<Namespace> = Vec::new();
        for task in &tasks {
            let namespaces = program.pointer(task.address, "task_struct", "nsproxy")?;
            // A task that ends leaves its namespaces first.
            if namespaces.0 == 0 {
                continue;
            }
            let address = program.pointer(namespaces, "nsproxy", "mnt_ns")?;
            let place = *places.entry(address).or_insert(found.len());
            match found.get_mut(place) {
                Some(known) => known.tasks += 1,
                None => found.push(Namespace {
                    address,
                    number: program.value(address, "mnt_namespace", "ns.inum")?,
                    task: TaskName::of(task),
                    tasks: 1,
                    mounts: Vec::new(),
                }),
            }
        }
        let mut walker = Walker {
            program,
            shut_down: ShutDown::of(program),
            mounts: MAX_MOUNTS,
            bytes: MAX_PATHS,
            gaps,
        };
        for namespace in &mut found {
            match walker.mounts(namespace.address) {
                Ok(mounts) => namespace.mounts = mounts,
                Err(error) => walker.gap(&format!("namespace {}", namespace.number), error),
            }
        }
        Ok(Self {
            namespaces: found,
            gaps: walker.gaps,
        })
    }
}

/// Walks namespaces.
struct Walker<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    shut_down: ShutDown,
    /// Numbers of mounts, and of bytes of paths, that may still be read.
    mounts: usize,
    bytes: usize,
    gaps: Vec<String>,
}

impl Walker<'_, '_, '_> {
    fn gap(&mut self, what: &str, reason: impl std::fmt::Display) {
        self.gaps.push(format!("the mounts of {what}: {reason}"));
    }

    /// Reads the mounts of a namespace.
    fn mounts(&mut self, namespace: VirtAddr) -> Result<Vec<Mount>, InspectError> {
        let program = self.program;
        let root = program.pointer(namespace, "mnt_namespace", "root")?;
        let mut found: Vec<Mount> = Vec::new();
        let mut seen = HashSet::from([root]);
        // Mounts that are to be read, the next one last, with the place of the one they are on.
        let mut left = vec![(root, None)];
        while let Some((at, above)) = left.pop() {
            let above: Option<&Mount> = above.and_then(|place: usize| found.get(place));
            let mount = match mount(program, at, above, &self.shut_down) {
                Ok(mount) => mount,
                Err(error) => {
                    self.gap(&format!("struct mount {at}"), error);
                    continue;
                }
            };
            let Some(bytes) = self.bytes.checked_sub(mount.path.len()) else {
                self.gap(&mount.path, "all paths together are too long");
                break;
            };
            self.bytes = bytes;
            let head = program.member(at, "mount", "mnt_mounts")?;
            let children = program.list(head, "mount", "mnt_child", self.mounts)?;
            if let Some(cut) = children.cut {
                self.gap(&mount.path, cut);
            }
            let new = children.items.into_iter();
            let new: Vec<_> = new
                .filter(|child| seen.insert(*child))
                .map(|child| (child, Some(found.len())))
                .collect();
            self.mounts = self.mounts.saturating_sub(new.len());
            left.extend(new.into_iter().rev());
            found.push(mount);
        }
        Ok(found)
    }
}

fn mount(
    program: &Program,
    at: VirtAddr,
    above: Option<&Mount>,
    shut_down: &ShutDown,
) -> Result<Mount, InspectError> {
    let pointer = |path| program.pointer(at, "mount", path);
    let super_block = pointer("mnt.mnt_sb")?;
    let flags = program.value(at, "mount", "mnt.mnt_flags")?;
    let file_system_flags = program.value(super_block, "super_block", "s_flags")?;
    let kind = program.pointer(super_block, "super_block", "s_type")?;
    let kind = program.pointer(kind, "file_system_type", "name")?;
    let kind = program.string(kind, MAX_NAME)?;
    let subtype = match program.pointer(super_block, "super_block", "s_subtype")? {
        VirtAddr(0) => None,
        name => Some(program.string(name, MAX_NAME)?),
    };
    let parent = pointer("mnt_parent")?;
    let path = match parent == at {
        true => "/".to_owned(),
        false => {
            let top = program.pointer(parent, "mount", "mnt.mnt_root")?;
            let above = above.map_or("", |above| above.path.as_str());
            joined(
                above,
                &path_below(program, pointer("mnt_mountpoint")?, top)?,
            )
        }
    };
    let root = path_below(program, pointer("mnt.mnt_root")?, VirtAddr(0))?;
    let device = match pointer("mnt_devname")? {
        VirtAddr(0) => "none".to_owned(),
        name => program.string(name, MAX_NAME)?,
    };
    let frozen = program.value(super_block, "super_block", "s_writers.frozen")?;
    Ok(Mount {
        id: program.value(at, "mount", "mnt_id")?,
        parent: program.value(parent, "mount", "mnt_id")?,
        device,
        path,
        root: (root != "/").then_some(root),
        options: options(flags, file_system_flags),
        frozen: match frozen {
            0 => None,
            level => Some(FROZEN.get(level as usize).unwrap_or(&"in an unknown way")),
        },
        shut_down: shut_down.is(program, &kind, super_block),
        filesystem: match subtype {
            Some(subtype) if !subtype.is_empty() => format!("{kind}.{subtype}"),
            _ => kind,
        },
        address: at,
        super_block,
    })
}

/// Joins the path of a mount and one below it.
fn joined(above: &str, below: &str) -> String {
    let above = above.trim_end_matches('/');
    match below {
        "/" if !above.is_empty() => above.to_owned(),
        below => {
            let mut path = format!("{above}{below}");
            let end = (0..=MAX_PATH.min(path.len())).rev();
            let end = end.into_iter().find(|at| path.is_char_boundary(*at));
            path.truncate(end.unwrap_or(0));
            path
        }
    }
}

fn options(flags: u64, file_system_flags: u64) -> Vec<&'static str> {
    let is_read_only = flags & MOUNT_READ_ONLY != 0 || file_system_flags & READ_ONLY != 0;
    let named = |flags: u64, names: &'static [(u64, &'static str)]| {
        let set = names.iter().filter(move |(bit, _)| flags & bit != 0);
        set.map(|(_, name)| *name)
    };
    std::iter::once(if is_read_only { "ro" } else { "rw" })
        .chain(named(file_system_flags, &OF_FILE_SYSTEM))
        .chain(named(flags, &OF_MOUNT))
        .collect()
}

/// Where file systems note that they are shut down: type, offset in their own structure, bit. The
/// types of a file system that is not loaded are not known, and not needed.
pub(crate) struct ShutDown(Vec<(&'static str, u64, u32)>);

impl ShutDown {
    /// Finds out for which types the kernel's types tell it.
    pub(crate) fn of(program: &Program) -> Self {
        let mut known = Vec::new();
        for (kind, name, member, bit) in SHUT_DOWN {
            let offset = program.tables().find_map(|(types, _)| {
                let outer = structure(types, name).ok()??;
                let found = find_nested_member(types, outer, member).ok()??;
                Some(found.offset)
            });
            known.extend(offset.map(|offset| (kind, offset, bit)));
        }
        Self(known)
    }

    /// Returns true for a super block of a file system that is shut down; `None` if that is not
    /// known of its type.
    pub(crate) fn is(&self, program: &Program, kind: &str, super_block: VirtAddr) -> Option<bool> {
        let (_, offset, bit) = self.0.iter().find(|(known, _, _)| *known == kind)?;
        let own = program
            .pointer(super_block, "super_block", "s_fs_info")
            .ok()?;
        let flags = program
            .number(VirtAddr(own.0.wrapping_add(*offset)), 8)
            .ok()?;
        Some(flags >> bit & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_with_one_slash_and_are_bounded() {
        assert_eq!(joined("", "/"), "/");
        assert_eq!(joined("/", "/proc"), "/proc");
        assert_eq!(joined("/mnt", "/a/b"), "/mnt/a/b");
        assert_eq!(joined("/mnt", "/"), "/mnt");
        let long = "/ä".repeat(MAX_PATH);
        assert!(joined(&long, "/x").len() <= MAX_PATH);
    }

    #[test]
    fn options_are_those_of_proc_mounts() {
        assert_eq!(options(0x20, 0), ["rw", "relatime"]);
        assert_eq!(
            options(0x47, 0x10),
            ["ro", "sync", "nosuid", "nodev", "noexec"]
        );
        assert_eq!(options(0, 1), ["ro"]);
    }
}
