//! Resolves erase commands to ranges of physical memory.
//!
//! The semantics are makedumpfile's (makedumpfile.conf(5)): a pointer is erased where it points
//! to, `char *` up to its NUL, an array and a struct as a whole.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use bigiron_format::VirtAddr;

use super::command::{Amount, Command, Erase, Problem};
use super::config::Config;
use super::elements;
use super::extent::extent;
use super::item::{EraseMemory, Item, Scope};
use super::ranges::{Blank, Blanks, ERASED};
use crate::symbols::Symbols;
use crate::types::TypeTable;

/// Bytes of the dump's memory that allow a command to read one more number or string, or to have
/// one more element or range: a list element has a pointer.
pub(super) const BYTES_PER_ELEMENT: u64 = 8;
/// Bytes of the dump's memory that allow one more page to be erased.
const BYTES_PER_PAGE: u64 = 4096;
/// Maximum number of erased ranges; each takes some 50 bytes.
pub(super) const MAX_RANGES: usize = 4 << 20;
/// Maximum size of the erase info in the dump.
const MAX_INFO: usize = 8 << 20;

/// The result of resolving the commands.
#[derive(Clone, Debug, Default)]
pub struct Erasure {
    /// The ranges of physical memory.
    pub blanks: Blanks,
    /// The erase info: one line per erased item, in makedumpfile's format.
    pub info: String,
    /// Commands that could not be resolved, completely or in part.
    pub problems: Vec<Problem>,
}

/// Resolves the commands of `config`. `types` holds the kernel's types; variables are at the
/// addresses of `symbols` minus `moved` (KASLR).
pub fn resolve(
    config: &Config,
    memory: &dyn EraseMemory,
    symbols: &Symbols,
    types: &dyn TypeTable,
    moved: u64,
) -> Erasure {
    let mut work = Work {
        scope: Scope::new(memory, symbols, types, moved),
        ranges: Vec::new(),
        by_address: HashMap::new(),
        lines: Vec::new(),
        problems: config.problems.clone(),
        reported: HashSet::new(),
        modules: HashSet::new(),
    };
    for (module, command) in &config.commands {
        if module != "vmlinux" {
            work.refuse_module(module, command);
            continue;
        }
        work.scope.renew_steps(BYTES_PER_ELEMENT);
        match command {
            Command::Erase(erase) => {
                let mut slot = None;
                work.erase(erase, None, &mut slot);
            }
            Command::Loop(command) => {
                let mut elements = Vec::new();
                let ended =
                    elements::for_each(&work.scope, command, &mut |item| elements.push(item));
                let mut slots = vec![None; command.erases().len()];
                // What was found of an endless list is erased.
                work.scope.renew_steps(BYTES_PER_ELEMENT);
                for item in elements {
                    for (erase, slot) in command.erases().iter().zip(&mut slots) {
                        work.erase(erase, Some(item), slot);
                    }
                }
                if let Err(text) = ended {
                    work.report(command.line, text);
                }
            }
        }
    }
    work.finish()
}

/// A range to erase.
struct EraseRange {
    address: u64,
    len: u64,
    byte: u8,
    line: usize,
    /// Its command, and its index within the command.
    slot: (usize, usize),
}

/// What one command erases: its expression, and the sizes; `None` for nullify.
struct Line {
    expression: String,
    sizes: Vec<Option<u64>>,
}

struct Work<'a> {
    scope: Scope<'a>,
    ranges: Vec<EraseRange>,
    /// Ranges by physical start address.
    by_address: HashMap<u64, usize>,
    lines: Vec<Line>,
    problems: Vec<Problem>,
    reported: HashSet<usize>,
    modules: HashSet<String>,
}

