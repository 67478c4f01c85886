//! Erase commands on a small dump whose page tables show it all over the address space.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::cell::Cell;

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_format::{PhysAddr, VirtAddr};
use bigiron_kernel::arch::Leaf;
use bigiron_kernel::erase::{Config, EraseMemory, Erasure, resolve};
use bigiron_kernel::symbols::Symbols;
use bigiron_kernel::types::btf::Btf;
use bigiron_kernel::{KernelError, KernelMemory};
use bigiron_synth::{ByteOrder, TinyTypes};

const BASE: u64 = 0xffff_ff00_0000_0000;
/// Bytes of the dump.
const SIZE: u64 = 1 << 20;
/// Steps that are allowed in any dump.
const FREE_STEPS: u64 = 1 << 20;

/// Each word of the memory is the address of the word behind the next one.
struct Endless {
    info: Vmcoreinfo,
    reads: Cell<u64>,
    translations: Cell<u64>,
}

impl KernelMemory for Endless {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        Endian::Little
    }

    fn read(
        &self,
        _what: &'static str,
        address: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), KernelError> {
        self.reads.set(self.reads.get() + 1);
        let next = (address.0 + 16).to_le_bytes();
        for (byte, value) in buf.iter_mut().zip(next.iter().cycle()) {
            *byte = *value;
        }
        Ok(())
    }

    fn size_up_to(&self, most: u64) -> u64 {
        most.min(SIZE)
    }
}

impl EraseMemory for Endless {
    fn translate(&self, address: VirtAddr) -> Result<Option<Leaf>, KernelError> {
        self.translations.set(self.translations.get() + 1);
        Ok(Some(Leaf {
            physical: PhysAddr(address.0 & (SIZE - 1)),
            len: 4096 - address.0 % 4096,
        }))
    }
}

fn types() -> Btf {
    let (pointer, array, variable) = (2 << 24, 3 << 24, 14 << 24);
    let mut types = TinyTypes::default();
    let long = types.integer("u64", 8);
    let next = types.add("", pointer, 3, &[]);
    let node = types.structure("node", 16, &[("next", next, 0), ("len", long, 8)]);
    assert_eq!(node, 3);
    let nodes = types.add("", array, 0, &[node, long, 4 << 20]);
    types.add("first", variable, node, &[1]);
    types.add("nodes", variable, nodes, &[1]);
    let byte = types.integer("u8", 1);
    let link = [("rb_left", next, 0), ("rb_right", next, 8)];
    let link = types.structure("rb_node", 16, &link);
    types.structure("leaf", 16, &[("link", link, 0)]);
    let root = types.structure("rb_root", 8, &[("rb_node", next, 0)]);
    types.add("tree", variable, root, &[1]);
    let slots = types.add("", array, 0, &[next, long, 64]);
    types.structure("xa_node", 522, &[("shift", byte, 0), ("slots", slots, 10)]);
    let xarray = types.structure("xarray", 8, &[("xa_head", next, 0)]);
    types.add("objects", variable, xarray, &[1]);
    Btf::parse(types.bytes(ByteOrder::Little), Endian::Little).unwrap()
}

fn erase(commands: &str) -> (Endless, Erasure) {
    let memory = Endless {
        info: Vmcoreinfo::parse(b"OSRELEASE=6.1.0\n", 0).unwrap(),
        reads: Cell::new(0),
        translations: Cell::new(0),
    };
    let mut symbols = Symbols::default();
    // The head of the xarray and all slots of its nodes look like nodes.
    for (name, offset) in [("first", 0), ("nodes", 64), ("tree", 128), ("objects", 194)] {
        symbols.push(name, BASE + offset, b'D').unwrap();
    }
    let config = Config::parse(commands.as_bytes());
    assert_eq!(config.problems, []);
    let erasure = resolve(&config, &memory, &symbols, &types(), 0);
    (memory, erasure)
}

#[track_caller]
fn problem(erasure: &Erasure) {
    let expected = "more elements or bytes than the dump's memory can hold";
    assert!(!erasure.problems.is_empty());
    for problem in &erasure.problems {
        assert!(problem.text.contains(expected), "{problem}");
    }
}

#[test]
fn list_has_no_more_elements_than_the_dump_can_hold() {
    let (memory, erasure) = erase("for n in first via next\nerase n.len\nendfor");
    problem(&erasure);
    let most = 2 * (FREE_STEPS + SIZE / 8);
    assert!(memory.reads.get() <= most, "{} reads", memory.reads.get());
    assert!(!erasure.blanks.as_slice().is_empty());
}

#[test]
fn tree_ends_where_it_is_higher_than_a_balanced_one() {
    let (memory, erasure) = erase("for n in tree within leaf:link\nerase n\nendfor");
    assert!(erasure.problems[0].text.contains("the tree is higher than"));
    assert!(memory.reads.get() < 1000, "{} reads", memory.reads.get());
}

#[test]
fn xarray_ends_where_its_levels_do_not_become_lower() {
    let (memory, erasure) = erase("for n in objects within node\nerase n\nendfor");
    let text = &erasure.problems[0].text;
    assert!(text.contains("has the shift"), "{text}");
    assert!(memory.reads.get() < 1000, "{} reads", memory.reads.get());
}

#[test]
fn array_has_no_more_elements_than_the_dump_can_hold() {
    let (memory, erasure) = erase("for n in nodes\nerase n.len\nendfor");
    problem(&erasure);
    let most = 2 * (FREE_STEPS + SIZE / 8);
    let translations = memory.translations.get();
    assert!(translations <= most, "{translations} translations");
}

#[test]
fn ranges_have_no_more_pages_than_the_dump() {
    let (memory, erasure) = erase("erase first size 3000M\nerase nodes size 15000M");
    problem(&erasure);
    let most = FREE_STEPS + SIZE / 4096 + 4;
    let translations = memory.translations.get();
    assert!(translations <= most, "{translations} translations");
}

#[test]
fn each_command_has_its_own_steps() {
    let endless = "for n in first via next\nerase n.len\nendfor\n";
    let (_, erasure) = erase(&format!("{endless}erase nodes size 8\n"));
    problem(&erasure);
    assert!(
        erasure.info.contains("erase nodes size 8"),
        "{}",
        erasure.info.len()
    );
}
