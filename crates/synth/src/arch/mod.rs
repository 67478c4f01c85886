//! The architectures that can be imitated. Each one is a file and a line of [`ALL`].

mod arm64;
mod contract;
mod loongarch64;
mod options;
mod ppc64;
mod riscv64;
mod s390x;
mod x86_64;

pub(crate) use contract::{Architecture, Block, Ground};
pub(crate) use x86_64::sme_mask;

use crate::error::SynthError;
use crate::order::ByteOrder;
use crate::platform::{Platform, size_shift};
use crate::spec::Leaf;

/// Names in a text, and the architectures.
static ALL: [(&str, &dyn Architecture); 7] = [
    ("x86_64", &x86_64::X86_64),
    ("arm64", &arm64::Arm64),
    ("s390x", &s390x::S390x),
    ("ppc64le", &ppc64::Ppc64(ByteOrder::Little)),
    ("ppc64", &ppc64::Ppc64(ByteOrder::Big)),
    ("riscv64", &riscv64::Riscv64),
    ("loongarch64", &loongarch64::Loongarch64),
];

impl Platform {
    fn new((name, arch): (&'static str, &'static dyn Architecture)) -> Self {
        let page_shift = arch.page_shifts()[0];
        let bits = arch.bits(page_shift).first().copied().unwrap_or(0);
        Self {
            name,
            page_shift,
            bits,
            hardware_bits: bits,
            ..Self::default()
        }
    }

    /// Returns what the architecture with this name does.
    pub(crate) fn arch(&self) -> &'static dyn Architecture {
        let found = ALL.iter().find(|(name, _)| *name == self.name);
        found.map_or(ALL[0].1, |(_, arch)| *arch)
    }

    /// Returns the defaults of the architecture with this name in a text.
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter()
            .find(|(other, _)| *other == name)
            .map(Self::new)
    }

    /// Returns the names of all architectures.
    pub fn names() -> Vec<&'static str> {
        ALL.iter().map(|(name, _)| *name).collect()
    }

    /// Parses `arch NAME [KEY=VALUE …]`.
    pub(crate) fn from_words(line: usize, words: &[&str]) -> Result<Self, SynthError> {
        let fail = |message: String| Err(SynthError::line(line, message));
        let (name, settings) = words.split_first().unwrap_or((&"", &[]));
        let Some(mut platform) = Self::named(name) else {
            return fail(format!(
                "unknown architecture `{name}`; there are {}",
                Self::names().join(", ")
            ));
        };
        let arch = platform.arch();
        let (mut bits, mut hardware) = (None, None);
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            match (key, value) {
                ("pages", _) => {
                    let shift = size_shift(value).filter(|it| arch.page_shifts().contains(it));
                    let Some(shift) = shift else {
                        return fail(format!("{name} has no pages of `{value}`"));
                    };
                    platform.page_shift = shift;
                }
                ("bits", _) => bits = value.parse().ok(),
                ("hardware_bits", _) => hardware = value.parse().ok(),
                ("memstart", _) => platform.memstart = Some(crate::text::signed(line, value)?),
                ("mmu", "radix") => platform.hash = false,
                ("mmu", "hash") => platform.hash = true,
                _ => return fail(format!("`{setting}` is not a setting of an architecture")),
            }
        }
        let all = arch.bits(platform.page_shift);
        platform.bits = bits.or(all.first().copied()).unwrap_or(0);
        platform.hardware_bits = hardware.unwrap_or(platform.bits);
        if bits.is_some() && !all.contains(&platform.bits) {
            return fail(format!("{name}: bits= wants one of {all:?}"));
        }
        arch.check_platform(&platform)
            .map_err(|message| SynthError::line(line, message))?;
        Ok(platform)
    }

    /// Returns the order of words in memory.
    pub fn order(&self) -> ByteOrder {
        self.arch().order()
    }

    /// Returns the name of the machine in utsname.
    pub fn machine(&self) -> &'static str {
        self.arch().machine()
    }

    /// Returns log2 of the size of a leaf, if the architecture has it.
    pub(crate) fn leaf_shift(&self, leaf: Leaf) -> Option<u32> {
        match leaf {
            Leaf::Small => Some(self.page_shift),
            _ => self.arch().leaf_shift(self, leaf),
        }
    }
}
