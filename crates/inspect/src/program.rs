//! A kernel with its symbols and types, both from the dump itself: kallsyms and BTF.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_kernel::symbols::{Symbols, kallsyms};
use bigiron_kernel::types::btf::{self, Btf};
use bigiron_kernel::types::{
    MemberLocation, Shape, TypeId, TypeTable, find_member, resolve, size_of, structure,
};
use bigiron_kernel::{Kernel, KernelError, Steps};

use crate::error::InspectError;
use crate::modules::Modules;

/// Maximum number of members in a path.
const MAX_DEPTH: usize = 16;
/// Number of reads that are allowed in any dump, and bytes of its memory that allow one more.
/// The densest structures, a module's symbols, take 15 bytes for each; most take some hundred.
const FREE_STEPS: u64 = 1 << 20;
const BYTES_PER_STEP: u64 = 8;

/// A kernel, its symbols and its types. Threads may share it.
///
/// Every read counts as a step, and the number of steps is in proportion to the dump's memory,
/// so that no walk can take the product of two counts out of a dump. [`Program::renewed`]
/// begins the next piece of work.
pub struct Program<'k, 's> {
    kernel: &'k Kernel<'s>,
    pub(crate) names: Arc<Names>,
    steps: Steps,
    /// Counting the dump's memory takes time, so it is done only when the free steps are used
    /// up.
    counted: Once,
}

/// The symbols and types of a kernel, with cached lookups.
pub struct Names {
    symbols: Symbols,
    types: Arc<Btf>,
    structures: Mutex<HashMap<String, Option<TypeId>>>,
    members: Mutex<HashMap<(TypeId, String), Lookup>>,
    addresses: Mutex<HashMap<String, Option<VirtAddr>>>,
    enumerators: Mutex<HashMap<String, Option<i64>>>,
    pub(crate) offsets: OnceLock<Vec<u64>>,
    pub(crate) modules: OnceLock<Modules>,
}

/// The result of looking up a member. Failures are kept as well: a walk asks again for each
/// element.
#[derive(Clone)]
enum Lookup {
    Found(MemberLocation),
    Missing,
    Damaged(String),
}

/// The result of walking a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Addresses of the structures that contain the list's links, in order.
    pub items: Vec<VirtAddr>,
    /// The reason why the walk ended early; `None` if it returned to the head.
    pub cut: Option<String>,
}

impl<'k, 's> Program<'k, 's> {
    /// Reads the symbols and types of `kernel` from its memory.
    pub fn open(kernel: &'k Kernel<'s>) -> Result<Self, InspectError> {
        let program = Self::open_symbols(kernel)?;
        program.has_types()?;
        Ok(program)
    }

    /// Returns an error unless the kernel has types.
    ///
    /// # Errors
    ///
    /// [`InspectError::NoTypes`] if it has none, so that no structures can be read.
    pub fn has_types(&self) -> Result<(), InspectError> {
        // An empty table has `void`.
        match self.types().len() > 1 {
            true => Ok(()),
            false => Err(InspectError::NoTypes),
        }
    }

    /// Reads only the symbols if the kernel has no types; then no structures can be read.
    pub fn open_symbols(kernel: &'k Kernel<'s>) -> Result<Self, InspectError> {
        let symbols = kallsyms::read(kernel)?.ok_or(InspectError::NoSymbols)?;
        let types = btf::from_memory(kernel, &symbols)?.unwrap_or_else(Btf::empty);
        Ok(Self::of(kernel, symbols, types))
    }

    fn of(kernel: &'k Kernel<'s>, symbols: Symbols, types: Btf) -> Self {
        let names = Names {
            symbols,
            types: Arc::new(types),
            structures: Mutex::default(),
            members: Mutex::default(),
            addresses: Mutex::default(),
            enumerators: Mutex::default(),
            offsets: OnceLock::new(),
            modules: OnceLock::new(),
        };
        Self::with(kernel, Arc::new(names))
    }

    /// Combines a kernel with the names that [`Self::names`] returned earlier.
    pub fn with(kernel: &'k Kernel<'s>, names: Arc<Names>) -> Self {
        Self {
            kernel,
            names,
            steps: Steps::new(FREE_STEPS),
            counted: Once::new(),
        }
    }

    /// Returns the same program with all its steps, for the next piece of work.
    pub fn renewed(&self) -> Self {
        Self::with(self.kernel, Arc::clone(&self.names))
    }

    /// Takes steps.
    ///
    /// # Errors
    ///
    /// [`InspectError::TooManySteps`] if there are none left.
    pub(crate) fn step(&self, count: u64) -> Result<(), InspectError> {
        if self.steps.take(count) {
            return Ok(());
        }
        self.counted.call_once(|| {
            let bytes = self.kernel.size_up_to(u64::MAX);
            self.steps.add(bytes / BYTES_PER_STEP);
        });
        match self.steps.take(count) {
            true => Ok(()),
            false => Err(InspectError::TooManySteps),
        }
    }

