//! Locations in a kernel's memory, as written by users: `init_task.comm`,
//! `init_task->parent->comm`, `runqueues@1.nr_running`, `ffff888003a51980+0x10`.

use bigiron_format::VirtAddr;
use bigiron_kernel::types::{
    Shape, TypeId, TypeTable, WithAddedTypes, find_member, resolve, size_of,
};

use super::known;
use crate::declaration::declaration;
use crate::error::InspectError;
use crate::modules::Located;
use crate::program::Program;

/// Maximum number of members, elements and pointers in an expression.
const MAX_STEPS: usize = 64;
/// Maximum number of addresses named when several symbols share a name.
const MAX_CHOICES: usize = 16;

/// Address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Kernel virtual addresses.
    Virtual,
    /// Physical addresses.
    Physical,
}

/// A location and the type of the data there.
pub struct Location<'p> {
    /// Address.
    pub address: VirtAddr,
    /// Address space.
    pub space: Space,
    /// The type; `None` if unknown.
    pub type_id: Option<TypeId>,
    /// For a bit field: first bit and number of bits.
    pub bits: Option<(u64, u64)>,
    types: WithAddedTypes<'p>,
}

/// The start of an expression.
struct Start<'p> {
    address: VirtAddr,
    types: &'p dyn TypeTable,
    type_id: Option<TypeId>,
    /// The type, if the table does not have the variable.
    known: Option<&'static str>,
    /// True for a per-CPU variable.
    is_per_cpu: bool,
}

impl<'p> Location<'p> {
    /// Resolves the location `text`. `written` is the type of its start, `cpu` the CPU of a
    /// per-CPU variable; `@CPU` in the text does the same.
    ///
    /// # Errors
    ///
    /// [`InspectError::Expression`] if the text is invalid or names something that the kernel
    /// does not have.
    pub fn resolve(
        program: &'p Program,
        text: &str,
        written: Option<&str>,
        cpu: Option<usize>,
        space: Space,
    ) -> Result<Self, InspectError> {
        let wrong = |reason: String| InspectError::Expression {
            text: text.to_owned(),
            reason,
        };
        let (name, mut rest) = split(program, text.trim(), space);
        let start = match space {
            Space::Virtual => start(program, name).map_err(wrong)?,
            Space::Physical => Start {
                address: hexadecimal(name)
                    .map(VirtAddr)
                    .ok_or_else(|| wrong(format!("{name} is not a physical address")))?,
                types: program.types(),
                type_id: None,
                known: None,
                is_per_cpu: false,
            },
        };
        let mut location = Self {
            address: start.address,
            space,
            type_id: start.type_id,
            bits: None,
            types: WithAddedTypes::new(start.types),
        };
        match (written, start.known) {
            (Some(written), _) => location.set_type(program, written).map_err(wrong)?,
            // Ignore the well-known type if this kernel does not have it.
            (None, Some(known)) => drop(location.set_type(program, known)),
            (None, None) => {}
        }
        if let Some(after) = rest.strip_prefix('+') {
            let end = after.find(['@', '.', '-', '[']).unwrap_or(after.len());
            let offset = hexadecimal(&after[..end]);
            let offset =
                offset.ok_or_else(|| wrong(format!("+{} is not an offset", &after[..end])))?;
            location.address = VirtAddr(location.address.0.wrapping_add(offset));
            if written.is_none() {
                location.type_id = None;
            }
            rest = &after[end..];
        }
        let mut cpu = cpu;
        if let Some(after) = rest.strip_prefix('@') {
            let end = after.find(['.', '-', '[']).unwrap_or(after.len());
            let number = after[..end].parse().ok();
            cpu = Some(
                number.ok_or_else(|| wrong(format!("@{} is not a CPU number", &after[..end])))?,
            );
            rest = &after[end..];
        }
        match cpu {
            Some(cpu) if start.is_per_cpu || written.is_some() => {
                let count = program.cpu_count()?;
                if cpu >= count {
                    return Err(wrong(format!("CPU {cpu} of {count}")));
                }
                location.address = program.per_cpu_at(location.address, cpu)?;
            }
            Some(_) => return Err(wrong(format!("{name} is not per CPU"))),
            None if start.is_per_cpu => {
                let reason = format!("it is a per-CPU variable; name the CPU: {name}@0");
                return Err(wrong(reason));
            }
            None => {}
        }
        location.follow(program, rest).map_err(wrong)?;
        Ok(location)
    }

