//! Data to erase from a dump: `--erase`, and makedumpfile's `--config`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context;
use bigiron_kernel::Kernel;
use bigiron_kernel::erase::config::MAX_BYTES;
use bigiron_kernel::erase::{Config, Erasure, resolve};
use bigiron_kernel::symbols::{Symbols, kallsyms};
#[cfg(feature = "dwarf")]
use bigiron_kernel::types::dwarf::Dwarf;
use bigiron_kernel::types::{TypeTable, btf};
use bigiron_kernel::vmlinux::Vmlinux;

/// Resolves commands by the kernel's own symbols and BTF, or by those of a vmlinux.
pub fn find(kernel: &Kernel, commands: &Config, vmlinux: Option<&Path>) -> anyhow::Result<Erasure> {
    let vmlinux = vmlinux.map(Vmlinux::open).transpose()?;
    let moved = kernel.info().kernel_offset().unwrap_or(0);
    let symbols = symbols(kernel, vmlinux.as_ref(), moved)?;
    let of = |types: &dyn TypeTable| resolve(commands, kernel, &symbols, types, moved);
    if let Some(vmlinux) = &vmlinux {
        #[cfg(feature = "dwarf")]
        if let Some(dwarf) = Dwarf::open(vmlinux)? {
            return Ok(of(&dwarf));
        }
        if let Some(btf) = vmlinux.btf()? {
            return Ok(of(&btf));
        }
    }
    let btf = btf::from_memory(kernel, &symbols)?;
    let btf = btf.context(
        "the kernel's types are not known: it has no BTF; specify its vmlinux with debug information",
    )?;
    Ok(of(&btf))
}

/// Reads the commands in the file `config`.
pub fn read(config: &Path) -> io::Result<Config> {
    let mut text = Vec::new();
    let file = File::open(config)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(Config::parse(&text))
}

/// Returns the symbols of the kernel at their run-time addresses: from its memory, else as
/// linked plus the KASLR offset.
fn symbols(kernel: &Kernel, vmlinux: Option<&Vmlinux>, moved: u64) -> anyhow::Result<Symbols> {
    let own = kallsyms::read(kernel);
    match (own, vmlinux) {
        (Ok(Some(symbols)), _) => Ok(symbols),
        (_, Some(vmlinux)) => {
            let mut symbols = vmlinux.symbols()?;
            symbols.shift(moved);
            Ok(symbols)
        }
        (Ok(None), None) => anyhow::bail!(
            "the kernel's symbols are not known: VMCOREINFO names no kallsyms (Linux 6.0 and later \
             do); specify its vmlinux"
        ),
        (Err(error), None) => Err(error.into()),
    }
}
