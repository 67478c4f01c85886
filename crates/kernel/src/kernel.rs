//! A kernel found in a memory source.

use std::path::Path;
use std::sync::Arc;

use bigiron_format::bitmap::Bitmap;
use bigiron_format::bytes::Endian;
use bigiron_format::kdump::Utsname;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};

use crate::arch::{
    self, Architecture, Entries, Leaf, SeeTables, TableEntry, TableTree, Translator,
};
use crate::erase::{Blanks, EraseMemory, ErasedSource, Erasure};
use crate::error::{KernelError, SourceError};
use crate::kernel_memory::KernelMemory;
use crate::memory::PhysicalMemory;
use crate::rules::ResolvedRules;
use crate::source::{IoMethod, MemorySource, SECTION_FRAMES, Source};
use crate::vmcoreinfo;
use crate::xen;

/// A kernel: its memory, its VMCOREINFO and its page tables.
pub struct Kernel<'a> {
    memory: PhysicalMemory<'a>,
    info: Vmcoreinfo,
    architecture: &'static Architecture,
    translator: Box<dyn Translator>,
    utsname: Utsname,
    found_in_memory: bool,
    note_damage: Option<String>,
    damage: Option<&'a str>,
    erased: Option<ErasedSource<'a>>,
    rules: Option<Arc<ResolvedRules>>,
}

impl<'a> Kernel<'a> {
    /// Finds the kernel in `source`. `given` is a VMCOREINFO that replaces the source's own.
    pub fn find(
        source: &'a Source,
        given: Option<Vmcoreinfo>,
        io: IoMethod,
        cache_pages: usize,
    ) -> Result<Self, KernelError> {
        let mut kernel = Self::find_in(source.memory(), source.path(), given, io, cache_pages)?;
        kernel.damage = source.damage();
        Ok(kernel)
    }

    /// Finds the kernel in `source`, named `path` in messages.
    pub fn find_in(
        source: &'a dyn MemorySource,
        path: &Path,
        given: Option<Vmcoreinfo>,
        io: IoMethod,
        cache_pages: usize,
    ) -> Result<Self, KernelError> {
        if xen::is_host(source) {
            let version = xen::version(source).map_or_else(String::new, |it| it.to_string());
            return Err(KernelError::SeveralKernels { version });
        }
        if let Some(info) = given {
            check_release(source, &info)?;
            return Self::new(source, info, io, cache_pages);
        }
        let noted = vmcoreinfo::from_note(source)
            .map_err(|error| vmcoreinfo::name_error(path, error))
            .and_then(|info| {
                info.map(|info| Self::new(source, info, io, cache_pages))
                    .transpose()
            });
        let damage = match noted {
            Ok(Some(kernel)) => return Ok(kernel),
            Ok(None) => None,
            Err(error) if error.leaves_pages_readable() => Some(error),
            Err(error) => return Err(error),
        };
        match Self::find_in_memory(source, io, cache_pages) {
            Ok(kernel) => Ok(Self {
                found_in_memory: true,
                note_damage: damage.map(|error| vmcoreinfo::note_damage(source, &error)),
                ..kernel
            }),
            Err(error) => Err(damage.unwrap_or(error)),
        }
    }

    fn find_in_memory(
        source: &'a dyn MemorySource,
        io: IoMethod,
        cache_pages: usize,
    ) -> Result<Self, KernelError> {
        let accept = |info| {
            let kernel = Self::new(source, info, io, cache_pages).ok()?;
            (Some(kernel.utsname.release()) == kernel.info.release()).then_some(kernel)
        };
        let first = match vmcoreinfo::from_pointer(source, io)?.and_then(accept) {
            Some(kernel) => kernel,
            None => vmcoreinfo::from_memory(source, io, accept)?,
        };
        #[cfg(feature = "images")]
        if !first.is_alone()?
            && let Some(crashed) = crate::crash_header::find(source, io, accept)?
        {
            return Ok(crashed);
        }
        Ok(first)
    }