    /// The table of its type.
    pub fn types(&self) -> &dyn TypeTable {
        &self.types
    }

    /// Its type, in C syntax.
    pub fn type_name(&self) -> Option<String> {
        declaration(&self.types, self.type_id?, "").ok()
    }

    /// Size of its type in bytes, if known.
    pub fn size(&self) -> Option<u64> {
        size_of(&self.types, self.type_id?).ok()?
    }

    /// Sets a type given as text, from the kernel or else from a module.
    fn set_type(&mut self, program: &'p Program, written: &str) -> Result<(), String> {
        let bare = ["struct ", "union ", "enum "]
            .iter()
            .find_map(|word| written.trim().strip_prefix(word))
            .unwrap_or(written);
        let known = self.types.add(bare).map_err(|error| error.to_string())?;
        if known.is_some() {
            self.type_id = known;
            return Ok(());
        }
        for (types, _) in program.tables() {
            let types = WithAddedTypes::new(types);
            if let Some(id) = types.add(bare).map_err(|error| error.to_string())? {
                self.types = types;
                self.type_id = Some(id);
                return Ok(());
            }
        }
        Err(format!("neither the kernel nor a module has a type {bare}"))
    }

    /// Follows `.member`, `->member` and `[index]`.
    fn follow(&mut self, program: &Program, mut rest: &str) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(());
            }
            if let Some(after) = rest.strip_prefix('[') {
                let (index, after) = after.split_once(']').ok_or("a ] is missing")?;
                let index = number(index).ok_or_else(|| format!("[{index}] is not a number"))?;
                self.element(program, index)?;
                rest = after;
                continue;
            }
            let after = match (rest.strip_prefix("->"), rest.strip_prefix('.')) {
                (Some(after), _) => {
                    self.dereference(program)?;
                    after
                }
                (_, Some(after)) => {
                    if self.pointed_to()?.is_some() {
                        self.dereference(program)?;
                    }
                    after
                }
                _ => return Err(format!("{rest}: expected .member, ->member or [index]")),
            };
            let end = after.find(['.', '-', '[']).unwrap_or(after.len());
            self.member(after[..end].trim())?;
            rest = &after[end..];
        }
        Err(format!("more than {MAX_STEPS} steps"))
    }

    fn known_type(&self) -> Result<TypeId, String> {
        let hint = "its type is unknown; add it as an argument, such as task_struct or 'char*'";
        self.type_id.ok_or_else(|| hint.to_owned())
    }

    /// The target type, if its type is a pointer.
    fn pointed_to(&self) -> Result<Option<TypeId>, String> {
        let (_, found) = resolve(&self.types, self.known_type()?).map_err(|e| e.to_string())?;
        Ok(match found.shape {
            Shape::Pointer(to) => Some(to),
            _ => None,
        })
    }

    fn dereference(&mut self, program: &Program) -> Result<(), String> {
        let Some(to) = self.pointed_to()? else {
            // Accept `init_task->comm` for a struct as well.
            return Ok(());
        };
        let mut bytes = [0; 8];
        let kernel = program.kernel();
        let read = match self.space {
            Space::Virtual => kernel.read("a pointer", self.address, &mut bytes),
            Space::Physical => kernel
                .memory()
                .read(bigiron_format::PhysAddr(self.address.0), &mut bytes)
                .map_err(Into::into),
        };
        read.map_err(|error| super::why_unread(&error.into()))?;
        let pointer = kernel.source().endian().u64(&bytes, 0).unwrap_or(0);
        if pointer == 0 {
            return Err(format!("the pointer at {} is NULL", self.address));
        }
        self.address = VirtAddr(pointer);
        self.space = Space::Virtual;
        self.type_id = Some(to);
        Ok(())
    }

    fn member(&mut self, name: &str) -> Result<(), String> {
        let error = |error: bigiron_kernel::KernelError| error.to_string();
        let (outer, _) = resolve(&self.types, self.known_type()?).map_err(error)?;
        let found = find_member(&self.types, outer, name).map_err(error)?;
        let member = found.ok_or_else(|| {
            let outer = declaration(&self.types, outer, "").unwrap_or_default();
            format!("{outer} has no member {name}")
        })?;
        self.address = VirtAddr(self.address.0.wrapping_add(member.offset));
        self.type_id = Some(member.type_id);
        self.bits = member.bits;
        Ok(())
    }

    fn element(&mut self, program: &Program, index: u64) -> Result<(), String> {
        let error = |error: bigiron_kernel::KernelError| error.to_string();
        let (_, found) = resolve(&self.types, self.known_type()?).map_err(error)?;
        let element = match found.shape {
            Shape::Array(_, count) if index >= count.max(1) && count > 0 => {
                return Err(format!("[{index}] of {count} elements"));
            }
            Shape::Array(element, _) => element,
            Shape::Pointer(to) => {
                self.dereference(program)?;
                to
            }
            _ => return Err("it is neither an array nor a pointer".into()),
        };
        let size = size_of(&self.types, element).map_err(error)?.unwrap_or(0);
        let distance = index.wrapping_mul(size);
        self.address = VirtAddr(self.address.0.wrapping_add(distance));
        self.type_id = Some(element);
        Ok(())
    }
}

