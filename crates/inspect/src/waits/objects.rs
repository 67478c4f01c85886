//! Names what a lock is part of: an inode, the memory of a process, a file system, a page, a
//! buffer, a futex, a call by RPC, or any slab object.
//!
//! A lock is believed to be a member of a structure only if that one says so itself: an inode's
//! own address_space names it as its host and its super block is one of the kernel's; an
//! mm_struct is a task's.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap};

use bigiron_format::VirtAddr;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::types::size_of;

use super::kind::WaitKind;
use super::rpc::Rpc;
use super::task_name::TaskName;
use super::thing::Thing;
use crate::error::InspectError;
use crate::file_name::{FileName, device_name};
use crate::program::Program;
use crate::slab_object::SlabObjects;
use crate::struct_page::frame_of;
use crate::tasks::Task;

/// Maximum number of file systems, and length of a type's name.
const MAX_FILE_SYSTEMS: usize = 1 << 20;
const MAX_NAME: usize = 64;
/// Locks of an inode.
const OF_INODES: [&str; 3] = ["i_rwsem", "i_data.i_mmap_rwsem", "i_data.invalidate_lock"];
/// Locks of a process's memory; `mmap_sem` until 5.7 (commit da1c55f1b272).
const OF_MEMORY: [&str; 2] = ["mmap_lock", "mmap_sem"];
/// Locks of a file system: writers wait in the second one while it is frozen.
const OF_FILE_SYSTEMS: [&str; 2] = ["s_umount", "s_writers"];
/// Bits of `i_state` that are waited for in words of their own (inode_bit_waitqueue, since 6.12).
const STATE_BITS: u64 = 32;
/// Flags in the offset of a futex_key (include/linux/futex.h): it is of a file; both are not part
/// of the offset in the page.
const FUTEX_OF_FILE: u64 = 1;
const FUTEX_FLAGS: u64 = 3;
/// Sizes of the blocks of file systems.
const BH_SIZES: std::ops::RangeInclusive<u64> = 512..=65536;

/// The objects of a kernel. Each part is read when a lock first asks for it.
pub struct Objects<'p, 'k, 's> {
    program: &'p Program<'k, 's>,
    file_systems: OnceCell<BTreeSet<VirtAddr>>,
    memory: OnceCell<HashMap<VirtAddr, TaskName>>,
    slabs: OnceCell<Option<SlabObjects<'p, 'k, 's>>>,
    map: OnceCell<Option<MemMap>>,
    rpc: OnceCell<Option<Rpc<'p, 'k, 's>>>,
    /// What was found, by kind and address: many tasks wait for the same.
    known: RefCell<HashMap<(WaitKind, VirtAddr), Option<Thing>>>,
}

impl<'p, 'k, 's> Objects<'p, 'k, 's> {
    /// Nothing read yet.
    pub fn new(program: &'p Program<'k, 's>) -> Self {
        Self {
            program,
            file_systems: OnceCell::new(),
            memory: OnceCell::new(),
            slabs: OnceCell::new(),
            map: OnceCell::new(),
            rpc: OnceCell::new(),
            known: RefCell::default(),
        }
    }

    /// Names what a lock is part of; `None` if that is not known, or if it is in a symbol.
    pub fn of(&self, kind: WaitKind, at: VirtAddr, tasks: &[Task]) -> Option<Thing> {
        if let Some(known) = self.known.borrow().get(&(kind, at)) {
            return known.clone();
        }
        let found = self.find(kind, at, tasks);
        self.known.borrow_mut().insert((kind, at), found.clone());
        found
    }

