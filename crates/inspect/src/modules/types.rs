//! The types of modules (CONFIG_DEBUG_INFO_BTF_MODULES, since 5.11): BTF that extends the
//! kernel's.
//!
//! `mod->btf_data` points into the loaded file, which is freed (and cleared since 6.10,
//! 31691914c392). The list `btf_modules` has the kernel's copies; one made for another base
//! (.BTF.base, since 6.12) is already relocated there.

use std::collections::HashMap;

use bigiron_format::VirtAddr;
use bigiron_kernel::types::TypeTable;
use bigiron_kernel::types::btf::{self, Btf};

use super::list::{MAX_MODULES, Module, Modules};
use crate::definition::{Definition, define};
use crate::error::InspectError;
use crate::program::Program;

impl Modules {
    /// Returns the types of a module, including those of the kernel.
    pub fn types<'m>(&'m self, program: &Program, module: &'m Module) -> Result<&'m Btf, &'m str> {
        let found = module
            .types
            .get_or_init(|| self.read_types(program, module));
        found.as_ref().map_err(String::as_str)
    }

    fn read_types(&self, program: &Program, module: &Module) -> Result<Btf, String> {
        let btf_addresses = self
            .btf_addresses
            .get_or_init(|| btf_addresses(program).map_err(|error| error.to_string()));
        let btf_addresses = btf_addresses.as_ref().map_err(Clone::clone)?;
        match btf_addresses.get(&module.address) {
            Some(table) => self
                .read_table(program, *table)
                .map_err(|error| error.to_string()),
            None => Err("the module has no types".into()),
        }
    }

    fn read_table(&self, program: &Program, table: VirtAddr) -> Result<Btf, InspectError> {
        let base = program.shared_types();
        let start = program.pointer(table, "btf", "data")?;
        let len = program.value(table, "btf", "data_size")?;
        let first = program.value(table, "btf", "start_id")?;
        let names = program.value(table, "btf", "start_str_off")?;
        if (first, names) != (base.len(), base.names_len()) {
            return Err(InspectError::Damaged {
                what: "a module's table of types".into(),
                address: table,
                reason: format!(
                    "it goes on from type {first} and name {names}, the kernel's ends at {} and {}",
                    base.len(),
                    base.names_len()
                ),
            });
        }
        if !usize::try_from(len).is_ok_and(|len| self.take(len)) {
            return Err(InspectError::Damaged {
                what: "a module's table of types".into(),
                address: table,
                reason: format!("{len} bytes, and all together more than 256 MiB"),
            });
        }
        Ok(btf::of_module(program.kernel(), start, len, base)?)
    }
}

fn btf_addresses(program: &Program) -> Result<HashMap<VirtAddr, VirtAddr>, InspectError> {
    let head = match program.symbol("btf_modules") {
        Err(InspectError::NoSymbol { name, .. }) => Err(InspectError::NoSymbol {
            name,
            option: Some("CONFIG_DEBUG_INFO_BTF_MODULES"),
        }),
        other => other,
    }?;
    let walk = program.list(head, "btf_module", "list", MAX_MODULES)?;
    let start = |at: VirtAddr| {
        let module = program.pointer(at, "btf_module", "module").ok()?;
        Some((module, program.pointer(at, "btf_module", "btf").ok()?))
    };
    Ok(walk.items.into_iter().filter_map(start).collect())
}

/// A definition, and the module that contains it.
pub type Defined<'a> = (Definition, Option<&'a str>);

impl Program<'_, '_> {
    /// Looks up a type or function like [`define`]: the kernel's own, else those of modules in
    /// their order.
    pub fn define(&self, text: &str) -> Result<Option<Defined<'_>>, InspectError> {
        if let Some(found) = define(self.types(), text)? {
            return Ok(Some((found, None)));
        }
        let modules = self.modules();
        for module in &modules.list {
            let Ok(types) = modules.types(self, module) else {
                continue;
            };
            if let Some(found) = define(types, text)? {
                return Ok(Some((found, Some(&module.name))));
            }
        }
        Ok(None)
    }

    /// All tables of types: the kernel's own, and those of modules that can be read.
    pub fn tables(&self) -> impl Iterator<Item = (&dyn TypeTable, Option<&str>)> {
        let own: (&dyn TypeTable, Option<&str>) = (self.types(), None);
        let modules = self.modules();
        let all = modules.list.iter().filter_map(|module| {
            let types: &dyn TypeTable = modules.types(self, module).ok()?;
            Some((types, Some(module.name.as_str())))
        });
        std::iter::once(own).chain(all)
    }
}
