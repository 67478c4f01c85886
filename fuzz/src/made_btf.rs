//! Valid BTF with arbitrary references between its types, and a table that counts lookups.

use std::cell::Cell;

use bigiron_kernel::KernelError;
use bigiron_kernel::types::{Encoding, Member, Named, Prototype, Type, TypeId, TypeTable};

use crate::choices::Choices;

/// Most types of a table.
const MOST: usize = 2048;
/// The names of types and members, except for those without one.
pub const NAMES: [&str; 8] = ["a", "b", "c", "d", "list_head", "next", "rq", "int"];

/// Encodes a table of the chosen types (include/uapi/linux/btf.h). References lead to any type,
/// most often to the one before: so unnamed structs contain each other many levels deep.
pub fn encode(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut strings = vec![0];
    let mut names = vec![0_u32];
    for name in NAMES {
        names.push(strings.len() as u32);
        strings.extend(name.bytes().chain([0]));
    }
    let name = |choices: &mut Choices<'_>| match choices.byte() {
        byte @ 0..128 => names[usize::from(byte) % names.len()],
        _ => 0,
    };
    let mut words: Vec<u32> = Vec::new();
    let mut id = 0;
    while !choices.is_over() && id < MOST {
        id += 1;
        let target = |choices: &mut Choices<'_>| match choices.byte() {
            byte @ 0..192 => (id - 1).saturating_sub(usize::from(byte) % 3) as u32,
            _ => choices.below(MOST) as u32,
        };
        let kind = u32::from(choices.byte() % 20);
        let vlen = u32::from(choices.byte() % 6);
        let info = |vlen: u32| kind << 24 | vlen;
        match kind {
            // INT, VAR, DECL_TAG, FLOAT: a word after the head, except for FLOAT.
            1 => words.extend([name(choices), info(0), 4, 32]),
            14 | 17 => words.extend([name(choices), info(0), target(choices), 0]),
            16 => words.extend([name(choices), info(0), 8]),
            3 => {
                let (element, count) = (target(choices), choices.number(4) as u32);
                words.extend([0, info(0), 0, element, 1, count]);
            }
            4 | 5 => {
                words.extend([name(choices), info(vlen), choices.number(64) as u32]);
                for member in 0..vlen {
                    let offset = choices.number(u64::from(member) * 32) as u32;
                    words.extend([name(choices), target(choices), offset]);
                }
            }
            6 => {
                words.extend([name(choices), info(vlen), 4]);
                (0..vlen).for_each(|value| words.extend([name(choices), value]));
            }
            13 => {
                words.extend([0, info(vlen), target(choices)]);
                for _ in 0..vlen {
                    words.extend([name(choices), target(choices)]);
                }
            }
            19 => {
                words.extend([name(choices), info(vlen), 8]);
                (0..vlen).for_each(|value| words.extend([name(choices), value, value]));
            }
            0 | 15 => words.extend([name(choices), 7 << 24, 0]),
            _ => words.extend([name(choices), info(0), target(choices)]),
        }
    }
    let len = 4 * words.len() as u32;
    let header = [0x1_eb9f, 24, 0, len, len, strings.len() as u32];
    let words = header
        .iter()
        .chain(&words)
        .flat_map(|word| word.to_le_bytes());
    words.chain(strings).collect()
}

/// A table that counts how often types are looked up in it.
pub struct Counted<'a> {
    table: &'a dyn TypeTable,
    steps: Cell<u64>,
}

impl<'a> Counted<'a> {
    /// Counts lookups in a table.
    pub fn new(table: &'a dyn TypeTable) -> Self {
        let steps = Cell::new(0);
        Self { table, steps }
    }

    /// Runs `act`, which may take `most` lookups.
    pub fn within<T>(&self, most: u64, what: &str, act: impl FnOnce(&Self) -> T) -> T {
        self.steps.set(0);
        let result = act(self);
        let steps = self.steps.get();
        assert!(steps <= most, "{what}: {steps} lookups, allowed are {most}");
        result
    }

    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        // Ends what would otherwise take for ever.
        assert!(self.steps.get() < 1 << 24, "lookups without end");
    }
}

impl TypeTable for Counted<'_> {
    fn get(&self, id: TypeId) -> Result<Type, KernelError> {
        self.step();
        self.table.get(id)
    }

    fn members(&self, id: TypeId) -> Result<Vec<Member>, KernelError> {
        self.step();
        self.table.members(id)
    }

    fn enumerators(&self, id: TypeId) -> Result<Vec<(String, i64)>, KernelError> {
        self.step();
        self.table.enumerators(id)
    }

    fn find(&self, named: Named, name: &str) -> Result<Option<TypeId>, KernelError> {
        self.step();
        self.table.find(named, name)
    }

    fn enumerator(&self, name: &str) -> Result<Option<i64>, KernelError> {
        self.step();
        self.table.enumerator(name)
    }

    fn variable(&self, name: &str, address: Option<u64>) -> Result<Option<TypeId>, KernelError> {
        self.step();
        self.table.variable(name, address)
    }

    fn function(&self, name: &str) -> Result<Option<TypeId>, KernelError> {
        self.step();
        self.table.function(name)
    }

    fn prototype(&self, id: TypeId) -> Result<Option<Prototype>, KernelError> {
        self.step();
        self.table.prototype(id)
    }

    fn keyword(&self, id: TypeId) -> Result<Option<&'static str>, KernelError> {
        self.step();
        self.table.keyword(id)
    }

    fn encoding(&self, id: TypeId) -> Result<Encoding, KernelError> {
        self.step();
        self.table.encoding(id)
    }
}