    /// Returns false if a CPU used page tables in which this kernel is not: those of a capture
    /// kernel, or of the kernel that crashed before.
    #[cfg(feature = "images")]
    fn is_alone(&self) -> Result<bool, KernelError> {
        /// The bit of CR3 that is set while a program runs, if its page tables lack the kernel
        /// (PTI_USER_PGTABLE_BIT, arch/x86/include/asm/pgtable.h).
        const OF_PROGRAM: u64 = 1 << 12;
        let Some(address) = self.info.symbol("init_uts_ns") else {
            return Ok(true);
        };
        let expected = self.translate(address)?.map(|leaf| leaf.physical);
        let facts = self.memory.source().facts();
        // A CPU that never ran has none.
        for cr3 in facts.page_tables.iter().filter(|cr3| **cr3 != 0) {
            let mut is_own = false;
            for root in [*cr3, cr3 & !OF_PROGRAM] {
                let tables = arch::x86_64::of_cpu(&self.info, root);
                // Another kernel's tables may be anywhere.
                let leaf = tables.walk(&mut Entries::new(&self.memory), address);
                let found = leaf.ok().flatten().map(|leaf| leaf.physical);
                is_own |= found.is_some() && found == expected;
            }
            if !is_own {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn new(
        source: &'a dyn MemorySource,
        info: Vmcoreinfo,
        io: IoMethod,
        cache_pages: usize,
    ) -> Result<Self, KernelError> {
        let shift = info
            .page_shift()
            .ok_or_else(|| KernelError::missing("PAGESIZE", "know the size of a page"))?;
        if shift != source.page_shift() {
            return Err(KernelError::Implausible {
                what: "PAGESIZE in VMCOREINFO".into(),
                found: (1_u64 << shift).to_string(),
                expected: "the page size of the dump",
            });
        }
        let memory = PhysicalMemory::new(source, io, cache_pages);
        let architecture = arch::find(source.machine())?;
        let translator = (architecture.translator)(&info, &memory)?;
        let mut kernel = Self {
            memory,
            info,
            architecture,
            translator,
            utsname: Utsname::default(),
            found_in_memory: false,
            note_damage: None,
            damage: source.damage(),
            erased: None,
            rules: None,
        };
        kernel.utsname = kernel.read_utsname();
        Ok(kernel)
    }

    /// VMCOREINFO of the kernel.
    pub fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    /// The architecture.
    pub fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// Returns true if VMCOREINFO was not in a note and had to be searched for in memory.
    pub fn found_in_memory(&self) -> bool {
        self.found_in_memory
    }

    /// The reason why VMCOREINFO of a note was not used, with its offset; `None` if it was, or if
    /// there is none.
    pub fn note_damage(&self) -> Option<&str> {
        self.note_damage.as_deref()
    }

    /// The reason why some memory is missing from the source; `None` if it is complete.
    pub fn damage(&self) -> Option<&'a str> {
        self.damage
    }

    /// Physical memory.
    pub fn memory(&self) -> &PhysicalMemory<'a> {
        &self.memory
    }

    /// The memory source for dumps, with erased data blanked. [`Self::read`] and
    /// [`Self::memory`] return the original data.
    pub fn source(&self) -> &dyn MemorySource {
        match &self.erased {
            Some(erased) => erased,
            None => self.memory.source(),
        }
    }

    /// Returns true if data is erased, other than by rules.
    pub fn is_erased(&self) -> bool {
        let erased = self.erased.as_ref();
        erased.is_some_and(|erased| !erased.blanks().as_slice().is_empty())
    }

    /// Erases data from dumps as `erasure` says. Reads of the kernel itself are not affected.
    pub fn erase(&mut self, erasure: Erasure) {
        let erased = ErasedSource::new(self.memory.source(), erasure.blanks, &erasure.info);
        self.blank_names(&erased);
        self.erased = Some(erased.with_rules(self.rules.clone()));
    }

    /// Sets the rules for the pages of dumps. Reads of the kernel itself are not affected.
    pub fn set_rules(&mut self, rules: ResolvedRules) {
        let rules = Arc::new(rules);
        if rules.blank_any() {
            let erased = self.erased.take();
            let erased = erased
                .unwrap_or_else(|| ErasedSource::new(self.memory.source(), Blanks::default(), ""));
            self.erased = Some(erased.with_rules(Some(rules.clone())));
        }
        self.rules = Some(rules);
    }

    /// The rules for the pages of dumps, if there are any.
    pub fn rules(&self) -> Option<&ResolvedRules> {
        self.rules.as_deref()
    }

    /// The system names: from memory, otherwise as far as known.
    pub fn utsname(&self) -> &Utsname {
        &self.utsname
    }

    /// Translates a kernel virtual address to a physical one.
    pub fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, SourceError> {
        self.translator
            .walk(&mut Entries::new(&self.memory), address)
    }

    /// Translates a kernel virtual address and passes the page table entries on the way to
    /// `visit`.
    pub fn walk(
        &self,
        address: VirtAddr,
        visit: &mut dyn FnMut(TableEntry),
    ) -> Result<Option<Leaf>, SourceError> {
        let mut entries = Entries::seen_by(&self.memory, visit);
        self.translator.walk(&mut entries, address)
    }

    /// Visits the kernel's page tables, of which `most` are read; see `TableTree::visit`. Returns
    /// false if the kernel has no such tree.
    pub fn visit_tables(&self, most: u64, see: &mut dyn SeeTables) -> bool {
        let Some(tree) = self.translator.tree() else {
            return false;
        };
        self.visit_tree(&tree, most, see);
        true
    }

    /// Visits the page tables of a process, whose top table is at `root`, as
    /// [`Self::visit_tables`]. Returns false if those of this architecture are not known.
    pub(crate) fn visit_user_tables(
        &self,
        root: PhysAddr,
        most: u64,
        see: &mut dyn SeeTables,
    ) -> bool {
        let Some(tree) = self.translator.process_tree(root.0) else {
            return false;
        };
        self.visit_tree(&tree, most, see);
        true
    }

    /// Translates an address of a process, whose top page table is at `root`; returns `None` if it is
    /// not mapped, or if the page tables of processes of this architecture are not known.
    pub fn translate_user(
        &self,
        root: PhysAddr,
        address: VirtAddr,
    ) -> Result<Option<Leaf>, SourceError> {
        let Some(tree) = self.translator.process_tree(root.0) else {
            return Ok(None);
        };
        let target = |level, entry| self.translator.target(level, entry);
        let found = tree.walk(&self.memory, &target, address)?;
        Ok(found.map(|(physical, len)| Leaf { physical, len }))
    }

    fn visit_tree(&self, tree: &TableTree, most: u64, see: &mut dyn SeeTables) {
        let target = |level, entry| self.translator.target(level, entry);
        tree.visit(&self.memory, &target, most, see);
    }

    /// Reads kernel memory; `what` names the data in messages.
    pub fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        let (mut at, mut done) = (address, 0);
        while done < buf.len() {
            let not_mapped = KernelError::NotMapped { what, address: at };
            let Some(leaf) = self.translate(at)? else {
                return Err(not_mapped);
            };
            let len = leaf.len.min((buf.len() - done) as u64) as usize;
            self.memory
                .read(leaf.physical, &mut buf[done..done + len])?;
            done += len;
            at = at.checked_add(len as u64).ok_or(not_mapped)?;
        }
        Ok(())
    }

