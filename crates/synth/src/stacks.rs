//! Kernel stacks made by hand: the chain by which an architecture's unwinder goes from frame to
//! frame.

use crate::arch::{Ground, Registers};
use crate::error::SynthError;

/// Bytes of a kernel stack.
const STACK: u64 = 16 << 10;
/// Distance of two frames, which is large enough for every architecture's minimum.
const FRAME: u64 = 192;
/// Room between the outermost frame and the end of a stack, for registers.
const END: u64 = 512;
/// Distance of two return addresses, and of the first ones of two CPUs.
const CALL: u64 = 64;
const CPU: u64 = 16;

/// The largest number of calls on a stack.
pub(crate) const MOST_CALLS: u64 = 32;

/// A stack to write.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Words by their address.
    pub(crate) words: Vec<(u64, u64)>,
    pub(crate) registers: Registers,
}

/// A stack that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) registers: Registers,
    pub(crate) calls: Vec<u64>,
}

/// Writes the stack of each CPU in the linear map, if the machine has stacks.
pub(crate) fn write(ground: &mut Ground<'_>) -> Result<Vec<Stack>, SynthError> {
    let spec = ground.spec;
    if spec.options.stack == 0 {
        return Ok(Vec::new());
    }
    let mut stacks = Vec::new();
    for cpu in 0..u64::from(spec.options.cpus) {
        let paddr = ground.pages(STACK.div_ceil(ground.layout.page_size))?;
        let text = ground.layout.stext() + CALL + cpu % 4 * CPU;
        let calls: Vec<_> = (0..spec.options.stack)
            .map(|index| text + index * CALL)
            .collect();
        let outermost = ground.layout.direct(paddr) + STACK - END;
        let frames = spec.platform.arch.stack(spec, outermost, &calls);
        for (vaddr, value) in frames.words {
            let paddr = ground.layout.direct_paddr(vaddr);
            ground.memory.write_u64(paddr, value)?;
        }
        stacks.push(Stack {
            registers: frames.registers,
            calls,
        });
    }
    Ok(stacks)
}

/// Returns the address of each call's frame, the innermost first; the last one is `outermost`.
pub(crate) fn frame_addresses(outermost: u64, calls: &[u64]) -> Vec<u64> {
    let count = calls.len() as u64;
    (1..=count)
        .map(|index| outermost - (count - index) * FRAME)
        .collect()
}

/// Returns a stack with frame records {frame pointer of the caller, return address}, at this
/// offset from each frame pointer. The last record is {0, 0}. `sign` turns a return address into
/// what is stored.
pub(crate) fn frame_records(
    outermost: u64,
    calls: &[u64],
    offset: i64,
    sign: impl Fn(usize, u64) -> u64,
) -> Frames {
    let pointers = frame_addresses(outermost, calls);
    let mut words = Vec::new();
    for (index, pointer) in pointers.iter().enumerate() {
        let record = pointer.wrapping_add_signed(offset);
        let next = pointers.get(index + 1).copied().unwrap_or(0);
        let address = calls.get(index + 1).map_or(0, |call| sign(index, *call));
        words.extend([(record, next), (record + 8, address)]);
    }
    let innermost = pointers.first().copied().unwrap_or(outermost);
    Frames {
        words,
        registers: Registers {
            pc: calls.first().copied().unwrap_or(0),
            sp: innermost - FRAME / 2,
            fp: innermost,
            lr: calls.get(1).copied().unwrap_or(0),
        },
    }
}
