//! The kernel's table of its symbols (scripts/kallsyms.c), with absolute addresses.

use crate::order::ByteOrder;

/// Bytes after a table that a reader may read with it.
const SLACK: usize = 4096;

/// Returns the symbol and the bytes of each table. Each item has the letter and name of a symbol, below 128 bytes, and
/// its address.
pub(crate) fn tables(symbols: &[(&str, u64)], order: ByteOrder) -> [(&'static str, Vec<u8>); 5] {
    let mut names = Vec::new();
    for (name, _) in symbols {
        assert!(name.len() < 128, "{name}: too long for one byte");
        names.push(name.len() as u8);
        names.extend(name.bytes());
    }
    names.resize(names.len() + SLACK, 0);
    // Each token is its own character.
    let (mut tokens, mut index) = (Vec::new(), Vec::new());
    for token in 0..=u8::MAX {
        index.extend(order.u16(tokens.len() as u16));
        tokens.extend((token != 0).then_some(token));
        tokens.push(0);
    }
    tokens.resize(tokens.len() + SLACK, 0);
    let count = order.u32(symbols.len() as u32).to_vec();
    let addresses = symbols.iter().flat_map(|(_, address)| order.u64(*address));
    let mut addresses: Vec<u8> = addresses.collect();
    addresses.resize(addresses.len() + SLACK, 0);
    [
        ("kallsyms_names", names),
        ("kallsyms_num_syms", count),
        ("kallsyms_token_table", tokens),
        ("kallsyms_token_index", index),
        ("kallsyms_addresses", addresses),
    ]
}
