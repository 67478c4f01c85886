//! Who uses the memory of the real vmcore in samples/, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod sample;

use bigiron_format::VirtAddr;
use bigiron_inspect::{MemoryUse, PageMap, Program, Slabs, file_use, page_class};
use bigiron_kernel::IoMethod;
use bigiron_kernel::mem_map::MemMap;
use bigiron_kernel::page::{PageKind, PageLayout};
use bigiron_kernel::struct_pages::StructPages;

use sample::{offset, sample, unpacked, with_program};

/// Bits of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h).
const KPF_SLAB: u64 = 1 << 7;
const KPF_PGTABLE: u64 = 1 << 26;

/// A copy of the sample in which `find` says which word becomes what.
fn damaged(bytes: &[u8], find: impl FnOnce(&Program) -> (VirtAddr, u64)) -> Vec<u8> {
    let (at, value) = with_program(bytes, |program| {
        let (address, value) = find(program);
        (offset(program, address), value)
    });
    let mut copy = bytes.to_vec();
    copy[at..at + 8].copy_from_slice(&value.to_le_bytes());
    copy
}

/// The first slab cache, by its address.
fn first_cache(program: &Program) -> VirtAddr {
    let head = program.symbol("slab_caches").unwrap();
    let walk = program.list(head, "kmem_cache", "list", 1000).unwrap();
    walk.items[0]
}

fn map_of(program: &Program) -> PageMap {
    let bits = page_class::kind_bits(program).unwrap();
    PageMap::of(program.kernel(), bits, IoMethod::Auto).unwrap()
}

#[test]
fn counters_caches_and_classes_agree_with_each_other() {
    with_program(&sample(), |program| {
        let used = MemoryUse::of(program).unwrap();
        let slabs = Slabs::of(program).unwrap();
        let map = map_of(program);
        assert!(used.warnings.is_empty() && slabs.warnings.is_empty());
        assert!(map.warnings.is_empty(), "{:?}", map.warnings);
        let names = ["dentry", "kmalloc-64", "task_struct"];
        for name in names {
            let cache = slabs
                .caches
                .iter()
                .find(|cache| cache.name == name)
                .unwrap();
            assert!(
                cache.in_use > Some(0) && cache.in_use <= cache.objects,
                "{cache:?}"
            );
        }
        let classes = map.classes();
        assert_eq!(classes.values().sum::<u64>(), map.total.ram);
        // All slabs of all caches are pages that say so of themselves.
        assert_eq!(classes["slab"] * map.page_size, slabs.bytes());
        // The kernel's counters miss what CPUs have not added yet.
        let counted = |name: &str| used.counters[name].cast_unsigned();
        assert!(counted("NR_PAGETABLE").abs_diff(classes["page_table"]) < 100);
        assert_eq!(counted("NR_FREE_PAGES"), classes["free"]);
        let binned: u64 = map.bins.iter().map(|bin| bin.ram).sum();
        assert_eq!(binned, map.total.ram);

        let files = file_use::largest(program, &map.files, 1000);
        let pages: u64 = files.iter().map(|file| file.pages).sum();
        let cached = classes["cache"] + classes["cache_private"];
        assert_eq!(pages + map.files.without_file, cached);
        let on_disk = |file: &&file_use::FileUse| file.file.filesystem.as_deref() == Some("ext4");
        let named = files
            .iter()
            .filter(on_disk)
            .filter_map(|file| file.file.path.as_deref());
        assert!(
            named.clone().any(|path| path == "/clean"),
            "{:?}",
            named.collect::<Vec<_>>()
        );
    });
}

