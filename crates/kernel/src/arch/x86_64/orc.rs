//! ORC unwind tables: for each kernel code address, how to find the caller's frame
//! (arch/x86/include/asm/orc_types.h, arch/x86/kernel/unwind_orc.c).
//!
//! The encoding of types depends on the width of the bit field: two bits until 6.3, with a bit
//! `end`, and three since 6.4 (commit fb799447ae29), with UNDEFINED and END_OF_STACK first. The
//! bit `signal` exists since 6.3 (commit ffb1b4a41016).

use bigiron_format::VirtAddr;

use super::super::stacks::{Reason, StackReader};
use crate::types::MemberLocation;

/// Maximum number of entries of a table; the kernel's has 500 000.
const MAX_ENTRIES: u64 = 64 << 20;

/// The base of a register's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Unspecified; for the frame pointer, unchanged.
    Undefined,
    /// The caller's stack pointer.
    PreviousSp,
    /// A register.
    Register(Register),
    /// Memory that a register points to.
    Indirect(Register),
}

/// Registers used as bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// rsp.
    Sp,
    /// rbp.
    Bp,
    /// r10, where the stack was realigned.
    R10,
    /// r13.
    R13,
    /// rdi.
    Di,
    /// rdx.
    Dx,
}

/// The data found at the caller's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing is known about this code.
    Undefined,
    /// No caller: a kernel entry, or the start of a thread.
    End,
    /// A return address.
    Call,
    /// All registers (struct pt_regs).
    Registers,
    /// Of struct pt_regs only what the processor pushes.
    PartialRegisters,
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Base of the caller's stack pointer.
    pub sp: Base,
    /// Offset from that base, in bytes.
    pub sp_offset: i64,
    /// Base of the caller's frame pointer.
    pub bp: Base,
    /// Offset from that base, in bytes.
    pub bp_offset: i64,
    /// The data found there.
    pub kind: Kind,
    /// True if the caller was interrupted and did not call.
    pub signal: bool,
}

impl Entry {
    /// Entry for code that keeps a frame pointer (orc_fp_entry).
    pub const FRAME_POINTER: Self = Self {
        sp: Base::Register(Register::Bp),
        sp_offset: 16,
        bp: Base::PreviousSp,
        bp_offset: -16,
        kind: Kind::Call,
        signal: false,
    };
    /// Entry for a call to address 0 (null_orc_entry).
    pub const NULL_CALL: Self = Self {
        sp: Base::Register(Register::Sp),
        sp_offset: 8,
        bp: Base::Undefined,
        bp_offset: 0,
        kind: Kind::Call,
        signal: false,
    };
}

/// Entries of one code range, by address.
#[derive(Clone, Copy, Debug)]
struct Table {
    /// An int per entry: the distance from itself to its code.
    ips: VirtAddr,
    entries: VirtAddr,
    count: u64,
}

/// Layout of an entry.
#[derive(Debug)]
struct Layout {
    size: u64,
    sp_offset: MemberLocation,
    bp_offset: MemberLocation,
    sp_reg: MemberLocation,
    bp_reg: MemberLocation,
    kind: MemberLocation,
    /// Types are encoded as since 6.4.
    has_end_type: bool,
    signal: Option<MemberLocation>,
    end: Option<MemberLocation>,
}

/// The tables of the kernel; those of modules are read on demand.
#[derive(Debug)]
pub struct Orc {
    layout: Layout,
    table: Table,
}

impl Orc {
    /// Finds the kernel's tables.
    ///
    /// # Errors
    ///
    /// The kernel has none (CONFIG_UNWINDER_ORC is off).
    pub fn of(kernel: &dyn StackReader) -> Result<Self, Reason> {
        let ips = symbol(kernel, "__start_orc_unwind_ip")?;
        let end = symbol(kernel, "__stop_orc_unwind_ip")?;
        let layout = Layout::of(kernel)?;
        let count = end.0.wrapping_sub(ips.0) / 4;
        if count == 0 || count > MAX_ENTRIES {
            return Err(Reason(format!(
                "the ORC tables are implausible: {count} entries, expected 1 to {MAX_ENTRIES}"
            )));
        }
        let table = Table {
            ips,
            entries: symbol(kernel, "__start_orc_unwind")?,
            count,
        };
        Ok(Self { layout, table })
    }

