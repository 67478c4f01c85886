//! What a process has mapped (struct vm_area_struct, include/linux/mm_types.h).

use bigiron_format::VirtAddr;
use serde::Serialize;

use crate::error::InspectError;
use crate::file_name::path_below;
use crate::json::hexadecimal;
use crate::program::Program;

/// Maximum number of mappings (`vm.max_map_count` is 65530 by default).
const MAX_MAPPINGS: usize = 1 << 20;
/// Flags of a mapping: VM_READ, VM_WRITE, VM_EXEC, VM_SHARED (include/linux/mm.h).
const READ: u64 = 1;
const WRITE: u64 = 2;
const EXECUTE: u64 = 4;
const SHARED: u64 = 8;
/// Maximum length of a name.
const MAX_NAME: usize = 256;
/// What the kernel adds to the path of a file that has been removed.
const REMOVED: &str = " (deleted)";
/// Maximum number of mounts above a file.
const MAX_MOUNTS: usize = 64;

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its first address.
    #[serde(serialize_with = "hexadecimal")]
    pub start: VirtAddr,
    /// The address behind it.
    #[serde(serialize_with = "hexadecimal")]
    pub end: VirtAddr,
    /// What the process may do, as in /proc/PID/maps: `r-xp`.
    pub access: String,
    /// Where it begins in its file, in bytes; 0 without a file.
    pub offset: u64,
    /// The path of its file, or what else it is: `[heap]`, `[stack]`, `[vdso]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its struct vm_area_struct.
    #[serde(serialize_with = "hexadecimal")]
    pub address: VirtAddr,
    /// Its struct file, 0 without one.
    #[serde(skip)]
    pub file: VirtAddr,
}

impl Mapping {
    /// Returns true if an address is in it.
    pub fn holds(&self, address: u64) -> bool {
        (self.start.0..self.end.0).contains(&address)
    }

    /// Returns true if code in it may run.
    pub fn is_code(&self) -> bool {
        self.access.contains('x')
    }
}

/// Reads the mappings of the mm_struct at `memory`, by address. `gaps` gets what is not known.
pub fn of(
    program: &Program,
    memory: VirtAddr,
    gaps: &mut Vec<String>,
) -> Result<Vec<Mapping>, InspectError> {
    let special = program.symbol("special_mapping_vmops").ok();
    let mut found = Vec::new();
    for area in areas(program, memory, gaps)? {
        match mapping(program, memory, area, special) {
            Ok(mapping) => found.push(mapping),
            Err(error) => gaps.push(format!("the mapping at {area}: {error}")),
        }
    }
    found.sort_by_key(|mapping| mapping.start);
    Ok(found)
}

/// The mappings are in a maple tree since 6.1 (commit 763ecb035029), before in a list.
fn areas(
    program: &Program,
    memory: VirtAddr,
    gaps: &mut Vec<String>,
) -> Result<Vec<VirtAddr>, InspectError> {
    if program.has("mm_struct", "mm_mt") {
        let tree = program.member(memory, "mm_struct", "mm_mt")?;
        let walk = program.maple_tree(tree, MAX_MAPPINGS)?;
        gaps.extend(walk.cut.map(|cut| format!("the mappings: {cut}")));
        return Ok(walk.items);
    }
    let mut found = Vec::new();
    let mut at = program.pointer(memory, "mm_struct", "mmap")?;
    while at.0 != 0 && found.len() < MAX_MAPPINGS {
        found.push(at);
        at = program.pointer(at, "vm_area_struct", "vm_next")?;
    }
    Ok(found)
}

fn mapping(
    program: &Program,
    memory: VirtAddr,
    at: VirtAddr,
    special: Option<VirtAddr>,
) -> Result<Mapping, InspectError> {
    let value = |path| program.value(at, "vm_area_struct", path);
    let flags = value("vm_flags")?;
    let letter = |flag: u64, set: char, clear: char| if flags & flag != 0 { set } else { clear };
    let (start, end) = (value("vm_start")?, value("vm_end")?);
    let file = VirtAddr(value("vm_file")?);
    let shift = program.kernel().source().page_shift();
    let of_memory = |path| program.value(memory, "mm_struct", path).unwrap_or(0);
    let name = if file.0 != 0 {
        Some(file_path(program, file)?)
    } else if special.is_some() && value("vm_ops").ok().map(VirtAddr) == special {
        special_name(program, VirtAddr(value("vm_private_data")?)).ok()
    } else if (start..end).contains(&of_memory("start_stack")) {
        Some("[stack]".to_owned())
    } else if start <= of_memory("brk") && end >= of_memory("start_brk") {
        Some("[heap]".to_owned())
    } else {
        None
    };
    Ok(Mapping {
        start: VirtAddr(start),
        end: VirtAddr(end),
        access: [
            letter(READ, 'r', '-'),
            letter(WRITE, 'w', '-'),
            letter(EXECUTE, 'x', '-'),
            letter(SHARED, 's', 'p'),
        ]
        .into_iter()
        .collect(),
        offset: match file.0 {
            0 => 0,
            _ => value("vm_pgoff")?.checked_shl(shift).unwrap_or(0),
        },
        name,
        address: at,
        file,
    })
}

/// Name of a mapping that the kernel made itself (struct vm_special_mapping).
fn special_name(program: &Program, mapping: VirtAddr) -> Result<String, InspectError> {
    let name = program.pointer(mapping, "vm_special_mapping", "name")?;
    program.string(name, MAX_NAME)
}

/// The path of a file, as its mount namespace sees it: as d_path (fs/d_path.c) prints it, with a
/// mark if it has been removed.
fn file_path(program: &Program, file: VirtAddr) -> Result<String, InspectError> {
    let dentry = program.pointer(file, "file", "f_path.dentry")?;
    let is_hashed = program.value(dentry, "dentry", "d_hash.pprev")? != 0;
    if !is_hashed && program.pointer(dentry, "dentry", "d_parent")? == dentry {
        let name = program.pointer(dentry, "dentry", "d_name.name")?;
        let name = program.string(name, MAX_NAME)?;
        // Memory that is shared without a file has a name, and no directory.
        if name != "/" {
            return Ok(format!("/{name}{REMOVED}"));
        }
    }
    let removed = if is_hashed { "" } else { REMOVED };
    let inner = program.locate("mount", "mnt")?.offset;
    let mount = program.pointer(file, "file", "f_path.mnt")?;
    let (mut dentry, mut mount) = (dentry, VirtAddr(mount.0.wrapping_sub(inner)));
    let mut path = String::new();
    for _ in 0..MAX_MOUNTS {
        let top = program.pointer(mount, "mount", "mnt.mnt_root")?;
        let below = path_below(program, dentry, top)?;
        path = match path.as_str() {
            "" => below,
            path => format!("{}{path}", below.trim_end_matches('/')),
        };
        let parent = program.pointer(mount, "mount", "mnt_parent")?;
        if parent == mount {
            break;
        }
        dentry = program.pointer(mount, "mount", "mnt_mountpoint")?;
        mount = parent;
    }
    Ok(path + removed)
}
