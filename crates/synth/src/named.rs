//! A machine of any architecture with symbols, types, and data that a test puts into its pages.

use std::ops::Range;

use crate::error::SynthError;
use crate::kallsyms;
use crate::machine::Machine;
use crate::order::ByteOrder;

/// Alignment of the data.
const ALIGNMENT: u64 = 64;

/// A machine, and a run of its page frames that is filled with data.
#[derive(Debug)]
pub struct NamedMachine {
    machine: Machine,
    /// Physical addresses that are left.
    room: Range<u64>,
}

impl NamedMachine {
    /// Takes the run of the text that names `pfn` for the data; the run should be of a class that
    /// no dump level excludes.
    ///
    /// # Errors
    /// If the text names no such run.
    pub fn new(machine: Machine, pfn: u64) -> Result<Self, SynthError> {
        let run = machine
            .run(pfn)
            .ok_or_else(|| SynthError::layout(format!("no run contains page frame {pfn:#x}")))?;
        let (frames, size) = (run.frames(), machine.page_size());
        let room = frames.start * size..frames.end * size;
        Ok(Self { machine, room })
    }

    /// Returns the machine.
    pub fn machine(self) -> Machine {
        self.machine
    }

    /// Returns the order of words in memory.
    pub fn order(&self) -> ByteOrder {
        self.machine.order()
    }

    /// Returns the address of the next item, in the direct map.
    pub fn next(&self) -> u64 {
        self.machine.page_offset().wrapping_add(self.room.start)
    }

    /// Adds data; returns its address.
    ///
    /// # Errors
    /// If the run is full.
    pub fn put(&mut self, bytes: &[u8]) -> Result<u64, SynthError> {
        let (at, address) = (self.room.start, self.next());
        let end = at + (bytes.len() as u64).next_multiple_of(ALIGNMENT);
        if end > self.room.end {
            return Err(SynthError::layout("the run of the data is full"));
        }
        self.machine.write(at, bytes)?;
        self.room.start = end;
        Ok(address)
    }

    /// Adds kallsyms and a table of types, which may be [`TinyTypes`](crate::TinyTypes), and tells
    /// VMCOREINFO where they are. Each item of `symbols`
    /// has the letter and name of a symbol, and its address.
    ///
    /// # Errors
    /// If the run is full.
    pub fn names(&mut self, types: &[u8], symbols: &[(&str, u64)]) -> Result<(), SynthError> {
        let start = self.put(types)?;
        let (image, _) = self.machine.image();
        let mut all = vec![
            ("D__start_BTF", start),
            ("D__stop_BTF", start + types.len() as u64),
            ("T_text", image.start),
            ("T_stext", image.start),
            ("B_end", image.end),
        ];
        all.extend(symbols);
        for (name, bytes) in kallsyms::tables(&all, self.order()) {
            let address = self.put(&bytes)?;
            self.machine
                .add_info(&format!("SYMBOL({name})={address:x}\n"));
        }
        Ok(())
    }
}
