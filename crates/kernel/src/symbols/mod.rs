//! The kernel's symbols: names and addresses, from the dump's own kallsyms or
//! from the symbol table of a vmlinux.

pub mod kallsyms;

use bigiron_format::VirtAddr;

/// One symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address; of a per-CPU variable before Linux 6.15 the offset in each
    /// CPU's area.
    pub address: VirtAddr,
    /// What it is, as nm(1) says it; upper case if it is global.
    pub kind: char,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name_start: u32,
    name_len: u16,
    kind: u8,
}

/// A table of symbols, in the order in which its source has them.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    names: String,
    entries: Vec<Entry>,
}

impl Symbols {
    /// Adds a symbol; `None` if it does not fit: names may take 4 GiB together
    /// and 64 KiB each.
    pub fn push(&mut self, name: &str, address: u64, kind: u8) -> Option<()> {
        self.entries.push(Entry {
            address,
            name_start: u32::try_from(self.names.len()).ok()?,
            name_len: u16::try_from(name.len()).ok()?,
            kind,
        });
        self.names.push_str(name);
        Some(())
    }

    /// Adds `distance` to every address.
    pub fn shift(&mut self, distance: u64) {
        for entry in &mut self.entries {
            entry.address = entry.address.wrapping_add(distance);
        }
    }

    /// Gives the addresses, by the position of each symbol and what it has now.
    pub(crate) fn set_addresses(&mut self, address: impl Fn(usize, u64) -> u64) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            entry.address = address(index, entry.address);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|entry| self.symbol(entry))
    }

    /// All of that name: static ones may share it.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Symbol<'a>> {
        self.iter().filter(move |symbol| symbol.name == name)
    }

    /// The one of that name; a global one before others.
    pub fn find<'a>(&'a self, name: &'a str) -> Option<Symbol<'a>> {
        self.named(name)
            .find(|symbol| symbol.kind.is_ascii_uppercase())
            .or_else(|| self.named(name).next())
    }

    /// The symbol at or before `address`, and how far it is behind it.
    pub fn at(&self, address: VirtAddr) -> Option<(Symbol<'_>, u64)> {
        let before = self
            .entries
            .iter()
            .filter(|entry| entry.address <= address.0);
        // Of several at one address the first, as the kernel does.
        let mut best: Option<&Entry> = None;
        for entry in before {
            if best.is_none_or(|best| entry.address > best.address) {
                best = Some(entry);
            }
        }
        best.map(|entry| (self.symbol(entry), address.0 - entry.address))
    }

    fn symbol(&self, entry: &Entry) -> Symbol<'_> {
        let start = entry.name_start as usize;
        Symbol {
            name: &self.names[start..start + usize::from(entry.name_len)],
            address: VirtAddr(entry.address),
            kind: char::from(entry.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_symbol_goes_before_a_static_one_and_the_first_names_an_address() {
        let mut symbols = Symbols::default();
        symbols.push("state", 0x1000, b'd').unwrap();
        symbols.push("state", 0x2000, b'D').unwrap();
        symbols.push("same_place", 0x2000, b'D').unwrap();
        assert_eq!(symbols.find("state").unwrap().address, VirtAddr(0x2000));
        assert_eq!(symbols.named("state").count(), 2);
        let (symbol, offset) = symbols.at(VirtAddr(0x2010)).unwrap();
        assert_eq!((symbol.name, offset), ("state", 0x10));
        assert_eq!(symbols.at(VirtAddr(0xfff)), None);
    }
}
