//! The kernel's symbols, from the dump's own kallsyms or from the symbol table of a vmlinux.

pub mod kallsyms;

use std::sync::OnceLock;

use bigiron_format::VirtAddr;

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address; for a per-CPU variable before Linux 6.15, the offset in each CPU's area.
    pub address: VirtAddr,
    /// Its type, as in nm(1); upper case for a global symbol.
    pub kind: char,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    name_start: u32,
    name_len: u16,
    kind: u8,
}

/// A table of symbols, in the order of its source.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    names: String,
    entries: Vec<Entry>,
    /// Indices of `entries` by address, built on the first lookup. Symbols at the same address
    /// keep their order.
    by_address: OnceLock<Vec<u32>>,
}

impl Symbols {
    /// Adds a symbol; returns `None` if it does not fit: at most 4 GiB of names, and 64 KiB
    /// each.
    pub fn push(&mut self, name: &str, address: u64, kind: u8) -> Option<()> {
        self.by_address.take();
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
        self.by_address.take();
        for entry in &mut self.entries {
            entry.address = entry.address.wrapping_add(distance);
        }
    }

    /// Replaces the addresses, computed from each symbol's index and current address.
    pub(crate) fn set_addresses(&mut self, address: impl Fn(usize, u64) -> u64) {
        self.by_address.take();
        for (index, entry) in self.entries.iter_mut().enumerate() {
            entry.address = address(index, entry.address);
        }
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Length of all names in bytes.
    pub(crate) fn names_len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over all symbols.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|entry| self.symbol(entry))
    }

    /// Iterates over the symbols of a name: static ones may share it.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Symbol<'a>> {
        // Compare lengths first: most names differ in length.
        self.entries
            .iter()
            .filter(|entry| usize::from(entry.name_len) == name.len())
            .map(|entry| self.symbol(entry))
            .filter(move |symbol| symbol.name == name)
    }

    /// Finds a symbol by name; global symbols take precedence.
    pub fn find<'a>(&'a self, name: &'a str) -> Option<Symbol<'a>> {
        let mut first = None;
        for symbol in self.named(name) {
            if symbol.kind.is_ascii_uppercase() {
                return Some(symbol);
            }
            first = first.or(Some(symbol));
        }
        first
    }

    /// Returns the symbol at or before `address`, and the distance from it.
    pub fn at(&self, address: VirtAddr) -> Option<(Symbol<'_>, u64)> {
        let sorted = self.sorted();
        let last = self.behind(address).checked_sub(1)?;
        let found = self.entry(sorted, last)?.address;
        // The first of several symbols at one address, as in the kernel.
        let first = sorted.partition_point(|index| self.address(*index) < found);
        let entry = self.entry(sorted, first)?;
        Some((self.symbol(entry), address.0 - found))
    }

    /// Bytes from the symbol at or before `address` to the next one, the only size that
    /// kallsyms provides.
    pub fn size_at(&self, address: VirtAddr) -> Option<u64> {
        let sorted = self.sorted();
        let behind = self.behind(address);
        let symbol = self.entry(sorted, behind.checked_sub(1)?)?;
        let next = self.entry(sorted, behind)?;
        Some(next.address - symbol.address)
    }

    /// Number of symbols at or before `address`.
    fn behind(&self, address: VirtAddr) -> usize {
        let sorted = self.sorted();
        sorted.partition_point(|index| self.address(*index) <= address.0)
    }

    fn sorted(&self) -> &[u32] {
        self.by_address.get_or_init(|| {
            // The number of symbols fits into u32, since their names take at most 4 GiB.
            let mut order: Vec<u32> = (0..self.entries.len() as u32).collect();
            order.sort_by_key(|index| self.address(*index));
            order
        })
    }

    fn address(&self, index: u32) -> u64 {
        self.entries
            .get(index as usize)
            .map_or(0, |entry| entry.address)
    }

    fn entry(&self, sorted: &[u32], place: usize) -> Option<&Entry> {
        self.entries.get(*sorted.get(place)? as usize)
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
    fn global_symbols_take_precedence_and_the_first_names_an_address() {
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

    #[test]
    fn address_lookup_works_in_any_order_and_after_changes() {
        let mut symbols = Symbols::default();
        symbols.push("last", 0x3000, b'T').unwrap();
        symbols.push("first", 0x1000, b'T').unwrap();
        assert_eq!(symbols.size_at(VirtAddr(0x1010)), Some(0x2000));
        symbols.push("middle", 0x2000, b'T').unwrap();
        symbols.push("alias", 0x2000, b'T').unwrap();
        assert_eq!(symbols.size_at(VirtAddr(0x1010)), Some(0x1000));
        assert_eq!(symbols.size_at(VirtAddr(0x2000)), Some(0x1000));
        assert_eq!(symbols.size_at(VirtAddr(0x3001)), None);
        assert_eq!(symbols.size_at(VirtAddr(0)), None);
        symbols.shift(0x100);
        assert_eq!(symbols.at(VirtAddr(0x20ff)).unwrap().0.name, "first");
        assert_eq!(symbols.at(VirtAddr(0x2100)).unwrap().0.name, "middle");
        assert_eq!(symbols.at(VirtAddr(u64::MAX)).unwrap().0.name, "last");
    }
}
