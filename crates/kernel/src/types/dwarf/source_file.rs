//! The source file of a declaration.

use gimli::{AttributeValue, DebugLine, DebugLineStr, constants as dw};

use super::data::Dwarf;
use crate::error::KernelError;
use crate::types::{Named, TypeTable};

impl Dwarf<'_> {
    /// Returns the source file that declares a typedef, as it was passed to the compiler.
    pub fn source_file(&self, typedef: &str) -> Result<Option<String>, KernelError> {
        let Some(id) = self.find(Named::Typedef, typedef)? else {
            return Ok(None);
        };
        let section = |name| match self.vmlinux.section(name) {
            Some(section) => self.vmlinux.read(section),
            None => Ok(Vec::new()),
        };
        let (lines, line_strings) = (section(".debug_line")?, section(".debug_line_str")?);
        self.with_entry(id, |unit, header, entry| {
            let found = || -> gimli::Result<Option<String>> {
                let file = entry.attr(dw::DW_AT_decl_file)?;
                let Some(file) = file.and_then(|file| file.udata_value()) else {
                    return Ok(None);
                };
                let mut root = header.entries(&unit.abbreviations);
                root.next_entry()?;
                let list = match root.current() {
                    Some(root) => root.attr_value(dw::DW_AT_stmt_list)?,
                    None => None,
                };
                let Some(AttributeValue::DebugLineRef(offset)) = list else {
                    return Ok(None);
                };
                let lines = DebugLine::new(&lines, self.endian);
                let program = lines.program(offset, header.address_size(), None, None)?;
                let program = program.header();
                let text = |value| match value {
                    AttributeValue::DebugLineStrRef(offset) => {
                        let strings = DebugLineStr::new(&line_strings, self.endian);
                        let text = strings.get_str(offset).ok()?;
                        Some(text.to_string_lossy().into_owned())
                    }
                    value => self.text(value).map(String::from),
                };
                let Some(file) = program.file(file) else {
                    return Ok(None);
                };
                let name = text(file.path_name());
                let directory = file.directory(program).and_then(text);
                Ok(match (directory, name) {
                    (Some(directory), Some(name)) => Some(format!("{directory}/{name}")),
                    (None, name) => name,
                    _ => None,
                })
            };
            found().map_err(|error| self.damaged(unit.start, error))
        })
    }
}
