//! What a task waits for in one of the kernel's shared wait queues: a bit of a page, of a buffer,
//! or of any word.
//!
//! The entry in the queue is the member of a larger structure on the stack, which its function
//! tells: struct wait_page_queue for wake_page_function (mm/filemap.c), struct
//! wait_bit_queue_entry for wake_bit_function and var_wake_function (kernel/sched/wait_bit.c).

use bigiron_format::VirtAddr;

use super::kind::WaitKind;
use crate::error::InspectError;
use crate::program::Program;

/// PG_locked and BH_Lock, if the kernel's types do not name them.
const PG_LOCKED: u64 = 0;
const BH_LOCK: u64 = 2;

/// A bit that a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedBit {
    /// Kind: a page, a bit, or a variable.
    pub kind: WaitKind,
    /// The folio, or the word.
    pub object: VirtAddr,
    /// Number of the bit; `None` of a variable.
    pub bit: Option<u64>,
}

impl AwaitedBit {
    /// Reads what the entry `waiter` of a wait queue is for; `None` if it is for the queue.
    pub fn of(program: &Program, waiter: VirtAddr) -> Option<Self> {
        let function = program.pointer(waiter, "wait_queue_entry", "func").ok()?;
        let name = program.symbol_at(function)?.symbol.name;
        if name.starts_with("wake_page_function") {
            return of_page(program, waiter).ok();
        }
        let is_bit = name.starts_with("wake_bit_function");
        if is_bit || name.starts_with("var_wake_function") {
            return of_word(program, waiter, is_bit).ok();
        }
        None
    }

    /// Returns true for the bit of a word that may be the state of a buffer_head.
    pub fn may_be_buffer(&self, program: &Program) -> bool {
        self.kind == WaitKind::Bit && self.is(program, "BH_Lock", Some(BH_LOCK))
    }

    /// Returns true if it is the bit of an enumerator, or else the usual one.
    fn is(&self, program: &Program, name: &str, usual: Option<u64>) -> bool {
        let known = program.enumerator(name).ok().flatten();
        let known = known.and_then(|value| u64::try_from(value).ok());
        self.bit.is_some() && known.or(usual) == self.bit
    }

    /// Its state in words.
    pub fn state(&self, program: &Program) -> Option<String> {
        let bit = self.bit?;
        let word = match self.kind {
            WaitKind::Page if self.is(program, "PG_locked", Some(PG_LOCKED)) => "locked",
            WaitKind::Page if self.is(program, "PG_writeback", None) => "written back",
            WaitKind::Buffer => "locked",
            _ => return Some(self.numbered(program, bit)),
        };
        Some(match self.is_set(program, bit) {
            Some(false) => format!("not {word} any more"),
            _ => word.to_owned(),
        })
    }

    fn numbered(&self, program: &Program, bit: u64) -> String {
        let set = match self.is_set(program, bit) {
            Some(true) => "set",
            Some(false) => "clear",
            None => "not known",
        };
        format!("bit {bit} is {set}")
    }

    /// The flags of a page and of a buffer are its first word.
    fn is_set(&self, program: &Program, bit: u64) -> Option<bool> {
        let at = self.object.0.checked_add(bit / 64 * 8)?;
        let word = program.number(VirtAddr(at), 8).ok()?;
        Some(word >> (bit % 64) & 1 != 0)
    }
}

fn of_page(program: &Program, waiter: VirtAddr) -> Result<AwaitedBit, InspectError> {
    const QUEUE: &str = "wait_page_queue";
    let queue = outer(program, waiter, QUEUE, "wait")?;
    // `page` until 5.15 (commit df4d4f127394).
    let member = match program.has(QUEUE, "folio") {
        true => "folio",
        false => "page",
    };
    Ok(AwaitedBit {
        kind: WaitKind::Page,
        object: program.pointer(queue, QUEUE, member)?,
        bit: Some(program.value(queue, QUEUE, "bit_nr")?),
    })
}

fn of_word(program: &Program, waiter: VirtAddr, is_bit: bool) -> Result<AwaitedBit, InspectError> {
    const ENTRY: &str = "wait_bit_queue_entry";
    let entry = outer(program, waiter, ENTRY, "wq_entry")?;
    Ok(AwaitedBit {
        kind: match is_bit {
            true => WaitKind::Bit,
            false => WaitKind::Variable,
        },
        object: program.pointer(entry, ENTRY, "key.flags")?,
        bit: match is_bit {
            true => Some(program.value(entry, ENTRY, "key.bit_nr")?),
            false => None,
        },
    })
}

/// The structure whose member `path` is at `at`.
fn outer(
    program: &Program,
    at: VirtAddr,
    name: &str,
    path: &str,
) -> Result<VirtAddr, InspectError> {
    let offset = program.locate(name, path)?.offset;
    Ok(VirtAddr(at.0.wrapping_sub(offset)))
}
