//! The instruction at which a kernel of x86-64 failed: its text, the memory that it accesses, and
//! where the pointer came from.
//!
//! Instructions are decoded by iced-x86, and written as the kernel's developers know them, in the
//! AT&T syntax of objdump. What a register had before the fault is told only if it is the same on
//! every way to the instruction.

mod access;
mod code;
mod member;
mod origin;
mod registers;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::TypeTable;
use serde::Serialize;

use crate::modules::Located;
use crate::program::Program;
pub use access::{Access, UsedRegister};
use code::Code;
use origin::Origins;
pub use registers::Registers;

/// Maximum size of a function that is decoded.
const MAX_FUNCTION: u64 = 64 << 10;
/// Maximum length of an instruction of x86.
const MAX_INSTRUCTION: u64 = 15;
/// Architecture whose instructions are decoded.
const ARCHITECTURE: &str = "x86_64";

/// An instruction, and what it did when it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its text in AT&T syntax.
    pub text: String,
    /// Its bytes, in hexadecimal.
    pub bytes: String,
    /// The memory that it accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

/// A failed instruction, as the kernel's report tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    /// Where it is: `function+0x9/0x20 [module]`.
    pub place: &'a str,
    /// The bytes at it that the kernel printed; empty if it printed none.
    pub bytes: &'a [u8],
    /// The registers.
    pub registers: &'a Registers,
    /// The address that could not be accessed.
    pub address: Option<u64>,
}

impl Instruction {
    /// Decodes a failed instruction; `None` if it cannot be located, or the kernel's text is
    /// not what the kernel printed, or for other architectures.
    pub fn of(program: &Program, failed: &Failed) -> Option<Self> {
        if program.kernel().architecture().name != ARCHITECTURE {
            return None;
        }
        let (function, offset) = locate(program, failed.place)?;
        let start = function.symbol.address;
        let at = start.0.checked_add(offset)?;
        let bytes = text_of(program, start, function.size?, offset)?;
        let tail = bytes.get(usize::try_from(offset).ok()?..)?;
        let known = failed.bytes.len().min(tail.len());
        // The kernel changes its text: what it executed is what it printed.
        if tail.get(..known)? != failed.bytes.get(..known)? {
            return None;
        }
        let code = Code::decode(&bytes, start.0);
        let index = code.index_of(at)?;
        let decoded = code.get(index)?;
        let types: &dyn TypeTable = match function.module {
            Some(name) => {
                let modules = program.modules();
                let module = modules.find(name)?;
                match modules.types(program, module) {
                    Ok(types) => types,
                    Err(_) => program.types(),
                }
            }
            None => program.types(),
        };
        let origins = Origins {
            program,
            types,
            code: &code,
            function: function.symbol.name,
            registers: failed.registers,
            failed: index,
        };
        let bytes = tail.get(..decoded.len())?;
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self {
            text: code::text(decoded),
            bytes: bytes.join(" "),
            access: Access::of(&origins, decoded, failed.address),
        })
    }
}

/// Returns the address of a place, `function+0x9/0x20 [module]`, if only one function is meant.
pub fn address_of(program: &Program, place: &str) -> Option<VirtAddr> {
    let (function, offset) = locate(program, place)?;
    let address = function.symbol.address.0.checked_add(offset)?;
    Some(VirtAddr(address))
}

/// Finds the one function of a place, and the offset in it.
fn locate<'p>(program: &'p Program, place: &str) -> Option<(Located<'p>, u64)> {
    let (name, rest) = place.split_once('+')?;
    let mut words = rest.split([' ', '/']);
    let mut number = || {
        let digits = words.next()?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    let (offset, size) = (number()?, number()?);
    let module = words.find_map(|word| word.strip_prefix('['));
    let module = module.map(|name| name.trim_end_matches(']'));
    let found = addresses(program, name, module);
    let found = found
        .into_iter()
        .filter_map(|address| program.symbol_at(address));
    let found: Vec<_> = found.filter(|found| found.offset == 0).collect();
    // Functions may share a name; the size tells them apart.
    let same_size = found.iter().filter(|found| found.size == Some(size));
    let found = match (same_size.collect::<Vec<_>>().as_slice(), found.as_slice()) {
        ([one], _) => **one,
        ([], [one]) => *one,
        _ => return None,
    };
    (offset < found.size? && found.size? <= MAX_FUNCTION).then_some((found, offset))
}

fn addresses(program: &Program, name: &str, module: Option<&str>) -> Vec<VirtAddr> {
    let named = program.symbols_named(name).into_iter();
    let named = named.filter(|found| found.module == module);
    named.map(|found| found.symbol.address).collect()
}

/// Reads a function; if not all of it is in the dump, up to the instruction at `offset`.
fn text_of(program: &Program, start: VirtAddr, size: u64, offset: u64) -> Option<Vec<u8>> {
    [size, (offset + MAX_INSTRUCTION).min(size)]
        .into_iter()
        .find_map(|size| {
            let mut bytes = vec![0; usize::try_from(size).ok()?];
            program.read("a function", start, &mut bytes).ok()?;
            Some(bytes)
        })
}
