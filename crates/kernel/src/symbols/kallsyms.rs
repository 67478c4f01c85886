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
    let Some(table) = Table::find(memory)? else {
        return Ok(None);
    };
    let mut symbols = Symbols::default();
    let mut name = Vec::new();
    table.each(&mut |_, compressed| {
        name.clear();
        for byte in compressed {
            name.extend_from_slice(table.tokens.token(*byte));
            if name.len() > MAX_NAME {
                return Err(bad_name(&name));
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
        let pushed = symbols.push(text, 0, *kind);
        pushed.ok_or_else(|| bad_name(&name))
    })?;
    let stext = symbols.iter().position(|symbol| symbol.name == STEXT);
    let Some(addresses) = Addresses::find(memory)? else {
        return Ok(None);
    };
    let values = read_values(
        memory,
        addresses.what(),
        addresses.start(),
        symbols.len(),
        addresses.width(),
    )?;
    let stext = stext.and_then(|index| values.get(index).copied());
    let negative = || values.iter().any(|offset| *offset as u32 >= 1 << 31);
    let downwards = addresses.count_downwards(memory, stext, negative)?;
    symbols.set_addresses(|index, _| addresses.decode(index, values[index], downwards));
    Ok(Some(symbols))
}

/// Finds the addresses of some symbols, without a table of all of them. The first of several of a
/// name counts. All are `None` if VMCOREINFO does not locate the symbols.
pub fn find<const N: usize>(
    memory: &dyn KernelMemory,
    wanted: [&str; N],
) -> Result<[Option<VirtAddr>; N], KernelError> {
    let (Some(table), Some(addresses)) = (Table::find(memory)?, Addresses::find(memory)?) else {
        return Ok([None; N]);
    };
    let mut names = Vec::from(wanted);
    names.push(STEXT);
    let selection = Selection::new(&table.tokens, &names);
    let mut places = vec![None; names.len()];
    table.each(&mut |index, compressed| {
        for number in selection.candidates(compressed) {
            let (name, place) = (names[number], &mut places[number]);
            if place.is_none() && table.tokens.is_name(compressed, name) {
                *place = Some(index);
            }
        }
        Ok(())
    })?;
    let stext = places.pop().flatten();
    let value = |index: usize| -> Result<u64, KernelError> {
        let what = addresses.what();
        let at = addresses.place(index);
        let values = read_values(memory, what, at, 1, addresses.width())?;
        Ok(values.first().copied().unwrap_or(0))
    };
    let stext = stext.map(value).transpose()?;
    let downwards = addresses.count_downwards(memory, stext, || false)?;
    let mut out = [None; N];
    for (place, index) in out.iter_mut().zip(places) {
        if let Some(index) = index {
            let address = addresses.decode(index, value(index)?, downwards);
            *place = Some(VirtAddr(address));
        }
    }
    Ok(out)
}

/// The symbol by which the way to decode addresses is told.
const STEXT: &str = "_stext";

/// Callback for the index and the bytes of a compressed name.
type SeeName<'v> = dyn FnMut(usize, &[u8]) -> Result<(), KernelError> + 'v;

/// The table of names.
struct Table<'a> {
    memory: &'a dyn KernelMemory,
    names: VirtAddr,
    count: u32,
    tokens: Tokens,
}

impl<'a> Table<'a> {
    fn find(memory: &'a dyn KernelMemory) -> Result<Option<Self>, KernelError> {
        let address_of = |name: &str| memory.info().symbol(&format!("kallsyms_{name}"));
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
        Ok(Some(Self {
            memory,
            names,
            count,
            tokens,
        }))
    }

    /// Passes the index and the bytes of each compressed name to `see`.
    fn each(&self, see: &mut SeeName<'_>) -> Result<(), KernelError> {
        let mut bytes = Bytes::new(self.memory, "kallsyms_names", self.names);
        for index in 0..self.count as usize {
            // Two bytes of ULEB128 for "big" symbols since 6.1 (commit 73bbb94466fd); earlier
            // lengths are below 128.
            let mut len = usize::from(bytes.next()?);
            if len & 0x80 != 0 {
                len = len & 0x7f | usize::from(bytes.next()?) << 7;
            }
            see(index, bytes.take(len)?)?;
        }
        Ok(())
    }
}