    /// Reads an unsigned long of kernel memory.
    pub fn read_u64(&self, what: &'static str, address: VirtAddr) -> Result<u64, KernelError> {
        let mut buf = [0; 8];
        self.read(what, address, &mut buf)?;
        Ok(self.source().endian().u64(&buf, 0).unwrap_or(0))
    }

    /// Reads an int of kernel memory.
    pub fn read_u32(&self, what: &'static str, address: VirtAddr) -> Result<u32, KernelError> {
        let mut buf = [0; 4];
        self.read(what, address, &mut buf)?;
        Ok(self.source().endian().u32(&buf, 0).unwrap_or(0))
    }

    /// Returns the bytes of memory that the source has, counted up to `most` and in the first
    /// 8 TiB of RAM.
    pub fn size_up_to(&self, most: u64) -> u64 {
        /// Counting a section takes microseconds.
        const MAX_SECTIONS: usize = 64 << 10;
        let source = self.source();
        let mut present = Bitmap::new(SECTION_FRAMES as usize);
        let mut bytes = 0_u64;
        for first in source.sections().take(MAX_SECTIONS) {
            if bytes >= most {
                break;
            }
            // What cannot be counted cannot be read.
            if source.present(first, &mut present).is_ok() {
                let section = present.count().saturating_mul(1 << source.page_shift());
                bytes = bytes.saturating_add(section);
            }
        }
        bytes.min(most)
    }

