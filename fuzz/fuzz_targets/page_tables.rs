//! Arbitrary words in page tables, including circular references. Every translation ends after
//! as many entries as there are levels, and a read returns all bytes or none.
#![no_main]

use std::sync::OnceLock;

use bigiron_format::VirtAddr;
use bigiron_fuzz::Patched;
use bigiron_kernel::arch::TableEntry;
use bigiron_kernel::{IoMethod, Kernel};
use bigiron_synth::{ElfShape, Synth};
use libfuzzer_sys::fuzz_target;

/// Machines of each architecture, with the maximum number of levels of their tables.
const MACHINES: &[(&str, usize)] = &[
    (
        "kernel 6.12 levels=4 kaslr=0x1e00000\nram 0x0-0x9f 0x100-0xfff",
        4,
    ),
    ("kernel 6.1 levels=5\nram 0x0-0x9f 0x100-0xfff", 5),
    ("arch arm64 bits=39\nkernel 6.1\nram 0x40000-0x41fff", 3),
    ("arch arm64 bits=52\nkernel 6.12\nram 0x40000-0x41fff", 5),
    (
        "arch arm64 pages=16k bits=48\nkernel 6.1\nram 0x10000-0x10fff",
        4,
    ),
    (
        "arch arm64 pages=64k bits=52\nkernel 6.12\nram 0x4000-0x43ff",
        3,
    ),
    // The entries tell the number of levels, at most five.
    ("arch s390x\nkernel 6.1\nram 0x0-0x1fff", 5),
    ("arch riscv64 bits=39\nkernel 6.6\nram 0x80000-0x83fff", 3),
    (
        "arch riscv64 bits=57\nkernel 6.12 vmemmap_leaf=64k\nram 0x80000-0x83fff",
        5,
    ),
    ("arch ppc64le\nkernel 6.12\nram 0x0-0x3ff", 4),
    ("arch ppc64\nkernel 6.12\nram 0x0-0x3ff", 4),
    ("arch ppc64le mmu=hash\nkernel 6.1\nram 0x0-0x3ff", 4),
    ("arch loongarch64\nkernel 6.12\nram 0x0-0xfff", 4),
    ("arch s390x\nkernel 7.1 levels=5\nram 0x0-0x1fff", 5),
];
/// Size of the smallest pages, to which the memory in the dumps is aligned.
const PAGE: usize = 4096;
/// Bytes read through the tables at a time.
const MOST: usize = 16 << 10;

/// A dump, and the locations of its page tables.
struct Machine {
    dump: Vec<u8>,
    levels: usize,
    /// A mapped address, by which the tables are found where it is in them.
    mapped: VirtAddr,
    /// Offsets of entries in the dump: those used for the address, and the 64 after each.
    entries: Vec<usize>,
}

/// The dump of each machine, made when it is first needed.
static DUMPS: [OnceLock<Machine>; MACHINES.len()] = [const { OnceLock::new() }; MACHINES.len()];

fn make((text, levels): (&str, usize)) -> Machine {
    let machine = Synth::from_text(text).expect("a legal text");
    let dump = machine.elf(&ElfShape::vmcore());
    let source = bigiron_fuzz::open(dump.clone()).expect("a sound dump");
    let kernel = Kernel::find(&source, None, IoMethod::Read, 8).expect("a kernel");
    let mapped = kernel.info().symbol("init_uts_ns").expect("a symbol");
    // The linear map is in no table of some machines, but what vmalloc would return is.
    let other = kernel.info().number("VMALLOC_START");
    let other = other.map_or(mapped, |start| VirtAddr(start.cast_unsigned()));
    let mut entries = Vec::new();
    let mut note = |entry: TableEntry| {
        // The bytes of the entry's page are searched for in the dump.
        let page = entry.address.0 & !(PAGE as u64 - 1);
        let mut bytes = [0; PAGE];
        let read = kernel
            .memory()
            .read(bigiron_format::PhysAddr(page), &mut bytes);
        read.expect("a page table");
        let index = dump.chunks_exact(PAGE).position(|page| page == bytes);
        let inside = (entry.address.0 - page) as usize;
        let first = PAGE * index.expect("its page") + inside;
        let behind = (first..first + 64 * 8).step_by(8);
        entries.extend(behind.filter(|at| at + 8 <= dump.len()));
    };
    let walked = kernel.walk(mapped, &mut note);
    assert!(walked.expect("page tables").is_some());
    let _ = kernel.walk(other, &mut note);
    drop(kernel);
    Machine {
        dump,
        levels,
        mapped,
        entries,
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, count], rest)) = data.split_first_chunk() else {
        return;
    };
    let number = usize::from(choice) % MACHINES.len();
    let machine = DUMPS[number].get_or_init(|| make(MACHINES[number]));
    let (edits, addresses) = rest.split_at(rest.len().min(10 * usize::from(count)));
    let edits = match machine.entries.is_empty() {
        true => &[],
        false => edits,
    };
    let patches = edits.chunks_exact(10).map(|edit| {
        let (place, value) = edit.split_at(2);
        let place = usize::from(u16::from_le_bytes([place[0], place[1]]));
        (
            machine.entries[place % machine.entries.len()],
            value.to_vec(),
        )
    });
    let dump = Patched {
        base: &machine.dump,
        patches: patches.collect(),
    };
    let Ok(source) = bigiron_fuzz::open(dump) else {
        return;
    };
    let Ok(kernel) = Kernel::find(&source, None, IoMethod::Read, 8) else {
        return;
    };
    let given = addresses.chunks_exact(8).take(64);
    let given = given.map(|word| VirtAddr(u64::from_le_bytes(word.try_into().expect("8 bytes"))));
    for address in given.chain([machine.mapped, VirtAddr(0), VirtAddr(u64::MAX)]) {
        let mut entries = 0;
        let walked = kernel.walk(address, &mut |_| entries += 1);
        assert!(entries <= machine.levels, "{entries} entries for {address}");
        if let Ok(Some(leaf)) = walked {
            assert!(leaf.len > 0 && leaf.len <= 1 << 48, "{leaf:?}");
        }
        assert_eq!(kernel.translate(address).ok(), walked.ok());
        let mut whole = vec![0; MOST];
        if kernel.read("fuzzed", address, &mut whole).is_err() {
            continue;
        }
        // Smaller reads return the same bytes.
        let mut pieces = vec![0; MOST];
        for (index, piece) in pieces.chunks_mut(1000).enumerate() {
            let at = address
                .checked_add(1000 * index as u64)
                .expect("it was read");
            kernel.read("fuzzed", at, piece).expect("it was read");
        }
        assert_eq!(whole, pieces);
    }
});
