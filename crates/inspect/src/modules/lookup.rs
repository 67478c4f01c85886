//! Symbol lookup in the kernel and all modules.

use std::fmt;
use std::ops::Range;

use bigiron_format::VirtAddr;
use bigiron_kernel::symbols::{Symbol, Symbols};

use crate::program::Program;

/// Assumed size of the last symbol if the symbol `_end` is missing.
const LAST_SYMBOL: u64 = 64 << 10;
/// Maximum size of code before the symbol `_text`.
const MAX_HEAD: u64 = 2 << 20;

/// A symbol and an offset from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// The symbol.
    pub symbol: Symbol<'a>,
    /// Bytes from the symbol to the address.
    pub offset: u64,
    /// Its module; `None` for the kernel.
    pub module: Option<&'a str>,
    /// Bytes to the next symbol; `None` if not requested or unknown.
    pub size: Option<u64>,
}

/// Formats as `schedule+0x40` or `virtblk_probe [virtio_blk]`.
impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol.name)?;
        if self.offset > 0 {
            write!(f, "+{:#x}", self.offset)?;
        }
        match self.module {
            Some(module) => write!(f, " [{module}]"),
            None => Ok(()),
        }
    }
}

impl Located<'_> {
    /// Formats the symbol without the offset: `virtblk_probe [virtio_blk]`.
    pub fn name(&self) -> String {
        match self.module {
            Some(module) => format!("{} [{module}]", self.symbol.name),
            None => self.symbol.name.to_owned(),
        }
    }
}

impl Program<'_, '_> {
    /// Returns all symbols with a name: the kernel's own, then those of modules.
    pub fn symbols_named<'p>(&'p self, name: &'p str) -> Vec<Located<'p>> {
        let mut found: Vec<_> = self
            .symbols()
            .named(name)
            .map(|symbol| Located {
                symbol,
                offset: 0,
                module: None,
                size: None,
            })
            .collect();
        let modules = self.modules();
        for module in &modules.list {
            let all = modules.symbols(self, module).named(name);
            found.extend(all.map(|symbol| Located {
                symbol,
                offset: 0,
                module: Some(&module.name),
                size: None,
            }));
        }
        found
    }

    /// Returns the symbol that contains an address of the kernel image or of a module. `None`
    /// for any other memory, such as the heap.
    pub fn symbol_at(&self, address: VirtAddr) -> Option<Located<'_>> {
        if self.modules().image.contains(&address.0) {
            let (symbol, offset) = self.symbols().at(address)?;
            return Some(Located {
                symbol,
                offset,
                module: None,
                size: self.symbols().size_at(address),
            });
        }
        let modules = self.modules();
        let (module, region) = modules.at(address)?;
        let symbols = modules.symbols(self, module);
        let (symbol, offset) = symbols.at(address)?;
        region.holds(symbol.address).then_some(Located {
            symbol,
            offset,
            module: Some(&module.name),
            size: symbols.size_at(address),
        })
    }
}

/// The address range of the kernel image, by its symbols.
pub(super) fn image(symbols: &Symbols) -> Range<u64> {
    let address = |name| symbols.find(name).map(|symbol| symbol.address.0);
    let start = address("_text").or_else(|| address("_stext"));
    // On riscv64 the code that starts a CPU is before _text.
    let head = start.and_then(|start| {
        let head = address("_start")?;
        (head..head.saturating_add(MAX_HEAD))
            .contains(&start)
            .then_some(head)
    });
    let end = address("_end").or_else(|| {
        let last = symbols.iter().map(|symbol| symbol.address.0).max();
        last.map(|last| last.saturating_add(LAST_SYMBOL))
    });
    head.or(start).unwrap_or(0)..end.unwrap_or(0)
}
