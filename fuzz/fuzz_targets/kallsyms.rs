//! Damaged kallsyms: reading them ends, and returns no more than they can contain.
#![no_main]

use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_fuzz::KernelBytes;
use bigiron_kernel::symbols::kallsyms;
use libfuzzer_sys::fuzz_target;

const BASE: u64 = 0xffff_ffff_8200_0000;
const PAGE: usize = 4096;
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
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    let memory = KernelBytes {
        base: BASE,
        info,
        endian: match choice & 1 {
            0 => Endian::Little,
            _ => Endian::Big,
        },
        bytes,
        physical: |address| address - BASE,
    };
    let Ok(Some(symbols)) = kallsyms::read(&memory) else {
        return;
    };
    // Each symbol takes a byte of names and an offset.
    assert!(symbols.len() <= memory.bytes.len());
    for symbol in symbols.iter().take(64) {
        assert!(symbols.find(symbol.name).is_some());
        assert!(
            symbols
                .at(symbol.address)
                .is_some_and(|(_, distance)| distance == 0)
        );
    }
});