impl Work<'_> {
    /// Each problem is reported once per line, since all elements of a loop may have the same
    /// one.
    fn report(&mut self, line: usize, text: String) {
        if self.reported.insert(line) {
            self.problems.push(Problem { line, text });
        }
    }

    fn refuse_module(&mut self, module: &str, command: &Command) {
        if self.modules.insert(module.to_owned()) {
            let line = match command {
                Command::Erase(erase) => erase.line,
                Command::Loop(command) => command.line,
            };
            self.report(
                line,
                format!("symbols of modules are not read: section [{module}] is skipped"),
            );
        }
    }

    fn erase(&mut self, erase: &Erase, element: Option<Item>, slot: &mut Option<usize>) {
        match extent(&self.scope, erase, element) {
            Ok(Some((address, len))) => {
                if let Err(text) = self.add(erase, address, len, slot) {
                    self.report(erase.line, text);
                }
            }
            Ok(None) => {}
            Err(text) => self.report(erase.line, text),
        }
    }

    /// Adds a range. Ranges with the same start are the same item, and the longer one counts.
    fn add(
        &mut self,
        erase: &Erase,
        address: u64,
        len: u64,
        slot: &mut Option<usize>,
    ) -> Result<(), String> {
        let translated = self.scope.memory.translate(VirtAddr(address));
        let Some(leaf) = translated.map_err(super::item::text)? else {
            return Err(not_mapped(address));
        };
        if let Some(index) = self.by_address.get(&leaf.physical.0) {
            let range = &mut self.ranges[*index];
            if len > range.len {
                range.len = len;
                let (line, index) = range.slot;
                if let Some(size) = &mut self.lines[line].sizes[index] {
                    *size = len;
                }
            }
            return Ok(());
        }
        self.scope.step()?;
        if self.ranges.len() == MAX_RANGES {
            return Err(format!("more than {MAX_RANGES} ranges to erase"));
        }
        let lines = &mut self.lines;
        let line = *slot.get_or_insert_with(|| {
            lines.push(Line {
                expression: erase.target.text.clone(),
                sizes: Vec::new(),
            });
            lines.len() - 1
        });
        let nullify = erase.amount == Amount::Nullify;
        let sizes = &mut self.lines[line].sizes;
        sizes.push((!nullify).then_some(len));
        self.by_address.insert(leaf.physical.0, self.ranges.len());
        self.ranges.push(EraseRange {
            address,
            len,
            byte: if nullify { 0 } else { ERASED },
            line: erase.line,
            slot: (line, sizes.len() - 1),
        });
        Ok(())
    }

    fn finish(mut self) -> Erasure {
        let mut blanks = Vec::new();
        self.scope.renew_steps(BYTES_PER_PAGE);
        for range in std::mem::take(&mut self.ranges) {
            if let Err(text) = self.pages_of(&range, &mut blanks) {
                self.report(range.line, text);
            }
        }
        self.problems.sort_by_key(|problem| problem.line);
        Erasure {
            blanks: Blanks::new(blanks),
            info: self.info(),
            problems: self.problems,
        }
    }

    /// Splits a range into physical ranges page by page: virtually contiguous pages need not be
    /// physically contiguous.
    fn pages_of(&self, range: &EraseRange, blanks: &mut Vec<Blank>) -> Result<(), String> {
        let mut done = 0;
        let mut last: Option<Blank> = None;
        while done < range.len {
            let address = range.address.checked_add(done);
            let address = address.ok_or_else(|| not_mapped(range.address))?;
            let leaf = self.scope.memory.translate(VirtAddr(address));
            let found = match leaf {
                Ok(Some(leaf)) if leaf.len > 0 => leaf,
                Ok(_) => {
                    blanks.extend(last);
                    return Err(not_mapped(address));
                }
                Err(error) => {
                    blanks.extend(last);
                    return Err(super::item::text(error));
                }
            };
            let start = found.physical.0;
            let len = found.len.min(range.len - done);
            let end = start.saturating_add(len);
            match &mut last {
                Some(blank) if blank.end == start => blank.end = end,
                _ => blanks.extend(last.replace(Blank {
                    start,
                    end,
                    byte: range.byte,
                })),
            }
            done += len;
            if done < range.len
                && let Err(text) = self.scope.step()
            {
                blanks.extend(last);
                return Err(text);
            }
        }
        blanks.extend(last);
        Ok(())
    }

    fn info(&self) -> String {
        let mut text = String::new();
        let mut more = 0_u64;
        for line in &self.lines {
            for size in &line.sizes {
                if text.len() > MAX_INFO {
                    more += 1;
                    continue;
                }
                let _ = match size {
                    Some(size) => writeln!(text, "erase {} size {size}", line.expression),
                    None => writeln!(text, "erase {} nullify", line.expression),
                };
            }
        }
        if more > 0 {
            let _ = writeln!(text, "# and {more} more");
        }
        text
    }
}

fn not_mapped(address: u64) -> String {
    format!("address {address:#x} is not mapped")
}
