//! Frames on a kernel stack, and the registers that lead to the innermost one.

/// Distance of two frames, which is large enough for every architecture's minimum.
pub(crate) const FRAME: u64 = 192;

/// Distance of two return addresses.
pub(crate) const CALL: u64 = 64;

/// What a CPU's NT_PRSTATUS shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, if the architecture unwinds by it.
    pub fp: u64,
    /// Link register: the return address, if the architecture has one.
    pub lr: u64,
}

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
