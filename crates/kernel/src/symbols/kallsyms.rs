//! kallsyms: the table of all symbols in a kernel's memory.
//!
//! Names are compressed: a length, then that many bytes, each of which stands for a token; the
//! first character of the result is the symbol's type. VMCOREINFO locates the tables since
//! Linux 6.0 (commit 5fd8fea935a1). Written by scripts/kallsyms.c, read by kernel/kallsyms.c.

use std::ops::Range;

use bigiron_format::VirtAddr;

use super::Symbols;
use crate::error::KernelError;
use crate::kernel_memory::KernelMemory;

/// Maximum number of symbols; kernels have 100 000 to 300 000.
const MAX_SYMBOLS: u32 = 4 << 20;
const TOKENS: usize = 256;
/// Maximum size of the token table, which takes about 1 KiB.
const MAX_TOKEN_BYTES: usize = 64 << 10;
/// Maximum length of a name: KSYM_NAME_LEN is 512 (128 before 6.1), plus the type.
const MAX_NAME: usize = 1024;
/// Maximum length of all names; those of a kernel take 5 to 10 MiB.
const MAX_NAMES: usize = 64 << 20;
/// Bytes of names read at once, without crossing into another page.
const READ_SIZE: u64 = 4096;
/// Addresses read at once.
const ADDRESSES_AT_ONCE: usize = 16 << 10;

/// Reads the symbols; returns `None` if VMCOREINFO does not locate them.
pub fn read(memory: &dyn KernelMemory) -> Result<Option<Symbols>, KernelError> {
    let info = memory.info();
    let address_of = |name: &str| info.symbol(&format!("kallsyms_{name}"));
    let (Some(names), Some(count), Some(token_table), Some(token_index)) = (
        address_of("names"),
        address_of("num_syms"),
        address_of("token_table"),
        address_of("token_index"),
    ) else {
        return Ok(None);
    };
    let count = read_u32(memory, "kallsyms_num_syms", count)?;
    if count == 0 || count > MAX_SYMBOLS {
        return Err(KernelError::Implausible {
            what: "kallsyms_num_syms".into(),
            found: count.to_string(),
            expected: "1 to 4194304 symbols",
        });
    }
    let tokens = Tokens::read(memory, token_table, token_index)?;
    let mut symbols = Symbols::default();
    let mut bytes = Bytes::new(memory, "kallsyms_names", names);
    let mut name = Vec::new();
    for _ in 0..count {
        // Two bytes of ULEB128 for "big" symbols since 6.1 (commit 73bbb94466fd); earlier
        // lengths are below 128.
        let mut len = usize::from(bytes.next()?);
        if len & 0x80 != 0 {
            len = len & 0x7f | usize::from(bytes.next()?) << 7;
        }
        name.clear();
        let mut left = len;
        while left > 0 {
            let there = bytes.some(left)?;
            left -= there.len();
            for byte in there {
                name.extend_from_slice(tokens.token(*byte));
                if name.len() > MAX_NAME {
                    return Err(bad_name(&name));
                }
            }
        }
        let (Some((kind, text)), true) = (name.split_first(), name.is_ascii()) else {
            return Err(bad_name(&name));
        };
        let text = std::str::from_utf8(text).map_err(|_| bad_name(&name))?;
        if symbols.names_len() + text.len() > MAX_NAMES {
            return Err(KernelError::Implausible {
                what: "the length of all names in kallsyms_names".into(),
                found: format!("more than {MAX_NAMES} bytes"),
                expected: "at most 64 MiB",
            });
        }
        symbols
            .push(text, 0, *kind)
            .ok_or_else(|| bad_name(&name))?;
    }
    match (
        address_of("offsets"),
        address_of("relative_base"),
        address_of("addresses"),
    ) {
        (Some(offsets), Some(base), _) => relative(memory, &mut symbols, offsets, base)?,
        // Without CONFIG_KALLSYMS_BASE_RELATIVE, which was removed in 6.11 (commit
        // 64e166099b69).
        (_, _, Some(addresses)) => absolute(memory, &mut symbols, addresses)?,
        // The base is gone in 7.2 ("kallsyms: Get rid of kallsyms relative base").
        (Some(offsets), None, None) => from_own_place(memory, &mut symbols, offsets)?,
        _ => return Ok(None),
    }
    Ok(Some(symbols))
}

