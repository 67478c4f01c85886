//! Memory images as sources: memory whose machine only the kernel in it tells.

use std::sync::Arc;

use bigiron_format::bytes::Endian;
use bigiron_format::elf::{CoreHeaders, LoadSegment};
use bigiron_format::image::{AvmlFile, ImageRanges, MemoryMap, is_avml, is_lime, lime_ranges};
use bigiron_format::kdump::Utsname;
use bigiron_format::migration::{self, MigrationFile, NotRead, is_migration};
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::vmware::is_vmware;
use bigiron_format::{PhysAddr, VirtAddr};

use super::super::elf::{self, ElfBytes, ElfSource};
use super::super::file::IoMethod;
use crate::arch::{ARCHITECTURES, Architecture, Entries, names};
use crate::error::{KernelError, SourceError};
use crate::memory::PhysicalMemory;
use crate::vmcoreinfo::{self, is_plausible};

/// Pages are looked at in this size until the kernel's is known.
const SMALLEST_PAGE_SHIFT: u32 = 12;
/// Offset of the names in struct uts_namespace of kernels whose VMCOREINFO lacks it (before commit
/// ca4a9241cc5e, 5.11): they follow a kref.
const NAME_BEHIND_KREF: usize = 4;

/// Returns true if a file with these first bytes is an image that lists its ranges.
pub fn begins_image(front: &[u8]) -> bool {
    is_lime(front) || is_avml(front) || is_vmware(front) || is_migration(front)
}

/// Opens an image that lists its ranges; `front` is its first bytes.
pub(super) fn open(file: ElfBytes, front: &[u8]) -> Result<ElfSource, SourceError> {
    let path = file.path().to_owned();
    let error = |cause| SourceError::Format {
        path: path.clone(),
        cause,
    };
    if is_avml(front) {
        let avml = AvmlFile::open(file.into_read()).map_err(error)?;
        let ranges = avml.ranges().clone();
        let bytes = ElfBytes::Other(Box::new(avml), path);
        return find_machine(bytes, "AVML image", ranges, Vec::new());
    }
    if is_migration(front) {
        let file = MigrationFile::open(file.into_read()).map_err(|refused| match refused {
            NotRead::Format(cause) => error(cause),
            NotRead::Unplaced(reason) => SourceError::Unsupported {
                path: path.clone(),
                reason,
            },
        })?;
        let ranges = file.ranges().clone();
        let bytes = ElfBytes::Other(Box::new(file), path);
        return find_machine(bytes, migration::kind_of(front), ranges, Vec::new());
    }
    let ranges = lime_ranges(file.read()).map_err(error)?;
    find_machine(file, "LiME image", ranges, Vec::new())
}

/// Opens a raw image: the ranges of `map`, or memory from address 0 on.
pub fn open_raw(file: ElfBytes, map: Option<&MemoryMap>) -> Result<ElfSource, SourceError> {
    let size = file.read().size();
    let ranges = match map {
        Some(map) => map.place(size).map_err(|cause| SourceError::Format {
            path: file.path().to_owned(),
            cause,
        })?,
        None => ImageRanges::from_zero(size),
    };
    find_machine(file, "raw memory image", ranges, Vec::new())
}

/// Finds the kernel in an image, and so the machine that the memory is of. `notes` are those that
/// the image has in another form.
pub(super) fn find_machine(
    bytes: ElfBytes,
    kind: &'static str,
    image: ImageRanges,
    notes: Vec<u8>,
) -> Result<ElfSource, SourceError> {
    let path = bytes.path().to_owned();
    let unsupported = |reason| SourceError::Unsupported {
        path: path.clone(),
        reason,
    };
    let [first, ..] = ARCHITECTURES else {
        return Err(unsupported("this build knows no architecture".into()));
    };
    let segments: Vec<_> = image.ranges.iter().map(segment).collect();
    if segments.is_empty() {
        return Err(unsupported(format!("{kind} without any memory")));
    }
    let headers = CoreHeaders {
        machine: first.elf_machine,
        endian: Endian::Little,
        incomplete: false,
        segments,
        impossible: None,
        notes,
        notes_offset: 0,
    };
    let unknown = ElfSource::of_image(Arc::new(bytes), kind, headers, first, image.damage);
    let mut releases: Vec<String> = Vec::new();
    let found = vmcoreinfo::from_memory(&unknown, IoMethod::Read, |info| {
        if !is_plausible(&info) {
            return None;
        }
        let machine = machine_of(&unknown, &info);
        if let (None, Some(release)) = (&machine, info.release())
            && !releases.iter().any(|known| known == release)
        {
            releases.push(release.to_owned());
        }
        machine
    });
    match found {
        Ok(source) => Ok(source),
        Err(KernelError::Source(error)) => Err(error),
        Err(_) => Err(unsupported(refusal(kind, &unknown, &releases))),
    }
}

