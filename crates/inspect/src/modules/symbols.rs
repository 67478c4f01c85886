//! The symbols of modules: Elf64_Sym, in `mod->kallsyms`.

use bigiron_format::VirtAddr;
use bigiron_kernel::symbols::Symbols;

use super::{Module, Modules};
use crate::error::InspectError;
use crate::program::Program;

/// Maximum number of symbols; large drivers have 50 000.
const MAX_SYMBOLS: u64 = 256 << 10;
/// KSYM_NAME_LEN.
const MAX_NAME: usize = 512;
/// Size of an Elf64_Sym.
const SYMBOL: usize = 24;
/// Symbols read at once.
const AT_ONCE: u64 = 128;

/// The tables of a module.
struct Tables {
    symbols: VirtAddr,
    count: u64,
    names: VirtAddr,
    /// The type letter of each symbol, since 5.2 (1c7651f43777).
    letters: Option<VirtAddr>,
}

impl Modules {
    /// Returns the symbols of a module, as far as they can be read.
    pub fn symbols<'m>(&'m self, program: &Program, module: &'m Module) -> &'m Symbols {
        module.symbols.get_or_init(|| {
            let mut symbols = Symbols::default();
            // A partial table is still useful.
            let _ = self.read_symbols(program, module, &mut symbols);
            symbols
        })
    }

    fn read_symbols(
        &self,
        program: &Program,
        module: &Module,
        symbols: &mut Symbols,
    ) -> Result<(), InspectError> {
        let tables = tables(program, module.address)?;
        let endian = program.kernel().source().endian();
        let mut piece = [0; SYMBOL * AT_ONCE as usize];
        let mut index = 0;
        while index < tables.count.min(MAX_SYMBOLS) {
            let count = AT_ONCE.min(tables.count - index);
            let bytes = &mut piece[..SYMBOL * count as usize];
            let at = VirtAddr(tables.symbols.0.wrapping_add(index * SYMBOL as u64));
            program.read("a module's symbols", at, bytes)?;
            for (position, symbol) in bytes.chunks_exact(SYMBOL).enumerate() {
                let name = u64::from(endian.u32(symbol, 0).unwrap_or(0));
                let value = endian.u64(symbol, 8).unwrap_or(0);
                // The first symbol is null, and undefined ones belong to others.
                if name == 0 || endian.u16(symbol, 6) == Some(0) {
                    continue;
                }
                let name = VirtAddr(tables.names.0.wrapping_add(name));
                let name = program.string(name, MAX_NAME)?;
                let letter = match tables.letters {
                    Some(letters) => {
                        let at = letters.0.wrapping_add(index + position as u64);
                        program.number(VirtAddr(at), 1)? as u8
                    }
                    None => old_letter(symbol),
                };
                let letter = if letter.is_ascii_graphic() {
                    letter
                } else {
                    b'?'
                };
                // Labels of data, such as `.LC0`, name what no other symbol does.
                let is_code = letter.eq_ignore_ascii_case(&b't');
                if name.is_empty() || (is_code && is_label(&name)) {
                    continue;
                }
                let cost = name.len() + SYMBOL;
                if !self.take(cost) || symbols.push(&name, value, letter).is_none() {
                    return Ok(());
                }
            }
            index += count;
        }
        Ok(())
    }
}

fn tables(program: &Program, module: VirtAddr) -> Result<Tables, InspectError> {
    let (at, outer) = match program.has("module", "kallsyms") {
        true => (
            program.pointer(module, "module", "kallsyms")?,
            "mod_kallsyms",
        ),
        false => (module, "module"),
    };
    let letters = match program.has(outer, "typetab") {
        true => Some(program.pointer(at, outer, "typetab")?),
        false => None,
    };
    Ok(Tables {
        symbols: program.pointer(at, outer, "symtab")?,
        count: program.value(at, outer, "num_symtab")?,
        names: program.pointer(at, outer, "strtab")?,
        letters,
    })
}

/// Before 5.2 the letter is in st_info, in 5.0 and 5.1 in st_size (5439c985c5a8).
fn old_letter(symbol: &[u8]) -> u8 {
    let places = [symbol.get(4), symbol.get(16)];
    let mut letters = places.into_iter().flatten().copied();
    letters.find(u8::is_ascii_alphabetic).unwrap_or(b'?')
}

/// Returns true for a name that the kernel skips (is_mapping_symbol,
/// include/linux/module_symbol.h): a label of the assembler, which riscv64 keeps for the linker, or
/// a mark of the kind of code or data that follows, on arm64 and riscv64.
fn is_label(name: &str) -> bool {
    [".L", "L0", "$"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_told_from_functions() {
        for label in [".LVL837", ".L12", "L0\u{2}", "$x", "$d", "$xrv64i"] {
            assert!(is_label(label), "{label}");
        }
        for name in ["kjournald2", "L1_cache", ".text", "__kstrtab_x"] {
            assert!(!is_label(name), "{name}");
        }
    }
}