    /// Reads memory of the kernel; `what` names the data in messages. All other readers use
    /// this one, so that each read counts.
    pub fn read(
        &self,
        what: &'static str,
        at: VirtAddr,
        buf: &mut [u8],
    ) -> Result<(), InspectError> {
        self.step(1)?;
        Ok(self.kernel.read(what, at, buf)?)
    }

    /// Its symbols and types, which may outlive it.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// The kernel.
    pub fn kernel(&self) -> &'k Kernel<'s> {
        self.kernel
    }

    /// Its symbols.
    pub fn symbols(&self) -> &Symbols {
        &self.names.symbols
    }

    /// Its types.
    pub fn types(&self) -> &Btf {
        &self.names.types
    }

    /// Its types, for tables that extend them.
    pub(crate) fn shared_types(&self) -> Arc<Btf> {
        Arc::clone(&self.names.types)
    }

    fn endian(&self) -> Endian {
        self.kernel.source().endian()
    }

    /// Returns the address of a symbol.
    pub fn symbol(&self, name: &str) -> Result<VirtAddr, InspectError> {
        let mut known = lock(&self.names.addresses);
        let found = match known.get(name) {
            Some(found) => *found,
            None => {
                let found = self.names.symbols.find(name).map(|found| found.address);
                known.insert(name.to_owned(), found);
                found
            }
        };
        found.ok_or_else(|| InspectError::NoSymbol {
            name: name.to_owned(),
            option: None,
        })
    }

    /// Finds a struct or union by name.
    pub fn structure(&self, name: &str) -> Result<TypeId, InspectError> {
        let mut known = lock(&self.names.structures);
        let found = match known.get(name) {
            Some(found) => *found,
            None => {
                let found = structure(self.types(), name)?;
                known.insert(name.to_owned(), found);
                found
            }
        };
        found.ok_or_else(|| InspectError::NoMember {
            name: format!("struct {name}"),
            option: None,
        })
    }

    /// Returns the size of a struct or union, in bytes.
    pub fn size_of(&self, name: &str) -> Result<u64, InspectError> {
        let id = self.structure(name)?;
        Ok(size_of(self.types(), id)?.unwrap_or(0))
    }

    /// Finds the value of an enumerator of any enumeration.
    pub fn enumerator(&self, name: &str) -> Result<Option<i64>, InspectError> {
        let mut known = lock(&self.names.enumerators);
        if let Some(found) = known.get(name) {
            return Ok(*found);
        }
        let found = self.types().enumerator(name)?;
        known.insert(name.to_owned(), found);
        Ok(found)
    }

    /// Locates a member; `path` may go through nested structs: `thread.sp`.
    pub fn locate(&self, name: &str, path: &str) -> Result<MemberLocation, InspectError> {
        self.locate_in(self.structure(name)?, path)
            .map_err(|error| match error {
                InspectError::NoMember { option, .. } => InspectError::NoMember {
                    name: format!("{name}.{path}"),
                    option,
                },
                InspectError::Types { reason, .. } => InspectError::Types {
                    name: format!("{name}.{path}"),
                    reason,
                },
                other => other,
            })
    }

    /// Locates a member of a struct or union that may be anonymous.
    pub fn locate_in(&self, outer: TypeId, path: &str) -> Result<MemberLocation, InspectError> {
        let key = (outer, path.to_owned());
        let known = lock(&self.names.members).get(&key).cloned();
        let found = known.unwrap_or_else(|| {
            let found = match self.search(outer, path) {
                Ok(Some(member)) => Lookup::Found(member),
                Ok(None) => Lookup::Missing,
                Err(error) => Lookup::Damaged(error.to_string()),
            };
            lock(&self.names.members).insert(key, found.clone());
            found
        });
        match found {
            Lookup::Found(member) => Ok(member),
            Lookup::Missing => Err(InspectError::NoMember {
                name: path.to_owned(),
                option: None,
            }),
            Lookup::Damaged(reason) => Err(InspectError::Types {
                name: path.to_owned(),
                reason,
            }),
        }
    }

    fn search(&self, outer: TypeId, path: &str) -> Result<Option<MemberLocation>, KernelError> {
        let mut member = MemberLocation {
            offset: 0,
            type_id: outer,
            bits: None,
        };
        for step in path.splitn(MAX_DEPTH, '.') {
            let (inner, _) = resolve(self.types(), member.type_id)?;
            let Some(found) = find_member(self.types(), inner, step)? else {
                return Ok(None);
            };
            member = MemberLocation {
                offset: member.offset.saturating_add(found.offset),
                ..found
            };
        }
        Ok(Some(member))
    }