fn segment(range: &bigiron_format::image::ImageRange) -> LoadSegment {
    LoadSegment {
        file_offset: range.offset,
        file_size: range.size,
        physical: range.physical,
        virt: VirtAddr(0),
        memory_size: range.size,
    }
}

/// Says what was looked for in an image without a kernel.
fn refusal(kind: &str, source: &ElfSource, releases: &[String]) -> String {
    let size: u64 = source.segments.iter().map(|s| s.memory_size).sum();
    let known = names();
    if releases.is_empty() {
        return format!(
            "{kind} in which no kernel is found in its {size} bytes of memory: no page starts \
             with VMCOREINFO (OSRELEASE=), which Linux has in memory since 2.6.24 if it was built \
             with kexec; this build knows {known}"
        );
    }
    let releases = releases.join(", ");
    format!(
        "{kind} that has VMCOREINFO of Linux {releases} in its {size} bytes of memory, but no \
         page tables of {known} that lead to the names of that kernel: the memory is of another \
         machine, its ranges have other physical addresses (--memory-map), or what is needed is \
         missing"
    )
}

/// Returns the source as the machine whose kernel `info` is about; `None` if the page tables that
/// it leads to are those of no known machine.
fn machine_of(unknown: &ElfSource, info: &Vmcoreinfo) -> Option<ElfSource> {
    let shift = info.page_shift()?;
    let machines = ARCHITECTURES.iter().flat_map(|architecture| {
        let orders = architecture.byte_orders.iter();
        orders.map(move |(endian, _)| (architecture, *endian))
    });
    machines
        .filter(|(architecture, _)| architecture.page_shifts.contains(&shift))
        .filter_map(|(architecture, endian)| unknown.as_machine(architecture, endian, shift))
        .find(|source| names_itself(source, info).unwrap_or(false))
}

/// Returns true if init_uts_ns of the kernel names the release and the machine.
fn names_itself(source: &ElfSource, info: &Vmcoreinfo) -> Result<bool, KernelError> {
    let memory = PhysicalMemory::new(source, IoMethod::Read, PhysicalMemory::DEFAULT_CACHE_PAGES);
    let translator = (source.architecture.translator)(info, &memory)?;
    let address = || {
        let offset = info
            .offset("uts_namespace.name")
            .unwrap_or(NAME_BEHIND_KREF);
        info.symbol("init_uts_ns")?.checked_add(offset as u64)
    };
    let Some(address) = address() else {
        return Ok(false);
    };
    let mut bytes = [0; Utsname::SIZE];
    let mut done = 0;
    while done < bytes.len() {
        let at = VirtAddr(address.0.wrapping_add(done as u64));
        let Some(leaf) = translator.walk(&mut Entries::new(&memory), at)? else {
            return Ok(false);
        };
        let len = leaf.len.min((bytes.len() - done) as u64) as usize;
        memory.read(PhysAddr(leaf.physical.0), &mut bytes[done..done + len])?;
        done += len;
    }
    let names = Utsname::decode(&bytes);
    let machine = source.architecture.machine(source.headers.endian);
    Ok(Some(names.release()) == info.release() && names.machine() == machine)
}

impl ElfSource {
    /// The source as that of another machine.
    fn as_machine(
        &self,
        architecture: &'static Architecture,
        endian: Endian,
        page_shift: u32,
    ) -> Option<Self> {
        let limit = 1_u64.checked_shl(architecture.physical_bits)?;
        let last = self.segments.last()?;
        if last.physical.0 + last.memory_size > limit {
            return None;
        }
        let mut source = self.clone();
        source.architecture = architecture;
        source.headers.machine = architecture.elf_machine;
        source.headers.endian = endian;
        source.page_shift = page_shift;
        Some(source)
    }

    /// The source of an image whose machine is not known yet.
    fn of_image(
        bytes: Arc<ElfBytes>,
        kind: &'static str,
        headers: CoreHeaders,
        architecture: &'static Architecture,
        damage: Option<String>,
    ) -> Self {
        Self {
            bytes,
            kind,
            segments: elf::sort_segments(&headers.segments),
            headers,
            architecture,
            page_shift: SMALLEST_PAGE_SHIFT,
            vmcoreinfo: None,
            damage,
            impossible: None,
            live: false,
            readers: 1,
        }
    }
}
