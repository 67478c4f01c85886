//! What a machine check of x86 says: the bits of IA32_MCi_STATUS that the architecture defines
//! (Intel's Software Developer's Manual, volume 3, chapter "Machine-Check Architecture": figure
//! "IA32_MCi_STATUS Register" and the table of compound error codes).
//! AMD's are the same for caches, TLBs, buses and memory.

/// VAL, OVER, UC, EN, MISCV, ADDRV and PCC.
const VALID: u64 = 1 << 63;
const OVERFLOW: u64 = 1 << 62;
const UNCORRECTED: u64 = 1 << 61;
const ADDRESS_VALID: u64 = 1 << 58;
const CONTEXT_CORRUPT: u64 = 1 << 57;
/// The bit of a code that says that corrections are filtered.
const FILTERED: u16 = 1 << 12;
/// Levels (LL), transactions (TT), requests (RRRR), participants (PP), and operations of memory
/// (MMM).
const LEVELS: [&str; 4] = ["level 0", "level 1", "level 2", "any level"];
const TRANSACTIONS: [&str; 4] = ["instructions", "data", "anything", "anything"];
const REQUESTS: [&str; 9] = [
    "an error",
    "a read",
    "a write",
    "a read of data",
    "a write of data",
    "a fetch of instructions",
    "a prefetch",
    "an eviction",
    "a snoop",
];
const PARTICIPANTS: [&str; 4] = [
    "by the processor",
    "answered by the processor",
    "observed by the processor",
    "of any processor",
];
const OPERATIONS: [&str; 5] = [
    "an undefined operation",
    "a read",
    "a write",
    "an address or command",
    "a scrub",
];

/// The value of IA32_MCi_STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u64);

impl Status {
    /// True if the hardware could not correct the error.
    pub fn is_uncorrected(self) -> bool {
        self.0 & UNCORRECTED != 0
    }

    /// True if the address register of the bank is that of the error.
    pub fn has_address(self) -> bool {
        self.0 & ADDRESS_VALID != 0
    }

    /// The flags in words: `uncorrected, with its address, the processor's context is corrupt`.
    pub fn flags(self) -> String {
        let mut words = vec![match self.is_uncorrected() {
            true => "uncorrected",
            false => "corrected",
        }];
        if self.has_address() {
            words.push("with its address");
        }
        if self.0 & CONTEXT_CORRUPT != 0 {
            words.push("the processor's context is corrupt");
        }
        if self.0 & OVERFLOW != 0 {
            words.push("and there were more");
        }
        if self.0 & VALID == 0 {
            words.push("but not marked as valid");
        }
        words.join(", ")
    }

    /// The kind of error in words, by the lowest 16 bits.
    pub fn error(self) -> String {
        let code = (self.0 & 0xffff) as u16;
        simple(code)
            .map(str::to_owned)
            .unwrap_or_else(|| compound(code & !FILTERED))
    }
}

fn simple(code: u16) -> Option<&'static str> {
    Some(match code {
        0 => "no error",
        1 => "an unclassified error",
        2 => "a parity error in the microcode",
        3 => "an external error",
        4 => "an error of functional redundancy checking",
        5 => "an internal parity error",
        6 => "a violation by the code of system management mode",
        0x0400 => "an internal timer ran out: the processor did not get on",
        0x0e0b => "a generic I/O error",
        _ => return None,
    })
}

/// The codes are told apart by their highest bit that is set.
fn compound(code: u16) -> String {
    let pick = |names: &[&'static str], index: u16| -> &'static str {
        names.get(usize::from(index)).copied().unwrap_or("unknown")
    };
    let level = pick(&LEVELS, code & 3);
    let transaction = pick(&TRANSACTIONS, code >> 2 & 3);
    let request = pick(&REQUESTS, code >> 4 & 15);
    let memory = || {
        let operation = pick(&OPERATIONS, code >> 4 & 7);
        match code & 15 {
            15 => format!("{operation}, channel unknown"),
            channel => format!("{operation}, channel {channel}"),
        }
    };
    match code {
        0x000c..=0x000f => format!("a cache error, {level}"),
        0x0010..=0x001f => format!("a TLB error, {transaction}, {level}"),
        0x0080..=0x00ff => format!("an error of the memory controller: {}", memory()),
        0x0100..=0x01ff => format!("a cache error: {request} ({transaction}, {level})"),
        0x0280..=0x02ff => format!("an error of memory used as cache: {}", memory()),
        0x0400..=0x07ff => "an internal error".to_owned(),
        0x0800..=0x0fff => {
            let participant = pick(&PARTICIPANTS, code >> 9 & 3);
            let time = match code & 1 << 8 {
                0 => "",
                _ => ", after a timeout",
            };
            let place = match code >> 2 & 3 {
                0 => "memory",
                2 => "I/O",
                _ => "the bus",
            };
            format!("a bus or interconnect error: {request} of {place} {participant}{time}")
        }
        _ => format!("the unknown error code {code:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_codes_are_those_of_the_architecture() {
        // Recorded by a processor of QEMU, and examples of Intel's and AMD's manuals.
        for (status, flags, error) in [
            (
                0xbe00_0000_0000_0134,
                "uncorrected, with its address, the processor's context is corrupt",
                "a cache error: a read of data (data, level 0)",
            ),
            (
                0xcc00_0080_0001_0090,
                "corrected, with its address, and there were more",
                "an error of the memory controller: a read, channel 0",
            ),
            (
                0xb200_0000_8000_0400,
                "uncorrected, the processor's context is corrupt",
                "an internal timer ran out: the processor did not get on",
            ),
            (
                0x8000_0000_0000_1152,
                "corrected",
                "a cache error: a fetch of instructions (instructions, level 2)",
            ),
            (
                0x9000_0000_0000_0014,
                "corrected",
                "a TLB error, data, level 0",
            ),
            (
                0xb200_0000_0000_0e0f,
                "uncorrected, the processor's context is corrupt",
                "a bus or interconnect error: an error of the bus of any processor",
            ),
            (
                1,
                "corrected, but not marked as valid",
                "an unclassified error",
            ),
            (
                0x8000_0000_0000_2000,
                "corrected",
                "the unknown error code 0x2000",
            ),
        ] {
            let status = Status(status);
            assert_eq!(
                (status.flags().as_str(), status.error().as_str()),
                (flags, error)
            );
        }
    }
}
