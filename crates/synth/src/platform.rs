//! The hardware of a machine, and the configuration of its kernel for it.

/// The hardware of a machine, and how its kernel is configured for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// Name of the architecture in a text.
    pub name: &'static str,
    /// log2 of the kernel's page size.
    pub page_shift: u32,
    /// Bits of virtual addresses for which the kernel was built.
    pub bits: u32,
    /// Bits of virtual addresses that the hardware has; fewer than `bits` for a kernel of 52
    /// bits on an arm64 machine without them.
    pub hardware_bits: u32,
    /// True for the hash MMU of ppc64.
    pub hash: bool,
    /// memstart_addr of arm64; `None` for the kernel's choice without randomization.
    pub memstart: Option<i64>,
}

impl Default for Platform {
    fn default() -> Self {
        Self {
            name: "x86_64",
            page_shift: 12,
            bits: 0,
            hardware_bits: 0,
            hash: false,
            memstart: None,
        }
    }
}

impl Platform {
    /// Returns the kernel's page size in bytes.
    pub fn page_size(&self) -> u64 {
        1 << self.page_shift
    }
}

/// Parses a size such as `4k` or `2m`; returns its log2.
pub(crate) fn size_shift(word: &str) -> Option<u32> {
    let lower = word.to_ascii_lowercase();
    let unit = match lower.chars().last()? {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => return None,
    };
    let number: u64 = lower[..lower.len() - 1].parse().ok()?;
    (number.is_power_of_two() && number < 1024).then(|| number.ilog2() + unit)
}
