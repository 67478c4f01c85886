//! ORC unwind tables: for each kernel code address, how to find the caller's frame
//! (arch/x86/include/asm/orc_types.h, arch/x86/kernel/unwind_orc.c).
//!
//! The encoding of types depends on the width of the bit field: two bits until 6.3, with a bit
//! `end`, and three since 6.4 (commit fb799447ae29), with UNDEFINED and END_OF_STACK first. The
//! bit `signal` exists since 6.3 (commit ffb1b4a41016).

use bigiron_format::VirtAddr;
use bigiron_kernel::KernelError;
use bigiron_kernel::types::MemberLocation;

use crate::error::InspectError;
use crate::program::Program;

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
    kernel: Table,
}

impl Orc {
    /// Finds the kernel's tables.
    ///
    /// # Errors
    ///
    /// The kernel has none (CONFIG_UNWINDER_ORC is off).
    pub fn of(program: &Program) -> Result<Self, InspectError> {
        let option = "CONFIG_UNWINDER_ORC";
        let symbol = |name| {
            program
                .symbol(name)
                .map_err(|error| error.brought_by(option))
        };
        let ips = symbol("__start_orc_unwind_ip")?;
        let end = symbol("__stop_orc_unwind_ip")?;
        let layout = Layout::of(program).map_err(|error| error.brought_by(option))?;
        let count = end.0.wrapping_sub(ips.0) / 4;
        if count == 0 || count > MAX_ENTRIES {
            return Err(KernelError::Implausible {
                what: "the ORC tables".into(),
                found: format!("{count} entries"),
                expected: "1 to 67108864 entries",
            }
            .into());
        }
        let kernel = Table {
            ips,
            entries: symbol("__start_orc_unwind")?,
            count,
        };
        Ok(Self { layout, kernel })
    }

    /// Returns the entry for the code at `ip`; `None` if there is none, as for generated code.
    pub fn find(&self, program: &Program, ip: VirtAddr) -> Result<Option<Entry>, InspectError> {
        if ip.0 == 0 {
            return Ok(Some(Entry::NULL_CALL));
        }
        match self.entry_of(program, ip)? {
            Some(entry) => self.layout.read(program, entry).map(Some),
            None => Ok(None),
        }
    }

    /// Returns the address of that entry.
    pub fn entry_of(
        &self,
        program: &Program,
        ip: VirtAddr,
    ) -> Result<Option<VirtAddr>, InspectError> {
        let Some(table) = self.table(program, ip)? else {
            return Ok(None);
        };
        let index = table.position(program, ip)?;
        let offset = index.map(|index| index.saturating_mul(self.layout.size));
        Ok(offset.map(|offset| VirtAddr(table.entries.0.wrapping_add(offset))))
    }

    /// Returns the table with the code at `ip`.
    fn table(&self, program: &Program, ip: VirtAddr) -> Result<Option<Table>, InspectError> {
        match program.modules().at(ip) {
            Some((module, _)) => self.of_module(program, module.address),
            None if is_code(program, ip) => Ok(Some(self.kernel)),
            None => Ok(None),
        }
    }

    fn of_module(
        &self,
        program: &Program,
        module: VirtAddr,
    ) -> Result<Option<Table>, InspectError> {
        let count = program.value(module, "module", "arch.num_orcs")?;
        let table = Table {
            ips: program.pointer(module, "module", "arch.orc_unwind_ip")?,
            entries: program.pointer(module, "module", "arch.orc_unwind")?,
            count: count.min(MAX_ENTRIES),
        };
        Ok((table.count > 0 && table.ips.0 != 0 && table.entries.0 != 0).then_some(table))
    }
}

/// Returns true for an address of the kernel's own code.
fn is_code(program: &Program, ip: VirtAddr) -> bool {
    let pairs = [("_stext", "_etext"), ("_sinittext", "_einittext")];
    pairs.iter().any(|(start, end)| {
        let bounds = (program.symbol(start), program.symbol(end));
        matches!(bounds, (Ok(start), Ok(end)) if (start.0..end.0).contains(&ip.0))
    })
}

impl Table {
    /// Finds the last entry at or before `ip`.
    fn position(&self, program: &Program, ip: VirtAddr) -> Result<Option<u64>, InspectError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = VirtAddr(self.ips.0.wrapping_add(4 * middle));
            let distance = (program.number(at, 4)? as u32).cast_signed();
            let code = at.0.wrapping_add_signed(i64::from(distance));
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
    fn of(program: &Program) -> Result<Self, InspectError> {
        let member = |path: &str| program.locate("orc_entry", path);
        let kind = member("type")?;
        Ok(Self {
            size: program.size_of("orc_entry")?,
            sp_offset: member("sp_offset")?,
            bp_offset: member("bp_offset")?,
            sp_reg: member("sp_reg")?,
            bp_reg: member("bp_reg")?,
            has_end_type: kind.bits.is_none_or(|(_, bits)| bits >= 3),
            kind,
            signal: member("signal").ok(),
            end: member("end").ok(),
        })
    }

    fn read(&self, program: &Program, at: VirtAddr) -> Result<Entry, InspectError> {
        let value = |member: &MemberLocation| program.value_at(at, member);
        let flag = |member: &Option<MemberLocation>| match member {
            Some(member) => Ok::<_, InspectError>(value(member)? != 0),
            None => Ok(false),
        };
        // s16.
        let offset =
            |member| Ok::<_, InspectError>(i64::from((value(member)? as u16).cast_signed()));
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