    /// The names are copied into headers, so they are blanked there as in memory, except
    /// release and machine, which VMCOREINFO has anyway and readers need.
    fn blank_names(&mut self, erased: &ErasedSource) {
        let from_memory = || {
            let address = self.info.symbol("init_uts_ns")?;
            let offset = self.info.offset("uts_namespace.name")?;
            let mut bytes = [0; Utsname::SIZE];
            let mut done = 0;
            while done < bytes.len() {
                let at = address.checked_add((offset + done) as u64)?;
                let leaf = self.translate(at).ok()??;
                let len = leaf.len.min((bytes.len() - done) as u64) as usize;
                let part = &mut bytes[done..done + len];
                self.memory.read(leaf.physical, part).ok()?;
                erased.blanks().apply(leaf.physical.0, part);
                done += len;
            }
            Some(Utsname::decode(&bytes))
        };
        if let Some(mut names) = from_memory() {
            names.names[2].clone_from(&self.utsname.names[2]);
            names.names[4].clone_from(&self.utsname.names[4]);
            self.utsname = names;
        }
    }

    fn read_utsname(&self) -> Utsname {
        let from_memory = || {
            let address = self.info.symbol("init_uts_ns")?;
            let offset = self.info.offset("uts_namespace.name")?;
            let mut bytes = [0; Utsname::SIZE];
            let address = address.checked_add(offset as u64)?;
            self.read("init_uts_ns", address, &mut bytes).ok()?;
            let names = Utsname::decode(&bytes);
            (names.machine() == self.source().machine()).then_some(names)
        };
        from_memory()
            .or_else(|| {
                // QEMU does not name every machine.
                let known = |names: &&Utsname| names.machine() == self.source().machine();
                self.source().utsname().filter(known).cloned()
            })
            .unwrap_or_else(|| {
                let mut names = Utsname::default();
                names.names[0] = "Linux".into();
                names.names[2] = self.info.release().unwrap_or_default().into();
                names.names[4] = self.source().machine().into();
                names
            })
    }
}

impl KernelMemory for Kernel<'_> {
    fn info(&self) -> &Vmcoreinfo {
        Kernel::info(self)
    }

    fn endian(&self) -> Endian {
        self.source().endian()
    }

    fn read(
        &self,
        what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        Kernel::read(self, what, address, buf)
    }

    fn size_up_to(&self, most: u64) -> u64 {
        Kernel::size_up_to(self, most)
    }
}

impl EraseMemory for Kernel<'_> {
    fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, KernelError> {
        Ok(Kernel::translate(self, address)?)
    }
}

/// VMCOREINFO of another kernel would misclassify pages, so its release must match the one that
/// the source names, if any.
fn check_release(source: &dyn MemorySource, given: &Vmcoreinfo) -> Result<(), KernelError> {
    let own = vmcoreinfo::from_note(source).ok().flatten();
    let own = own.as_ref().and_then(Vmcoreinfo::release);
    let header = source.utsname().map(Utsname::release);
    let expected = own.or(header.filter(|release| !release.is_empty()));
    match (expected, given.release()) {
        (Some(expected), found) if found != Some(expected) => Err(KernelError::OtherKernel {
            given: found.unwrap_or("no release").to_owned(),
            dumped: expected.to_owned(),
        }),
        _ => Ok(()),
    }
}
