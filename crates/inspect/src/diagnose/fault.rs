//! The fault that stopped a kernel: its address and the registers, as the kernel printed them.

use bigiron_format::VirtAddr;

use super::failed_instruction;
use super::finding::Finding;
use super::log::LogLines;
use crate::crash::Event;
use crate::instruction::{Failed, Instruction, Registers, address_of};
use crate::program::Program;
use crate::slab_object::{SlabObject, SlabObjects};
use crate::tasks::{Task, Tasks};
use crate::waits::TaskName;

/// Distance of an address from the pointer that it was made of: members of a struct.
const MAX_OFFSET: u64 = 64 << 10;
/// Maximum number of registers.
const MAX_REGISTERS: usize = 64;
/// Maximum number of bytes of an instruction and those after it.
const MAX_CODE: usize = 64;
/// Calls shown.
const SHOWN: usize = 8;

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The first line of its report.
    pub message: String,
    /// The function, `function+offset/size [module]`.
    pub instruction: Option<String>,
    /// Its callers.
    pub trace: Vec<String>,
    /// The address that could not be accessed.
    pub address: Option<u64>,
    /// The registers, by name.
    pub registers: Vec<(String, u64)>,
    /// The bytes at the instruction; empty if the kernel printed none.
    pub code: Vec<u8>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// PID and name of the task.
    pub task: Option<(u32, String)>,
}

impl Fault {
    /// Reads the fault of a log; `None` if there was none.
    pub fn of(log: &LogLines) -> Option<Self> {
        let event: &Event = log.fault()?;
        let report = log.report_of(event);
        let panic = log.crash.panic.as_ref();
        let trace = match (event.trace.is_empty(), panic) {
            (true, Some(panic)) => &panic.trace,
            _ => &event.trace,
        };
        Some(Self {
            address: report.iter().take(4).find_map(|line| address(line)),
            registers: registers(&report),
            code: report
                .iter()
                .find_map(|line| code(line))
                .unwrap_or_default(),
            message: event.message.clone(),
            instruction: event.instruction.clone(),
            trace: trace
                .iter()
                .filter(|call| !call.starts_with("? "))
                .cloned()
                .collect(),
            cpu: event.cpu,
            task: event.pid.zip(event.command.clone()),
        })
    }

    /// Where it happened, in words.
    pub fn place(&self) -> &str {
        self.instruction
            .as_deref()
            .or_else(|| self.trace.first().map(String::as_str))
            .unwrap_or("an unknown function")
    }

    /// Returns what is within a small distance of `pattern`: the address of the fault, then the
    /// registers.
    pub fn near(&self, pattern: u64) -> Option<(String, u64)> {
        let is_near = |value: u64| value.abs_diff(pattern) < MAX_OFFSET;
        let address = self.address.filter(|address| {
            is_near(*address) || address.abs_diff(untagged(pattern)) < MAX_OFFSET
        });
        let registers = || self.registers.iter().find(|(_, value)| is_near(*value));
        // A register may have a pattern in it that has nothing to do with the fault; that of
        // the address is used if it is known and no pattern is near.
        match (address, self.address) {
            (Some(address), _) => Some(("the address".into(), address)),
            (None, None) => registers().cloned(),
            (None, Some(_)) => None,
        }
    }

