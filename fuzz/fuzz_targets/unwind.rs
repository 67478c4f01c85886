//! Unwinding on every architecture, over stacks and code that the input makes: a walk ends, within
//! the size of its stacks.
#![no_main]

use bigiron_format::VirtAddr;
use bigiron_format::bytes::Endian;
use bigiron_format::vmcoreinfo::Vmcoreinfo;
use bigiron_kernel::arch::ARCHITECTURES;
use bigiron_kernel::arch::stacks::{Function, Reason, StackReader, Walk};
use bigiron_kernel::types::{MemberLocation, TypeId};
use libfuzzer_sys::fuzz_target;

/// Where the words of the input are.
const STACK: u64 = 0xffff_8000_1000_0000;
/// Where functions are, and their size.
const TEXT: u64 = 0xffff_8000_8000_0000;
const FUNCTION: u64 = 64;
/// Functions that unwinders know, and others.
const FUNCTIONS: [&str; 11] = [
    "schedule",
    "el1h_64_irq",
    "handle_exception",
    "ret_from_exception",
    "ret_from_fork",
    "return_to_handler",
    "_start_kernel",
    "schedule.cold",
    "leaf",
    "kthread",
    "do_vint",
];
/// Most frames that are followed; x86-64's walk relies on a bound of its caller.
const MAX_FRAMES: usize = 4096;

struct Made<'a> {
    info: Vmcoreinfo,
    endian: Endian,
    words: Vec<u64>,
    code: &'a [u8],
    /// True if the kernel has all members.
    has_members: bool,
}

impl StackReader for Made<'_> {
    fn info(&self) -> &Vmcoreinfo {
        &self.info
    }

    fn endian(&self) -> Endian {
        self.endian
    }

    fn read(&self, what: &'static str, at: u64, buf: &mut [u8]) -> Result<(), Reason> {
        for (at, byte) in (0..buf.len() as u64)
            .map(|index| at.wrapping_add(index))
            .zip(buf)
        {
            *byte = self.byte(at).ok_or_else(|| Reason(what.into()))?;
        }
        Ok(())
    }

    fn symbol(&self, name: &str) -> Option<VirtAddr> {
        let index = FUNCTIONS.iter().position(|known| *known == name)?;
        Some(VirtAddr(TEXT + FUNCTION * index as u64))
    }

    fn function_at(&self, address: u64) -> Option<Function<'_>> {
        let index = address.checked_sub(TEXT)? / FUNCTION;
        let name = FUNCTIONS.get(usize::try_from(index).ok()?)?;
        Some(Function {
            name,
            start: TEXT + FUNCTION * index,
        })
    }

    fn module_at(&self, _: u64) -> Option<VirtAddr> {
        None
    }

    fn locate(&self, _: &str, path: &str) -> Result<Option<MemberLocation>, Reason> {
        Ok(self.has_members.then_some(MemberLocation {
            offset: 8 * (path.len() as u64 % 16),
            type_id: TypeId::VOID,
            bits: None,
        }))
    }

    fn value_at(&self, at: VirtAddr, member: &MemberLocation) -> Result<u64, Reason> {
        let mut bytes = [0; 8];
        self.read("a member", at.0.wrapping_add(member.offset), &mut bytes)?;
        Ok(self.endian.u64(&bytes, 0).unwrap_or(0))
    }

    fn size_of(&self, _: &str) -> Result<Option<u64>, Reason> {
        Ok(self.has_members.then_some(160))
    }
}

impl Made<'_> {
    fn byte(&self, at: u64) -> Option<u8> {
        if let Some(offset) = at.checked_sub(TEXT) {
            let size = FUNCTION * FUNCTIONS.len() as u64;
            let code = self.code.get(offset as usize % self.code.len().max(1));
            return (offset < size).then(|| code.copied().unwrap_or(0));
        }
        let offset = at.checked_sub(STACK)?;
        let word = self.words.get(usize::try_from(offset / 8).ok()?)?;
        let bytes = match self.endian {
            Endian::Little => word.to_le_bytes(),
            Endian::Big => word.to_be_bytes(),
        };
        bytes.get(offset as usize % 8).copied()
    }
}

/// Follows a walk, and returns the number of its frames.
fn follow(mut walk: Box<dyn Walk + '_>) -> usize {
    let mut frames = 0;
    while frames < MAX_FRAMES && walk.position().is_some() {
        frames += 1;
        if walk.step().is_err() {
            break;
        }
    }
    frames
}

// The first byte selects the architecture and the kernel, the second the length of the code. Of
// each other word the lowest bits tell whether it is an address on the stack or of code.
fuzz_target!(|data: &[u8]| {
    let [form, code, rest @ ..] = data else {
        return;
    };
    let (code, rest) = rest.split_at(usize::from(*code).min(rest.len()));
    let architecture = &ARCHITECTURES[usize::from(form & 7) % ARCHITECTURES.len()];
    let Some(stacks) = architecture.stacks else {
        return;
    };
    let size = rest.len() as u64 & !7;
    let words = rest.chunks_exact(8).map(|bytes| {
        let word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        match word & 3 {
            1 => STACK + ((word >> 2) % size & !7),
            2 => TEXT + (word >> 2) % (FUNCTION * FUNCTIONS.len() as u64),
            3 => word >> 61,
            _ => word,
        }
    });
    let kernel = Made {
        info: Vmcoreinfo::parse(b"NUMBER(KERNELPACMASK)=0x7f000000000000\n", 0).expect("a text"),
        endian: if form & 8 == 0 {
            Endian::Little
        } else {
            Endian::Big
        },
        words: words.collect(),
        code,
        has_members: form & 16 == 0,
    };
    let unwind = stacks.of(&kernel);
    // A frame has at least two words, a stack can be entered nine times, and between two frames
    // there may be one that has only registers.
    let most = (9 * 2 * (size as usize / 8 + 2)).min(MAX_FRAMES);
    let is_bounded = architecture.name != "x86_64";
    let registers: Vec<u8> = (0..size.min(512))
        .filter_map(|at| kernel.byte(STACK + at))
        .collect();
    if let Some(walk) = unwind.of_cpu(&kernel, &registers, kernel.endian) {
        let frames = follow(walk);
        assert!(!is_bounded || frames <= most, "{frames} frames");
    }
    if let Ok(walk) = unwind.of_sleeper(&kernel, VirtAddr(STACK)) {
        let frames = follow(walk);
        assert!(!is_bounded || frames <= most, "{frames} frames");
    }
});
