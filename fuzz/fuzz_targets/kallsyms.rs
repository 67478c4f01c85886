//! Damaged kallsyms: reading them ends, and returns no more than they can contain.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_fuzz::KernelBytes;
use bigiron_fuzz::limits::{Budget, TABLE_MEMORY, within};
use bigiron_fuzz::repeated::Repeated;
use bigiron_kernel::symbols::kallsyms;
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 0xffff_ffff_8200_0000;
const PAGE: usize = 4096;
/// Most bytes that the tables of any kernel have.
const MOST_READ: u64 = 128 << 20;
/// Locations of the tables; fuzz_seeds writes the same ones.
const INFO: &str = "OSRELEASE=6.1.0\nPAGESIZE=4096\nSYMBOL(_stext)=ffffffff81000000\n\
    SYMBOL(kallsyms_num_syms)=ffffffff82000000\nSYMBOL(kallsyms_relative_base)=ffffffff82000008\n\
    SYMBOL(kallsyms_token_index)=ffffffff82000010\nSYMBOL(kallsyms_offsets)=ffffffff82000210\n\
    SYMBOL(kallsyms_token_table)=ffffffff82000310\nSYMBOL(kallsyms_names)=ffffffff82000710\n";

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let Ok(info) = Vmcoreinfo::parse(INFO.as_bytes(), 0) else {
        return;
    };
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().max(1).next_multiple_of(PAGE), 0);
    let piece = KernelBytes {
        base: BASE,
        info,
        endian: match choice & 1 {
            0 => Endian::Little,
            _ => Endian::Big,
        },
        bytes,
        physical: |address| address - BASE,
    };
    let len = piece.bytes.len();
    let memory = Repeated {
        piece,
        repeats: choice & 2 != 0,
        budget: Budget::new(MOST_READ),
    };
    let read = within(TABLE_MEMORY, len, || kallsyms::read(&memory));
    let Ok(Some(symbols)) = read else {
        return;
    };
    // Each symbol takes a byte of names and an offset.
    assert!(memory.repeats || symbols.len() <= len);
    for symbol in symbols.iter().take(64) {
        assert!(symbols.find(symbol.name).is_some());
        assert!(
            symbols
                .at(symbol.address)
                .is_some_and(|(_, distance)| distance == 0)
        );
    }
});