/// The table of addresses.
enum Addresses {
    /// Offsets from a base.
    Relative { offsets: VirtAddr, base: u64 },
    /// Without CONFIG_KALLSYMS_BASE_RELATIVE, which was removed in 6.11 (commit 64e166099b69).
    Absolute { addresses: VirtAddr },
    /// Offsets that count from the place of the offset itself; the base is gone in 7.2 ("kallsyms:
    /// Get rid of kallsyms relative base").
    FromOwnPlace { offsets: VirtAddr },
}

impl Addresses {
    fn find(memory: &dyn KernelMemory) -> Result<Option<Self>, KernelError> {
        let address_of = |name: &str| memory.info().symbol(&format!("kallsyms_{name}"));
        Ok(Some(
            match (
                address_of("offsets"),
                address_of("relative_base"),
                address_of("addresses"),
            ) {
                (Some(offsets), Some(base), _) => {
                    let mut bytes = [0; 8];
                    memory.read("kallsyms_relative_base", base, &mut bytes)?;
                    let base = memory.endian().u64(&bytes, 0).unwrap_or(0);
                    Self::Relative { offsets, base }
                }
                (_, _, Some(addresses)) => Self::Absolute { addresses },
                (Some(offsets), None, None) => Self::FromOwnPlace { offsets },
                _ => return Ok(None),
            },
        ))
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Absolute { .. } => "kallsyms_addresses",
            Self::Relative { .. } | Self::FromOwnPlace { .. } => "kallsyms_offsets",
        }
    }

    fn start(&self) -> VirtAddr {
        match self {
            Self::Relative { offsets, .. } | Self::FromOwnPlace { offsets } => *offsets,
            Self::Absolute { addresses } => *addresses,
        }
    }

    /// Bytes of an element.
    fn width(&self) -> usize {
        match self {
            Self::Absolute { .. } => 8,
            Self::Relative { .. } | Self::FromOwnPlace { .. } => 4,
        }
    }

    /// The address of an element.
    fn place(&self, index: usize) -> VirtAddr {
        let distance = (index as u64).wrapping_mul(self.width() as u64);
        VirtAddr(self.start().0.wrapping_add(distance))
    }

    /// Returns true if negative offsets count downwards from the base: with
    /// CONFIG_KALLSYMS_ABSOLUTE_PERCPU (x86-64 before 6.15, commit 01157ddc58dc) non-negative
    /// offsets are absolute values. No key tells, but VMCOREINFO has the address of `_stext`, whose
    /// element is `stext`. Without either, `negative` decides.
    fn count_downwards(
        &self,
        memory: &dyn KernelMemory,
        stext: Option<u64>,
        negative: impl Fn() -> bool,
    ) -> Result<bool, KernelError> {
        let Self::Relative { base, .. } = self else {
            return Ok(false);
        };
        let (Some(expected), Some(offset)) = (memory.info().symbol(STEXT), stext) else {
            return Ok(negative());
        };
        let decoded = |downwards| self.decode(0, offset, downwards) == expected.0;
        match (decoded(false), decoded(true)) {
            (true, _) => Ok(false),
            (false, true) => Ok(true),
            (false, false) => Err(KernelError::Implausible {
                what: "the address of _stext in kallsyms".into(),
                found: format!("base {base:#x}, offset {offset:#x}"),
                expected: "the one in VMCOREINFO",
            }),
        }
    }

    /// Returns the address of the symbol whose element is `value`.
    fn decode(&self, index: usize, value: u64, downwards: bool) -> u64 {
        let signed = i64::from((value as u32).cast_signed());
        match self {
            Self::Absolute { .. } => value,
            Self::FromOwnPlace { .. } => self.place(index).0.wrapping_add_signed(signed),
            Self::Relative { base, .. } if !downwards => base.wrapping_add(value),
            Self::Relative { .. } if signed >= 0 => signed.cast_unsigned(),
            Self::Relative { base, .. } => {
                base.wrapping_sub(1).wrapping_sub(signed.cast_unsigned())
            }
        }
    }
}