    /// Adds what is known of the fault to a finding.
    pub fn describe(&self, program: &Program, mut finding: Finding) -> Finding {
        finding = finding.because(format!("the log: {}", self.message));
        let place = self.instruction.as_deref();
        finding.failed_at = place.and_then(|place| address_of(program, place));
        if let Some(instruction) = self.failed(program) {
            finding = failed_instruction::describe(program, finding, instruction);
        }
        finding = finding.called_by(self.trace.iter().take(SHOWN));
        if !self.registers.is_empty() {
            let registers = self.registers.iter();
            let registers: Vec<String> = registers
                .map(|(name, value)| format!("{name} {value:#x}"))
                .collect();
            finding = finding.because(format!("registers: {}", registers.join(", ")));
        }
        if let Some(cpu) = self.cpu {
            finding = finding.cpu(cpu as usize);
        }
        if let Some((pid, name)) = &self.task {
            let task = task_by_pid(program, *pid);
            if let Some(task) = task.filter(|task| task.name == *name) {
                finding = finding.task(&TaskName::of(&task));
            }
        }
        if let Some(address) = self.address {
            finding = finding.place(program, "the address", VirtAddr(address));
        }
        finding
            .more("bigiron info --backtrace DUMP")
            .more("bigiron dmesg DUMP")
    }

    /// The instruction.
    fn failed(&self, program: &Program) -> Option<Instruction> {
        Instruction::of(
            &program.renewed(),
            &Failed {
                place: self.instruction.as_deref()?,
                bytes: &self.code,
                registers: &Registers::new(&self.registers),
                address: self.address,
            },
        )
    }

    /// Returns the slab objects that registers point into, with the names of the registers.
    pub fn objects(&self, slabs: &SlabObjects) -> Vec<(String, SlabObject)> {
        let mut found: Vec<(String, SlabObject)> = Vec::new();
        for (name, value) in &self.registers {
            if let Some(object) = slabs.at(VirtAddr(*value))
                && !found.iter().any(|(_, known)| known.start == object.start)
            {
                found.push((name.clone(), object));
            }
        }
        found
    }
}

/// Returns an address as arm64 prints that of a fault: without its top byte, the tag, if it is one
/// of user space by bit 55 (untagged_addr, arch/arm64/include/asm/memory.h).
fn untagged(address: u64) -> u64 {
    /// Bits above that which tells addresses of user space and of the kernel apart.
    const TAG_BITS: u32 = 8;
    address & ((address << TAG_BITS).cast_signed() >> TAG_BITS).cast_unsigned()
}

/// Returns the task with a PID.
fn task_by_pid(program: &Program, pid: u32) -> Option<Task> {
    let tasks = Tasks::of(&program.renewed()).ok()?.tasks;
    tasks
        .into_iter()
        .find(|task| u32::try_from(task.pid) == Ok(pid) && !task.idle)
}

/// Returns the address in the first lines of a report, as `address: 0000000000000018`, `address
/// dead000000000108`, or `access at 0x18`.
fn address(line: &str) -> Option<u64> {
    let rest = [
        "address: ",
        "address ",
        "data access at ",
        "data access on read at ",
    ]
    .iter()
    .find_map(|word| Some(line.split_once(word)?.1))?;
    let rest = rest.trim_start_matches("0x");
    let end = rest
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    (end >= 8).then(|| u64::from_str_radix(rest.get(..end)?, 16).ok())?
}

/// Returns the registers in a report, `RAX: 0000000000000dc0 RBX: ffff8af74133e7c0` or `x1 :
/// ffff000003a51980`; of each the first value.
pub(super) fn registers(report: &[&str]) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> = Vec::new();
    for line in report {
        if line.starts_with("---[ end trace") {
            break;
        }
        // The syndrome, which looks like a register: `Internal error: Oops: 0000000096000004`.
        if line.starts_with("Internal error:") {
            continue;
        }
        let line = line.replace(" :", ":");
        let mut words = line.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_suffix(':') else {
                continue;
            };
            let Some(value) = words.peek() else { continue };
            // The stack pointer has its segment before it: RSP: 0018:ffffd248403f3f08.
            let value = value.rsplit(':').next().unwrap_or(value);
            let is_name =
                (2..=4).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric());
            if !is_name || value.len() != 16 || found.len() == MAX_REGISTERS {
                continue;
            }
            if let Ok(value) = u64::from_str_radix(value, 16)
                && !found.iter().any(|(known, _)| known == name)
            {
                found.push((name.to_owned(), value));
            }
        }
    }
    found
}