fn bad_name(name: &[u8]) -> KernelError {
    KernelError::Implausible {
        what: "a name in kallsyms_names".into(),
        found: format!("{:?}", String::from_utf8_lossy(&name[..name.len().min(40)])),
        expected: "a type and up to 1023 characters of ASCII",
    }
}

fn absolute(
    memory: &dyn KernelMemory,
    symbols: &mut Symbols,
    addresses: VirtAddr,
) -> Result<(), KernelError> {
    let values = read_values(memory, "kallsyms_addresses", addresses, symbols.len(), 8)?;
    symbols.set_addresses(|index, _| values[index]);
    Ok(())
}

/// Decodes offsets that count from the place of the offset itself.
fn from_own_place(
    memory: &dyn KernelMemory,
    symbols: &mut Symbols,
    offsets: VirtAddr,
) -> Result<(), KernelError> {
    let values = read_values(memory, "kallsyms_offsets", offsets, symbols.len(), 4)?;
    symbols.set_addresses(|index, _| {
        let place = offsets.0.wrapping_add(4 * index as u64);
        let offset = (values[index] as u32).cast_signed();
        place.wrapping_add_signed(i64::from(offset))
    });
    Ok(())
}

/// Decodes offsets from one base. With CONFIG_KALLSYMS_ABSOLUTE_PERCPU (x86-64 before 6.15,
/// commit 01157ddc58dc) non-negative offsets are absolute values, and negative ones count
/// downwards from the base. No key tells the two apart, but the address of `_stext` is known
/// from VMCOREINFO.
fn relative(
    memory: &dyn KernelMemory,
    symbols: &mut Symbols,
    offsets: VirtAddr,
    base: VirtAddr,
) -> Result<(), KernelError> {
    let mut bytes = [0; 8];
    memory.read("kallsyms_relative_base", base, &mut bytes)?;
    let base = memory.endian().u64(&bytes, 0).unwrap_or(0);
    let offsets = read_values(memory, "kallsyms_offsets", offsets, symbols.len(), 4)?;
    let plain = |offset: u64| base.wrapping_add(offset);
    let percpu = |offset: u64| match (offset as u32).cast_signed() {
        offset @ 0.. => offset as u64,
        offset => base
            .wrapping_sub(1)
            .wrapping_sub(i64::from(offset).cast_unsigned()),
    };
    let expected = memory.info().symbol("_stext");
    let position = symbols.iter().position(|symbol| symbol.name == "_stext");
    let downwards = match (expected, position) {
        (Some(expected), Some(position)) if plain(offsets[position]) == expected.0 => false,
        (Some(expected), Some(position)) if percpu(offsets[position]) == expected.0 => true,
        (Some(_), Some(position)) => {
            return Err(KernelError::Implausible {
                what: "the address of _stext in kallsyms".into(),
                found: format!("base {base:#x}, offset {:#x}", offsets[position]),
                expected: "the one in VMCOREINFO",
            });
        }
        _ => offsets.iter().any(|offset| *offset as u32 >= 1 << 31),
    };
    symbols.set_addresses(|index, _| {
        if downwards {
            percpu(offsets[index])
        } else {
            plain(offsets[index])
        }
    });
    Ok(())
}