    /// Returns true if a struct has a member.
    pub fn has(&self, name: &str, path: &str) -> bool {
        self.locate(name, path).is_ok()
    }

    /// Returns the address of a member of the struct at `at`.
    pub fn member(&self, at: VirtAddr, name: &str, path: &str) -> Result<VirtAddr, InspectError> {
        self.plus(at, self.locate(name, path)?.offset)
    }

    /// Reads a number from a member: an integer (or bit field), a pointer, an enumeration, a
    /// bool. Values shorter than 8 bytes are not sign-extended: see [`Self::signed`].
    pub fn value(&self, at: VirtAddr, name: &str, path: &str) -> Result<u64, InspectError> {
        let member = self.locate(name, path)?;
        self.value_at(at, &member)
    }

    /// Reads a number at a location relative to `at`.
    pub fn value_at(&self, at: VirtAddr, member: &MemberLocation) -> Result<u64, InspectError> {
        let size = size_of(self.types(), member.type_id)?.unwrap_or(0);
        let address = self.plus(at, member.offset)?;
        match member.bits {
            None => self.number(address, size),
            Some((first, bits)) => {
                // A bit field may cross the bytes of its type, but not 8 bytes.
                let bytes = first.saturating_add(bits).div_ceil(8).clamp(1, 8);
                let word = self.number(address, bytes)?;
                let mask = u64::MAX >> 64_u64.saturating_sub(bits).min(63);
                let shift = match self.endian() {
                    Endian::Little => first,
                    Endian::Big => (bytes * 8).saturating_sub(first.saturating_add(bits)),
                };
                Ok(word.checked_shr(shift as u32).unwrap_or(0) & mask)
            }
        }
    }

    /// Reads a signed number from a member.
    pub fn signed(&self, at: VirtAddr, name: &str, path: &str) -> Result<i64, InspectError> {
        let member = self.locate(name, path)?;
        let bits = match member.bits {
            Some((_, bits)) => bits,
            None => size_of(self.types(), member.type_id)?
                .unwrap_or(8)
                .saturating_mul(8),
        };
        let unused = 64 - bits.clamp(1, 64);
        let value = self.value_at(at, &member)?;
        Ok((value << unused).cast_signed() >> unused)
    }

    /// Reads a pointer from a member.
    pub fn pointer(&self, at: VirtAddr, name: &str, path: &str) -> Result<VirtAddr, InspectError> {
        self.value(at, name, path).map(VirtAddr)
    }

    /// Reads the text in a member that is an array of characters, up to its NUL.
    pub fn text(&self, at: VirtAddr, name: &str, path: &str) -> Result<String, InspectError> {
        let member = self.locate(name, path)?;
        let size = size_of(self.types(), member.type_id)?.unwrap_or(0);
        self.string(self.plus(at, member.offset)?, size.min(4096) as usize)
    }

    /// Reads the text at an address, up to its NUL or the maximum length. Memory after the NUL
    /// need not be readable.
    pub fn string(&self, at: VirtAddr, most: usize) -> Result<String, InspectError> {
        let mut bytes = Vec::new();
        while bytes.len() < most {
            // Read up to a multiple of 256, so that no unneeded page is read.
            let address = self.plus(at, bytes.len() as u64)?;
            let len = (256 - (address.0 & 255) as usize).min(most - bytes.len());
            let mut piece = [0; 256];
            self.read("a string", address, &mut piece[..len])?;
            match piece[..len].iter().position(|byte| *byte == 0) {
                Some(end) => {
                    bytes.extend_from_slice(&piece[..end]);
                    break;
                }
                None => bytes.extend_from_slice(&piece[..len]),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a number of 1 to 8 bytes.
    pub fn number(&self, at: VirtAddr, size: u64) -> Result<u64, InspectError> {
        let mut bytes = [0; 8];
        let size = size.clamp(1, 8) as usize;
        match self.endian() {
            Endian::Little => self.read("a number", at, &mut bytes[..size])?,
            Endian::Big => self.read("a number", at, &mut bytes[8 - size..])?,
        }
        Ok(self.endian().u64(&bytes, 0).unwrap_or(0))
    }

    /// Reads the variable `name`, a pointer or an integer of `size` bytes.
    pub fn variable(&self, name: &str, size: u64) -> Result<u64, InspectError> {
        self.number(self.symbol(name)?, size)
    }

    /// Returns the shape of a type without typedefs and qualifiers.
    pub fn shape(&self, id: TypeId) -> Result<Shape, InspectError> {
        Ok(resolve(self.types(), id)?.1.shape)
    }

    pub(crate) fn plus(&self, at: VirtAddr, offset: u64) -> Result<VirtAddr, InspectError> {
        at.checked_add(offset).ok_or_else(|| {
            KernelError::NotMapped {
                what: "a member",
                address: at,
            }
            .into()
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
