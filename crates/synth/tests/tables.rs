//! A short reader finds mem_map, zones and uts through VMCOREINFO and the page tables alone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use bigiron_synth::{Machine, Synth};
use common::machines;
use common::reader::Reader;

fn some_machines() -> impl Iterator<Item = (String, Machine)> {
    let texts = (0..2).flat_map(|seed| machines::some_machines(4, seed));
    texts.map(|(name, text)| match Synth::from_text(&text) {
        Ok(machine) => (name, machine),
        Err(error) => panic!("{name}: {error}\n{text}"),
    })
}

/// Translation of mem_map through mem_section and the page tables finds the struct pages that
/// the builder wrote, adjacent to those of the neighbouring frames.
#[test]
fn mem_map_is_found_through_the_tables() {
    for (name, machine) in some_machines() {
        let reader = Reader::new(&machine);
        for pfn in machine.ram().iter().cloned().flatten() {
            let vaddr = reader.struct_page(pfn).expect("a section with RAM");
            assert_eq!(vaddr, machine.struct_page_vaddr(pfn), "{name}");
            assert_eq!(reader.translate(vaddr), machine.struct_page(pfn), "{name}");
        }
        // A section far from all RAM has none.
        let far = (1 << 40) / machine.page_size();
        assert_eq!(reader.struct_page(far), None, "{name}");
    }
}

/// The direct map maps every frame of RAM, and the image its symbols.
#[test]
fn direct_map_and_image_are_mapped() {
    for (name, machine) in some_machines() {
        let reader = Reader::new(&machine);
        for pfn in machine.ram().iter().cloned().flatten() {
            let paddr = pfn * machine.page_size() + 8;
            let vaddr = machine.page_offset().wrapping_add(paddr);
            assert_eq!(reader.translate(vaddr), Some(paddr), "{name}");
        }
        let offset = match reader.info.get("OFFSET(uts_namespace.name)") {
            Some(offset) => offset.parse().unwrap(),
            None => 4,
        };
        let uts = reader.translate(reader.symbol("init_uts_ns")).unwrap() + offset;
        assert_eq!(machine.read(uts, 6).unwrap(), b"Linux\0");
        let release = &reader.info["OSRELEASE"];
        let field = machine.read(uts + 130, release.len()).unwrap();
        assert_eq!(field, release.as_bytes());
        assert_eq!(reader.virt(reader.symbol("node_online_map")) & 1, 1);
    }
}

/// Every mapping that the builder recorded is found in the tables, its first and last word, and
/// what follows a page of vmalloc's area is not mapped.
#[test]
fn every_recorded_mapping_is_found() {
    for (name, machine) in some_machines() {
        let reader = Reader::new(&machine);
        for mapping in machine.mappings() {
            let len = mapping.virt.end.wrapping_sub(mapping.virt.start);
            for offset in [0, len / 2, len - 8] {
                let found = reader.translate(mapping.virt.start + offset);
                assert_eq!(found, Some(mapping.paddr + offset), "{name}: {mapping:x?}");
            }
        }
        let last = machine.mappings().iter().map(|mapping| mapping.virt.end);
        let vmalloc = machine.spec().options.vmalloc > 0;
        let unmapped = last.filter(|end| *end != 0 && reader.translate(*end).is_none());
        assert!(!vmalloc || unmapped.count() > 0, "{name}");
    }
}

/// Physical addresses above 48 bits are found: the entries of arm64 have two more places for
/// such bits.
#[test]
fn high_physical_addresses_are_found() {
    for (arch, shift) in [
        ("arm64 bits=52", 12),
        ("arm64 pages=16k bits=52", 14),
        ("arm64 pages=64k bits=52", 16),
        ("arm64 pages=64k bits=52 hardware_bits=48", 16),
        ("riscv64 bits=57", 12),
    ] {
        let base = 0x7_8000_0000_0000_u64;
        let (first, last) = (base >> shift, (base + 0x3ff_ffff) >> shift);
        let text = format!("arch {arch}\nkernel 6.12 vmalloc=5\nram {first:#x}-{last:#x}");
        let machine = Synth::from_text(&text).unwrap_or_else(|error| panic!("{arch}: {error}"));
        let reader = Reader::new(&machine);
        assert!(!machine.mappings().is_empty());
        for mapping in machine.mappings() {
            let found = reader.translate(mapping.virt.start);
            assert_eq!(found, Some(mapping.paddr), "{arch}: {mapping:x?}");
        }
        let at = reader.struct_page(first).unwrap();
        assert_eq!(reader.translate(at), machine.struct_page(first), "{arch}");
    }
}

/// The zones count as many free pages as the text has, found as in a self-check.
#[test]
fn zones_count_the_free_pages() {
    for (name, machine) in some_machines() {
        // The others do not tell where the nodes are.
        if !machine.vmcoreinfo().contains("SYMBOL(node_data)") {
            continue;
        }
        let reader = Reader::new(&machine);
        let mut free = 0;
        let online = reader.virt(reader.symbol("node_online_map"));
        for node in (0..64).filter(|node| online >> node & 1 == 1) {
            let pgdat = reader.virt(reader.symbol("node_data") + node * 8);
            let nr_zones = pgdat + reader.offset("OFFSET(pglist_data.nr_zones)");
            let nr_zones = reader.phys32(reader.translate(nr_zones).unwrap());
            for zone in 0..u64::from(nr_zones) {
                let zone = pgdat + zone * reader.offset("SIZE(zone)");
                free += reader.virt(zone + reader.offset("OFFSET(zone.vm_stat)"));
            }
        }
        assert_eq!(free, machine.free_frames(), "{name}");
    }
}

/// A tail refers to its head in both forms of the link.
#[test]
fn tails_refer_to_their_heads() {
    for (kernel, key) in [
        ("6.12", "OFFSET(page.compound_head)"),
        ("7.1", "OFFSET(page.compound_info)"),
        ("7.1 compound_info=pointer", "OFFSET(page.compound_info)"),
    ] {
        let text = format!("kernel {kernel}\nram 0x0-0x1fff\npages 0x400 thp ; 0x10 slab order=2");
        let machine = Synth::from_text(&text).unwrap();
        let reader = Reader::new(&machine);
        for (head, tail) in [(0x400, 0x401), (0x400, 0x5ff), (0x10, 0x13)] {
            let tail = machine.struct_page_vaddr(tail);
            let link = reader.virt(tail + reader.offset(key));
            assert_eq!(link & 1, 1, "{kernel}");
            let found = match kernel {
                "7.1" => tail & link,
                _ => link & !1,
            };
            assert_eq!(found, machine.struct_page_vaddr(head), "{kernel}");
        }
    }
}

/// With `hvo` the struct pages after the first 64 repeat the first page or, with masks, a page
/// of tails.
#[test]
fn optimized_vmemmap_is_shared() {
    for kernel in ["6.12", "7.1"] {
        let text =
            format!("kernel {kernel} vmemmap_leaf=4k\nram 0x0-0x1fff\npages 0x400 hugetlb hvo");
        let machine = Synth::from_text(&text).unwrap();
        let at = |pfn| machine.struct_page(pfn).unwrap();
        let first = if kernel == "7.1" { 0x440 } else { 0x400 };
        assert_eq!(at(0x480), at(first), "{kernel}");
        assert_eq!(at(0x5ff), at(first + 63), "{kernel}");
        assert_ne!(at(0x600), at(first), "{kernel}");
    }
}