    fn find(&self, kind: WaitKind, at: VirtAddr, tasks: &[Task]) -> Option<Thing> {
        if self.program.symbol_at(at).is_some() {
            return None;
        }
        let special = match kind {
            WaitKind::Page => return self.page(at).ok(),
            WaitKind::Buffer => self.buffer(at),
            WaitKind::Futex => self.futex(at, tasks),
            WaitKind::Rwsem => self
                .of_inode(at, &OF_INODES)
                .or_else(|| self.of_memory(at, tasks))
                .or_else(|| self.of_file_system(at)),
            WaitKind::Bit => self.of_state(at).or_else(|| self.of_call(at)),
            WaitKind::Variable => self.of_state(at),
            WaitKind::WaitQueue => self.of_file_system(at),
            _ => None,
        };
        special.or_else(|| self.object(at))
    }

    fn page(&self, at: VirtAddr) -> Result<Thing, InspectError> {
        let program = self.program;
        let map = self.map.get_or_init(|| MemMap::find(program.kernel()).ok());
        let frame = map
            .as_ref()
            .and_then(|map| frame_of(program, map, at).ok().flatten());
        let mapping = program.value(at, "page", "mapping")?;
        // The lowest bits are flags (PAGE_MAPPING_FLAGS): of pages that no file has.
        let mapping = (mapping != 0 && mapping & 3 == 0).then_some(VirtAddr(mapping));
        Ok(Thing::Page {
            frame: frame.map(|frame| frame.0),
            index: match mapping {
                Some(_) => program.value(at, "page", "index").ok(),
                None => None,
            },
            file: mapping.map(|mapping| FileName::of_mapping(program, mapping)),
        })
    }

    /// Returns true for a buffer_head.
    pub fn is_buffer(&self, at: VirtAddr) -> bool {
        self.buffer(at).is_some()
    }

    /// A buffer_head is believed if its block has a possible size, and its device the name of its
    /// disk, or of a partition of it.
    fn buffer(&self, at: VirtAddr) -> Option<Thing> {
        let program = self.program;
        let value = |path| program.value(at, "buffer_head", path).ok();
        let size = value("b_size").filter(|size| BH_SIZES.contains(size))?;
        let device = VirtAddr(value("b_bdev")?);
        let disk = program.pointer(device, "block_device", "bd_disk").ok()?;
        let disk = program.text(disk, "gendisk", "disk_name").ok()?;
        let name = device_name(program, device).ok()?;
        let is_known = size.is_power_of_two() && !disk.is_empty() && name.starts_with(&disk);
        is_known.then_some(())?;
        Some(Thing::Buffer {
            device: name,
            block: value("b_blocknr")?,
            size,
        })
    }