/// Reads `count` numbers of 4 or 8 bytes.
fn read_values(
    memory: &dyn KernelMemory,
    what: &'static str,
    address: VirtAddr,
    count: usize,
    width: usize,
) -> Result<Vec<u64>, KernelError> {
    let mut values = Vec::new();
    let mut buf = vec![0; ADDRESSES_AT_ONCE.min(count) * width];
    while values.len() < count {
        let len = (count - values.len()).min(ADDRESSES_AT_ONCE) * width;
        let at = address
            .checked_add((values.len() * width) as u64)
            .ok_or(KernelError::NotMapped { what, address })?;
        memory.read(what, at, &mut buf[..len])?;
        let endian = memory.endian();
        values.extend(buf[..len].chunks_exact(width).map(|bytes| match width {
            4 => u64::from(endian.u32(bytes, 0).unwrap_or(0)),
            _ => endian.u64(bytes, 0).unwrap_or(0),
        }));
    }
    Ok(values)
}

fn read_u32(
    memory: &dyn KernelMemory,
    what: &'static str,
    address: VirtAddr,
) -> Result<u32, KernelError> {
    let mut bytes = [0; 4];
    memory.read(what, address, &mut bytes)?;
    Ok(memory.endian().u32(&bytes, 0).unwrap_or(0))
}

/// The token of each byte of a compressed name.
struct Tokens {
    text: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Tokens {
    fn read(
        memory: &dyn KernelMemory,
        table: VirtAddr,
        index: VirtAddr,
    ) -> Result<Self, KernelError> {
        let starts = {
            let mut bytes = [0; 2 * TOKENS];
            memory.read("kallsyms_token_index", index, &mut bytes)?;
            let endian = memory.endian();
            let start = |bytes: &[u8]| usize::from(endian.u16(bytes, 0).unwrap_or(0));
            bytes.chunks_exact(2).map(start).collect::<Vec<_>>()
        };
        let mut text = Vec::new();
        let mut bytes = Bytes::new(memory, "kallsyms_token_table", table);
        let last = starts.last().copied().unwrap_or(0);
        while text.len() <= last || text.last() != Some(&0) {
            text.push(bytes.next()?);
            if text.len() > MAX_TOKEN_BYTES + MAX_NAME {
                return Err(KernelError::Implausible {
                    what: "kallsyms_token_table".into(),
                    found: "no end of its last token".into(),
                    expected: "256 tokens in 64 KiB",
                });
            }
        }
        let range = |start: usize| {
            let rest = text.get(start..).unwrap_or_default();
            let end = rest.iter().position(|byte| *byte == 0);
            start..start + end.unwrap_or(rest.len())
        };
        let ranges = starts.into_iter().map(range).collect();
        Ok(Self { text, ranges })
    }

    fn token(&self, byte: u8) -> &[u8] {
        let range = self.ranges.get(usize::from(byte)).cloned();
        self.text.get(range.unwrap_or_default()).unwrap_or_default()
    }
}

/// Sequential reader of kernel memory.
struct Bytes<'a> {
    memory: &'a dyn KernelMemory,
    what: &'static str,
    next: VirtAddr,
    piece: Vec<u8>,
    taken: usize,
}

impl<'a> Bytes<'a> {
    fn new(memory: &'a dyn KernelMemory, what: &'static str, start: VirtAddr) -> Self {
        Self {
            memory,
            what,
            next: start,
            piece: Vec::new(),
            taken: 0,
        }
    }

    fn next(&mut self) -> Result<u8, KernelError> {
        Ok(self.some(1)?.first().copied().unwrap_or(0))
    }

    /// Returns the next bytes, at least one and at most `most`.
    fn some(&mut self, most: usize) -> Result<&[u8], KernelError> {
        if self.taken == self.piece.len() {
            let len = READ_SIZE - self.next.0 % READ_SIZE;
            self.piece.resize(len as usize, 0);
            self.memory.read(self.what, self.next, &mut self.piece)?;
            self.next = self.next.checked_add(len).ok_or(KernelError::NotMapped {
                what: self.what,
                address: self.next,
            })?;
            self.taken = 0;
        }
        let start = self.taken;
        self.taken = self.piece.len().min(start + most);
        Ok(&self.piece[start..self.taken])
    }
}
