//! Types that a test gives a kernel (BTF).
//!
//! Documentation/bpf/btf.rst: a header, numbered types of 32-bit words, and their names.

use crate::order::ByteOrder;

/// Bytes of the header.
const HEADER: u32 = 24;

/// A table of types (BTF).
#[derive(Clone, Debug)]
pub struct TinyTypes {
    types: Vec<u32>,
    count: u32,
    names: Vec<u8>,
}

impl Default for TinyTypes {
    fn default() -> Self {
        Self {
            types: Vec::new(),
            count: 0,
            names: vec![0],
        }
    }
}

impl TinyTypes {
    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let at = self.names.len() as u32;
        self.names.extend(name.bytes().chain([0]));
        at
    }

    /// Adds a type with its name, its kind with the number of elements, its size or type, and
    /// what follows; returns its number.
    pub fn add(&mut self, name: &str, info: u32, size_or_type: u32, rest: &[u32]) -> u32 {
        let name = self.name(name);
        self.types.extend([name, info, size_or_type]);
        self.types.extend(rest);
        self.count += 1;
        self.count
    }

    /// Adds an integer of `size` bytes.
    pub fn integer(&mut self, name: &str, size: u32) -> u32 {
        self.add(name, 1 << 24, size, &[size * 8])
    }

    /// Adds an array.
    pub fn array(&mut self, element: u32, count: u32) -> u32 {
        self.add("", 3 << 24, 0, &[element, element, count])
    }

    /// Adds a struct of members: name, type and offset in bytes.
    pub fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let mut rest = Vec::new();
        for (name, type_number, offset) in members {
            rest.extend([self.name(name), *type_number, 8 * offset]);
        }
        self.add(name, 4 << 24 | members.len() as u32, size, &rest)
    }

    /// Adds an enumeration of four bytes.
    pub fn enumeration(&mut self, name: &str, values: &[(&str, u32)]) -> u32 {
        let mut rest = Vec::new();
        for (name, value) in values {
            rest.extend([self.name(name), *value]);
        }
        self.add(name, 6 << 24 | values.len() as u32, 4, &rest)
    }

    /// Returns the table as a kernel of this byte order has it.
    pub fn bytes(&self, order: ByteOrder) -> Vec<u8> {
        let (len, names) = (4 * self.types.len() as u32, self.names.len() as u32);
        // The magic number, the version, and no flags.
        let mut bytes = order.u16(0xeb9f).to_vec();
        bytes.extend([1, 0]);
        for word in [HEADER, 0, len, len, names].iter().chain(&self.types) {
            bytes.extend(order.u32(*word));
        }
        bytes.extend(&self.names);
        bytes
    }
}
