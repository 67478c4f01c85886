//! Symbol tables made by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::HashMap;

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::symbols::kallsyms;
use bigiron_kernel::{KernelError, KernelMemory};

const OFFSETS: u64 = 0xffff_8000_0200_0000;

/// A kernel with two symbols, whose tables are at these addresses.
struct TwoSymbols {
    info: Vmcoreinfo,
    endian: Endian,
    bytes: HashMap<u64, u8>,
}

impl TwoSymbols {
    fn new(endian: Endian, offsets: [i32; 2]) -> Self {
        let two = |value: u16| match endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        };
        let four = |value: u32| match endian {
            Endian::Little => value.to_le_bytes(),
            Endian::Big => value.to_be_bytes(),
        };
        // Each token is the character itself.
        let tokens = (0..=255_u8)
            .flat_map(|byte| [byte.clamp(1, 127), 0])
            .collect();
        let index = (0..256).flat_map(|token| two(2 * token)).collect();
        let tables: [(&str, u64, Vec<u8>); 5] = [
            ("names", 0x1000, b"\x03Tup\x05Tdown".to_vec()),
            ("num_syms", 0x2000, four(2).to_vec()),
            ("token_table", 0x3000, tokens),
            ("token_index", 0x4000, index),
            (
                "offsets",
                OFFSETS,
                offsets.map(|offset| four(offset as u32)).concat(),
            ),
        ];
        let mut text = String::new();
        let mut bytes = HashMap::new();
        for (name, at, table) in tables {
            text += &format!("SYMBOL(kallsyms_{name})={at:x}\n");
            bytes.extend((at..).zip(table));
        }
        Self {
            info: Vmcoreinfo::parse(text.as_bytes(), 0).unwrap(),
            endian,
            bytes,
        }
    }
}

impl KernelMemory for TwoSymbols {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        self.endian
    }

    fn read(&self, _: &'static str, address: VirtAddr, buf: &mut [u8]) -> Result<(), KernelError> {
        for (at, byte) in (address.0..).zip(buf) {
            *byte = self.bytes.get(&at).copied().unwrap_or(0);
        }
        Ok(())
    }
}

#[test]
fn offsets_without_a_base_count_from_their_own_place() {
    for endian in [Endian::Little, Endian::Big] {
        let kernel = TwoSymbols::new(endian, [0x100, -0x100]);
        let symbols = kallsyms::read(&kernel).unwrap().unwrap();
        let address = |name| symbols.find(name).unwrap().address.0;
        assert_eq!(address("up"), OFFSETS + 0x100);
        assert_eq!(address("down"), OFFSETS + 4 - 0x100);
    }
}
