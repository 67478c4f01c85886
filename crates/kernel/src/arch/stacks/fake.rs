//! A kernel made by hand, whose stacks tests unwind.

use std::collections::{BTreeMap, HashMap};

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;

use super::{End, Function, Position, Reason, StackReader, Stacks, Walk};
use crate::types::{MemberLocation, TypeId};

/// Most frames that a walk may have.
const MAX_FRAMES: usize = 4096;

/// Functions of 4 KiB, one behind the other.
pub struct Text {
    /// Address of the first one.
    pub at: u64,
    /// Their names.
    pub names: &'static [&'static str],
}

impl Text {
    /// Returns the address of a function.
    pub fn start(&self, name: &str) -> u64 {
        let index = self.names.iter().position(|known| *known == name).unwrap();
        self.at + Fake::FUNCTION * index as u64
    }

    /// Returns an address in the middle of a function, as a return address is.
    pub fn inside(&self, name: &str) -> u64 {
        self.start(name) + 0x80
    }
}

/// A kernel: words and code at addresses, functions of 4 KiB, and members of structs.
pub struct Fake {
    info: Vmcoreinfo,
    endian: Endian,
    bytes: BTreeMap<u64, u8>,
    functions: BTreeMap<u64, &'static str>,
    members: HashMap<&'static str, u64>,
}

impl Fake {
    /// Size of each function.
    pub const FUNCTION: u64 = 4096;

    pub fn new(endian: Endian, info: &str) -> Self {
        Self {
            info: Vmcoreinfo::parse(info.as_bytes(), 0).unwrap(),
            endian,
            bytes: BTreeMap::new(),
            functions: BTreeMap::new(),
            members: HashMap::new(),
        }
    }

    /// Writes words from `at` on.
    pub fn put(&mut self, at: u64, words: &[u64]) -> &mut Self {
        for (index, word) in words.iter().enumerate() {
            let bytes = match self.endian {
                Endian::Little => word.to_le_bytes(),
                Endian::Big => word.to_be_bytes(),
            };
            self.put_bytes(at + 8 * index as u64, &bytes);
        }
        self
    }

    pub fn put_bytes(&mut self, at: u64, bytes: &[u8]) -> &mut Self {
        for (address, byte) in (at..).zip(bytes) {
            self.bytes.insert(address, *byte);
        }
        self
    }

    /// Adds a function of `text`, filled with `code` and then zeros.
    pub fn function(&mut self, text: &Text, name: &'static str, code: &[u8]) -> &mut Self {
        let start = text.start(name);
        self.functions.insert(start, name);
        self.put_bytes(start, &[0; Self::FUNCTION as usize]);
        self.put_bytes(start, code)
    }

    /// Adds a member of 8 bytes, named `struct.path`.
    pub fn member(&mut self, name: &'static str, offset: u64) -> &mut Self {
        self.members.insert(name, offset);
        self
    }

    /// Unwinds from the registers `words` of a CPU.
    pub fn cpu(&self, stacks: &dyn Stacks, words: &[u64]) -> (Vec<Position>, End) {
        let bytes: Vec<u8> = match self.endian {
            Endian::Little => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            Endian::Big => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        };
        let unwind = stacks.of(self);
        self.all(unwind.of_cpu(self, &bytes, self.endian).unwrap())
    }

    /// Unwinds the stack of the sleeping task at `task`.
    pub fn sleeper(&self, stacks: &dyn Stacks, task: u64) -> (Vec<Position>, End) {
        let unwind = stacks.of(self);
        self.all(unwind.of_sleeper(self, VirtAddr(task)).unwrap())
    }

    fn all<'a>(&self, mut walk: Box<dyn Walk + 'a>) -> (Vec<Position>, End) {
        let mut all = Vec::new();
        loop {
            let Some(position) = walk.position() else {
                return (all, End::Reached);
            };
            all.push(position);
            assert!(all.len() <= MAX_FRAMES, "the walk does not end");
            if let Err(end) = walk.step() {
                return (all, end);
            }
        }
    }

    /// Names of the functions of positions, with a mark where one was interrupted.
    pub fn names(&self, positions: &[Position]) -> Vec<String> {
        let name = |position: &Position| {
            let mark = if position.interrupted { "!" } else { "" };
            let function = self.function_at(position.code);
            let name = function.map_or("?", |function| function.name);
            format!("{name}{mark}")
        };
        positions.iter().map(name).collect()
    }
}

impl StackReader for Fake {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        self.endian
    }

    fn read(&self, what: &'static str, at: u64, buf: &mut [u8]) -> Result<(), Reason> {
        for (address, byte) in (at..).zip(buf) {
            let found = self.bytes.get(&address).copied();
            *byte = found.ok_or_else(|| Reason(format!("{what} at {address:#x}")))?;
        }
        Ok(())
    }

    fn symbol(&self, name: &str) -> Option<VirtAddr> {
        let mut all = self.functions.iter();
        let found = all.find(|(_, known)| **known == name);
        found.map(|(start, _)| VirtAddr(*start))
    }

    fn function_at(&self, address: u64) -> Option<Function<'_>> {
        let (start, name) = self.functions.range(..=address).next_back()?;
        (address - start < Self::FUNCTION).then_some(Function {
            name,
            start: *start,
        })
    }

    fn module_at(&self, _: u64) -> Option<VirtAddr> {
        None
    }

    fn locate(&self, structure: &str, path: &str) -> Result<Option<MemberLocation>, Reason> {
        let name = format!("{structure}.{path}");
        let found = self.members.get(name.as_str());
        Ok(found.map(|offset| MemberLocation {
            offset: *offset,
            type_id: TypeId::VOID,
            bits: None,
        }))
    }

    fn value_at(&self, at: VirtAddr, member: &MemberLocation) -> Result<u64, Reason> {
        (self as &dyn StackReader).word(at.0 + member.offset)
    }

    fn size_of(&self, _: &str) -> Result<Option<u64>, Reason> {
        Ok(None)
    }
}