fn bad_name(name: &[u8]) -> KernelError {
    KernelError::Implausible {
        what: "a name in kallsyms_names".into(),
        found: format!("{:?}", String::from_utf8_lossy(&name[..name.len().min(40)])),
        expected: "a type and up to 1023 characters of ASCII",
    }
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

    /// Whether `compressed` is a type and `name`.
    fn is_name(&self, compressed: &[u8], name: &str) -> bool {
        let text = compressed.iter().flat_map(|byte| self.token(*byte));
        text.skip(1).copied().eq(name.bytes())
    }
}

/// Selects names that may be one of those wanted by their length and their last character, which
/// are found much faster than the name.
struct Selection {
    /// The length of each token, at most 255.
    lens: [u8; TOKENS],
    /// The last character of each token.
    ends: [u8; TOKENS],
    /// Sets of names, one bit each: those of a length, with the type, and those that end with a
    /// character.
    of_len: Vec<u64>,
    ends_with: [u64; TOKENS],
}

impl Selection {
    /// Selects from up to 64 names.
    fn new(tokens: &Tokens, names: &[&str]) -> Self {
        let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
        let (mut of_len, mut ends_with) = (vec![0; longest + 2], [0; TOKENS]);
        for (number, name) in names.iter().enumerate() {
            let bit = 1 << number;
            of_len[name.len() + 1] |= bit;
            if let Some(last) = name.bytes().last() {
                ends_with[usize::from(last)] |= bit;
            }
        }
        let (mut lens, mut ends) = ([0; TOKENS], [0; TOKENS]);
        for byte in 0..=u8::MAX {
            let text = tokens.token(byte);
            lens[usize::from(byte)] = u8::try_from(text.len()).unwrap_or(u8::MAX);
            ends[usize::from(byte)] = text.last().copied().unwrap_or(0);
        }
        Self {
            lens,
            ends,
            of_len,
            ends_with,
        }
    }

    /// The numbers of the names that `compressed` may be.
    fn candidates(&self, compressed: &[u8]) -> impl Iterator<Item = usize> + use<> {
        // A compressed name has at most 16 383 bytes: the sum cannot overflow.
        let len = compressed.iter().fold(0_u32, |len, byte| {
            len.wrapping_add(u32::from(self.lens[usize::from(*byte)]))
        });
        let last = compressed
            .last()
            .map_or(0, |byte| self.ends[usize::from(*byte)]);
        let of_len = self.of_len.get(len as usize).copied().unwrap_or(0);
        let mut set = of_len & self.ends_with[usize::from(last)];
        std::iter::from_fn(move || {
            let number = (set != 0).then(|| set.trailing_zeros() as usize)?;
            set &= set - 1;
            Some(number)
        })
    }
}

/// Sequential reader of kernel memory.
struct Bytes<'a> {
    memory: &'a dyn KernelMemory,
    what: &'static str,
    next: VirtAddr,
    piece: Vec<u8>,
    taken: usize,
    /// Bytes that do not lie in one piece.
    joined: Vec<u8>,
}

impl<'a> Bytes<'a> {
    fn new(memory: &'a dyn KernelMemory, what: &'static str, start: VirtAddr) -> Self {
        Self {
            memory,
            what,
            next: start,
            piece: Vec::new(),
            taken: 0,
            joined: Vec::new(),
        }
    }

    fn next(&mut self) -> Result<u8, KernelError> {
        Ok(self.some(1)?.first().copied().unwrap_or(0))
    }

    /// Returns the next `len` bytes.
    fn take(&mut self, len: usize) -> Result<&[u8], KernelError> {
        if self.piece.len() - self.taken >= len {
            return self.some(len);
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        while joined.len() < len {
            joined.extend_from_slice(self.some(len - joined.len())?);
        }
        self.joined = joined;
        Ok(&self.joined)
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