/// Splits the text after its leading symbol or address. Symbols may contain dots: the longest
/// match counts.
fn split<'t>(program: &Program, text: &'t str, space: Space) -> (&'t str, &'t str) {
    let end = text.find(['+', '@', '[']).unwrap_or(text.len());
    let end = text.find("->").unwrap_or(end).min(end);
    let mut end = end;
    while space == Space::Virtual && program.symbols_named(&text[..end]).is_empty() {
        match text[..end].rfind('.') {
            Some(dot) => end = dot,
            None => break,
        }
    }
    if space == Space::Physical {
        end = text[..end].find('.').unwrap_or(end);
    }
    (text[..end].trim(), &text[end..])
}

fn start<'p>(program: &'p Program, name: &str) -> Result<Start<'p>, String> {
    let all: Vec<Located> = program.symbols_named(name);
    let is_global = |found: &&Located| found.symbol.kind.is_ascii_uppercase();
    let first = all.iter().find(is_global);
    let found = match (first, &all[..]) {
        (Some(found), _) | (None, [found]) => found,
        (None, []) => {
            let address = hexadecimal(name)
                .ok_or_else(|| format!("neither the kernel nor a module has a symbol {name}"))?;
            return Ok(Start {
                address: VirtAddr(address),
                types: program.types(),
                type_id: None,
                known: None,
                is_per_cpu: false,
            });
        }
        (None, many) => {
            let shown = many.iter().take(MAX_CHOICES);
            let addresses = shown.map(|found| found.symbol.address.to_string());
            let addresses = addresses.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "{} symbols have that name; give one's address: {addresses}",
                many.len()
            ));
        }
    };
    let own: &dyn TypeTable = program.types();
    let types = found.module.and_then(|module| {
        let mut tables = program.tables();
        tables.find_map(|(types, name)| (name == Some(module)).then_some(types))
    });
    let types = types.unwrap_or(own);
    let variable = types
        .variable(name, None)
        .map_err(|error| error.to_string())?;
    let own = variable.is_none() && found.module.is_none();
    Ok(Start {
        address: found.symbol.address,
        types,
        type_id: variable,
        known: own.then(|| known::type_of(name)).flatten(),
        is_per_cpu: is_per_cpu(program, found),
    })
}

/// Returns true for a per-CPU symbol: in the kernel's template of per-CPU data, or in that of a
/// module, which the kernel has allocated.
fn is_per_cpu(program: &Program, found: &Located) -> bool {
    let address = found.symbol.address.0;
    let modules = program.modules();
    let module = found.module.and_then(|name| modules.find(name));
    let (start, len) = match module {
        Some(module) => (
            program.value(module.address, "module", "percpu"),
            program.value(module.address, "module", "percpu_size"),
        ),
        None => {
            let end = program.symbol("__per_cpu_end");
            let start = program.symbol("__per_cpu_start").map(|start| start.0);
            let len = end.map(|end| end.0.saturating_sub(start.as_ref().copied().unwrap_or(0)));
            (start, len)
        }
    };
    let range = start.ok().zip(len.ok());
    range.is_some_and(|(start, len)| address.wrapping_sub(start) < len)
}

/// Parses an address or offset, with or without 0x.
fn hexadecimal(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Parses an index: decimal, or hexadecimal with 0x.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