    /// Returns the entry for the code at `ip`; `None` if there is none, as for generated code.
    pub fn find(&self, kernel: &dyn StackReader, ip: VirtAddr) -> Result<Option<Entry>, Reason> {
        if ip.0 == 0 {
            return Ok(Some(Entry::NULL_CALL));
        }
        match self.entry_of(kernel, ip)? {
            Some(entry) => self.layout.read(kernel, entry).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the address of that entry.
    pub fn entry_of(
        &self,
        kernel: &dyn StackReader,
        ip: VirtAddr,
    ) -> Result<Option<VirtAddr>, Reason> {
        let Some(table) = self.table(kernel, ip)? else {
            return Ok(None);
        };
        let index = table.position(kernel, ip)?;
        let offset = index.map(|index| index.saturating_mul(self.layout.size));
        Ok(offset.map(|offset| VirtAddr(table.entries.0.wrapping_add(offset))))
    }

    /// Returns the table with the code at `ip`.
    fn table(&self, kernel: &dyn StackReader, ip: VirtAddr) -> Result<Option<Table>, Reason> {
        match kernel.module_at(ip.0) {
            Some(module) => self.of_module(kernel, module),
            None if is_code(kernel, ip) => Ok(Some(self.table)),
            None => Ok(None),
        }
    }

    fn of_module(
        &self,
        kernel: &dyn StackReader,
        module: VirtAddr,
    ) -> Result<Option<Table>, Reason> {
        let value = |path| kernel.value(module, "module", path);
        let count = value("arch.num_orcs")?;
        let table = Table {
            ips: VirtAddr(value("arch.orc_unwind_ip")?),
            entries: VirtAddr(value("arch.orc_unwind")?),
            count: count.min(MAX_ENTRIES),
        };
        Ok((table.count > 0 && table.ips.0 != 0 && table.entries.0 != 0).then_some(table))
    }
}

fn symbol(kernel: &dyn StackReader, name: &str) -> Result<VirtAddr, Reason> {
    let found = kernel.symbol(name);
    found.ok_or_else(|| missing(&format!("symbol {name}")))
}

fn missing(what: &str) -> Reason {
    Reason(format!("the kernel has no {what} (CONFIG_UNWINDER_ORC)"))
}

/// Returns true for an address of the kernel's own code.
fn is_code(kernel: &dyn StackReader, ip: VirtAddr) -> bool {
    let pairs = [("_stext", "_etext"), ("_sinittext", "_einittext")];
    pairs.iter().any(|(start, end)| {
        let bounds = (kernel.symbol(start), kernel.symbol(end));
        matches!(bounds, (Some(start), Some(end)) if (start.0..end.0).contains(&ip.0))
    })
}

impl Table {
    /// Finds the last entry at or before `ip`.
    fn position(&self, kernel: &dyn StackReader, ip: VirtAddr) -> Result<Option<u64>, Reason> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = self.ips.0.wrapping_add(4 * middle);
            let distance = kernel.half(at)?.cast_signed();
            let code = at.wrapping_add_signed(i64::from(distance));
            if code <= ip.0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.checked_sub(1))
    }
}

impl Layout {
    fn of(kernel: &dyn StackReader) -> Result<Self, Reason> {
        let member = |path: &str| {
            let found = kernel.locate("orc_entry", path)?;
            found.ok_or_else(|| missing(&format!("orc_entry.{path}")))
        };
        let kind = member("type")?;
        let size = kernel.size_of("orc_entry")?;
        Ok(Self {
            size: size.ok_or_else(|| missing("struct orc_entry"))?,
            sp_offset: member("sp_offset")?,
            bp_offset: member("bp_offset")?,
            sp_reg: member("sp_reg")?,
            bp_reg: member("bp_reg")?,
            has_end_type: kind.bits.is_none_or(|(_, bits)| bits >= 3),
            kind,
            signal: kernel.locate("orc_entry", "signal")?,
            end: kernel.locate("orc_entry", "end")?,
        })
    }

    fn read(&self, kernel: &dyn StackReader, at: VirtAddr) -> Result<Entry, Reason> {
        let value = |member: &MemberLocation| kernel.value_at(at, member);
        let flag = |member: &Option<MemberLocation>| match member {
            Some(member) => Ok::<_, Reason>(value(member)? != 0),
            None => Ok(false),
        };
        // s16.
        let offset = |member| Ok::<_, Reason>(i64::from((value(member)? as u16).cast_signed()));
        let sp = base(value(&self.sp_reg)?);
        let number = value(&self.kind)?;
        let kind = match (self.has_end_type, number) {
            (true, 1) => Kind::End,
            (true, 2) => Kind::Call,
            (true, 3) => Kind::Registers,
            (true, 4) => Kind::PartialRegisters,
            // Before 5.10 `end` was a separate bit, which counts only without a register.
            (false, _) if sp == Base::Undefined => match flag(&self.end)? {
                true => Kind::End,
                false => Kind::Undefined,
            },
            (false, 0) => Kind::Call,
            (false, 1) => Kind::Registers,
            (false, 2) => Kind::PartialRegisters,
            _ => Kind::Undefined,
        };
        Ok(Entry {
            sp,
            sp_offset: offset(&self.sp_offset)?,
            bp: base(value(&self.bp_reg)?),
            bp_offset: offset(&self.bp_offset)?,
            kind,
            signal: match &self.signal {
                Some(_) => flag(&self.signal)?,
                None => matches!(kind, Kind::Registers | Kind::PartialRegisters),
            },
        })
    }
}

/// ORC_REG_*, the same in all kernels.
fn base(number: u64) -> Base {
    match number {
        1 => Base::PreviousSp,
        2 => Base::Register(Register::Dx),
        3 => Base::Register(Register::Di),
        4 => Base::Register(Register::Bp),
        5 => Base::Register(Register::Sp),
        6 => Base::Register(Register::R10),
        7 => Base::Register(Register::R13),
        8 => Base::Indirect(Register::Bp),
        9 => Base::Indirect(Register::Sp),
        _ => Base::Undefined,
    }
}
