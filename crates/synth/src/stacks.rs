//! Kernel stacks made by hand: the chain by which an architecture's unwinder goes from frame to
//! frame.

use crate::arch::Ground;
use crate::error::SynthError;
use crate::frames::{CALL, Stack};

/// Bytes of a kernel stack.
const STACK: u64 = 16 << 10;
/// Room between the outermost frame and the end of a stack, for registers.
const END: u64 = 512;
/// Distance of the first return addresses of two CPUs.
const CPU: u64 = 16;

/// The largest number of calls on a stack.
pub(crate) const MOST_CALLS: u64 = 32;

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
        let frames = spec.platform.arch().stack(spec, outermost, &calls);
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