#[test]
fn slabs_and_page_tables_agree_with_the_guest() {
    let flags = unpacked("linux-6.1-5level.kpageflags.zst");
    let flags: Vec<u64> = flags
        .as_chunks::<8>()
        .0
        .iter()
        .copied()
        .map(u64::from_le_bytes)
        .collect();
    with_program(&sample(), |program| {
        let kernel = program.kernel();
        let layout = PageLayout::new(kernel.info(), kernel.source().endian()).unwrap();
        let map = MemMap::find(kernel).unwrap();
        let bits = page_class::kind_bits(program).unwrap();
        let mut pages = StructPages::new(kernel, &map, &layout, bits);
        let mut reader = kernel.source().reader(IoMethod::Auto);
        // The guest ran on for a moment after it had looked; the process that looked
        // ended, and its page tables with it.
        for (wanted, flag, most) in [
            (PageKind::Slab, KPF_SLAB, 5),
            (PageKind::PageTable, KPF_PGTABLE, 50),
        ] {
            let (mut ours, mut differ) = (0, 0);
            for first in kernel.source().sections() {
                let mut see = |frame: bigiron_format::PageFrame, frames: u64, kind, _: &[u8]| {
                    for frame in frame.0..frame.0 + frames {
                        let theirs = flags
                            .get(frame as usize)
                            .is_some_and(|found| found & flag != 0);
                        ours += u64::from(kind == wanted);
                        differ += u64::from((kind == wanted) != theirs);
                    }
                };
                pages
                    .visit_section(reader.as_mut(), first, &mut see)
                    .unwrap();
            }
            assert!(ours > 20, "{wanted:?}: {ours}");
            assert!(
                differ * 100 <= ours * most,
                "{wanted:?}: {differ} of {ours} differ"
            );
        }
    });
}

#[test]
fn cyclic_list_of_caches_ends() {
    let whole = sample();
    let count = with_program(&whole, |program| Slabs::of(program).unwrap().caches.len());
    let bytes = damaged(&whole, |program| {
        let link = program
            .member(first_cache(program), "kmem_cache", "list")
            .unwrap();
        (link, link.0)
    });
    with_program(&bytes, |program| {
        let slabs = Slabs::of(program).unwrap();
        assert!(slabs.caches.len() < count);
        assert!(
            slabs.warnings.iter().any(|text| text.contains("cyclic")),
            "{:?}",
            slabs.warnings
        );
    });
}

#[test]
fn invalid_free_pointers_are_reported_and_other_objects_listed() {
    let whole = sample();
    for value in [0xffff_ffff_ffff_ffff_u64, 0x4141_4141_4141_4141] {
        let bytes = damaged(&whole, |program| {
            let base = program
                .pointer(first_cache(program), "kmem_cache", "cpu_slab")
                .unwrap();
            let mine = program.per_cpu_at(base, 0).unwrap();
            (
                program.member(mine, "kmem_cache_cpu", "partial").unwrap(),
                value,
            )
        });
        with_program(&bytes, |program| {
            let slabs = Slabs::of(program).unwrap();
            assert!(slabs.caches.len() > 100);
            let warned = slabs.warnings.iter().any(|text| text.contains("CPUs"));
            assert!(warned, "{:?}", slabs.warnings);
        });
    }
}

#[test]
fn path_of_a_cyclic_directory_is_bounded() {
    let whole = sample();
    let bytes = damaged(&whole, |program| {
        let map = map_of(program);
        let (mapping, _) = map.files.largest(1)[0];
        let inode = program.pointer(mapping, "address_space", "host").unwrap();
        let link = program.pointer(inode, "inode", "i_dentry.first").unwrap();
        let member = program.locate("dentry", "d_u.d_alias").unwrap().offset;
        let dentry = VirtAddr(link.0 - member);
        let parent = program.pointer(dentry, "dentry", "d_parent").unwrap();
        let up = program.member(parent, "dentry", "d_parent").unwrap();
        (up, dentry.0)
    });
    with_program(&bytes, |program| {
        let files = file_use::largest(program, &map_of(program).files, 1);
        let path = files[0].file.path.as_deref().unwrap();
        assert!(path.starts_with('…') && path.len() < 64 * 257, "{path}");
    });
}