/// Returns the bytes from the instruction on, as x86 prints them: `Code: 47 10 <48> 8b 40 18`.
fn code(line: &str) -> Option<Vec<u8>> {
    let bytes = line.strip_prefix("Code: ")?.split_once('<')?.1;
    let bytes = bytes.split(' ').map(|byte| byte.trim_end_matches('>'));
    let bytes = bytes.take(MAX_CODE);
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_read_as_each_architecture_prints_it() {
        for (line, expected) in [
            (
                "BUG: kernel NULL pointer dereference, address: 0000000000000018",
                0x18,
            ),
            (
                "BUG: unable to handle page fault for address: ffffae920297f218",
                0xffff_ae92_0297_f218,
            ),
            (
                "general protection fault, probably for non-canonical address \
                 0xdead000000000100: 0000 [#1] PREEMPT SMP",
                0xdead_0000_0000_0100,
            ),
            (
                "Unable to handle kernel paging request at virtual address dead000000000108",
                0xdead_0000_0000_0108,
            ),
            (
                "BUG: Unable to handle kernel data access at 0xc00000001",
                0xc_0000_0001,
            ),
        ] {
            assert_eq!(address(line), Some(expected), "{line}");
        }
        assert_eq!(address("kernel BUG at mm/slub.c:435!"), None);
    }

    #[test]
    fn pattern_is_found_in_an_address_without_its_tag() {
        let fault = |address| Fault {
            message: String::new(),
            instruction: None,
            trace: Vec::new(),
            address: Some(address),
            registers: vec![("x0".into(), 0x6b6b_6b6b_6b6b_6b6b)],
            code: Vec::new(),
            cpu: None,
            task: None,
        };
        const FREED: u64 = 0x6b6b_6b6b_6b6b_6b6b;
        for (address, pattern) in [
            (0x006b_6b6b_6b6b_6b83, FREED),
            (0x6b6b_6b6b_6b6b_6b83, FREED),
            (0xdead_0000_0000_0108, 0xdead_0000_0000_0100),
        ] {
            let expected = Some(("the address".to_owned(), address));
            assert_eq!(fault(address).near(pattern), expected, "{address:#x}");
        }
        for address in [0x18, 0x00ad_0000_0000_0108, 0xff6b_6b6b_6b6b_6b83] {
            assert_eq!(fault(address).near(FREED), None, "{address:#x}");
            assert_eq!(
                fault(address).near(0xdead_0000_0000_0100),
                None,
                "{address:#x}"
            );
        }
    }

    #[test]
    fn bytes_are_read_from_the_instruction_on() {
        let line = "Code: 1f 44 00 00 48 8b 47 10 <48> 8b 40 18 c3";
        assert_eq!(code(line), Some(vec![0x48, 0x8b, 0x40, 0x18, 0xc3]));
        assert_eq!(code("Code: Unable to access opcode bytes at 0x0."), None);
        assert_eq!(code("Code: f9400000 <f9000001>"), None);
    }

    #[test]
    fn registers_are_read_with_their_first_values() {
        let report = [
            "RIP: 0010:use+0x9/0x20 [faults]",
            "RSP: 0018:ffffd248403f3f08 EFLAGS: 00000282",
            "RAX: 0000000000000000 RBX: ffff8af7428e0ac0 RCX: 0000000000000001",
            "Internal error: Oops: 0000000096000004 [#1] SMP",
            "x1 : ffff000003a51980 x0 : 6b6b6b6b6b6b6b6b",
            "RAX: 0000000000000001",
            "---[ end trace 0000000000000000 ]---",
            "RDX: 0000000000000001",
        ];
        let found = registers(&report);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["RSP", "RAX", "RBX", "RCX", "x1", "x0"]);
        assert_eq!((found[0].1, found[1].1), (0xffff_d248_403f_3f08, 0));
    }
}