    fn of_inode(&self, at: VirtAddr, members: &[&'static str]) -> Option<Thing> {
        members.iter().find_map(|member| {
            let offset = self.program.locate("inode", member).ok()?.offset;
            let inode = VirtAddr(at.0.checked_sub(offset)?);
            self.is_inode(inode).then(|| Thing::Inode {
                member,
                file: FileName::of_inode(self.program, inode),
            })
        })
    }

    /// The state of an inode: the word itself, or since 6.12 an address for each bit, beginning
    /// there (inode_state_wait_address, include/linux/fs.h).
    fn of_state(&self, at: VirtAddr) -> Option<Thing> {
        let state = self.program.locate("inode", "i_state").ok()?.offset;
        (0..STATE_BITS).find_map(|bit| {
            let inode = VirtAddr(at.0.checked_sub(state)?.checked_sub(bit)?);
            (inode.0.is_multiple_of(8) && self.is_inode(inode)).then(|| Thing::Inode {
                member: "i_state",
                file: FileName::of_inode(self.program, inode),
            })
        })
    }

    fn of_call(&self, at: VirtAddr) -> Option<Thing> {
        let rpc = self.rpc.get_or_init(|| Rpc::of(self.program));
        rpc.as_ref()?.call(at)
    }

    fn is_inode(&self, inode: VirtAddr) -> bool {
        let program = self.program;
        let pointer = |path| program.pointer(inode, "inode", path);
        pointer("i_data.host").is_ok_and(|host| host == inode)
            && pointer("i_sb").is_ok_and(|own| self.file_systems().contains(&own))
    }

    fn file_systems(&self) -> &BTreeSet<VirtAddr> {
        self.file_systems.get_or_init(|| {
            let program = self.program;
            let walk = program
                .symbol("super_blocks")
                .and_then(|head| program.list(head, "super_block", "s_list", MAX_FILE_SYSTEMS));
            walk.map(|walk| walk.items.into_iter().collect())
                .unwrap_or_default()
        })
    }

    fn of_file_system(&self, at: VirtAddr) -> Option<Thing> {
        let program = self.program;
        let size = program.size_of("super_block").ok()?;
        let start = *self.file_systems().range(..=at).next_back()?;
        let inside = at.0.checked_sub(start.0).filter(|inside| *inside < size)?;
        let is_in = |path: &&str| {
            let member = program.locate("super_block", path).ok();
            let offset = member.and_then(|member| {
                let size = size_of(program.types(), member.type_id).ok()??;
                let offset = inside.checked_sub(member.offset)?;
                (offset < size).then_some(offset)
            });
            offset.is_some()
        };
        let member = OF_FILE_SYSTEMS.into_iter().find(is_in);
        let kind = program.pointer(start, "super_block", "s_type").ok()?;
        let kind = program.pointer(kind, "file_system_type", "name").ok()?;
        Some(Thing::FileSystem {
            member: member.unwrap_or("a member"),
            device: program.text(start, "super_block", "s_id").ok()?,
            filesystem: program.string(kind, MAX_NAME).ok()?,
        })
    }

    fn of_memory(&self, at: VirtAddr, tasks: &[Task]) -> Option<Thing> {
        OF_MEMORY.into_iter().find_map(|member| {
            let offset = self.program.locate("mm_struct", member).ok()?.offset;
            let memory = VirtAddr(at.0.checked_sub(offset)?);
            Some(Thing::Memory {
                member,
                task: Some(self.memory(tasks).get(&memory)?.clone()),
            })
        })
    }

    /// A task of each process, by its mm_struct.
    fn memory(&self, tasks: &[Task]) -> &HashMap<VirtAddr, TaskName> {
        self.memory.get_or_init(|| {
            let mut found = HashMap::new();
            for task in tasks.iter().filter(|task| !task.kernel_thread) {
                let memory = self.program.pointer(task.address, "task_struct", "mm");
                if let Ok(memory) = memory
                    && memory.0 != 0
                {
                    found.entry(memory).or_insert_with(|| TaskName::of(task));
                }
            }
            found
        })
    }

    /// The futex of a futex_pi_state, whose rt_mutex is at `at`.
    fn futex(&self, at: VirtAddr, tasks: &[Task]) -> Option<Thing> {
        let program = self.program;
        let mutex = program.locate("futex_pi_state", "pi_mutex").ok()?.offset;
        let state = VirtAddr(at.0.checked_sub(mutex)?);
        let key = program.member(state, "futex_pi_state", "key").ok()?;
        let value = |path| program.value(key, "futex_key", path).ok();
        let offset = value("both.offset")?;
        let in_page = offset & !FUTEX_FLAGS;
        if offset & FUTEX_OF_FILE != 0 {
            let shift = program.kernel().source().page_shift();
            let page = value("shared.pgoff")?.checked_shl(shift)?;
            return Some(Thing::Futex {
                address: VirtAddr(page.checked_add(in_page)?),
                task: None,
            });
        }
        let memory = VirtAddr(value("private.mm")?);
        Some(Thing::Futex {
            address: VirtAddr(value("private.address")?.checked_add(in_page)?),
            task: Some(self.memory(tasks).get(&memory)?.clone()),
        })
    }

    fn object(&self, at: VirtAddr) -> Option<Thing> {
        let slabs = self
            .slabs
            .get_or_init(|| SlabObjects::of(self.program).ok());
        let object = slabs.as_ref()?.at(at)?;
        Some(Thing::Object {
            cache: object.cache,
            start: object.start,
        })
    }
}
